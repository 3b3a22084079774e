/* SPDX-License-Identifier: BSD-3-Clause
 * See ofi_messages.h. */
#include "rdma/ofi_messages.h"
#include "base/error.h"
#include "sluice.h"
#include <stdlib.h>
#include <string.h>

struct buffer {
	struct fi_context2 context; /* libfabric's, first */
	uint8_t *bytes;             /* OFI_FRAME_BYTES */
	int busy;                   /* 1: libfabric uses the buffer */
};

struct outgoing {
	uint8_t words[OFI_FRAME_BYTES];
	int pending;
};

struct ofi_messages {
	struct ofi_fabric *fabric;
	void *desc;
	int size;
	size_t receives;
	struct outgoing *outgoing; /* [size] */
	struct buffer buffers[];   /* the receives, and then one buffer for each rank */
};

size_t ofi_messages_bytes(int size, size_t receives)
{
	return (receives + (size_t)size) * OFI_FRAME_BYTES;
}

int ofi_messages_open(struct ofi_fabric *fabric, int size, size_t receives, uint8_t *memory,
		      void *desc, struct ofi_messages **out)
{
	const size_t n = receives + (size_t)size;
	struct ofi_messages *messages = calloc(1, sizeof(*messages) +
							  n * sizeof(messages->buffers[0]));

	if (messages)
		messages->outgoing = calloc((size_t)size, sizeof(messages->outgoing[0]));
	if (!messages || !messages->outgoing) {
		free(messages);
		return fail(SLUICE_ENOMEM, "ofi: no memory for messages to %d ranks", size);
	}
	messages->fabric = fabric;
	messages->size = size;
	messages->receives = receives;
	messages->desc = desc;
	for (size_t i = 0; i < n; i++)
		messages->buffers[i].bytes = memory + i * OFI_FRAME_BYTES;
	*out = messages;
	return SLUICE_OK;
}

void ofi_messages_close(struct ofi_messages **messages)
{
	if (!*messages)
		return;
	free((*messages)->outgoing);
	free(*messages);
	*messages = NULL;
}

static struct ofi_piece piece_of(const struct ofi_messages *messages, struct buffer *buffer)
{
	return (struct ofi_piece){ .local = buffer->bytes,
				   .bytes = OFI_FRAME_BYTES,
				   .desc = messages->desc,
				   .context = &buffer->context };
}

static void receive(struct ofi_messages *messages, struct buffer *buffer)
{
	const struct ofi_piece piece = piece_of(messages, buffer);

	if (!buffer->busy)
		buffer->busy = !ofi_fabric_receive(messages->fabric, &piece);
}

void ofi_messages_receive(struct ofi_messages *messages)
{
	for (size_t i = 0; i < messages->receives; i++)
		receive(messages, &messages->buffers[i]);
}

static int is_buffer(const struct ofi_messages *messages, const void *context)
{
	const uintptr_t at = (uintptr_t)context, first = (uintptr_t)messages->buffers;

	return at >= first &&
	       at < (uintptr_t)(messages->buffers + messages->receives + messages->size);
}

void ofi_messages_reuse(struct ofi_messages *messages, void *context)
{
	struct buffer *buffer = context;

	if (!is_buffer(messages, context) || buffer >= messages->buffers + messages->receives)
		return;
	buffer->busy = 0;
	receive(messages, buffer);
}

void ofi_messages_write(struct ofi_messages *messages, int rank,
			const uint8_t message[OFI_FRAME_BYTES])
{
	memcpy(messages->outgoing[rank].words, message, OFI_FRAME_BYTES);
	messages->outgoing[rank].pending = 1;
}

int ofi_messages_pending(const struct ofi_messages *messages, int rank)
{
	return messages->outgoing[rank].pending;
}

void ofi_messages_send(struct ofi_messages *messages, int rank, fi_addr_t to)
{
	struct outgoing *out = &messages->outgoing[rank];
	struct buffer *buffer = &messages->buffers[messages->receives + (size_t)rank];
	struct ofi_piece piece = piece_of(messages, buffer);
	ssize_t rc;

	if (!out->pending || buffer->busy)
		return;
	memcpy(buffer->bytes, out->words, OFI_FRAME_BYTES);
	piece.to = to;
	rc = ofi_fabric_send(messages->fabric, &piece);
	buffer->busy = !rc;
	if (!rc)
		out->pending = 0; /* unless it was sent, the next poll tries again, because the
				     last message is written only once */
}

enum ofi_message ofi_messages_take(struct ofi_messages *messages, const struct ofi_completion *c,
				   int *rank, uint8_t message[OFI_FRAME_BYTES], size_t *n)
{
	struct buffer *buffer = c->context;
	size_t number;

	if (!is_buffer(messages, buffer))
		return OFI_MESSAGE_NONE;
	buffer->busy = 0;
	number = (size_t)(buffer - messages->buffers);
	if (number >= messages->receives) {
		*rank = (int)(number - messages->receives);
		return c->error ? OFI_MESSAGE_FAILED : OFI_MESSAGE_SENT;
	}
	*rank = -1;
	*n = c->bytes < OFI_FRAME_BYTES ? c->bytes : OFI_FRAME_BYTES;
	memcpy(message, buffer->bytes, *n);
	receive(messages, buffer);
	return c->error ? OFI_MESSAGE_FAILED : OFI_MESSAGE_CAME;
}
