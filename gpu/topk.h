/* SPDX-License-Identifier: BSD-3-Clause
 * Selection on the device: the arguments of topk.cu, gaussian.cu, draw.cu and block_topk.cu, and
 * their results.
 * Called by selector.c and the tests. */
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

/* The most times that a selection lists candidates. It does so at most once each with the hint, a
 * sample, and histograms. */
enum { ATTEMPTS = 3, SAMPLE_PASSES = 2 };

/* Must be zeroed before each launch. The host reads only the members that are declared
 * above `barrier`. */
struct topk_state {
	/* The number of selected coordinates. With by_level, gaussian and draw, it is the number
	 * that qualified, and there may not be room for all of them. */
	uint32_t found;
	uint32_t nan;            /* the sum has NaN, and nothing is selected */
	uint32_t largest;        /* largest key of the vector */
	uint32_t passes;         /* number of passes over the vector */
	uint32_t nonfinite;      /* number of NaN and infinite values in grad, if it was checked */
	uint32_t inverted_first; /* the lowest coordinate of these values, with all bits
				    inverted; 0: there are none */
	uint32_t barrier, fold_barrier;
	uint32_t sure[ATTEMPTS], listed[ATTEMPTS], exempt[ATTEMPTS];
	uint32_t largest_inside; /* largest key of the coordinates that are not exempt */
	uint32_t above[GAUSSIAN_COUNTS_MAX];
	uint32_t left_out[DRAW_ROUNDS_MAX + 1];
	uint32_t of_vector[NARROWINGS][BINS], of_candidates[NARROWINGS][BINS];
	uint32_t of_sample[SAMPLE_PASSES][BINS];
};

/* The rule by which draw.cu selects. */
struct draw_rule {
	int kind;                    /* enum device_draw */
	double wanted;               /* the density or epsilon */
	struct random_stream stream; /* the stream of random numbers */
};

struct topk_args {
	const float *x; /* NULL: compute residual += scale * grad and select from residual */
	float *residual;
	const void *grad;
	enum value_type grad_type; /* F32, F16, BF16 or one of 8 bits */
	float grad_scale;          /* scale of an 8-bit gradient */
	float scale;
	int adds; /* 0: the residual already is the sum */
	int clear, by_level;
	int judge;      /* enum device_judge */
	uint32_t n, k;  /* k does not count the exempt coordinates */
	uint32_t block; /* for block_topk: k is of each block of this length */
	/* The exempt spans, in ascending order. Their non-zero values are all selected, in addition
	 * to k. */
	const struct device_span *exempt;
	uint32_t n_exempt, exempt_coordinates;
	uint32_t level; /* key of the smallest magnitude that is selected; at least 1 */
	struct topk_state *state;
	struct select_hint *hint; /* read and updated; NULL: there is no hint */
	double quantile;          /* for gaussian: the quantile of k's density (gaussian_rules.h) */
	struct draw_rule draw;    /* for draw */
	double *tile_sums, *group_sums; /* pairs of sums */
	uint64_t *block_sums;
	uint32_t *first, *counts; /* [tiles]: position of the tile's candidates in the list, and
				     their number */
	struct {
		uint32_t *index;
		float *value;
	} candidates;
	uint32_t *index; /* the selected coordinates, in ascending order */
	float *value;
	uint32_t room;
};

#ifdef __cplusplus
extern "C" {
#endif
/* Returns how many blocks of topk fit on a multiprocessor of the current device. */
cudaError_t topk_residents(int *blocks_each);
/* Enqueues the selection as one cooperative launch. The state must be zero before it. */
cudaError_t topk_enqueue(const struct topk_args *args, unsigned grid, cudaStream_t stream);
/* The same two functions for the rules gaussian, draw and block_topk. */
cudaError_t gaussian_residents(int *blocks_each);
cudaError_t gaussian_enqueue(const struct topk_args *args, unsigned grid, cudaStream_t stream);
cudaError_t draw_residents(int *blocks_each);
cudaError_t draw_enqueue(const struct topk_args *args, unsigned grid, cudaStream_t stream);
cudaError_t block_topk_residents(int *blocks_each);
cudaError_t block_topk_enqueue(const struct topk_args *args, unsigned grid, cudaStream_t stream);
#ifdef __cplusplus
}
#endif
#endif
