/* SPDX-License-Identifier: BSD-3-Clause
 * Counter-based random numbers (Philox-4x32-10; Salmon, Moraes, Dror, Shaw, SC 2011). Every number
 * is a function of its purpose and position, so results do not depend on threads, on the order of
 * messages or on restarts, and there is no state. Selectors use these numbers directly. Quantisers
 * need many numbers for coordinates that are far apart, and take them from a mixer whose keys come
 * from Philox (random_mix.h). */
#ifndef COMPRESS_RANDOM_H
#define COMPRESS_RANDOM_H
#include <stddef.h>
#include <stdint.h>

/* Streams that must be independent of each other. The numbers affect results, so values may be
 * added but never changed. */
enum random_purpose {
	RANDOM_KEEP = 1,
	RANDOM_SUPPORT_UP = 2,
	RANDOM_SUPPORT_DOWN = 3,
	RANDOM_ROUND = 4,
	RANDOM_NOISE = 5,
	RANDOM_SKETCH = 8,
	RANDOM_COUNT = 16,
	RANDOM_SUBSET = 17
};

struct random_stream {
	uint32_t purpose;
	uint32_t rank; /* the owner: a worker, or a shard for numbers that all workers share */
	uint64_t step;
	uint32_t seed; /* the seed of the recipe */
};

/* Generates the four 32-bit numbers of the coordinates 4 * quad ... 4 * quad + 3. */
void random_quad(const struct random_stream *s, uint64_t quad, uint32_t out[4]);
/* Returns the number of one coordinate. For a run of coordinates, random_quad() is four times as
 * fast. */
uint32_t random_at(const struct random_stream *s, uint64_t coordinate);
/* Generates the numbers of the coordinates first ... first + n - 1. */
void random_run(const struct random_stream *s, uint64_t first, size_t n, uint32_t *out);
/* Generates normal numbers with mean 0 and deviation 1 for the coordinates first ... first + n - 1.
 * They have the same bits on every machine. */
void random_normal_run(const struct random_stream *s, uint64_t first, size_t n, float *out);
#endif
