/* SPDX-License-Identifier: BSD-3-Clause
 * gaussiank on the device, fused with residual += scale * grad, in one cooperative launch. The
 * kernel derives a level from mean and deviation, refines it by counting, and lists the coordinates
 * above it in the last sweep. The selection is exactly that of choose_gaussiank()
 * (runtime/compress/choose_level.c), because both use gaussian_rules.h and sum up in the order of
 * moments.h. Memory per coordinate: 12 bytes, 4 for each count (usually two or three), and 4 for
 * the sweep. */
#include "gpu/in_order.h"
#include "gpu/moments.h"
#include "runtime/compress/gaussian_rules.h"

/* Adds to *count the number of keys above `key`, without exempt coordinates. */
__device__ static inline void count_keys_above(const struct topk_args *a, uint32_t key,
					       uint32_t *count)
{
	const struct search s = { KEY_MASK, key, 0, 0 };
	const uint32_t tiles = tiles_of(a);
	struct seen seen = { 0, 0, 0 };

	for (uint32_t tile = first_tile(); tile < tiles; tile += warps_of_grid())
		mark_tile(a, tile, 0, s, &seen);
	seen.sure = __reduce_add_sync(ALL_LANES, seen.sure);
	if (lane_id() == 0 && seen.sure)
		atomicAdd(count, seen.sure);
}

/* One thread of each block searches for the level. The threads of all blocks find the same
 * level. */
struct gaussian_shared {
	uint64_t sums[WARPS];
	struct gaussian g;
	struct gaussian_cut cut;
	int counting;
};

KERNEL_OF_SUMS(gaussian, topk_args)
{
	__shared__ struct gaussian_shared sh;
	struct topk_state *state = a.state;
	struct moment_terms terms = { 0, 0 };
	struct search s = { 1, KEY_MASK, 0, 0 };
	struct cut cut = { 0, 0, 0 };
	uint32_t passed = 0, passes = 2;
	struct moments m;

	if (prepare(&a, &passed))
		return;
	m = moments_total(&a, terms, a.adds, &state->left_out[0], &passed);
	if (judge_late(&a, &passed) || look(&state->nan))
		return;
	if (threadIdx.x == 0)
		sh.counting = gaussian_begin(&sh.g, m.first, m.second, m.n,
					     bits_float(look(&state->largest_inside)), a.quantile,
					     a.k, &sh.cut);
	__syncthreads();
	while (sh.counting) {
		uint32_t *count = &state->above[passes - 2];

		count_keys_above(&a, key_of((float)sh.g.level), count);
		grid_barrier(&state->barrier, &passed);
		if (threadIdx.x == 0)
			sh.counting = gaussian_count(&sh.g, look(count), &sh.cut);
		__syncthreads();
		passes++;
	}
	const struct gaussian_cut level = sh.cut;

	cut.floor = key_of(level.above);
	if (level.ties && key_of(level.floor) < cut.floor) {
		cut.ties = (uint32_t)level.ties;
		cut.below = cut.floor - key_of(level.floor) - 1;
		s.tie = cut.floor;
		s.below = cut.below;
	}
	s.low = cut.floor + 1;
	sweep(&a, 0, s, 0);
	end_of_sweep(&a, sh.sums, cut, s.tie != 0, passes, &passed);
}

FROM_C cudaError_t gaussian_residents(int *blocks_each)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks_each, (const void *)gaussian,
							     BLOCK, 0);
}

FROM_C cudaError_t gaussian_enqueue(const struct topk_args *args, unsigned grid,
				    cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchCooperativeKernel((const void *)gaussian, blocks_of(grid),
					   blocks_of(BLOCK), arguments, 0, stream);
}
