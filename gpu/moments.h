/* SPDX-License-Identifier: BSD-3-Clause
 * Sums over a vector on the device, in the order of runtime/compress/moments.h: a warp adds up a
 * tile, then a group of tiles; finally every warp adds up all groups. Called by gaussian.cu,
 * draw.cu and fold.cu. */
#ifndef GPU_MOMENTS_H
#define GPU_MOMENTS_H
#include "gpu/sweep.h"
#include "runtime/compress/moments.h"

/* Adds the values of neighbouring lanes, then those of pairs, and so on. The result is equal on all
 * lanes. */
__device__ static inline double sum_of_lanes(double v)
{
	for (unsigned by = 1; by < LANES; by *= 2)
		v += shuffle_xor_double(v, by);
	return v;
}

/* Stores a pair of sums. There is one pair for each tile and one for each group. */
__device__ static inline void put_moments(double *to, double first, double second)
{
	first = sum_of_lanes(first);
	second = sum_of_lanes(second);
	if (lane_id() == 0) {
		to[0] = first;
		to[1] = second;
	}
}

/* Sums one tile, after adding the gradient if `adding` is set. *largest ignores exempt coordinates.
 * Returns how many of the lane's coordinates contribute no terms. */
__device__ static inline uint32_t add_tile(const struct topk_args *a, uint32_t tile, int adding,
					   struct moment_terms terms, uint32_t *largest,
					   uint32_t *largest_of_all)
{
	const int whole = tile_whole(a, tile);
	const uint32_t exempt = a->n_exempt ? exempt_bits(a, tile) : 0;
	double first[4] = { 0, 0, 0, 0 }, second[4] = { 0, 0, 0, 0 };
	uint32_t left_out = 0;

	for (unsigned half = 0; half < 2; half++) {
		const uint32_t of_half = exempt >> 4 * HALF * half;
		float4 v[HALF];

		take_half(a, lane_at(tile, half), whole, adding, v);
		UNROLL
		for (unsigned j = 0; j < HALF; j++) {
			const float each[4] = { v[j].x, v[j].y, v[j].z, v[j].w };

			UNROLL
			for (unsigned c = 0; c < 4; c++) {
				const uint32_t key = key_of(each[c]);

				*largest_of_all = key > *largest_of_all ? key : *largest_of_all;
				if (of_half >> (4 * j + c) & 1)
					continue;
				*largest = key > *largest ? key : *largest;
				left_out += (uint32_t)moment_add(terms, each[c], &first[c],
								 &second[c]);
			}
		}
	}
	put_moments(a->tile_sums + 2 * (uint64_t)tile,
		    (first[0] + first[1]) + (first[2] + first[3]),
		    (second[0] + second[1]) + (second[2] + second[3]));
	return left_out;
}

/* Sums this lane's share of n pairs, starting at `from`. sum_of_lanes() then adds up the lanes. */
__device__ static inline void lane_share(const double *from, uint32_t n, double *first,
					 double *second)
{
	*first = *second = 0;
	for (uint32_t i = lane_id(); i < n; i += LANES) {
		*first += from[2 * (uint64_t)i];
		*second += from[2 * (uint64_t)i + 1];
	}
}

/* Sums the pairs that put_moments() stored for `tiles` tiles. A barrier for all writers must
 * precede it. All blocks call this, and every thread gets the same sums. */
__device__ static inline void tiles_total(const double *tile_sums, double *group_sums,
					  uint32_t tiles, uint32_t *barrier, uint32_t *passed,
					  double *first, double *second)
{
	const uint32_t groups = (tiles + MOMENT_GROUP - 1) / MOMENT_GROUP;

	for (uint32_t group = first_tile(); group < groups; group += warps_of_grid()) {
		const uint32_t begin = group * MOMENT_GROUP, left = tiles - begin;

		lane_share(tile_sums + 2 * (uint64_t)begin,
			   left < MOMENT_GROUP ? left : MOMENT_GROUP, first, second);
		put_moments(group_sums + 2 * (uint64_t)group, *first, *second);
	}
	grid_barrier(barrier, passed);
	lane_share(group_sums, groups, first, second);
	*first = sum_of_lanes(*first);
	*second = sum_of_lanes(*second);
}

/* Returns the moments of the whole vector. All blocks call this, and every thread gets the same
 * sums. left_out: an unused word of the state. */
__device__ static inline struct moments moments_total(const struct topk_args *a,
						      struct moment_terms terms, int adding,
						      uint32_t *left_out, uint32_t *passed)
{
	const uint32_t tiles = tiles_of(a);
	uint32_t largest = 0, largest_of_all = 0, without = 0;
	struct moments m;

	for (uint32_t tile = first_tile(); tile < tiles; tile += warps_of_grid())
		without += add_tile(a, tile, adding, terms, &largest, &largest_of_all);
	without = __reduce_add_sync(ALL_LANES, without);
	largest = __reduce_max_sync(ALL_LANES, largest);
	if (lane_id() == 0 && without)
		atomicAdd(left_out, without);
	if (lane_id() == 0 && largest)
		atomicMax(&a->state->largest_inside, largest);
	report_largest(a, largest_of_all);
	grid_barrier(&a->state->barrier, passed);
	tiles_total(a->tile_sums, a->group_sums, tiles, &a->state->barrier, passed, &m.first,
		    &m.second);
	m.n = a->n - a->exempt_coordinates - look(left_out);
	return m;
}
#endif
