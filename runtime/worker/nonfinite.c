/* SPDX-License-Identifier: BSD-3-Clause
 * See nonfinite.h. */
#include "worker/nonfinite.h"
#include "job/failure.h"
#include "job/peers.h"
#include "model/model.h"
#include "worker/state.h"
#include <math.h>

int nonfinite_pushed(struct worker *w, int held, uint64_t bad, uint64_t n, float value)
{
	if (w->rules.recipe->nonfinite != NONFINITE_ABORT) {
		w->model.stats->nonfinite_elements += n;
		return w->rules.recipe->nonfinite != NONFINITE_ZERO;
	}
	if (recipe_drifts(w->rules.recipe))
		return job_fail_here(
			w->job, held, SLUICE_ENUMERIC,
			"the parameters that %s pushed at step %llu are %s at %s: its own "
			"optimizer diverged; lower its rate or clip its gradients, or choose "
			"nonfinite=skip, with which the worker continues from the common "
			"parameters",
			rank_text(w->job, w->job->rank), (unsigned long long)w->step.done + 1,
			isnan(value) ? "NaN" : "infinite", model_place(w->model.tensors, bad));
	return job_fail_here(
		w->job, held, SLUICE_ENUMERIC,
		"the gradient of %s at step %llu is %s at %s: lower the learning rate or clip=, or "
		"choose nonfinite=skip or zero",
		rank_text(w->job, w->job->rank), (unsigned long long)w->step.done + 1,
		isnan(value) ? "NaN" : "infinite", model_place(w->model.tensors, bad));
}

int nonfinite_sum(struct worker *w, int held)
{
	const uint64_t at = w->step.overflowed;
	const int known = at != COORDINATE_UNKNOWN;

	return job_fail_here(w->job, held, SLUICE_ENUMERIC,
			     "the sum of the %s of %s at step %llu and the residual of "
			     "earlier steps is NaN or infinite%s%s: it overflowed; lower the "
			     "learning rate or clip= the gradients",
			     recipe_drifts(w->rules.recipe) ? "drift" : "gradient",
			     rank_text(w->job, w->job->rank), (unsigned long long)w->step.done + 1,
			     known ? " at " : "", known ? model_place(w->model.tensors, at) : "");
}

int nonfinite_params(struct worker *w, uint64_t at, float value)
{
	return job_fail_here(w->job, 0, SLUICE_ENUMERIC,
			     "step %llu computes %g for the parameter at %s, %s: the value is "
			     "beyond the range of floats; lower the learning rate or clip= the "
			     "gradients",
			     (unsigned long long)w->step.done + 1, (double)value,
			     rank_text(w->job, w->job->rank), model_place(w->model.tensors, at));
}
