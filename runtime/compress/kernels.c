/* SPDX-License-Identifier: BSD-3-Clause
 * See kernels.h. */
#include "kernels.h"
#include <stdlib.h>
#include <string.h>

int kernels_anywhere(void)
{
	return 1;
}

int kernels_avx2(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt") &&
	       __builtin_cpu_supports("bmi");
#else
	return 0;
#endif
}

int kernels_avx512(void)
{
#if defined(__x86_64__)
	return kernels_avx2() && __builtin_cpu_supports("avx512f");
#else
	return 0;
#endif
}

/* Returns the first usable version that has this name, or the best usable one if name is NULL.
 * Returns NULL if there is none. */
static const void *first_usable(const void *versions, const char *name)
{
	for (const struct kernel_version *const *v = versions; *v; v++)
		if ((!name || !strcmp(name, (*v)->name)) && (*v)->usable())
			return *v;
	return NULL;
}

const void *kernels_named(const void *versions)
{
	const char *name = getenv("SLUICE_KERNELS");

	return first_usable(versions, name && *name && strcmp(name, "auto") ? name : NULL);
}

const void *kernels_choose(const void *versions, const void *_Atomic *chosen)
{
	const void *k = kernels_named(versions);

	k = k ? k : first_usable(versions, NULL);
	atomic_store_explicit(chosen, k, memory_order_relaxed);
	return k;
}
