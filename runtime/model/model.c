/* SPDX-License-Identifier: BSD-3-Clause
 * What both halves ask of a model: the share that a step sends, the name of a coordinate. */
#include "model/model.h"
#include "base/error.h"

double model_density(const sluice_model *model, const struct direction *way, uint64_t step,
		     unsigned chosen)
{
	if (!model->recipe.automatic)
		return schedule_density(&model->schedule, way, step);
	unsigned i = worth_candidate(step - 1 - model->first_step, chosen);
	return way == &model->recipe.up ? worth_candidates[i].up : worth_candidates[i].down;
}

const char *model_coordinate(const sluice_model *model, uint64_t i, uint64_t *index_in_tensor)
{
	for (size_t t = 0; t < model->n_tensors; t++)
		if (i < model->tensor_ends[t]) {
			*index_in_tensor = i - (t ? model->tensor_ends[t - 1] : 0);
			return model->tensor_names[t];
		}
	*index_in_tensor = i;
	return "(the flat vector)";
}

int model_whole(const sluice_model *model, const char *function)
{
	if (!model->half_restored)
		return 0;
	return fail(SLUICE_EINVAL,
		    "%s: loading a checkpoint into this model failed, which holds a part of it: "
		    "close the model and open it again",
		    function);
}

uint64_t sluice_step(const sluice_model *model)
{
	return model->step;
}
const char *sluice_recipe(const sluice_model *model)
{
	return model->recipe_text;
}
