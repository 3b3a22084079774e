/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Estimates from many ranks that each send a few bits: discrete distributions, see
 * sluice_estimate(3), and histograms of magnitudes, see sluice_histogram(3). The functions are in
 * libsluice_estimate, which needs neither a job nor libsluice. The conventions of sluice.h hold,
 * but sluice_estimate_last_error() returns the message of a failure.
 */
#ifndef SLUICE_ESTIMATE_H
#define SLUICE_ESTIMATE_H

#include <sluice.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the message of the calling thread's last failed call of a function below, or "". The text
 * is valid until the next failed call of that thread. Thread class: any. */
SLUICE_API const char *sluice_estimate_last_error(void);

/* ---- distributions: sluice_estimate(3) ------------------------------------------ */

/* The distribution p is over the elements 0 .. n-1. |.|_1 and |.|_2 are norms of the error of the
 * estimate p[0..n), N is the number of servers, and E is the mean. Thread class of the functions
 * for distributions: any.
 *
 * Method: Diakonikolas, Grigorescu, Li, Natarajan, Onak, Schmidt, Communication-Efficient
 * Distributed Learning of Discrete Distributions, NIPS 2017. */

/* Estimates p from one sample of each server: E|.|_2^2 <= 1/N and E|.|_1 <= sqrt(n/N). Errors:
 * EINVAL. */
SLUICE_API int sluice_estimate_samples(const uint32_t *sample, size_t servers, uint32_t n,
				       double *p);

/* Returns the one bit that a server sends: 1 if its sample is in its subset. Seed and server number
 * (0 .. servers - 1) determine the subset, which contains each element with probability 1/2. */
SLUICE_API int sluice_subset_bit(uint64_t seed, uint64_t server, uint32_t sample);
/* Estimates p from these bits: E|.|_2^2 <= n/N. Elements of p may be negative. servers < 2^32.
 * Errors: EINVAL. */
SLUICE_API int sluice_estimate_bits(uint64_t seed, const uint8_t *bit, size_t servers, uint32_t n,
				    double *p);

/* Cuts 0 .. n-1 into at most `intervals` intervals of about equal mass. The samples of the servers
 * show where the mass is. Interval i begins at end[i-1] (interval 0 at 0) and ends before end[i];
 * end has memory for `intervals` numbers. If p is constant except for k - 1 steps, I = 2k/e
 * intervals need 4I - 1 servers. Errors: EINVAL, ENOMEM. */
SLUICE_API int sluice_intervals_cut(const uint32_t *sample, size_t servers, uint32_t n,
				    size_t intervals, uint32_t *end, size_t *intervals_out);
/* Makes about I = log(1 + growth n) / growth intervals for a p that does not increase. Their
 * lengths grow by the factor 1 + growth, with 0 < growth <= 1, so that E|.|_1 <= 2 growth +
 * sqrt(I/N). Errors: EINVAL (also if there are more than room intervals). */
SLUICE_API int sluice_intervals_grow(uint32_t n, double growth, uint32_t *end, size_t room,
				     size_t *intervals_out);
/* Returns the number of the interval that contains the sample, or `intervals` if none does. */
SLUICE_API size_t sluice_interval_of(const uint32_t *end, size_t intervals, uint32_t sample);
/* Estimates p from count[i], the number of samples in interval i; p is constant on each interval.
 * With the intervals of sluice_intervals_cut() and I/e^2 servers, E|.|_1 <= 2.25 e. Errors:
 * EINVAL. */
SLUICE_API int sluice_estimate_intervals(const uint32_t *end, const uint64_t *count,
					 size_t intervals, uint32_t n, double *p);

/* ---- histograms of magnitudes: sluice_histogram(3) ----------------------------- */

/* Counts coordinates by magnitude, in bins of a float's exponent and highest mantissa bits. A
 * histogram is small enough to send. The sum over all ranks gives one threshold for all of them. */
typedef struct sluice_histogram sluice_histogram;

/* Opens a histogram. mantissa_bits is 0 .. 6, and there are 2^mantissa_bits bins between two powers
 * of two. Errors: EINVAL, ENOMEM. Thread class: any. */
SLUICE_API int sluice_histogram_open(int mantissa_bits, sluice_histogram **histogram_out);
/* Thread class: object. */
SLUICE_API void sluice_histogram_close(sluice_histogram **histogram);

/* Counts the magnitudes of a[0..n), n < 2^32. Errors: EINVAL (also for NaN or infinity; the message
 * names the element, and nothing is counted). Thread class: object. */
SLUICE_API int sluice_histogram_add(sluice_histogram *histogram, const float *a, size_t n);

/* Returns the most bytes of a message with `bits` bits per count, 1 .. 16, or 0 for other
 * arguments. Thread class: any. */
SLUICE_API size_t sluice_histogram_bound(const sluice_histogram *histogram, int bits);

/* Writes the histogram as message[0..*bytes_out); room is at least sluice_histogram_bound(). Counts
 * below 2^bits are exact. Larger counts are rounded at random so that their mean is exact. The
 * random numbers follow from seed, which must differ for each rank and message. Errors: EINVAL
 * (also counts of 2^47 or more). Thread class: object. */
SLUICE_API int sluice_histogram_encode(const sluice_histogram *histogram, int bits, uint64_t seed,
				       void *message, size_t room, size_t *bytes_out);

/* Adds a message to the histogram. The order of messages does not matter. Errors: EINVAL, EWIRE
 * (not a message of a histogram with these bins, or a sum beyond 48 bits; then nothing is added).
 * Thread class: object. */
SLUICE_API int sluice_histogram_merge(sluice_histogram *histogram, const void *message,
				      size_t bytes);

/* Sets *threshold_out to a magnitude that about the share `share` of all coordinates reach or
 * exceed (above 0, at most 1), or to 0 if fewer coordinates than that are nonzero. Errors: EINVAL
 * (also for an empty histogram). Thread class: object. */
SLUICE_API int sluice_histogram_quantile(const sluice_histogram *histogram, double share,
					 float *threshold_out);

/* Returns how many coordinates were counted, including zeros. Thread class: object. */
SLUICE_API uint64_t sluice_histogram_total(const sluice_histogram *histogram);

/* The same coding for n counts, at most 65535, of any bins that sender and receiver agree on.
 * sluice_counts_merge adds the message's counts to count[0..n). Errors: EINVAL, EWIRE. Thread
 * class: any. */
SLUICE_API size_t sluice_counts_bound(size_t n, int bits);
SLUICE_API int sluice_counts_encode(const uint64_t *count, size_t n, int bits, uint64_t seed,
				    void *message, size_t room, size_t *bytes_out);
SLUICE_API int sluice_counts_merge(uint64_t *count, size_t n, const void *message, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
