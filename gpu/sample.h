/* SPDX-License-Identifier: BSD-3-Clause
 * Estimates the k-th largest key of a vector when there is no hint, from a sample of the sum: one
 * coordinate of each of up to 2^16 strata, at a place that a hash chooses. Two histograms of the
 * sample, between grid barriers, bracket the keys whose ranks in the sample are within four
 * standard deviations of the expected rank. The sweep that follows shows whether the bracket was
 * right, so a misleading sample costs a sweep and never an exact result. Called by topk.cu. */
#ifndef GPU_SAMPLE_H
#define GPU_SAMPLE_H
#include "gpu/histogram.h"
#include <math.h>

enum { SAMPLE_DEVIATIONS = 4 };

/* Returns coordinate i of the vector from which the sweep will select. The value has the bits that
 * the sweep computes. */
__device__ static inline float sum_at(const struct topk_args *a, int adding, uint32_t i)
{
	const float v = one(a->x ? a->x : a->residual, i, a->n);

	if (!adding)
		return v;
	if (a->grad_type == VALUE_F32)
		return v + a->scale * one((const float *)a->grad, i, a->n);
	if (!adds_narrow(a, tile_whole(a, i / TILE_COORDINATES)))
		return v; /* prepare() has already added the gradient */
	return v + a->scale * widened_at(a->grad, i, a->grad_type, a->grad_scale);
}

/* Returns the key of sample j, or the key of zero if its coordinate is exempt. */
__device__ static inline uint32_t sample_key(const struct topk_args *a, int adding, uint32_t j,
					     uint32_t samples)
{
	const uint32_t i = sample_place(a->n, samples, j);

	return exempt_within(a, i, 1) ? 0 : key_of(sum_at(a, adding, i));
}

/* Counts the samples in an interval. The first pass draws the samples. */
__device__ static inline void count_samples(const struct topk_args *a, struct histogram *sh,
					    int adding, uint32_t samples, struct known known,
					    unsigned pass)
{
	const unsigned shift = known_shift(known);

	clear_bins(sh);
	/* All lanes of a warp stay in the loop together. */
	for (uint32_t from = blockIdx.x * BLOCK; from < samples; from += gridDim.x * BLOCK) {
		const uint32_t j = from + threadIdx.x;
		uint32_t key = 0;

		if (j < samples && !pass)
			a->candidates.index[j] = key = sample_key(a, adding, j, samples);
		else if (j < samples)
			key = a->candidates.index[j];
		count_one(sh, known, shift, bits_float(key));
	}
	bins_up(sh, a->state->of_sample[pass]);
}

/* Sets *near to the interval that probably contains the k-th largest key. Returns 0 if the vector
 * is too short for a sample, or if the interval probably contains more equal candidates than
 * fit. */
__device__ static inline int sample_interval(const struct topk_args *a, struct histogram *sh,
					     int adding, uint32_t *passed, struct known *near)
{
	const uint32_t samples = sample_count(a->n);
	const float share = (float)a->k / (float)a->n, rank = (float)samples * share;
	const uint32_t margin = (uint32_t)(SAMPLE_DEVIATIONS * sqrtf(rank * (1 - share))) +
				SAMPLE_DEVIATIONS;
	const uint32_t lower = (uint32_t)rank + margin + 1,
		       upper = (uint32_t)rank > margin ? (uint32_t)rank - margin : 0;
	struct known known = { 1, KEY_MASK };
	uint32_t over = 0, reached = lower; /* number of samples above `known`, and number of
					       samples that reach `low` */

	for (unsigned pass = 0; pass < SAMPLE_PASSES && samples; pass++) {
		const unsigned shift = known_shift(known);
		const uint32_t *counts = a->state->of_sample[pass];
		struct known top, bottom = known;

		count_samples(a, sh, adding, samples, known, pass);
		grid_barrier(&a->state->barrier, passed);
		find_bin(sh, counts, (upper ? upper : 1) - over);
		if (sh->bin == BINS) { /* then the vector probably has fewer than k non-zero
					  values */
			near->low = 1;
			near->high = KEY_MASK;
			return 1;
		}
		top = known_bin(known, shift, sh->bin);
		const uint32_t above = (upper ? upper : 1) - sh->need;

		find_bin(sh, counts, lower - over);
		if (sh->bin < BINS) {
			bottom = known_bin(known, shift, sh->bin);
			reached = lower - sh->need + sh->inside;
		}
		known.low = bottom.low;
		known.high = top.high;
		over = above;
	}
	near->low = known.low;
	near->high = upper ? known.high : (uint32_t)KEY_MASK;
	if (!samples)
		return 0;
	const float listed = (float)reached / (float)samples * (float)a->n;

	return a->room == a->n || listed + (float)a->exempt_coordinates <= (float)a->room;
}
#endif
