/* SPDX-License-Identifier: BSD-3-Clause
 * What an open model takes, and gives back. */
#ifndef RUNTIME_MODEL_OPEN_H
#define RUNTIME_MODEL_OPEN_H
#include "model/layout.h"

/* Everything rank keeps allocated for the model, in bytes, but for names and other small things;
 * params and grad are the caller's own. */
uint64_t model_memory(const struct layout *l, const struct recipe *recipe, int rank);
/* Frees everything of a model that no event can reach any more. */
void model_free(sluice_model *model);
#endif
