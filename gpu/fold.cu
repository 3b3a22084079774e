/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of a recipe before compression, in one cooperative launch before the selection. The
 * kernel refuses a gradient with NaN or infinity, or counts such values and replaces them by 0. It
 * clips the 2-norm, applies momentum, and adds the result to the residual. The bits are those of
 * runtime/worker/signal.c, because the formulas are the same and the norm is summed up in the order
 * of runtime/compress/moments.h. 256 threads, with as many blocks as are resident together.
 *
 * Memory per coordinate: 4 bytes (2 or 1 for fewer bits) to check or clip, 12 to add, and 8 more
 * with momentum. The selection's launch, which follows in the stream, reads the result. */
#include "gpu/fold.h"
#include "gpu/moments.h"
#include "base/shrink.h"
#include "runtime/compress/clip_rules.h"

__device__ static inline float4 times4(float factor, float4 v)
{
	v.x = factor * v.x;
	v.y = factor * v.y;
	v.z = factor * v.z;
	v.w = factor * v.w;
	return v;
}

__device__ static inline float4 plus4(float4 a, float4 b)
{
	a.x += b.x;
	a.y += b.y;
	a.z += b.z;
	a.w += b.w;
	return a;
}

__device__ static inline float4 shrunk4(float4 average)
{
	average.x = shrunk(average.x);
	average.y = shrunk(average.y);
	average.z = shrunk(average.z);
	average.w = shrunk(average.w);
	return average;
}

__device__ static inline float narrow_one(const struct fold_args *a, uint64_t at, uint32_t i,
					  uint32_t left)
{
	return i < left ? widened_at(a->grad, at + i, a->grad_type, a->grad_scale) : 0.0f;
}

/* Loads half a tile of the gradient, which may have any alignment, as floats. Returns zeros beyond
 * the end. */
__device__ static inline void load_gradient(const struct fold_args *a, uint64_t at, int whole,
					    float4 *g)
{
	if (a->grad_type == VALUE_F32) {
		load_half((const float *)a->grad, at, a->n, whole, g);
		return;
	}
	const int four = whole && may_load_vectors(a->grad);
	const uint32_t left = left_of(at, a->n);

	UNROLL
	for (unsigned j = 0; j < HALF; j++) {
		const uint32_t i = j * ROUND_COORDINATES;

		if (four) {
			g[j] = widened_four(a->grad, at + i, a->grad_type, a->grad_scale);
			continue;
		}
		g[j].x = narrow_one(a, at, i, left);
		g[j].y = narrow_one(a, at, i + 1, left);
		g[j].z = narrow_one(a, at, i + 2, left);
		g[j].w = narrow_one(a, at, i + 3, left);
	}
}

/* The NaN and infinite values that this lane has found in a gradient. */
struct bad {
	uint32_t n, inverted;
};

__device__ static inline void judge_four(float4 v, uint64_t i, struct bad *bad)
{
	judge_one(v.x, i, &bad->n, &bad->inverted);
	judge_one(v.y, i + 1, &bad->n, &bad->inverted);
	judge_one(v.z, i + 2, &bad->n, &bad->inverted);
	judge_one(v.w, i + 3, &bad->n, &bad->inverted);
}

__device__ static inline void report_bad(const struct fold_args *a, const struct bad *bad)
{
	if (!bad->n)
		return;
	if (a->judge)
		a->state->nan = 1; /* the selection then selects nothing */
	atomicAdd(&a->state->nonfinite, bad->n);
	atomicMax(&a->state->inverted_first, bad->inverted);
}

__device__ static inline float finite_or_zero(float v)
{
	return key_of(v) < KEY_INFINITY ? v : 0.0f;
}

__device__ static inline float4 finite_four(float4 v)
{
	v.x = finite_or_zero(v.x);
	v.y = finite_or_zero(v.y);
	v.z = finite_or_zero(v.z);
	v.w = finite_or_zero(v.w);
	return v;
}

__device__ static inline uint32_t tiles_in(const struct fold_args *a)
{
	return (uint32_t)(((uint64_t)a->n + TILE_COORDINATES - 1) / TILE_COORDINATES);
}

__device__ static inline int ends_within(const struct fold_args *a, uint32_t tile)
{
	return tile < a->n / TILE_COORDINATES;
}

/* Counts NaN and infinite values. With clip, returns the sum of squares, which is the same on all
 * threads. */
__device__ static inline double look_over(const struct fold_args *a, uint32_t *passed)
{
	const uint32_t tiles = tiles_in(a);
	struct bad bad = { 0, 0 };
	double unused, squares = 0;

	for (uint32_t tile = first_tile(); tile < tiles; tile += warps_of_grid()) {
		double sum[4] = { 0, 0, 0, 0 };

		for (unsigned half = 0; half < 2; half++) {
			const uint64_t at = lane_at(tile, half);
			float4 g[HALF];

			load_gradient(a, at, ends_within(a, tile), g);
			UNROLL
			for (unsigned j = 0; j < HALF; j++) {
				judge_four(g[j], at + j * ROUND_COORDINATES, &bad);
				g[j] = a->zero ? finite_four(g[j]) : g[j];
				sum[0] += (double)g[j].x * (double)g[j].x;
				sum[1] += (double)g[j].y * (double)g[j].y;
				sum[2] += (double)g[j].z * (double)g[j].z;
				sum[3] += (double)g[j].w * (double)g[j].w;
			}
		}
		if (a->clip > 0)
			put_moments(a->tile_sums + 2 * (uint64_t)tile, 0,
				    (sum[0] + sum[1]) + (sum[2] + sum[3]));
	}
	report_bad(a, &bad);
	grid_barrier(&a->state->fold_barrier, passed);
	if (a->clip > 0)
		tiles_total(a->tile_sums, a->group_sums, tiles, &a->state->fold_barrier, passed,
			    &unused, &squares);
	return squares;
}

/* Handles half a tile. All loads precede all stores, so that no load waits for a store. */
__device__ static inline void fold_half(const struct fold_args *a, uint64_t at, int whole,
					float scale, int counts, struct bad *bad)
{
	float4 g[HALF], sum[HALF], t[HALF];

	load_gradient(a, at, whole, g);
	if (counts) {
		UNROLL
		for (unsigned j = 0; j < HALF; j++)
			judge_four(g[j], at + j * ROUND_COORDINATES, bad);
	}
	UNROLL
	for (unsigned j = 0; j < HALF; j++)
		g[j] = times4(scale, a->zero ? finite_four(g[j]) : g[j]);
	if (a->velocity) {
		load_half(a->velocity, at, a->n, whole, t);
		UNROLL
		for (unsigned j = 0; j < HALF; j++)
			g[j] = shrunk4(plus4(times4(a->momentum, t[j]), g[j]));
	}
	UNROLL
	for (unsigned j = 0; j < HALF; j++)
		sum[j] = g[j];
	if (a->keep) {
		load_half(a->residual, at, a->n, whole, t);
		UNROLL
		for (unsigned j = 0; j < HALF; j++)
			sum[j] = plus4(t[j], g[j]);
	}
	if (a->velocity)
		store_half(a->velocity, at, a->n, whole, g);
	store_half(a->residual, at, a->n, whole, sum);
}

KERNEL_OF_SUMS(fold, fold_args)
{
	const int looks = a.judge == DEVICE_JUDGE_FIRST || a.clip > 0;
	const uint32_t tiles = tiles_in(&a);
	uint32_t passed = 0;
	struct bad bad = { 0, 0 };
	float scale = a.scale;

	if (looks) {
		const double squares = look_over(&a, &passed);

		if (a.judge && look(&a.state->nonfinite))
			return;
		scale *= a.clip > 0 ? clip_factor(squares, a.clip) : 1.0f;
	}
	for (uint32_t tile = first_tile(); tile < tiles; tile += warps_of_grid())
		for (unsigned half = 0; half < 2; half++)
			fold_half(&a, lane_at(tile, half), ends_within(&a, tile), scale,
				  (a.zero || a.judge) && !looks, &bad);
	report_bad(&a, &bad);
}

FROM_C cudaError_t fold_residents(int *blocks_each)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks_each, (const void *)fold, BLOCK,
							     0);
}

FROM_C cudaError_t fold_enqueue(const struct fold_args *args, unsigned grid, cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchCooperativeKernel((const void *)fold, blocks_of(grid), blocks_of(BLOCK),
					   arguments, 0, stream);
}
