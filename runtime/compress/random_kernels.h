/* SPDX-License-Identifier: BSD-3-Clause
 * The hot loops of the random numbers, in several versions with the same results. Private to
 * random*.c and the tests; random.c chooses one. */
#ifndef COMPRESS_RANDOM_KERNELS_H
#define COMPRESS_RANDOM_KERNELS_H
#include "kernels.h"
#include "philox.h"

enum { RANDOM_RUN = 64 /* the most numbers that a version generates at once */ };

struct random_kernels {
	const char *name;
	int (*usable)(void);
	/* Generates the numbers of the quads quad, quad + 1, ...: n numbers, where n is a multiple
	 * of RANDOM_RUN. */
	void (*run)(const struct random_stream *s, uint64_t quad, size_t n, uint32_t *out);
};

extern const struct random_kernels random_portable;
#if defined(__x86_64__)
extern const struct random_kernels random_avx2;
#endif

/* The best version comes first; NULL ends the list. */
extern const struct random_kernels *const random_versions[];
/* Returns the version in use. At the first call, the best usable version is chosen, beginning with
 * the one that SLUICE_KERNELS names. */
const struct random_kernels *random_kernels(void);

/* The part of the computation that all counters of a stream share. It is computed in advance up to
 * the first round, and only lacks the coordinate. */
struct random_plan {
	uint64_t key_0[RANDOM_ROUNDS],
		key_1[RANDOM_ROUNDS]; /* 32 bits each, stored in the width of a lane */
	uint64_t c0, c1, c2; /* words of the first round, or constants that are combined with
				them by xor */
};

static inline void random_plan_make(const struct random_stream *s, struct random_plan *p)
{
	const uint64_t b = (uint64_t)RANDOM_FACTOR_1 * (uint32_t)s->step;
	uint32_t k0 = RANDOM_KEY ^ s->seed, k1 = s->purpose;

	p->c0 = (b >> 32) ^ s->rank ^ k0;
	p->c1 = (uint32_t)b;
	p->c2 = (s->step >> 32) ^ k1;
	for (int round = 0; round < RANDOM_ROUNDS; round++) {
		p->key_0[round] = k0;
		p->key_1[round] = k1;
		k0 += RANDOM_KEY_STEP_0;
		k1 += RANDOM_KEY_STEP_1;
	}
}
#endif
