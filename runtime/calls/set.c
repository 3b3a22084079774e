/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_set() and sluice_step_info(): values that a program sets and reads between two steps.
 * Another file owns and checks each value. */
#include "base/arguments.h"
#include "base/error.h"
#include "job/progress_token.h"
#include "model/measure.h"
#include "worker/lazy.h"
#include "worker/local.h"
#include "worker/push.h"
#include "worker/quorum.h"
#include "worker/state.h"
#include "worker/worker_setup.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* Refuses a number that would become infinity as a float. */
static int check_float(int what, double x)
{
	static const char *const names[] = { [SLUICE_LR] = "SLUICE_LR",
					     [SLUICE_GRAD_SCALE] = "SLUICE_GRAD_SCALE",
					     [SLUICE_SMOOTHNESS] = "SLUICE_SMOOTHNESS",
					     [SLUICE_WEIGHT] = "SLUICE_WEIGHT" };

	if (what < SLUICE_LR || what > SLUICE_WEIGHT || !names[what] || !isfinite(x) ||
	    isfinite((float)x))
		return 0;
	return fail(SLUICE_EINVAL, "sluice_set: %s is %g, which is beyond the range of floats, %g",
		    names[what], x, (double)FLT_MAX);
}

static int set_measure(sluice_model *model, int on)
{
	const int rc = measure_switch(model, on);

	if (rc || !sluice_is_worker(model->job))
		return rc;
	progress_take(model->job);
	worker_list_methods(model->worker);
	progress_release(model->job);
	return 0;
}

int sluice_set(sluice_model *model, int what, double x)
{
	int rc;

	if (!model)
		return fail(SLUICE_EINVAL, "sluice_set: the model is NULL");
	if ((rc = job_check(model->job, "sluice_set")) || (rc = check_float(what, x)))
		return rc;
	switch (what) {
	case SLUICE_LR: return step_set_lr(model->worker, (float)x);
	case SLUICE_GRAD_SCALE: return step_set_grad_scale(model->worker, (float)x);
	case SLUICE_SMOOTHNESS: return lazy_set_smoothness(model->worker, (float)x);
	case SLUICE_WEIGHT: return quorum_set_weight(model->worker, (float)x);
	case SLUICE_MEASURE: return set_measure(model, x != 0);
	}
	return fail(SLUICE_EINVAL, "sluice_set: %d is not SLUICE_LR or another value of its list",
		    what);
}

int sluice_step_info(const sluice_model *model, sluice_model_step *step)
{
	int rc;

	if (!model || !step)
		return fail(SLUICE_EINVAL, "sluice_step_info: model or step is NULL");
	rc = argument_size(step->size, sizeof(step->size), _Alignof(sluice_model_step),
			   "sluice_model_step", "sluice_step_info");
	if (rc)
		return rc;

	const struct worker *w = model->worker;
	sluice_model_step now = {
		.size = step->size,
		.steps = w->step.done,
		.in_sync = 1,
		.wanted = 1,
		.exchanges = w->step.done / model->recipe.every.period,
		.counted = (unsigned)sluice_living(model->job),
	};
	if (sluice_is_worker(model->job)) {
		now.raised = step_raised(w);
		now.skipped = step_skipped(w);
		now.in_sync = local_in_sync(w);
		now.wanted = lazy_wants(w);
		now.anchor_due = worker_anchor_due(w);
	}
	if (sluice_is_worker(model->job) && w->quorum) {
		now.missed = quorum_missed(w->quorum);
		now.counted = quorum_counted(w->quorum);
		now.exchanges = quorum_exchanges(w);
	}
	memcpy(step, &now, step->size < sizeof(now) ? step->size : sizeof(now));
	return 0;
}
