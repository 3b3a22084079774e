/* SPDX-License-Identifier: BSD-3-Clause
 * See gpu_vectors.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "gpu.h"
#include "gpu_vectors.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

float vector_value(int kind, size_t i, size_t n, struct random *r)
{
	if (kind == VECTOR_KINDS)
		return (float)(i + 1) / (float)n;
	if (kind == VECTOR_KINDS + 1)
		return i < n / 2 ? 1.0f : i % 100 ? 2.0f : 3.0f; /* more ties than fit */
	return value_of(kind, r);
}

struct pair pair_new(size_t n, size_t shift)
{
	struct pair p = { .n = n, .shift = shift, .here = malloc(n * 4 + 4) };

	assert_non_null(p.here);
	p.memory = gpu_memory(NULL, (n + shift) * 4 + 4);
	p.there = (float *)p.memory + shift;
	return p;
}

void pair_send(struct pair *p)
{
	assert_int_equal(gpu()->copy(p->there, p->here, p->n * 4, NULL), 0);
	assert_int_equal(gpu()->wait(NULL), 0);
}

void expect_same_vector(const struct pair *p)
{
	float *got = malloc(p->n * 4 + 4), *wanted = malloc(p->n * 4 + 4);

	assert_true(got && wanted);
	gpu_fetch(got, p->there, p->n * 4);
	for (size_t i = 0; i < p->n; i++) {
		got[i] = isnan(got[i]) ? NAN : got[i];
		wanted[i] = isnan(p->here[i]) ? NAN : p->here[i];
	}
	if (p->n)
		assert_memory_equal(got, wanted, p->n * 4);
	free(got);
	free(wanted);
}

void pair_free(struct pair *p)
{
	gpu_free(p->memory);
	free(p->here);
}

struct lists lists_new(size_t n)
{
	struct lists l = { malloc(n * 4 + 4), malloc(n * 4 + 4), 0 };

	assert_true(l.index && l.value);
	memset(l.index, 0x5a, n * 4 + 4);
	memset(l.value, 0x5a, n * 4 + 4);
	return l;
}

void expect_same_lists(const struct lists *cpu, const struct lists *device)
{
	assert_int_equal(device->n, cpu->n);
	if (!cpu->n)
		return;
	assert_memory_equal(device->index, cpu->index, cpu->n * 4);
	assert_memory_equal(device->value, cpu->value, cpu->n * 4);
}

void lists_free(struct lists *l)
{
	free(l->index);
	free(l->value);
}

struct spans spans_of(size_t n, int some, struct random *r)
{
	struct spans s = { .n = 0 };
	uint64_t at = 0;

	while (some && at < n && s.n_exempt < SPANS_MOST) {
		uint64_t begin = at + random_bits(r) % (n / 3 + 1), end;

		begin = random_bits(r) % 3 ? begin : at;
		end = begin + 1 + random_bits(r) % (random_bits(r) % 2 ? 20 : n / 10 + 1);
		if (begin >= n)
			break;
		end = end < n ? end : n;
		if (begin > at)
			s.all[s.n++] = (struct span){ at, begin, 0 };
		s.all[s.n++] = (struct span){ begin, end, 1 };
		s.exempt[s.n_exempt++] = (struct device_span){ (uint32_t)begin, (uint32_t)end };
		at = end;
	}
	if (at < n)
		s.all[s.n++] = (struct span){ at, n, 0 };
	return s;
}
