/* SPDX-License-Identifier: BSD-3-Clause
 * Chooses among versions of the same kernels: those of select, value, index, random and sketch. All
 * versions give the same results; SLUICE_KERNELS names one. Each table of kernels begins with the
 * members of struct kernel_version, and each list of versions is best first and ends with NULL. */
#ifndef COMPRESS_KERNELS_H
#define COMPRESS_KERNELS_H
#include <stdatomic.h>

struct kernel_version {
	const char *name;
	int (*usable)(void); /* returns 1 if this processor supports the version */
};

/* Functions to which `usable` may point. */
int kernels_anywhere(void);
int kernels_avx2(void);   /* AVX2 and the bit instructions (BMI) that come with it */
int kernels_avx512(void); /* these, and the basic instructions of AVX-512 */

/* Returns the version that SLUICE_KERNELS names, or the best version if it names none. Returns NULL
 * if the named version is not usable. */
const void *kernels_named(const void *versions);
/* Does the same, but returns the best version if the named one is not usable. Remembers the result
 * in *chosen. */
const void *kernels_choose(const void *versions, const void *_Atomic *chosen);

static inline const void *kernels_chosen(const void *versions, const void *_Atomic *chosen)
{
	const void *k = atomic_load_explicit(chosen, memory_order_relaxed);

	return k ? k : kernels_choose(versions, chosen);
}
#endif
