/* SPDX-License-Identifier: BSD-3-Clause
 * Opens a histogram for a test, which fails if that is impossible. */
#ifndef TESTS_BINS_H
#define TESTS_BINS_H
#include "base/error.h"
#include "compress/histogram.h"
#include "sluice_estimate.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static inline sluice_histogram *open_bins(int mantissa_bits)
{
	sluice_histogram *h = NULL;

	assert_int_equal(sluice_histogram_open(mantissa_bits, &h), 0);
	return h;
}
#endif
