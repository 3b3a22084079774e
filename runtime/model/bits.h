/* SPDX-License-Identifier: BSD-3-Clause
 * For recipe=auto: measures which code of a budget (recipe/budgets.h) keeps the most of a vector.
 * A worker measures the vector that it pushes, and the first shard the one that it publishes. Both
 * measure in steps 1, 2, 4, 8 and so on (rulebook_learns()), so the codes change ever more rarely.
 * The result depends only on the vector and on the code in use. Pure. */
#ifndef RUNTIME_BITS_H
#define RUNTIME_BITS_H
#include "recipe/budgets.h"
#include <stdint.h>

/* Memory for a sample of the vector and its messages, of which steps allocate none. */
struct bits;
int bits_open(uint64_t count, struct bits **out); /* 0 or SLUICE_ENOMEM */
void bits_close(struct bits **bits);
uint64_t bits_memory(uint64_t count); /* bytes that bits_open() takes */

/* The vector x + scale * addend, or x if addend is NULL. If x is NULL, scale * addend. */
struct bits_vector {
	const float *x, *addend;
	float scale;
	uint64_t count;
};
/* Encodes the selection of each code from a sample of the vector. Returns the code that takes the
 * fewest bytes, of those that keep about the most of the squared norm. A code that takes more bytes
 * than f32, or keeps less, is left out. The code in use stays if it is about as good. small:
 * coding=small. Returns the code in use if the sample has NaN or infinity, or only zeros. */
enum code bits_choose(struct bits *bits, const struct bits_vector *v, unsigned budget,
		      enum budget_way way, int small, enum code in_use);
#endif
