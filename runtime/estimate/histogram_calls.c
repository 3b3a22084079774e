/* SPDX-License-Identifier: BSD-3-Clause
 * The histogram and the coding of counts as public functions: they check the arguments and call
 * histogram.c and counts.c. */
#include "base/arguments.h"
#include "base/error.h"
#include "compress/histogram.h"
#include "sluice_estimate.h"
#include <math.h>
#include <stdlib.h>

static int check_bits(const char *function, int bits)
{
	if (bits < 1 || bits > COUNTS_BITS_MAX)
		return fail(SLUICE_EINVAL, "%s: bits is %d, not 1 .. %d", function, bits,
			    COUNTS_BITS_MAX);
	return 0;
}

static int check_text_room(const char *function, size_t need, size_t room)
{
	if (room < need)
		return fail(SLUICE_EINVAL, "%s: the buffer has %zu bytes, but %zu may be needed",
			    function, room, need);
	return 0;
}

static int check_counts(const char *function, const uint64_t *count, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (count[i] >> (COUNTS_LENGTH_MAX - 1))
			return fail(SLUICE_EINVAL, "%s: count %zu is %llu, not below 2^%d",
				    function, i, (unsigned long long)count[i],
				    COUNTS_LENGTH_MAX - 1);
	return 0;
}

static struct random_stream count_stream(uint64_t seed)
{
	return (struct random_stream){ .purpose = RANDOM_COUNT, .step = seed };
}

const char *sluice_estimate_last_error(void)
{
	return sluice_last_error();
}

/* ---- histogram ---- */

SLUICE_API int sluice_histogram_open(int mantissa_bits, sluice_histogram **histogram_out)
{
	if (mantissa_bits < 0 || mantissa_bits > HISTOGRAM_MANTISSA_MAX || !histogram_out)
		return fail(SLUICE_EINVAL,
			    "sluice_histogram_open: mantissa_bits is %d, not 0 .. %d, or "
			    "histogram_out is NULL",
			    mantissa_bits, HISTOGRAM_MANTISSA_MAX);
	return histogram_open((unsigned)mantissa_bits, histogram_out);
}

SLUICE_API void sluice_histogram_close(sluice_histogram **histogram)
{
	if (!histogram)
		return;
	free(*histogram);
	*histogram = NULL;
}

SLUICE_API int sluice_histogram_add(sluice_histogram *histogram, const float *a, size_t n)
{
	if (!histogram || (n && !a) || n > UINT32_MAX)
		return fail(SLUICE_EINVAL,
			    "sluice_histogram_add: histogram or a is NULL, or n is 2^32 or more");
	int rc = argument_aligned(a, sizeof(*a), "a", "sluice_histogram_add");
	if (rc)
		return rc;
	histogram_see(histogram, a, n);
	if (histogram_take(histogram)) {
		size_t bad = 0;

		while (isfinite(a[bad]))
			bad++;
		return fail(SLUICE_EINVAL,
			    "sluice_histogram_add: a[%zu] is %s; nothing was counted", bad,
			    isnan(a[bad]) ? "NaN" : "infinite");
	}
	return 0;
}

SLUICE_API size_t sluice_histogram_bound(const sluice_histogram *histogram, int bits)
{
	return histogram && bits >= 1 && bits <= COUNTS_BITS_MAX ?
		       histogram_bound(histogram, (unsigned)bits) :
		       0;
}

SLUICE_API int sluice_histogram_encode(const sluice_histogram *histogram, int bits, uint64_t seed,
				       void *message, size_t room, size_t *bytes_out)
{
	static const char here[] = "sluice_histogram_encode";
	const struct random_stream stream = count_stream(seed);
	int rc = check_bits(here, bits);

	if (!rc && (!histogram || !message || !bytes_out))
		rc = fail(SLUICE_EINVAL, "%s: an argument is NULL", here);
	if (!rc)
		rc = check_text_room(here, histogram_bound(histogram, (unsigned)bits), room);
	if (!rc)
		rc = check_counts(here, histogram->count, histogram->bins);
	if (!rc)
		*bytes_out = histogram_encode(histogram, (unsigned)bits, &stream, message);
	return rc;
}

SLUICE_API int sluice_histogram_merge(sluice_histogram *histogram, const void *message,
				      size_t bytes)
{
	const char *why;

	if (!histogram || !message)
		return fail(SLUICE_EINVAL, "sluice_histogram_merge: an argument is NULL");
	if (histogram_merge(histogram, message, bytes, &why))
		return fail(SLUICE_EWIRE, "sluice_histogram_merge: refused: %s", why);
	return 0;
}

SLUICE_API int sluice_histogram_quantile(const sluice_histogram *histogram, double share,
					 float *threshold_out)
{
	if (!histogram || !threshold_out || !(share > 0 && share <= 1))
		return fail(SLUICE_EINVAL,
			    "sluice_histogram_quantile: an argument is NULL, or share=%g is not in "
			    "(0, 1]",
			    share);
	if (!histogram->total)
		return fail(SLUICE_EINVAL, "sluice_histogram_quantile: the histogram is empty");
	*threshold_out = histogram_quantile(histogram, share);
	return 0;
}

SLUICE_API uint64_t sluice_histogram_total(const sluice_histogram *histogram)
{
	return histogram ? histogram->total : 0;
}

/* ---- counts of any bins ---- */

enum { NO_HISTOGRAM = 0 };

SLUICE_API size_t sluice_counts_bound(size_t n, int bits)
{
	return n <= COUNTS_MOST && bits >= 1 && bits <= COUNTS_BITS_MAX ?
		       counts_bound(n, (unsigned)bits) :
		       0;
}

SLUICE_API int sluice_counts_encode(const uint64_t *count, size_t n, int bits, uint64_t seed,
				    void *message, size_t room, size_t *bytes_out)
{
	static const char here[] = "sluice_counts_encode";
	const struct random_stream stream = count_stream(seed);
	int rc = check_bits(here, bits);

	if (!rc && ((n && !count) || n > COUNTS_MOST || !message || !bytes_out))
		rc = fail(SLUICE_EINVAL, "%s: an argument is NULL, or n=%zu is above %d", here, n,
			  COUNTS_MOST);
	if (!rc)
		rc = argument_aligned(count, sizeof(*count), "count", here);
	if (!rc)
		rc = check_text_room(here, counts_bound(n, (unsigned)bits), room);
	if (!rc)
		rc = check_counts(here, count, n);
	if (!rc)
		*bytes_out = counts_encode(count, n, (unsigned)bits, NO_HISTOGRAM, &stream,
					   message);
	return rc;
}

SLUICE_API int sluice_counts_merge(uint64_t *count, size_t n, const void *message, size_t bytes)
{
	const char *why;

	if ((n && !count) || !message)
		return fail(SLUICE_EINVAL, "sluice_counts_merge: an argument is NULL");
	int rc = argument_aligned(count, sizeof(*count), "count", "sluice_counts_merge");
	if (rc)
		return rc;
	if (counts_merge(message, bytes, NO_HISTOGRAM, count, n, &why))
		return fail(SLUICE_EWIRE, "sluice_counts_merge: refused: %s", why);
	return 0;
}
