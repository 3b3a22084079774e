/* SPDX-License-Identifier: BSD-3-Clause
 * What compression takes away of a push, where SLUICE_MEASURE asked for it (model/measure.h). */
#ifndef RUNTIME_WORKER_MEASURE_H
#define RUNTIME_WORKER_MEASURE_H
#include "worker/hooks.h"

extern const struct step_hooks measure_hooks;
#endif
