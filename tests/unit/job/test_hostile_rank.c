/* SPDX-License-Identifier: BSD-3-Clause
 * A rank that writes invalid data where it has write access: it is refused by name, and the others
 * survive. Rank 1 attacks rank 0 through the transport in step 4; rank 2 takes no part. Each owns
 * one of three shards. */
#include "base/bytes.h"
#include "shard/inbox.h"
#include "shard/publish.h"
#include "shard/state.h"
#include "job/progress_token.h"
#include "worker/lane.h"
#include "worker/state.h"
#include "ranks.h"
#include "thinned.h"
#include "cases.h"
#include <string.h>

enum { COUNT = 600, VICTIM = 0, ATTACKER = 1, STEP = 4 };

struct attack {
	void (*launch)(sluice_model *model, const struct attack *attack);
	const char *says; /* expected message at the victim; NULL: harmless, the job continues */
	uint32_t imm;
	size_t offset;
	int in_barrier; /* 1: the others are in sluice_barrier, not in a step */
};

static void put(struct remote *remote, uint64_t offset, const void *bytes, size_t n, uint32_t imm)
{
	static struct region *source;
	struct endpoint *e = remote->endpoint;
	if (!source)
		CHECK_OK(region_open(1 << 16, 0, "attack", &source));
	if (n)
		memcpy(source->base, bytes, n);
	struct transfer t = { .kind = imm ? TRANSFER_PUT_NOTIFY : TRANSFER_PUT,
			      .remote = remote,
			      .offset = offset,
			      .local_region = source,
			      .local = source->base,
			      .bytes = n,
			      .imm = imm };
	CHECK_OK(e->transport->ops->post(e, &t));
}

static void notify(sluice_model *model, uint32_t imm)
{
	put(model->job->peers[VICTIM].control, 0, NULL, 0, imm);
}

/* ---- pushes ---------------------------------------------------------------- */

/* More coordinates than the recipe selects, in few bytes: consecutive coordinates need no
 * indices. */
enum { RUN = 85 };

/* Pushes a message that is valid except for the change that `spoil` makes. */
static void push_spoilt(sluice_model *model, void (*spoil)(struct message *m), size_t flip)
{
	uint32_t index[RUN] = { 3, 50 };
	float value[RUN] = { 1, 2 };
	uint8_t bytes[4096];
	const struct shard_layout *at = &model->layout.shards[VICTIM];
	struct message m = { .kind = MESSAGE_PUSH,
			     .parts = 1,
			     .rank = ATTACKER,
			     .epoch = model->job->membership_epoch,
			     .model = model->id,
			     .shard = VICTIM,
			     .seq = lane_next_seq(model->worker->lanes, VICTIM),
			     .step = STEP,
			     .have_version = STEP - 1,
			     .span = at->span,
			     .count = 2,
			     .lr = model->worker->step.lr };
	if (spoil)
		spoil(&m);
	for (uint32_t i = 0; i < m.count && m.count == RUN; i++)
		index[i] = 100 + i;
	size_t n = message_encode(NULL, &m, index, value, value, bytes, sizeof bytes);
	CHECK(n <= at->slot_bytes);
	if (flip)
		bytes[flip % n] ^= 0x10;
	put(home_holder(model->home, VICTIM, 0)->window,
	    home_holder(model->home, VICTIM, 0)->at.slots_offset +
		    ring_offset(at->slot_depth, at->slot_bytes,
				lane_next_seq(model->worker->lanes, VICTIM)),
	    bytes, n, imm_make(IMM_PUSH, model->channel + VICTIM));
}

static void push_noise(sluice_model *model, const struct attack *attack)
{
	const struct shard_layout *at = &model->layout.shards[VICTIM];
	uint8_t bytes[2 * 4096];
	CHECK(at->slot_depth * at->slot_bytes <= sizeof bytes);
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(255 * noise(1, 0, 0, i));
	put(home_holder(model->home, VICTIM, 0)->window,
	    home_holder(model->home, VICTIM, 0)->at.slots_offset, bytes,
	    at->slot_depth * at->slot_bytes, imm_make(IMM_PUSH, model->channel + VICTIM));
}

static void push_a_flipped_bit(sluice_model *model, const struct attack *attack)
{
	push_spoilt(model, NULL, attack->offset);
}

static void as_rank_2(struct message *m)
{
	m->rank = 2;
}
static void of_another_step(struct message *m)
{
	m->step++;
}
static void out_of_sequence(struct message *m)
{
	m->seq++;
}
static void of_another_version(struct message *m)
{
	m->have_version--;
}
static void with_a_choice(struct message *m)
{
	m->chosen = 1;
} /* for a recipe other than auto */
static void of_another_span(struct message *m)
{
	m->span += 50;
}
static void with_a_run(struct message *m)
{
	m->count = RUN;
}
static void as_a_delta(struct message *m)
{
	m->kind = MESSAGE_DELTA;
}

static void push_as_rank_2(sluice_model *model, const struct attack *attack)
{
	push_spoilt(model, as_rank_2, 0);
}

static void push_another_step(sluice_model *model, const struct attack *attack)
{
	push_spoilt(model, of_another_step, 0);
}

static void push_out_of_sequence(sluice_model *model, const struct attack *attack)
{
	push_spoilt(model, out_of_sequence, 0);
}

static void push_another_version(sluice_model *model, const struct attack *attack)
{
	push_spoilt(model, of_another_version, 0);
}

static void push_a_choice(sluice_model *model, const struct attack *attack)
{
	push_spoilt(model, with_a_choice, 0);
}

static void push_another_span(sluice_model *model, const struct attack *attack)
{
	push_spoilt(model, of_another_span, 0);
}

static void push_a_run(sluice_model *model, const struct attack *attack)
{
	push_spoilt(model, with_a_run, 0);
}

static void push_a_delta(sluice_model *model, const struct attack *attack)
{
	push_spoilt(model, as_a_delta, 0);
}

/* Says it pushed, and says it again. */
static void notify_again_and_again(sluice_model *model, const struct attack *attack)
{
	for (int i = 0; i < 10; i++)
		notify(model, imm_make(IMM_PUSH, model->channel + VICTIM));
}

/* ---- notices and deltas ---------------------------------------------------- */

static void put_notice(sluice_model *model, uint64_t version, uint64_t log_end, uint64_t consumed,
		       uint32_t last_bytes, uint32_t damage)
{
	uint8_t line[NOTICE_BYTES];
	put_le64(line, version);
	put_le64(line + 8, log_end);
	put_le64(line + 16, consumed);
	put_le32(line + 24, last_bytes);
	put_le32(line + 28, crc32c(0, line, 28) ^ damage);
	uint64_t offset;
	struct remote *window = home_notice_to(model->home, ATTACKER, VICTIM, &offset);
	put(window, offset, line, sizeof line, imm_make(IMM_NOTICE, model->channel + ATTACKER));
}

static void notice_that_does_not_check(sluice_model *model, const struct attack *attack)
{
	put_notice(model, STEP, 512, STEP - 1, 128, 1);
}

static void notice_that_goes_back(sluice_model *model, const struct attack *attack)
{
	put_notice(model, 0, 0, 0, 0, 0);
}

static void notice_beyond_the_log(sluice_model *model, const struct attack *attack)
{
	put_notice(model, STEP, UINT64_MAX & ~7ull, STEP - 1, UINT32_MAX, 0);
}

static void notice_of_what_was_not_pushed(sluice_model *model, const struct attack *attack)
{
	const struct shard *own = &model->shards[0];
	put_notice(model, STEP, own->log.end, 1000, inbox_newest(own, 0).bytes, 0);
}

/* Writes a valid notice of an entry that is noise, or of a delta of another step. */
static void publish_noise(sluice_model *model, const struct attack *attack)
{
	struct shard *own = &model->shards[0];
	uint8_t *entry = delta_log_reserve(&own->log, own->at->delta_bytes);
	memset(entry, 0x5a, 128);
	put_notice(model, STEP, delta_log_commit(&own->log, 128), STEP - 1, 128, 0);
}

static void publish_another_step(sluice_model *model, const struct attack *attack)
{
	struct shard *own = &model->shards[0];
	uint32_t index[] = { 3 };
	float value[] = { 1 };
	struct message m = { .kind = MESSAGE_DELTA,
			     .parts = 1,
			     .rank = ATTACKER,
			     .phase = 1,
			     .epoch = model->job->membership_epoch,
			     .model = model->id,
			     .shard = ATTACKER,
			     .seq = STEP + 1,
			     .step = STEP + 1,
			     .have_version = STEP - 1,
			     .span = own->at->span,
			     .count = 1,
			     .divisor = 3,
			     .lr = model->worker->step.lr };
	uint8_t *entry = delta_log_reserve(&own->log, own->at->delta_bytes);
	size_t n = message_encode(NULL, &m, index, value, value, entry, own->at->delta_bytes);
	put_notice(model, STEP, delta_log_commit(&own->log, n), STEP - 1, (uint32_t)n, 0);
}

/* ---- the control region ---------------------------------------------------- */

static void notify_as_said(sluice_model *model, const struct attack *attack)
{
	notify(model, attack->imm);
}

static void mail_noise(sluice_model *model, const struct attack *attack)
{
	uint8_t mails[2 * (COLLECTIVE_HEADER_BYTES + COLLECTIVE_BYTES)];
	memset(mails, 0x33, sizeof mails);
	put(model->job->peers[VICTIM].control, ATTACKER * LINE_BYTES + LINE_COLLECTIVE, mails,
	    sizeof mails, imm_make(IMM_COLLECTIVE, 0));
}

/* Header and CRC are right, but the length is not. */
static void mail_that_is_too_long(sluice_model *model, const struct attack *attack)
{
	sluice_job *job = model->job;
	uint8_t mail[COLLECTIVE_HEADER_BYTES] = { 0 };
	uint64_t seq = messages_next(job);
	put_le64(mail, seq);
	put_le32(mail + 8, COLLECTIVE_BARRIER);
	put_le32(mail + 12, UINT32_MAX);
	put_le32(mail + COLLECTIVE_CRC, crc32c(0, mail, COLLECTIVE_CRC));
	put(job->peers[VICTIM].control,
	    ATTACKER * LINE_BYTES + LINE_COLLECTIVE +
		    (seq & 1) * (COLLECTIVE_HEADER_BYTES + COLLECTIVE_BYTES),
	    mail, sizeof mail, imm_make(IMM_COLLECTIVE, 0));
}

static void report_noise(sluice_model *model, const struct attack *attack)
{
	uint8_t report[REPORT_TEXT_BYTES];
	memset(report, 0xff, sizeof report);
	put(model->job->peers[VICTIM].control, ATTACKER * LINE_BYTES + LINE_REPORT, report,
	    sizeof report, imm_make(IMM_REPORT, 0));
}

static void status_noise(sluice_model *model, const struct attack *attack)
{
	uint8_t status[16 + STATUS_TEXT_BYTES];
	memset(status, 0x44, sizeof status);
	put_le32(status, LINE_GAVE_UP);
	put(model->job->peers[VICTIM].control, ATTACKER * LINE_BYTES + LINE_STATUS, status,
	    sizeof status, imm_make(IMM_STATUS, 0));
}

/* ---- the job under attack -------------------------------------------------- */

static int never(void *context)
{
	return 0;
}

static void describe_never(void *context, char *text, size_t cap)
{
	snprintf(text, cap, "to be refused");
}

/* Waits for the answer without touching the bytes that it wrote. */
static int await_refusal(sluice_job *job)
{
	progress_take(job);
	int rc = progress_until(job, never, describe_never, NULL);
	progress_release(job);
	return rc;
}

static void under_attack(sluice_job *job, int rank, void *argument)
{
	const struct attack *attack = argument;
	float params[COUNT] = { 0 }, grad[COUNT];
	int rc = 0;
	sluice_model *model = OPEN(job, params, .count = COUNT, .shards = 3,
				   .recipe = "up=topk(0.1) down=topk(0.2)");
	log_capture();
	for (uint64_t step = 1; step <= 10 && !rc; step++) {
		for (uint64_t i = 0; i < COUNT; i++)
			grad[i] = noise(2, step, (uint64_t)rank, i);
		if (step == STEP) /* all have pulled the previous step */
			rc = sluice_barrier(job);
		if (rank == ATTACKER && step == STEP) {
			CHECK_OK(rc);
			progress_take(job); /* this rank's shard must not work meanwhile */
			attack->launch(model, attack);
			progress_release(job);
			if (attack->says)
				rc = await_refusal(job);
		} else if (!rc && step == STEP && attack->in_barrier) {
			rc = sluice_barrier(job);
		}
		if (!rc)
			rc = try_step(model, grad, params);
	}
	if (attack->says) {
		CHECK(rc == (rank == VICTIM ? SLUICE_EWIRE : SLUICE_EPEER));
		CHECK(error_says("rank 1 (node n1)", attack->says));
	} else {
		CHECK_OK(rc);
		check_same(job, params, sizeof params);
	}
	sluice_model_close(&model);
}

static void all(struct attack *attacks, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!thinned(i, 3))
			run_in_job(3, under_attack, &attacks[i]);
}

TEST(push__that_is_not_what_it_should_be__is_refused_naming_the_rank)
{
	struct attack attacks[] = {
		{ .launch = push_noise, .says = "push of step 4" },
		{ .launch = push_a_flipped_bit, .says = "was refused", .offset = 5 },
		{ .launch = push_a_flipped_bit, .says = "was refused", .offset = 33 },
		{ .launch = push_a_flipped_bit, .says = "was refused", .offset = 95 },
		{ .launch = push_a_flipped_bit, .says = "was refused", .offset = 97 },
		{ .launch = push_as_rank_2, .says = "rank 2 where 1 is expected" },
		{ .launch = push_another_step, .says = "step 5 where 4 is expected" },
		{ .launch = push_out_of_sequence, .says = "seq" },
		{ .launch = push_another_version, .says = "another version" },
		{ .launch = push_a_choice, .says = "its choice is not one" },
		{ .launch = push_another_span, .says = "span 250 where 200 is expected" },
		{ .launch = push_a_delta, .says = "kind" },
		{ .launch = push_a_run, .says = "85 coordinates where at most 80 are expected" },
		{ .launch = notify_again_and_again, .says = "shard 0" },
	};
	all(attacks, sizeof attacks / sizeof *attacks);
}

TEST(notify__of_what_does_not_exist__is_refused_naming_the_rank)
{
	struct attack attacks[] = {
		{ .launch = notify_as_said,
		  .imm = imm_make(IMM_PUSH, 1),
		  .says = "shard 1, which this rank does not own" },
		{ .launch = notify_as_said,
		  .imm = imm_make(IMM_PUSH, 0xffffff),
		  .says = "this rank has no such shard" },
		{ .launch = notify_as_said,
		  .imm = imm_make(IMM_NOTICE, 2),
		  .says = "it does not own" },
		{ .launch = notify_as_said,
		  .imm = imm_make(IMM_NOTICE, 0xfffffff),
		  .says = "shard number 268435455 of all open models, but this rank has" },
		{ .launch = notify_as_said, .imm = 0x00000001, .says = "unknown kind 0x00000001" },
		{ .launch = notify_as_said, .imm = 0x7fffffff, .says = "unknown kind 0x7fffffff" },
		{ .launch = notify_as_said, .imm = 0xffffffff, .says = "unknown kind 0xffffffff" },
	};
	all(attacks, sizeof attacks / sizeof *attacks);
}

TEST(notice__or_delta_that_cannot_be__is_refused_naming_the_rank)
{
	struct attack attacks[] = {
		{ .launch = notice_that_does_not_check, .says = "notice of shard 1" },
		{ .launch = notice_that_goes_back, .says = "notice of shard 1" },
		{ .launch = notice_beyond_the_log, .says = "notice of shard 1" },
		{ .launch = notice_of_what_was_not_pushed, .says = "notice of shard 1" },
		{ .launch = publish_noise, .says = "version 4 of shard 1" },
		{ .launch = publish_another_step, .says = "version 4 of shard 1" },
	};
	all(attacks, sizeof attacks / sizeof *attacks);
}

TEST(mail__that_does_not_check__is_refused_naming_the_rank)
{
	struct attack attacks[] = {
		{ .launch = mail_noise,
		  .says = "collective message that is not valid",
		  .in_barrier = 1 },
		{ .launch = mail_that_is_too_long,
		  .says = "collective message that is not valid",
		  .in_barrier = 1 },
	};
	all(attacks, sizeof attacks / sizeof *attacks);
}

TEST(notify__of_nothing_that_matters__does_no_harm)
{
	struct attack attacks[] = {
		{ .launch = notify_as_said, .imm = imm_make(IMM_REGION, 5) },
		{ .launch = notify_as_said, .imm = imm_make(IMM_REGION, 0xfffffff) },
		{ .launch = notify_as_said, .imm = imm_make(IMM_STATUS, 0) }, /* alive */
		{ .launch = status_noise },
		{ .launch = report_noise },
	};
	all(attacks, sizeof attacks / sizeof *attacks);
}
