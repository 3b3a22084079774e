/* SPDX-License-Identifier: BSD-3-Clause
 * See select_data.h. */
#include "tools/bench/select_data.h"
#include <math.h>
#include <pthread.h>
#include <string.h>

/* ---- vectors --------------------------------------------------------------- */

static const double two_pi = 6.283185307179586;

/* Returns a random number in (0, 1), computed from a counter. */
static double uniform(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	x ^= x >> 31;
	return ((double)(x >> 11) + 0.5) / 9007199254740992.0;
}

void data_fill(enum distribution kind, uint64_t seed, float *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		double u = uniform((seed << 40) + 2 * i), v = uniform((seed << 40) + 2 * i + 1);

		switch (kind) {
		case DISTRIBUTION_GAUSSIAN:
		case DISTRIBUTION_HINTWRONG:
			x[i] = (float)(sqrt(-2 * log(u)) * cos(two_pi * v));
			break;
		case DISTRIBUTION_LAPLACE: x[i] = (float)(v < 0.5 ? log(u) : -log(u)); break;
		case DISTRIBUTION_STUDENT: /* uses Bailey's polar method */
			x[i] = (float)(sqrt(3 * (pow(u, -2.0 / 3) - 1)) * cos(two_pi * v));
			break;
		case DISTRIBUTION_ZEROS: x[i] = 0; break;
		case DISTRIBUTION_SPARSE: x[i] = (float)(u < 0.001 ? v - 0.5 : 0); break;
		case DISTRIBUTION_CONSTANT: x[i] = 0.25f; break;
		case DISTRIBUTION_EQUAL: x[i] = v < 0.5 ? 0.25f : -0.25f; break;
		case DISTRIBUTION_SORTED: x[i] = (float)((double)(i + 1) / (double)n); break;
		case DISTRIBUTIONS: break;
		}
	}
}

/* ---- plain passes ---------------------------------------------------------- */

typedef uint32_t lanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef float float_lanes __attribute__((vector_size(32), aligned(4)));
enum { LANES = 8, TURN = 4 * LANES, THREADS_MAX = 256 };

/* Uses the widest vectors of two common kinds of processors, so that only memory limits the
 * pass. */
#if defined(__x86_64__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

WIDE static uint32_t read_part(const float *x, size_t n)
{
	lanes a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
	uint32_t all = 0, last;
	size_t i = 0;

	for (; i + TURN <= n; i += TURN) { /* unrolled by hand, because an array would be kept in
					      memory */
		const lanes *from = (const void *)(x + i);

		a ^= from[0];
		b ^= from[1];
		c ^= from[2];
		d ^= from[3];
	}
	a ^= b ^ c ^ d;
	for (size_t lane = 0; lane < LANES; lane++)
		all ^= a[lane];
	for (; i < n; i++) {
		memcpy(&last, x + i, sizeof last);
		all ^= last;
	}
	return all;
}

struct part {
	const float *x;
	size_t n;
	uint32_t sum;
	pthread_t thread;
	int started;
};

static void *read_thread(void *argument)
{
	struct part *p = argument;

	p->sum = read_part(p->x, p->n);
	return NULL;
}

uint32_t pass_read(const float *x, size_t n, unsigned threads)
{
	static struct part parts[THREADS_MAX];
	size_t each = n / threads;
	uint32_t sum;

	for (unsigned t = 1; t < threads; t++) {
		parts[t] = (struct part){ .x = x + t * each, .n = each };
		parts[t].started = !pthread_create(&parts[t].thread, NULL, read_thread, &parts[t]);
	}
	sum = read_part(x, threads > 1 ? each : n);
	for (unsigned t = 1; t < threads; t++) {
		if (parts[t].started)
			pthread_join(parts[t].thread, NULL);
		else
			read_thread(&parts[t]);
		sum ^= parts[t].sum;
	}
	return sum;
}

WIDE static void add(float *residual, const float *grad, size_t n)
{
	size_t i = 0;

	for (; i + TURN <= n; i += TURN) {
		float_lanes *to = (void *)(residual + i);
		const float_lanes *from = (const void *)(grad + i);

		to[0] += from[0];
		to[1] += from[1];
		to[2] += from[2];
		to[3] += from[3];
	}
	for (; i < n; i++)
		residual[i] += grad[i];
}

void pass_add(float *residual, const float *grad, size_t n)
{
	add(residual, grad, n);
}
