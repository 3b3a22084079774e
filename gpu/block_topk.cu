/* SPDX-License-Identifier: BSD-3-Clause
 * block-topk on the device, fused with residual += scale * grad, in one cooperative launch. A
 * thread block takes one block of the vector after another and finds its cut by histograms in
 * shared memory, which read the block again from the caches. After a barrier, warps list the
 * coordinates that the cuts of their blocks select. The selection is exactly that of
 * select_each_block() (runtime/compress/select_each.c). Memory per coordinate: 12 bytes, and 4 for
 * the list. */
#include "gpu/histogram.h"
#include "gpu/in_order.h"
#include "gpu/sample.h"
#include "gpu/sweep.h"

/* The cut of a block: the block selects the keys above floor, and those equal to floor before
 * coordinate tie_end. The selector's lists hold the cuts until the selection is put in order. They
 * have room for all cuts, because there are at most as many blocks as selected coordinates. */
struct block_cut {
	uint32_t floor, tie_end;
};

__device__ static inline void put_cut(const struct topk_args *a, uint32_t block,
				      struct block_cut cut)
{
	a->index[block] = cut.floor;
	a->value[block] = bits_float(cut.tie_end);
}

__device__ static inline struct block_cut cut_of_block(const struct topk_args *a, uint32_t block)
{
	struct block_cut cut;

	cut.floor = a->index[block];
	cut.tie_end = float_bits(a->value[block]);
	return cut;
}

/* ---- the cut of a block ------------------------------------------------------- */

struct block_shared {
	struct histogram h;
	uint32_t tie_end;
};

/* Returns coordinate i of a block that ends at `end`. Returns 0 if i is beyond the end, or exempt,
 * because cuts do not count such coordinates. */
__device__ static inline float counted_value(const struct topk_args *a, uint32_t i, uint32_t end)
{
	return i < end && !exempt_within(a, i, 1) ? one(a->x ? a->x : a->residual, i, a->n) : 0;
}

/* Counts one key in shared memory. Unlike count_one(), it does not combine the keys of other lanes.
 * It is slower only if the keys of many lanes share a bin. */
__device__ static inline void count_alone(struct histogram *sh, struct known known, unsigned shift,
					  float v)
{
	const uint32_t above_low = key_of(v) - known.low;

	if (above_low <= known.high - known.low)
		atomicAdd(&sh->bins[above_low >> shift], 1u);
}

/* The first pass over a block: adds the gradient, and counts the keys of the coordinates that are
 * not exempt. Returns their number. */
__device__ static inline uint32_t first_pass(const struct topk_args *a, struct histogram *sh,
					     uint32_t begin, uint32_t end, struct known known,
					     uint32_t *largest)
{
	const unsigned shift = known_shift(known);
	uint64_t plain = 0, all;

	clear_bins(sh);
	for (uint32_t from = threadIdx.x; from < end - begin; from += BLOCK) {
		const uint32_t i = begin + from;
		const float v = sum_at(a, a->adds, i);

		if (a->adds)
			store_one(a->residual, i, a->n, v);
		*largest = key_of(v) > *largest ? key_of(v) : *largest;
		if (exempt_within(a, i, 1))
			continue;
		plain++;
		count_alone(sh, known, shift, v);
	}
	block_before(plain, sh->sums, &all);
	return (uint32_t)all;
}

__device__ static inline void next_pass(const struct topk_args *a, struct histogram *sh,
					uint32_t begin, uint32_t end, struct known known)
{
	const unsigned shift = known_shift(known);

	clear_bins(sh);
	for (uint32_t from = threadIdx.x; from < end - begin; from += BLOCK)
		count_alone(sh, known, shift, counted_value(a, begin + from, end));
	__syncthreads();
}

/* Finds the need-th coordinate of a block whose key equals `key`, and returns one more than it. */
__device__ static inline uint32_t nth_tie(const struct topk_args *a, struct block_shared *sh,
					  uint32_t begin, uint32_t end, uint32_t key, uint32_t need)
{
	uint64_t earlier = 0, all;

	for (uint32_t from = 0; from < end - begin && earlier < need; from += BLOCK) {
		const uint32_t i = begin + from + threadIdx.x;
		const int tie = key_of(counted_value(a, i, end)) == key;
		const uint64_t before = earlier + block_before((uint64_t)tie, sh->h.sums, &all);

		if (tie && before + 1 == need)
			sh->tie_end = i + 1;
		earlier += all;
	}
	__syncthreads();
	return sh->tie_end;
}

__device__ static inline struct block_cut find_cut(const struct topk_args *a,
						   struct block_shared *sh, uint32_t begin,
						   uint32_t end, uint32_t *largest)
{
	struct known known = { 1, KEY_MASK };
	struct block_cut cut = { 0, 0 };
	uint32_t plain = first_pass(a, &sh->h, begin, end, known, largest);
	uint32_t need = block_quota(a->k, a->block, plain);

	if (!need)
		return cut; /* all coordinates are exempt */
	for (unsigned pass = 0; pass < NARROWINGS; pass++) {
		if (pass)
			next_pass(a, &sh->h, begin, end, known);
		find_bin(&sh->h, sh->h.bins, need);
		if (sh->h.bin == BINS)
			return cut; /* fewer than `need` values are not zero */
		known = known_bin(known, known_shift(known), sh->h.bin);
		need = sh->h.need;
		if (need == sh->h.inside) { /* the whole bin is selected */
			cut.floor = known.low - 1;
			return cut;
		}
	}
	cut.floor = known.low;
	cut.tie_end = nth_tie(a, sh, begin, end, known.low, need);
	return cut;
}

/* ---- listing ------------------------------------------------------------------ */

/* Returns this lane's selected coordinates of a tile, as bits. */
__device__ static inline uint32_t mark_by_block(const struct topk_args *a, uint32_t tile)
{
	const uint32_t exempt = a->n_exempt ? exempt_bits(a, tile) : 0;
	const int whole = tile_whole(a, tile);
	uint32_t marks = 0;

	for (unsigned half = 0; half < 2; half++) {
		const uint64_t at = lane_at(tile, half);
		float4 v[HALF];

		load_half(a->x ? a->x : a->residual, at, a->n, whole, v);
		UNROLL
		for (unsigned j = 0; j < HALF; j++) {
			const uint64_t first = at + j * ROUND_COORDINATES;
			const float each[4] = { v[j].x, v[j].y, v[j].z, v[j].w };
			uint32_t block = (uint32_t)first / a->block;
			uint32_t left = a->block - (uint32_t)first % a->block;

			for (unsigned c = 0; c < 4; c++, left--) {
				const unsigned bit = 4 * (half * HALF + j) + c;
				const uint32_t key = key_of(each[c]);

				if (!left) {
					block++;
					left = a->block;
				}
				if (!key) /* this includes coordinates beyond the end of the
					     vector */
					continue;
				const struct block_cut cut = cut_of_block(a, block);
				if (key > cut.floor || exempt >> bit & 1 ||
				    (key == cut.floor && first + c < cut.tie_end))
					marks |= 1u << bit;
			}
		}
	}
	return marks;
}

KERNEL(block_topk, topk_args)
{
	__shared__ struct block_shared sh;
	const uint32_t blocks = (uint32_t)(((uint64_t)a.n + a.block - 1) / a.block);
	const uint32_t tiles = tiles_of(&a);
	const struct cut all = { 0, 0, 0 };
	uint32_t passed = 0, largest = 0;

	if (prepare(&a, &passed))
		return;
	for (uint32_t block = blockIdx.x; block < blocks; block += gridDim.x) {
		const uint32_t begin = block * a.block;
		const uint32_t end = a.n - begin < a.block ? a.n : begin + a.block;
		const struct block_cut cut = find_cut(&a, &sh, begin, end, &largest);

		if (threadIdx.x == 0)
			put_cut(&a, block, cut);
	}
	report_largest(&a, largest);
	grid_barrier(&a.state->barrier, &passed);
	if (judge_late(&a, &passed) || look(&a.state->nan))
		return;
	for (uint32_t tile = first_tile(); tile < tiles; tile += warps_of_grid()) {
		const uint32_t marks = mark_by_block(&a, tile);
		uint32_t counts = 0, first = 0;

		if (__any_sync(ALL_LANES, marks != 0))
			counts = list_marks(&a, tile, marks, 0, &first);
		if (lane_id() == 0) {
			a.first[tile] = first;
			a.counts[tile] = counts;
		}
	}
	end_of_sweep(&a, sh.h.sums, all, 0, 2, &passed);
}

FROM_C cudaError_t block_topk_residents(int *blocks_each)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks_each, (const void *)block_topk,
							     BLOCK, 0);
}

FROM_C cudaError_t block_topk_enqueue(const struct topk_args *args, unsigned grid,
				      cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchCooperativeKernel((const void *)block_topk, blocks_of(grid),
					   blocks_of(BLOCK), arguments, 0, stream);
}
