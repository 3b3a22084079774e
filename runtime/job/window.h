/* SPDX-License-Identifier: BSD-3-Clause
 * Opening a public region, for sluice_region_open() and sluice_broadcast(). */
#ifndef RUNTIME_WINDOW_H
#define RUNTIME_WINDOW_H
#include "sluice_region.h"

/* As sluice_region_open(). Unless root is -1, only root and one other rank at a time use the
 * region, so in a large job the other ranks need no connection with each other. Collective. */
int window_open(sluice_job *job, size_t bytes, int root, sluice_region **region_out);
#endif
