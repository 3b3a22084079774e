/* SPDX-License-Identifier: BSD-3-Clause
 * Buffers on the device, and copies. The operations are those of base/device.h. */
#ifndef GPU_MEMORY_H
#define GPU_MEMORY_H
#include "base/device.h"

int cuda_find(const void *p, int *device);
int cuda_enter(const void *p, int *before);
void cuda_leave(int before);
int cuda_alloc(enum memory_place place, size_t bytes, struct memory *out);
void cuda_release(struct memory *memory);
int cuda_pin(void *host, size_t bytes, void **there);
void cuda_unpin(void *host);
int cuda_copy(void *to, const void *from, size_t bytes, void *stream);
int cuda_zero(void *to, size_t bytes, void *stream);
int cuda_wait(void *stream);
int cuda_stream_open(void **stream);
void cuda_stream_close(void *stream);
#endif
