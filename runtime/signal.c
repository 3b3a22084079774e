/* SPDX-License-Identifier: BSD-3-Clause
 * From a gradient to what will be compressed: judged, clipped, turned into the recipe's signal, added to
 * what earlier steps left unsent. Called by worker.c at the top of a push; no network. */
#include "model.h"
#include "base/error.h"
#include <math.h>

enum { CHUNK = 2048 };

/* Gradients with NaN or infinity. Returns 0 to go on, 1 to leave this gradient out, or an error. */
static int judge(sluice_model *model, const float *grad, uint64_t begin, uint64_t count)
{
	uint64_t bad = first_nonfinite(grad, count), in_tensor;
	if (bad == count)
		return 0;
	switch (model->recipe.nonfinite) {
	case NONFINITE_ZERO:
		for (uint64_t i = bad; i < count; i++)
			model->stats.nonfinite_elements += !isfinite(grad[i]);
		return 0;
	case NONFINITE_SKIP:
		for (uint64_t i = bad; i < count; i++)
			model->stats.nonfinite_elements += !isfinite(grad[i]);
		return 1;
	case NONFINITE_ABORT:
		break;
	}
	sluice_job *job = model->job;
	const char *tensor = model_coordinate(model, begin + bad, &in_tensor);
	progress_take(job);
	int rc = job->failure.code ? job_failed(job)
		: job_fail(job, SLUICE_ENUMERIC, job->rank,
			   "the gradient of %s at step %llu is %s at index %llu of tensor %s: lower the learning "
			   "rate or clip=, or choose nonfinite=skip or zero",
			   rank_text(job, job->rank), (unsigned long long)model->step + 1,
			   isnan(grad[bad]) ? "NaN" : "infinite", (unsigned long long)in_tensor, tensor);
	progress_release(job);
	return rc;
}

/* Factor that brings the gradient's 2-norm down to the recipe's clip=. */
static float clip_factor(const sluice_model *model, const float *grad)
{
	double sum = 0;
	for (uint64_t i = 0; i < model->layout.count; i++)
		if (isfinite(grad[i]))
			sum += (double)grad[i] * grad[i];
	double norm = sqrt(sum);
	return norm > (double)model->recipe.clip ? (float)(model->recipe.clip / norm) : 1.0f;
}

/* One cache-resident piece: velocity and accumulator from g. */
static void fold(const sluice_model *model, uint64_t at, const float *restrict g, size_t n, float scale)
{
	float *restrict sum = model->worker.residual + at;
	int keep = model->recipe.memory == MEMORY_RESIDUAL;
	if (model->recipe.signal == SIGNAL_MOMENTUM) {
		float *restrict u = model->worker.velocity + at;
		const float m = model->recipe.signal_momentum;
		for (size_t i = 0; i < n; i++) {
			u[i] = m * u[i] + scale * g[i];
			sum[i] = keep ? sum[i] + u[i] : u[i];
		}
	} else if (keep) {
		for (size_t i = 0; i < n; i++)
			sum[i] += scale * g[i];
	} else {
		for (size_t i = 0; i < n; i++)
			sum[i] = scale * g[i];
	}
}

/* Adding can be part of the selection's pass where nothing else is done to the gradient. */
static int selection_adds(const sluice_model *model)
{
	const struct recipe *recipe = &model->recipe;
	return selection_kinds[recipe->up.select].adds && !watch_whole(model, model->stats.density_up) &&
	       recipe->signal == SIGNAL_GRADIENT &&
	       recipe->memory == MEMORY_RESIDUAL && recipe->nonfinite != NONFINITE_ZERO;
}

int signal_accumulate(sluice_model *model, const float *grad, uint64_t begin, uint64_t count)
{
	int rc = judge(model, grad, begin, count);
	if (rc < 0)
		return rc;
	model->worker.skip = rc;
	model->worker.addend = NULL;
	if (rc)
		return 0;
	float scale = model->update.placement == STEP_INSIDE ? model->lr : 1.0f;
	if (model->recipe.clip > 0)
		scale *= clip_factor(model, grad);
	if (count == model->layout.count && selection_adds(model)) {
		model->worker.addend = grad;
		model->worker.addend_scale = scale;
		return 0;
	}
	for (uint64_t at = 0; at < count; at += CHUNK) {
		size_t n = count - at < CHUNK ? count - at : CHUNK;
		if (model->recipe.nonfinite == NONFINITE_ZERO) {
			float clean[CHUNK];
			for (size_t i = 0; i < n; i++)
				clean[i] = isfinite(grad[at + i]) ? grad[at + i] : 0.0f;
			fold(model, begin + at, clean, n, scale);
		} else {
			fold(model, begin + at, grad + at, n, scale);
		}
	}
	return 0;
}
