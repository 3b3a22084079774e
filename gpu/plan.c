/* SPDX-License-Identifier: BSD-3-Clause
 * See plan.h. */
#include "gpu/plan.h"

/* GRANULE is the alignment of cudaMalloc(), so every array begins at an address that allows any
 * vector load. */
enum { GRANULE = 256, ROOM_LEAST = 4096, GAPS_A_BLOCK = 128 };

static size_t take(size_t *end, size_t bytes)
{
	size_t at = *end;

	*end += (bytes + GRANULE - 1) / GRANULE * GRANULE;
	return at;
}

static size_t smaller_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

struct select_plan select_plan(size_t n, size_t k, size_t exempt, size_t n_exempt,
			       size_t state_bytes, size_t packing_bytes)
{
	struct select_plan p = { .n = n, .k = smaller_size(k, n) };

	p.tiles = (uint32_t)((n + TILE_COORDINATES - 1) / TILE_COORDINATES);
	/* There is memory for everything above the boundary and for about one coordinate in 64 near
	 * it, but never for more than all coordinates. */
	p.room = (uint32_t)smaller_size(p.k + exempt + n / ROOM_SHARE + ROOM_LEAST, n);
	p.state = take(&p.bytes, state_bytes);
	p.exempt = take(&p.bytes, n_exempt * 2 * sizeof(uint32_t));
	p.packing = take(&p.bytes, packing_bytes);
	p.widths = take(&p.bytes, p.room / GAPS_A_BLOCK + 1);
	p.block_sums = take(&p.bytes, GRID_MOST * 2 * sizeof(uint64_t));
	p.tile_sums = take(&p.bytes, p.tiles * 2 * sizeof(double));
	p.group_sums = take(&p.bytes, (p.tiles / TILES_OF_GROUP + 1) * 2 * sizeof(double));
	p.first = take(&p.bytes, p.tiles * sizeof(uint32_t));
	p.counts = take(&p.bytes, p.tiles * sizeof(uint32_t));
	p.candidate_index = take(&p.bytes, p.room * sizeof(uint32_t));
	p.candidate_value = take(&p.bytes, p.room * sizeof(float));
	p.index = take(&p.bytes, p.room * sizeof(uint32_t));
	p.value = take(&p.bytes, p.room * sizeof(float));
	return p;
}

struct sketch_plan sketch_plan(uint32_t n, uint32_t columns, size_t parts_bytes)
{
	struct sketch_plan p = { .n = n, .columns = columns };

	p.barrier = take(&p.bytes, sizeof(uint32_t));
	p.parts = take(&p.bytes, parts_bytes);
	p.begin = take(&p.bytes, columns * sizeof(uint32_t));
	p.end = take(&p.bytes, columns * sizeof(uint32_t));
	p.list = take(&p.bytes, n * sizeof(uint32_t));
	p.block_sums = take(&p.bytes, GRID_MOST * sizeof(uint64_t));
	return p;
}

unsigned fewer_blocks(unsigned grid, unsigned most)
{
	return most && most < grid ? most : grid;
}

unsigned select_grid(uint32_t tiles, unsigned warps, unsigned multiprocessors, unsigned blocks_each)
{
	uint64_t wanted = ((uint64_t)tiles + warps - 1) / warps;
	uint64_t resident = (uint64_t)multiprocessors * blocks_each;

	wanted = wanted < resident ? wanted : resident;
	wanted = wanted < GRID_MOST ? wanted : GRID_MOST;
	return wanted ? (unsigned)wanted : 1;
}

unsigned pack_grid(uint32_t count, uint32_t gaps, unsigned warps, unsigned multiprocessors,
		   unsigned blocks_each)
{
	return select_grid(count / gaps + (count % gaps != 0), warps, multiprocessors, blocks_each);
}

unsigned push_grid(uint32_t parts, unsigned wanted, unsigned multiprocessors, unsigned blocks_each)
{
	const unsigned own = select_grid(parts, 1, multiprocessors, blocks_each);

	return wanted > own ? wanted : own;
}

unsigned quantize_grid(uint32_t count, unsigned multiprocessors, unsigned blocks_each)
{
	return list_grid(count / 8 + (count % 8 != 0), 256, multiprocessors, blocks_each);
}

unsigned list_grid(uint64_t count, unsigned block, unsigned multiprocessors, unsigned blocks_each)
{
	uint64_t wanted = (count + block - 1) / block;
	uint64_t most = (uint64_t)multiprocessors * blocks_each;

	wanted = wanted < most ? wanted : most;
	return wanted ? (unsigned)wanted : 1;
}
