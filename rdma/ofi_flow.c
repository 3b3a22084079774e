/* SPDX-License-Identifier: BSD-3-Clause
 * See ofi_flow.h. Transfers stay in a ring until all their pieces are complete: the oldest is at
 * `oldest`, the first that is not posted whole at `next`, the next free place at `end`. */
#include "rdma/ofi_flow.h"
#include "base/error.h"
#include "rdma/transfer.h"
#include "sluice.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
	struct transfer x;
	struct ofi_target target;
	void *desc;
	size_t posted; /* bytes */
	int pieces;    /* under way */
	int whole;     /* all pieces are posted */
};

struct piece {
	struct fi_context2 context; /* libfabric's, first */
	struct ofi_flow *flow;
	struct entry *entry;
	struct piece *free; /* the next free one */
};

struct ofi_flow {
	struct ofi_flow_config config;
	uint32_t token;
	int ordered, abandoned;
	uint32_t oldest, next, end; /* modulo 2^32; FLOW_TRANSFERS divides it */
	int out, puts_out;          /* pieces */
	uint64_t moved_ns;
	struct piece *free;
	struct piece pieces[FLOW_PIECES];
	struct entry ring[FLOW_TRANSFERS];
};

size_t ofi_flow_copy_bytes(void)
{
	return (size_t)FLOW_TRANSFERS * TRANSFER_INLINE_BYTES;
}

int ofi_flow_open(const struct ofi_flow_config *config, struct ofi_flow **out)
{
	struct ofi_flow *f = calloc(1, sizeof(*f));

	if (!f)
		return fail(SLUICE_ENOMEM, "ofi: no memory for %zu bytes", sizeof(*f));
	f->config = *config;
	f->ordered = ofi_fabric_is_ordered(config->fabric);
	for (int i = 0; i < FLOW_PIECES; i++) {
		f->pieces[i].flow = f;
		f->pieces[i].free = f->free;
		f->free = &f->pieces[i];
	}
	*out = f;
	return SLUICE_OK;
}

void ofi_flow_close(struct ofi_flow **flow)
{
	free(*flow);
	*flow = NULL;
}

void ofi_flow_use_token(struct ofi_flow *f, uint32_t token)
{
	f->token = token;
}

static struct entry *entry_at(struct ofi_flow *f, uint32_t i)
{
	return &f->ring[i % FLOW_TRANSFERS];
}

int ofi_flow_waits(const struct ofi_flow *f)
{
	return f->next != f->end;
}

int ofi_flow_is_refused(const struct ofi_flow *f)
{
	return f->next != f->end && !f->out;
}

int ofi_flow_is_idle(const struct ofi_flow *f)
{
	return f->next == f->end && !f->out;
}

/* ---- out -------------------------------------------------------------------------- */

int ofi_flow_room(const struct ofi_flow *f, const struct transfer *x)
{
	return f->end - f->oldest < FLOW_TRANSFERS &&
	       (!transfer_ends(x) || event_queue_room(f->config.events) > *f->config.promised);
}

int ofi_flow_append(struct ofi_flow *f, const struct transfer *x, uint64_t now_ns)
{
	struct entry *e = entry_at(f, f->end);
	const int copied = x->bytes > 0 && !x->local_region;
	int rc = SLUICE_OK;

	*e = (struct entry){ .x = *x, .target = ofi_memory_target(x->remote) };
	if (copied)
		e->x.local = memcpy(f->config.copy +
					    f->end % FLOW_TRANSFERS * TRANSFER_INLINE_BYTES,
				    x->local, x->bytes);
	if (x->bytes > 0)
		rc = ofi_memory_local(f->config.memory, copied ? f->config.copies : x->local_region,
				      &e->desc);
	if (rc)
		return rc;
	if (ofi_flow_is_idle(f))
		f->moved_ns = now_ns;
	*f->config.promised += (uint32_t)transfer_ends(x);
	f->end++;
	return SLUICE_OK;
}

/* Whether the next piece of e must wait for the puts before it to be in place. */
static int waits_for_order(const struct ofi_flow *f, const struct entry *e, int last)
{
	return !f->ordered && e->x.kind != TRANSFER_GET && f->puts_out > 0 &&
	       (e->posted == 0 || last);
}

/* 0: posted. Else what libfabric returned, -FI_EAGAIN also where it has to wait. */
static ssize_t post_piece(struct ofi_flow *f, struct entry *e)
{
	const struct transfer *x = &e->x;
	const size_t left = x->bytes - e->posted;
	const size_t n = left < FLOW_PIECE_BYTES ? left : FLOW_PIECE_BYTES;
	struct piece *piece = f->free;
	struct ofi_piece what = {
		.local = x->bytes ? (uint8_t *)x->local + e->posted : NULL,
		.bytes = n,
		.desc = e->desc,
		.to = f->config.address,
		.address = e->target.address + x->offset + e->posted,
		.key = e->target.key,
		.data = (uint64_t)f->token << 32 | x->imm,
		.announce = x->kind == TRANSFER_PUT_NOTIFY && n == left,
		.placed = x->report || !f->ordered,
	};
	ssize_t rc;

	if (!piece || waits_for_order(f, e, n == left))
		return -FI_EAGAIN;
	what.context = &piece->context;
	rc = x->kind == TRANSFER_GET ? ofi_fabric_get(f->config.fabric, &what) :
				       ofi_fabric_put(f->config.fabric, &what);
	if (rc)
		return rc;
	f->free = piece->free;
	piece->entry = e;
	e->posted += n;
	e->pieces++;
	e->whole = n == left;
	f->out++;
	f->puts_out += x->kind != TRANSFER_GET;
	return 0;
}

int ofi_flow_push(struct ofi_flow *f, uint64_t now_ns, char why[160])
{
	while (f->next != f->end) {
		struct entry *e = entry_at(f, f->next);
		const ssize_t rc = post_piece(f, e);

		if (rc == -FI_EAGAIN)
			return 0;
		if (rc) {
			snprintf(why, 160, "libfabric refuses a %s of %zu bytes: %s",
				 e->x.kind == TRANSFER_GET ? "get" : "put", e->x.bytes,
				 ofi_fabric_error(f->config.fabric, rc));
			return -1;
		}
		f->moved_ns = now_ns;
		if (e->whole)
			f->next++;
	}
	return 0;
}

/* ---- back ------------------------------------------------------------------------- */

struct ofi_flow *ofi_flow_of(void *context)
{
	return ((struct piece *)context)->flow;
}

int ofi_flow_peer(const struct ofi_flow *f)
{
	return f->config.peer;
}

static void tell_end(struct ofi_flow *f, const struct entry *e, int status)
{
	if (!transfer_ends(&e->x))
		return;
	--*f->config.promised;
	event_queue_put(f->config.events, &(struct event){ .kind = EVENT_DONE,
							   .peer = f->config.peer,
							   .cookie = e->x.cookie,
							   .status = status });
}

int ofi_flow_completed(struct ofi_flow *f, const struct ofi_completion *completion, uint64_t now_ns,
		       char why[160])
{
	struct piece *piece = completion->context;
	struct entry *e = piece->entry;

	piece->free = f->free;
	f->free = piece;
	if (f->abandoned)
		return 0;
	f->out--;
	f->puts_out -= e->x.kind != TRANSFER_GET;
	f->moved_ns = now_ns;
	e->pieces--;
	if (completion->error) {
		e->whole = 0; /* ofi_flow_abandon() tells of it */
		if (completion->broken)
			snprintf(why, 160,
				 "its process ended, or the connection to it broke (%.80s)",
				 completion->text);
		else
			snprintf(why, 160, "a %s of %zu bytes failed: %.100s",
				 e->x.kind == TRANSFER_GET ? "get" : "put", e->x.bytes,
				 completion->text);
		return -1;
	}
	if (e->whole && !e->pieces)
		tell_end(f, e, 0);
	while (f->oldest != f->next && !entry_at(f, f->oldest)->pieces)
		f->oldest++;
	return 0;
}

uint64_t ofi_flow_silent_ns(const struct ofi_flow *f, uint64_t now_ns)
{
	return ofi_flow_is_idle(f) || now_ns < f->moved_ns ? 0 : now_ns - f->moved_ns;
}

void ofi_flow_moved(struct ofi_flow *f, uint64_t now_ns)
{
	f->moved_ns = now_ns;
}

void ofi_flow_abandon(struct ofi_flow *f)
{
	f->abandoned = 1;
	for (uint32_t i = f->oldest; i != f->end; i++) {
		const struct entry *e = entry_at(f, i);

		if (!e->whole || e->pieces) /* else its end was told */
			tell_end(f, e, SLUICE_EPEER);
	}
	f->oldest = f->next = f->end;
	f->out = f->puts_out = 0;
}
