/* SPDX-License-Identifier: BSD-3-Clause
 * See axes.h. */
#include "tools/bench/axes.h"
#include "base/bytes.h"

/* A bit is 1 with probability 2^-(ands + 1). */
static const struct {
	int ands;
	double entropy;
} entropies[] = { { 0, 1 }, { 2, 0.544 }, { 4, 0.201 } };

enum { ENTROPIES = sizeof(entropies) / sizeof(entropies[0]) };
enum { N_BITS_LEAST = 16, N_BITS_MOST = 28, N_BITS_STEP = 4 };
enum { K_BITS_LEAST = 3, K_BITS_MOST = 23, K_BITS_STEP = 5 };

int axes_run(uint64_t n_most, uint64_t k_most,
	     int (*one)(void *bench, const struct axes_point *point), void *bench)
{
	int rc = 0;

	for (int e = 0; e < ENTROPIES; e++)
		for (int n = N_BITS_LEAST; n <= N_BITS_MOST && UINT64_C(1) << n <= n_most;
		     n += N_BITS_STEP)
			for (int k = K_BITS_LEAST;
			     k <= K_BITS_MOST && k < n && UINT64_C(1) << k <= k_most && !rc;
			     k += K_BITS_STEP) {
				const struct axes_point point = { .n = (size_t)1 << n,
								  .k = (size_t)1 << k,
								  .ands = entropies[e].ands,
								  .entropy = entropies[e].entropy };

				rc = one(bench, &point);
			}
	return rc;
}

static uint64_t mixed(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

void axes_fill(int ands, uint64_t seed, float *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t word = 0x3fffffff; /* below 2 */

		for (int w = 0; w <= ands; w++)
			word &= (uint32_t)(mixed((seed << 40) ^ ((uint64_t)w << 34) ^ i) >> 32);
		x[i] = bits_float(word);
	}
}
