/* SPDX-License-Identifier: BSD-3-Clause
 * Moves bytes between windows. A transfer is cut into pieces, several of which are under way at a
 * time. A piece starts or ends in registered memory: this rank's own window, or a slot of the
 * bounce buffer. A transport that copies at post takes any memory, so it needs no bounce buffer. */
#include "rdma/transfer.h"
#include "job/progress_token.h"
#include "job/window_move.h"
#include "job/window_state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PIECE_BYTES = 1 << 20, /* below the message limit of every device */
	/* Every transport can report at least this many completions. */
	IN_FLIGHT = 64,
	OWN_MEMORY = 0xff /* the `slot` of a piece that needs no slot; no call waits for this piece
			     alone */
};

static uint32_t index_make(int rank, uint32_t slot)
{
	return (uint32_t)rank << 8 | slot;
}

static void landed(sluice_region *region, int rank, uint32_t pieces, int status)
{
	region->flying[rank] -= pieces;
	region->in_flight -= pieces;
	if (status && !region->status) {
		region->status = status;
		region->culprit = rank;
	}
}

void window_done(sluice_region *region, uint32_t index, int status)
{
	int rank = (int)(index >> 8);
	if (rank >= region->job->size || !region->flying[rank])
		return; /* this is a late completion of a transfer to a lost rank */
	if ((index & 0xff) < BOUNCE_SLOTS) {
		region->slot_user[index & 0xff] = 0;
		region->spoilt |= status != 0;
	}
	landed(region, rank, 1, status);
}

/* Counts the transfers to lost ranks as ended, because they may never complete. */
static void give_up_on_lost(sluice_region *region)
{
	for (int p = 0; p < region->job->size; p++)
		if (region->flying[p] && region->job->peers[p].state != PEER_ALIVE) {
			landed(region, p, region->flying[p], SLUICE_EPEER);
			for (int s = 0; s < BOUNCE_SLOTS; s++)
				if (region->slot_user[s] == p + 1) {
					region->slot_user[s] = 0;
					region->spoilt = 1;
				}
		}
}

/* A rank that was lost because it was silent may still live, and may answer a get that was given
 * up. This bounce buffer is therefore replaced. Transfers with living ranks end in the old buffer,
 * which stays until the region closes. */
static int replace_bounce(sluice_region *region)
{
	struct retired *r = malloc(sizeof *r);
	struct region *fresh = NULL;
	int rc = r ? region_open(BOUNCE_SLOTS * SLOT_BYTES, 0, "bounce", &fresh) :
		     fail(SLUICE_ENOMEM, "no memory to replace buffers after a rank was lost");
	if (rc) {
		free(r);
		return rc;
	}
	*r = (struct retired){ .next = region->retired, .region = region->bounce };
	region->retired = r;
	region->bounce = fresh;
	region->spoilt = 0;
	return 0;
}

static int take_failure(sluice_region *region)
{
	int status = region->status;
	region->status = 0;
	return status ? fail_quietly(status, "a transfer with %s failed",
				     rank_text(region->job, region->culprit)) :
			0;
}

int window_check(const sluice_region *region, int rank, size_t offset, size_t bytes,
		 const char *function)
{
	int rc;
	if (window_holds(region, rank, offset, bytes))
		return 0;
	if (!region)
		return fail(SLUICE_EINVAL, "%s: region is NULL", function);
	rc = job_check(region->job, function);
	if (rc)
		return rc;
	if (rank < 0 || rank >= region->job->size)
		return fail(SLUICE_EINVAL, "%s: there is no rank %d: ranks are 0 to %d", function,
			    rank, region->job->size - 1);
	return fail(SLUICE_EINVAL,
		    "%s: %zu bytes at offset %zu extend beyond the window of %zu bytes", function,
		    bytes, offset, region->window->bytes);
}

/* ---- one piece ------------------------------------------------------------- */

struct piece {
	sluice_region *region;
	int rank;
	struct transfer transfer;
	uint32_t slot; /* slot of the bounce buffer, or OWN_MEMORY */
	int rc;
	int settled; /* 1: the piece was posted, or never will be */
};

static struct endpoint *endpoint_of(const sluice_region *region, int rank)
{
	return region->job->peers[rank].endpoint;
}

static int copies(const sluice_region *region, int rank)
{
	const struct endpoint *e = endpoint_of(region, rank);

	return e && e->transport->ops->copies_at_post; /* NULL if the rank was lost before this
							  rank met it */
}

static int post_window_piece(struct piece *p)
{
	struct endpoint *e = endpoint_of(p->region, p->rank);
	int ends = transfer_ends(&p->transfer);
	if (ends && p->region->in_flight >= IN_FLIGHT)
		return p->rc = SLUICE_EAGAIN;
	if (!p->transfer.remote || p->region->job->peers[p->rank].state == PEER_LOST)
		return p->rc = SLUICE_EPEER; /* the process of a dropped worker may still exist */
	p->rc = e->transport->ops->post(e, &p->transfer);
	if (!p->rc && ends) {
		p->region->flying[p->rank]++;
		p->region->in_flight++;
		if (p->slot < BOUNCE_SLOTS)
			p->region->slot_user[p->slot] = p->rank + 1;
	}
	return p->rc;
}

/* Returns 1 if the piece must wait: a queue is full, or the rank is lost and the next polls will
 * report that. */
static int must_wait(const struct piece *p)
{
	return p->rc == SLUICE_EAGAIN ||
	       (p->rc == SLUICE_EPEER && p->region->job->peers[p->rank].state == PEER_ALIVE);
}

/* Posts the piece once. After a return value of 1, the waiting thread polls and calls again. */
static int piece_posted(void *context)
{
	struct piece *p = context;
	if (p->settled)
		return p->rc ? p->rc : 1;
	give_up_on_lost(p->region);
	/* A post that had to wait is tried again when half of the queue is free, so that a stream
	 * of posts seldom sleeps. */
	if (p->rc == SLUICE_EAGAIN && p->region->in_flight > IN_FLIGHT / 2)
		return 0;
	post_window_piece(p);
	p->settled = !must_wait(p);
	return p->settled && p->rc ? p->rc : p->settled;
}

static void describe_piece(void *context, char *text, size_t cap)
{
	struct piece *p = context;
	snprintf(text, cap, "a %s of %zu bytes at %s",
		 p->transfer.kind == TRANSFER_GET ? "get" : "put", p->transfer.bytes,
		 rank_text(p->region->job, p->rank));
}

static int failed_piece(const struct piece *p)
{
	if (p->rc == SLUICE_EPEER)
		return fail_quietly(SLUICE_EPEER, "a transfer of %zu bytes failed: %s is lost",
				    p->transfer.bytes, rank_text(p->region->job, p->rank));
	return p->rc;
}

/* Posts a piece and waits while a queue is full. The token must be held. */
static int post_waiting(struct piece *p)
{
	sluice_job *job = p->region->job;
	progress_unannounced(job, 1); /* no event reports that a peer's queue has free space
					 again */
	int rc = progress_until(job, piece_posted, describe_piece, p);
	progress_unannounced(job, -1);
	return p->settled && p->rc ? failed_piece(p) : rc;
}

/* Makes no system call unless a queue is full. The token must not be held. */
static int post_piece_now(struct piece *p)
{
	sluice_job *job = p->region->job;
	int rc, wait = 0;

	progress_lock(job);
	if (job->failure.code) {
		rc = job_failed(job);
	} else {
		post_window_piece(p);
		wait = must_wait(p);
		rc = wait ? 0 : failed_piece(p);
	}
	progress_unlock(job);
	if (!wait)
		return rc;
	progress_take(job);
	rc = post_waiting(p);
	progress_release(job);
	return rc;
}

/* ---- memory that needs no bounce ------------------------------------------- */

/* Puts data that fits inline: a flag, a word, or a notify alone. If it returns SLUICE_EAGAIN,
 * nothing was done, and move() waits or reports the error. Most puts are short, so this checks
 * nothing that move() would check again. */
static int put_short(sluice_region *region, int rank, size_t offset, uint8_t *local, size_t bytes,
		     int notify)
{
	sluice_job *job = region->job;
	const struct peer *peer = &job->peers[rank];
	const struct transfer x = { .kind = notify ? TRANSFER_PUT_NOTIFY : TRANSFER_PUT,
				    .remote = region->remotes[rank],
				    .offset = offset,
				    .local_region = NULL,
				    .local = local,
				    .bytes = bytes,
				    .imm = job_imm(region->job, IMM_REGION, region->id),
				    .cookie = 0,
				    .report = 0,
				    .quiet = 1 };
	int rc = SLUICE_EAGAIN;
	progress_lock(job);
	if (!job->failure.code && peer->state == PEER_ALIVE && x.remote)
		rc = peer->endpoint->transport->ops->post(peer->endpoint, &x);
	progress_unlock(job);
	return rc == SLUICE_EPEER ? SLUICE_EAGAIN : rc;
}

/* The bytes at local are in local_region. */
static int move_pieces(sluice_region *region, enum transfer_kind kind, int rank, size_t offset,
		       const struct region *local_region, uint8_t *local, size_t bytes, int notify)
{
	const int copied = copies(region, rank), put = kind == TRANSFER_PUT;
	const uint64_t cookie = job_cookie(region->job, COOKIE_REGION, region->id,
					   index_make(rank, OWN_MEMORY));
	size_t at = 0;
	int rc;
	do {
		const size_t n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
		const int inlined = put && n <= TRANSFER_INLINE_BYTES, last = at + n == bytes;
		/* Assigning the members one by one is faster: clearing the others would take as
		 * long as the transfer of a cache line. */
		struct piece p = { .region = region,
				   .rank = rank,
				   .slot = OWN_MEMORY,
				   .rc = 0,
				   .settled = 0,
				   .transfer = {
					   .kind = notify && last ? TRANSFER_PUT_NOTIFY : kind,
					   .remote = region->remotes[rank],
					   .offset = offset + at,
					   .local_region = inlined ? NULL : local_region,
					   .local = n ? local + at : NULL,
					   .bytes = n,
					   .imm = job_imm(region->job, IMM_REGION, region->id),
					   .cookie = cookie,
					   .report = put && !inlined && !copied,
					   .quiet = copied,
				   } };
		rc = post_piece_now(&p);
		at += n;
	} while (!rc && at < bytes);
	return rc;
}

static int all_landed(void *context)
{
	sluice_region *region = context;
	give_up_on_lost(region);
	return !region->in_flight;
}

static void describe_flush(void *context, char *text, size_t cap)
{
	sluice_region *region = context;
	int rank = 0;
	while (rank < region->job->size - 1 && !region->flying[rank])
		rank++;
	snprintf(text, cap, "%u transfers of a region, one of them with %s", region->in_flight,
		 rank_text(region->job, rank));
}

int sluice_region_flush(sluice_region *region)
{
	int rc = window_check(region, 0, 0, 0, "sluice_region_flush");
	if (rc)
		return rc;
	progress_take(region->job);
	if (region->in_flight)
		rc = progress_until(region->job, all_landed, describe_flush, region);
	else if (region->job->failure.code)
		rc = job_failed(region->job);
	if (!rc)
		rc = take_failure(region);
	progress_release(region->job);
	return rc;
}

/* ---- through the bounce buffer --------------------------------------------- */

static int slot_free(void *context)
{
	struct piece *p = context;
	give_up_on_lost(p->region);
	return !p->region->slot_user[p->slot];
}

static struct piece bounce_piece(sluice_region *region, enum transfer_kind kind, int rank,
				 size_t offset, size_t bytes)
{
	uint32_t slot = region->next_slot++ % BOUNCE_SLOTS;
	return (struct piece){ .region = region,
			       .rank = rank,
			       .slot = slot,
			       .transfer = {
				       .kind = kind,
				       .remote = region->remotes[rank],
				       .offset = offset,
				       .bytes = bytes,
				       .imm = job_imm(region->job, IMM_REGION, region->id),
				       .cookie = job_cookie(region->job, COOKIE_REGION, region->id,
							    index_make(rank, slot)),
				       .report = kind != TRANSFER_GET,
			       } };
}

/* Waits until the slot of a piece is free, and assigns its memory to the piece. The token must be
 * held. */
static int take_slot(struct piece *p)
{
	sluice_region *region = p->region;
	int rc = progress_until(region->job, slot_free, describe_piece, p);
	if (!rc && region->spoilt)
		rc = replace_bounce(region);
	p->transfer.local_region = region->bounce;
	p->transfer.local = (uint8_t *)region->bounce->base + (size_t)p->slot * SLOT_BYTES;
	return rc;
}

/* Returns when the last piece is copied and posted. The caller may then reuse its memory. */
static int bounce_put(sluice_region *region, int rank, size_t offset, const uint8_t *data,
		      size_t bytes, int notify)
{
	int rc = 0;
	progress_take(region->job);
	for (size_t at = 0; !rc && at < bytes; at += SLOT_BYTES) {
		size_t n = bytes - at < SLOT_BYTES ? bytes - at : SLOT_BYTES;
		struct piece p = bounce_piece(
			region, notify && at + n == bytes ? TRANSFER_PUT_NOTIFY : TRANSFER_PUT,
			rank, offset + at, n);
		rc = take_slot(&p);
		if (!rc) {
			memcpy(p.transfer.local, data + at, n);
			rc = post_waiting(&p);
		}
	}
	if (!rc)
		rc = take_failure(region);
	progress_release(region->job);
	return rc;
}

static int bounce_get(sluice_region *region, int rank, size_t offset, uint8_t *data, size_t bytes)
{
	struct piece flying[BOUNCE_SLOTS]; /* pieces n_taken .. n_posted - 1 */
	size_t pieces = (bytes + SLOT_BYTES - 1) / SLOT_BYTES, n_posted = 0, n_taken = 0;
	int rc = 0;
	progress_take(region->job);
	while (!rc && n_taken < pieces) {
		if (n_posted < pieces && n_posted - n_taken < BOUNCE_SLOTS) {
			size_t at = n_posted * SLOT_BYTES;
			struct piece *p = &flying[n_posted++ % BOUNCE_SLOTS];
			*p = bounce_piece(region, TRANSFER_GET, rank, offset + at,
					  bytes - at < SLOT_BYTES ? bytes - at : SLOT_BYTES);
			rc = take_slot(p);
			if (!rc)
				rc = post_waiting(p);
			continue;
		}
		struct piece *p = &flying[n_taken % BOUNCE_SLOTS];
		rc = progress_until(region->job, slot_free, describe_piece, p);
		if (!rc)
			rc = take_failure(region);
		if (!rc)
			memcpy(data + n_taken * SLOT_BYTES, p->transfer.local, p->transfer.bytes);
		n_taken++;
	}
	progress_release(region->job);
	return rc;
}

/* ---- put and get ----------------------------------------------------------- */

static int in_own_window(const sluice_region *region, const void *data, size_t bytes)
{
	uintptr_t base = (uintptr_t)region->window->base, at = (uintptr_t)data;
	return at >= base && at - base <= region->window->bytes &&
	       bytes <= region->window->bytes - (at - base);
}

/* Reports the error of an invalid transfer. */
static int refuse_transfer(const sluice_region *region, int rank, size_t offset, const void *data,
			   size_t bytes, int flags, int known, const char *function)
{
	int rc = window_check(region, rank, offset, bytes, function);

	if (rc)
		return rc;
	if (flags & ~known)
		return fail(SLUICE_EINVAL, "%s: there is no flag 0x%x", function,
			    (unsigned)(flags & ~known));
	if (!data)
		return fail(SLUICE_EINVAL, "%s: data is NULL", function);
	return fail(SLUICE_EINVAL,
		    "%s: the %zu bytes at %p are not inside this rank's window, but a posted "
		    "transfer needs them there: put them into it (sluice_region_base()), or "
		    "leave SLUICE_POSTED out",
		    function, bytes, data);
}

static inline int may_move(const sluice_region *region, int rank, size_t offset, const void *data,
			   size_t bytes, int flags, int known)
{
	return window_holds(region, rank, offset, bytes) && !(flags & ~known) &&
	       (!bytes ||
		(data && (!(flags & SLUICE_POSTED) || in_own_window(region, data, bytes))));
}

/* Moves bytes, and unless SLUICE_POSTED is set, waits until the caller may reuse them. If the
 * transport copies at post(), that is so at once, and nothing is awaited. */
static int move(sluice_region *region, enum transfer_kind kind, int rank, size_t offset,
		uint8_t *local, size_t bytes, int flags)
{
	const int notify = flags & SLUICE_NOTIFY, put = kind == TRANSFER_PUT;
	const struct region anywhere = { .base = local, .bytes = bytes };

	if (!(flags & SLUICE_POSTED) &&
	    (copies(region, rank) || (put && bytes <= TRANSFER_INLINE_BYTES)))
		return move_pieces(region, kind, rank, offset, &anywhere, local, bytes, notify);
	if (!(flags & SLUICE_POSTED) && !in_own_window(region, local, bytes))
		return put ? bounce_put(region, rank, offset, local, bytes, notify) :
			     bounce_get(region, rank, offset, local, bytes);
	int rc = move_pieces(region, kind, rank, offset, region->window, local, bytes, notify);
	return rc || flags & SLUICE_POSTED ? rc : sluice_region_flush(region);
}

int sluice_region_put(sluice_region *region, int rank, size_t offset, const void *data,
		      size_t bytes, int flags)
{
	const int known = SLUICE_NOTIFY | SLUICE_POSTED, notify = flags & SLUICE_NOTIFY;
	/* The const is cast away because struct transfer also serves gets. A put only reads. */
	uint8_t *local = (uint8_t *)(uintptr_t)data;
	int rc = SLUICE_EAGAIN;

	if (!may_move(region, rank, offset, data, bytes, flags, known))
		return refuse_transfer(region, rank, offset, data, bytes, flags, known,
				       "sluice_region_put");
	if (!bytes && !notify)
		return 0;
	if (bytes <= TRANSFER_INLINE_BYTES)
		rc = put_short(region, rank, offset, local, bytes, notify);
	if (rc == SLUICE_EAGAIN)
		rc = move(region, TRANSFER_PUT, rank, offset, local, bytes, flags);
	/* Only this rank's own puts can notify it in its own name. sluice_region_wait() compares
	 * with this count. */
	if (!rc && rank == region->job->rank)
		region->notifies_own += (uint64_t)notify;
	return rc;
}

int sluice_region_get(sluice_region *region, int rank, size_t offset, void *data, size_t bytes,
		      int flags)
{
	if (!may_move(region, rank, offset, data, bytes, flags, SLUICE_POSTED))
		return refuse_transfer(region, rank, offset, data, bytes, flags, SLUICE_POSTED,
				       "sluice_region_get");
	return bytes ? move(region, TRANSFER_GET, rank, offset, data, bytes, flags) : 0;
}
