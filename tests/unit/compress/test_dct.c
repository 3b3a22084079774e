/* SPDX-License-Identifier: BSD-3-Clause
 * The cosine transform of a block: its matrices are orthonormal, it equals the sum of the
 * definition, its inverse returns the block, and elements beyond the block play no part. */
#include "compress/dct.h"
#include "random.h"
#include "cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

static double cell(unsigned k, unsigned n, unsigned length)
{
	return sqrt((k ? 2.0 : 1.0) / length) * cos(pi * (2 * n + 1) * k / (2.0 * length));
}

TEST(dct_matrix__any_length__is_orthonormal_and_the_cosines_of_libm)
{
	static struct dct_matrix m;

	for (unsigned length = 1; length <= DCT_MOST; length++) {
		dct_matrix_make(&m, length);
		for (unsigned k = 0; k < length; k++)
			for (unsigned l = 0; l < length; l++) {
				double product = 0;

				for (unsigned n = 0; n < length; n++)
					product += (double)m.plain[k * DCT_MOST + n] *
						   (double)m.plain[l * DCT_MOST + n];
				assert_true(fabs(product - (k == l)) < 1e-6);
				assert_true(fabs((double)m.plain[k * DCT_MOST + l] -
						 cell(k, l, length)) < 6e-8);
				assert_true(m.plain[k * DCT_MOST + l] ==
					    m.turned[l * DCT_MOST + k]);
			}
	}
}

static double norm_of(const float *block, unsigned rows, unsigned columns)
{
	double squares = 0;

	for (unsigned r = 0; r < rows; r++)
		for (unsigned c = 0; c < columns; c++)
			squares += pow((double)block[r * DCT_MOST + c], 2);
	return sqrt(squares);
}

/* Fills the lines with NaN beyond the block, which must not matter. */
static void fill(float *block, unsigned rows, unsigned columns, uint64_t seed)
{
	struct random random = { seed };

	for (unsigned i = 0; i < DCT_MOST * DCT_MOST; i++)
		block[i] = NAN;
	for (unsigned r = 0; r < rows; r++)
		for (unsigned c = 0; c < columns; c++)
			block[r * DCT_MOST + c] = random_normal(&random);
}

TEST(dct__any_sides__keeps_the_norm_and_its_inverse_returns_the_block)
{
	static const unsigned sides[] = { 1, 2, 3, 5, 7, 8, 13, 16, 31, 48, 61, 63, 64 };
	enum { SIDES = sizeof(sides) / sizeof(*sides) };
	static struct dct_matrix of_rows, of_columns;
	static float block[DCT_MOST * DCT_MOST], start[DCT_MOST * DCT_MOST];

	for (size_t i = 0; i < SIDES * SIDES; i++) {
		const unsigned rows = sides[i / SIDES], columns = sides[i % SIDES];

		dct_matrix_make(&of_rows, rows);
		dct_matrix_make(&of_columns, columns);
		fill(block, rows, columns, i + 1);
		memcpy(start, block, sizeof(start));
		const double before = norm_of(start, rows, columns);

		dct_forward(&of_rows, rows, &of_columns, columns, block);
		assert_true(fabs(norm_of(block, rows, columns) - before) <= before * 0x1p-20);
		/* The coefficient of the lowest frequencies is the scaled sum. */
		double sum = 0;

		for (unsigned r = 0; r < rows; r++)
			for (unsigned c = 0; c < columns; c++)
				sum += (double)start[r * DCT_MOST + c];
		assert_true(fabs((double)block[0] - sum / sqrt(rows * columns)) <=
			    before * 0x1p-20);
		dct_inverse(&of_rows, rows, &of_columns, columns, block);
		for (unsigned r = 0; r < rows; r++)
			for (unsigned c = 0; c < columns; c++)
				start[r * DCT_MOST + c] -= block[r * DCT_MOST + c];
		assert_true(norm_of(start, rows, columns) <= before * 0x1p-20);
	}
}

TEST(dct_forward__a_wave_along_one_side__is_a_single_coefficient)
{
	enum { ROWS = 24, COLUMNS = 30, K = 5, L = 7 };
	static struct dct_matrix of_rows, of_columns;
	static float block[DCT_MOST * DCT_MOST];

	dct_matrix_make(&of_rows, ROWS);
	dct_matrix_make(&of_columns, COLUMNS);
	for (unsigned r = 0; r < ROWS; r++)
		for (unsigned c = 0; c < COLUMNS; c++)
			block[r * DCT_MOST + c] = (float)(100 * cell(K, r, ROWS) *
							  cell(L, c, COLUMNS));
	dct_forward(&of_rows, ROWS, &of_columns, COLUMNS, block);
	for (unsigned k = 0; k < ROWS; k++)
		for (unsigned l = 0; l < COLUMNS; l++)
			assert_true(fabsf(block[k * DCT_MOST + l] -
					  (k == K && l == L ? 100.0f : 0.0f)) < 1e-4f);
}
