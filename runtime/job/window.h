/* SPDX-License-Identifier: BSD-3-Clause
 * Opening a public region, for sluice_region_open() and sluice_broadcast(). */
#ifndef RUNTIME_WINDOW_H
#define RUNTIME_WINDOW_H
#include "sluice_region.h"

/* Does the work of sluice_region_open(). If root is not -1, the region is used only by root and one
 * other rank at a time. In a large job, the other ranks then need no connections with each other.
 * Collective. */
int window_open(sluice_job *job, size_t bytes, int root, sluice_region **region_out);
#endif
