/* SPDX-License-Identifier: BSD-3-Clause
 * The kernel of random numbers compiled for AVX2, apart from the others in wide_avx2.c, because
 * libsluice_estimate needs only this one. */
#if defined(__x86_64__)
#define WIDE_AVX2
#include "random_wide.h"
#else
typedef int no_avx2_on_this_machine;
#endif
