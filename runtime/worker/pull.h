/* SPDX-License-Identifier: BSD-3-Clause
 * Work that continues between calls of the application; see pull.c. */
#ifndef RUNTIME_PULL_H
#define RUNTIME_PULL_H
#include "model/model.h"

/* Advances a push on a device, and a pull in ranges, while the program computes. Token held. */
void step_advance(struct worker *w);
#endif
