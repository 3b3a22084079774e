/* SPDX-License-Identifier: BSD-3-Clause
 * Compares the models that the ranks of a job open. */
#ifndef RUNTIME_COMPARE_H
#define RUNTIME_COMPARE_H
#include "sluice.h"
#include <stddef.h>

/* Collective. Compares n models that one call opens. If they differ between ranks, all ranks fail
 * with SLUICE_EPEER and a message that names two ranks and a difference. Equal models take one
 * round, whatever their number. */
int models_compare(sluice_model *const *models, size_t n);
#endif
