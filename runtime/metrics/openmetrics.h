/* SPDX-License-Identifier: BSD-3-Clause
 * The pages of ranks as OpenMetrics text (version 1.0.0), which readers of Prometheus's older text
 * format also accept. No family has a type that only OpenMetrics knows. No sample has a time. */
#ifndef RUNTIME_OPENMETRICS_H
#define RUNTIME_OPENMETRICS_H
#include "metrics/seen.h"
#include <stdio.h>

#define OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* Prints all families, of which those without a value have no samples, and "# EOF". */
void openmetrics_print(const struct seen *seen, FILE *to);
#endif
