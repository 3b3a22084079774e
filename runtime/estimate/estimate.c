/* SPDX-License-Identifier: BSD-3-Clause
 * Estimates of a distribution p over 0 .. n - 1, which a referee makes from the few bits that many
 * servers send (Diakonikolas et al., NIPS 2017; the protocols are reconstructed). These are pure
 * public functions. The comment of each states the error bound that its test checks. */
#include "base/arguments.h"
#include "base/error.h"
#include "compress/random.h"
#include "sluice_estimate.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int check_samples(const char *function, const uint32_t *sample, size_t servers, uint32_t n)
{
	if (!sample || !servers || !n)
		return fail(SLUICE_EINVAL,
			    "%s: an argument is NULL, or there are no samples or no elements",
			    function);
	int rc = argument_aligned(sample, sizeof(*sample), "sample", function);
	if (rc)
		return rc;
	for (size_t i = 0; i < servers; i++)
		if (sample[i] >= n)
			return fail(SLUICE_EINVAL, "%s: sample %zu is %u, not below n=%u", function,
				    i, sample[i], n);
	return 0;
}

/* ---- any distribution ------------------------------------------------------ */

/* N p'_j is binomial, so E |p' - p|_2^2 = (1 - |p|_2^2) / N, and therefore E |p' - p|_1 <= sqrt(n /
 * N). */
SLUICE_API int sluice_estimate_samples(const uint32_t *sample, size_t servers, uint32_t n,
				       double *p)
{
	int rc = check_samples("sluice_estimate_samples", sample, servers, n);

	if (rc)
		return rc;
	if (!p)
		return fail(SLUICE_EINVAL, "sluice_estimate_samples: p is NULL");
	if ((rc = argument_aligned(p, sizeof(*p), "p", "sluice_estimate_samples")))
		return rc;
	memset(p, 0, n * sizeof(*p));
	for (size_t i = 0; i < servers; i++)
		p[sample[i]] += 1;
	for (uint32_t j = 0; j < n; j++)
		p[j] /= (double)servers;
	return 0;
}

/* Returns a word of a server's subset. A bit of the random numbers for (seed, server) decides
 * whether an element is in the subset, so the probability is 1/2. */
static void subset_word(uint64_t seed, uint64_t server, uint32_t element, uint32_t four[4])
{
	const struct random_stream stream = { .purpose = RANDOM_SUBSET,
					      .rank = (uint32_t)server,
					      .step = seed };

	random_quad(&stream, element / 128, four);
}

static int is_member(const uint32_t four[4], uint32_t element)
{
	return four[element % 128 / 32] >> element % 32 & 1;
}

SLUICE_API int sluice_subset_bit(uint64_t seed, uint64_t server, uint32_t sample)
{
	uint32_t four[4];

	subset_word(seed, server, sample, four);
	return is_member(four, sample);
}

/* Server i adds +1 to p_j if its bit equals 1 exactly when j is in its subset, and otherwise -1.
 * For its own sample j this is always so; for any other j it is so with probability 1/2. Hence E
 * p'_j = p_j, the variance is (1 - p_j^2) / N, and E |p' - p|_2^2 <= n / N. */
SLUICE_API int sluice_estimate_bits(uint64_t seed, const uint8_t *bit, size_t servers, uint32_t n,
				    double *p)
{
	if (!bit || !servers || servers > UINT32_MAX || !n || !p)
		return fail(SLUICE_EINVAL,
			    "sluice_estimate_bits: an argument is NULL, there are no elements, or "
			    "the number of servers is 0 or 2^32 or more");
	int rc = argument_aligned(p, sizeof(*p), "p", "sluice_estimate_bits");
	if (rc)
		return rc;
	memset(p, 0, n * sizeof(*p));
	for (size_t i = 0; i < servers; i++) {
		uint32_t four[4];

		for (uint32_t j = 0; j < n; j++) {
			if (j % 128 == 0)
				subset_word(seed, i, j, four);
			p[j] += is_member(four, j) == (bit[i] != 0) ? 1 : -1;
		}
	}
	for (uint32_t j = 0; j < n; j++)
		p[j] /= (double)servers;
	return 0;
}

/* ---- distributions that are flat on intervals ------------------------------ */

static int ascending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void add_end(uint32_t *end, size_t *n, uint32_t at)
{
	if (at > (*n ? end[*n - 1] : 0))
		end[(*n)++] = at;
}

/* With r = (N + 1) / I samples per interval, an interval that contains a step of p has a mass of (r
 * + 1) / (N + 1) on average. Treating p as flat there costs at most twice that mass. An element at
 * which two cuts fall becomes its own interval. */
SLUICE_API int sluice_intervals_cut(const uint32_t *sample, size_t servers, uint32_t n,
				    size_t intervals, uint32_t *end, size_t *intervals_out)
{
	static const char here[] = "sluice_intervals_cut";
	int rc = check_samples(here, sample, servers, n);
	size_t found = 0;

	if (rc)
		return rc;
	if (!intervals || !end || !intervals_out || servers > UINT32_MAX || intervals > UINT32_MAX)
		return fail(SLUICE_EINVAL, "%s: an argument is NULL, 0 or beyond 32 bits", here);
	if ((rc = argument_aligned(end, sizeof(*end), "end", here)))
		return rc;

	uint32_t *sorted = malloc(servers * sizeof(*sorted));

	if (!sorted)
		return fail(SLUICE_ENOMEM, "%s: no memory for %zu samples", here, servers);
	memcpy(sorted, sample, servers * sizeof(*sorted));
	qsort(sorted, servers, sizeof(*sorted), ascending);
	for (size_t i = 1, next; i < intervals; i++) {
		/* `rank` is that of an order statistic, counted from 1. */
		size_t rank = i * (servers + 1) / intervals;

		next = (i + 1) * (servers + 1) / intervals;
		if (!rank)
			continue;
		if (i + 1 < intervals && sorted[rank - 1] == sorted[next - 1])
			add_end(end, &found, sorted[rank - 1]);
		add_end(end, &found, sorted[rank - 1] + 1);
	}
	add_end(end, &found, n);
	free(sorted);
	*intervals_out = found;
	return 0;
}

/* Let p not increase, and let interval j have length l_j. Treating p as flat there costs at most
 * l_j times the decrease of p over the interval. Summation by parts turns the total into the sum of
 * (l_j - l_(j-1)) p(begin of j). Each increase of the length by one follows a run of intervals with
 * a mass of at least p(begin) / (1.45 growth), so the total is at most 2 growth. */
SLUICE_API int sluice_intervals_grow(uint32_t n, double growth, uint32_t *end, size_t room,
				     size_t *intervals_out)
{
	double length = 1;
	uint64_t at = 0;
	size_t found = 0;

	if (!n || !(growth > 0 && growth <= 1) || !end || !intervals_out)
		return fail(SLUICE_EINVAL,
			    "sluice_intervals_grow: growth=%g is not in (0, 1], n is 0, or an "
			    "argument is NULL",
			    growth);
	int rc = argument_aligned(end, sizeof(*end), "end", "sluice_intervals_grow");
	if (rc)
		return rc;
	for (; at < n; length *= 1 + growth) {
		if (found == room)
			return fail(SLUICE_EINVAL,
				    "sluice_intervals_grow: end has room for %zu intervals, but n "
				    "and growth give more",
				    room);
		at = length < n - (double)at ? at + (uint64_t)length : n;
		end[found++] = (uint32_t)at;
	}
	*intervals_out = found;
	return 0;
}

SLUICE_API size_t sluice_interval_of(const uint32_t *end, size_t intervals, uint32_t sample)
{
	size_t low = 0, high = intervals;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (end[middle] > sample)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The expected error of the masses of I intervals is at most sqrt(I / N). The error of p is at most
 * that, plus the error of treating p as flat within each interval. */
SLUICE_API int sluice_estimate_intervals(const uint32_t *end, const uint64_t *count,
					 size_t intervals, uint32_t n, double *p)
{
	static const char here[] = "sluice_estimate_intervals";
	double total = 0;

	if (!end || !count || !intervals || !p)
		return fail(SLUICE_EINVAL, "%s: an argument is NULL, or there are no intervals",
			    here);
	int rc = argument_aligned(end, sizeof(*end), "end", here);
	if (!rc)
		rc = argument_aligned(count, sizeof(*count), "count", here);
	if (!rc)
		rc = argument_aligned(p, sizeof(*p), "p", here);
	if (rc)
		return rc;
	for (size_t i = 0; i < intervals; i++) {
		if (end[i] <= (i ? end[i - 1] : 0) || end[i] > n)
			return fail(SLUICE_EINVAL,
				    "%s: end %zu is %u: ends must be above 0, ascending, and at "
				    "most n=%u",
				    here, i, end[i], n);
		total += (double)count[i];
	}
	if (end[intervals - 1] != n || !(total > 0))
		return fail(SLUICE_EINVAL,
			    "%s: the last interval does not end at n=%u, or all counts are 0", here,
			    n);
	for (size_t i = 0, j = 0; i < intervals; i++) {
		double each = (double)count[i] / total / (double)(end[i] - j);

		for (; j < end[i]; j++)
			p[j] = each;
	}
	return 0;
}
