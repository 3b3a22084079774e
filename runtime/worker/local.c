/* SPDX-License-Identifier: BSD-3-Clause
 * See local.h. */
#include "worker/local.h"
#include "compress/select.h"
#include "compress/sparse.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "model/compressor.h"
#include "model/kept.h"
#include "model/model.h"
#include "worker/hooks.h"
#include "worker/state.h"
#include <stdlib.h>
#include <string.h>

struct local {
	float *base; /* the common model */
	float *sum;  /* the sum of this worker's steps, which were subtracted from the parameters */
	int apart;   /* 1: sum has its own memory; 0: it is the residual */
};

static int local_used(const sluice_model *model)
{
	return model->worker->kept.of[KEPT_BASE] != NULL;
}

static int local_open(sluice_model *model)
{
	const struct vectors *kept = &model->worker->kept;
	struct local *local = model->worker->local = calloc(1, sizeof(*local));
	if (!local)
		return fail(SLUICE_ENOMEM, "no memory for a worker's own steps");
	local->base = kept->of[KEPT_BASE];
	local->apart = kept->of[KEPT_LOCAL] != NULL;
	local->sum = local->apart ? kept->of[KEPT_LOCAL] : kept->of[KEPT_RESIDUAL];
	return 0;
}

static void local_close(sluice_model *model)
{
	free(model->worker->local);
	model->worker->local = NULL;
}

float *local_sum(const struct local *local)
{
	return local ? local->sum : NULL;
}

float *local_base(const struct local *local)
{
	return local ? local->base : NULL;
}

static void local_begin(sluice_model *model, const float *params)
{
	memcpy(model->worker->local->base, params, model->layout.count * sizeof(*params));
}

/* Before an exchange is sent, adds the period's steps to the residual. */
static void local_folded(sluice_model *model, struct signal *signal)
{
	struct worker *w = model->worker;

	(void)signal;
	/* Only the last step's gradient may be left out. The earlier steps are sent. */
	step_leave_out(&w->step, 0);
	if (w->local->apart)
		sparse_add(worker_residual(model), NULL, w->local->sum,
			   (uint32_t)model->layout.count);
}

/* Begins a new period after the exchange. */
static void local_sent(sluice_model *model, uint64_t elements)
{
	struct worker *w = model->worker;
	float *velocity = compressor_velocity(w->compressor);

	(void)elements;
	memset(w->local->sum, 0, model->layout.count * sizeof(*w->local->sum));
	if (velocity)
		memset(velocity, 0, model->layout.count * sizeof(*velocity));
}

static int params_overflowed(sluice_model *model, uint64_t at, float value)
{
	sluice_job *job = model->job;

	progress_take(job);
	const int rc = job->failure.code ?
			       job_failed(job) :
			       job_fail(job, SLUICE_ENUMERIC, job->rank,
					"step %llu computes %g for the parameter at %s, %s: the "
					"value is beyond the range of floats; lower the learning "
					"rate or clip= the gradients",
					(unsigned long long)model->step + 1, (double)value,
					rank_text(job, job->rank), model_place(model, at));
	progress_release(job);
	return rc;
}

int local_pull(sluice_model *model, const struct vector *params)
{
	enum { CHUNK = 2048 };
	const struct local *local = model->worker->local;
	const uint64_t count = model->layout.count;
	float value[CHUNK];

	for (uint64_t at = 0; at < count && local; at += CHUNK) {
		const size_t n = count - at < CHUNK ? count - at : CHUNK;

		for (size_t i = 0; i < n; i++)
			value[i] = local->base[at + i] - local->sum[at + i];
		const size_t finite = first_nonfinite(value, n);
		if (finite < n)
			return params_overflowed(model, at + finite, value[finite]);
		vector_write(params, at, value, n);
	}
	return 0;
}

int local_in_sync(const sluice_model *model)
{
	return model->worker->step.state == STEP_DONE && model->step % model->recipe.period == 0 &&
	       !selection_kinds[model->recipe.up.select].contiguous &&
	       (!model_async(model) || !model->step ||
		schedule_before_anchor(&model->schedule, model->step));
}

const struct step_hooks local_hooks = { .used = local_used,
					.open = local_open,
					.close = local_close,
					.begin = local_begin,
					.folded = local_folded,
					.sent = local_sent };
