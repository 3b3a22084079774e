/* SPDX-License-Identifier: BSD-3-Clause
 * What a recipe's selection is to the device (on_device.h): which recipes select there, by which
 * rule, and the lists that the host makes, because a support that follows from step and shard looks
 * at no gradient. */
#include "worker/worker.h"
#include "base/error.h"

/* Whether the rule is one of the device's. */
static int is_known(const struct recipe *recipe)
{
	switch (recipe->up.select) {
	case SELECT_TOPK:
	case SELECT_THRESHOLD:
	case SELECT_GAUSSIANK:
	case SELECT_RANDOM:
	case SELECT_VARIANCE:
	case SELECT_SKETCH: /* nothing is */ return 1;
	case SELECT_RANDK: /* without a memory it scales what it sends */
		return recipe->memory == MEMORY_RESIDUAL;
	default: return 0;
	}
}

const char *on_device_why_not(const sluice_model *model)
{
	const struct recipe *recipe = &model->recipe;

	if (!is_known(recipe))
		return "this recipe's selection is made on the host";
	if ((recipe->memory != MEMORY_RESIDUAL && recipe->memory != MEMORY_NONE) ||
	    (recipe->signal != SIGNAL_GRADIENT && recipe->signal != SIGNAL_MOMENTUM) ||
	    recipe->noise > 0 || recipe->update == UPDATE_AVERAGE)
		return "only signal=gradient or momentum with memory=residual or none is added "
		       "there";
	if (recipe->automatic || recipe->reset || recipe->when != WHEN_ALWAYS ||
	    model->worker->local ||
	    (model->layout.support_most && recipe->up.select != SELECT_SKETCH))
		return "the recipe has steps that need the whole residual";
	if (model->worker->accumulates)
		return "the residual was given out by sluice_accumulator()";
	if (model->measure.on)
		return "sluice_measure() looks at the whole residual";
	if (recipe->up.values.type == VALUE_GRID && selection_kinds[recipe->up.select].unbiased)
		return "the range of a grid is of what was drawn";
	return NULL;
}

void on_device_rule(const sluice_model *model, struct device_select *call)
{
	const struct worker *w = model->worker;
	const struct recipe *recipe = &model->recipe;
	const double density = model->stats.density_up;

	call->k = schedule_count(density, model->layout.count - model->layout.exempt);
	call->fresh = recipe->memory == MEMORY_NONE;
	switch (recipe->up.select) {
	case SELECT_THRESHOLD:
		call->by_level = 1;
		call->level = recipe->up.level;
		break;
	case SELECT_GAUSSIANK:
		call->gaussian = 1;
		call->quantile = gaussian_quantile(density);
		break;
	case SELECT_RANDOM:
	case SELECT_VARIANCE:
		call->draw = recipe->up.select == SELECT_RANDOM ? DEVICE_DRAW_DENSITY :
								  DEVICE_DRAW_VARIANCE;
		call->wanted = call->draw == DEVICE_DRAW_DENSITY ? density :
								   (double)recipe->up.level;
		call->purpose = RANDOM_KEEP;
		call->rank = (uint32_t)model->job->rank;
		call->seed = recipe->seed;
		call->step = w->step;
		break;
	case SELECT_RANDK: {
		const struct choice choice = { .spans = w->shard_spans,
					       .n_spans = model->layout.n_shards,
					       .density = density,
					       .index = w->index,
					       .stream = { RANDOM_SUPPORT_UP,
							   (uint32_t)model->job->rank, w->step,
							   recipe->seed } };

		call->list = w->index;
		call->listed = (uint32_t)selection_kinds[SELECT_RANDK].run(&choice);
		break;
	}
	default: break;
	}
}
