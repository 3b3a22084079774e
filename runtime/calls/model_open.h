/* SPDX-License-Identifier: BSD-3-Clause
 * The memory and the shape of an open model, and the function that frees it. */
#ifndef RUNTIME_MODEL_OPEN_H
#define RUNTIME_MODEL_OPEN_H
#include "model/layout.h"

/* Returns the number of bytes that this rank keeps allocated for the model, except for names and
 * other small objects. params and grad belong to the caller and are not counted. */
uint64_t model_memory(const struct layout *l, const struct recipe *recipe, int rank);
/* Copies the attributes of a program that may have been compiled with an older or newer header.
 * Fields that the program's struct does not have become zero. Returns 0, or SLUICE_EINVAL for
 * attributes that no job accepts. function: the caller, for the message. */
int model_take_attributes(const sluice_model_attr *given, const char *function,
			  sluice_model_attr *out);
/* The facts about the job that model_shape() uses. text: the recipe; NULL selects the default. */
struct model_of {
	const char *text, *function;
	int size, workers, elastic;
};
/* Computes the layout for these attributes in that job, and refuses attributes that the recipe
 * excludes. Fails with SLUICE_EINVAL or SLUICE_ENOMEM; otherwise the caller frees *l. */
int model_shape(const sluice_model_attr *attr, const struct model_of *of, struct recipe *recipe,
		struct schedule *schedule, struct layout *l);
/* Frees a model that no event can reach any more. */
void model_free(sluice_model *model);
static inline double mebibytes(uint64_t bytes)
{
	return (double)bytes / 1048576;
}
#endif
