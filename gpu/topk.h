/* SPDX-License-Identifier: BSD-3-Clause
 * Selection on the device: what topk.cu, gaussian.cu and draw.cu are given and what they leave
 * behind. Called by selector.c and the tests. */
#ifndef GPU_TOPK_H
#define GPU_TOPK_H
#include "base/device.h"
#include "gpu/plan.h"
#include "runtime/compress/draw_rules.h"
#include "runtime/compress/gaussian_rules.h"
#include "runtime/compress/quantize.h"
#include "runtime/compress/random.h"
#include "runtime/compress/select_rules.h"
#include <cuda_runtime_api.h>

enum { ATTEMPTS = 2 };

/* It is zeroed before each launch. The host reads what is before barrier. */
struct topk_state {
	uint32_t found;     /* how many are selected; by level, gaussian and drawn: how many passed,
			       perhaps more than the room */
	uint32_t nan;       /* the sum holds a NaN, and nothing is selected */
	uint32_t largest;   /* key of the whole vector */
	uint32_t passes;    /* over the vector, to find them */
	uint32_t nonfinite; /* of grad, if it was judged */
	uint32_t inverted_first; /* of them the smallest coordinate, all bits inverted; 0: none */
	uint32_t barrier, fold_barrier;
	uint32_t sure[ATTEMPTS], listed[ATTEMPTS], exempt[ATTEMPTS];
	uint32_t largest_inside; /* key of what is not exempt */
	uint32_t above[GAUSSIAN_COUNTS_MAX];
	uint32_t left_out[DRAW_ROUNDS_MAX + 1];
	uint32_t of_vector[NARROWINGS][BINS], of_candidates[NARROWINGS][BINS];
};

struct topk_args {
	const float *x; /* NULL: selected from residual, after residual += scale * grad */
	float *residual;
	const void *grad;
	enum value_type grad_type; /* F32, F16 or BF16 */
	float scale;
	int adds; /* 0: the residual is the sum already */
	int clear, judge, by_level;
	uint32_t n, k; /* k of those that are not exempt */
	/* ascending; their non-zeros are all selected, outside of k */
	const struct device_span *exempt;
	uint32_t n_exempt, exempt_coordinates;
	uint32_t level; /* key of the smallest magnitude that passes; at least 1 */
	struct topk_state *state;
	struct select_hint *hint;       /* read and replaced; NULL: none */
	double quantile;                /* gaussian: for the density of k (gaussian_rules.h) */
	int draw;                       /* enum device_draw */
	double wanted;                  /* drawn: the density, or epsilon */
	struct random_stream stream;    /* drawn: whose numbers */
	double *tile_sums, *group_sums; /* pairs */
	uint64_t *block_sums;
	uint32_t *first, *counts; /* of each tile: its candidates in the list */
	uint32_t *candidate_index;
	float *candidate_value;
	uint32_t *index; /* what is selected, ascending */
	float *value;
	uint32_t room;
};

#ifdef __cplusplus
extern "C" {
#endif
/* Blocks of topk that fit on a multiprocessor of the current device. */
cudaError_t topk_residents(int *blocks_each);
/* Enqueues the selection, one cooperative launch. The state is clear before it. */
cudaError_t topk_enqueue(const struct topk_args *args, unsigned grid, cudaStream_t stream);
/* The same of the other rules. */
cudaError_t gaussian_residents(int *blocks_each);
cudaError_t gaussian_enqueue(const struct topk_args *args, unsigned grid, cudaStream_t stream);
cudaError_t draw_residents(int *blocks_each);
cudaError_t draw_enqueue(const struct topk_args *args, unsigned grid, cudaStream_t stream);
#ifdef __cplusplus
}
#endif
#endif
