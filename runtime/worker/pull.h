/* SPDX-License-Identifier: BSD-3-Clause
 * Work that continues between calls of the application; see pull.c. */
#ifndef RUNTIME_PULL_H
#define RUNTIME_PULL_H
#include "model/model.h"

/* Advances a push on a device, and a pull in ranges, while the program computes. The token must be
 * held. */
void step_advance(struct worker *w);
/* With late=, waits until the publications of the exchange under way, if there is one, are added to
 * the common parameters. A later pull applies the exchange to the worker's parameters. Returns 0 or
 * the error of the job. */
int pull_settle(struct worker *w);
#endif
