/* SPDX-License-Identifier: BSD-3-Clause
 * Unbiased random selection on the device, fused with residual += scale * grad, in one cooperative
 * launch. Sums give lambda (draw_rules.h), and then each coordinate is drawn by its own random
 * number. The result has the same bits as those of choose_random() and choose_variance()
 * (runtime/compress/choose_level.c): a coordinate that is kept with p < 1 becomes sign / lambda,
 * also in the residual. Memory per coordinate: 12 bytes, 4 for each further sum (at most three, or
 * more by variance), and 4 for the draw. */
#include "gpu/in_order.h"
#include "gpu/moments.h"
#include "runtime/compress/draw_rules.h"
#include "runtime/compress/philox.h"

/* Draws one coordinate. Returns 1 if it is kept; *v becomes its new value. */
__device__ static inline int draw_one(double lambda, float value, int exempt, uint32_t number,
				      float *v)
{
	const double p = draw_probability(lambda, *v);

	if (!key_of(*v))
		return 0;
	if (exempt || !(p < 1))
		return 1;
	if (!draw_keeps(p, number))
		return 0;
	*v = bits_float(float_bits(value) | (float_bits(*v) & ~(uint32_t)KEY_MASK));
	return 1;
}

/* Marks the coordinates of a tile that are kept, and writes their new values to the residual. */
__device__ static inline uint32_t draw_tile(const struct topk_args *a, uint32_t tile, double lambda,
					    float value)
{
	const uint32_t exempt = a->n_exempt ? exempt_bits(a, tile) : 0;
	const int whole = tile_whole(a, tile);
	uint32_t marks = 0;

	for (unsigned half = 0; half < 2; half++) {
		const uint64_t at = lane_at(tile, half);
		float4 v[HALF];

		take_half(a, at, whole, 0, v);
		UNROLL
		for (unsigned j = 0; j < HALF; j++) {
			const uint64_t first = at + j * ROUND_COORDINATES;
			float each[4] = { v[j].x, v[j].y, v[j].z, v[j].w };
			uint32_t number[4];

			philox_quad(&a->draw.stream, first / 4, number);
			UNROLL
			for (unsigned c = 0; c < 4; c++) {
				const unsigned bit = 4 * (half * HALF + j) + c;

				if (!draw_one(lambda, value, exempt >> bit & 1, number[c],
					      &each[c]))
					continue;
				marks |= 1u << bit;
				a->residual[first + c] = each[c];
			}
		}
	}
	return marks;
}

/* One thread of each block searches for the level. The threads of all blocks find the same
 * level. */
struct draw_shared {
	uint64_t sums[WARPS];
	struct draw_search s;
	int searching;
};

KERNEL_OF_SUMS(draw, topk_args)
{
	__shared__ struct draw_shared sh;
	struct topk_state *state = a.state;
	struct moment_terms terms = { 1, 0 };
	struct cut cut = { 0, 0, 0 };
	const uint32_t tiles = tiles_of(&a);
	struct moments m;
	uint32_t passed = 0, passes = 1;
	float value;

	if (prepare(&a, &passed))
		return;
	if (threadIdx.x == 0)
		draw_begin(&sh.s, a.draw.kind == DEVICE_DRAW_VARIANCE, a.draw.wanted,
			   a.n - a.exempt_coordinates);
	do {
		m = moments_total(&a, terms, passes == 1 && a.adds, &state->left_out[passes - 1],
				  &passed);
		if (judge_late(&a, &passed) || look(&state->nan))
			return;
		if (threadIdx.x == 0)
			sh.searching = draw_next(&sh.s, &m);
		__syncthreads();
		terms.factor = sh.s.lambda;
		passes++;
	} while (sh.searching);
	value = draw_value(terms.factor);
	for (uint32_t tile = first_tile(); tile < tiles; tile += warps_of_grid()) {
		uint32_t marks = draw_tile(&a, tile, terms.factor, value), counts = 0, first = 0;

		if (__any_sync(ALL_LANES, marks != 0))
			counts = list_marks(&a, tile, marks, 0, &first);
		if (lane_id() == 0) {
			a.first[tile] = first;
			a.counts[tile] = counts;
		}
	}
	end_of_sweep(&a, sh.sums, cut, 0, passes, &passed);
}

FROM_C cudaError_t draw_residents(int *blocks_each)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks_each, (const void *)draw, BLOCK,
							     0);
}

FROM_C cudaError_t draw_enqueue(const struct topk_args *args, unsigned grid, cudaStream_t stream)
{
	void *arguments[] = { (void *)args };

	return cudaLaunchCooperativeKernel((const void *)draw, blocks_of(grid), blocks_of(BLOCK),
					   arguments, 0, stream);
}
