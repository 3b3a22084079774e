/* SPDX-License-Identifier: BSD-3-Clause
 * What an open model takes, and gives back. */
#ifndef RUNTIME_MODEL_OPEN_H
#define RUNTIME_MODEL_OPEN_H
#include "model/layout.h"

/* Everything rank keeps allocated for the model, in bytes, but for names and other small things;
 * params and grad are the caller's own. */
uint64_t model_memory(const struct layout *l, const struct recipe *recipe, int rank);
/* 0, or SLUICE_EINVAL for attributes that no job takes. function: whose. */
int model_check_attributes(const sluice_model_attr *attr, const char *function);
/* Of the gradients. */
int model_grad_type(const sluice_model_attr *attr);

/* The job for which a model is made. text: of the recipe, NULL for the default. */
struct model_of {
	const char *text, *function;
	int size, workers, elastic;
};
/* What the attributes mean in such a job. *l is to be freed, unless this fails: SLUICE_EINVAL,
 * SLUICE_ENOMEM. */
int model_shape(const sluice_model_attr *attr, const struct model_of *of, struct recipe *recipe,
		struct schedule *schedule, struct layout *l);
/* Frees everything of a model that no event can reach any more. */
void model_free(sluice_model *model);
#endif
