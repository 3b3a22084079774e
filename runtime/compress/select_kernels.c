/* SPDX-License-Identifier: BSD-3-Clause
 * The selection kernels in portable C, which tests compare with the other versions, and the choice
 * of a version. */
#include "select_wide.h"

const struct select_kernels *const select_versions[] = {
#if defined(__x86_64__)
	&select_avx512, &select_avx2,
#endif
	&select_portable, NULL
};

const struct select_kernels *select_best(void)
{
	return kernels_named(select_versions);
}
