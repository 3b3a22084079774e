/* SPDX-License-Identifier: BSD-3-Clause
 * How the kernels of count sketches work, for the instruction set of wide.h. The even ones of
 * NARROW coordinates are in one register of 64-bit lanes, and the odd ones in another. The halves
 * of both form a register of results.
 *
 * The signs are a polynomial of degree three at equidistant points, so the next value follows from
 * the last one and three differences. This takes additions in place of 128-bit products. Buckets
 * are the upper half of a number that grows by the same amount from one coordinate to the next. */
#ifndef COMPRESS_SKETCH_WIDE_H
#define COMPRESS_SKETCH_WIDE_H
#include "sketch_kernels.h"
#include "wide.h"

enum { DIFFERENCES = 3, EVALUATED = (DIFFERENCES + 1) * NARROW };

/* ---- signs ---- */

/* For each lane: the value at one coordinate, and its first, second and third differences over
 * NARROW coordinates. The third difference is constant. All are below SKETCH_PRIME. */
struct differences {
	longs of[DIFFERENCES + 1];
};

static inline uint64_t minus_modulo(uint64_t a, uint64_t b)
{
	return a >= b ? a - b : a + SKETCH_PRIME - b;
}

FOR_WIDE longs plus_modulo(longs a, longs b)
{
	const longs less = a + b - SKETCH_PRIME;

	/* The top bit is set if the difference fell below zero. */
	return less + (SKETCH_PRIME & (longs)((signed_longs)less < 0));
}

/* Returns the differences for the coordinates first + odd, first + odd + 2, ... */
FOR_WIDE struct differences differences(const uint64_t *value, size_t odd)
{
	uint64_t d[DIFFERENCES + 1][LONGS];
	struct differences out;

	for (size_t lane = 0; lane < LONGS; lane++)
		for (size_t i = 0; i <= DIFFERENCES; i++)
			d[i][lane] = value[i * NARROW + 2 * lane + odd];
	for (size_t i = 1; i <= DIFFERENCES; i++)
		for (size_t j = DIFFERENCES; j >= i; j--)
			for (size_t lane = 0; lane < LONGS; lane++)
				d[j][lane] = minus_modulo(d[j][lane], d[j - 1][lane]);
	memcpy(&out, d, sizeof(out));
	return out;
}

FOR_WIDE void advance_hashes(struct differences *d)
{
#pragma GCC unroll 4
	for (size_t i = 0; i < DIFFERENCES; i++)
		d->of[i] = plus_modulo(d->of[i], d->of[i + 1]);
}

WIDE_TARGET static void sketch_sign_words(const struct sketch_hashes *h, uint32_t first, size_t n,
					  uint32_t *out)
{
	uint64_t value[EVALUATED];
	struct differences even, odd;

	for (size_t i = 0; i < EVALUATED; i++) {
		const uint64_t j = (uint64_t)first + i;

		value[i] = sketch_multiply_add(h->sign[3], j, h->sign[2]);
		value[i] = sketch_multiply_add(value[i], j, h->sign[1]);
		value[i] = sketch_multiply_add(value[i], j, h->sign[0]);
	}
	even = differences(value, 0);
	odd = differences(value, 1);
	for (size_t i = 0; i < n; i += NARROW) {
		const longs both = join_halves(even.of[0], odd.of[0] << 32);

		memcpy(out + i, &both, sizeof(both));
		advance_hashes(&even);
		advance_hashes(&odd);
	}
}

/* ---- buckets ---- */

WIDE_TARGET static void sketch_buckets(const struct sketch_hashes *h, uint32_t row, uint32_t first,
				       uint32_t columns, size_t n, uint32_t *out)
{
	const uint64_t m = h->multiplier[row];
	longs even = m * (first + 2 * long_numbers()) + h->offset[row], odd = even + m;

	for (size_t i = 0; i < n; i += NARROW, even += NARROW * m, odd += NARROW * m) {
		const longs both = join_halves(multiply_low(even >> 32, columns) >> 32,
					       multiply_low(odd >> 32, columns));

		memcpy(out + i, &both, sizeof(both));
	}
}

/* ---- values ---- */

/* Returns the sign bits for a row. */
FOR_WIDE ints row_signs(const uint32_t *sign, uint32_t row)
{
	return load_ints(sign) << (31 - (int)row) & INT32_MIN;
}

WIDE_TARGET static void sketch_addends(const float *x, const uint32_t *sign, uint32_t row, size_t n,
				       float *out)
{
	size_t i = 0;

	for (; i + NARROW <= n; i += NARROW) {
		const floats v = load_floats(x + i);
		const ints addend = ((ints)v ^ row_signs(sign + i, row)) |
				    ((v == (floats){ 0 }) & INT32_MIN);

		memcpy(out + i, &addend, sizeof(addend));
	}
	for (; i < n; i++)
		out[i] = sketch_addend(x[i], sign[i], row);
}

/* ---- medians ---- */

/* Moves the smallest value to the front, then the next one, and so on up to the middle. */
FOR_WIDE void medians_of(float (*cells)[SKETCH_RUN], const uint32_t rows, const uint32_t *sign,
			 size_t n, float *out)
{
	for (size_t i = 0; i < n; i += NARROW) {
		floats v[SKETCH_ROWS_MAX];

#pragma GCC unroll 8 /* once unrolled, v stays in registers if rows is constant */
		for (uint32_t r = 0; r < rows; r++)
			v[r] = (floats)(load_ints(cells[r] + i) ^ row_signs(sign + i, r));
#pragma GCC unroll 8
		for (uint32_t front = 0; front <= rows / 2; front++)
#pragma GCC unroll 8
			for (uint32_t at = rows - 1; at > front; at--) {
				const floats a = v[at - 1], b = v[at];

				v[at - 1] = least(a, b);
				v[at] = most(a, b);
			}
		memcpy(out + i, &v[rows / 2], sizeof(v[0]));
	}
}

WIDE_TARGET static void sketch_medians(float (*cells)[SKETCH_RUN], uint32_t rows,
				       const uint32_t *sign, size_t n, float *out)
{
	if (rows == 3)
		medians_of(cells, 3, sign, n, out);
	else if (rows == 5)
		medians_of(cells, 5, sign, n, out);
	else if (rows == 7)
		medians_of(cells, 7, sign, n, out);
	else
		medians_of(cells, rows, sign, n, out);
}

const struct sketch_kernels WIDE(sketch) = { WIDE_NAME,      WIDE_USABLE,    sketch_sign_words,
					     sketch_buckets, sketch_addends, sketch_medians };
#endif
