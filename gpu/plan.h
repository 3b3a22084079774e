/* SPDX-License-Identifier: BSD-3-Clause
 * Sizes and launch parameters of the kernels: plain arithmetic, so that it can be tested where
 * there is no GPU. Called by gpu/ alone. */
#ifndef GPU_PLAN_H
#define GPU_PLAN_H
#include <stddef.h>
#include <stdint.h>

/* Coordinates that a warp takes at once: eight loads of 16 bytes a lane. */
enum { TILE_COORDINATES = 1024, TILE_ROUNDS = 8, ROUND_COORDINATES = 128 };
/* Passes that an interval of 31 bits needs in bins of 11. */
enum { NARROWINGS = 3 };

/* Where the arrays of a selector are in its one allocation, as offsets in bytes; n < 2^32. */
struct select_plan {
	size_t n, k;
	uint32_t tiles;
	uint32_t room; /* of the lists: candidates, and what is selected */
	size_t exempt; /* spans */
	size_t state, first, counts, candidate_index, candidate_value, index, value;
	size_t packing, widths;       /* of pack */
	size_t tile_sums, group_sums; /* pairs */
	size_t block_sums;            /* a pair for each of GRID_MOST blocks */
	size_t bytes;                 /* of all */
};
enum { GRID_MOST = 4096, TILES_OF_GROUP = 1024 };

/* exempt: coordinates of n_exempt spans that are selected outside of k. */
struct select_plan select_plan(size_t n, size_t k, size_t exempt, size_t n_exempt,
			       size_t state_bytes, size_t packing_bytes);

/* Where the arrays of a sketch of up to n coordinates are in its one allocation. */
struct sketch_plan {
	uint32_t n, columns;
	size_t barrier, begin, end, list, block_sums, bytes;
};
struct sketch_plan sketch_plan(uint32_t n, uint32_t columns);

/* How many blocks the cooperative launch of a selection has: all are resident, and none is without
 * a tile, but for the first. */
unsigned select_grid(uint32_t tiles, unsigned warps, unsigned multiprocessors,
		     unsigned blocks_each);

/* How many blocks the cooperative launch has that packs count entries in blocks of gaps. */
unsigned pack_grid(uint32_t count, uint32_t gaps, unsigned warps, unsigned multiprocessors,
		   unsigned blocks_each);

/* How many blocks the cooperative launch has that quantises count values, eight a thread. */
unsigned quantize_grid(uint32_t count, unsigned multiprocessors, unsigned blocks_each);

/* How many blocks, at least one, go over a list of count entries: one thread an entry, in turns if
 * there are many. */
unsigned list_grid(uint64_t count, unsigned block, unsigned multiprocessors, unsigned blocks_each);
#endif
