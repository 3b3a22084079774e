/* SPDX-License-Identifier: BSD-3-Clause
 * Gaussian numbers by counter (Box and Muller, 1958): a pair of uniform numbers is turned into a
 * pair of normal ones. Logarithm, sine and cosine are written out for two reasons. Those of C
 * libraries differ between machines in the last bit, but the results of a run must not. And the
 * loops have a fixed length, so the compiler can vectorise them. Called for recipes with
 * noise(R). */
#include "random.h"
#include "base/bytes.h"
#include <math.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

enum { PAIRS = 64, QUARTER = 30 };

/* Computes radius = sqrt(-2 ln u) with u = (k + 1) / 2^24, where k is the upper 24 bits. For ln u,
 * u is split into m 2^e with m near 1, and ln m is the series of atanh. */
static void radii(const uint32_t *restrict bits, float *restrict radius)
{
	const int32_t root_half = 0x3f3504f3;

	for (int i = 0; i < PAIRS; i++) {
		float u = (float)((int32_t)(bits[i] >> 8) + 1) * 0x1p-24f, m, s, q;
		int32_t above = (int32_t)float_bits(u) - root_half;

		m = bits_float((uint32_t)((above & 0x7fffff) + root_half));
		s = (m - 1) / (m + 1);
		q = s * s;
		s *= 2 + q * (2.0f / 3 + q * (2.0f / 5 + q * (2.0f / 7)));
		s = -2 * (s + (float)(above >> 23) * 0.693147181f);
		radius[i] = s > 0 ? s : 0;
	}
#if defined(__x86_64__)
	for (int i = 0; i < PAIRS; i += 4)
		_mm_storeu_ps(radius + i, _mm_sqrt_ps(_mm_loadu_ps(radius + i)));
#else
	for (int i = 0; i < PAIRS; i++)
		radius[i] = sqrtf(radius[i]);
#endif
}

/* A turn has 2^32 parts. The angle is the sum of the nearest quarter turn and a remainder of at
 * most an eighth, which Taylor's series handles. */
static void turn(const uint32_t *restrict bits, const float *restrict radius, float *restrict along,
		 float *restrict across)
{
	for (int i = 0; i < PAIRS; i++) {
		uint32_t quarter = (bits[i] + (1u << (QUARTER - 1))) >> QUARTER;
		float x = (float)(int32_t)(bits[i] - (quarter << QUARTER)) *
			  (6.28318531f * 0x1p-32f),
		      q = x * x;
		float s = x * (1 - q / 6 * (1 - q / 20 * (1 - q / 42 * (1 - q / 72))));
		float c = 1 - q / 2 * (1 - q / 12 * (1 - q / 30 * (1 - q / 56)));
		uint32_t swap = 0u - (quarter & 1), sb = float_bits(s), cb = float_bits(c);

		along[i] = radius[i] *
			   bits_float(((sb & swap) | (cb & ~swap)) ^ (quarter + 1) >> 1 << 31);
		across[i] = radius[i] *
			    bits_float(((cb & swap) | (sb & ~swap)) ^ quarter >> 1 << 31);
	}
}

void random_normal_run(const struct random_stream *s, uint64_t first, size_t n, float *out)
{
	uint32_t bits[2 * PAIRS], u[PAIRS], v[PAIRS];
	float radius[PAIRS], along[PAIRS], across[PAIRS], both[2 * PAIRS];

	for (size_t i = 0, here; i < n; i += here) {
		size_t odd = (first + i) % 2;

		here = n - i < 2 * PAIRS - odd ? n - i : 2 * PAIRS - odd;
		random_run(s, first + i - odd, 2 * PAIRS, bits);
		for (int j = 0; j < PAIRS; j++) {
			u[j] = bits[2 * j];
			v[j] = bits[2 * j + 1];
		}
		radii(u, radius);
		turn(v, radius, along, across);
		for (int j = 0; j < PAIRS; j++) {
			both[2 * j] = along[j];
			both[2 * j + 1] = across[j];
		}
		memcpy(out + i, both + odd, here * sizeof(*out));
	}
}
