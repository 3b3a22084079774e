/* SPDX-License-Identifier: BSD-3-Clause
 * Compiles the portable version of the loops over values in few bits, and chooses a version. */
#include "value_wide.h"

const struct value_kernels *const value_versions[] = {
#if defined(__x86_64__)
	&value_avx2,
#endif
	&value_portable, NULL
};

const struct value_kernels *value_kernels(void)
{
	static const void *_Atomic chosen;

	return kernels_chosen(value_versions, &chosen);
}
