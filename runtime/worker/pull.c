/* SPDX-License-Identifier: BSD-3-Clause
 * The calls that pull: everything at once, or range by range while the other ranges are still on
 * the network. They wait until the worker half (worker.c) has passed through the phases. The call
 * of a step without a gradient is here as well, because it ends with a pull. */
#include "base/device.h"
#include "base/error.h"
#include "worker/hooks.h"
#include "worker/parts.h"
#include "worker/target.h"
#include "job/progress_token.h"
#include "model/model.h"
#include "model/stopwatch.h"
#include "worker/async.h"
#include "worker/compressor_ops.h"
#include "worker/lane.h"
#include "worker/local.h"
#include "worker/pull.h"
#include "worker/state.h"
#include "worker/push.h"
#include "worker/watch.h"
#include "worker/worker.h"
#include "worker/worker_setup.h"
#include <string.h>

static int step_ends(sluice_model *model)
{
	model->step++;
	step_end(&model->worker->step);
	model->stats.steps++;
	return 0;
}

static int pull_ends(sluice_model *model)
{
	hooks_pulled(model);
	model->stats.density_down = model->worker->step.rule.down;
	watch_step(model);
	return step_ends(model);
}

/* Waits for the messages of a push that was only enqueued when its call returned. */
static int await_device(sluice_model *model)
{
	if (!worker_on_device(model))
		return 0;
	const struct lap lap = stopwatch_begin();
	int rc = worker_await(model);
	stopwatch_end(&model->stopwatch, TIME_WAIT | TIME_DEVICE, &lap);
	return rc;
}

static int pull_done(void *context)
{
	sluice_model *model = context;
	return worker_advance(model, model->schedule.n_phases);
}

static int pull_begun(sluice_model *model)
{
	struct worker *w = model->worker;
	if (model_alone(model)) {
		step_pull(&w->step); /* flags travel with exchanges */
		const int rc = local_pull(model, target_vector(model));
		return rc ? rc : step_ends(model);
	}
	struct lap lap = stopwatch_begin();
	stopwatch_without(&model->stopwatch, &lap, TIME_PULL | TIME_APPLY);
	progress_take(model->job);
	step_set_asked(&model->worker->step, 1);
	step_pull(&w->step);
	int rc = progress_until(model->job, pull_done, worker_describe, model);
	step_set_asked(&model->worker->step, 0);
	progress_release(model->job);
	stopwatch_end(&model->stopwatch, TIME_WAIT, &lap);
	if (rc || w->step.state == STEP_DONE) /* nothing was pushed */
		return rc;
	return pull_ends(model);
}

/* Ends a step in which no worker pushed. There is nothing to wait for, and a mean is zero. */
static int pull_nothing(sluice_model *model)
{
	int rc = 0;
	if (recipe_pulls_mean(&model->recipe))
		rc = target_end(model, target_begin(model));
	if (!rc)
		step_end(&model->worker->step);
	return rc;
}

/* Pulls to the place that target_note() recorded. asks: nothing was pushed (when=async). */
static int pull_here(sluice_model *model, int asks)
{
	if (model->worker->step.skipped)
		return pull_nothing(model);
	int rc = await_device(model);
	if (!rc && asks)
		rc = async_ask(model);
	if (!rc)
		rc = target_begin(model);
	return rc ? rc : target_end(model, pull_begun(model));
}

static int pull_noted(sluice_model *model, int asks)
{
	struct device_scope scope;
	device_scope_begin(target_memory(model), model->stream, &scope);
	return device_scope_end(&scope, pull_here(model, asks));
}

/* Checks the call and notes where it writes. *asks: as for pull_here(). */
static int note_pull(sluice_model *model, const sluice_vector *vector, const char *function,
		     int *asks)
{
	static const sluice_segment none;
	*asks = model && model_async(model) && model->worker->step.state == STEP_DONE;
	int rc = vector_check(vector, function);
	if (!rc)
		rc = step_check(model, model, function, *asks ? STEP_DONE : STEP_PUSHED);
	if (rc)
		return rc;
	if (!vector->segments && vector->n_segments)
		return target_note(model, NULL, &none, 0, function);
	return target_note(model, vector->data, vector->segments, vector->n_segments, function);
}

static int pull(sluice_model *model, const sluice_vector *vector, const char *function)
{
	int asks, rc = note_pull(model, vector, function, &asks);
	return rc ? rc : pull_noted(model, asks);
}

int sluice_pull(sluice_model *model, void *target)
{
	return pull(model, &(sluice_vector){ .data = target }, "sluice_pull");
}

int sluice_pull_vector(sluice_model *model, const sluice_vector *vector)
{
	return pull(model, vector, "sluice_pull_vector");
}

/* ---- a pull in ranges -----------------------------------------------------------
 *
 * The shards of a step are taken in any order as they come, also by the progress thread while the
 * program works with a range that is complete. Where a step is more than one message up and one
 * down per shard, or a GPU takes part, the first range waits for the whole pull. */

static enum pull_kind pull_kind_of(const sluice_model *model)
{
	const uint64_t traits = model->plan.traits | worker_live_traits(model) |
				(target_whole(model) ? TRAIT(WRITTEN_LATE) : 0);

	return plan_takes(&model->plan, PATH_PULL_RANGES, traits) ? PULL_BY_SHARD : PULL_AT_ONCE;
}

int sluice_pull_begin(sluice_model *model, const sluice_vector *vector)
{
	int asks, rc = note_pull(model, vector, "sluice_pull_begin", &asks);
	if (rc)
		return rc;
	struct worker *w = model->worker;
	const enum pull_kind kind = asks ? PULL_ASKS : pull_kind_of(model);
	if (kind == PULL_BY_SHARD && (rc = target_begin(model)))
		return rc;
	step_become(&w->step, STEP_PULLING);
	progress_take(model->job);
	step_set_pull(&model->worker->step, kind);
	if (kind == PULL_BY_SHARD) {
		step_pull(&w->step);
		step_set_asked(&model->worker->step, 1);
		model_stir(model);
		step_advance(model);
	}
	progress_release(model->job);
	return 0;
}

void step_advance(sluice_model *model)
{
	const struct worker *w = model->worker;
	TOKEN_HELD(model->job);
	if (w->ops->advance)
		w->ops->advance(model);
	if (w->step.pull == PULL_BY_SHARD && !model->job->failure.code)
		worker_advance(model, model->schedule.n_phases);
}

struct pulled_range {
	sluice_model *model;
	uint64_t begin, end;
};

/* Returns 1 if everything that the shards published for a range in this step was added to it. */
static int range_done(void *context)
{
	const struct pulled_range *range = context;
	sluice_model *model = range->model;
	if (worker_advance(model, model->schedule.n_phases))
		return 1;
	const uint64_t wanted = worker_wanted(model);
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		const struct shard_layout *at = &model->layout.shards[s];
		if (at->begin < range->end && range->begin < at->begin + at->span &&
		    lane_have(model->worker->lanes, s) < wanted)
			return 0;
	}
	return 1;
}

static void describe_range(void *context, char *text, size_t cap)
{
	const struct pulled_range *range = context;
	worker_describe(range->model, text, cap);
}

/* Makes the whole pull at the first range. */
static int pull_at_once(sluice_model *model, int asks)
{
	struct worker *w = model->worker;
	step_become(&w->step, asks ? STEP_DONE : STEP_PUSHED);
	int rc = pull_noted(model, asks);
	step_become(&w->step, STEP_PULLING);
	if (rc) {
		parts_clear(model, PARTS_PULLED); /* a pull that is refused can be made again */
		return rc;
	}
	progress_take(model->job);
	step_set_pull(&model->worker->step, PULL_ENDED);
	progress_release(model->job);
	return 0;
}

static int pull_by_shard(sluice_model *model, uint64_t begin, uint64_t count, int last)
{
	struct pulled_range range = { model, begin, begin + count };
	struct lap lap = stopwatch_begin();
	progress_take(model->job);
	stopwatch_without(&model->stopwatch, &lap, TIME_PULL | TIME_APPLY);
	int rc = progress_until(model->job, range_done, describe_range, &range);
	stopwatch_end(&model->stopwatch, TIME_WAIT, &lap);
	if (rc || last) {
		step_set_asked(&model->worker->step, 0);
		step_set_pull(&model->worker->step, PULL_NONE);
	}
	progress_release(model->job);
	return rc;
}

int sluice_pull_range(sluice_model *model, uint64_t begin, uint64_t count)
{
	int rc = step_check(model, model, "sluice_pull_range", STEP_PULLING);
	if (!rc)
		rc = parts_take(model, PARTS_PULLED, begin, count, "sluice_pull_range");
	if (rc)
		return rc;
	struct worker *w = model->worker;
	const enum pull_kind kind = model->worker->step.pull;
	const int last = parts_cover(model, PARTS_PULLED, 0, model->layout.count);
	if (kind == PULL_BY_SHARD)
		rc = pull_by_shard(model, begin, count, last);
	else if (kind == PULL_AT_ONCE || kind == PULL_ASKS)
		rc = pull_at_once(model, kind == PULL_ASKS);
	else if (kind == PULL_NONE) /* an earlier range failed */
		rc = job_failed(model->job);
	if (rc || !last)
		return rc;
	parts_clear(model, PARTS_PULLED);
	if (kind == PULL_BY_SHARD)
		return pull_ends(model);
	step_end(&w->step);
	return 0;
}

/* ---- a step without a gradient ------------------------------------------------ */

int sluice_idle_step(sluice_model *model, void *target, int *more_out)
{
	int rc = step_check(model, model, "sluice_idle_step", STEP_DONE);
	if (rc)
		return rc;
	if (!more_out || !model->uneven)
		return fail(SLUICE_EINVAL, "sluice_idle_step: %s",
			    more_out ?
				    "the model was not opened with uneven=1 (sluice_model_attr), "
				    "so no rank could determine when all workers are idle" :
				    "more_out is NULL");
	rc = target_note(model, target, NULL, 0, "sluice_idle_step");
	if (!rc)
		rc = push_nothing(model);
	if (!rc)
		rc = sluice_pull(model, target);
	if (!rc)
		*more_out = (model->worker->step.raised & FLAG_GRADIENT) != 0;
	return rc;
}
