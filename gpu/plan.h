/* SPDX-License-Identifier: BSD-3-Clause
 * Sizes and launch parameters of the kernels. This is plain arithmetic, so that it can be tested
 * without a GPU. Called only by gpu/. */
#ifndef GPU_PLAN_H
#define GPU_PLAN_H
#include "base/both.h"
#include <stddef.h>
#include <stdint.h>

/* The coordinates that a warp handles at once: eight loads of 16 bytes per lane. */
enum { TILE_COORDINATES = 1024, TILE_ROUNDS = 8, ROUND_COORDINATES = 128 };
/* The number of passes, with bins of 11 bits, that determine a key of 31 bits. */
enum { NARROWINGS = 3 };

/* The positions of a selector's arrays in its one allocation, as offsets in bytes. n is below
 * 2^32. */
struct select_plan {
	size_t n, k;
	uint32_t tiles;
	uint32_t room; /* entries of the lists of candidates and of selected coordinates */
	size_t exempt; /* number of exempt spans */
	size_t state, first, counts, candidate_index, candidate_value, index, value;
	size_t packing, widths;       /* for pack */
	size_t tile_sums, group_sums; /* pairs of sums */
	size_t block_sums;            /* a pair for each of GRID_MOST blocks */
	size_t bytes;                 /* size of the whole allocation */
};
enum { GRID_MOST = 4096, TILES_OF_GROUP = 1024, ROOM_SHARE = 64 };

/* Returns the number of coordinates in a sample of a vector, or 0 if the vector is too short for a
 * sample. Each list has room for that many. */
enum { SAMPLE_SHARE = ROOM_SHARE, SAMPLE_MOST = 1 << 16, SAMPLE_LEAST = 256 };

HOST_AND_DEVICE static inline uint32_t sample_count(uint32_t n)
{
	const uint32_t samples = n / SAMPLE_SHARE;

	return samples < SAMPLE_LEAST ? 0 : samples < SAMPLE_MOST ? samples : (uint32_t)SAMPLE_MOST;
}

/* Returns coordinate j of the sample. A hash chooses one coordinate of each stratum, because a
 * fixed distance could coincide with the columns of a matrix. */
HOST_AND_DEVICE static inline uint32_t sample_place(uint32_t n, uint32_t samples, uint32_t j)
{
	const uint32_t each = n / samples, longer = n - each * samples; /* the last `longer`
									   strata have one
									   coordinate more */
	uint32_t hash = (j + 1) * 2654435769u;

	hash = (hash ^ hash >> 15) * 2246822519u;
	hash ^= hash >> 13;
	return each * j + (j < longer ? j : longer) +
	       (uint32_t)((uint64_t)(each + (j < longer)) * hash >> 32);
}

/* exempt: the number of coordinates in n_exempt spans, which are selected in addition to k. */
struct select_plan select_plan(size_t n, size_t k, size_t exempt, size_t n_exempt,
			       size_t state_bytes, size_t packing_bytes);

/* The positions of the arrays in the one allocation of sketches of up to n coordinates. */
struct sketch_plan {
	uint32_t n, columns;
	size_t barrier, parts, begin, end, list, block_sums, bytes;
};
/* parts_bytes: size of the kernel's data about the parts. */
struct sketch_plan sketch_plan(uint32_t n, uint32_t columns, size_t parts_bytes);

/* Returns the grid, limited to `most` blocks. A limit of 0 stands for no limit. */
unsigned fewer_blocks(unsigned grid, unsigned most);

/* Returns the number of blocks in the cooperative launch of a selection. All blocks are resident at
 * the same time, and only the first may be without a tile. */
unsigned select_grid(uint32_t tiles, unsigned warps, unsigned multiprocessors,
		     unsigned blocks_each);

/* Returns the number of blocks in the cooperative launch that packs count entries in blocks of
 * gaps. */
unsigned pack_grid(uint32_t count, uint32_t gaps, unsigned warps, unsigned multiprocessors,
		   unsigned blocks_each);

/* Returns the number of blocks in a cooperative launch for all parts of a push. This is at least
 * one block for each part, unless fewer can be resident. wanted: the number of blocks that is
 * enough for all entries together. */
unsigned push_grid(uint32_t parts, unsigned wanted, unsigned multiprocessors, unsigned blocks_each);

/* Returns the number of blocks in the cooperative launch that quantises count values, eight per
 * thread. */
unsigned quantize_grid(uint32_t count, unsigned multiprocessors, unsigned blocks_each);

/* Returns the number of blocks, at least one, for a list of count entries. Each thread handles one
 * entry at a time, and several one after the other if there are many. */
unsigned list_grid(uint64_t count, unsigned block, unsigned multiprocessors, unsigned blocks_each);
#endif
