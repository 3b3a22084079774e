/* SPDX-License-Identifier: BSD-3-Clause
 * Fast paths for steps in which every coordinate is pushed or published as a float, if the memory
 * for the messages is mapped here. A push reads the gradient once and writes it directly to the
 * memory where the shard's owner reads it. A pull adds the publication directly from the memory of
 * its owner. Parameters on a device receive it in one pass from any memory. Called by push.c and
 * worker.c. The messages have the same bits as those of the other paths. */
#include "compress/sparse.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "model/compressor.h"
#include "model/stopwatch.h"
#include "worker/dense.h"
#include "worker/lane.h"
#include "worker/signal.h"
#include "worker/nonfinite.h"
#include "worker/state.h"
#include "worker/target.h"
#include "worker/upload.h"
#include "base/bytes.h"
#include "base/team.h"
#include "compress/dense.h"
#include <string.h>

/* ---- push ------------------------------------------------------------------ */

/* Computes the values to send at n coordinates, with the additions of signal.c. If grad is the
 * residual, the application has already added its gradient (sluice_accumulator). Returns n, or the
 * index of the first value that is not finite; the residual has not changed then. */
static uint32_t signal_piece(const struct worker *w, uint64_t at, const float *grad, uint32_t n,
			     float scale, float *value)
{
	float *residual = worker_residual(w) + at;
	const int remembers = w->rules.recipe->memory.kind != MEMORY_NONE;
	uint32_t any = 0;

	dense_scaled(grad, grad == residual ? 1 : scale, n, value);
	if (remembers && grad != residual)
		sparse_add(value, NULL, residual, n);
	const uint32_t finite = (uint32_t)first_nonfinite(value, n);
	if (finite < n)
		return finite;
	/* The whole residual is sent, so it becomes zero. It is written only if it is not zero yet,
	 * which is usually so only in the first step. */
	for (uint32_t i = 0; remembers && i < n; i++)
		any |= float_bits(residual[i]);
	if (any)
		memset(residual, 0, n * sizeof *residual);
	return n;
}

/* Arguments and results of write_part(). A part stops at the first value that is not finite. */
struct writing {
	const struct worker *w;
	const struct shard_layout *at;
	const struct vector *grad;
	float scale;
	uint8_t *payload;
	int past_caches;
	uint64_t stopped[TEAM_PARTS]; /* the coordinate of that value; otherwise ALL_FINITE */
	struct crc_part crc[TEAM_PARTS];
};
#define ALL_FINITE UINT64_MAX

static void write_part(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct writing *of = context;
	float value[DENSE_PIECE], room[DENSE_PIECE];
	uint32_t crc = 0, finite, n;

	of->stopped[part] = ALL_FINITE;
	for (uint32_t i = (uint32_t)begin; i < end; i += n) {
		const uint64_t at = of->at->begin + i;

		n = dense_here(of->payload, (uint32_t)end, i);
		finite = signal_piece(of->w, at, vector_read(of->grad, at, n, room), n, of->scale,
				      value);
		if (finite < n) {
			of->stopped[part] = at + finite;
			break;
		}
		dense_put(value, n, of->payload + sizeof *value * i, &crc, of->past_caches);
	}
	dense_put_end();
	of->crc[part] = (struct crc_part){ crc, (end - begin) * sizeof *value };
}

/* Returns 0, or an error if a value is not finite. A message whose bytes have to travel is posted
 * at once; notices of the others are posted together, when all are made. */
static int encode(struct worker *w, uint32_t shard, const struct vector *grad, float scale)
{
	const struct shard_layout *at = &w->layout->shards[shard];
	const struct lane_payload placed = { .way = LANE_PLACED };
	struct message m = upload_head(w, shard);
	uint8_t *slot = lane_slot(w->lanes, shard, m.seq);
	uint8_t *there = lane_slot_there(w->lanes, shard, m.seq);
	struct writing of = { .w = w,
			      .at = at,
			      .grad = grad,
			      .scale = scale,
			      .payload = (there ? there : slot) + MESSAGE_HEADER_BYTES,
			      .past_caches = there && at->past_caches };
	const unsigned parts = team_split(scratch_team(w->scratch), at->span, VECTOR_LINE,
					  write_part, &of);

	for (unsigned i = 0; i < parts; i++)
		if (of.stopped[i] != ALL_FINITE)
			return step_fail(&w->step, of.stopped[i]);
	m.values = (struct value_coding){ VALUE_F32, 0, 0, 0 };
	m.coding = CODING_DENSE;
	m.scale = 1;
	m.payload_bytes = at->span * (uint32_t)sizeof(float);
	message_head(&m, crc32c_of_parts(of.crc, parts), slot);
	upload_stage(w, &m, there ? &placed : NULL);
	w->model.stats->pushed_elements += at->span;
	if (!there)
		upload_post(w, shard, 1);
	return 0;
}

int dense_push(struct worker *w, const struct vector *grad)
{
	const float scale = update_pushed(w->rules.update, w->step.lr);

	step_leave_out(&w->step, 0);
	/* Other ranks wait for their data. The data for this rank's shards comes last, and is still
	 * in the cache when they read it. */
	for (uint32_t i = 0; i < w->layout->n_shards; i++)
		if (encode(w, home_turn(w->model.home, i), grad, scale)) {
			/* The cause may be the gradient itself, or the residual to which it was
			 * added. */
			int rc = signal_judge_sum(w, grad);
			return rc ? rc : nonfinite_sum(w, 0);
		}
	step_encoded(&w->step);
	const struct lap lap = stopwatch_begin();
	progress_enter(w->job); /* does not count as a call of the application */
	if (!w->job->failure.code)
		lanes_post(w->lanes);
	progress_unlock(w->job);
	stopwatch_end(w->model.stopwatch, TIME_PUSH, &lap);
	return 0;
}

/* ---- pull ------------------------------------------------------------------ */

/* Returns 1 if a message can be added directly from the memory to which its owner wrote it. */
static int pull_fits(const struct worker *w, uint32_t shard, const uint8_t *entry,
		     const struct dense_expect *expect, struct message *m, uint32_t *crc)
{
	const char *why;

	return plan_takes(w->rules.plan, PATH_DENSE_PULL, w->step.rule.traits) && entry &&
	       !message_peek(entry, lane_last_bytes(w->lanes, shard), m, crc, &why) &&
	       dense_plain(m) && !message_check(m, &expect->want, &why) &&
	       !expect->welcome(w, shard, m);
}

/* Arguments and results of add_checked_part(). */
struct adding {
	const struct worker *w;
	const uint8_t *payload;
	uint64_t first; /* coordinate of the first value */
	int nonfinite[TEAM_PARTS];
	struct crc_part crc[TEAM_PARTS];
};

static void add_checked_part(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct adding *of = context;
	float value[DENSE_PIECE];
	uint32_t crc = 0, n;
	int nonfinite = 0;

	for (uint32_t i = (uint32_t)begin; i < end; i += n) {
		n = dense_here(of->payload, (uint32_t)end, i);
		nonfinite |= dense_take(of->payload + sizeof *value * i, n, value, &crc);
		target_add(of->w, of->first + i, NULL, value, n);
	}
	of->nonfinite[part] = nonfinite;
	of->crc[part] = (struct crc_part){ crc, (end - begin) * sizeof *value };
}

/* Adds the payload while checking it, so that another rank's memory is read only once. Whether the
 * checksum is right is known only after everything was added. If it is wrong, the job ends, because
 * the target then has wrong values. A correct owner does not write to the entry meanwhile, because
 * its next publication needs this worker's next push. Returns NULL, or the reason why the payload
 * is refused. */
static const char *add_checked(const struct worker *w, const uint8_t *payload, uint32_t span,
			       uint32_t payload_crc, uint64_t first)
{
	struct adding of = { .w = w, .payload = payload, .first = first };
	const unsigned parts = team_split(scratch_team(w->scratch), span, VECTOR_LINE,
					  add_checked_part, &of);

	if (crc32c_of_parts(of.crc, parts) != payload_crc)
		return "the payload's checksum is wrong";
	for (unsigned i = 0; i < parts; i++)
		if (of.nonfinite[i])
			return message_nonfinite;
	return NULL;
}

/* Checks the payload while copying it to memory that the device reads. It is thus read only once,
 * and is added only if all of it is correct. Returns 0, or an error of the device. *why becomes
 * NULL, or the reason why the payload is refused. */
static int move_to_device(struct worker *w, const struct message *m, const uint8_t *payload,
			  uint32_t payload_crc, const char **why)
{
	const struct shard_layout *at = &w->layout->shards[m->shard];
	struct entries to;
	uint32_t crc = 0;
	int nonfinite = 0, rc = target_entries(w, m->span, &to);

	*why = NULL;
	for (uint32_t i = 0, n; i < m->span && !rc; i += n) {
		n = dense_here(payload, m->span, i);
		nonfinite |= dense_take(payload + sizeof *to.value * i, n, to.value + i, &crc);
	}
	if (rc)
		return rc;
	if (crc != payload_crc)
		*why = "the payload's checksum is wrong";
	else if (nonfinite)
		*why = message_nonfinite;
	return *why ? 0 : target_add(w, at->begin, NULL, to.value, m->span);
}

/* Adds a payload from a log that this process has mapped. */
static int add_entry(struct worker *w, const struct message *m, const uint8_t *payload,
		     uint32_t crc, const char **why)
{
	const struct shard_layout *at = &w->layout->shards[m->shard];

	*why = NULL;
	if (target_there(w->into))
		return move_to_device(w, m, payload, crc, why);
	if (!home_is_here(w->model.home, m->shard))
		*why = add_checked(w, payload, m->span, crc, at->begin);
	else /* only this rank writes to this log, and only finite values, so no check is needed */
		target_add(w, at->begin, NULL, (const float *)(const void *)payload, m->span);
	return 0;
}

static int device_ends(struct worker *w, int rc)
{
	job_fail(w->job, rc, w->job->rank, "%s", sluice_last_error());
	return 1;
}

int dense_pull(struct worker *w, uint32_t shard, const struct dense_expect *expect,
	       struct message *m)
{
	const uint8_t *entry = lane_entry(w->lanes, shard);
	const char *why;
	uint32_t crc;
	int rc;

	if (!pull_fits(w, shard, entry, expect, m, &crc))
		return 0;
	rc = add_entry(w, m, entry + MESSAGE_HEADER_BYTES, crc, &why);
	if (rc)
		return device_ends(w, rc);
	if (why) {
		lane_refuse(w->lanes, shard, why);
		return 1;
	}
	struct transport_counters *counters =
		&home_current(w->model.home, shard)->endpoint->transport->counters;
	counters->gets++;
	counters->get_bytes += lane_last_bytes(w->lanes, shard);
	return 1;
}

int dense_pull_read(struct worker *w, uint32_t shard, const struct dense_expect *expect,
		    struct message *m)
{
	const uint8_t *entry = target_there(w->into) ? lane_fresh(w->lanes, shard) : NULL;
	const char *why;
	uint32_t crc;
	int rc;

	if (!pull_fits(w, shard, entry, expect, m, &crc))
		return 0;
	rc = move_to_device(w, m, entry + MESSAGE_HEADER_BYTES, crc, &why);
	if (rc)
		return device_ends(w, rc);
	/* If the payload was refused, the caller finds out whether the READ found a half-written
	 * entry. If not, it names the sender in an error. */
	return !why;
}
