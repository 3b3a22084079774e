/* SPDX-License-Identifier: BSD-3-Clause
 * The orthonormal discrete cosine transform (DCT-II) of blocks of up to 64 x 64 numbers, as two
 * products with small matrices. The order of all sums is fixed, and the matrices need no libm, so
 * the bits are the same on every machine. The inverse of a transform differs from the block by at
 * most 2^-20 of the block's 2-norm. Called by model/transform.c. Pure. */
#ifndef COMPRESS_DCT_H
#define COMPRESS_DCT_H

enum { DCT_MOST = 64 }; /* the longest side of a block */

/* The matrix of a length, and its transpose. Lines have DCT_MOST elements, of which the first
 * `length` count. */
struct dct_matrix {
	float plain[DCT_MOST * DCT_MOST], turned[DCT_MOST * DCT_MOST];
};

/* plain[k][n] = sqrt((k ? 2 : 1) / length) cos(pi (2 n + 1) k / (2 length)), rounded from double
 * precision. 1 <= length <= DCT_MOST. */
void dct_matrix_make(struct dct_matrix *m, unsigned length);

/* Replaces a block, whose lines have DCT_MOST elements, of which the first `columns` count, by its
 * transform: of each column, then of each line. rows and columns are the lengths of these
 * matrices; if one is 1, its matrix is not used and may be NULL. */
void dct_forward(const struct dct_matrix *of_rows, unsigned rows,
		 const struct dct_matrix *of_columns, unsigned columns,
		 float block[DCT_MOST * DCT_MOST]);
void dct_inverse(const struct dct_matrix *of_rows, unsigned rows,
		 const struct dct_matrix *of_columns, unsigned columns,
		 float block[DCT_MOST * DCT_MOST]);
#endif
