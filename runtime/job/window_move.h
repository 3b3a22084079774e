/* SPDX-License-Identifier: BSD-3-Clause
 * Checking and ending the transfers of a public region, for window.c. */
#ifndef RUNTIME_WINDOW_MOVE_H
#define RUNTIME_WINDOW_MOVE_H
#include "sluice_region.h"

/* Returns 0, or SLUICE_EINVAL if the rank does not exist, or if the bytes at offset extend beyond
 * the window. */
int window_check(const sluice_region *region, int rank, size_t offset, size_t bytes,
		 const char *function);
/* The function for the member `done` of struct region_client. */
void window_done(sluice_region *region, uint32_t index, int status);
#endif
