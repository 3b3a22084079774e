/* SPDX-License-Identifier: BSD-3-Clause
 * How many coordinates there are of each magnitude: a histogram whose bins are the float's own
 * exponent and highest s mantissa bits, so that binning is a shift. Small enough to travel, and
 * sums over ranks; then its quantile is one threshold for all of them. Pure: no job, no network.
 *
 * Bin 0 holds zeros, bin 1 subnormals, bin 2 + (e - 1) 2^s + m the magnitudes of exponent field e
 * = 1..254 whose mantissa begins with the s bits m. NaN and infinity have none. */
#ifndef COMPRESS_HISTOGRAM_H
#define COMPRESS_HISTOGRAM_H
#include "counts.h"
#include "sluice.h"

enum { HISTOGRAM_MANTISSA_MAX = 6 };

struct sluice_histogram {
	unsigned mantissa_bits;
	uint32_t bins;
	uint64_t *count;  /* bins */
	uint64_t total;   /* their sum */
	uint64_t zeros;   /* seen since the last histogram_take() */
	uint32_t *tables; /* by the float's bits, several, since then */
};

uint32_t histogram_bins(unsigned mantissa_bits);
int histogram_open(unsigned mantissa_bits, struct sluice_histogram **out); /* 0 or SLUICE_ENOMEM */
size_t histogram_bytes(unsigned mantissa_bits); /* of memory that it takes */
void histogram_clear(struct sluice_histogram *h);

/* Looks at a[0..n). Between two histogram_take() less than 2^32 coordinates. */
void histogram_see(struct sluice_histogram *h, const float *a, size_t n);
/* Counts what was seen, or, if NaN or infinity was among it, forgets it. Returns how many of
 * these. */
uint64_t histogram_take(struct sluice_histogram *h);

/* As the public functions (sluice.h), without their checks. */
size_t histogram_bound(const struct sluice_histogram *h, unsigned bits);
size_t histogram_encode(const struct sluice_histogram *h, unsigned bits,
			const struct random_stream *stream, uint8_t *out);
int histogram_merge(struct sluice_histogram *h, const uint8_t *bytes, size_t n, const char **why);
float histogram_quantile(const struct sluice_histogram *h, double share);
/* How many are as large as level > 0 or larger, with the quantile's interpolation: of histograms
 * that were summed these numbers add up to what the sum's quantile was asked for. */
double histogram_above(const struct sluice_histogram *h, float level);
#endif
