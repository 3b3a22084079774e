/* SPDX-License-Identifier: BSD-3-Clause
 * Histograms of the keys in an interval, over a vector or a list, and the bin that holds the k-th
 * largest key. Each block counts in shared memory and adds its counts to the total at the end.
 * Called by topk.cu. */
#ifndef GPU_HISTOGRAM_H
#define GPU_HISTOGRAM_H
#include "gpu/sweep.h"

struct histogram {
	uint32_t bins[BINS];
	uint64_t sums[WARPS];
	uint32_t bin, need, inside;
	uint32_t passes; /* passes over the vector; counted by the first thread */
};

__device__ static inline void count_pass(struct histogram *sh)
{
	if (threadIdx.x == 0)
		sh->passes++;
}

__device__ static inline void clear_bins(struct histogram *sh)
{
	__syncthreads();
	for (unsigned i = threadIdx.x; i < BINS; i += BLOCK)
		sh->bins[i] = 0;
	__syncthreads();
}

__device__ static inline void bins_up(struct histogram *sh, uint32_t *counts)
{
	__syncthreads();
	for (unsigned i = threadIdx.x; i < BINS; i += BLOCK)
		if (sh->bins[i])
			atomicAdd(&counts[i], sh->bins[i]);
}

/* Counts one key per lane; all lanes call this. The keys of a warp may share a bin, as in sorted or
 * constant vectors. One lane then counts for all, because 32 additions to one word would be
 * serialised. */
__device__ static inline void count_one(struct histogram *sh, struct known known, unsigned shift,
					float v)
{
	uint32_t above_low = key_of(v) - known.low;
	uint32_t bin = above_low <= known.high - known.low ? above_low >> shift : (uint32_t)BINS;
	uint32_t of_first = __shfl_sync(ALL_LANES, bin, 0);

	if (__all_sync(ALL_LANES, bin == of_first)) {
		if (lane_id() == 0 && bin < BINS)
			atomicAdd(&sh->bins[bin], (uint32_t)LANES);
	} else if (bin < BINS) {
		atomicAdd(&sh->bins[bin], 1u);
	}
}

__device__ static inline void count_vector(const struct topk_args *a, struct histogram *sh,
					   int adding, struct known known, unsigned pass)
{
	const uint32_t tiles = tiles_of(a);
	const unsigned shift = known_shift(known);
	uint32_t largest = 0;

	clear_bins(sh);
	for (uint32_t t = first_tile(); t < tiles; t += warps_of_grid()) {
		const int whole = tile_whole(a, t);
		const uint32_t exempt = a->n_exempt ? exempt_bits(a, t) : 0;

		for (unsigned half = 0; half < 2; half++) {
			const uint32_t of_half = exempt >> 4 * HALF * half;
			float4 v[HALF];

			take_half(a, lane_at(t, half), whole, adding, v);
			UNROLL
			for (unsigned j = 0; j < HALF; j++) {
				const float each[4] = { v[j].x, v[j].y, v[j].z, v[j].w };

				UNROLL
				for (unsigned c = 0; c < 4; c++) {
					uint32_t key = key_of(each[c]);

					count_one(sh, known, shift,
						  of_half >> (4 * j + c) & 1 ? 0.0f : each[c]);
					largest = key > largest ? key : largest;
				}
			}
		}
	}
	report_largest(a, largest);
	bins_up(sh, a->state->of_vector[pass]);
}

/* Counts the candidates in bins. alone: 1 if this block counts all candidates by itself, in
 * sh->bins. */
__device__ static inline void count_candidates(const struct topk_args *a, struct histogram *sh,
					       uint32_t listed, struct known known, unsigned pass,
					       int alone)
{
	const unsigned shift = known_shift(known);
	const uint64_t step = alone ? (uint64_t)BLOCK : (uint64_t)gridDim.x * BLOCK;

	clear_bins(sh);
	/* All lanes of a warp must stay in the loop together. */
	for (uint64_t from = alone ? 0 : (uint64_t)blockIdx.x * BLOCK; from < listed;
	     from += step) {
		uint64_t i = from + threadIdx.x;
		int counts = i < listed && !exempt_within(a, a->candidates.index[i], 1);

		count_one(sh, known, shift, counts ? a->candidates.value[i] : 0.0f);
	}
	if (alone)
		__syncthreads();
	else
		bins_up(sh, a->state->of_candidates[pass]);
}

/* Finds the bin of the need-th largest key and stores it in sh->bin, or BINS if there are fewer
 * keys. sh->need receives the number of keys needed from that bin, and sh->inside the number of
 * keys in the bin. Every block finds the same bin. */
__device__ static inline void find_bin(struct histogram *sh, const uint32_t *counts, uint32_t need)
{
	enum { EACH = BINS / BLOCK };
	uint32_t mine[EACH];
	uint64_t sum = 0, before, all;

	for (unsigned i = 0; i < EACH; i++)
		sum += mine[i] = counts[BINS - 1 - (threadIdx.x * EACH + i)];
	before = block_before(sum, sh->sums, &all);
	if (threadIdx.x == 0)
		sh->bin = BINS;
	__syncthreads();
	for (unsigned i = 0; i < EACH; i++) {
		if (before < need && before + mine[i] >= need) {
			sh->bin = BINS - 1 - (threadIdx.x * EACH + i);
			sh->need = need - (uint32_t)before;
			sh->inside = mine[i];
		}
		before += mine[i];
	}
	__syncthreads();
}
#endif
