/* SPDX-License-Identifier: BSD-3-Clause
 * Exact top-k of a vector in device memory, fused with residual += scale * grad. One cooperative
 * launch makes all decisions, so the host never waits inside a step. The result has the same bits
 * as that of select_run() (runtime/compress/select.c) for every grid, hint and device.
 *
 * 1. With a hint, one sweep adds the gradient, lists the candidates (keys from the lower end of the
 * hinted interval on), and counts the sure ones (keys above its upper end). If
 *    sure <= k <= candidates, the sweep was successful.
 * 2. Otherwise, or without a hint, a sample gives the interval, and the same sweep follows.
 * 3. If that fails, too, or if the vector is too short for a sample or has too many equal
 *    magnitudes, histograms of keys narrow the interval until there is room for its candidates,
 *    the first of which may add the gradient. Then the sweep follows.
 * 4. Histograms of the candidates give the exact cut: (floor, ties) means keys above floor and
 *    the first `ties` equal to it. Of few candidates, every block makes them for itself.
 * 5. Tiles are summed up in order, and every selected coordinate is written to its place, in
 *    ascending order.
 *
 * Memory per coordinate: 12 bytes with a good hint or by a sample (and 8 for each sample), 16 with
 * a wrong hint or by one histogram, up to 24 if most magnitudes are equal, and 4 more if the
 * gradient is checked before anything is changed (DEVICE_JUDGE_FIRST); in addition the candidates.
 * Shared memory: 8.4 KiB per block. If all near candidates are ties and there is no room for them,
 * only the coordinates above them are listed, and the tiles with selected ties are read again. */
#include "gpu/histogram.h"
#include "gpu/in_order.h"
#include "gpu/sample.h"
#include "gpu/sweep.h"

/* ---- the whole selection --------------------------------------------------- */

/* Returns 1 if the keys in an interval and the keys above it fit together. The caller searches for
 * the need-th key of the interval. */
__device__ static inline int interval_fits(const struct topk_args *a, uint32_t need,
					   uint32_t inside)
{
	return (uint64_t)(a->k - need) + inside + a->exempt_coordinates <= a->room;
}

/* Finds, by counting, an interval that contains the k-th largest key and whose candidates fit.
 * *need is the rank of the k-th key in the interval, from the top. If low > high, fewer than k
 * values are not zero. */
__device__ static inline struct known narrow_interval(const struct topk_args *a,
						      struct histogram *sh, int adding,
						      uint32_t *passed)
{
	struct known known = { 1, KEY_MASK };
	const struct known all_nonzero = { 1, 0 };
	uint32_t need = a->k;

	for (unsigned pass = 0; pass < NARROWINGS; pass++) {
		const unsigned shift = known_shift(known);

		count_vector(a, sh, adding, known, pass);
		adding = 0;
		count_pass(sh);
		grid_barrier(&a->state->barrier, passed);
		find_bin(sh, a->state->of_vector[pass], need);
		if (sh->bin == BINS)
			return all_nonzero;
		need = sh->need;
		known = known_bin(known, shift, sh->bin);
		if (interval_fits(a, sh->need, sh->inside))
			break;
	}
	return known;
}

/* Finds the need-th largest key among the candidates in the interval, and the number of keys equal
 * to it that are needed. */
__device__ static inline struct cut cut_of_candidates(const struct topk_args *a,
						      struct histogram *sh, uint32_t listed,
						      struct known known, uint32_t need, int alone,
						      uint32_t *passed)
{
	struct cut cut;

	for (unsigned pass = 0; pass < NARROWINGS && known.low < known.high; pass++) {
		const unsigned shift = known_shift(known);

		count_candidates(a, sh, listed, known, pass, alone);
		if (!alone)
			grid_barrier(&a->state->barrier, passed);
		find_bin(sh, alone ? sh->bins : a->state->of_candidates[pass], need);
		need = sh->need;
		known = known_bin(known, shift, sh->bin);
	}
	cut.floor = known.low;
	cut.ties = need;
	cut.below = 0;
	return cut;
}

/* A block has 256 threads. The number of blocks is any for which all blocks are resident at the
 * same time. */
KERNEL(topk, topk_args)
{
	__shared__ struct histogram sh;
	struct topk_state *state = a.state;
	struct known near = { 1, 0 };
	struct cut cut = { 0, 0, 0 };
	struct search s = { 1, 0, 0, 0 };
	uint32_t passed = 0, attempt = 0, listed, within = 0, sure, found;
	uint32_t boundary = 0;
	int adding = a.adds, ready = 0, ties_apart = 0;
	const int seeks = !a.by_level && a.k && a.k < a.n - a.exempt_coordinates;

	if (threadIdx.x == 0)
		sh.passes = 1;
	if (prepare(&a, &passed))
		return;
	/* Tries the interval of the hint first, then that of a sample. */
	for (unsigned by_sample = 0; by_sample < 2 && seeks && !ready; by_sample++) {
		if (by_sample) {
			if (!sample_interval(&a, &sh, adding, &passed, &near))
				break;
		} else {
			if (!a.hint || !hint_foretells(a.hint))
				continue;
			near = hint_around(a.hint);
		}
		s.low = near.low;
		s.above = near.high;
		sweep(&a, adding, s, attempt);
		adding = 0;
		grid_barrier(&state->barrier, &passed);
		listed = look(&state->listed[attempt]);
		within = listed - look(&state->exempt[attempt]);
		ready = look(&state->sure[attempt]) <= a.k && listed <= a.room &&
			(within >= a.k || s.low == 1);
		attempt += !ready;
		if (!ready)
			count_pass(&sh);
		if (within < a.k) /* if `ready` is set, the list has all non-zero values */
			near.high = 0;
	}
	if (!ready) {
		if (seeks) {
			near = narrow_interval(&a, &sh, adding, &passed);
			adding = 0;
			ties_apart = near.low == near.high &&
				     !interval_fits(&a, sh.need, sh.inside);
		}
		/* If k exceeds the number of non-zero values, all of these are certainly selected.
		 * If k is 0, only NaN is. */
		s.low = a.by_level           ? a.level :
			!a.k                 ? KEY_INFINITY + 1u :
			near.low > near.high ? 1 :
					       near.low;
		s.above = near.low > near.high ? s.low - 1 : near.high;
		if (ties_apart) {
			s.low = near.low + 1;
			s.tie = near.low;
		}
		sweep(&a, adding, s, attempt);
		grid_barrier(&state->barrier, &passed);
	}
	if (judge_late(&a, &passed) || look(&state->nan))
		return;
	listed = look(&state->listed[attempt]);
	within = listed - look(&state->exempt[attempt]);
	sure = look(&state->sure[attempt]);
	/* A selection by level has a single attempt. Which tiles fitted depends on timing, so no
	 * coordinate is used. */
	if (listed > a.room) {
		if (blockIdx.x == 0 && threadIdx.x == 0)
			state->found = listed;
		return;
	}
	if (!seeks || near.low > near.high) {
		cut.floor = s.low - 1; /* selects everything in the list */
	} else if (ties_apart) {
		boundary = cut.floor = near.low;
		cut.ties = a.k - sure;
	} else if (sure == a.k) {
		boundary = cut.floor = near.high;
	} else if (within == a.k) {
		boundary = near.low;
		cut.floor = near.low - 1;
	} else {
		cut = cut_of_candidates(&a, &sh, listed, near, a.k - sure, finish_alone(&a, listed),
					&passed);
		boundary = cut.floor;
	}
	found = put_in_order(&a, sh.sums, cut, ties_apart, finish_alone(&a, listed), &passed);
	if (blockIdx.x == 0 && threadIdx.x == 0) {
		state->found = found;
		state->passes = sh.passes;
		if (a.hint && seeks)
			hint_remember(a.hint, boundary);
	}
}

/* ---- for C ----------------------------------------------------------------- */

FROM_C cudaError_t topk_residents(int *blocks_each)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks_each, (const void *)topk, BLOCK,
							     0);
}

FROM_C cudaError_t topk_enqueue(const struct topk_args *args, unsigned grid, cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchCooperativeKernel((const void *)topk, blocks_of(grid), blocks_of(BLOCK),
					   arguments, 0, stream);
}
