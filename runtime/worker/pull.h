/* SPDX-License-Identifier: BSD-3-Clause
 * What goes on without a call of the application; see pull.c. */
#ifndef RUNTIME_PULL_H
#define RUNTIME_PULL_H
#include "model/model.h"

/* Goes on with a pull in ranges while the program computes. Token held. */
void step_advance(sluice_model *model);
/* Whether a push that the device makes, or a pull in ranges, goes on without a call. */
int step_works(const sluice_model *model);
#endif
