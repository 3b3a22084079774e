/* SPDX-License-Identifier: BSD-3-Clause
 * Launchers of the kernels in cuda_layers.cu. Called by cuda_module.c. */
#ifndef TRAIN_CUDA_LAYERS_H
#define TRAIN_CUDA_LAYERS_H
#include "tools/train/compute.h"
#include <cuda_runtime_api.h>
#include <stdint.h>

/* The work on n elements of a vector, or on each column or row of a matrix. */
enum layer_work { LAYER_BIAS, LAYER_RELU, LAYER_RELU_SLOPE, LAYER_DESCEND };

struct elementwise_args {
	enum layer_work work;
	float *to;
	const float *from; /* not used for relu */
	uint64_t n, width; /* width: length of a row; only for bias */
	float lr;
};

struct bias_slope_args {
	float *grad;
	const float *slope;
	uint64_t rows, width;
};

#ifdef __cplusplus
extern "C" {
#endif
cudaError_t elementwise_enqueue(const struct elementwise_args *args, unsigned grid,
				cudaStream_t stream);
cudaError_t bias_slope_enqueue(const struct bias_slope_args *args, unsigned grid,
			       cudaStream_t stream);
cudaError_t loss_enqueue(const struct loss_call *args, unsigned grid, cudaStream_t stream);
#ifdef __cplusplus
}
#endif
enum { LAYER_BLOCK = 256 };
#endif
