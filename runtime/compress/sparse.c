/* SPDX-License-Identifier: BSD-3-Clause
 * See sparse.h. At the usual densities, each coordinate is in a different cache line, far from the
 * previous one, and the processor cannot predict it. Therefore these functions prefetch the
 * lines. */
#include "compress/sparse.h"
#include "base/team.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { AHEAD = 32, TO_READ = 0, TO_WRITE = 1 };

/* Distant coordinates use different page table entries. With pages of 2 MiB, if the system grants
 * them, the TLB holds the entries of a whole shard. */
enum { LARGE_PAGE = 2 << 20 };

static int in_large_pages(size_t n)
{
	return n * sizeof(float) >= 2 * LARGE_PAGE;
}

static size_t large_bytes(size_t n)
{
	return (n * sizeof(float) + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
}

/* Memory is mapped directly from the system: its pages are zero and take no memory before they are
 * written. */
static float *map_large(size_t n)
{
	const size_t bytes = large_bytes(n);
	char *base = mmap(NULL, bytes + LARGE_PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (base == MAP_FAILED)
		return NULL;
	const size_t before = (LARGE_PAGE - (uintptr_t)base % LARGE_PAGE) % LARGE_PAGE;
	if (before)
		munmap(base, before);
	munmap(base + before + bytes, LARGE_PAGE - before);
	/* The last, partly used page stays small, to stay within the announced memory. If the
	 * request is refused, all pages stay small. */
	(void)madvise(base + before, n * sizeof(float) / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
	return (float *)(void *)(base + before);
}

float *vector_open(size_t n)
{
	enum { LINE_BYTES = VECTOR_LINE * sizeof(float) };
	const size_t bytes = (n * sizeof(float) + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
	if (in_large_pages(n))
		return map_large(n);
	float *vector = aligned_alloc(LINE_BYTES, bytes ? bytes : LINE_BYTES);

	return vector ? memset(vector, 0, n * sizeof(float)) : NULL;
}

void vector_close(float *vector, size_t n)
{
	if (vector && in_large_pages(n))
		munmap(vector, large_bytes(n));
	else
		free(vector);
}

void vector_discard(float *vector, size_t n)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const uintptr_t begin = ((uintptr_t)vector + page - 1) / page * page;
	const uintptr_t end = (uintptr_t)(vector + n) / page * page;

	if (end > begin)
		(void)madvise((void *)begin, end - begin,
			      MADV_DONTNEED); /* if this fails, the memory stays allocated */
}

/* Four values at once, in registers that every current machine has. */
typedef float lanes __attribute__((vector_size(16), aligned(4), may_alias));
enum { LANES = sizeof(lanes) / sizeof(float) };

/* not_finite() of four values, including the signs. */
typedef uint32_t lane_bits __attribute__((vector_size(16)));

/* Unrolling halves the time of these loops if both vectors are in the first-level cache. They count
 * in size_t, because a counter of 32 bits would be widened at each use. */
static inline __attribute__((always_inline)) int add_all(float *vector, const float *value,
							 uint32_t count, int judges)
{
	const size_t n = count;
	lane_bits of_lanes = { 0 };
	uint32_t bits = 0;
	size_t i = 0;

#pragma GCC unroll 4
	for (; i + LANES <= n; i += LANES) {
		const lanes sum = *(lanes *)(vector + i) + *(const lanes *)(value + i);

		*(lanes *)(vector + i) = sum;
		if (judges)
			of_lanes |= (lane_bits)(sum - sum);
	}
	for (; i < n; i++) {
		vector[i] += value[i];
		bits |= judges ? not_finite(vector[i]) : 0;
	}
	for (i = 0; judges && i < LANES; i++)
		bits |= of_lanes[i] & INT32_MAX;
	return !bits;
}

static void subtract_all(float *vector, const float *value, uint32_t count)
{
	const size_t n = count;
	size_t i = 0;

#pragma GCC unroll 4
	for (; i + LANES <= n; i += LANES)
		*(lanes *)(vector + i) -= *(const lanes *)(value + i);
	for (; i < n; i++)
		vector[i] -= value[i];
}

static uint32_t with_one_ahead(uint32_t count)
{
	return count > AHEAD ? count - AHEAD : 0;
}

static inline __attribute__((always_inline)) int add(float *vector, const uint32_t *index,
						     const float *value, uint32_t count, int judges)
{
	uint32_t i = 0, bits = 0;

	if (!index)
		return add_all(vector, value, count, judges);
	for (uint32_t end = with_one_ahead(count); i < end; i++) {
		__builtin_prefetch(vector + index[i + AHEAD], TO_WRITE);
		const float sum = vector[index[i]] += value[i];

		bits |= judges ? not_finite(sum) : 0;
	}
	for (; i < count; i++) {
		const float sum = vector[index[i]] += value[i];

		bits |= judges ? not_finite(sum) : 0;
	}
	return !bits;
}

void sparse_add(float *vector, const uint32_t *index, const float *value, uint32_t count)
{
	add(vector, index, value, count, 0);
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
		subtract_all(vector, value, count);
		return;
	}
	for (uint32_t end = with_one_ahead(count); i < end; i++) {
		__builtin_prefetch(vector + index[i + AHEAD], TO_WRITE);
		vector[index[i]] -= value[i];
	}
	for (; i < count; i++)
		vector[index[i]] -= value[i];
}

void sparse_scale(float *vector, float share, float by, uint32_t count)
{
	const lanes shares = { share, share, share, share }, bys = { by, by, by, by };
	const size_t n = count;
	size_t i = 0;

#pragma GCC unroll 4
	for (; i + LANES <= n; i += LANES)
		*(lanes *)(vector + i) = bys * (*(lanes *)(vector + i) * shares);
	for (; i < n; i++)
		vector[i] = by * (vector[i] * share);
}

size_t sparse_join(const struct sparse_list *lists, unsigned parts)
{
	size_t n = lists[0].n;

	for (unsigned p = 1; p < parts; p++) {
		memmove(lists[0].index + n, lists[p].index, lists[p].n * sizeof(*lists[p].index));
		n += lists[p].n;
	}
	return n;
}

size_t sparse_below(const uint32_t *index, size_t count, uint64_t coordinate)
{
	size_t below = 0;

	while (below < count) {
		const size_t middle = below + (count - below) / 2;

		if (index[middle] < coordinate)
			below = middle + 1;
		else
			count = middle;
	}
	return below;
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

/* ---- by several threads ------------------------------------------------------ */

static int operate(enum sparse_operation operation, float *vector, const uint32_t *index,
		   const float *value, uint32_t n)
{
	switch (operation) {
	case SPARSE_ADD: return add(vector, index, value, n, 1);
	case SPARSE_SET: sparse_set(vector, index, value, n); break;
	case SPARSE_SUBTRACT: sparse_subtract(vector, index, value, n); break;
	}
	return 1;
}

/* Arguments and results of operate_on_part(). */
struct shared_change {
	enum sparse_operation operation;
	float *vector;
	const uint32_t *index;
	const float *value;
	int finite[TEAM_PARTS];
};

static void operate_on_part(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct shared_change *c = context;
	const uint32_t *index = c->index ? c->index + begin : NULL;

	c->finite[part] = operate(c->operation, c->vector + (index ? 0 : begin), index,
				  c->value + begin, (uint32_t)(end - begin));
}

int sparse_change(struct team *team, enum sparse_operation operation, float *vector,
		  const uint32_t *index, const float *value, uint32_t count)
{
	struct shared_change c;
	int finite = 1;

	if (count < 2 * TEAM_LEAST) /* a shard changes its copy in many short pieces */
		return operate(operation, vector, index, value, count);
	c = (struct shared_change){ operation, vector, index, value, { 0 } };
	const unsigned parts = team_split(team, count, VECTOR_LINE, operate_on_part, &c);

	for (unsigned i = 0; i < parts; i++)
		finite &= c.finite[i];
	return finite;
}

struct shared_fetch {
	const float *vector;
	const uint32_t *index;
	float *value;
};

static void fetch_part(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	const struct shared_fetch *f = context;

	(void)part;
	sparse_gather(f->vector, f->index + begin, f->value + begin, (uint32_t)(end - begin));
}

void sparse_fetch(struct team *team, const float *vector, const uint32_t *index, float *value,
		  uint32_t count)
{
	team_split(team, count, VECTOR_LINE, fetch_part,
		   &(struct shared_fetch){ vector, index, value });
}
