/* SPDX-License-Identifier: BSD-3-Clause
 * The update rule of a shard on the device (change.cu). Called by selector.c. */
#ifndef GPU_CHANGE_H
#define GPU_CHANGE_H
#include "base/device.h"
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif
/* Loads this kernel, on the current device. */
cudaError_t change_load(void);
cudaError_t change_enqueue(const struct device_change *args, unsigned grid, cudaStream_t stream);
#ifdef __cplusplus
}
#endif
#endif
