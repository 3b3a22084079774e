/* SPDX-License-Identifier: BSD-3-Clause
 * The random numbers of roundings, one a coordinate wherever it is: what random*.c and the GPU's kernels compute.
 * Philox makes four words of whatever the numbers depend on but the lower half of the coordinate; these are the keys
 * of a mixer of 32 bits, which costs three multiplications a coordinate. Without keys it is Wellons' triple32
 * (Prospecting for hash functions, 2018; the factors and shifts found there by search), a permutation; the keys, one
 * before each of its rounds and one behind, make another of it for each stream. */
#ifndef COMPRESS_RANDOM_MIX_H
#define COMPRESS_RANDOM_MIX_H
#include "philox.h"

#define MIX_FACTOR_0 0xed5ad4bbu
#define MIX_FACTOR_1 0xac4c1b51u
#define MIX_FACTOR_2 0x31848babu
enum { MIX_SHIFT_0 = 17, MIX_SHIFT_1 = 11, MIX_SHIFT_2 = 15, MIX_SHIFT_3 = 14 };

struct random_key {
	uint32_t word[4];
};

/* Of coordinates from first to first + 2^32 - 1: a key for each upper half that they have. */
struct random_mixer {
	uint32_t high;       /* the upper half of first */
	struct random_key key[2];
};

/* The stream's own numbers, of random.h, are then not for use. */
HOST_AND_DEVICE static inline void random_mixer_open(const struct random_stream *s, uint64_t first,
						     struct random_mixer *m)
{
	m->high = (uint32_t)(first >> 32);
	philox_quad(s, m->high, m->key[0].word);
	philox_quad(s, m->high + 1, m->key[1].word);
}

/* low: the lower half of a coordinate. */
HOST_AND_DEVICE static inline uint32_t random_mix(const struct random_key *key, uint32_t low)
{
	uint32_t x = low + key->word[0];

	x = (x ^ x >> MIX_SHIFT_0) * MIX_FACTOR_0 + key->word[1];
	x = (x ^ x >> MIX_SHIFT_1) * MIX_FACTOR_1 + key->word[2];
	x = (x ^ x >> MIX_SHIFT_2) * MIX_FACTOR_2 + key->word[3];
	return x ^ x >> MIX_SHIFT_3;
}

/* The number of one coordinate. */
HOST_AND_DEVICE static inline uint32_t random_mixed(const struct random_mixer *m, uint64_t coordinate)
{
	return random_mix(&m->key[(uint32_t)(coordinate >> 32) != m->high], (uint32_t)coordinate);
}

/* Those of coordinates first + index[0..n), which ascend; index NULL: first ... first + n - 1. */
void random_mix_each(const struct random_mixer *m, uint64_t first, const uint32_t *index, size_t n, uint32_t *out);
#endif
