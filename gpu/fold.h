/* SPDX-License-Identifier: BSD-3-Clause
 * Adds a gradient to the residual if that takes more than an addition (fold.cu). Called by
 * selector.c before a selection. */
#ifndef GPU_FOLD_H
#define GPU_FOLD_H
#include "gpu/topk.h"

struct fold_args {
	const void *grad;
	enum value_type grad_type; /* F32, F16, BF16 or one of 8 bits */
	float grad_scale;          /* scale of an 8-bit gradient */
	float scale;
	/* 1: if grad has NaN or infinity, change nothing and set state->nan, so that nothing is
	 * selected. */
	int judge;
	int zero;   /* treat NaN and infinity in grad as 0 */
	float clip; /* the 2-norm of grad is limited to this; 0: no limit */
	float *residual;
	int keep; /* 0: the residual is replaced instead of added to */
	/* If not NULL, this becomes momentum * velocity + scale * grad, and is added to the
	 * residual in place of scale * grad. */
	float *velocity;
	float momentum;
	uint32_t n;
	/* The kernel updates the members nonfinite and inverted_first. */
	struct topk_state *state;
	double *tile_sums, *group_sums; /* pairs */
};

#ifdef __cplusplus
extern "C" {
#endif
/* Returns how many blocks of the kernel fit on a multiprocessor of the current device. */
cudaError_t fold_residents(int *blocks_each);
/* Enqueues one cooperative launch. The state must be zero before it. */
cudaError_t fold_enqueue(const struct fold_args *args, unsigned grid, cudaStream_t stream);
#ifdef __cplusplus
}
#endif
#endif
