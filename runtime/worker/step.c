/* SPDX-License-Identifier: BSD-3-Clause
 * The calls of a training step on a worker: they judge the order of calls, and wait for the worker half
 * (worker.c) to come through the phases. sluice_push_range, which is a push in pieces, is in push_range.c. */
#include "worker/worker.h"
#include "base/clock.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static int slots_free(void *context)
{
	sluice_model *model = context;
	for (uint32_t s = 0; s < model->layout.n_shards; s++)
		if (!ring_writer_free(&model->worker->up[s].ring))
			return 0;
	return 1;
}

static int push_done(void *context)
{
	return worker_advance(context, 1);
}

static int pull_done(void *context)
{
	sluice_model *model = context;
	return worker_advance(model, model->schedule.n_phases);
}

static void describe_wait(void *context, char *text, size_t cap)
{
	sluice_model *model = context;
	struct worker *w = model->worker;
	uint32_t waiting = 0, first = 0;
	uint64_t wanted = worker_wanted(model);
	int down = w->phase < model->schedule.n_phases && phase_now(model, w->phase)->direction == PHASE_DOWN;
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		int missing = down ? w->down[s].have_version < wanted : !w->up[s].posted;
		if (missing && !waiting++)
			first = s;
	}
	int owner = model->layout.shards[first].owner;
	snprintf(text, cap, "step %llu: %s shard %u of %s%s", (unsigned long long)w->step,
		 down ? "the new version of" : "a free slot at", first, rank_text(model->job, owner),
		 waiting > 1 ? " and of others" : "");
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
		return fail(SLUICE_EINVAL, "%s: %s is a dedicated server: it calls sluice_serve", function,
			    rank_text(model->job, model->job->rank));
	if (!vector)
		return fail(SLUICE_EINVAL, "%s: the vector is NULL", function);
	enum step_state state = model->worker->in_step;
	if (state == STEP_PUSHING && expected != STEP_PUSHING)
		return fail(SLUICE_EINVAL,
			    "%s: the ranges pushed in this step leave out coordinate %llu and maybe others: push "
			    "them with sluice_push_range first",
			    function, (unsigned long long)tiling_gap(&model->worker->pushed));
	if ((state == STEP_PUSHED) != (expected == STEP_PUSHED))
		return fail(SLUICE_EINVAL, "%s: %s (one push, then one pull per step)", function,
			    expected == STEP_PUSHED ? "nothing was pushed since the last pull"
						    : "the last push was not pulled yet");
	return 0;
}

int step_await_slots(sluice_model *model)
{
	uint64_t start = now_ns();
	progress_take(model->job);
	int rc = progress_until(model->job, slots_free, describe_wait, model);
	progress_release(model->job);
	model->stats.push_ns += now_ns() - start;
	return rc;
}

void step_begin(sluice_model *model)
{
	struct worker *w = model->worker;
	w->step = model->step / model->recipe.period + 1;
	w->phase = 0;
	w->encoded = 0;
	w->target = NULL;
	w->shards_done = 0;
	w->awaited = w->up[0].ring.next_seq;
	w->parked = 0;
	model->stats.density_up = model_density(model, &model->recipe.up, w->step, w->chosen);
	w->density_down = model_density(model, &model->recipe.down, w->step, w->chosen);
}

int step_sent(sluice_model *model)
{
	uint64_t start = now_ns();
	model->worker->raise = 0;
	model->worker->encoded = 1;
	model->worker->in_step = STEP_PUSHED;
	progress_take(model->job);
	int rc = progress_until(model->job, push_done, describe_wait, model);
	progress_release(model->job);
	model->stats.push_ns += now_ns() - start;
	return rc;
}

static int push(sluice_model *model, const void *grad, const void *before)
{
	int alone = local_step(model), rc = alone ? 0 : step_await_slots(model);
	if (rc)
		return rc;
	uint64_t start = now_ns(), pushing = model->stats.push_ns;
	step_begin(model);
	innovation_renew(model);
	if (!grad) /* not wanted */
		model->worker->skip = 1;
	else if ((rc = on_device_gradient(model, &grad, &before)))
		return rc;
	else if ((rc = model->worker->device.selects ? on_device_accumulate(model, grad)
		      : signal_accumulate(model, grad, before, 0, model->layout.count)))
		return rc;
	if (alone) {
		model->worker->in_step = STEP_PUSHED;
		return 0;
	}
	local_gather(model);
	measure_push(model);
	if ((rc = worker_send(model)))
		return rc;
	local_restart(model);
	model->stats.compress_ns += now_ns() - start - (model->stats.push_ns - pushing);
	return step_sent(model);
}

int sluice_push(sluice_model *model, const void *grad)
{
	const int unwanted = model && !sluice_wanted(model);
	int rc = step_check(model, unwanted ? model : grad, "sluice_push", STEP_DONE);
	if (!rc && model->recipe.update == UPDATE_AVERAGE)
		rc = fail(SLUICE_EINVAL, "sluice_push: the recipe says update=average: call sluice_push_params with the "
			  "parameters");
	if (!rc && recipe_pairs(&model->recipe) && !sluice_anchor_due(model))
		rc = fail(SLUICE_EINVAL, "sluice_push: the recipe says signal=%s: call sluice_push_pair with the "
			  "gradients at params and at the point of sluice_point",
			  model->recipe.signal == SIGNAL_STORM ? "storm" : "svrg");
	if (rc)
		return rc;
	return push(model, unwanted ? NULL : grad, NULL);
}

int sluice_push_params(sluice_model *model, const float *params)
{
	int rc = step_check(model, params, "sluice_push_params", STEP_DONE);
	if (!rc && model->recipe.update != UPDATE_AVERAGE)
		rc = fail(SLUICE_EINVAL, "sluice_push_params: needs a recipe with update=average");
	return rc ? rc : push(model, params, NULL);
}

int sluice_push_pair(sluice_model *model, const void *grad, const void *before)
{
	int rc = step_check(model, grad, "sluice_push_pair", STEP_DONE);
	if (!rc)
		rc = step_check(model, before, "sluice_push_pair", STEP_DONE);
	if (!rc && !recipe_pairs(&model->recipe))
		rc = fail(SLUICE_EINVAL, "sluice_push_pair: needs a recipe with signal=storm(ALPHA) or svrg(STEPS)");
	if (!rc && sluice_anchor_due(model))
		rc = fail(SLUICE_EINVAL, "sluice_push_pair: an anchor is due (sluice_anchor_due): call sluice_push with the "
			  "full gradient of this worker's data");
	return rc ? rc : push(model, grad, before);
}

static int step_ends(sluice_model *model)
{
	model->step++;
	model->worker->in_step = STEP_DONE;
	model->stats.steps++;
	return 0;
}

static int pull_into(sluice_model *model, float *target)
{
	struct worker *w = model->worker;
	float *params = target;
	if (local_step(model)) {
		w->raised = 0; /* flags travel with exchanges */
		local_pull(model, params);
		return step_ends(model);
	}
	if (w->base)
		target = w->base;
	uint64_t start = now_ns(), busy = model->stats.pull_ns + model->stats.apply_ns;
	progress_take(model->job);
	w->target = target;
	w->raised = 0;
	int rc = progress_until(model->job, pull_done, describe_wait, model);
	w->target = NULL;
	progress_release(model->job);
	busy = model->stats.pull_ns + model->stats.apply_ns - busy;
	model->stats.wait_ns += now_ns() - start - busy;
	if (rc)
		return rc;
	if (w->base)
		memcpy(params, w->base, model->layout.count * sizeof *params);
	if (w->in_step == STEP_DONE) /* nothing was pushed */
		return 0;
	census_end_step(model);
	measure_step(model);
	innovation_pulled(model);
	async_pulled(model);
	model->stats.density_down = w->density_down;
	watch_step(model);
	return step_ends(model);
}

int sluice_pull(sluice_model *model, float *params)
{
	int asks = model && model_async(model) && model->worker->in_step == STEP_DONE;
	int rc = step_check(model, params, "sluice_pull", asks ? STEP_DONE : STEP_PUSHED);
	if (!rc && model->recipe.update == UPDATE_NONE)
		rc = fail(SLUICE_EINVAL, "sluice_pull: the recipe says update=none: call sluice_pull_mean");
	if (!rc && asks)
		rc = async_ask(model);
	if (!rc)
		rc = on_device_target(model, &params);
	if (!rc)
		model_remember(model, params);
	return on_device_pulled(model, rc ? rc : pull_into(model, params));
}

int sluice_pull_mean(sluice_model *model, float *mean)
{
	int rc = step_check(model, mean, "sluice_pull_mean", STEP_PUSHED);
	if (!rc && model->recipe.update != UPDATE_NONE)
		rc = fail(SLUICE_EINVAL, "sluice_pull_mean: needs a recipe with update=none");
	if (!rc)
		rc = on_device_target(model, &mean);
	if (!rc)
		rc = on_device_zero(model, mean, model->layout.count);
	return on_device_pulled(model, rc ? rc : pull_into(model, mean));
}

int sluice_set_lr(sluice_model *model, float lr)
{
	if (!model || !(lr > 0) || !isfinite(lr))
		return fail(SLUICE_EINVAL, "sluice_set_lr: lr=%g, must be finite and > 0", (double)lr);
	if (model->worker->in_step == STEP_PUSHING)
		return fail(SLUICE_EINVAL, "sluice_set_lr: a step has one rate, and ranges of this one are pushed "
			    "already: call it before the first or after the last");
	model->lr = lr;
	return 0;
}

void sluice_raise(sluice_model *model, unsigned flags) { model->worker->raise |= flags & 0xff; }
unsigned sluice_raised(const sluice_model *model) { return model->worker->raised; }
