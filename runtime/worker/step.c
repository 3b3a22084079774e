/* SPDX-License-Identifier: BSD-3-Clause
 * The calls of a training step on a worker: they judge the order of calls, and wait for the worker
 * half (worker.c) to come through the phases. sluice_push_range, which is a push in pieces, is in
 * push_range.c. */
#include "worker/worker.h"
#include "base/clock.h"
#include <math.h>
#include <string.h>

static int pull_done(void *context)
{
	sluice_model *model = context;
	return worker_advance(model, model->schedule.n_phases);
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
	else if (!alone && dense_push_fits(model)) {
		if ((rc = dense_push(model, grad)))
			return rc;
		model->stats.compress_ns += now_ns() - start - (model->stats.push_ns - pushing);
		return step_sent(model);
	} else if (on_device_selects(model)) {
		rc = on_device_fold(model, grad);
		return rc ? rc : on_device_leave(model, start);
	} else if ((rc = signal_accumulate(model, grad, before, 0, model->layout.count)))
		return rc;
	if (alone) {
		model->worker->in_step = STEP_PUSHED;
		return 0;
	}
	local_gather(model);
	measure_push(model);
	if (worker_send(model))
		return signal_overflowed(model, 0);
	local_restart(model);
	model->stats.compress_ns += now_ns() - start - (model->stats.push_ns - pushing);
	return step_sent(model);
}

int sluice_push(sluice_model *model, const void *grad)
{
	const int unwanted = model && !sluice_wanted(model);
	int rc = step_check(model, unwanted ? model : grad, "sluice_push", STEP_DONE);
	if (!rc && model->recipe.update == UPDATE_AVERAGE)
		rc = fail(SLUICE_EINVAL, "sluice_push: the recipe says update=average: call "
					 "sluice_push_params with the parameters");
	if (!rc && recipe_pairs(&model->recipe) && !sluice_anchor_due(model))
		rc = fail(SLUICE_EINVAL,
			  "sluice_push: the recipe says signal=%s: call sluice_push_pair with the "
			  "gradients at params and at the point of sluice_point",
			  model->recipe.signal == SIGNAL_STORM ? "storm" : "svrg");
	if (!rc)
		rc = accumulator_check(model, grad, 0, "sluice_push");
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
		rc = fail(
			SLUICE_EINVAL,
			"sluice_push_pair: needs a recipe with signal=storm(ALPHA) or svrg(STEPS)");
	if (!rc && sluice_anchor_due(model))
		rc = fail(SLUICE_EINVAL,
			  "sluice_push_pair: an anchor is due (sluice_anchor_due): call "
			  "sluice_push with the full gradient of this worker's data");
	return rc ? rc : push(model, grad, before);
}

static int step_ends(sluice_model *model)
{
	model->step++;
	model->worker->in_step = STEP_DONE;
	model->stats.steps++;
	return 0;
}

/* The messages of a push that returned when it was enqueued. */
static int await_device(sluice_model *model)
{
	if (!on_device_selects(model))
		return 0;
	uint64_t start = now_ns();
	int rc = on_device_await(model);
	start = now_ns() - start;
	model->stats.wait_ns += start;
	model->stats.device_ns += start;
	return rc;
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
	int rc = progress_until(model->job, pull_done, step_describe, model);
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
		rc = fail(SLUICE_EINVAL,
			  "sluice_pull: the recipe says update=none: call sluice_pull_mean");
	if (!rc)
		rc = await_device(model);
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
		rc = await_device(model);
	if (!rc)
		rc = on_device_target(model, &mean);
	if (!rc)
		rc = on_device_zero(model, mean, model->layout.count);
	return on_device_pulled(model, rc ? rc : pull_into(model, mean));
}

int sluice_set_lr(sluice_model *model, float lr)
{
	if (!model || !(lr > 0) || !isfinite(lr))
		return fail(SLUICE_EINVAL, "sluice_set_lr: lr=%g, must be finite and > 0",
			    (double)lr);
	if (model->worker->in_step == STEP_PUSHING)
		return fail(SLUICE_EINVAL,
			    "sluice_set_lr: a step has one rate, and ranges of this one are pushed "
			    "already: call it before the first or after the last");
	model->lr = lr;
	return 0;
}

void sluice_raise(sluice_model *model, unsigned flags)
{
	model->worker->raise |= flags & 0xff;
}
unsigned sluice_raised(const sluice_model *model)
{
	return model->worker->raised;
}
