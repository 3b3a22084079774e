/* SPDX-License-Identifier: BSD-3-Clause
 * See histogram.h. Called by the census of a model (census.c), and as sluice_histogram_*. */
#include "histogram.h"
#include "base/bytes.h"
#include "base/error.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Neighbouring values often fall into the same bin, where an addition in memory would wait for the
 * previous one. Four tables are therefore used in turn. If the distance between tables were a
 * multiple of 4096 bytes, they would still wait for each other, so PAD entries move them apart by a
 * cache line. BLOCK floats stay in the first-level cache. */
enum { TABLES = 4, PAD = 16, BLOCK = 2048, MANTISSA = 23, EXPONENTS = 256 };

static size_t table_entries(unsigned mantissa_bits)
{
	return (size_t)EXPONENTS << mantissa_bits;
}

static size_t stride_of(unsigned mantissa_bits)
{
	return table_entries(mantissa_bits) + PAD;
}

uint32_t histogram_bins(unsigned mantissa_bits)
{
	return 2 + (254u << mantissa_bits);
}

size_t histogram_bytes(unsigned mantissa_bits)
{
	return sizeof(struct sluice_histogram) + histogram_bins(mantissa_bits) * sizeof(uint64_t) +
	       TABLES * stride_of(mantissa_bits) * sizeof(uint32_t);
}

/* One allocation holds the histogram and its arrays. */
int histogram_open(unsigned mantissa_bits, struct sluice_histogram **out)
{
	struct sluice_histogram *h = calloc(1, histogram_bytes(mantissa_bits));

	if (!h)
		return fail(SLUICE_ENOMEM, "no memory for a histogram of %u bins",
			    histogram_bins(mantissa_bits));
	h->mantissa_bits = mantissa_bits;
	h->bins = histogram_bins(mantissa_bits);
	h->count = (void *)(h + 1);
	h->tables = (void *)(h->count + h->bins);
	*out = h;
	return 0;
}

void histogram_clear(struct sluice_histogram *h)
{
	memset(h->count, 0, h->bins * sizeof(*h->count));
	h->total = 0;
}

/* ---- counting -------------------------------------------------------------- */

static uint64_t zeros_in(const float *a, size_t n)
{
	uint64_t zeros = 0;

	for (size_t i = 0; i < n; i++)
		zeros += a[i] == 0;
	return zeros;
}

/* Loads two floats at once. The mask removes the signs. */
static void count_block(const struct sluice_histogram *h, const float *a, size_t n)
{
	const unsigned shift = MANTISSA - h->mantissa_bits;
	const uint32_t mask = 0x7fffffffu >> shift;
	const size_t stride = stride_of(h->mantissa_bits);
	uint32_t *t0 = h->tables, *t1 = t0 + stride, *t2 = t1 + stride, *t3 = t2 + stride;
	size_t i = 0;

	for (; i + TABLES <= n; i += TABLES) {
		uint64_t two, more;

		memcpy(&two, a + i, sizeof(two));
		memcpy(&more, a + i + 2, sizeof(more));
		t0[(uint32_t)two >> shift & mask]++;
		t1[two >> 32 >> shift & mask]++;
		t2[(uint32_t)more >> shift & mask]++;
		t3[more >> 32 >> shift & mask]++;
	}
	for (; i < n; i++)
		t0[float_bits(a[i]) >> shift & mask]++;
}

/* Zeros are counted in the same entry as the smallest subnormals. If a block has changed this
 * entry, its zeros are counted separately, while the block is in the cache. */
void histogram_see(struct sluice_histogram *h, const float *a, size_t n)
{
	const size_t stride = stride_of(h->mantissa_bits);
	const uint32_t *t = h->tables;

	for (size_t at = 0, m; at < n; at += m) {
		uint32_t before = t[0] + t[stride] + t[2 * stride] + t[3 * stride];

		m = n - at < BLOCK ? n - at : BLOCK;
		count_block(h, a + at, m);
		if (t[0] + t[stride] + t[2 * stride] + t[3 * stride] != before)
			h->zeros += zeros_in(a + at, m);
	}
}

uint64_t histogram_take(struct sluice_histogram *h)
{
	const size_t entries = table_entries(h->mantissa_bits);
	const size_t normal = (size_t)1 << h->mantissa_bits, infinite = entries - normal;
	uint64_t nonfinite = 0, zeros = h->zeros;

	for (size_t i = 1; i < TABLES; i++)
		for (size_t j = 0; j < entries; j++)
			h->tables[j] += h->tables[i * stride_of(h->mantissa_bits) + j];
	for (size_t j = infinite; j < entries; j++)
		nonfinite += h->tables[j];
	if (!nonfinite) {
		h->count[0] += zeros;
		for (size_t j = 0; j < infinite; j++) {
			/* With exponent field 0 there are zeros, which were counted already, and
			 * subnormals. */
			h->count[j < normal ? 1 : 2 + j - normal] += h->tables[j];
			h->total += h->tables[j];
		}
		h->count[1] -= zeros;
	}
	memset(h->tables, 0, TABLES * stride_of(h->mantissa_bits) * sizeof(*h->tables));
	h->zeros = 0;
	return nonfinite;
}

/* ---- travelling ------------------------------------------------------------ */

size_t histogram_bound(const struct sluice_histogram *h, unsigned bits)
{
	return counts_bound(h->bins, bits);
}

size_t histogram_encode(const struct sluice_histogram *h, unsigned bits,
			const struct random_stream *stream, uint8_t *out)
{
	return counts_encode(h->count, h->bins, bits, 1 + h->mantissa_bits, stream, out);
}

int histogram_merge(struct sluice_histogram *h, const uint8_t *bytes, size_t n, const char **why)
{
	uint64_t total = 0;
	int rc = counts_merge(bytes, n, 1 + h->mantissa_bits, h->count, h->bins, why);

	for (uint32_t i = 0; i < h->bins && !rc; i++)
		total += h->count[i];
	h->total = rc ? h->total : total;
	return rc;
}

/* ---- asking ---------------------------------------------------------------- */

/* Returns log2 of the smallest magnitude of a bin other than bin 0. For the bin after the last one,
 * it is the end of the last bin. */
static double lower_edge(const struct sluice_histogram *h, uint32_t bin)
{
	const double normal = (double)(1u << h->mantissa_bits);
	uint32_t place = bin < 2 ? 0 : bin - 2;

	if (bin < 2)
		return -149;
	return -126 + (double)(place >> h->mantissa_bits) +
	       log2(1 + (place & ((1u << h->mantissa_bits) - 1)) / normal);
}

float histogram_quantile(const struct sluice_histogram *h, double share)
{
	double need = share * (double)h->total, above = 0;

	for (uint32_t bin = h->bins; bin-- > 1;) {
		double here = (double)h->count[bin];

		if (here > 0 && above + here >= need) {
			double high = lower_edge(h, bin + 1), low = lower_edge(h, bin);
			double at = exp2(high - (high - low) * (need - above) / here);

			return at < (double)FLT_MAX ? (float)at : FLT_MAX;
		}
		above += here;
	}
	return 0;
}

double histogram_above(const struct sluice_histogram *h, float level)
{
	double above = 0, at = log2((double)level);

	for (uint32_t bin = h->bins; bin-- > 1;) {
		double here = (double)h->count[bin], high, low = lower_edge(h, bin);

		if (low >= at) {
			above += here;
			continue;
		}
		high = lower_edge(h, bin + 1);
		return above + (high > at ? here * (high - at) / (high - low) : 0);
	}
	return above;
}
