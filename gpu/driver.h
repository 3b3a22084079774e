/* SPDX-License-Identifier: BSD-3-Clause
 * The one driver call that the runtime has no name for, fetched through it, so that the module
 * loads where there is no driver. */
#ifndef GPU_DRIVER_H
#define GPU_DRIVER_H
#include <stddef.h>
#include <stdint.h>

/* Whether the driver knows dma-bufs at all. */
int driver_exports(void);
/* A dma-buf that holds address[0..bytes) (a whole allocation): *fd is the caller's to close, and
 * the memory begins at *offset of it. 0, or -1 where driver or device cannot: *fd is -1 then, no
 * failure is noted. */
int driver_export(void *address, size_t bytes, int *fd, uint64_t *offset);
#endif
