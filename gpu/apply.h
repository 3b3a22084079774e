/* SPDX-License-Identifier: BSD-3-Clause
 * Sparse updates on the device (apply.cu). Called by selector.c and compressor.c. */
#ifndef GPU_APPLY_H
#define GPU_APPLY_H
#include "base/device.h"
#include "runtime/compress/quantize.h"
#include <cuda_runtime_api.h>
#include <stdint.h>

/* The arguments of a kernel that sets value[i] = vector[index[i]] and *found = count. If *refused
 * is not zero, it sets *found to 0 instead. */
struct gather_args {
	const float *vector;
	const uint32_t *index;
	float *value;
	uint32_t count;
	uint32_t *found;
	const uint32_t *refused; /* NULL if the gradient was not checked */
};

#ifdef __cplusplus
extern "C" {
#endif
/* Loads these kernels, on the current device. */
cudaError_t apply_load(void);
cudaError_t apply_enqueue(const struct device_apply *args, unsigned grid, cudaStream_t stream);
cudaError_t gather_enqueue(const struct gather_args *args, unsigned grid, cudaStream_t stream);
#ifdef __cplusplus
}
#endif
#endif
