/* SPDX-License-Identifier: BSD-3-Clause
 * A histogram of magnitudes. Its bins are the exponent and the highest s bits of the mantissa of a
 * float, so that binning is a shift. It is small enough to send and can be summed over ranks; the
 * quantile of the sum is then one threshold for all of them. Pure: no job, no network.
 *
 * Bin 0 holds zeros and bin 1 subnormals. Bin 2 + (e - 1) 2^s + m holds the magnitudes with
 * exponent field e = 1..254 whose mantissa begins with the s bits m. NaN and infinity have no
 * bin. */
#ifndef COMPRESS_HISTOGRAM_H
#define COMPRESS_HISTOGRAM_H
#include "counts.h"

enum { HISTOGRAM_MANTISSA_MAX = 6 };

struct sluice_histogram {
	unsigned mantissa_bits;
	uint32_t bins;
	uint64_t *count;  /* bins */
	uint64_t total;   /* sum of count[] */
	uint64_t zeros;   /* number of zeros since the last histogram_take() */
	uint32_t *tables; /* counts since then, by the float's bits, in several tables */
};

uint32_t histogram_bins(unsigned mantissa_bits);
int histogram_open(unsigned mantissa_bits, struct sluice_histogram **out); /* 0 or SLUICE_ENOMEM */
size_t histogram_bytes(unsigned mantissa_bits); /* Returns the bytes of memory that it takes. */
void histogram_clear(struct sluice_histogram *h);

/* Adds a[0..n) to the values that histogram_take() will count. At most 2^32 - 1 coordinates may be
 * added between two calls of histogram_take(). */
void histogram_see(struct sluice_histogram *h, const float *a, size_t n);
/* Counts the values added since the last call, or discards them if there is NaN or infinity.
 * Returns the number of values that are NaN or infinite. */
uint64_t histogram_take(struct sluice_histogram *h);

/* These do the same as the public functions of the same names (sluice_estimate.h), without their
 * checks. */
size_t histogram_bound(const struct sluice_histogram *h, unsigned bits);
size_t histogram_encode(const struct sluice_histogram *h, unsigned bits,
			const struct random_stream *stream, uint8_t *out);
int histogram_merge(struct sluice_histogram *h, const uint8_t *bytes, size_t n, const char **why);
float histogram_quantile(const struct sluice_histogram *h, double share);
/* Returns the number of magnitudes of at least level > 0, with the interpolation of the quantile.
 * If several histograms are summed and a quantile of the sum is computed, the numbers of all
 * histograms at this quantile have the sum for which the quantile was computed. */
double histogram_above(const struct sluice_histogram *h, float level);
#endif
