/* SPDX-License-Identifier: BSD-3-Clause
 * Counter-based randomness (Philox-4x32-10; Salmon, Moraes, Dror, Shaw, SC 2011): every number is a
 * function of what it is for, so results do not depend on threads, on the order of messages or on a
 * restart. Selectors draw from it; nothing keeps a state. Quantisers need many numbers of
 * coordinates far apart, and take them from a mixer of which Philox makes the keys
 * (random_mix.h). */
#ifndef COMPRESS_RANDOM_H
#define COMPRESS_RANDOM_H
#include <stddef.h>
#include <stdint.h>

/* Streams that must be independent of each other. Numbers are part of the results: only ever
 * add. */
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
	uint32_t rank; /* whose numbers: a worker, or a shard for what all workers share */
	uint64_t step;
	uint32_t seed; /* of the recipe */
};

/* The four 32-bit numbers of coordinates 4 * quad ... 4 * quad + 3. */
void random_quad(const struct random_stream *s, uint64_t quad, uint32_t out[4]);
/* One coordinate's number; random_quad() is four times as fast for a run of them. */
uint32_t random_at(const struct random_stream *s, uint64_t coordinate);
/* Those of coordinates first ... first + n - 1. */
void random_run(const struct random_stream *s, uint64_t first, size_t n, uint32_t *out);
/* Those of coordinates first ... first + n - 1 as normal numbers, mean 0, deviation 1: the same
 * bits on every machine. */
void random_normal_run(const struct random_stream *s, uint64_t first, size_t n, float *out);
#endif
