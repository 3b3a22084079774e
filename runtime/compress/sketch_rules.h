/* SPDX-License-Identifier: BSD-3-Clause
 * The bucket and the sign of a coordinate in a count sketch, as the CPU and the GPU compute them.
 * Buckets come from multiply-add-shift (pairwise independent, one hash per row). The signs of all
 * rows are the bits of one polynomial of degree three over the field of 2^61 - 1 (4-wise
 * independent). Pure, inline. */
#ifndef COMPRESS_SKETCH_RULES_H
#define COMPRESS_SKETCH_RULES_H
#include "base/both.h"
#include "philox.h"
#include "sketch.h"

#define SKETCH_PRIME ((1ull << 61) - 1)

struct sketch_hashes {
	uint64_t multiplier[SKETCH_ROWS_MAX], offset[SKETCH_ROWS_MAX];
	uint64_t sign[4];
};

static inline uint64_t sketch_draw(const struct sketch_shape *shape, uint64_t which)
{
	const struct random_stream stream = { RANDOM_SKETCH, 0, shape->seed, 0 };
	uint32_t four[4];

	philox_quad(&stream, which, four);
	return (uint64_t)four[0] << 32 | four[1];
}

static inline struct sketch_hashes sketch_hashes(const struct sketch_shape *shape)
{
	struct sketch_hashes h;

	for (uint32_t r = 0; r < SKETCH_ROWS_MAX; r++) {
		h.multiplier[r] = r < shape->rows ? sketch_draw(shape, 2 * r) : 0;
		h.offset[r] = r < shape->rows ? sketch_draw(shape, 2 * r + 1) : 0;
	}
	for (uint32_t i = 0; i < 4; i++)
		h.sign[i] = sketch_draw(shape, 2 * SKETCH_ROWS_MAX + i) % SKETCH_PRIME;
	return h;
}

/* Returns a * b + c modulo the prime. All three are below it, and the product needs 128 bits. */
HOST_AND_DEVICE static inline uint64_t sketch_multiply_add(uint64_t a, uint64_t b, uint64_t c)
{
	unsigned __int128 product = (unsigned __int128)a * b;
	uint64_t sum = ((uint64_t)product & SKETCH_PRIME) + (uint64_t)(product >> 61) + c;

	sum = (sum & SKETCH_PRIME) + (sum >> 61);
	return sum >= SKETCH_PRIME ? sum - SKETCH_PRIME : sum;
}

/* Returns the signs of all rows: bit r is the sign for row r. */
HOST_AND_DEVICE static inline uint64_t sketch_signs(const struct sketch_hashes *h, uint32_t j)
{
	uint64_t y = sketch_multiply_add(h->sign[3], j, h->sign[2]);

	y = sketch_multiply_add(y, j, h->sign[1]);
	return sketch_multiply_add(y, j, h->sign[0]);
}

HOST_AND_DEVICE static inline uint32_t sketch_bucket(const struct sketch_hashes *h, uint32_t row,
						     uint32_t j, uint32_t columns)
{
	uint64_t hash = (h->multiplier[row] * j + h->offset[row]) >> 32;

	return (uint32_t)(hash * columns >> 32);
}
#endif
