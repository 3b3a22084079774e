/* SPDX-License-Identifier: BSD-3-Clause
 * A residual that the application adds its gradients to itself: what a push then selects is taken
 * out of it, and the rest stays for the next gradient. So there is no second vector, and a push
 * reads one where it would read two and write one. Called by step.c and push_range.c. */
#include "worker/worker.h"
#include "base/error.h"

/* Recipes that do more with a gradient than to add it. */
static const char *why_not(const struct recipe *recipe)
{
	if (recipe->memory != MEMORY_RESIDUAL)
		return "memory= other than residual does not keep a sum of gradients";
	if (recipe->signal != SIGNAL_GRADIENT)
		return "signal= other than gradient is made of each gradient";
	if (recipe->noise > 0)
		return "noise= is added to each gradient";
	if (recipe->clip > 0)
		return "clip= needs the norm of each gradient";
	if (recipe->nonfinite != NONFINITE_ABORT)
		return "nonfinite= other than abort leaves values out, which are in the sum "
		       "already";
	if (recipe->update == UPDATE_AVERAGE)
		return "update=average pushes parameters";
	if (recipe->period > 1)
		return "when=every makes a step of each gradient";
	return NULL;
}

int sluice_accumulator(sluice_model *model, float **accumulator, float *scale)
{
	const char *function = "sluice_accumulator";
	if (!accumulator || !scale)
		return fail(SLUICE_EINVAL, "%s: %s is NULL", function,
			    accumulator ? "scale" : "accumulator");
	int rc = step_check(model, accumulator, function, STEP_DONE);
	if (rc)
		return rc;
	const char *why = why_not(&model->recipe);
	if (why)
		return fail(SLUICE_EINVAL,
			    "%s: the recipe's %s: give sluice_push a gradient of its own, or "
			    "change the recipe",
			    function, why);
	if ((rc = on_device_come_home(model)))
		return rc;
	model->worker->accumulates = 1;
	*accumulator = model->worker->residual;
	*scale = model->update.placement == STEP_INSIDE ? model->lr : 1.0f;
	return 0;
}

int accumulator_check(const sluice_model *model, const void *grad, uint64_t begin,
		      const char *function)
{
	const struct worker *w = model->worker;
	const uintptr_t first = (uintptr_t)w->residual, given = (uintptr_t)grad;
	if (!w->accumulates || given < first ||
	    given >= (uintptr_t)(w->residual + model->layout.count) || grad == w->residual + begin)
		return 0;
	return fail(SLUICE_EINVAL,
		    "%s: the vector lies in what sluice_accumulator gave, at byte %llu, where "
		    "coordinate %llu begins at byte %llu: give the accumulator's own place of what "
		    "is pushed",
		    function, (unsigned long long)(given - first), (unsigned long long)begin,
		    (unsigned long long)begin * sizeof(float));
}
