/* SPDX-License-Identifier: BSD-3-Clause
 * Compiles the portable version of the loops over positions, and chooses a version. */
#include "index_wide.h"

const struct index_kernels *const index_versions[] = {
#if defined(__x86_64__)
	&index_avx2,
#endif
	&index_portable, NULL
};

const struct index_kernels *index_kernels(void)
{
	static const void *_Atomic chosen;

	return kernels_chosen(index_versions, &chosen);
}
