/* SPDX-License-Identifier: BSD-3-Clause
 * A gradient's way into the residual where more is done to it than adding (fold.cu). Called by
 * selector.c before a selection. */
#ifndef GPU_FOLD_H
#define GPU_FOLD_H
#include "gpu/topk.h"

struct fold_args {
	const void *grad;
	enum value_type grad_type; /* F32, F16 or BF16 */
	float scale;
	int judge;  /* if grad holds NaN or infinity, nothing is changed and nothing selected
		       (state->nan) */
	int zero;   /* a NaN or infinity in grad counts as 0 */
	float clip; /* the 2-norm of grad is at most this; 0: it may be anything */
	float *residual;
	int keep;        /* 0: what the residual holds is replaced, not added to */
	float *velocity; /* becomes momentum * velocity + scale * grad, and is added to the
			    residual; NULL: scale * grad is added */
	float momentum;
	uint32_t n;
	/* nonfinite and inverted_first are counted up */
	struct topk_state *state;
	double *tile_sums, *group_sums; /* pairs */
};

#ifdef __cplusplus
extern "C" {
#endif
/* How many of its blocks fit on a multiprocessor of the current device. */
cudaError_t fold_residents(int *blocks_each);
/* Enqueues one cooperative launch. The state is clear before it. */
cudaError_t fold_enqueue(const struct fold_args *args, unsigned grid, cudaStream_t stream);
#ifdef __cplusplus
}
#endif
#endif
