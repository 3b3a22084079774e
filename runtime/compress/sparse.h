/* SPDX-License-Identifier: BSD-3-Clause
 * Operations at the coordinates of a sparse message: add, set, subtract, fetch. Both halves of a
 * model apply deltas with the same function and so get the same bits. Pure. */
#ifndef RUNTIME_SPARSE_H
#define RUNTIME_SPARSE_H
#include "base/bytes.h"
#include <stddef.h>
#include <stdint.h>

/* Number of coordinates in a cache line. */
enum { VECTOR_LINE = 16 };
/* Returns n zeros aligned to a cache line, or NULL if there is no memory. */
float *vector_open(size_t n);
/* n must be the number given to vector_open(). vector may be NULL. */
void vector_close(float *vector, size_t n);
/* Returns bits that are 0 if x is finite, to be combined over many values: a finite number minus
 * itself is a zero of either sign, and anything else gives NaN. */
static inline uint32_t not_finite(float x)
{
	return float_bits(x - x) & INT32_MAX;
}

/* Returns the memory to the system until the vector is written again. Its content is lost. */
void vector_discard(float *vector, size_t n);

/* index[0..count) are ascending coordinates of the vector, and value[] their values. If index is
 * NULL, the coordinates are 0..count - 1. */
void sparse_add(float *vector, const uint32_t *index, const float *value, uint32_t count);
/* vector[index[i]] = value[i]. */
void sparse_set(float *vector, const uint32_t *index, const float *value, uint32_t count);
void sparse_subtract(float *vector, const uint32_t *index, const float *value, uint32_t count);
/* Sets vector[i] = by * (vector[i] * share). */
void sparse_scale(float *vector, float share, float by, uint32_t count);
/* Returns the number of ascending coordinates that are below this one. */
size_t sparse_below(const uint32_t *index, size_t count, uint64_t coordinate);
void sparse_gather(const float *vector, const uint32_t *index, float *value, uint32_t count);

/* The ascending coordinates that one thread has found in its part of a vector. */
struct sparse_list {
	uint32_t *index;
	size_t n;
};
/* Moves the coordinates of consecutive parts together, behind those of the first. parts > 0. The
 * lists are in the order of the parts, in one array. Returns the number of coordinates. */
size_t sparse_join(const struct sparse_list *lists, unsigned parts);

/* Adds, sets or subtracts with the threads of a team, which may be NULL. Returns 1 if all sums of
 * SPARSE_ADD are finite; with the others, returns 1. */
enum sparse_operation { SPARSE_ADD, SPARSE_SET, SPARSE_SUBTRACT };
struct team;
int sparse_change(struct team *team, enum sparse_operation operation, float *vector,
		  const uint32_t *index, const float *value, uint32_t count);
/* Does the same as sparse_gather(), with the threads of a team. */
void sparse_fetch(struct team *team, const float *vector, const uint32_t *index, float *value,
		  uint32_t count);
#endif
