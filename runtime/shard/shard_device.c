/* SPDX-License-Identifier: BSD-3-Clause
 * See shard_device.h. All shards of a rank share one stream, which does their work in the order of
 * the requests. A shard requests the addition of each message as it comes. When all are in, it
 * requests the change once. The GPU writes the delta's payload to pinned memory. When the payload
 * is complete, the host copies it into the log, so only this rank's host writes to memory that
 * peers read. */
#include "shard/shard_device.h"
#include "base/clock.h"
#include "base/device.h"
#include "base/error.h"
#include "base/log.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "model/device_half.h"
#include "model/compressor.h"
#include "model/model.h"
#include "shard/gather.h"
#include "shard/publish.h"
#include "shard/reduce.h"
#include "shard/state.h"
#include "shard/shard_hooks.h"
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LISTS_ENOUGH = 1 << 20 /* entries of 8 bytes */ };

enum shard_at {
	SHARD_STALE,   /* the host's residual and velocity are newer than the GPU's */
	SHARD_GATHERS, /* the GPU adds messages as they come */
	SHARD_ASKED    /* the GPU makes the change */
};

struct device_shard {
	struct device_half half; /* its stream serves all shards of the rank */
	struct memory sum;
	struct memory params;           /* the parameters, if the update rule reads them */
	struct memory payload, landing; /* a delta's payload, and its copy in pinned memory */
	enum shard_at at;
	int full;            /* the GPU has yet to read lists that the next list would overwrite */
	uint32_t longest;    /* most entries that a list can have */
	int away;            /* 1: the host makes this step and the following ones */
	struct message head; /* the header of the delta that is being made */
	struct device_part part;
};

/* ---- the device of the calling thread ---------------------------------------- */

static void shard_enter(const struct device_shard *d, struct device_scope *scope)
{
	device_scope_begin(d->sum.address, d->half.stream, scope);
}

static int shard_fails(const struct shard *shard)
{
	sluice_job *job = shard->job;

	return job_fail(job, SLUICE_EGPU, job->rank,
			"shard %u of %s failed on its GPU at step %llu: %s; start the job again, "
			"from a checkpoint if there is one",
			shard->id, rank_text(job, job->rank),
			(unsigned long long)shard->version + 1, shard->device->half.ops->error());
}

/* ---- opening and closing ------------------------------------------------------ */

static size_t vector_bytes_of(const struct shard *shard)
{
	return shard->at->span * sizeof(float);
}

/* Returns the number of entries to reserve for the lists of messages. Unless messages are long, few
 * of a step's messages wait at the same time, so there is no room for all of them. */
static size_t room_of_lists(int workers, uint32_t longest)
{
	const uint64_t all = ((uint64_t)workers + 1) * longest;
	const uint64_t most = longest > LISTS_ENOUGH ? longest : LISTS_ENOUGH;

	return (size_t)(all < most ? all : most);
}

/* longest: the number of coordinates in the longest message to a shard of this rank. */
static int open_on_device(struct shard *shard, uint32_t longest, const struct device_ops *ops,
			  void *stream)
{
	struct device_shard *d = shard->device = calloc(1, sizeof *d);
	const size_t bytes = vector_bytes_of(shard), payload = shard->at->delta_bytes;

	if (!d)
		return fail(SLUICE_ENOMEM, "no memory for shard %u", shard->id);
	d->half.ops = ops;
	d->half.stream = stream;
	if (half_keep(&d->half, shard_residual(shard), shard->averages.velocity,
		      shard->averages.variance, shard->at->span))
		return SLUICE_EGPU;
	if (ops->alloc(MEMORY_DEVICE, bytes, &d->sum) ||
	    (shard->rules.update->decay > 0 && ops->alloc(MEMORY_DEVICE, bytes, &d->params)) ||
	    ops->alloc(MEMORY_DEVICE, payload, &d->payload) ||
	    ops->alloc(MEMORY_HOST, payload, &d->landing))
		return device_fail(ops, "a shard on a GPU");
	d->longest = longest;
	d->part = (struct device_part){ .span = shard->at->span,
					.capacity = shard->at->down_capacity,
					.payload = d->payload.address,
					.copy = d->landing.address };
	const struct device_shape shape = { .n = shard->at->span,
					    .k = shard->at->down_capacity,
					    .parts = 1,
					    .blocks = (unsigned)shard->job->settings.gpu_blocks,
					    .landed = room_of_lists(shard->job->workers,
								    d->longest) };
	size_t n_spans;
	const struct span *spans = compressor_spans(shard->compressor, &n_spans);

	return half_open(&d->half, d->sum.address, shape, spans, n_spans,
			 "opening a shard on a GPU");
}

/* Makes current the GPU that holds params, or the GPU of this rank if params is not on a GPU. If
 * *entered is set, the caller must pass *before to leave() afterwards. */
static int choose_for_shards(const void *params, const struct device_ops **ops, int *entered,
			     int *before)
{
	const char *why = NULL;
	char text[256];
	int rc = device_of(params, ops);

	*entered = 0;
	if (rc)
		return rc;
	if (*ops) {
		*entered = (*ops)->enter(params, before);
		return 0;
	}
	*ops = device_load(&why);
	if (!*ops)
		return fail(SLUICE_EGPU, "sluice_model_open: device_shards=1, but %s", why);
	if ((*ops)->choose(text, sizeof text))
		return device_fail(*ops, "sluice_model_open: device_shards=1");
	log_line(LOG_INFO, "runtime", "shards are put on %s", text);
	return 0;
}

int shard_devices_open(sluice_model *model, const void *params)
{
	const struct device_ops *ops = NULL;
	void *stream = NULL;
	int entered, before, rc;

	if (!model->n_own)
		return 0;
	const uint32_t longest = (uint32_t)layout_largest(&model->layout, model->job->rank).room;
	if ((rc = choose_for_shards(params, &ops, &entered, &before)))
		return rc;
	rc = ops->stream_open(&stream) ? device_fail(ops, "a stream for shards") : 0;
	for (uint32_t i = 0; i < model->n_own && !rc; i++)
		rc = open_on_device(&model->shards[i], longest, ops, stream);
	if (rc)
		log_line(LOG_WARN, "runtime",
			 "model %u: its shards cannot be on a GPU; SLUICE_DEVICE_SHARDS=no keeps "
			 "them in host memory",
			 model->id);
	else
		log_line(LOG_INFO, "runtime", "model %u: %u shards are on a GPU", model->id,
			 model->n_own);
	if (stream && !model->shards[0].device)
		ops->stream_close(stream);
	if (entered)
		ops->leave(before);
	return rc;
}

static void shard_becomes(struct shard *shard, enum shard_at at)
{
	struct device_shard *d = shard->device;
	const int more = (at == SHARD_ASKED) - (d->at == SHARD_ASKED);

	d->at = at;
	if (more)
		progress_unannounced(shard->job, more);
}

static void set_full(struct shard *shard, int full)
{
	struct device_shard *d = shard->device;

	if (full != d->full)
		progress_unannounced(shard->job, full - d->full);
	d->full = full;
}

static void close_on_device(struct shard *shard, uint64_t until)
{
	struct device_shard *d = shard->device;
	const struct device_ops *ops = d->half.ops;
	struct device_scope scope;

	shard_enter(d, &scope);
	if (d->at == SHARD_ASKED) /* possible only after the job has failed */
		half_abandon(&d->half, until);
	progress_take(shard->job);
	shard_becomes(shard, SHARD_STALE);
	set_full(shard, 0);
	shard->device = NULL;
	progress_release(shard->job);
	half_close(&d->half);
	ops->release(&d->sum);
	ops->release(&d->params);
	ops->release(&d->payload);
	ops->release(&d->landing);
	free(d);
	device_scope_end(&scope, 0);
}

void shard_devices_close(sluice_model *model)
{
	const uint64_t until = now_ns() + model->job->budget.wait_timeout_ns;
	const struct device_ops *ops = NULL;
	void *stream = NULL;

	for (uint32_t i = 0; i < model->n_own; i++) {
		if (!model->shards[i].device)
			continue;
		ops = model->shards[i].device->half.ops;
		stream = model->shards[i].device->half.stream;
		close_on_device(&model->shards[i], until);
	}
	if (ops)
		ops->stream_close(stream);
}

/* ---- the vectors on the host and on the GPU ------------------------------------ */

/* Copies residual and velocity to the host, if the GPU's are newer. */
static int fetch_one(const struct shard *shard)
{
	struct device_shard *d = shard->device;
	struct device_scope scope;

	if (!d || d->at == SHARD_STALE)
		return 0;
	shard_enter(d, &scope);
	return device_scope_end(&scope, half_fetch(&d->half));
}

static int none_asked(void *context)
{
	const sluice_model *model = context;

	for (uint32_t i = 0; i < model->n_own; i++)
		if (model->shards[i].device && model->shards[i].device->at == SHARD_ASKED)
			return 0;
	return 1;
}

static void describe_asked(void *context, char *text, size_t cap)
{
	const sluice_model *model = context;

	*text = 0;
	for (uint32_t i = 0; i < model->n_own && !*text; i++)
		shard_device_busy(&model->shards[i], text, cap);
}

int shard_devices_fetch(sluice_model *model)
{
	int rc = 0;

	if (!model->n_own || !model->shards[0].device)
		return 0;
	progress_take(model->job);
	rc = progress_until(model->job, none_asked, describe_asked, model);
	for (uint32_t i = 0; i < model->n_own && !rc; i++)
		rc = fetch_one(&model->shards[i]);
	progress_release(model->job);
	return rc;
}

void shard_device_restart(struct shard *shard)
{
	if (!shard->device)
		return;
	shard_becomes(shard, SHARD_STALE);
	set_full(shard, 0);
}

/* Copies the host's vectors to the GPU, for the first step after open or restore. */
static int take_up_kept(struct shard *shard)
{
	struct device_shard *d = shard->device;
	const struct device_ops *ops = d->half.ops;
	const size_t bytes = vector_bytes_of(shard);

	if (ops->zero(d->sum.address, bytes, d->half.stream) || half_take_up(&d->half) ||
	    (d->params.address && ops->copy(d->params.address, shard->copy, bytes, d->half.stream)))
		return -1;
	d->at = SHARD_GATHERS;
	return 0;
}

/* Adds the GPU's sum of this step so far to the host's sum. */
static int bring_sum(struct shard *shard)
{
	struct device_shard *d = shard->device;
	float *sum = malloc(vector_bytes_of(shard));
	int rc = 0;

	if (!sum)
		return fail(SLUICE_ENOMEM, "no memory for the sum of shard %u", shard->id);
	rc = half_copy_home(&d->half, sum, d->sum.address, vector_bytes_of(shard));
	if (!rc)
		reduction_add(&shard->reduction, NULL, sum, shard->at->span);
	free(sum);
	return rc;
}

static int leave_for_host(struct shard *shard)
{
	struct device_scope scope;
	int rc = fetch_one(shard);

	if (rc || shard->device->at == SHARD_STALE || !gather_counted(shard))
		return rc;
	shard_enter(shard->device, &scope);
	return device_scope_end(&scope, bring_sum(shard));
}

/* SLUICE_MEASURE needs the whole change of a shard on the host, so the host makes the steps while
 * it is on. A switch takes effect with the next publication. */
int shard_device_takes(struct shard *shard)
{
	struct device_shard *d = shard->device;
	int rc;

	if (!d)
		return 0;
	if (d->away == shard->model.measure->on || d->at == SHARD_ASKED ||
	    (d->away && gather_counted(shard)))
		return !d->away;
	if (!d->away && (rc = leave_for_host(shard))) {
		job_fail(shard->job, rc, shard->job->rank, "%s", sluice_last_error());
		return 1;
	}
	d->away = shard->model.measure->on;
	d->at = SHARD_STALE;
	set_full(shard, 0);
	return !d->away;
}

/* ---- a step --------------------------------------------------------------------- */

/* Adds a list to a vector on the GPU, by way of pinned memory. */
static int apply_list(struct device_shard *d, float *vector, const uint32_t *index,
		      const float *value, uint32_t count)
{
	uint32_t *to_index;
	float *to_value;

	if (!count)
		return 0;
	if (d->half.ops->land(d->half.compressor, count, &to_index, &to_value, d->half.stream))
		return -1;
	if (index)
		memcpy(to_index, index, count * sizeof *index);
	memcpy(to_value, value, count * sizeof *value);
	const struct device_apply call = { .vector = vector,
					   .index = index ? to_index : NULL,
					   .value = to_value,
					   .count = count };
	return d->half.ops->apply(d->half.compressor, &call, d->half.stream);
}

int shard_device_ready(struct shard *shard)
{
	struct device_shard *d = shard->device;
	int rc;

	if (!shard_device_takes(shard))
		return 1;
	rc = d->half.ops->lands(d->half.compressor, d->longest, d->half.stream);
	if (rc < 0)
		shard_fails(shard);
	set_full(shard, !rc);
	return rc > 0;
}

int shard_device_add(struct shard *shard, const uint32_t *index, const float *value, uint32_t count)
{
	struct device_shard *d = shard->device;
	struct device_scope scope;
	int rc;

	shard_enter(d, &scope);
	rc = (d->at == SHARD_STALE && take_up_kept(shard)) ||
	     apply_list(d, d->sum.address, index, value, count);
	device_scope_end(&scope, 0);
	return rc ? shard_fails(shard) : 0;
}

/* Returns the arguments of the GPU's selection from the change of this step. The selection is the
 * one that pick_down() in shard.c makes. */
static struct device_select select_change(const struct shard *shard, const struct step_rule *rule)
{
	const struct recipe *recipe = shard->rules.recipe;
	const struct device_shard *d = shard->device;
	const uint32_t of = shard->at->span - shard->at->exempt;
	const uint64_t k = shard_hooks_count(shard, rule->down, of);
	const int by_level = rule->all_down || recipe->down.select == SELECT_THRESHOLD;
	const int by_block = !by_level && recipe->down.select == SELECT_BLOCK_TOPK;

	return (struct device_select){ .residual = d->half.residual.address,
				       .grad = d->sum.address,
				       .grad_type = VALUE_F32,
				       .grad_scale = 1,
				       .scale = 1,
				       .judge = DEVICE_JUDGE_LATE,
				       .fresh = !shard_residual(shard),
				       .k = by_block ?
						    density_count(rule->down, recipe->down.block) :
					    k ? k :
						schedule_count(rule->down, of),
				       .block = by_block ? recipe->down.block : 0,
				       .by_level = by_level,
				       .level = rule->all_down ? 0 : recipe->down.level };
}

/* Enqueues the computation of the change from the sum. If the update rule only multiplies by one
 * factor, this is left to the selection, which multiplies in its own pass. */
static int enqueue_change(const struct shard *shard, struct device_select *select)
{
	struct device_shard *d = shard->device;
	const struct update update = update_of_step(shard->rules.update, shard->version + 1,
						    shard->at->begin);
	const unsigned divisor = (unsigned)gather_counted(shard);
	const struct update_factors f = update_factors_of(&update, divisor, gather_lr(shard));
	const struct device_change call = { .sum = d->sum.address,
					    .velocity = d->half.velocity.address,
					    .variance = d->half.variance.address,
					    .params = d->params.address,
					    .count = shard->at->span,
					    .share = f.share,
					    .decay = f.decay,
					    .keep = f.keep,
					    .take = f.take,
					    .by = f.by,
					    .ahead = update.kind == UPDATE_NESTEROV,
					    .keep_square = f.keep_square,
					    .take_square = f.take_square,
					    .unbias = f.unbias,
					    .epsilon = update.adam.epsilon,
					    .apart = f.apart,
					    .frozen = update.frozen };
	float share, by;

	if (update_scales(&update, divisor, gather_lr(shard), &share, &by) &&
	    (by == 1 || by == -1 || share == 1)) {
		select->scale = by * share;
		return 0;
	}
	return d->half.ops->change(d->half.compressor, &call, d->half.stream);
}

static int ask_for_change(struct shard *shard)
{
	struct device_shard *d = shard->device;
	const struct step_rule rule = rulebook_step(&shard->rules, shard->version + 1,
						    shard->chosen);
	struct device_push push = { .payload = rule.all_down && rule.all_up ? DEVICE_DENSE :
									      DEVICE_PAIRS,
				    .select = select_change(shard, &rule),
				    .densest = shard->rules.recipe->coding == CODING_SMALL,
				    .settle = 1,
				    .parts = &d->part };

	d->head = publish_delta(shard, 0);
	d->head.anchor = shard_hooks_mark(shard);
	push.values = half_values(&d->head.values, &d->head.stream, d->head.first);
	/* A simulated job waits for the device here. Otherwise it would report this rank as stuck,
	 * because the rank waits for no other rank. */
	if ((d->at == SHARD_STALE && take_up_kept(shard)) || enqueue_change(shard, &push.select) ||
	    half_push(&d->half, &push, shard->job->sim_rank != NULL))
		return -1;
	shard_becomes(shard, SHARD_ASKED);
	return 0;
}

/* ---- the result -------------------------------------------------------------------- */

/* Returns the first coordinate of the residual that is not finite, or 0 if it cannot be
 * determined. */
static uint32_t first_bad(const struct shard *shard)
{
	float *here = malloc(vector_bytes_of(shard));
	size_t at = 0;

	if (here)
		half_bad(&shard->device->half, here, 0, shard->at->span, &at);
	free(here);
	return at < shard->at->span ? (uint32_t)at : 0;
}

/* Adds the delta to the shard's copy with the functions that the workers use. Adds it also to the
 * GPU's copy of the parameters, if the update rule reads parameters. Returns 1, 0 if the job has
 * failed, or -1 if the device failed. */
static int follow_delta(struct shard *shard, const uint8_t *entry)
{
	struct device_shard *d = shard->device;
	const struct message *m = &d->head;
	const struct entries got = scratch_entries(shard->scratch);
	const uint32_t *index = m->coding == CODING_DENSE ? NULL : got.index;
	const char *why;

	if (message_decode(NULL, m, entry, got.index, got.value, &why)) {
		job_fail(shard->job, SLUICE_EGPU, shard->job->rank,
			 "the GPU of %s made a delta of shard %u that cannot be read: %s",
			 rank_text(shard->job, shard->job->rank), shard->id, why);
		return 0;
	}
	if (!publish_follow(shard, 0, index, got.value, m->count)) {
		publish_param_overflowed(shard);
		return 0;
	}
	if (d->params.address && apply_list(d, d->params.address, index, got.value, m->count))
		return -1;
	return 1;
}

/* Publishes the delta whose payload has arrived in pinned memory. Returns the same as
 * take_made(). */
static int publish_made(struct shard *shard, const struct device_sent *sent)
{
	struct device_shard *d = shard->device;
	struct message *m = &d->head;
	uint8_t *entry = publish_reserve(shard, READERS_EVERYBODY);

	m->coding = (enum index_coding)sent->coding;
	m->count = m->coding == CODING_DENSE ? shard->at->span : sent->count;
	m->scale = sent->scale;
	m->payload_bytes = sent->payload_bytes;
	memcpy(entry + MESSAGE_HEADER_BYTES, d->landing.address, sent->payload_bytes);
	const size_t bytes = message_head(m, sent->crc, entry);
	const int rc = follow_delta(shard, entry);
	if (rc <= 0)
		return rc;
	publish_commit(shard, READERS_EVERYBODY, m, bytes);
	if (d->half.ops->zero(d->sum.address, vector_bytes_of(shard), d->half.stream))
		return -1;
	shard_hooks_step_ends(shard);
	publish_step_ends(shard);
	return 1;
}

/* Takes the change that the GPU has made, and publishes it. Returns 1, 0 if the job has failed, or
 * -1 if the device failed. */
static int take_made(struct shard *shard)
{
	struct device_shard *d = shard->device;
	struct device_selected got;
	struct device_sent sent;

	if (d->half.ops->pushed(d->half.compressor, &got, &sent, d->half.stream))
		return -1;
	shard_becomes(shard, SHARD_GATHERS);
	if (got.nonfinite || got.nan || !(got.largest <= FLT_MAX)) {
		publish_overflowed(shard, got.nonfinite ? (uint32_t)got.first_nonfinite :
							  first_bad(shard));
		return 0;
	}
	if (!sent.packed || !got.settled) {
		job_fail(shard->job, SLUICE_EGPU, shard->job->rank,
			 "the GPU of %s selected more of shard %u at step %llu than the %u "
			 "coordinates that a delta has room for",
			 rank_text(shard->job, shard->job->rank), shard->id,
			 (unsigned long long)shard->version + 1, shard->at->down_capacity);
		return 0;
	}
	return publish_made(shard, &sent);
}

int shard_device_answer(struct shard *shard)
{
	struct device_shard *d = shard->device;
	struct device_scope scope;
	int rc = 0;

	shard_enter(d, &scope);
	if (d->at != SHARD_ASKED)
		rc = ask_for_change(shard);
	if (!rc)
		rc = half_poll(&d->half, 1);
	if (rc > 0)
		rc = take_made(shard);
	device_scope_end(&scope, 0);
	if (rc < 0)
		shard_fails(shard);
	return rc > 0;
}

int shard_device_busy(const struct shard *shard, char *text, size_t cap)
{
	const struct device_shard *d = shard->device;

	if (d && d->at == SHARD_ASKED)
		d->half.ops->stage(d->half.compressor, text, cap);
	else if (d && d->full)
		snprintf(text, cap, "its GPU, which must first add earlier messages");
	else
		return 0;
	return 1;
}
