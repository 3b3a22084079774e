/* SPDX-License-Identifier: BSD-3-Clause
 * For tests of selections on the device: vectors of every kind on both sides, lists, exempt
 * spans. */
#ifndef TESTS_UNIT_GPU_VECTORS_H
#define TESTS_UNIT_GPU_VECTORS_H
#include "base/device.h"
#include "compress/select.h"
#include "random.h"
#include "vector_kinds.h"

enum { KINDS = VECTOR_KINDS + 2, UNALIGNED_MOST = 3, SPANS_MOST = 5 };

/* Returns coordinate i of n: the kinds of vector_kinds.h, sorted values, and very many ties. */
float vector_value(int kind, size_t i, size_t n, struct random *r);

/* A vector on host and device. On the device it may be misaligned for vector loads. */
struct pair {
	float *here, *there;
	void *memory;
	size_t n, shift;
};

struct pair pair_new(size_t n, size_t shift);
void pair_send(struct pair *p);
void pair_free(struct pair *p);
/* If an addition makes a NaN, its bits depend on the processor: those of a GPU differ from those of
 * x86, which has a sign. */
void expect_same_vector(const struct pair *p);

struct lists {
	uint32_t *index;
	float *value;
	size_t n;
};

struct lists lists_new(size_t n); /* poisoned */
void expect_same_lists(const struct lists *cpu, const struct lists *device);
void lists_free(struct lists *l);

/* Exempt spans, the same for both sides. */
struct spans {
	struct span all[2 * SPANS_MOST + 1];
	struct device_span exempt[SPANS_MOST];
	size_t n, n_exempt;
};

/* Returns a few exempt spans (none if !some), short and long, and also at the ends. */
struct spans spans_of(size_t n, int some, struct random *r);
#endif
