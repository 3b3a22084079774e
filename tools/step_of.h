/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_step_info() as an expression, for programs and tests whose model is open. */
#ifndef TOOLS_STEP_OF_H
#define TOOLS_STEP_OF_H
#include "sluice.h"

static inline sluice_model_step step_of(const sluice_model *model)
{
	sluice_model_step step = { .size = sizeof(step) };

	sluice_step_info(model, &step);
	return step;
}
#endif
