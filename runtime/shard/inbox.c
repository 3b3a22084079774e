/* SPDX-License-Identifier: BSD-3-Clause
 * See inbox.h. Called by the loop (shard.c), by the files that gather and publish for it, and by
 * events.c, which delivers the workers' notifies. */
#include "shard/inbox.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "job/peers.h"
#include "rdma/ring.h"
#include "model/compressor.h"
#include "model/model.h"
#include "shard/state.h"
#include <stdlib.h>

struct inbox {
	const uint8_t *slots; /* a ring in this rank's window, which the worker writes */
	struct ring_reader ring;
	uint64_t arrived; /* messages notified so far */
	struct announced newest;
	int notice_due; /* the worker has not been notified of the newest publication */
};

struct inboxes {
	uint64_t waiting_since_ns;
	int due;           /* number of workers with a notice_due */
	struct inbox of[]; /* one for each worker */
};

static struct inbox *inbox_of(const struct shard *shard, int worker)
{
	return &shard->inboxes->of[worker];
}

static void set_due(const struct shard *shard, int worker, int due)
{
	struct inbox *inbox = inbox_of(shard, worker);

	shard->inboxes->due += due - inbox->notice_due;
	inbox->notice_due = due;
}

/* ---- memory ---------------------------------------------------------------- */

int inboxes_open(int workers, struct inboxes **out)
{
	*out = calloc(1, sizeof(**out) + (size_t)workers * sizeof((*out)->of[0]));
	return *out ? 0 : fail(SLUICE_ENOMEM, "no memory for the inboxes of %d workers", workers);
}

void inboxes_close(struct inboxes **inboxes)
{
	free(*inboxes);
	*inboxes = NULL;
}

void inboxes_restart(struct shard *shard)
{
	const struct shard_layout *at = shard->at;

	shard->inboxes->waiting_since_ns = 0;
	for (int w = 0; w < shard->job->workers; w++) {
		struct inbox *inbox = inbox_of(shard, w);

		ring_reader_init(&inbox->ring, at->slot_depth, at->slot_bytes);
		inbox->slots = home_slots(shard->model.home, shard->id, w);
		inbox->arrived = 0;
		inbox->newest = (struct announced){ shard->published, 0, 0 };
		set_due(shard, w, 0);
	}
}

/* ---- messages from the workers ---------------------------------------------- */

int inbox_arrived(struct shard *shard, int worker)
{
	struct inbox *inbox = inbox_of(shard, worker);

	if (inbox->arrived - inbox->ring.next_seq + 1 >= shard->at->slot_depth)
		return job_blame(shard->job, SLUICE_EWIRE, worker,
				 "%s pushed more to shard %u than its slots hold",
				 rank_text(shard->job, worker), shard->id);
	inbox->arrived++;
	if (!shard->inboxes->waiting_since_ns)
		shard->inboxes->waiting_since_ns = now_ns();
	return 0;
}

int inbox_has(const struct shard *shard, int worker)
{
	const struct inbox *inbox = inbox_of(shard, worker);

	return inbox->arrived >= inbox->ring.next_seq;
}

uint64_t inbox_next_seq(const struct shard *shard, int worker)
{
	return inbox_of(shard, worker)->ring.next_seq;
}

int inbox_refuse(const struct shard *shard, int worker, const char *why)
{
	return job_blame(shard->job, SLUICE_EWIRE, worker,
			 "the push of step %llu from %s to shard %u was refused: %s",
			 (unsigned long long)shard->version + 1, rank_text(shard->job, worker),
			 shard->id, why);
}

int inbox_take(const struct shard *shard, int worker, const struct intake *intake,
	       enum inbox_depth depth, struct taken *t)
{
	const size_t room = shard->at->slot_bytes;
	const struct inbox *inbox = inbox_of(shard, worker);
	uint8_t *copy = scratch_copy(shard->scratch);
	const struct entries to = scratch_entries(shard->scratch);
	struct message_expect want = { .rank = (uint64_t)worker,
				       .epoch = model_epoch(shard->job),
				       .model = shard->model.id,
				       .shard = shard->id,
				       .seq = inbox->ring.next_seq };
	const char *why = "";
	int rc;

	t->slot = inbox->slots + ring_offset(shard->at->slot_depth, room, inbox->ring.next_seq);
	if (depth == INBOX_HEADER)
		rc = message_peek(t->slot, room, &t->m, &t->payload_crc, &why);
	else
		rc = message_copy(scratch_team(shard->scratch), t->slot, room, copy, room, &t->m,
				  &why);
	if (!rc) {
		intake->expect(shard, worker, &t->m, &want);
		rc = message_check(&t->m, &want, &why);
	}
	t->m.stream.seed = shard->rules.recipe->seed;
	if (!rc && depth == INBOX_DECODE)
		rc = message_decode(scratch_team(shard->scratch), &t->m, copy, to.index, to.value,
				    &why);
	if (!rc && (why = intake->judge(shard, worker, &t->m)))
		rc = SLUICE_EWIRE;
	return rc ? inbox_refuse(shard, worker, why) : 0;
}

int inbox_accept(struct shard *shard, int worker)
{
	struct inbox *inbox = inbox_of(shard, worker);

	return ring_reader_accept(&inbox->ring, worker, inbox->ring.next_seq);
}

void inbox_drop(struct shard *shard, int worker)
{
	struct inbox *inbox = inbox_of(shard, worker);

	shard->model.stats->refused_messages += inbox->arrived - ring_reader_consumed(&inbox->ring);
	set_due(shard, worker, 0);
}

uint64_t inboxes_waiting_since(const struct shard *shard)
{
	return shard->inboxes->waiting_since_ns;
}

void inboxes_wait_since(struct shard *shard, uint64_t ns)
{
	shard->inboxes->waiting_since_ns = ns;
}

/* ---- notices to the workers ------------------------------------------------- */

void inbox_announce(struct shard *shard, int worker, struct announced newest, int notify)
{
	inbox_of(shard, worker)->newest = newest;
	if (notify)
		set_due(shard, worker, 1);
}

/* Posts one notice. Returns 0, SLUICE_EAGAIN (try again later), SLUICE_EPEER (an event will report
 * the loss), or another error. */
static int notify(const struct shard *shard, int worker)
{
	const struct inbox *inbox = inbox_of(shard, worker);
	struct endpoint *e = shard->job->peers[worker].endpoint;
	uint8_t line[NOTICE_BYTES];
	struct transfer t = { .kind = TRANSFER_PUT_NOTIFY,
			      .local = line,
			      .bytes = sizeof(line),
			      .imm = job_imm(shard->job, IMM_NOTICE,
					     shard->model.channel + shard->id) };

	t.remote = home_notice_to(shard->model.home, shard->id, worker, &t.offset);
	put_le64(line, inbox->newest.version);
	put_le64(line + 8, inbox->newest.log_end);
	put_le64(line + 16, ring_reader_consumed(&inbox->ring));
	put_le32(line + 24, inbox->newest.bytes);
	put_le32(line + 28, crc32c(0, line, 28));
	if (!t.remote)
		return SLUICE_EPEER;
	return e->transport->ops->post(e, &t);
}

int inboxes_due(const struct shard *shard)
{
	return shard->inboxes->due > 0;
}

/* Notifies each worker of the newest publication, by one WRITE of 32 bytes. No more than one WRITE
 * per worker is unacknowledged, because the next version needs that worker's next push. */
int inboxes_notify(struct shard *shard)
{
	sluice_job *job = shard->job;
	int sent = 0;

	for (int w = 0; w < job->workers && shard->inboxes->due; w++) {
		if (!inbox_of(shard, w)->notice_due || job->peers[w].state == PEER_LOST)
			continue;
		const int rc = notify(shard, w);
		if (rc == SLUICE_EAGAIN || rc == SLUICE_EPEER)
			continue;
		if (rc) {
			job_fail(job, rc, job->rank, "cannot notify %s of shard %u",
				 rank_text(job, w), shard->id);
			return 0;
		}
		set_due(shard, w, 0);
		sent = 1;
		if (w != job->rank)
			shard->model.stats->control_bytes += NOTICE_BYTES;
	}
	return sent;
}

struct announced inbox_newest(const struct shard *shard, int worker)
{
	return inbox_of(shard, worker)->newest;
}

int inboxes_have_work(const struct shard *shard)
{
	int work = inboxes_due(shard);

	for (int w = 0; w < shard->job->workers && !work; w++)
		work = inbox_has(shard, w);
	return work;
}

/* ---- for tests -------------------------------------------------------------- */

uint64_t inbox_arrivals(const struct shard *shard, int worker)
{
	return inbox_of(shard, worker)->arrived;
}
