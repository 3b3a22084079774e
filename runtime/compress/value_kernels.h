/* SPDX-License-Identifier: BSD-3-Clause
 * The hot loops of values in few bits, in several versions with the same results. few_bits.h
 * defines the codes. Private to few_bits.c, few_bits_round.c, quantize.c, value_wide.h,
 * value_kernels.c and the tests. */
#ifndef COMPRESS_VALUE_KERNELS_H
#define COMPRESS_VALUE_KERNELS_H
#include "few_bits_rules.h"
#include "kernels.h"
#include "random_mix.h"
#include <stddef.h>

/* A "whole" n is a multiple of VALUE_GROUP and at most VALUE_PIECE. VALUE_AHEAD: the number of
 * values whose largest magnitudes are found before the first of them is rounded. PACK_SLACK: the
 * number of bytes beyond the end that pack may write and unpack may read. */
enum { VALUE_GROUP = 32, VALUE_PIECE = 512, VALUE_AHEAD = 2048, VALUE_SUMS = 8, PACK_SLACK = 8 };

/* The random numbers for rounding: value i uses random_mix() of low + index[i], or of low + i if
 * index is NULL. */
struct value_numbers {
	struct random_key key;
	uint32_t low;
	const uint32_t *index;
};

struct value_kernels {
	const char *name;
	int (*usable)(void);
	/* Returns the bits of the largest magnitude, or 0 if n is 0. Any n and any values are
	 * allowed. */
	uint32_t (*largest)(const float *v, size_t n);
	/* Computes the sums of the magnitudes of row[j][0..n), each in order. Rows may be the
	 * same. */
	void (*sums)(const float *const row[VALUE_SUMS], size_t n, double sum[VALUE_SUMS]);
	/* Encodes v[0..n), and writes the decoded values; decoded may be v. n must be whole. The
	 * scale is that of v's block. */
	void (*uniform)(const float *v, const struct value_numbers *numbers,
			const struct uniform_scale *scale, unsigned bits, size_t n, uint8_t *codes,
			float *decoded);
	void (*signs)(const float *v, float step, size_t n, uint8_t *codes, float *decoded);
	void (*grid)(const float *v, float range, float width, int most, size_t n, uint8_t *codes,
		     float *decoded);
	/* Returns the sum of the magnitudes in 32 lanes: each lane adds every 32nd magnitude in
	 * order. Then the upper half of the lanes is added to the lower half until one is left. n
	 * must be whole, and not 0, also for split. */
	float (*total)(const float *v, size_t n);
	/* Writes the codes of twomeans, and sums the magnitudes on either side of the mean as
	 * total() does. */
	void (*split)(const float *v, float mean, size_t n, uint8_t *codes,
		      struct twomeans_sums *sums);
	void (*exponents)(const float *v, int32_t least, size_t n, uint8_t *codes); /* e3m0 */
	/* Finds for each value the nearest multiple of width, up to limit * width, with ties to
	 * even. Writes its factor and its value. NaN counts as limit * width. */
	void (*nearest)(const float *v, float width, float limit, size_t n, int32_t *q,
			float *decoded);
	/* The inverse functions. */
	void (*uniform_values)(const uint8_t *codes, float step, int levels, size_t n, float *v);
	void (*sign_values)(const uint8_t *codes, float step, size_t n, float *v);
	void (*level_values)(const uint8_t *codes, const struct levels *levels, size_t n, float *v);
	void (*grid_values)(const uint8_t *codes, float range, float width, size_t n, float *v);
	/* Returns 1 if all of codes[0..n) are in least..most. n must be whole. */
	int (*within)(const uint8_t *codes, uint8_t least, uint8_t most, size_t n);
	/* Convert n codes below 2^bits to n * bits bits and back. n must be whole, and bits
	 * 1..8. */
	void (*pack)(const uint8_t *codes, unsigned bits, size_t n, uint8_t *out);
	void (*unpack)(const uint8_t *in, unsigned bits, size_t n, uint8_t *codes);
};

extern const struct value_kernels value_portable;
#if defined(__x86_64__)
extern const struct value_kernels value_avx2;
#endif

/* Best first; NULL ends the list. */
extern const struct value_kernels *const value_versions[];
/* Returns the version in use, which is chosen at the first call according to SLUICE_KERNELS. */
const struct value_kernels *value_kernels(void);
#endif
