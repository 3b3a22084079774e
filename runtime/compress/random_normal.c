/* SPDX-License-Identifier: BSD-3-Clause
 * Gaussian numbers by counter (Box and Muller, 1958): a pair of uniform ones is turned into a pair of
 * normal ones. Logarithm, sine and cosine are written out, because those of a C library differ from
 * machine to machine in the last bit, and a run must not. Called for recipes with noise(R). */
#include "random.h"
#include "base/bytes.h"
#include <math.h>

enum { PIECE = 256 };

/* -2 ln u of 0 < u <= 1: u = m 2^e with m near 1; ln m by the series of atanh. */
static inline double minus_two_ln(double u)
{
	const double ln_2 = 0.69314718055994530942;
	uint64_t bits;
	int64_t exponent;
	double m, s, q;

	memcpy(&bits, &u, sizeof(bits));
	bits -= 0x3fe6a09e667f3bcdu;          /* sqrt(1/2): m in [sqrt(1/2), sqrt(2)) */
	exponent = (int64_t)bits >> 52;
	bits = (bits & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu;
	memcpy(&m, &bits, sizeof(m));
	s = (m - 1) / (m + 1);
	q = s * s;
	s *= 2 + q * (2.0 / 3 + q * (2.0 / 5 + q * (2.0 / 7 + q * (2.0 / 9 + q * (2.0 / 11)))));
	return -2 * (s + (double)exponent * ln_2);
}

/* Sine and cosine of 2 pi t for t in [-1/8, 1/8]: their Taylor series. */
static inline void sine_cosine(double t, double *sine, double *cosine)
{
	const double x = t * 6.28318530717958647693, q = x * x;

	*sine = x * (1 - q / 6 * (1 - q / 20 * (1 - q / 42 * (1 - q / 72 * (1 - q / 110)))));
	*cosine = 1 - q / 2 * (1 - q / 12 * (1 - q / 30 * (1 - q / 56 * (1 - q / 90 * (1 - q / 132)))));
}

/* The whole turn is cut into eighths: a quarter of the circle is one of four turned ones. */
static inline void normal_pair(uint32_t a, uint32_t b, float *first, float *second)
{
	double radius = sqrt(minus_two_ln(((double)a + 1) * 0x1p-32));
	uint32_t quarter = (b + 0x20000000u) >> 30;
	double t = (double)(int32_t)(b - (quarter << 30)) * 0x1p-32, s, c;

	sine_cosine(t, &s, &c);
	*first = (float)(radius * (quarter & 1 ? (quarter & 2 ? s : -s) : quarter & 2 ? -c : c));
	*second = (float)(radius * (quarter & 1 ? (quarter & 2 ? -c : c) : quarter & 2 ? -s : s));
}

void random_normal_run(const struct random_stream *s, uint64_t first, size_t n, float *out)
{
	uint32_t bits[PIECE];
	float pair[2];

	for (size_t i = 0, here; i < n; i += here) {
		uint64_t even = (first + i) & ~(uint64_t)1, skip = (first + i) - even;

		here = n - i < PIECE - 2 ? n - i : PIECE - 2;
		random_run(s, even, (skip + here + 1) & ~(size_t)1, bits);
		for (size_t j = 0; j < skip + here; j += 2) {
			normal_pair(bits[j], bits[j + 1], &pair[0], &pair[1]);
			if (j >= skip)
				out[i + j - skip] = pair[0];
			if (j + 1 < skip + here)
				out[i + j + 1 - skip] = pair[1];
		}
	}
}
