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
	int judge;  /* of NaN or infinity in grad: nothing is changed, and nothing selected
		       (state->nan) */
	int zero;   /* what of grad is NaN or infinite counts as 0 */
	float clip; /* most that the 2-norm of grad may be; 0: anything */
	float *residual;
	int keep;        /* 0: what it holds is replaced, not added to */
	float *velocity; /* becomes momentum * velocity + scale * grad, and is added; NULL: the
			    latter is */
	float momentum;
	uint32_t n;
	/* nonfinite and inverted_first are counted up */
	struct topk_state *state;
	double *tile_sums, *group_sums; /* pairs */
};

#ifdef __cplusplus
extern "C" {
#endif
/* Blocks of it that fit on a multiprocessor of the current device. */
cudaError_t fold_residents(int *blocks_each);
/* One cooperative launch; state is clear. */
cudaError_t fold_enqueue(const struct fold_args *args, unsigned grid, cudaStream_t stream);
#ifdef __cplusplus
}
#endif
#endif
