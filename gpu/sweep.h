/* SPDX-License-Identifier: BSD-3-Clause
 * Passes over a vector by all blocks of a cooperative launch: the check of a gradient, and the
 * sweep, which adds the gradient, lists candidates and counts the rest in one pass. Called by
 * topk.cu and gaussian.cu. */
#ifndef GPU_SWEEP_H
#define GPU_SWEEP_H
#include "gpu/tile.h"

/* Returns the first tile of a warp. Consecutive warps take consecutive tiles, in several rounds.
 * There are at most 2^22 tiles and 2^15 warps. */
__device__ static inline uint32_t first_tile(void)
{
	return blockIdx.x * WARPS + warp_id();
}

__device__ static inline uint32_t warps_of_grid(void)
{
	return gridDim.x * WARPS;
}

/* ---- checking the gradient ---------------------------------------------------- */

__device__ static inline void judge_one(float v, uint64_t i, uint32_t *bad, uint32_t *inverted)
{
	if (key_of(v) < KEY_INFINITY)
		return;
	*bad += 1;
	*inverted = ~(uint32_t)i > *inverted ? ~(uint32_t)i : *inverted;
}

/* Checks the values of a 16-bit or 8-bit gradient one by one. */
__device__ static inline void judge_narrow(const struct topk_args *a, uint32_t *bad,
					   uint32_t *inverted)
{
	for (uint64_t i = blockIdx.x * BLOCK + threadIdx.x; i < a->n; i += gridDim.x * BLOCK)
		judge_one(widened_at(a->grad, i, a->grad_type, a->grad_scale), i, bad, inverted);
}

/* Counts NaN and infinity in grad. Returns 1 if there are any. */
__device__ static inline int judge(const struct topk_args *a, uint32_t *passed)
{
	const uint32_t tiles = tiles_of(a);
	uint32_t bad = 0, inverted = 0;

	if (a->grad_type != VALUE_F32)
		judge_narrow(a, &bad, &inverted);
	for (uint32_t t = first_tile(); t < tiles && a->grad_type == VALUE_F32;
	     t += warps_of_grid()) {
		const int whole = tile_whole(a, t);

		for (unsigned half = 0; half < 2; half++) {
			const uint64_t at = lane_at(t, half);
			float4 v[HALF];

			load_half((const float *)a->grad, at, a->n, whole, v);
			UNROLL
			for (unsigned j = 0; j < HALF; j++) {
				const uint64_t i = at + j * ROUND_COORDINATES;

				judge_one(v[j].x, i, &bad, &inverted);
				judge_one(v[j].y, i + 1, &bad, &inverted);
				judge_one(v[j].z, i + 2, &bad, &inverted);
				judge_one(v[j].w, i + 3, &bad, &inverted);
			}
		}
	}
	if (bad) {
		atomicAdd(&a->state->nonfinite, bad);
		atomicMax(&a->state->inverted_first, inverted);
	}
	grid_barrier(&a->state->barrier, passed);
	return look(&a->state->nonfinite) != 0;
}

/* Called after the first pass and a barrier. The first pass has read the gradient and found the
 * largest key of the sum. Returns 1 if grad must be checked and has NaN or infinity. Reads grad
 * again only if the sum is not finite, because a finite sum has finite terms. */
__device__ static inline int judge_late(const struct topk_args *a, uint32_t *passed)
{
	return a->judge == DEVICE_JUDGE_LATE && look(&a->state->largest) >= KEY_INFINITY &&
	       judge(a, passed);
}

/* Called before a kernel's first pass. Returns 1 if grad must be checked first and has NaN or
 * infinity. Vector loads cannot read a 16-bit or 8-bit gradient that is not aligned, and cannot
 * read its last tile. This function adds the values there one by one, so that the passes need no
 * registers for rare cases. */
__device__ static inline int prepare(const struct topk_args *a, uint32_t *passed)
{
	if (a->judge == DEVICE_JUDGE_FIRST && judge(a, passed))
		return 1;
	if (!a->adds || a->grad_type == VALUE_F32)
		return 0;
	const uint64_t begin = may_load_vectors(a->grad) ?
				       a->n / TILE_COORDINATES * TILE_COORDINATES :
				       0;

	for (uint64_t i = begin + blockIdx.x * BLOCK + threadIdx.x; i < a->n;
	     i += gridDim.x * BLOCK)
		a->residual[i] += a->scale * widened_at(a->grad, i, a->grad_type, a->grad_scale);
	grid_barrier(&a->state->barrier, passed);
	return 0;
}

/* ---- sweeping -------------------------------------------------------------- */

/* Stores the largest key that a warp has found, once per warp. */
__device__ static inline void report_largest(const struct topk_args *a, uint32_t largest)
{
	largest = __reduce_max_sync(ALL_LANES, largest);
	if (lane_id() == 0 && largest)
		atomicMax(&a->state->largest, largest);
	if (lane_id() == 0 && largest > KEY_INFINITY)
		a->state->nan = 1;
}

/* Adds the counts of a warp's lanes to the state, once per warp. */
__device__ static inline void report(const struct topk_args *a, const struct seen *seen,
				     unsigned attempt)
{
	uint32_t sure = __reduce_add_sync(ALL_LANES, seen->sure);
	uint32_t exempt = a->n_exempt ? __reduce_add_sync(ALL_LANES, seen->exempt) : 0;

	if (lane_id() == 0 && sure)
		atomicAdd(&a->state->sure[attempt], sure);
	if (lane_id() == 0 && exempt)
		atomicAdd(&a->state->exempt[attempt], exempt);
	report_largest(a, seen->largest);
}

/* Reserves room in the lists for the marked coordinates of a tile, and writes them there. Returns
 * the tile's counts of listed coordinates; *first receives the position of the first one. */
__device__ static inline uint32_t list_marks(const struct topk_args *a, uint32_t tile,
					     uint32_t marks, unsigned attempt, uint32_t *first)
{
	struct ranks r = rank_marks(marks);
	uint32_t counts = rank_total(&r);

	if (lane_id() == 0)
		*first = atomicAdd(&a->state->listed[attempt], counts);
	*first = __shfl_sync(ALL_LANES, *first, 0);
	if (*first > a->room || counts > a->room - *first)
		return 0; /* this attempt has failed; with by_level, the other coordinates are
			     left out */
	write_marks(a, tile, marks, &r, *first, a->candidates.index, a->candidates.value, 0);
	return counts;
}

/* Lists the coordinates that s describes as long as there is room, in ascending order within a
 * tile. counts: for each tile, the number of listed coordinates, with the number of ties among them
 * in the upper half. */
__device__ static inline void sweep(const struct topk_args *a, int adding, struct search s,
				    unsigned attempt)
{
	const uint32_t tiles = tiles_of(a);
	struct seen seen = { 0, 0, 0 };

	for (uint32_t tile = first_tile(); tile < tiles; tile += warps_of_grid()) {
		uint32_t counts = 0, first = 0;
		struct marks m = mark_tile(a, tile, adding, s, &seen);

		if (__any_sync(ALL_LANES, m.listed != 0))
			counts = list_marks(a, tile, m.listed, attempt, &first);
		if (s.tie)
			counts |= __reduce_add_sync(ALL_LANES, (uint32_t)__popc((int)m.tied)) << 16;
		if (lane_id() == 0) {
			a->first[tile] = first;
			a->counts[tile] = counts;
		}
	}
	report(a, &seen, attempt);
}
#endif
