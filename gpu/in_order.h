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

/* Counts the candidates of a tile that the cut selects. With ties_apart, the lower half of the word
 * counts those above floor and the upper half counts the ties. */
__device__ static inline uint64_t tile_counts(const struct topk_args *a, uint32_t tile,
					      struct cut cut, int ties_apart)
{
	const uint32_t counts = a->counts[tile], first = a->first[tile];
	uint64_t sure = 0, ties = 0;

	if (ties_apart)
		return (counts & 0xffff) | (uint64_t)(counts >> 16) << 32;
	for (uint32_t i = first; i < first + (counts & 0xffff); i++) {
		uint32_t key = key_of(a->candidate_value[i]);
		int exempt = exempt_within(a, a->candidate_index[i], 1);

		sure += key > cut.floor || exempt;
		ties += is_tie(cut, key) && !exempt;
	}
	return sure | ties << 32;
}

/* One thread writes the candidates of one tile that the cut selects. tie: the number of ties before
 * this tile. */
__device__ static inline void write_candidates(const struct topk_args *a, uint32_t tile,
					       struct cut cut, uint32_t to, uint32_t tie)
{
	const uint32_t first = a->first[tile], end = first + (a->counts[tile] & 0xffff);

	for (uint32_t i = first; i < end; i++) {
		float v = a->candidate_value[i];
		uint32_t key = key_of(v);
		int taken = key > cut.floor || exempt_within(a, a->candidate_index[i], 1);

		if (is_tie(cut, key) && !taken)
			taken = tie++ < cut.ties;
		if (!taken || to >= a->room)
			continue;
		a->index[to] = a->candidate_index[i];
		a->value[to] = v;
		if (a->clear)
			a->residual[a->candidate_index[i]] = 0;
		to++;
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

	for (uint32_t t = alone ? threadIdx.x : begin + threadIdx.x; t < (alone ? tiles : end);
	     t += BLOCK) {
		const uint64_t of_tile = tile_counts(a, t, cut, ties_apart);

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
		uint64_t mine = t < end ? tile_counts(a, t, cut, ties_apart) : 0, of_turn;
		uint64_t here = earlier + block_before(mine, sums, &of_turn);
		uint32_t tie = (uint32_t)(here >> 32), to = (uint32_t)here + fewer(tie, cut.ties);
		int again = ties_apart && mine >> 32 && tie < cut.ties;

		if (t < end && !again)
			write_candidates(a, t, cut, to, tie);
		for (unsigned l = 0; l < LANES; l++) {
			if (!__shfl_sync(ALL_LANES, (uint32_t)again, l))
				continue;
			write_ties(a, __shfl_sync(ALL_LANES, t, l), cut,
				   __shfl_sync(ALL_LANES, to, l), __shfl_sync(ALL_LANES, tie, l));
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
