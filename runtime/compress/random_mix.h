/* SPDX-License-Identifier: BSD-3-Clause
 * The random numbers for rounding, one per coordinate, as value_wide.h and the GPU kernels
 * compute them. Philox makes 32-bit words from everything that the numbers depend on except for the
 * lower half of the coordinate. These words are the keys of a 32-bit mixer, which costs two
 * multiplications per coordinate.
 *
 * The first step is a round of a hash of Wellons (Prospecting for hash functions, 2018; factor and
 * shifts were found there by search). The second step, x (x + odd), resembles the x (2 x + 1) of
 * RC6 (Rivest, Robshaw, Sidney, Yin, 1998). Its upper bits depend on products of all bits, while a
 * fixed factor left neighbours dependent. Over the 2^32 coordinates of a stream, each even number
 * occurs twice and no odd one does, so the upper 31 bits are uniform. The lower bits are worse,
 * because a bit depends only on those below it and on 15 above. Rounding mostly depends on the
 * upper bits. Each stream has its own mixer. */
#ifndef COMPRESS_RANDOM_MIX_H
#define COMPRESS_RANDOM_MIX_H
#include "philox.h"

#define MIX_FACTOR 0x21f0aaadu
enum { MIX_SHIFT_0 = 16, MIX_SHIFT_1 = 15 };

struct random_key {
	uint32_t before, between, odd;
};

/* Keys for the coordinates first .. first + 2^32 - 1. Their upper 32 bits have at most two values,
 * and each value has its own key. */
struct random_mixer {
	uint32_t high; /* the upper half of first */
	struct random_key key[2];
};

HOST_AND_DEVICE static inline struct random_key random_key_of(const struct random_stream *s,
							      uint64_t high)
{
	struct random_key key;
	uint32_t word[4];

	philox_quad(s, high, word);
	key.before = word[0];
	key.between = word[1];
	key.odd = word[2] | 1;
	return key;
}

/* Opens the mixer of a stream. The stream's numbers of random.h must then not be used. */
HOST_AND_DEVICE static inline void random_mixer_open(const struct random_stream *s, uint64_t first,
						     struct random_mixer *m)
{
	m->high = (uint32_t)(first >> 32);
	m->key[0] = random_key_of(s, m->high);
	m->key[1] = random_key_of(s, (uint64_t)m->high + 1);
}

/* low is the lower half of the coordinate. */
HOST_AND_DEVICE static inline uint32_t random_mix(const struct random_key *key, uint32_t low)
{
	uint32_t x = low + key->before;

	x = (x ^ x >> MIX_SHIFT_0) * MIX_FACTOR + key->between;
	x ^= x >> MIX_SHIFT_1;
	return x * (x + key->odd);
}

HOST_AND_DEVICE static inline const struct random_key *random_mixer_key(
	const struct random_mixer *m, uint64_t coordinate)
{
	return &m->key[(uint32_t)(coordinate >> 32) != m->high];
}

/* Returns the number of one coordinate. */
HOST_AND_DEVICE static inline uint32_t random_mixed(const struct random_mixer *m,
						    uint64_t coordinate)
{
	return random_mix(random_mixer_key(m, coordinate), (uint32_t)coordinate);
}
#endif
