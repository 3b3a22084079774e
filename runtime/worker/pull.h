/* SPDX-License-Identifier: BSD-3-Clause
 * What goes on without a call of the application; see pull.c. */
#ifndef RUNTIME_PULL_H
#define RUNTIME_PULL_H
#include "model/model.h"

/* Advances a pull in ranges while the program computes. Token held. */
void step_advance(sluice_model *model);
/* Whether a push on the device, or a pull in ranges, has work left that needs no call of the
 * program. */
int step_works(const sluice_model *model);
#endif
