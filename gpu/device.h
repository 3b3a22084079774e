/* SPDX-License-Identifier: BSD-3-Clause
 * The application's current device may be another one than what an object lies on: it is changed
 * for a call and put back. */
#ifndef GPU_DEVICE_H
#define GPU_DEVICE_H

/* *before: the current one. */
int device_enter(int device, int *before);
/* Returns rc, or -1 if it cannot be put back. */
int device_leave(int device, int before, int rc);
#endif
