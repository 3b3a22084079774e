/* SPDX-License-Identifier: BSD-3-Clause
 * The end of a selection. The candidates of a tile are wherever a warp reserved room for them.
 * These functions move the candidates that a cut selects to their places in the result, in
 * ascending order. Called by topk.cu, gaussian.cu and draw.cu. */
#ifndef GPU_IN_ORDER_H
#define GPU_IN_ORDER_H
#include "gpu/tile.h"

/* A cut selects all keys above floor, and the first `ties` keys, by index, of those in floor -
 * below .. floor. */
struct cut {
	uint32_t floor, ties, below;
};

__device__ static inline int is_tie(struct cut cut, uint32_t key)
{
	return cut.floor - key <= cut.below;
}

/* A lane handles a tile with at most this many candidates, and a warp a tile with more. */
enum { MANY = 8 };

/* Returns 1 in the lower half if candidate i is selected whatever its place, and 1 in the upper
 * half if it is a tie. */
__device__ static inline uint32_t verdict(const struct topk_args *a, uint32_t i, struct cut cut)
{
	const uint32_t key = key_of(a->candidates.value[i]);

	if (key > cut.floor || exempt_within(a, a->candidates.index[i], 1))
		return 1;
	return (uint32_t)is_tie(cut, key) << 16;
}

/* Counts the candidates of this lane's tile that the cut selects: the lower half of the result
 * counts those above floor, and the upper half the ties. All lanes of a warp call this; tile is
 * `tiles` or more if the lane has none. */
__device__ static inline uint64_t tile_counts(const struct topk_args *a, uint32_t tile,
					      uint32_t tiles, struct cut cut, int ties_apart)
{
	const uint32_t listed = tile < tiles ? a->counts[tile] : 0;
	const uint32_t first = tile < tiles ? a->first[tile] : 0;
	uint32_t sum = 0;

	if (ties_apart)
		return (listed & 0xffff) | (uint64_t)(listed >> 16) << 32;
	for (uint32_t i = 0; i < listed && listed <= MANY; i++)
		sum += verdict(a, first + i, cut);
	for (uint32_t left = __ballot_sync(ALL_LANES, listed > MANY); left; left &= left - 1) {
		const unsigned owner = (unsigned)__ffs((int)left) - 1;
		const uint32_t end = __shfl_sync(ALL_LANES, listed, owner);
		const uint32_t from = __shfl_sync(ALL_LANES, first, owner);
		uint32_t part = 0;

		for (uint32_t i = lane_id(); i < end; i += LANES)
			part += verdict(a, from + i, cut);
		part = __reduce_add_sync(ALL_LANES, part);
		sum = lane_id() == owner ? part : sum;
	}
	return (sum & 0xffff) | (uint64_t)(sum >> 16) << 32;
}

__device__ static inline void write_candidate(const struct topk_args *a, uint32_t i, uint32_t to)
{
	const uint32_t at = a->candidates.index[i];

	if (to >= a->room)
		return;
	a->index[to] = at;
	a->value[to] = a->candidates.value[i];
	if (a->clear)
		a->residual[at] = 0;
}

/* One lane writes the candidates first .. end - 1 of a tile that the cut selects. tie: the number
 * of ties before this tile. */
__device__ static inline void write_few(const struct topk_args *a, uint32_t first, uint32_t end,
					struct cut cut, uint32_t to, uint32_t tie)
{
	for (uint32_t i = first; i < end; i++) {
		const uint32_t is = verdict(a, i, cut);

		if (is == 1 || (is && tie++ < cut.ties))
			write_candidate(a, i, to++);
	}
}

/* A warp does the same. */
__device__ static inline void write_many(const struct topk_args *a, uint32_t first, uint32_t end,
					 struct cut cut, uint32_t to, uint32_t tie)
{
	const uint32_t lower = (1u << lane_id()) - 1;

	for (uint32_t from = first; from < end; from += LANES) {
		const uint32_t i = from + lane_id();
		const uint32_t is = i < end ? verdict(a, i, cut) : 0;
		const uint32_t tied = __ballot_sync(ALL_LANES, is >> 16);
		const int taken = is == 1 ||
				  (is && tie + (uint32_t)__popc((int)(tied & lower)) < cut.ties);
		const uint32_t all = __ballot_sync(ALL_LANES, taken);

		if (taken)
			write_candidate(a, i, to + (uint32_t)__popc((int)(all & lower)));
		to += (uint32_t)__popc((int)all);
		tie += (uint32_t)__popc((int)tied);
	}
}

/* A warp reads a tile again and writes the coordinates above floor and the remaining ties. */
__device__ static inline void write_ties(const struct topk_args *a, uint32_t tile, struct cut cut,
					 uint32_t to, uint32_t tie)
{
	const struct search s = { cut.floor + 1, KEY_MASK, cut.floor, cut.below };
	struct seen unused = { 0, 0, 0 };
	struct marks m = mark_tile(a, tile, 0, s, &unused);
	struct ranks r = rank_marks(m.tied);
	uint32_t taken = 0;

	for (uint32_t left = m.tied; left; left &= left - 1) {
		unsigned bit = (unsigned)__ffs((int)left) - 1;

		if (tie + rank_of(&r, m.tied, bit) < cut.ties)
			taken |= 1u << bit;
	}
	taken |= m.listed;
	r = rank_marks(taken);
	write_marks(a, tile, taken, &r, to, a->index, a->value, a->clear);
}

__device__ static inline uint32_t fewer(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Up to these limits every block counts all candidates by itself. This takes less time than a
 * barrier of all blocks. */
enum { FEW_CANDIDATES = 8192, FEW_TILES = 4096 };

__device__ static inline int finish_alone(const struct topk_args *a, uint32_t listed)
{
	return listed <= FEW_CANDIDATES && tiles_of(a) <= FEW_TILES;
}

/* A block handles a run of tiles, 256 at a time, one per thread. The counts of keys above the floor
 * and of ties share a word, because each sum stays below 2^32. sums: WARPS entries of shared
 * memory. alone: 1 if each block counts the candidates of all tiles. Returns the number of selected
 * coordinates, on every thread. */
__device__ static inline uint32_t put_in_order(const struct topk_args *a, uint64_t *sums,
					       struct cut cut, int ties_apart, int alone,
					       uint32_t *passed)
{
	const uint32_t tiles = tiles_of(a);
	const uint32_t begin = (uint32_t)((uint64_t)tiles * blockIdx.x / gridDim.x);
	const uint32_t end = (uint32_t)((uint64_t)tiles * (blockIdx.x + 1) / gridDim.x);
	uint64_t sum = 0, before = 0, whole = 0, all, earlier;

	for (uint32_t from = alone ? 0 : begin; from < (alone ? tiles : end); from += BLOCK) {
		const uint32_t t = from + threadIdx.x;
		const uint64_t of_tile = tile_counts(a, t, alone ? tiles : end, cut, ties_apart);

		sum += of_tile;
		before += t < begin ? of_tile : 0;
	}
	if (alone) {
		whole = sum;
	} else {
		block_before(sum, sums, &all);
		if (threadIdx.x == 0)
			a->block_sums[blockIdx.x] = all;
		grid_barrier(&a->state->barrier, passed);
		for (unsigned b = threadIdx.x; b < gridDim.x; b += BLOCK) {
			uint64_t of_block = a->block_sums[b];

			whole += of_block;
			before += b < blockIdx.x ? of_block : 0;
		}
	}
	block_before(before, sums, &earlier);
	block_before(whole, sums, &all);
	for (uint32_t from = begin; from < end; from += BLOCK) {
		const uint32_t t = from + threadIdx.x;
		uint64_t mine = tile_counts(a, t, end, cut, ties_apart), of_turn;
		uint64_t here = earlier + block_before(mine, sums, &of_turn);
		uint32_t tie = (uint32_t)(here >> 32), to = (uint32_t)here + fewer(tie, cut.ties);
		const int again = ties_apart && mine >> 32 && tie < cut.ties;
		const uint32_t first = t < end ? a->first[t] : 0;
		const uint32_t listed = t < end && !again ? a->counts[t] & 0xffff : 0;

		if (listed <= MANY)
			write_few(a, first, first + listed, cut, to, tie);
		for (uint32_t left = __ballot_sync(ALL_LANES, again || listed > MANY); left;
		     left &= left - 1) {
			const unsigned owner = (unsigned)__ffs((int)left) - 1;
			const uint32_t from_first = __shfl_sync(ALL_LANES, first, owner);
			const uint32_t many = __shfl_sync(ALL_LANES, listed, owner);
			const uint32_t to_there = __shfl_sync(ALL_LANES, to, owner);
			const uint32_t ties_before = __shfl_sync(ALL_LANES, tie, owner);

			if (many)
				write_many(a, from_first, from_first + many, cut, to_there,
					   ties_before);
			else
				write_ties(a, from + warp_id() * LANES + owner, cut, to_there,
					   ties_before);
		}
		earlier += of_turn;
	}
	return (uint32_t)all + fewer((uint32_t)(all >> 32), cut.ties);
}

/* Ends a selection whose cut is known before its only sweep: orders the listed coordinates, and
 * stores their number and the number of passes in the state. Some blocks may still be sweeping. */
__device__ static inline void end_of_sweep(const struct topk_args *a, uint64_t *sums,
					   struct cut cut, int ties_apart, uint32_t passes,
					   uint32_t *passed)
{
	uint32_t listed, found;

	grid_barrier(&a->state->barrier, passed);
	listed = look(&a->state->listed[0]);
	if (listed > a->room) { /* which tiles fitted depends on timing, so the candidates are
				   not used */
		if (blockIdx.x == 0 && threadIdx.x == 0)
			a->state->found = listed;
		return;
	}
	found = put_in_order(a, sums, cut, ties_apart, finish_alone(a, listed), passed);
	if (blockIdx.x == 0 && threadIdx.x == 0) {
		a->state->found = found;
		a->state->passes = passes;
	}
}
#endif
