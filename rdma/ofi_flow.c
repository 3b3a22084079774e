/* SPDX-License-Identifier: BSD-3-Clause
 * See ofi_flow.h. Transfers stay in a ring until all their pieces are complete: `oldest` is the
 * oldest one, `next` the first one that is not fully posted, `end` the next free place. */
#include "rdma/ofi_flow.h"
#include "base/error.h"
#include "rdma/ofi_count.h"
#include "rdma/stream.h"
#include "rdma/transfer.h"
#include "sluice.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REFUSED_NS = 20000, REFUSALS_MAX = 50 };
struct entry {
	struct transfer x;
	struct ofi_target target;
	void *desc;
	size_t posted; /* bytes */
	int pieces;    /* under way */
	int has_low;   /* 1: a piece carries the lower half of the immediate (ofi_count.h) */
	/* 1: all pieces are posted, and so is the message if a message announces the transfer */
	int whole;
};

struct piece {
	struct fi_context2 context; /* libfabric's, first */
	struct ofi_flow *flow;
	struct entry *entry; /* NULL: the piece is free */
	uint32_t number;     /* the number of a counted put */
	size_t large;        /* bytes of the piece if `large` of the flow counts the piece;
				otherwise 0 */
	int alone;           /* 1: nothing else was under way when the piece was posted */
	uint64_t since_ns;   /* when the piece was posted */
	struct piece *free;  /* the next free piece */
};

struct ofi_flow {
	struct ofi_flow_config config;
	uint32_t token;
	int ordered, abandoned;
	int counted;                 /* 1: puts carry numbers, and need no order (ofi_count.h) */
	uint32_t number, floor;      /* the number of the next put; no put with a number below
					floor is under way */
	uint16_t high;               /* the upper half of the last notice's immediate */
	int stream;                  /* 1: all bytes for the peer go through one stream */
	struct stream_limits limits; /* of large */
	struct stream large[2];      /* [0]: pieces of puts, [1]: pieces of gets */
	uint32_t oldest, next, end;  /* counted modulo 2^32, which FLOW_TRANSFERS divides */
	int out, puts_out;           /* pieces */
	uint64_t moves;              /* counts completions, and arrivals from the peer */
	uint64_t moved_ns, retry_ns; /* retry_ns is used after a transfer was refused while
					nothing was under way */
	/* Number of attempts in a row that were refused. It delays retries, because each attempt to
	 * reconnect costs system calls. */
	uint64_t refusals;
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
	f->counted = !config->by_message && ofi_fabric_notice(config->fabric) == OFI_NOTICE_NARROW;
	f->stream = ofi_fabric_is_tcp(config->fabric);
	f->limits = stream_limits_over_tcp(config->lost_after_ms);
	f->large[0] = f->large[1] = stream_new(&f->limits);
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

uint64_t ofi_flow_refusals(const struct ofi_flow *f)
{
	return ofi_flow_is_refused(f) ? f->refusals : 0;
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

/* Returns 1 if the next piece of e must wait until all earlier puts are in place. */
static int waits_for_order(const struct ofi_flow *f, const struct entry *e, int last)
{
	return !f->ordered && !f->counted && e->x.kind != TRANSFER_GET && f->puts_out > 0 &&
	       (e->posted == 0 || last);
}

/* Returns 1 if a message must follow the bytes of e, because puts cannot announce themselves. */
static int needs_message(const struct ofi_flow *f, const struct entry *e)
{
	return e->x.kind == TRANSFER_PUT_NOTIFY &&
	       (f->config.by_message || ofi_fabric_notice(f->config.fabric) == OFI_NOTICE_MESSAGE);
}

/* Posts the notice of e once all puts are in place. Returns what post_flow_piece() returns. */
static ssize_t post_message(struct ofi_flow *f, struct entry *e)
{
	uint8_t notice[FLOW_NOTICE_BYTES];
	ssize_t rc;

	if (f->puts_out > 0)
		return -FI_EAGAIN;
	put_le32(notice, e->x.imm);
	put_le32(notice + 4, ofi_flow_mix(f->token, e->x.imm));
	rc = ofi_fabric_inject(f->config.fabric, notice, sizeof(notice), f->config.address);
	e->whole = !rc;
	return rc;
}

/* Returns the size of the next piece of a transfer with this many bytes left. */
static size_t piece_bytes(const struct ofi_flow *f, int get, size_t left)
{
	const size_t most = f->stream ? f->large[get].piece : FLOW_PIECE_BYTES;

	return left < most ? left : most;
}

/* Returns 1 if the next counted put would be too far ahead of the oldest one that is under way. */
static int is_too_far(struct ofi_flow *f)
{
	if (f->number - f->floor < COUNT_AHEAD)
		return 0;
	f->floor = f->number;
	for (int i = 0; i < FLOW_PIECES; i++) {
		const struct piece *p = &f->pieces[i];

		if (p->entry && p->entry->x.kind != TRANSFER_GET &&
		    f->number - p->number > f->number - f->floor)
			f->floor = p->number;
	}
	return f->number - f->floor >= COUNT_AHEAD;
}

/* Returns which part of its notice the next put of e carries. If the upper half of the immediate
 * differs from the previous one, the first put carries the lower half. The last put, which may be
 * empty, then carries the upper half. */
static enum count_kind next_kind(const struct ofi_flow *f, const struct entry *e, int last)
{
	if (e->x.kind != TRANSFER_PUT_NOTIFY)
		return COUNT_BYTES;
	if (e->has_low)
		return last ? COUNT_HIGH : COUNT_BYTES;
	if (e->x.imm >> 16 == f->high)
		return last ? COUNT_SAME : COUNT_BYTES;
	return COUNT_LOW;
}

static void count_put(struct ofi_flow *f, struct entry *e, struct piece *piece,
		      enum count_kind kind)
{
	piece->number = f->number++;
	e->has_low |= kind == COUNT_LOW;
	if (kind == COUNT_HIGH)
		f->high = (uint16_t)(e->x.imm >> 16);
}

/* Returns 0 if a piece was posted, -FI_EAGAIN if it must wait, or another error of libfabric. */
static ssize_t post_flow_piece(struct ofi_flow *f, struct entry *e, uint64_t now_ns)
{
	const struct transfer *x = &e->x;
	const int get = x->kind == TRANSFER_GET;
	const size_t left = x->bytes - e->posted, n = piece_bytes(f, get, left);
	const size_t large = f->stream && stream_counts(&f->large[get], n) ? n : 0;
	struct piece *piece = f->free;
	struct ofi_piece what = {
		.local = x->bytes ? (uint8_t *)x->local + e->posted : NULL,
		.bytes = n,
		.desc = e->desc,
		.to = f->config.address,
		.address = e->target.address + x->offset + e->posted,
		.key = e->target.key,
		.data = (uint64_t)ofi_flow_mix(f->token, x->imm) << 32 | x->imm,
		.announce = x->kind == TRANSFER_PUT_NOTIFY && n == left,
		.placed = x->report || (!f->ordered && !f->counted) || f->stream,
	};
	const int by_message = needs_message(f, e);
	const int counts = f->counted && !get;
	const enum count_kind kind = counts ? next_kind(f, e, n == left) : COUNT_BYTES;
	ssize_t rc;

	if (by_message && !left)
		return post_message(f, e);
	if (by_message) {
		what.announce = 0;
		what.placed = 1;
	}
	if (counts) {
		what.announce = 1;
		what.data = count_word(kind, f->number,
				       (uint16_t)(kind == COUNT_HIGH ? x->imm >> 16 : x->imm));
	}
	if (!piece || waits_for_order(f, e, n == left) || (counts && is_too_far(f)) ||
	    (large && stream_is_full(&f->large[get])))
		return -FI_EAGAIN;
	what.context = &piece->context;
	rc = get ? ofi_fabric_get(f->config.fabric, &what) :
		   ofi_fabric_put(f->config.fabric, &what);
	if (rc)
		return rc;
	f->free = piece->free;
	piece->entry = e;
	piece->large = large;
	piece->alone = !f->out;
	piece->since_ns = now_ns;
	if (large)
		stream_post(&f->large[get]);
	e->posted += n;
	e->pieces++;
	e->whole = n == left && !by_message && kind != COUNT_LOW;
	if (counts)
		count_put(f, e, piece, kind);
	f->out++;
	f->puts_out += !get;
	return 0;
}

static void report_end(struct ofi_flow *f, const struct entry *e, int status)
{
	if (!transfer_ends(&e->x))
		return;
	--*f->config.promised;
	event_queue_put(f->config.events, &(struct event){ .kind = EVENT_DONE,
							   .peer = f->config.peer,
							   .cookie = e->x.cookie,
							   .status = status });
}

/* Reports the end of e if all pieces of it are done. */
static void finish_entry(struct ofi_flow *f, const struct entry *e)
{
	if (!e->whole || e->pieces)
		return;
	report_end(f, e, 0);
	while (f->oldest != f->next && !entry_at(f, f->oldest)->pieces)
		f->oldest++;
}

/* Some providers claim that puts can carry data, but then refuse such puts. Messages then replace
 * the data. */
static int cannot_announce(struct ofi_flow *f, const struct entry *e, ssize_t rc)
{
	if (e->x.kind != TRANSFER_PUT_NOTIFY || (rc != -FI_ENOSYS && rc != -FI_EOPNOTSUPP) ||
	    f->counted || needs_message(f, e))
		return 0;
	ofi_fabric_use_notice(f->config.fabric, OFI_NOTICE_MESSAGE);
	return 1;
}

static uint64_t refusal_delay_ns(uint64_t refusals)
{
	return (refusals < REFUSALS_MAX ? refusals : REFUSALS_MAX) * REFUSED_NS;
}

int ofi_flow_push(struct ofi_flow *f, uint64_t now_ns, char why[160])
{
	while (f->next != f->end && now_ns >= f->retry_ns) {
		struct entry *e = entry_at(f, f->next);
		const ssize_t rc = post_flow_piece(f, e, now_ns);

		if (rc == -FI_EAGAIN && !f->out) {
			f->refusals++;
			f->retry_ns = now_ns + refusal_delay_ns(f->refusals);
		}
		if (rc == -FI_EAGAIN)
			return 0;
		f->refusals = 0;
		if (cannot_announce(f, e, rc))
			continue;
		if (rc) {
			snprintf(why, 160, "libfabric refuses a %s of %zu bytes: %s",
				 e->x.kind == TRANSFER_GET ? "get" : "put", e->x.bytes,
				 ofi_fabric_error(f->config.fabric, rc));
			return -1;
		}
		f->moved_ns = now_ns;
		if (!e->whole)
			continue;
		f->next++;
		finish_entry(f, e); /* a message has no completion */
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

int ofi_flow_completed(struct ofi_flow *f, const struct ofi_completion *completion, uint64_t now_ns,
		       char why[160])
{
	struct piece *piece = completion->context;
	struct entry *e = piece->entry;

	piece->entry = NULL;
	piece->free = f->free;
	f->free = piece;
	if (f->abandoned)
		return 0;
	f->out--;
	f->puts_out -= e->x.kind != TRANSFER_GET;
	if (piece->large)
		stream_end(&f->large[e->x.kind == TRANSFER_GET], piece->large,
			   now_ns - piece->since_ns, now_ns);
	for (int i = 0; i < 2 && piece->alone && !completion->error; i++)
		stream_alone(&f->large[i], now_ns - piece->since_ns);
	f->moved_ns = now_ns;
	f->moves++;
	e->pieces--;
	if (completion->error) {
		e->whole = 0; /* ofi_flow_abandon() then reports it */
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
	finish_entry(f, e);
	return 0;
}

uint64_t ofi_flow_silent_ns(const struct ofi_flow *f, uint64_t now_ns)
{
	return ofi_flow_is_idle(f) || now_ns < f->moved_ns ? 0 : now_ns - f->moved_ns;
}

uint64_t ofi_flow_moves(const struct ofi_flow *f)
{
	return f->moves;
}

void ofi_flow_moved(struct ofi_flow *f, uint64_t now_ns)
{
	f->moves++;
	f->moved_ns = now_ns;
}

void ofi_flow_abandon(struct ofi_flow *f)
{
	f->abandoned = 1;
	for (uint32_t i = f->oldest; i != f->end; i++) {
		const struct entry *e = entry_at(f, i);

		if (!e->whole || e->pieces) /* without this, its end was reported already */
			report_end(f, e, SLUICE_EPEER);
	}
	f->oldest = f->next = f->end;
	f->out = f->puts_out = 0;
}
