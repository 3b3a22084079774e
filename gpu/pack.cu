/* SPDX-License-Identifier: BSD-3-Clause
 * Packing on the device (pack.h) in one cooperative launch, of one list or of all parts of a push.
 * Each part has a team of blocks. The team first computes the widths of all delta blocks. When
 * every block knows all lengths, the team chooses the coding and writes the payload. 256 threads,
 * any grid; a warp handles a delta block of 128 gaps. Memory per entry: 8 bytes read twice, and the
 * bytes written, which are cleared first if threads set single bits. Shared memory: 6.3 KiB. Equal
 * input gives equal bytes for every grid. */
#include "gpu/pack.h"
#include "gpu/compressor.h"
#include "gpu/kernel.h"
#include "gpu/values.h"

struct pack_shared {
	uint32_t gap[WARPS][DELTA_BLOCK];
	uint64_t sums[WARPS];
	uint64_t offset[BLOCK]; /* offsets of the delta blocks of one iteration */
	struct pack_args args;  /* the arguments for one part of a push */
};

/* The run of delta blocks that this block of the team handles. */
struct run {
	uint32_t begin, end;
};

__device__ static inline struct run run_of_block(const struct pack_args *a, struct team t)
{
	const uint32_t blocks = delta_blocks(a->count);
	struct run r;

	r.begin = (uint32_t)((uint64_t)blocks * t.block / t.blocks);
	r.end = (uint32_t)((uint64_t)blocks * (t.block + 1) / t.blocks);
	return r;
}

__device__ static inline uint32_t gaps_of(const struct pack_args *a, uint32_t block)
{
	const uint32_t left = a->count - block * DELTA_BLOCK;

	return left < DELTA_BLOCK ? left : DELTA_BLOCK;
}

/* Returns the difference between the index of entry i and the smallest index that the entry could
 * have. */
__device__ static inline uint32_t gap_at(const struct pack_args *a, uint32_t i)
{
	return i ? a->index[i] - a->index[i - 1] - 1 : a->index[0] - a->base;
}

/* ---- first: lengths -------------------------------------------------------- */

/* Returns the number of low bits of a gap in Rice codes. */
__device__ static inline unsigned low_bits(const struct pack_args *a)
{
	return a->count ? rice_low_bits(a->count, a->span) : 0;
}

/* Computes the widths of this block's run of delta blocks. Stores the run's length in delta blocks,
 * in bytes, and in unary codes of Rice, in bits. */
__device__ static inline void measure_gaps(const struct pack_args *a, struct team t, struct run run,
					   struct pack_shared *sh)
{
	const unsigned low = a->densest ? low_bits(a) : 0;
	uint64_t *sums = a->block_sums + t.first + t.block;
	uint64_t bytes = 0, unary = 0;
	uint32_t largest = 0;

	for (uint32_t b = run.begin + warp_id(); b < run.end; b += WARPS) {
		const uint32_t n = gaps_of(a, b), first = b * DELTA_BLOCK;
		uint32_t gaps = 0, width;

		for (unsigned g = lane_id(); g < n; g += LANES) {
			uint32_t magnitude = float_bits(a->value[first + g]) & F32_MAGNITUDE;
			uint32_t gap = gap_at(a, first + g);

			gaps |= gap;
			unary += (uint64_t)(gap >> low) + 1;
			largest = magnitude > largest ? magnitude : largest;
		}
		gaps = __reduce_or_sync(ALL_LANES, gaps);
		width = gaps ? 32 - (uint32_t)__clz((int)gaps) : 0;
		if (lane_id() == 0) {
			a->widths[b] = (uint8_t)width;
			bytes += delta_block_bytes(n, width);
		}
	}
	largest = __reduce_max_sync(ALL_LANES, largest);
	if (lane_id() == 0 && largest)
		atomicMax(&a->state->largest, largest);
	block_before(bytes, sh->sums, &bytes);
	if (a->densest)
		block_before(unary, sh->sums, &unary);
	if (threadIdx.x == 0) {
		sums[0] = bytes;
		sums[GRID_MOST] = unary;
	}
}

/* Adds up the numbers that the blocks of a team have stored. Returns the sum of those before this
 * block. */
__device__ static inline uint64_t team_before(const uint64_t *sums, struct team t,
					      struct pack_shared *sh, uint64_t *all)
{
	uint64_t whole = 0, before = 0;

	for (unsigned b = threadIdx.x; b < t.blocks; b += BLOCK) {
		whole += sums[t.first + b];
		before += b < t.block ? sums[t.first + b] : 0;
	}
	block_before(before, sh->sums, &before);
	block_before(whole, sh->sums, all);
	return before;
}

struct choice {
	enum index_coding coding;
	uint64_t payload, indices; /* bytes of the whole payload and of its index section */
};

__device__ static inline void consider(struct choice *c, enum index_coding coding, uint64_t indices,
				       uint64_t values)
{
	if (!coding_wins(indices + values, c->coding, c->payload))
		return;
	c->coding = coding;
	c->indices = indices;
	c->payload = indices + values;
}

__device__ static inline struct choice choose_coding(const struct pack_args *a,
						     uint64_t delta_bytes, uint64_t unary)
{
	const uint64_t values = section_of_values(a->count, &a->values);
	struct choice c;

	c.coding = CODING_DENSE;
	c.indices = 0;
	c.payload = section_of_values(a->span, &a->values);
	if (a->count == a->span)
		return c;
	if (value_few_bits(a->values.type)) /* few bits have no code that decodes to zero */
		c.payload = UINT64_MAX;
	consider(&c, CODING_RAW, 4 * (uint64_t)a->count, values);
	if (a->count && a->index[a->count - 1] - a->index[0] == a->count - 1)
		consider(&c, CODING_RUN, 4, values);
	consider(&c, CODING_BITMAP, section_of_bitmap(a->span), values);
	consider(&c, CODING_DELTA,
		 section_padded(section_padded(delta_blocks(a->count)) + delta_bytes), values);
	if (a->densest)
		consider(&c, CODING_RICE,
			 section_padded(bytes_of_bits((uint64_t)a->count * low_bits(a)) +
					bytes_of_bits(unary)),
			 values);
	return c;
}

/* ---- then: bytes ----------------------------------------------------------- */

__device__ static inline uint64_t thread_of_team(struct team t)
{
	return (uint64_t)t.block * BLOCK + threadIdx.x;
}

__device__ static inline uint64_t threads_of_team(struct team t)
{
	return (uint64_t)t.blocks * BLOCK;
}

__device__ static inline void write_zeros(struct team t, uint8_t *to, uint64_t bytes)
{
	for (uint64_t i = 4 * thread_of_team(t); i < bytes; i += 4 * threads_of_team(t))
		put_word(to + i, 0);
}

/* Writes the values one after the other, or each at its place among zeros. */
__device__ static inline void write_values(const struct pack_args *a, struct team t, float scale,
					   uint8_t *to, int scattered)
{
	const uint32_t width = a->values.type == VALUE_F32 ? 4 : 2;
	const float limit = f16_limit(scale);

	for (uint64_t i = thread_of_team(t); i < a->count; i += threads_of_team(t)) {
		uint64_t at = scattered ? a->index[i] - a->base : i;
		float v = a->value[i],
		      decoded = write_value(a->values.type, scale, limit, v, to + width * at);

		a->decoded[i] = a->leave_rest ? v - decoded : decoded;
	}
}

__device__ static inline void write_raw(const struct pack_args *a, struct team t)
{
	for (uint64_t i = thread_of_team(t); i < a->count; i += threads_of_team(t))
		put_word(a->payload + 4 * i, a->index[i] - a->base);
}

__device__ static inline void write_bitmap(const struct pack_args *a, struct team t)
{
	uint32_t *words = (uint32_t *)(void *)a->payload;

	for (uint64_t i = thread_of_team(t); i < a->count; i += threads_of_team(t)) {
		uint32_t index = a->index[i] - a->base;

		atomicOr(&words[index / 32], 1u << index % 32);
	}
}

/* Returns byte b of the packed gaps of a block, least significant bit first. Gaps beyond the last
 * are zero. */
__device__ static inline uint8_t packed_byte(const uint32_t *gap, unsigned width, uint32_t b)
{
	uint32_t from = 8 * b / width, byte = 0;
	int shift = (int)(from * width) - (int)(8 * b); /* position of the first bit of gap `from`,
							   relative to this byte; <= 0 */

	for (; shift < 8 && from < DELTA_BLOCK; from++, shift += (int)width)
		byte |= shift < 0 ? gap[from] >> -shift : gap[from] << shift;
	return (uint8_t)byte;
}

/* A warp writes a delta block's width and bits. */
__device__ static inline void write_delta_block(const struct pack_args *a, uint32_t block,
						uint8_t *to, uint32_t *gap)
{
	const uint32_t n = gaps_of(a, block), first = block * DELTA_BLOCK;
	const unsigned width = a->widths[block];

	__syncwarp(ALL_LANES); /* lanes may still read gap of the previous call */
	for (unsigned g = lane_id(); g < DELTA_BLOCK; g += LANES)
		gap[g] = g < n ? gap_at(a, first + g) : 0;
	__syncwarp(ALL_LANES);
	for (uint32_t b = lane_id(); b < delta_block_bytes(n, width); b += LANES)
		to[b] = packed_byte(gap, width, b);
	if (lane_id() == 0)
		a->payload[block] = (uint8_t)width;
}

/* before: the total size of the delta blocks before this block's run. */
__device__ static inline void write_delta(const struct pack_args *a, struct run run,
					  uint64_t before, struct pack_shared *sh)
{
	uint8_t *bits = a->payload + section_padded(delta_blocks(a->count));

	for (uint32_t from = run.begin; from < run.end; from += BLOCK) {
		const uint32_t b = from + threadIdx.x;
		uint64_t mine = b < run.end ? delta_block_bytes(gaps_of(a, b), a->widths[b]) : 0,
			 all;
		uint64_t here = block_before(mine, sh->sums, &all);

		sh->offset[threadIdx.x] = before + here;
		__syncthreads();
		for (uint32_t i = warp_id(); i < BLOCK && from + i < run.end; i += WARPS)
			write_delta_block(a, from + i, bits + sh->offset[i], sh->gap[warp_id()]);
		before += all;
		/* In the next iteration, block_before() acts as a barrier before this writes to
		 * offset again. */
	}
}

/* Sets bits of the payload, which must be zero, from bit `at` on. */
__device__ static inline void set_bits(uint8_t *payload, uint64_t at, uint32_t bits)
{
	uint32_t *word = (uint32_t *)(void *)payload + at / 32;
	const unsigned shift = at % 32;

	if (bits << shift)
		atomicOr(word, bits << shift);
	if (shift && bits >> (32 - shift))
		atomicOr(word + 1, bits >> (32 - shift));
}

/* before: the number of unary bits before this block's run. */
__device__ static inline void write_rice(const struct pack_args *a, struct run run, uint64_t before,
					 struct pack_shared *sh)
{
	const unsigned low = low_bits(a);
	const uint64_t unary = 8 * bytes_of_bits((uint64_t)a->count * low);
	uint64_t end = (uint64_t)run.end * DELTA_BLOCK, all;

	end = end < a->count ? end : a->count;
	for (uint64_t from = (uint64_t)run.begin * DELTA_BLOCK; from < end; from += BLOCK) {
		const uint64_t i = from + threadIdx.x;
		const uint32_t gap = i < end ? gap_at(a, (uint32_t)i) : 0;
		const uint64_t length = i < end ? (uint64_t)(gap >> low) + 1 : 0;
		const uint64_t place = before + block_before(length, sh->sums, &all);

		if (i < end) {
			set_bits(a->payload, i * low, gap & ((1u << low) - 1));
			set_bits(a->payload, unary + place + length - 1, 1);
		}
		before += all;
	}
}

/* One thread writes the padding. */
__device__ static inline void write_padding(const struct pack_args *a, struct choice c,
					    uint64_t delta_bytes)
{
	const uint64_t used = values_length(a->count, &a->values);
	const uint64_t blocks = delta_blocks(a->count);

	if (c.coding == CODING_DENSE && a->count < a->span)
		return; /* the bytes are zero already */
	if (c.coding == CODING_DELTA) {
		zero_between(a->payload, blocks, section_padded(blocks));
		zero_between(a->payload, section_padded(blocks) + delta_bytes, c.indices);
	}
	zero_between(a->payload, c.indices + used, c.payload);
}

/* Packs one list. All blocks of the team call this, with the same a. */
__device__ static inline void pack_list(const struct pack_args *a, struct team t,
					struct pack_shared *sh)
{
	const struct run run = run_of_block(a, t);
	const uint64_t *of_unary = a->block_sums + GRID_MOST;
	uint64_t before, delta_bytes, unary = 0;
	uint32_t passed = 0;
	struct choice c;
	float scale;

	measure_gaps(a, t, run, sh);
	team_barrier(&a->state->barrier, &passed, t.blocks);
	before = team_before(a->block_sums, t, sh, &delta_bytes);
	if (a->densest)
		team_before(of_unary, t, sh, &unary);
	c = choose_coding(a, delta_bytes, unary);
	scale = a->values.type == VALUE_F16 ? f16_scale_of(look(&a->state->largest)) : 1.0f;
	if (c.coding == CODING_BITMAP || c.coding == CODING_RICE ||
	    (c.coding == CODING_DENSE && a->count < a->span)) {
		write_zeros(t, a->payload, c.coding == CODING_DENSE ? c.payload : c.indices);
		team_barrier(&a->state->barrier, &passed, t.blocks);
	}
	switch (c.coding) {
	case CODING_RAW: write_raw(a, t); break;
	case CODING_RUN:
		if (thread_of_team(t) == 0)
			put_word(a->payload, a->index[0] - a->base);
		break;
	case CODING_BITMAP: write_bitmap(a, t); break;
	case CODING_DELTA: write_delta(a, run, before, sh); break;
	case CODING_RICE: write_rice(a, run, team_before(of_unary, t, sh, &unary), sh); break;
	default: break;
	}
	if (!value_few_bits(a->values.type))
		write_values(a, t, scale, a->payload + c.indices, c.coding == CODING_DENSE);
	if (thread_of_team(t) == 0) {
		write_padding(a, c, delta_bytes);
		a->state->verdict = PACK_DONE;
		a->state->coding = (uint32_t)c.coding;
		a->state->payload_bytes = (uint32_t)c.payload;
		a->state->scale = scale;
		a->state->indices = (uint32_t)c.indices;
	}
}

KERNEL(pack, pack_args)
{
	__shared__ struct pack_shared sh;

	pack_list(&a, whole_grid(), &sh);
}

/* Writes the arguments for packing part p to shared memory, because registers are scarce. */
__device__ static inline void part_args(const struct push_pack_args *a, uint32_t p,
					struct pack_args *out)
{
	const struct push_place *place = &a->place[p];
	const struct pack_range range = a->part[p].range;

	out->index = a->index + range.first;
	out->value = a->value + range.first;
	out->decoded = a->value + range.first;
	out->leave_rest = 1;
	out->payload = place->payload;
	out->base = place->begin;
	out->count = range.count;
	out->span = place->span;
	out->values = a->values;
	out->densest = a->densest;
	out->state = &a->part[p].packing;
	out->block_sums = a->block_sums;
	out->widths = a->widths + range.first / DELTA_BLOCK + p;
}

/* If a part has more entries than its capacity, the whole team skips it, so no block waits at a
 * barrier for a block that has left. */
KERNEL(pack_push, push_pack_args)
{
	__shared__ struct pack_shared sh;
	uint32_t p;
	const struct team t = team_of(a.parts, &p);

	for (; p < a.parts; p += gridDim.x) {
		if (a.part[p].range.count > a.place[p].capacity)
			continue;
		__syncthreads(); /* threads may still use the arguments of the previous part */
		if (threadIdx.x == 0)
			part_args(&a, p, &sh.args);
		__syncthreads();
		pack_list(&sh.args, t, &sh);
	}
}

FROM_C cudaError_t pack_residents(int *blocks_each)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks_each, (const void *)pack, BLOCK,
							     0);
}

FROM_C cudaError_t pack_push_residents(int *blocks_each)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks_each, (const void *)pack_push,
							     BLOCK, 0);
}

FROM_C cudaError_t pack_push_enqueue(const struct push_pack_args *args, unsigned grid,
				     cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchCooperativeKernel((const void *)pack_push, blocks_of(grid),
					   blocks_of(BLOCK), arguments, 0, stream);
}

FROM_C cudaError_t pack_enqueue(const struct pack_args *args, unsigned grid, cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchCooperativeKernel((const void *)pack, blocks_of(grid), blocks_of(BLOCK),
					   arguments, 0, stream);
}
