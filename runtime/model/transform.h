/* SPDX-License-Identifier: BSD-3-Clause
 * transform=dct(S): a worker's gradient is replaced by the cosine transform of its tensors, block
 * by block, and the mean of all workers is transformed back. A tensor is a matrix of rows and
 * columns, or a single row. The sides of its blocks are the largest divisors, up to S, of its
 * numbers of rows and columns. The coefficients of a block follow each other, line by line, so that
 * a block is a stretch of the vector of coefficients. Tensors that dense= names are not
 * transformed.
 *
 * The blocks of a stripe of rows have the same coordinates as the parameters of that stripe. Such a
 * stripe, or a single block if it is one row high, is a unit, and shards contain whole units. Owned
 * by layout.c; used by worker/signal.c, shard/reduce.c and the selection by blocks. Pure. */
#ifndef RUNTIME_TRANSFORM_H
#define RUNTIME_TRANSFORM_H
#include "compress/dct.h"
#include "recipe/recipe.h"
#include "sluice.h"

struct transform;

/* Returns 0, SLUICE_EINVAL or SLUICE_ENOMEM. Sets *out to NULL if the recipe has no transform. The
 * tensors have been checked. */
int transform_open(const sluice_model_attr *attr, const struct recipe *recipe,
		   struct transform **out);
void transform_close(struct transform **t);
/* Returns a digest of the shapes of all blocks, or 0 for NULL. */
uint64_t transform_digest(const struct transform *t);

/* ---- units and blocks --------------------------------------------------------- */

/* A stretch [begin, end) of coordinates. */
struct transform_unit {
	uint64_t begin, end;
};
struct transform_unit transform_unit_at(const struct transform *t, uint64_t coordinate);
/* Returns the length of the longest unit in a range. */
uint64_t transform_longest_unit(const struct transform *t, uint64_t begin, uint64_t end);
/* The ends of all blocks, for a selection by blocks, in ascending order. Tensors that are not
 * transformed are cut into blocks of up to S * S coordinates. */
const uint32_t *transform_ends(const struct transform *t);
/* Returns how many coordinates are selected in a range of whole units if k of each block are
 * selected. Tensors that dense= names do not count. */
uint64_t transform_selected(const struct transform *t, uint64_t begin, uint64_t end, uint64_t k);
/* Returns the number of coordinates that are a block each. The sides of their tensors are primes
 * above S. Tensors that dense= names do not count. */
uint64_t transform_single(const struct transform *t);
/* Returns the bytes of memory that the transform takes. */
uint64_t transform_bytes(const struct transform *t);

/* ---- the transform ------------------------------------------------------------ */

/* One block: rows x columns coefficients from `begin` on. Row r has the parameters from
 * origin + r * stride on. */
struct transform_block {
	uint64_t begin, origin, stride;
	uint32_t rows, columns;
};
/* Returns the block that begins at a coefficient. */
struct transform_block transform_block_at(const struct transform *t, uint64_t begin);
/* Replaces the parameters of a block, whose lines have DCT_MOST elements, by its coefficients, and
 * writes these without gaps to out. in and out may be the same memory. */
void transform_forward(const struct transform *t, const struct transform_block *block,
		       float in[DCT_MOST * DCT_MOST], float *out);
/* Replaces coefficients first .. first + n - 1, which are whole units, by the parameters. room: as
 * long as the longest unit. */
void transform_invert(const struct transform *t, uint64_t first, float *v, uint64_t n, float *room);
#endif
