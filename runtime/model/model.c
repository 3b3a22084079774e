/* SPDX-License-Identifier: BSD-3-Clause
 * Functions that both halves of a model use, such as the rule of a step and the name of a
 * coordinate. */
#include "model/model.h"
#include "base/error.h"

struct rulebook model_rules(const sluice_model *model)
{
	return (struct rulebook){ .recipe = &model->recipe,
				  .schedule = &model->schedule,
				  .plan = &model->plan,
				  .update = &model->update };
}

struct model_parts model_parts(sluice_model *model)
{
	return (struct model_parts){ .id = model->id,
				     .channel = model->channel,
				     .home = model->home,
				     .tensors = model->tensors,
				     .measure = &model->measure,
				     .worth = &model->worth,
				     .stats = &model->stats,
				     .stopwatch = &model->stopwatch,
				     .shown = model->shown };
}

void model_count_dense(sluice_model_stats *stats, uint32_t span, int own)
{
	*(own ? &stats->own_dense_bytes : &stats->dense_bytes) += MESSAGE_HEADER_BYTES +
								  4ull * span;
}

const char *model_place(const struct tensors *tensors, uint64_t i)
{
	static _Thread_local char text[160];

	tensors_place(tensors, i, text, sizeof(text));
	return text;
}

int model_whole(const sluice_model *model, const char *function)
{
	if (!model->half_restored)
		return 0;
	return fail(SLUICE_EINVAL,
		    "%s: loading a checkpoint into this model failed and left it half restored: "
		    "close the model and open it again",
		    function);
}

const char *sluice_recipe_text(const sluice_model *model)
{
	return model->recipe_text;
}
