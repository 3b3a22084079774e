/* SPDX-License-Identifier: BSD-3-Clause
 * The calls of a training step on a worker. They check the order of the calls, and wait until the
 * worker half (worker.c) has passed through the phases. */
#include "job/progress_token.h"
#include "model/kept.h"
#include "model/model.h"
#include "model/stopwatch.h"
#include "worker/dense.h"
#include "worker/compressor_ops.h"
#include "worker/device.h"
#include "worker/lane.h"
#include "worker/local.h"
#include "worker/signal.h"
#include "worker/state.h"
#include "worker/push.h"
#include "worker/worker.h"
#include "base/arguments.h"
#include "base/device.h"
#include "base/error.h"
#include "worker/hooks.h"
#include "worker/lazy.h"
#include "worker/async.h"
#include "worker/parts.h"
#include "worker/source.h"
#include "worker/target.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what the calls have in common ------------------------------------------- */

static int push_done(void *context)
{
	return worker_advance(context, 1);
}

/* If a failure of the job has cut a step short, the next call reports that failure. */
static int has_failed(sluice_job *job)
{
	progress_take(job);
	const int failed = job->failure.code != 0;
	progress_release(job);
	return failed;
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
		return fail(SLUICE_EINVAL, "%s: %s is a dedicated server: it calls sluice_serve",
			    function, rank_text(model->job, model->job->rank));
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
	if (has_failed(model->job))
		return job_failed(model->job);
	if (state == STEP_PULLING)
		return fail(SLUICE_EINVAL,
			    "%s: a pull is under way, and coordinate %llu (perhaps others, too) "
			    "was not waited for: call sluice_pull_range for them first",
			    function, (unsigned long long)parts_gap(model, PARTS_PULLED));
	if (expected == STEP_PULLING)
		return fail(SLUICE_EINVAL, "%s: no pull is under way: call sluice_pull_begin first",
			    function);
	if (incomplete)
		return fail(SLUICE_EINVAL,
			    "%s: the ranges pushed in this step do not cover coordinate %llu "
			    "(perhaps others, too): push them with sluice_push_range first",
			    function, (unsigned long long)parts_gap(model, PARTS_PUSHED));
	return fail(SLUICE_EINVAL, "%s: %s (one push, then one pull per step)", function,
		    expected == STEP_PUSHED ? "nothing was pushed since the last pull" :
					      "the last push was not pulled yet");
}

static void push_begins(sluice_model *model, int with_gradient)
{
	struct step *step = &model->worker->step;
	const uint64_t number = model_exchange(model);
	const struct step_rule rule = model_rule(model, number, step->chosen);
	if (model->uneven && with_gradient)
		step_raise(step, FLAG_GRADIENT);
	step_begin(step, number, &rule);
	model->stats.density_up = rule.up;
	hooks_step_begins(model);
}

static int push_ends(sluice_model *model)
{
	const struct lap lap = stopwatch_begin();
	step_encoded(&model->worker->step);
	step_sent(&model->worker->step);
	progress_take(model->job);
	int rc = progress_until(model->job, push_done, worker_describe, model);
	progress_release(model->job);
	stopwatch_end(&model->stopwatch, TIME_PUSH, &lap);
	return rc;
}

/* ---- an accumulator that the application adds to ------------------------------
 *
 * What a push then selects is taken out of it, and the rest stays for the next gradient. So there
 * is no second vector, and a push reads one where it would read two and write one. */

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
	if ((rc = worker_come_home(model)))
		return rc;
	model->worker->accumulates = 1;
	*accumulator = worker_residual(model);
	*scale = model_stands(model, model->lr) ? model->lr :
						  update_pushed(&model->update, model->lr);
	return 0;
}

static int accumulator_check(const sluice_model *model, const void *grad, uint64_t begin,
			     const char *function)
{
	const struct worker *w = model->worker;
	const float *residual = worker_residual(model);
	const uintptr_t first = (uintptr_t)residual, given = (uintptr_t)grad;
	if (!w->accumulates || given < first ||
	    given >= (uintptr_t)(residual + model->layout.count) || grad == residual + begin)
		return 0;
	return fail(SLUICE_EINVAL,
		    "%s: the vector is at byte %llu of the vector of sluice_accumulator, in which "
		    "coordinate %llu begins at byte %llu: pass the address of that coordinate in "
		    "the accumulator",
		    function, (unsigned long long)(given - first), (unsigned long long)begin,
		    (unsigned long long)begin * sizeof(float));
}

/* ---- push --------------------------------------------------------------------- */

/* Decides whether the host or the device selects. If the host does, grad and before end up in
 * host memory. */
static int to_host_or_device(sluice_model *model, struct vector *grad, struct vector *before)
{
	const void *newest = vector_memory(grad), *older = before ? vector_memory(before) : NULL;
	const struct device_ops *ops = NULL;
	int rc = newest ? device_of(newest, &ops) : 0;
	if (!rc && !ops && older)
		rc = device_of(older, &ops);
	if (rc || !ops)
		return rc ? rc : worker_come_home(model);
	rc = on_device_gradient(model, &newest, &older);
	vector_move(grad, newest);
	if (before)
		vector_move(before, older);
	return rc;
}

/* For nonfinite=skip-all: returns 1 if any worker's gradient has NaN or infinity. Then nothing
 * changes, and no step is made: the next pull returns at once. */
static int agree_to_skip(sluice_model *model, struct vector *grad, struct vector *before)
{
	enum { SPOILT, BROUGHT, NUMBERS };
	double votes[NUMBERS] = { 0 };
	struct worker *w = model->worker;
	int rc = 0;
	step_unskip(&w->step);
	if (model->recipe.nonfinite != NONFINITE_SKIP_ALL)
		return 0;
	if (grad && (rc = to_host_or_device(model, grad, before)))
		return rc;
	const struct lap lap = stopwatch_begin();
	votes[SPOILT] = grad && signal_spoilt(model, grad, before);
	votes[BROUGHT] = grad != NULL;
	stopwatch_end(&model->stopwatch, TIME_COMPRESS, &lap);
	if ((rc = sluice_sum(model->job, votes, NUMBERS)) || !(votes[SPOILT] > 0))
		return rc;
	step_skip(&w->step, model->uneven && votes[BROUGHT] > 0 ? FLAG_GRADIENT : 0);
	return 1;
}

int step_skipped(const sluice_model *model)
{
	return model->worker->step.skipped;
}

/* Returns 1 if dense.c sends the whole gradient of this step. */
static int is_dense(const sluice_model *model)
{
	return plan_takes(&model->plan, PATH_DENSE_PUSH,
			  model->worker->step.rule.traits | worker_live_traits(model));
}

/* Makes a push. grad NULL: there is no gradient. before: the second gradient of a pair, or NULL. */
static int push_here(sluice_model *model, struct vector *grad, struct vector *before)
{
	const struct worker *w = model->worker;
	const int stands = model_stands(model, model->lr);
	int alone = model_alone(model), rc = agree_to_skip(model, grad, before);
	struct signal signal = { .addend = NULL };
	if (rc)
		return rc < 0 ? rc : 0;
	if (!alone && (rc = lanes_await_slots(model->worker->lanes, model_exchange(model))))
		return rc;
	if (alone && has_failed(model->job)) /* a step without an exchange would not report it */
		return job_failed(model->job);
	struct lap lap = stopwatch_begin();
	stopwatch_without(&model->stopwatch, &lap, TIME_PUSH);
	if (grad &&
	    (rc = stands ? worker_come_home(model) : to_host_or_device(model, grad, before)))
		return rc; /* may be a refusal, before which the step has not begun */
	push_begins(model, grad != NULL);
	/* no gradient is wanted, there is none, or this step changes nothing */
	if (!grad || stands)
		step_leave_out(&model->worker->step, 1);
	else if (!alone && is_dense(model)) {
		if ((rc = dense_push(model, grad)))
			return rc;
		stopwatch_end(&model->stopwatch, TIME_COMPRESS, &lap);
		return push_ends(model);
	} else if ((rc = w->ops->fold(model, grad, before, &signal)))
		return rc;
	else if (w->ops->leave)
		return w->ops->leave(model, &lap);
	if (alone) {
		step_become(&model->worker->step, STEP_PUSHED);
		return 0;
	}
	if (worker_send(model, &signal))
		return signal_overflowed(model, 0);
	stopwatch_end(&model->stopwatch, TIME_COMPRESS, &lap);
	return push_ends(model);
}

static int push(sluice_model *model, struct vector *grad, struct vector *before)
{
	struct device_scope scope;
	device_scope_begin(grad ? vector_memory(grad) : NULL, model->stream, &scope);
	return device_scope_end(&scope, push_here(model, grad, before));
}

static int gradient_aligned(const sluice_model *model, const void *grad, const char *argument,
			    const char *function)
{
	return argument_aligned(grad, value_bytes(model_pushed_type(model)), argument, function);
}

static int push_run(sluice_model *model, const void *grad, const char *function)
{
	const int unwanted = model && model->worker->lazy && !lazy_wants(model);
	int rc = step_check(model, unwanted ? model : grad, function, STEP_DONE);
	if (!rc && source_of_step(model) != SOURCE_PARAMS)
		rc = source_check(model, SOURCE_GRADIENT, function);
	if (!rc)
		rc = gradient_aligned(model, grad, "grad", function);
	if (!rc)
		rc = accumulator_check(model, grad, 0, function);
	if (rc)
		return rc;
	struct vector whole = signal_vector(model, grad, model->layout.count);
	return push(model, unwanted ? NULL : &whole, NULL);
}

int sluice_push(sluice_model *model, const void *grad)
{
	return push_run(model, grad, "sluice_push");
}

int sluice_push_vector(sluice_model *model, const sluice_vector *vector)
{
	const char *function = "sluice_push_vector";
	struct vector *whole = NULL, joined;
	int rc = vector_check(vector, function);
	if (rc)
		return rc;
	if (!vector->segments && !vector->n_segments)
		return push_run(model, vector->data, function);
	rc = step_check(model, model, function, STEP_DONE);
	if (!rc)
		rc = source_check_pieces(model, function);
	if (!rc)
		rc = parts_pieces(model, vector->segments, vector->n_segments, function, &joined,
				  &whole);
	return rc ? rc : push(model, lazy_wants(model) ? whole : NULL, NULL);
}

int sluice_push_pair(sluice_model *model, const void *grad, const void *before)
{
	int rc = step_check(model, grad, "sluice_push_pair", STEP_DONE);
	if (!rc)
		rc = step_check(model, before, "sluice_push_pair", STEP_DONE);
	if (!rc)
		rc = source_check(model, SOURCE_PAIR, "sluice_push_pair");
	if (!rc)
		rc = gradient_aligned(model, grad, "grad", "sluice_push_pair");
	if (!rc)
		rc = gradient_aligned(model, before, "before", "sluice_push_pair");
	if (rc)
		return rc;
	struct vector newest = signal_vector(model, grad, model->layout.count),
		      older = signal_vector(model, before, model->layout.count);
	return push(model, &newest, &older);
}

/* ---- a push in ranges -----------------------------------------------------------
 *
 * As back-propagation frees them, ranges are folded into the residual, and what can be decided
 * before the whole gradient is there is sent before. */

/* Refuses recipes that cannot decide anything from a range. */
static int check_recipe(const sluice_model *model)
{
	const char *why = plan_why_not(PATH_RANGES, model->plan.traits);

	return why ? fail(SLUICE_EINVAL,
			  "sluice_push_range: the recipe does not allow it: %s: call "
			  "%s with the whole vector, or change the recipe",
			  why, source_rows[recipe_source(&model->recipe)].call) :
		     0;
}

/* Sends the shards that this range completes, if they need not wait for others. */
static int send_complete_shards(sluice_model *model, uint64_t begin, uint64_t end)
{
	int rc = 0;
	for (uint32_t s = 0; s < model->layout.n_shards && !rc; s++) {
		const struct shard_layout *at = &model->layout.shards[s];
		uint64_t shard_end = at->begin + at->span;
		if (at->begin < end && begin < shard_end &&
		    parts_cover(model, PARTS_PUSHED, at->begin, shard_end))
			rc = worker_send_shard(model, s);
	}
	return rc;
}

/* Copies the range, because the norm and the places of bad values must be known before anything is
 * added. */
static int keep_range(sluice_model *model, const void *grad, uint64_t begin, uint64_t count)
{
	struct worker *w = model->worker;
	parts_keep(model, grad, begin, count);
	step_become(&w->step, STEP_PUSHING);
	if (!parts_cover(model, PARTS_PUSHED, 0, model->layout.count))
		return 0;
	parts_clear(model, PARTS_PUSHED);
	step_end(&w->step);
	struct vector whole = parts_kept(model);
	return push(model, &whole, NULL);
}

/* On the device, every recipe that selects there collects its ranges first. */
static int collect_range(sluice_model *model, const void *grad, uint64_t begin, uint64_t count)
{
	struct worker *w = model->worker;
	const int last = parts_cover(model, PARTS_PUSHED, 0, model->layout.count);
	const void *collected;
	int rc = on_device_collect(model, grad, begin, count, last ? &collected : NULL);
	step_become(&w->step, STEP_PUSHING);
	if (rc || !last)
		return rc;
	parts_clear(model, PARTS_PUSHED);
	step_end(&w->step);
	struct vector whole = signal_vector(model, collected, model->layout.count);
	return push(model, &whole, NULL);
}

static int push_range(sluice_model *model, const void *grad, uint64_t begin, uint64_t count)
{
	int rc = step_check(model, grad, "sluice_push_range", STEP_PUSHING);
	if (!rc)
		rc = check_recipe(model);
	if (!rc)
		rc = gradient_aligned(model, grad, "grad", "sluice_push_range");
	if (!rc)
		rc = accumulator_check(model, grad, begin, "sluice_push_range");
	if (rc)
		return rc;
	struct worker *w = model->worker;
	const int collects = on_device_range(model, &grad, count, w->step.state == STEP_DONE);
	if (collects < 0 || (!collects && (rc = parts_room(model))))
		return collects < 0 ? collects : rc;
	if (w->step.state == STEP_DONE &&
	    (rc = lanes_await_slots(model->worker->lanes, model_exchange(model))))
		return rc;
	if ((rc = parts_take(model, PARTS_PUSHED, begin, count, "sluice_push_range")))
		return rc;
	if (collects)
		return collect_range(model, grad, begin, count);
	if (parts_keeps(model))
		return keep_range(model, grad, begin, count);
	struct lap lap = stopwatch_begin();
	stopwatch_without(&model->stopwatch, &lap, TIME_PUSH);
	if (w->step.state == STEP_DONE)
		push_begins(model, 1);
	struct signal signal;
	const struct vector range = signal_vector(model, grad, count);
	if ((rc = signal_fold(model, &range, NULL, begin, count, &signal)))
		return rc;
	step_become(&w->step, STEP_PUSHING);
	int whole = parts_cover(model, PARTS_PUSHED, 0, model->layout.count);
	/* A grid's range is that of the whole vector. */
	if (selection_kinds[model->recipe.up.select].by_coordinate &&
	    model->recipe.up.values.type != VALUE_GRID)
		rc = send_complete_shards(model, begin, begin + count);
	else if (whole)
		rc = worker_send(model, &signal);
	if (rc)
		return signal_overflowed(model, 0);
	stopwatch_end(&model->stopwatch, TIME_COMPRESS, &lap);
	if (!whole)
		return 0;
	parts_clear(model, PARTS_PUSHED);
	return push_ends(model);
}

int sluice_push_range(sluice_model *model, const void *grad, uint64_t begin, uint64_t count)
{
	struct device_scope scope;
	device_scope_begin(grad, model ? model->stream : NULL, &scope);
	return device_scope_end(&scope, push_range(model, grad, begin, count));
}

/* ---- a step without a gradient ------------------------------------------------ */

int push_nothing(sluice_model *model)
{
	const int rc = worker_come_home(model);

	return rc ? rc : push(model, NULL, NULL);
}

/* ---- what a step carries ------------------------------------------------------- */

int step_set_lr(sluice_model *model, float lr)
{
	if (!(lr >= 0) || !isfinite(lr))
		return fail(SLUICE_EINVAL, "sluice_set: SLUICE_LR is %g, must be finite and >= 0",
			    (double)lr);
	const char *why = lr > 0 ? NULL : plan_why_not(PATH_RATE_ZERO, model->plan.traits);
	if (why)
		return fail(
			SLUICE_EINVAL,
			"sluice_set: SLUICE_LR 0 is not possible with this recipe: %s: leave the "
			"step out, or give it a small rate",
			why);
	if (model->worker->step.state == STEP_PUSHING)
		return fail(SLUICE_EINVAL,
			    "sluice_set: a step has a single rate, and ranges of this step were "
			    "pushed already: call it before the first range or after the last");
	model->lr = lr + 0.0f; /* turns -0 into 0, because ranks compare the bits */
	return 0;
}

int step_set_grad_scale(sluice_model *model, float scale)
{
	if (!(scale > 0) || !isfinite(scale))
		return fail(SLUICE_EINVAL,
			    "sluice_set: SLUICE_GRAD_SCALE is %g, must be finite and > 0",
			    (double)scale);
	if (model->worker->step.state == STEP_PUSHING)
		return fail(
			SLUICE_EINVAL,
			"sluice_set: a gradient has a single scale, and ranges of this one were "
			"pushed already: call it before the first range or after the last");
	model->grad.scale = scale;
	return 0;
}

void sluice_raise(sluice_model *model, unsigned flags)
{
	step_raise(&model->worker->step, flags & (model->uneven ? FLAG_GRADIENT - 1 : 0xff));
}

unsigned step_raised(const sluice_model *model)
{
	return model->worker->step.raised & (model->uneven ? FLAG_GRADIENT - 1 : 0xff);
}

/* ---- the point at which a signal needs its gradient -------------------------- */

static void point_at(const sluice_model *model, const float *params, float *point)
{
	const struct worker *w = model->worker;
	const float *previous =
		w->kept.of[model->recipe.signal == SIGNAL_SVRG ? KEPT_ANCHOR : KEPT_PREVIOUS];
	const uint64_t count = model->layout.count;
	if (model->recipe.signal == SIGNAL_IGT) {
		float alpha = update_alpha(&model->update, model->step + 1),
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
	if (rc)
		return rc;
	struct vector *from = target_points(model), *to = from + 1;
	float *here, *there = NULL;
	vector_run(from, params, model->layout.count, VALUE_F32, 1);
	vector_run(to, point, model->layout.count, VALUE_F32, 1);
	rc = vector_borrow(from, model->stream, "sluice_point", &here);
	if (!rc)
		rc = vector_borrow(to, model->stream, "sluice_point", &there);
	if (!rc)
		point_at(model, here, there);
	return vector_return(to, there, rc, "sluice_point");
}

/* ---- unequal numbers of steps ---------------------------------------------- */

/* In a step with two up phases, the push is complete only after the pull. */
uint64_t step_pushed(const sluice_model *model)
{
	const struct worker *w = model->worker;
	const int whole = sluice_is_worker(model->job) && model->schedule.n_phases == 2 &&
			  !w->step.skipped &&
			  (w->step.state == STEP_PUSHED ||
			   (w->step.state == STEP_PULLING && w->step.pull != PULL_ENDED &&
			    w->step.pull != PULL_ASKS));
	return model->step + (uint64_t)whole;
}

/* An asynchronous step needs all workers only where they meet at an anchor. */
uint64_t step_in_vain(const sluice_model *model, uint64_t pushed)
{
	const struct worker *w = model->worker;
	if (!sluice_is_worker(model->job) || !w->step.asked ||
	    (w->step.state != STEP_PUSHED && w->step.state != STEP_PULLING) || model->step < pushed)
		return 0;
	if (model_async(model) && !schedule_at_anchor(&model->schedule, w->step.number) &&
	    !schedule_before_anchor(&model->schedule, w->step.number))
		return 0;
	return model->step + 1;
}
