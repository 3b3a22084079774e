/* SPDX-License-Identifier: BSD-3-Clause
 * See ofi_letters.h. */
#include "rdma/ofi_letters.h"
#include "base/error.h"
#include "sluice.h"
#include <stdlib.h>
#include <string.h>

struct letter {
	struct fi_context2 context; /* libfabric's, first */
	uint8_t *bytes;             /* OFI_FRAME_BYTES */
	int busy;                   /* libfabric has it */
};

struct outgoing {
	uint8_t words[OFI_FRAME_BYTES];
	int pending;
};

struct ofi_letters {
	struct ofi_fabric *fabric;
	void *desc;
	int size;
	size_t receives;
	struct outgoing *outgoing; /* [size] */
	struct letter letters[];   /* so many receives, then one to each rank */
};

size_t ofi_letters_bytes(int size, size_t receives)
{
	return (receives + (size_t)size) * OFI_FRAME_BYTES;
}

int ofi_letters_open(struct ofi_fabric *fabric, int size, size_t receives, uint8_t *memory,
		     void *desc, struct ofi_letters **out)
{
	const size_t n = receives + (size_t)size;
	struct ofi_letters *l = calloc(1, sizeof(*l) + n * sizeof(l->letters[0]));

	if (l)
		l->outgoing = calloc((size_t)size, sizeof(l->outgoing[0]));
	if (!l || !l->outgoing) {
		free(l);
		return fail(SLUICE_ENOMEM, "ofi: no memory for messages to %d ranks", size);
	}
	l->fabric = fabric;
	l->size = size;
	l->receives = receives;
	l->desc = desc;
	for (size_t i = 0; i < n; i++)
		l->letters[i].bytes = memory + i * OFI_FRAME_BYTES;
	*out = l;
	return SLUICE_OK;
}

void ofi_letters_close(struct ofi_letters **l)
{
	if (!*l)
		return;
	free((*l)->outgoing);
	free(*l);
	*l = NULL;
}

static struct ofi_piece piece_of(const struct ofi_letters *l, struct letter *letter)
{
	return (struct ofi_piece){ .local = letter->bytes,
				   .bytes = OFI_FRAME_BYTES,
				   .desc = l->desc,
				   .context = &letter->context };
}

static void receive(struct ofi_letters *l, struct letter *letter)
{
	const struct ofi_piece piece = piece_of(l, letter);

	if (!letter->busy)
		letter->busy = !ofi_fabric_receive(l->fabric, &piece);
}

void ofi_letters_receive(struct ofi_letters *l)
{
	for (size_t i = 0; i < l->receives; i++)
		receive(l, &l->letters[i]);
}

static int is_letter(const struct ofi_letters *l, const void *context)
{
	const uintptr_t at = (uintptr_t)context, first = (uintptr_t)l->letters;

	return at >= first && at < (uintptr_t)(l->letters + l->receives + l->size);
}

void ofi_letters_reuse(struct ofi_letters *l, void *context)
{
	struct letter *letter = context;

	if (!is_letter(l, context) || letter >= l->letters + l->receives)
		return;
	letter->busy = 0;
	receive(l, letter);
}

void ofi_letters_write(struct ofi_letters *l, int rank, const uint8_t message[OFI_FRAME_BYTES])
{
	memcpy(l->outgoing[rank].words, message, OFI_FRAME_BYTES);
	l->outgoing[rank].pending = 1;
}

int ofi_letters_pending(const struct ofi_letters *l, int rank)
{
	return l->outgoing[rank].pending;
}

void ofi_letters_send(struct ofi_letters *l, int rank, fi_addr_t to)
{
	struct outgoing *out = &l->outgoing[rank];
	struct letter *letter = &l->letters[l->receives + (size_t)rank];
	struct ofi_piece piece = piece_of(l, letter);
	ssize_t rc;

	if (!out->pending || letter->busy)
		return;
	memcpy(letter->bytes, out->words, OFI_FRAME_BYTES);
	piece.to = to;
	rc = ofi_fabric_send(l->fabric, &piece);
	letter->busy = !rc;
	if (!rc)
		out->pending =
			0; /* else again at the next look: the last message is said once only */
}

enum ofi_letter ofi_letters_take(struct ofi_letters *l, const struct ofi_completion *c, int *rank,
				 uint8_t message[OFI_FRAME_BYTES], size_t *n)
{
	struct letter *letter = c->context;
	size_t number;

	if (!is_letter(l, letter))
		return OFI_LETTER_NONE;
	letter->busy = 0;
	number = (size_t)(letter - l->letters);
	if (number >= l->receives) {
		*rank = (int)(number - l->receives);
		return c->error ? OFI_LETTER_SPOILT : OFI_LETTER_SENT;
	}
	*rank = -1;
	*n = c->bytes < OFI_FRAME_BYTES ? c->bytes : OFI_FRAME_BYTES;
	memcpy(message, letter->bytes, *n);
	receive(l, letter);
	return c->error ? OFI_LETTER_SPOILT : OFI_LETTER_CAME;
}
