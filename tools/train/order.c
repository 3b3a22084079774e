/* SPDX-License-Identifier: BSD-3-Clause
 * Random numbers without state, and the shuffle of an epoch. */
#include "tools/train/order.h"

/* The finalizer of the SplitMix64 generator (Steele, Lea, Flood 2014): a bijection of 64 bits in
 * which every input bit changes about half of the output bits. */
static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

uint64_t random_bits(uint64_t seed, enum random_purpose purpose, uint64_t high, uint64_t low)
{
	return mix(mix(mix(mix(seed) + (uint64_t)purpose) + high) + low);
}

float random_signed(uint64_t seed, enum random_purpose purpose, uint64_t high, uint64_t low)
{
	/* 24 bits are exact in a float, so every machine gets the same bits. */
	uint32_t bits = (uint32_t)(random_bits(seed, purpose, high, low) >> 40);

	return (float)bits * 0x1p-23f - 1.0f;
}

void order_shuffle(uint32_t *order, size_t n, uint64_t seed, uint64_t epoch)
{
	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	/* Shuffles as Fisher and Yates. For up to 2^32 rows, the high half of a 64 x 64 bit product
	 * is uniform enough. */
	for (size_t i = n; i > 1; i--) {
		uint64_t bits = random_bits(seed, RANDOM_ORDER, epoch, i);
		size_t j = (size_t)(((unsigned __int128)bits * i) >> 64);
		uint32_t swap = order[j];

		order[j] = order[i - 1];
		order[i - 1] = swap;
	}
}
