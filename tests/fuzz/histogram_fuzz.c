/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzz target for histograms that come from a peer. Input: one byte that chooses the bins, then the
 * message. An accepted message is encoded again and must give the same counts, exactly for small
 * ones. */
#include "fuzz.h"
#include "compress/histogram.h"
#include "sluice_estimate.h"
#include <math.h>

enum { BARE_COUNTS = HISTOGRAM_MANTISSA_MAX + 1, KINDS, BARE = 100, BITS = 16 };

static uint64_t largest(const uint64_t *count, size_t n)
{
	uint64_t most = 0;

	for (size_t i = 0; i < n; i++)
		most = count[i] > most ? count[i] : most;
	return most;
}

/* Counts below 2^BITS must be equal. Others may differ by less than the scale. */
static void expect_near(const uint64_t *got, const uint64_t *want, size_t n)
{
	unsigned length = 0;

	while (largest(want, n) >> length)
		length++;
	for (size_t i = 0; i < n; i++) {
		uint64_t off = got[i] > want[i] ? got[i] - want[i] : want[i] - got[i];

		require(off >> (length > BITS ? length - BITS : 0) == 0, "a count moved too far");
		require(want[i] >> BITS || !off, "a small count changed");
	}
}

static void merge_counts(const uint8_t *bytes, size_t size)
{
	uint64_t *count = calloc(BARE, sizeof(*count)), *back = calloc(BARE, sizeof(*back));
	size_t room = sluice_counts_bound(BARE, BITS), length = 0;
	uint8_t *message = get_memory(room);

	require(count && back, "no memory");
	int rc = sluice_counts_merge(count, BARE, bytes, size);

	if (rc)
		expect_refusal(rc, SLUICE_EWIRE, SLUICE_EWIRE);
	else if (!sluice_counts_encode(count, BARE, BITS, size, message, room, &length)) {
		require(length <= room, "longer than the bound");
		require(!sluice_counts_merge(back, BARE, message, length), "own message refused");
		expect_near(back, count, BARE);
	}
	free(count);
	free(back);
	free(message);
}

static void merge_histogram(int mantissa_bits, const uint8_t *bytes, size_t size)
{
	sluice_histogram *h = NULL, *back = NULL;
	float threshold = -1;
	size_t length = 0;

	require(!sluice_histogram_open(mantissa_bits, &h) &&
			!sluice_histogram_open(mantissa_bits, &back),
		"no memory");
	size_t room = sluice_histogram_bound(h, BITS);
	uint8_t *message = get_memory(room);
	int rc = sluice_histogram_merge(h, bytes, size);

	if (rc) {
		expect_refusal(rc, SLUICE_EWIRE, SLUICE_EWIRE);
		require(!sluice_histogram_total(h), "refused, but added");
	} else {
		rc = sluice_histogram_quantile(h, 0.01, &threshold);
		require(!rc == (sluice_histogram_total(h) > 0), "quantile of an empty histogram");
		require(rc || (threshold >= 0 && isfinite(threshold)), "no threshold");
		if (!sluice_histogram_encode(h, BITS, size, message, room, &length)) {
			require(length <= room, "longer than the bound");
			require(!sluice_histogram_merge(back, message, length),
				"own message refused");
			expect_near(back->count, h->count, h->bins);
		}
	}
	sluice_histogram_close(&h);
	sluice_histogram_close(&back);
	free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	begin();

	uint8_t *bytes = get_memory(size - 1);
	int kind = data[0] % KINDS;

	if (size > 1)
		memcpy(bytes, data + 1, size - 1);
	if (kind == BARE_COUNTS)
		merge_counts(bytes, size - 1);
	else
		merge_histogram(kind, bytes, size - 1);
	free(bytes);
	return 0;
}
