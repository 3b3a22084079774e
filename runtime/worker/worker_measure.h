/* SPDX-License-Identifier: BSD-3-Clause
 * Measures what compression loses of a push, if SLUICE_MEASURE is on (model/measure.h). */
#ifndef RUNTIME_WORKER_MEASURE_H
#define RUNTIME_WORKER_MEASURE_H
#include "worker/hooks.h"

extern const struct step_hooks measure_hooks;
#endif
