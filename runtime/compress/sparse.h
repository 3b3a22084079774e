/* SPDX-License-Identifier: BSD-3-Clause
 * What is done at the coordinates of a sparse message: added, taken away, fetched. The two halves
 * of a model apply deltas with the same function, so they get the same bits. Pure. */
#ifndef RUNTIME_SPARSE_H
#define RUNTIME_SPARSE_H
#include <stddef.h>
#include <stdint.h>

/* Coordinates of a line of memory. */
enum { VECTOR_LINE = 16 };
/* n zeros from the beginning of a line; NULL: no memory. */
float *vector_open(size_t n);
/* n: as opened with. NULL is allowed. */
void vector_close(float *vector, size_t n);

/* index[0..count): ascending coordinates of the vector, value[] beside it. index == NULL:
 * coordinates 0..count - 1. */
void sparse_add(float *vector, const uint32_t *index, const float *value, uint32_t count);
/* vector[index[i]] = value[i]. */
void sparse_set(float *vector, const uint32_t *index, const float *value, uint32_t count);
void sparse_subtract(float *vector, const uint32_t *index, const float *value, uint32_t count);
/* vector[i] = by * (vector[i] * share). */
void sparse_scale(float *vector, float share, float by, uint32_t count);
void sparse_gather(const float *vector, const uint32_t *index, float *value, uint32_t count);
#endif
