/* SPDX-License-Identifier: BSD-3-Clause
 * See dct.h. */
#include "dct.h"
#include <math.h>
#include <string.h>

/* ---- matrices ---------------------------------------------------------------- */

/* Returns cos(pi j / (2 length)) by its series, which needs only additions, products and quotients.
 * j is below 4 * length. */
static double cosine(unsigned j, unsigned length)
{
	enum { TERMS = 13 }; /* at pi / 2, the next term is below 1e-22 */
	const double pi = 3.14159265358979323846;
	double sum = 1, x;

	if (j > 2 * length)
		j = 4 * length - j;
	if (j > length)
		return -cosine(2 * length - j, length);
	if (j == length)
		return 0;
	x = pi * (double)j / (double)(2 * length);
	for (int i = TERMS; i > 0; i--)
		sum = 1 - x * x / (double)(2 * i * (2 * i - 1)) * sum;
	return sum;
}

void dct_matrix_make(struct dct_matrix *m, unsigned length)
{
	memset(m, 0, sizeof(*m));
	for (unsigned k = 0; k < length; k++)
		for (unsigned n = 0; n < length; n++) {
			const double norm = sqrt((k ? 2.0 : 1.0) / (double)length);
			const float x = (float)(norm *
						cosine((2 * n + 1) * k % (4 * length), length));

			m->plain[k * DCT_MOST + n] = m->turned[n * DCT_MOST + k] = x;
		}
}

/* ---- products ---------------------------------------------------------------- */

typedef float lanes __attribute__((vector_size(16), aligned(4), may_alias));
enum { LANES = 4, WIDE = 4 * LANES, TALL = 2 };

/* Sets TALL lines of c, from column `at` on, to a b. The lanes are columns, so that each sum adds
 * its products in the order of j. */
static inline void multiply_tile(const float *a, const float *b, float *c, unsigned n, unsigned at)
{
	lanes sum[TALL][WIDE / LANES] = { 0 };

	for (unsigned j = 0; j < n; j++) {
		const lanes *line = (const lanes *)(b + j * DCT_MOST + at);

		for (unsigned i = 0; i < TALL; i++) {
			const float x = a[i * DCT_MOST + j];
			const lanes factor = { x, x, x, x };

			for (unsigned l = 0; l < WIDE / LANES; l++)
				sum[i][l] += factor * line[l];
		}
	}
	for (unsigned i = 0; i < TALL; i++)
		for (unsigned l = 0; l < WIDE / LANES; l++)
			*(lanes *)(c + i * DCT_MOST + at + LANES * l) = sum[i][l];
}

/* Sets rows x columns of c to a b, whose common length is n. Lines beyond `rows` of a are zero, and
 * columns beyond `columns` of b are zero or unused. */
static void multiply(const float *a, const float *b, float *c, unsigned rows, unsigned n,
		     unsigned columns)
{
	for (unsigned i = 0; i < rows; i += TALL)
		for (unsigned at = 0; at < columns; at += WIDE)
			multiply_tile(a + i * DCT_MOST, b, c + i * DCT_MOST, n, at);
}

static void product_of_both(const float *left, unsigned rows, const float *right, unsigned columns,
			    float *block)
{
	float half[DCT_MOST * DCT_MOST];

	if (rows == 1) {
		memcpy(half, block, DCT_MOST * sizeof(*half));
		memset(half + DCT_MOST, 0, DCT_MOST * sizeof(*half)); /* TALL lines are read */
	} else {
		multiply(left, block, half, rows, rows, columns);
	}
	if (columns == 1)
		memcpy(block, half, rows * DCT_MOST * sizeof(*half));
	else
		multiply(half, right, block, rows, columns, columns);
}

void dct_forward(const struct dct_matrix *of_rows, unsigned rows,
		 const struct dct_matrix *of_columns, unsigned columns,
		 float block[DCT_MOST * DCT_MOST])
{
	product_of_both(rows > 1 ? of_rows->plain : NULL, rows,
			columns > 1 ? of_columns->turned : NULL, columns, block);
}

void dct_inverse(const struct dct_matrix *of_rows, unsigned rows,
		 const struct dct_matrix *of_columns, unsigned columns,
		 float block[DCT_MOST * DCT_MOST])
{
	product_of_both(rows > 1 ? of_rows->turned : NULL, rows,
			columns > 1 ? of_columns->plain : NULL, columns, block);
}
