/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Estimates of a discrete distribution from many servers that each send a few bits; see
 * sluice_estimate(3). No training step uses these functions, and none of them needs a job.
 *
 * The distribution p is over the elements 0 .. n-1. |.|_1 and |.|_2 are norms of the error of the
 * estimate p[0..n), N is the number of servers, and E is the mean. The conventions of sluice.h hold
 * here too. Thread class of all functions: any.
 *
 * Method: Diakonikolas, Grigorescu, Li, Natarajan, Onak, Schmidt, Communication-Efficient
 * Distributed Learning of Discrete Distributions, NIPS 2017.
 */
#ifndef SLUICE_ESTIMATE_H
#define SLUICE_ESTIMATE_H

#include <sluice.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Estimates p from one sample of each server: E|.|_2^2 <= 1/N and E|.|_1 <= sqrt(n/N). Errors:
 * EINVAL. */
SLUICE_API int sluice_estimate_samples(const uint32_t *sample, size_t servers, uint32_t n,
				       double *p);

/* Returns the one bit that a server sends: whether its sample is in its subset. Seed and server
 * number (0 .. servers-1) determine the subset, which contains each element with probability
 * 1/2. */
SLUICE_API int sluice_subset_bit(uint64_t seed, uint64_t server, uint32_t sample);
/* Estimates p from these bits: E|.|_2^2 <= n/N. Elements of p may be negative. servers < 2^32.
 * Errors: EINVAL. */
SLUICE_API int sluice_estimate_bits(uint64_t seed, const uint8_t *bit, size_t servers, uint32_t n,
				    double *p);

/* Cuts 0 .. n-1 into at most `intervals` intervals of about equal mass, by the samples of the
 * servers. Interval i begins at end[i-1] (the first one at 0) and ends before end[i]; end has room
 * for `intervals` numbers. For a p that is constant but for k - 1 steps, I = 2k/e intervals need 4I
 * - 1 servers. Errors: EINVAL, ENOMEM. */
SLUICE_API int sluice_intervals_cut(const uint32_t *sample, size_t servers, uint32_t n,
				    size_t intervals, uint32_t *end, size_t *intervals_out);
/* Makes intervals whose lengths grow by 1 + growth, 0 < growth <= 1, for a p that does not
 * increase: about I = log(1 + growth n) / growth of them, with E|.|_1 <= 2 growth + sqrt(I/N).
 * Errors: EINVAL (also if they are more than room). */
SLUICE_API int sluice_intervals_grow(uint32_t n, double growth, uint32_t *end, size_t room,
				     size_t *intervals_out);
/* Returns the number of the interval that contains the sample, or `intervals` if none does. */
SLUICE_API size_t sluice_interval_of(const uint32_t *end, size_t intervals, uint32_t sample);
/* Estimates p from count[i], the number of samples in interval i; p is constant on each interval.
 * With the intervals of sluice_intervals_cut() and I/e^2 servers, E|.|_1 <= 2.25 e. Errors:
 * EINVAL. */
SLUICE_API int sluice_estimate_intervals(const uint32_t *end, const uint64_t *count,
					 size_t intervals, uint32_t n, double *p);

#ifdef __cplusplus
}
#endif
#endif
