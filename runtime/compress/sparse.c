/* SPDX-License-Identifier: BSD-3-Clause
 * See sparse.h. At the usual densities each coordinate lies in a line of its own, far from the one
 * before, and the processor foresees none of them: they are asked for in time. */
#include "compress/sparse.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { AHEAD = 32, TO_READ = 0, TO_WRITE = 1 };

/* Coordinates far from each other are also far from each other in the page table: with pages of 2 MiB, if the
 * system gives them, a shard's whole table is in the processor. */
float *vector_open(size_t n)
{
	enum { LARGE_PAGE = 2 << 20 };
	const size_t line = n * sizeof(float) < 2 * LARGE_PAGE ? VECTOR_LINE * sizeof(float) : LARGE_PAGE;
	size_t bytes = (n * sizeof(float) + line - 1) / line * line;
	float *vector = aligned_alloc(line, bytes);

	if (vector && line == LARGE_PAGE)
		(void)madvise(vector, n * sizeof(float) / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE); /* or it stays as it is */
	return vector ? memset(vector, 0, n * sizeof(float)) : NULL;
}

static uint32_t with_one_ahead(uint32_t count)
{
	return count > AHEAD ? count - AHEAD : 0;
}

void sparse_add(float *vector, const uint32_t *index, const float *value, uint32_t count)
{
	uint32_t i = 0;

	if (!index) {
		for (; i < count; i++)
			vector[i] += value[i];
		return;
	}
	for (uint32_t end = with_one_ahead(count); i < end; i++) {
		__builtin_prefetch(vector + index[i + AHEAD], TO_WRITE);
		vector[index[i]] += value[i];
	}
	for (; i < count; i++)
		vector[index[i]] += value[i];
}

void sparse_set(float *vector, const uint32_t *index, const float *value, uint32_t count)
{
	if (!index)
		memcpy(vector, value, count * sizeof *vector);
	for (uint32_t i = 0; i < count && index; i++)
		vector[index[i]] = value[i];
}

void sparse_subtract(float *vector, const uint32_t *index, const float *value, uint32_t count)
{
	uint32_t i = 0;

	if (!index) {
		for (; i < count; i++)
			vector[i] -= value[i];
		return;
	}
	for (uint32_t end = with_one_ahead(count); i < end; i++) {
		__builtin_prefetch(vector + index[i + AHEAD], TO_WRITE);
		vector[index[i]] -= value[i];
	}
	for (; i < count; i++)
		vector[index[i]] -= value[i];
}

void sparse_gather(const float *vector, const uint32_t *index, float *value, uint32_t count)
{
	uint32_t i = 0;

	for (uint32_t end = with_one_ahead(count); i < end; i++) {
		__builtin_prefetch(vector + index[i + AHEAD], TO_READ);
		value[i] = vector[index[i]];
	}
	for (; i < count; i++)
		value[i] = vector[index[i]];
}
