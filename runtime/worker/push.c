/* SPDX-License-Identifier: BSD-3-Clause
 * The calls of a training step on a worker. They check the order of the calls, and wait until the
 * worker half (worker.c) has passed through the phases. */
#include "job/progress_token.h"
#include "model/home.h"
#include "model/model.h"
#include "model/stopwatch.h"
#include "worker/dense.h"
#include "worker/compressor_ops.h"
#include "worker/device.h"
#include "worker/lane.h"
#include "worker/local.h"
#include "worker/signal.h"
#include "worker/nonfinite.h"
#include "worker/state.h"
#include "worker/push.h"
#include "worker/worker.h"
#include "base/arguments.h"
#include "base/device.h"
#include "base/error.h"
#include "worker/hooks.h"
#include "worker/lazy.h"
#include "worker/parts.h"
#include "worker/source.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- checks of all calls ------------------------------------------------------ */

static int push_done(void *context)
{
	return worker_advance(context, 1);
}

/* Returns 0, or the error of a job that has failed since the last call. */
static int earlier_failure(sluice_job *job)
{
	progress_take(job);
	const int rc = job_failed(job);
	progress_release(job);
	return rc;
}

int vector_check(const sluice_vector *vector, const char *function)
{
	if (!vector)
		return fail(SLUICE_EINVAL, "%s: the vector is NULL", function);
	if (vector->data && (vector->segments || vector->n_segments))
		return fail(SLUICE_EINVAL, "%s: the vector has data and segments: give one of them",
			    function);
	return 0;
}

int step_check(sluice_model *model, const void *vector, const char *function,
	       enum step_state expected)
{
	if (!model)
		return fail(SLUICE_EINVAL, "%s: the model is NULL", function);
	int rc = job_check(model->job, function);
	if (rc)
		return rc;
	if (!sluice_is_worker(model->job))
		return fail(SLUICE_EINVAL,
			    "%s: %s is a dedicated server: it must call sluice_serve", function,
			    rank_text(model->job, model->job->rank));
	if (!vector)
		return fail(SLUICE_EINVAL, "%s: the vector is NULL", function);
	if ((rc = model_whole(model, function)))
		return rc;
	enum step_state state = model->worker->step.state;
	const int incomplete = state == STEP_PUSHING && expected != STEP_PUSHING;
	const int pulls = state == STEP_PULLING || expected == STEP_PULLING;
	if (pulls ? state == expected :
		    !incomplete && (state == STEP_PUSHED) == (expected == STEP_PUSHED))
		return 0;
	if ((rc = earlier_failure(model->job)))
		return rc;
	if (state == STEP_PULLING)
		return fail(SLUICE_EINVAL,
			    "%s: a pull is under way, and coordinate %llu (perhaps others, too) "
			    "was not waited for: call sluice_pull_range for them first",
			    function,
			    (unsigned long long)parts_gap(model->worker->parts, PARTS_PULLED));
	if (expected == STEP_PULLING)
		return fail(SLUICE_EINVAL, "%s: no pull is under way: call sluice_pull_begin first",
			    function);
	if (incomplete)
		return fail(SLUICE_EINVAL,
			    "%s: the ranges pushed in this step do not cover coordinate %llu "
			    "(perhaps others, too): push them with sluice_push_range first",
			    function,
			    (unsigned long long)parts_gap(model->worker->parts, PARTS_PUSHED));
	return fail(SLUICE_EINVAL, "%s: %s (one push, then one pull per step)", function,
		    expected == STEP_PUSHED ? "nothing was pushed since the last pull" :
					      "the last push was not pulled yet");
}

static void push_begins(struct worker *w, int with_gradient)
{
	struct step *step = &w->step;
	const uint64_t number = worker_exchange(w);
	const struct step_rule rule = rulebook_step(&w->rules, number, step->chosen);
	if (w->uneven && with_gradient)
		step_raise(step, FLAG_GRADIENT);
	step_begin(step, number, schedule_next_fragment(w->rules.recipe, step->done), &rule);
	w->model.stats->density_up = rule.up;
	w->model.stats->bits_up = value_width(&rule.values_up);
	hooks_step_begins(w);
}

static int push_ends(struct worker *w)
{
	const struct lap lap = stopwatch_begin();
	step_encoded(&w->step);
	step_sent(&w->step);
	progress_take(w->job);
	int rc = progress_until(w->job, push_done, worker_describe, w);
	progress_release(w->job);
	stopwatch_end(w->model.stopwatch, TIME_PUSH, &lap);
	return rc;
}

/* ---- an accumulator to which the application adds ------------------------------
 *
 * A push takes the selected values out of the accumulator, and the rest stays for the next
 * gradient. No second vector is needed: a push reads one vector instead of reading two and writing
 * one. */

int sluice_accumulator(sluice_model *model, float **accumulator, float *scale)
{
	const char *function = "sluice_accumulator";
	if (!accumulator || !scale)
		return fail(SLUICE_EINVAL, "%s: %s is NULL", function,
			    accumulator ? "scale" : "accumulator");
	int rc = step_check(model, accumulator, function, STEP_DONE);
	if (rc)
		return rc;
	const char *why = plan_why_not(PATH_ACCUMULATOR, model->plan.traits);
	if (why)
		return fail(SLUICE_EINVAL,
			    "%s: the recipe's %s: pass sluice_push a separate "
			    "gradient, or change the recipe",
			    function, why);
	if ((rc = worker_come_home(model->worker)))
		return rc;
	model->worker->accumulates = 1;
	*accumulator = worker_residual(model->worker);
	*scale = worker_stands(model->worker) ?
			 model->worker->step.lr :
			 update_pushed(&model->update, model->worker->step.lr);
	return 0;
}

static int accumulator_check(const struct worker *w, const void *grad, uint64_t begin,
			     const char *function)
{
	const float *residual = worker_residual(w);
	const uintptr_t first = (uintptr_t)residual, given = (uintptr_t)grad;
	if (!w->accumulates || given < first || given >= (uintptr_t)(residual + w->layout->count) ||
	    grad == residual + begin)
		return 0;
	return fail(SLUICE_EINVAL,
		    "%s: the vector is at byte %llu of the vector of sluice_accumulator, in which "
		    "coordinate %llu begins at byte %llu: pass the address of that coordinate in "
		    "the accumulator",
		    function, (unsigned long long)(given - first), (unsigned long long)begin,
		    (unsigned long long)begin * sizeof(float));
}

/* ---- push --------------------------------------------------------------------- */

/* Decides whether the host or the device selects. If the host does, moves grad and before to host
 * memory. */
static int to_host_or_device(struct worker *w, struct vector *grad, struct vector *before)
{
	const void *newest = vector_memory(grad), *older = before ? vector_memory(before) : NULL;
	const struct device_ops *ops = NULL;
	int rc = newest ? device_of(newest, &ops) : 0;
	if (!rc && !ops && older)
		rc = device_of(older, &ops);
	if (rc || !ops)
		return rc ? rc : worker_come_home(w);
	rc = on_device_gradient(w, &newest, &older);
	vector_move(grad, newest);
	if (before)
		vector_move(before, older);
	return rc;
}

/* For nonfinite=skip-all: returns 1 if any worker's gradient has NaN or infinity. In that case
 * nothing changes, no step is made, and the next pull returns at once. */
static int agree_to_skip(struct worker *w, struct vector *grad, struct vector *before)
{
	enum { SPOILT, BROUGHT, NUMBERS };
	double votes[NUMBERS] = { 0 };
	int rc = 0;
	step_unskip(&w->step);
	if (w->rules.recipe->nonfinite != NONFINITE_SKIP_ALL)
		return 0;
	if (grad && (rc = to_host_or_device(w, grad, before)))
		return rc;
	const struct lap lap = stopwatch_begin();
	votes[SPOILT] = grad && signal_spoilt(w, grad, before);
	votes[BROUGHT] = grad != NULL;
	stopwatch_end(w->model.stopwatch, TIME_COMPRESS, &lap);
	if ((rc = sluice_sum(w->job, votes, NUMBERS)) || !(votes[SPOILT] > 0))
		return rc;
	step_skip(&w->step, w->uneven && votes[BROUGHT] > 0 ? FLAG_GRADIENT : 0);
	return 1;
}

int step_skipped(const struct worker *w)
{
	return w->step.skipped;
}

/* Returns 1 if dense.c sends the whole gradient of this step. */
static int is_dense(const struct worker *w)
{
	return plan_takes(w->rules.plan, PATH_DENSE_PUSH,
			  w->step.rule.traits | worker_live_traits(w));
}

/* Counts a step between exchanges of drifts. An exchange under way is not disturbed. */
static int push_idle(struct worker *w)
{
	const int rc = earlier_failure(w->job); /* such a step would not detect a failure by
						   itself */

	if (!rc)
		step_become(&w->step, STEP_PUSHED);
	return rc;
}

/* Makes a push. grad NULL: there is no gradient. before: the second gradient of a pair, or NULL. */
static int push_here(struct worker *w, struct vector *grad, struct vector *before)
{
	const int stands = worker_stands(w);
	if (w->local && local_idles(w))
		return push_idle(w);
	int alone = worker_alone(w), rc = agree_to_skip(w, grad, before);
	struct signal signal = { .addend = NULL };
	if (rc)
		return rc < 0 ? rc : 0;
	if (!alone && (rc = lanes_await_slots(w->lanes, worker_exchange(w))))
		return rc;
	if (alone && (rc = earlier_failure(w->job))) /* a step without an exchange would not detect
							a failure */
		return rc;
	struct lap lap = stopwatch_begin();
	stopwatch_without(w->model.stopwatch, &lap, TIME_PUSH);
	if (grad && (rc = stands ? worker_come_home(w) : to_host_or_device(w, grad, before)))
		return rc; /* this may refuse the call, because the step has not begun yet */
	push_begins(w, grad != NULL);
	/* The messages are empty if no gradient is needed or none was given, or if this step
	 * changes or reads nothing. */
	if (!grad || stands)
		step_leave_out(&w->step, 1);
	else if (!alone && is_dense(w)) {
		if ((rc = dense_push(w, grad)))
			return rc;
		stopwatch_end(w->model.stopwatch, TIME_COMPRESS, &lap);
		return push_ends(w);
	} else if ((rc = w->ops->fold(w, grad, before, &signal)))
		return rc;
	else if (w->ops->leave)
		return w->ops->leave(w, &lap);
	if (alone) {
		step_become(&w->step, STEP_PUSHED);
		return 0;
	}
	if (worker_send(w, &signal))
		return nonfinite_sum(w, 0);
	stopwatch_end(w->model.stopwatch, TIME_COMPRESS, &lap);
	return push_ends(w);
}

static int push(struct worker *w, struct vector *grad, struct vector *before)
{
	struct device_scope scope;
	device_scope_begin(grad ? vector_memory(grad) : NULL, w->stream, &scope);
	return device_scope_end(&scope, push_here(w, grad, before));
}

static int gradient_aligned(const struct worker *w, const void *grad, const char *argument,
			    const char *function)
{
	return argument_aligned(grad, value_bytes(worker_pushed_type(w)), argument, function);
}

static int push_run(sluice_model *model, const void *grad, const char *function)
{
	const int unwanted = model && model->worker->lazy && !lazy_wants(model->worker);
	int rc = step_check(model, unwanted ? model : grad, function, STEP_DONE);
	if (!rc && !recipe_pushes_params(&model->recipe))
		rc = source_check(model->worker, SOURCE_GRADIENT, function);
	if (!rc)
		rc = gradient_aligned(model->worker, grad, "grad", function);
	if (!rc)
		rc = accumulator_check(model->worker, grad, 0, function);
	if (rc)
		return rc;
	struct vector whole = signal_vector(model->worker, grad, model->layout.count);
	return push(model->worker, unwanted ? NULL : &whole, NULL);
}

int sluice_push(sluice_model *model, const void *grad)
{
	return push_run(model, grad, "sluice_push");
}

/* Pushes pieces. Between exchanges of drifts, no piece is read or copied to the host. */
static int push_pieces(struct worker *w, const sluice_vector *vector, const char *function)
{
	struct vector *whole = NULL, joined;
	int rc = 0;

	if (w->local && local_idles(w))
		return push(w, NULL, NULL);
	rc = parts_pieces(w, vector->segments, vector->n_segments, function, &joined, &whole);
	if (!rc && recipe_drifts(w->rules.recipe) && vector_narrow(whole))
		return fail(SLUICE_EINVAL,
			    "%s: a segment of parameters has 16 or 8 bits, but a drift is computed "
			    "from floats: push the optimizer's copy in 32 bits",
			    function);
	return rc ? rc : push(w, lazy_wants(w) ? whole : NULL, NULL);
}

int sluice_push_vector(sluice_model *model, const sluice_vector *vector)
{
	const char *function = "sluice_push_vector";
	int rc = vector_check(vector, function);
	if (rc)
		return rc;
	if (!vector->segments && !vector->n_segments)
		return push_run(model, vector->data, function);
	rc = step_check(model, model, function, STEP_DONE);
	if (!rc)
		rc = source_check_pieces(model->worker->rules.recipe, function);
	return rc ? rc : push_pieces(model->worker, vector, function);
}

int sluice_push_pair(sluice_model *model, const void *grad, const void *before)
{
	int rc = step_check(model, grad, "sluice_push_pair", STEP_DONE);
	if (!rc)
		rc = step_check(model, before, "sluice_push_pair", STEP_DONE);
	if (!rc)
		rc = source_check(model->worker, SOURCE_PAIR, "sluice_push_pair");
	if (!rc)
		rc = gradient_aligned(model->worker, grad, "grad", "sluice_push_pair");
	if (!rc)
		rc = gradient_aligned(model->worker, before, "before", "sluice_push_pair");
	if (rc)
		return rc;
	struct vector newest = signal_vector(model->worker, grad, model->layout.count),
		      older = signal_vector(model->worker, before, model->layout.count);
	return push(model->worker, &newest, &older);
}

/* ---- a push in ranges ----------------------------------------------------------
 *
 * Ranges are folded into the residual as back-propagation completes them. Coordinates that can be
 * selected before the whole gradient has arrived are sent at once. */

/* Refuses recipes that need more than a single range in order to select. */
static int check_recipe(const struct worker *w)
{
	const char *why = plan_why_not(PATH_RANGES, w->rules.plan->traits);

	return why ? fail(SLUICE_EINVAL,
			  "sluice_push_range: the recipe does not allow it: %s: call "
			  "%s with the whole vector, or change the recipe",
			  why, source_rows[recipe_source(w->rules.recipe)].call) :
		     0;
}

/* Sends the messages of the shards that this range completes. */
static int send_complete_shards(struct worker *w, uint64_t begin, uint64_t end)
{
	int rc = 0;
	for (uint32_t i = 0; i < w->layout->n_shards && !rc; i++) {
		const uint32_t s = home_turn(w->model.home, i);
		const struct shard_layout *at = &w->layout->shards[s];
		uint64_t shard_end = at->begin + at->span;
		if (at->begin < end && begin < shard_end &&
		    parts_cover(w->parts, PARTS_PUSHED, at->begin, shard_end))
			rc = worker_send_shard(w, s);
	}
	return rc;
}

/* Copies the range: the norm, and the coordinates of bad values, must be known before any range is
 * added. */
static int keep_range(struct worker *w, const void *grad, uint64_t begin, uint64_t count)
{
	parts_keep(w, grad, begin, count);
	step_become(&w->step, STEP_PUSHING);
	if (!parts_cover(w->parts, PARTS_PUSHED, 0, w->layout->count))
		return 0;
	parts_clear(w->parts, PARTS_PUSHED);
	step_end(&w->step);
	struct vector whole = parts_kept(w);
	return push(w, &whole, NULL);
}

/* Every recipe that selects on the device collects its ranges there first. */
static int collect_range(struct worker *w, const void *grad, uint64_t begin, uint64_t count)
{
	const int last = parts_cover(w->parts, PARTS_PUSHED, 0, w->layout->count);
	const void *collected;
	int rc = on_device_collect(w, grad, begin, count, last ? &collected : NULL);
	step_become(&w->step, STEP_PUSHING);
	if (rc || !last)
		return rc;
	parts_clear(w->parts, PARTS_PUSHED);
	step_end(&w->step);
	struct vector whole = signal_vector(w, collected, w->layout->count);
	return push(w, &whole, NULL);
}

static int push_range(struct worker *w, const void *grad, uint64_t begin, uint64_t count)
{
	int rc = check_recipe(w);
	if (!rc)
		rc = gradient_aligned(w, grad, "grad", "sluice_push_range");
	if (!rc)
		rc = accumulator_check(w, grad, begin, "sluice_push_range");
	if (rc)
		return rc;
	const int collects = on_device_range(w, &grad, count, w->step.state == STEP_DONE);
	if (collects < 0 || (!collects && (rc = parts_room(w))))
		return collects < 0 ? collects : rc;
	if (w->step.state == STEP_DONE && (rc = lanes_await_slots(w->lanes, worker_exchange(w))))
		return rc;
	if ((rc = parts_take(w, PARTS_PUSHED, begin, count, "sluice_push_range")))
		return rc;
	if (collects)
		return collect_range(w, grad, begin, count);
	if (parts_keeps(w->rules.plan))
		return keep_range(w, grad, begin, count);
	struct lap lap = stopwatch_begin();
	stopwatch_without(w->model.stopwatch, &lap, TIME_PUSH);
	if (w->step.state == STEP_DONE)
		push_begins(w, 1);
	struct signal signal;
	const struct vector range = signal_vector(w, grad, count);
	if ((rc = signal_fold(w, &range, NULL, begin, count, &signal)))
		return rc;
	step_become(&w->step, STEP_PUSHING);
	int whole = parts_cover(w->parts, PARTS_PUSHED, 0, w->layout->count);
	/* A grid must cover the whole vector, so its messages have to wait for the last range. */
	if (selection_kinds[w->rules.recipe->up.select].by_coordinate &&
	    w->rules.recipe->up.values.type != VALUE_GRID)
		rc = send_complete_shards(w, begin, begin + count);
	else if (whole)
		rc = worker_send(w, &signal);
	if (rc)
		return nonfinite_sum(w, 0);
	stopwatch_end(w->model.stopwatch, TIME_COMPRESS, &lap);
	if (!whole)
		return 0;
	parts_clear(w->parts, PARTS_PUSHED);
	return push_ends(w);
}

int sluice_push_range(sluice_model *model, const void *grad, uint64_t begin, uint64_t count)
{
	const int rc = step_check(model, grad, "sluice_push_range", STEP_PUSHING);
	struct device_scope scope;
	if (rc)
		return rc;
	device_scope_begin(grad, model->worker->stream, &scope);
	return device_scope_end(&scope, push_range(model->worker, grad, begin, count));
}

/* ---- a step without a gradient ------------------------------------------------ */

int push_nothing(struct worker *w)
{
	const int rc = worker_come_home(w);

	return rc ? rc : push(w, NULL, NULL);
}

/* ---- settings that a step sends ------------------------------------------------- */

int step_set_lr(struct worker *w, float lr)
{
	if (!(lr >= 0) || !isfinite(lr))
		return fail(SLUICE_EINVAL,
			    "sluice_set: SLUICE_LR is %g, but must be finite and >= 0", (double)lr);
	if (recipe_drifts(w->rules.recipe))
		return fail(
			SLUICE_EINVAL,
			"sluice_set: SLUICE_LR is not possible with signal=drift: the program's "
			"own optimizer has its rate, and the outer rate is rate= of the recipe");
	const char *why = lr > 0 ? NULL : plan_why_not(PATH_RATE_ZERO, w->rules.plan->traits);
	if (why)
		return fail(
			SLUICE_EINVAL,
			"sluice_set: SLUICE_LR 0 is not possible with this recipe: %s: leave the "
			"step out, or give it a small rate",
			why);
	if (w->step.state == STEP_PUSHING)
		return fail(
			SLUICE_EINVAL,
			"sluice_set: a step has a single rate, and ranges of this step were "
			"already pushed: set the rate before the first range or after the last");
	step_set_rate(&w->step, lr + 0.0f); /* turns -0 into 0, because ranks compare the bits */
	return 0;
}

int step_set_grad_scale(struct worker *w, float scale)
{
	if (!(scale > 0) || !isfinite(scale))
		return fail(SLUICE_EINVAL,
			    "sluice_set: SLUICE_GRAD_SCALE is %g, but must be finite and > 0",
			    (double)scale);
	if (w->step.state == STEP_PUSHING)
		return fail(SLUICE_EINVAL, "sluice_set: a gradient has a single scale, and ranges "
					   "of this gradient were already pushed: set the scale "
					   "before the first range or after the last");
	w->grad.scale = scale;
	return 0;
}

void sluice_raise(sluice_model *model, unsigned flags)
{
	step_raise(&model->worker->step,
		   flags & (model->worker->uneven ? FLAG_GRADIENT - 1 : 0xff));
}

unsigned step_raised(const struct worker *w)
{
	return w->step.raised & (w->uneven ? FLAG_GRADIENT - 1 : 0xff);
}

/* ---- unequal numbers of steps ---------------------------------------------- */

/* In a step with two up phases, the push is complete only after the pull. */
uint64_t step_pushed(const struct worker *w)
{
	const int whole = sluice_is_worker(w->job) && w->rules.schedule->n_phases == 2 &&
			  !w->step.skipped &&
			  (w->step.state == STEP_PUSHED ||
			   (w->step.state == STEP_PULLING && w->step.pull != PULL_ENDED &&
			    w->step.pull != PULL_ASKS));
	return w->step.done + (uint64_t)whole;
}

/* With when=async, a step needs all workers only if they meet at an anchor. */
uint64_t step_in_vain(const struct worker *w, uint64_t pushed)
{
	const uint64_t needed = w->step.due ? w->step.due - w->rules.recipe->every.late :
					      w->step.done + 1;

	if (!sluice_is_worker(w->job) || !w->step.asked ||
	    (w->step.state != STEP_PUSHED && w->step.state != STEP_PULLING) || needed <= pushed)
		return 0;
	if (w->quorum) /* the shards do not wait for a worker in a collective */
		return 0;
	if (w->rules.recipe->when == WHEN_ASYNC &&
	    !schedule_at_anchor(w->rules.schedule, w->step.number) &&
	    !schedule_before_anchor(w->rules.schedule, w->step.number))
		return 0;
	return needed;
}
