/* SPDX-License-Identifier: BSD-3-Clause
 * The calls that pull: everything at once, or range by range while the other ranges are still on
 * the network. They wait until the worker half (worker.c) has passed through the phases. The call
 * of a step without a gradient is here as well, because it ends with a pull. */
#include "base/arguments.h"
#include "base/device.h"
#include "base/error.h"
#include "worker/hooks.h"
#include "worker/parts.h"
#include "worker/target.h"
#include "job/progress_token.h"
#include "model/model.h"
#include "model/shown.h"
#include "model/stopwatch.h"
#include "worker/async.h"
#include "worker/compressor_ops.h"
#include "worker/lane.h"
#include "worker/local.h"
#include "worker/quorum.h"
#include "worker/pull.h"
#include "worker/state.h"
#include "worker/push.h"
#include "worker/watch.h"
#include "worker/worker.h"
#include <string.h>

static int step_ends(struct worker *w)
{
	step_complete(&w->step);
	w->model.stats->steps++;
	shown_step(w->job, w->model.shown, w->model.stats, w->model.stopwatch);
	return 0;
}

static int pull_ends(struct worker *w)
{
	hooks_pulled(w);
	w->model.stats->density_down = w->step.rule.down;
	w->model.stats->bits_down = value_width(&w->step.rule.values_down);
	watch_step(w);
	return step_ends(w);
}

/* Waits for the messages of a push that was still enqueued when its call returned. */
static int await_device(struct worker *w)
{
	if (!worker_on_device(w))
		return 0;
	const struct lap lap = stopwatch_begin();
	int rc = worker_await(w);
	stopwatch_end(w->model.stopwatch, TIME_WAIT | TIME_DEVICE, &lap);
	return rc;
}

static int pull_done(void *context)
{
	struct worker *w = context;
	return worker_advance(w, w->rules.schedule->n_phases);
}

static int pull_begun(struct worker *w)
{
	if (worker_alone(w)) {
		step_pull(&w->step); /* a step without an exchange has no flags */
		const int rc = local_pull(w, target_vector(w->into));
		return rc ? rc : step_ends(w);
	}
	struct lap lap = stopwatch_begin();
	stopwatch_without(w->model.stopwatch, &lap, TIME_PULL | TIME_APPLY);
	progress_take(w->job);
	step_set_asked(&w->step, 1);
	step_pull(&w->step);
	int rc = progress_until(w->job, pull_done, worker_describe, w);
	step_set_asked(&w->step, 0);
	progress_release(w->job);
	stopwatch_end(w->model.stopwatch, TIME_WAIT, &lap);
	if (rc || w->step.state == STEP_DONE) /* the step has ended: nothing was pushed */
		return rc;
	return pull_ends(w);
}

/* ---- an exchange that is applied late --------------------------------------------
 *
 * sluice_pull() in the step of the exchange returns at once. While the program makes the next late=
 * steps, the progress thread adds the publications to the common parameters, which nobody reads
 * before pull_settle(). The pull of the last of these steps changes the worker's parameters. */

static int go_behind(struct worker *w)
{
	step_pull(&w->step);
	progress_take(w->job);
	step_go_behind(&w->step, w->step.done + 1 + w->rules.recipe->every.late);
	clients_stir(&w->job->clients, w->model.id);
	step_advance(w);
	progress_release(w->job);
	return step_ends(w);
}

int pull_settle(struct worker *w)
{
	const enum step_state state = w->step.state;
	int rc = 0;

	if (!w->step.due)
		return 0;
	const struct lap lap = stopwatch_begin();
	progress_take(w->job);
	if (w->step.behind) {
		step_become(&w->step, STEP_PUSHED); /* for step_in_vain() */
		step_set_asked(&w->step, 1);
		rc = progress_until(w->job, pull_done, worker_describe, w);
		step_set_asked(&w->step, 0);
		step_become(&w->step, state);
	}
	if (!rc)
		step_arrive(&w->step);
	progress_release(w->job);
	stopwatch_end(w->model.stopwatch, TIME_WAIT, &lap);
	return rc;
}

/* Ends a step between exchanges of drifts. */
static int pull_idle(struct worker *w)
{
	int rc = 0;

	step_pull(&w->step); /* only exchanges carry flags */
	if (w->step.due != w->step.done + 1)
		return step_ends(w);
	rc = pull_settle(w);
	if (rc)
		return rc;
	progress_take(w->job);
	step_apply_late(&w->step);
	progress_release(w->job);
	rc = target_write_own(w);
	return rc ? rc : pull_ends(w);
}

/* Ends a step in which no worker pushed. There is nothing to wait for. If the pull returns a mean,
 * the mean is zero. */
static int pull_nothing(struct worker *w)
{
	int rc = 0;
	if (recipe_pulls_mean(w->rules.recipe))
		rc = target_end(w, target_begin(w));
	if (!rc)
		step_end(&w->step);
	return rc;
}

/* Pulls to the vector that target_note() recorded. asks: there was no push (when=async). */
static int pull_here(struct worker *w, int asks)
{
	if (w->step.skipped)
		return pull_nothing(w);
	if (w->local && local_idles(w))
		return pull_idle(w);
	int rc = await_device(w);
	if (!rc && asks)
		rc = w->quorum ? quorum_ask(w) : async_ask(w);
	if (!rc)
		rc = target_begin(w);
	if (!rc && w->rules.recipe->every.late)
		return go_behind(w);
	return rc ? rc : target_end(w, pull_begun(w));
}

/* A pull without a push, which brings the publications since this worker's last exchange. */
static int pull_newest(struct worker *w)
{
	step_pull_alone(&w->step, 1);
	const int rc = pull_here(w, 1);
	step_pull_alone(&w->step, 0);
	return rc;
}

static int pull_noted(struct worker *w, int asks)
{
	struct device_scope scope;
	device_scope_begin(target_memory(w->into), w->stream, &scope);
	return device_scope_end(&scope, w->quorum && asks ? pull_newest(w) : pull_here(w, asks));
}

/* Between exchanges the next drift is measured from the parameters that the worker has. */
static int check_newest(const struct worker *w, const char *function)
{
	if (w->quorum && w->step.done % w->rules.recipe->every.period)
		return fail(SLUICE_EINVAL,
			    "%s: nothing was pushed since the last pull. Without a push it brings "
			    "the newest common parameters, but only directly after an exchange, "
			    "and the last of %llu steps had none",
			    function, (unsigned long long)w->step.done);
	return 0;
}

/* Checks the call and records its vector. *asks: as in pull_here(). */
static int note_pull(sluice_model *model, const sluice_vector *vector, const char *function,
		     int *asks)
{
	static const sluice_segment none;
	*asks = model && (model->recipe.when == WHEN_ASYNC || model->recipe.quorum.workers) &&
		model->worker->step.state == STEP_DONE;
	int rc = vector_check(vector, function);
	if (!rc)
		rc = step_check(model, model, function, *asks ? STEP_DONE : STEP_PUSHED);
	if (!rc && *asks)
		rc = check_newest(model->worker, function);
	if (rc)
		return rc;
	if (!vector->segments && vector->n_segments)
		return target_note(model->worker, NULL, &none, 0, function);
	return target_note(model->worker, vector->data, vector->segments, vector->n_segments,
			   function);
}

static int pull(sluice_model *model, const sluice_vector *vector, const char *function)
{
	int asks, rc = note_pull(model, vector, function, &asks);
	return rc ? rc : pull_noted(model->worker, asks);
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
 * The shards of a step are handled in the order in which they answer. The progress thread also
 * handles them, while the program works with a complete range. If a step has more than one message
 * up and one down per shard, or a GPU takes part, the first range waits for the whole pull. */

static enum pull_kind pull_kind_of(const struct worker *w)
{
	const uint64_t traits = w->rules.plan->traits | worker_live_traits(w) |
				(target_whole(w) ? TRAIT(WRITTEN_LATE) : 0);

	return plan_takes(w->rules.plan, PATH_PULL_RANGES, traits) ? PULL_BY_SHARD : PULL_AT_ONCE;
}

int sluice_pull_begin(sluice_model *model, const sluice_vector *vector)
{
	int asks, rc = note_pull(model, vector, "sluice_pull_begin", &asks);
	if (rc)
		return rc;
	struct worker *w = model->worker;
	const enum pull_kind kind = asks ? PULL_ASKS : pull_kind_of(w);
	if (kind == PULL_BY_SHARD && (rc = target_begin(w)))
		return rc;
	step_become(&w->step, STEP_PULLING);
	progress_take(w->job);
	step_set_pull(&w->step, kind);
	if (kind == PULL_BY_SHARD) {
		step_pull(&w->step);
		step_set_asked(&w->step, 1);
		model_stir(model);
		step_advance(w);
	}
	progress_release(w->job);
	return 0;
}

void step_advance(struct worker *w)
{
	TOKEN_HELD(w->job);
	if (w->ops->advance)
		w->ops->advance(w);
	if (w->job->failure.code || !(w->step.pull == PULL_BY_SHARD || w->step.behind))
		return;
	if (worker_advance(w, w->rules.schedule->n_phases))
		step_arrive(&w->step);
}

struct pulled_range {
	struct worker *w;
	uint64_t begin, end;
};

/* Returns 1 if everything that the shards published for a range in this step was added. */
static int range_done(void *context)
{
	const struct pulled_range *range = context;
	struct worker *w = range->w;
	if (worker_advance(w, w->rules.schedule->n_phases))
		return 1;
	for (uint32_t s = 0; s < w->layout->n_shards; s++) {
		const struct shard_layout *at = &w->layout->shards[s];
		if (at->begin < range->end && range->begin < at->begin + at->span &&
		    lane_have(w->lanes, s) < worker_wanted(w, s))
			return 0;
	}
	return 1;
}

static void describe_range(void *context, char *text, size_t cap)
{
	const struct pulled_range *range = context;
	worker_describe(range->w, text, cap);
}

/* Makes the whole pull at the first range. */
static int pull_at_once(struct worker *w, int asks)
{
	step_become(&w->step, asks ? STEP_DONE : STEP_PUSHED);
	int rc = pull_noted(w, asks);
	step_become(&w->step, STEP_PULLING);
	if (rc) {
		parts_clear(w->parts, PARTS_PULLED); /* a pull that is refused can be repeated */
		return rc;
	}
	progress_take(w->job);
	step_set_pull(&w->step, PULL_ENDED);
	progress_release(w->job);
	return 0;
}

static int pull_by_shard(struct worker *w, uint64_t begin, uint64_t count, int last)
{
	struct pulled_range range = { w, begin, begin + count };
	struct lap lap = stopwatch_begin();
	progress_take(w->job);
	stopwatch_without(w->model.stopwatch, &lap, TIME_PULL | TIME_APPLY);
	int rc = progress_until(w->job, range_done, describe_range, &range);
	stopwatch_end(w->model.stopwatch, TIME_WAIT, &lap);
	if (rc || last) {
		step_set_asked(&w->step, 0);
		step_set_pull(&w->step, PULL_NONE);
	}
	progress_release(w->job);
	return rc;
}

int sluice_pull_range(sluice_model *model, uint64_t begin, uint64_t count)
{
	int rc = step_check(model, model, "sluice_pull_range", STEP_PULLING);
	if (!rc)
		rc = parts_take(model->worker, PARTS_PULLED, begin, count, "sluice_pull_range");
	if (rc)
		return rc;
	struct worker *w = model->worker;
	const enum pull_kind kind = w->step.pull;
	const int last = parts_cover(w->parts, PARTS_PULLED, 0, w->layout->count);
	if (kind == PULL_BY_SHARD)
		rc = pull_by_shard(w, begin, count, last);
	else if (kind == PULL_AT_ONCE || kind == PULL_ASKS)
		rc = pull_at_once(w, kind == PULL_ASKS);
	else if (kind == PULL_NONE) /* an earlier range failed */
		rc = job_failed(w->job);
	if (rc || !last)
		return rc;
	parts_clear(w->parts, PARTS_PULLED);
	if (kind == PULL_BY_SHARD)
		return pull_ends(w);
	step_end(&w->step);
	return 0;
}

/* ---- the point at which a recipe needs its gradient -------------------------- */

static void point_at(const struct worker *w, const float *params, float *point)
{
	const enum signal_kind signal = w->rules.recipe->signal.kind;
	const float *previous = w->kept.of[signal == SIGNAL_SVRG  ? KEPT_ANCHOR :
					   signal == SIGNAL_DRIFT ? KEPT_BASE :
								    KEPT_PREVIOUS];
	const uint64_t count = w->layout->count;
	if (signal == SIGNAL_IGT) {
		float alpha = update_alpha(w->rules.update, w->step.done + 1),
		      ahead = (1 - alpha) / alpha;
		for (uint64_t i = 0; i < count; i++)
			point[i] = params[i] + ahead * (params[i] - previous[i]);
	} else {
		memmove(point, previous ? previous : params, count * sizeof *point);
	}
}

int sluice_point(sluice_model *model, const float *params, float *point)
{
	if (!model || !params || !point)
		return fail(SLUICE_EINVAL, "sluice_point: an argument is NULL");
	int rc = step_check(model, params, "sluice_point", STEP_DONE);
	if (!rc)
		rc = argument_aligned(params, sizeof *params, "params", "sluice_point");
	if (!rc)
		rc = argument_aligned(point, sizeof *point, "point", "sluice_point");
	if (!rc) /* from here on, the common parameters include the exchange under way */
		rc = pull_settle(model->worker);
	if (rc)
		return rc;
	struct vector *from = target_points(model->worker->into), *to = from + 1;
	float *here, *there = NULL;
	vector_run(from, params, model->layout.count, VALUE_F32, 1);
	vector_run(to, point, model->layout.count, VALUE_F32, 1);
	rc = vector_borrow(from, model->worker->stream, "sluice_point", &here);
	if (!rc)
		rc = vector_borrow(to, model->worker->stream, "sluice_point", &there);
	if (!rc)
		point_at(model->worker, here, there);
	return vector_return(to, there, rc, "sluice_point");
}

/* ---- a step without a gradient ------------------------------------------------ */

int sluice_idle_step(sluice_model *model, void *target, int *more_out)
{
	int rc = step_check(model, model, "sluice_idle_step", STEP_DONE);
	if (rc)
		return rc;
	if (!more_out || !model->worker->uneven)
		return fail(SLUICE_EINVAL, "sluice_idle_step: %s",
			    more_out ?
				    "the model was not opened with uneven=1 (sluice_model_attr), "
				    "so no rank could determine when all workers are idle" :
				    "more_out is NULL");
	rc = target_note(model->worker, target, NULL, 0, "sluice_idle_step");
	if (!rc)
		rc = push_nothing(model->worker);
	if (!rc)
		rc = sluice_pull(model, target);
	if (!rc)
		*more_out = (model->worker->step.raised & FLAG_GRADIENT) != 0;
	return rc;
}
