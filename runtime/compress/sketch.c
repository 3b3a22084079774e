/* SPDX-License-Identifier: BSD-3-Clause
 * See sketch.h. Buckets by multiply-add-shift (pairwise independent, one hash for each row), signs of all rows
 * from the bits of one polynomial of degree three over the field of 2^61 - 1 (4-wise independent). */
#include "sketch.h"
#include "random.h"

#define PRIME ((1ull << 61) - 1)

struct hashes {
	uint64_t multiplier[SKETCH_ROWS_MAX], offset[SKETCH_ROWS_MAX];
	uint64_t sign[4];
};

static uint64_t draw(const struct sketch_shape *shape, uint64_t which)
{
	const struct random_stream stream = { .purpose = RANDOM_SKETCH, .rank = 0, .step = shape->seed };
	uint32_t four[4];

	random_quad(&stream, which, four);
	return (uint64_t)four[0] << 32 | four[1];
}

static struct hashes hashes_of(const struct sketch_shape *shape)
{
	struct hashes h;

	for (uint32_t r = 0; r < shape->rows; r++) {
		h.multiplier[r] = draw(shape, 2 * r);
		h.offset[r] = draw(shape, 2 * r + 1);
	}
	for (uint32_t i = 0; i < 4; i++)
		h.sign[i] = draw(shape, 2 * SKETCH_ROWS_MAX + i) % PRIME;
	return h;
}

/* a * b + c modulo PRIME, all below it; the product needs 128 bits. */
static inline uint64_t multiply_add(uint64_t a, uint64_t b, uint64_t c)
{
	unsigned __int128 product = (unsigned __int128)a * b;
	uint64_t sum = ((uint64_t)product & PRIME) + (uint64_t)(product >> 61) + c;

	sum = (sum & PRIME) + (sum >> 61);
	return sum >= PRIME ? sum - PRIME : sum;
}

/* Bit r: the sign of row r. */
static inline uint64_t signs_of(const struct hashes *h, uint32_t j)
{
	uint64_t y = multiply_add(h->sign[3], j, h->sign[2]);

	y = multiply_add(y, j, h->sign[1]);
	return multiply_add(y, j, h->sign[0]);
}

static inline uint32_t bucket_of(const struct hashes *h, uint32_t row, uint32_t j, uint32_t columns)
{
	uint64_t hash = (h->multiplier[row] * j + h->offset[row]) >> 32;

	return (uint32_t)(hash * columns >> 32);
}

void sketch_add(const struct sketch_shape *shape, const float *x, uint32_t n, float *cells)
{
	const struct hashes h = hashes_of(shape);

	for (uint32_t j = 0; j < n; j++) {
		uint64_t signs = signs_of(&h, j);

		if (x[j] == 0)
			continue;
		for (uint32_t r = 0; r < shape->rows; r++) {
			float *cell = cells + (size_t)r * shape->columns +
				      bucket_of(&h, r, j, shape->columns);

			*cell += signs >> r & 1 ? -x[j] : x[j];
		}
	}
}

/* The middle one of n values, n odd and small. */
static inline float median(float *v, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++) {
		float x = v[i];
		uint32_t at = i;

		for (; at && v[at - 1] > x; at--)
			v[at] = v[at - 1];
		v[at] = x;
	}
	return v[n / 2];
}

void sketch_estimate(const struct sketch_shape *shape, const float *cells, uint32_t n, float *out)
{
	const struct hashes h = hashes_of(shape);
	float rows[SKETCH_ROWS_MAX];

	for (uint32_t j = 0; j < n; j++) {
		uint64_t signs = signs_of(&h, j);

		for (uint32_t r = 0; r < shape->rows; r++) {
			float cell = cells[(size_t)r * shape->columns +
					   bucket_of(&h, r, j, shape->columns)];

			rows[r] = signs >> r & 1 ? -cell : cell;
		}
		out[j] = median(rows, shape->rows);
	}
}
