/* SPDX-License-Identifier: BSD-3-Clause
 * Membership: continuing without lost workers (on_failure=continue). Called by peers.c when a rank
 * is lost or a membership block arrived, and by collective.c when a round can be closed.
 *
 * Only workers can be dropped. A server owns shards, so its loss ends the job. Because the job
 * cannot outlive any server, the first server (the announcer, which is the lowest rank whose loss
 * ends the job) decides alone. There is no election, nothing has to be repaired when rank 0 dies,
 * and epochs have a single order:
 *
 *   any rank    notices that worker w is lost (its process ended, its heartbeat stopped, it gave
 *               up, or it broke the wire format), and writes its block without w into its line at
 *               the announcer.
 *   announcer   drops w: the epoch grows by one, w's bit is cleared, and the block is written into
 *               the announcer's line at every rank. It is also written at w, so that a worker that
 *               was only stopped learns of it when it wakes up.
 *   every rank  adopts the epoch: w's messages, pushes and reports do not count any more. Bits are
 *               only ever cleared, because a lost worker does not come back. If a block is
 *               overwritten before it was read, nothing is missed, because the newer one includes
 *               it.
 *
 * A report is always believed, because a worker that some rank cannot reach is of no use to the
 * job. The shards adopt an epoch at different moments, so one shard may count the last push of a
 * lost worker and another may not. The replicas nevertheless stay equal bit by bit: each shard
 * publishes one delta per step with the divisor that it counted, and all workers apply that delta.
 *
 * The same block closes the rounds of the collectives (collective.c). A rank reports that it holds
 * all messages of a round, and the announcer answers with the round's number and the workers that
 * count in it.
 *
 * The announcer's block has its epoch and the workers in it, and the last closed round and the
 * workers in that. The block of another rank has its epoch, the workers that it can reach, and the
 * last round whose messages it holds. */
#include "base/bytes.h"
#include "base/log.h"
#include "job/state.h"
#include "job/living.h"
#include "job/members.h"
#include "job/page.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct member {
	/* used by the announcer: the last round for which this peer has all messages */
	uint64_t held_seq;
	int due; /* 1: this rank must still write its membership block to this peer */
};

struct membership {
	int due; /* number of peers that still need this rank's block */
	/* the last round for which this rank has the messages of all living ranks */
	uint64_t held_seq;
	uint64_t closed_seq; /* the last round that the announcer closed */
	struct member of[];  /* size */
};

static int announcer(const sluice_job *job)
{
	return job->workers;
}

int members_open(sluice_job *job)
{
	if (strcmp(job->settings.on_failure, "continue"))
		return 0;
	if (!job->servers)
		return fail(
			SLUICE_EINVAL,
			"on_failure=continue needs dedicated servers: the loss of a worker that "
			"owns shards is the loss of a part of the model; start ranks that only own "
			"shards (servers=N, SLUICE_SERVERS) or choose on_failure=abort");
	if (job->workers > MEMBERS_MAX)
		return fail(SLUICE_EINVAL,
			    "on_failure=continue is not possible with %d workers, because the "
			    "limit is %d: choose on_failure=abort",
			    job->workers, MEMBERS_MAX);
	job->members = calloc(1, sizeof(*job->members) +
					 (size_t)job->size * sizeof(job->members->of[0]));
	if (!job->members)
		return fail(SLUICE_ENOMEM, "no memory for %d peers", job->size);
	return living_open(job);
}

void members_close(sluice_job *job)
{
	living_close(job);
	free(job->members);
	job->members = NULL;
}

/* ---- writing --------------------------------------------------------------- */

static int post_members(sluice_job *job, int peer)
{
	return lines_put(job, peer, LINE_MEMBERS, outbox_members(job), MEMBERS_BLOCK_BYTES,
			 imm_make(IMM_MEMBERS, 0));
}

static void make_due(sluice_job *job, int peer)
{
	struct membership *m = job->members;
	if (peer == job->rank || !job->peers[peer].control || m->of[peer].due)
		return;
	m->of[peer].due = 1;
	m->due++;
}

void members_post(sluice_job *job)
{
	struct membership *m = job->members;
	for (int p = 0; m && m->due && p < job->size; p++) {
		if (!m->of[p].due || (post_members(job, p) == SLUICE_EAGAIN && job_living(job, p)))
			continue;
		m->of[p].due = 0; /* a lost peer gets only one attempt */
		m->due--;
	}
}

/* The block may be rewritten while a transport still sends the older one. The reader then finds a
 * wrong checksum, and gets a notify for the new block later. */
static void write_members(sluice_job *job)
{
	struct membership *m = job->members;
	uint8_t *block = outbox_members(job);
	int announces = job->rank == announcer(job);
	put_le32(block, job->membership_epoch);
	put_le64(block + 8, announces ? m->closed_seq : m->held_seq);
	memcpy(block + MEMBERS_HEADER_BYTES, living_bits(job), MEMBERS_BYTES);
	memcpy(block + MEMBERS_HEADER_BYTES + MEMBERS_BYTES, living_round_bits(job), MEMBERS_BYTES);
	for (int w = 0; w < job->workers; w++)
		if (job->peers[w].state == PEER_LOST)
			block[MEMBERS_HEADER_BYTES + w / 8] &= (uint8_t) ~(1 << w % 8);
	put_le32(block + 4, crc32c(crc32c(0, block, 4), block + 8, MEMBERS_BLOCK_BYTES - 8));
	for (int p = 0; p < job->size; p++)
		if (announces || p == announcer(job))
			make_due(job, p);
	members_post(job);
}

/* ---- dropping -------------------------------------------------------------- */

/* Removes the worker from this rank's own state. */
static void drop(sluice_job *job, int worker)
{
	struct endpoint *e = job->peers[worker].endpoint;
	job->peers[worker].state = PEER_LOST;
	page_show_loss(job, worker, "another rank reported it");
	/* Access must be revoked here and not only when the connection ends: a worker that hung may
	 * continue and write. */
	if (e && e->transport->ops->revoke)
		e->transport->ops->revoke(e);
	living_drop(job, worker);
	clients_handler(&job->clients)->worker_dropped(job, worker);
}

static void log_epoch(const sluice_job *job)
{
	log_line(LOG_INFO, "runtime", "membership epoch %u: %d of %d workers are left",
		 job->membership_epoch, sluice_living(job), job->workers);
}

static void close_round(sluice_job *job);

int members_lost(sluice_job *job, int peer, const char *why)
{
	struct membership *m = job->members;
	if (!m)
		return 0;
	if (!job_living(job, peer))
		return 1;
	members_overtaken(job); /* the other ranks may have dropped this rank */
	if (job->failure.code)
		return 1;
	if (peer >= job->workers)
		return 0;
	if (job->rank == announcer(job) && sluice_living(job) == 1)
		return 0; /* without this one, no worker would be left */
	log_line(LOG_WARN, "runtime", "%s is lost: %s; the job continues without it",
		 rank_text(job, peer), why);
	if (!job_living(job, peer))
		return 1; /* the loss belongs to an epoch that was already adopted */
	if (job->rank == announcer(job)) {
		job->membership_epoch++;
		drop(job, peer);
		log_epoch(job);
	}
	write_members(job);
	if (job->rank == announcer(job))
		close_round(job);
	return 1;
}

/* ---- rounds ---------------------------------------------------------------- */

/* Called by the announcer. Closes a round when all living ranks have its messages. The workers that
 * are now alive count in the round. This is safe, because every rank has reported that it has their
 * messages, and no rank can be in the next round yet. */
static void close_round(sluice_job *job)
{
	struct membership *m = job->members;
	uint64_t seq = m->closed_seq + 1;
	if (m->held_seq < seq)
		return;
	for (int p = 0; p < job->size; p++)
		if (p != job->rank && job_living(job, p) && m->of[p].held_seq < seq)
			return;
	living_count(job, living_bits(job));
	m->closed_seq = seq;
	write_members(job);
}

void members_held(sluice_job *job, uint64_t seq)
{
	if (job->members->held_seq >= seq)
		return;
	job->members->held_seq = seq;
	if (job->rank == announcer(job))
		close_round(job);
	else
		write_members(job);
}

int members_hold(const sluice_job *job, uint64_t seq)
{
	return job->members->held_seq >= seq;
}

int members_closed(const sluice_job *job, uint64_t seq)
{
	return job->members->closed_seq >= seq && !job->members->due;
}

/* ---- reading --------------------------------------------------------------- */

int members_unheard(const sluice_job *job, int peer, const uint8_t *block, int worker)
{
	return worker != peer && !living_bit(block + MEMBERS_HEADER_BYTES, worker) &&
	       job_living(job, worker);
}

void members_taken(sluice_job *job)
{
	close_round(job);
}

static void adopt(sluice_job *job, int from, const uint8_t *block)
{
	struct membership *m = job->members;
	uint32_t epoch = get_le32(block);
	uint64_t closed_seq = get_le64(block + 8);
	const uint8_t *living = block + MEMBERS_HEADER_BYTES;
	char closed[96];
	if (epoch < job->membership_epoch || closed_seq < m->closed_seq)
		return;
	if (sluice_is_worker(job) && !living_bit(living, job->rank)) {
		char why[ERROR_TEXT_BYTES];
		const int closing = messages_closing_text(job, job->rank, closed, sizeof(closed));
		snprintf(why, sizeof(why),
			 "%s dropped this rank: %s%sit was silent or broke the rules, and the job "
			 "continues without it (SLUICE_ON_FAILURE=continue)",
			 rank_text(job, from), closed,
			 closing ? " while other workers need more of them, or " : "");
		failure_record(job, SLUICE_EPEER, job->rank, why, -1);
		return;
	}
	for (int w = 0; w < job->workers; w++) {
		if (!living_bit(living_bits(job), w) || living_bit(living, w))
			continue;
		const int closing = messages_closing_text(job, w, closed, sizeof(closed));
		/* logs a loss that this rank has not noticed itself */
		if (job->peers[w].state != PEER_LOST)
			log_line(LOG_WARN, "runtime",
				 "%s is lost: %s%s%s dropped it, and its log says why; the job "
				 "continues without it",
				 rank_text(job, w), closed, closing ? ", and " : "",
				 rank_text(job, from));
		drop(job, w);
	}
	if (epoch > job->membership_epoch) {
		job->membership_epoch = epoch;
		log_epoch(job);
	}
	if (closed_seq > m->closed_seq) {
		living_count(job, block + MEMBERS_HEADER_BYTES + MEMBERS_BYTES);
		m->closed_seq = closed_seq;
	}
}

/* Copies the block. Returns 0, or -1 while the peer overwrites it. */
static int copy_block(const sluice_job *job, int peer, uint8_t *block)
{
	memcpy(block, line_of(job, peer) + LINE_MEMBERS, MEMBERS_BLOCK_BYTES);
	return get_le32(block + 4) !=
	       crc32c(crc32c(0, block, 4), block + 8, MEMBERS_BLOCK_BYTES - 8);
}

int members_may_write(const sluice_job *job, int peer)
{
	return job->rank == announcer(job) || peer == announcer(job);
}

int members_arrived(sluice_job *job, int peer, uint8_t block[MEMBERS_BLOCK_BYTES])
{
	struct member *p = &job->members->of[peer];
	TOKEN_HELD(job);
	if (copy_block(job, peer, block))
		return 0; /* a notify for the newer block follows */
	if (job->rank != announcer(job)) {
		adopt(job, peer, block);
		return 0;
	}
	if (get_le64(block + 8) > p->held_seq)
		p->held_seq = get_le64(block + 8);
	return 1;
}

void members_overtaken(sluice_job *job)
{
	enum { TRIES = 1000 };
	uint8_t block[MEMBERS_BLOCK_BYTES];
	if (!job->members || !lines_are_open(job) || job->rank == announcer(job))
		return;
	for (int i = 0; i < TRIES; i++)
		if (!copy_block(job, announcer(job), block)) {
			adopt(job, announcer(job), block);
			return;
		}
}
