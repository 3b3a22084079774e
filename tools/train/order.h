/* SPDX-License-Identifier: BSD-3-Clause
 * Counter-based random numbers and the order of the training rows. Everything depends only on seed,
 * purpose and counter: a resumed job and a job of another size get the same numbers. */
#ifndef TRAIN_ORDER_H
#define TRAIN_ORDER_H
#include <stddef.h>
#include <stdint.h>

enum random_purpose { RANDOM_ORDER = 1, RANDOM_PARAMETERS = 2 };

/* Returns 64 random bits. */
uint64_t random_bits(uint64_t seed, enum random_purpose purpose, uint64_t high, uint64_t low);

/* Returns a random number, uniform in [-1, 1). */
float random_signed(uint64_t seed, enum random_purpose purpose, uint64_t high, uint64_t low);

/* Sets order[0..n) to the permutation of 0..n-1 for this seed and epoch. */
void order_shuffle(uint32_t *order, size_t n, uint64_t seed, uint64_t epoch);
#endif
