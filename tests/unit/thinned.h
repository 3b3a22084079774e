/* SPDX-License-Identifier: BSD-3-Clause
 * For tests of very many similar cases. Under valgrind and ThreadSanitizer they run only some
 * cases, because each takes up to fifty times as long, and these tools look for uninitialised
 * memory and races, not for wrong values. */
#ifndef TESTS_THINNED_H
#define TESTS_THINNED_H
#include <stdlib.h>
#include <string.h>

#ifdef __has_feature /* clang */
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
enum { UNDER_THREAD_SANITIZER = 1 };
#else
enum { UNDER_THREAD_SANITIZER = 0 };
#endif
#ifdef __SANITIZE_ADDRESS__
enum { UNDER_ADDRESS_SANITIZER = 1 };
#else
enum { UNDER_ADDRESS_SANITIZER = 0 };
#endif

static inline int under_valgrind(void)
{
	const char *preloaded = getenv("LD_PRELOAD");
	return preloaded && strstr(preloaded, "vgpreload") != NULL;
}

/* Returns 1 if case number i is left out. Thinned tests leave out all but every n-th case. */
static inline int thinned(size_t i, size_t n)
{
	return (under_valgrind() || UNDER_THREAD_SANITIZER) && i % n != 0;
}

/* The same for cases that differ only by chance or in time. AddressSanitizer runs few of them, too.
 */
static inline int repeated(size_t i, size_t n)
{
	return (under_valgrind() || UNDER_THREAD_SANITIZER || UNDER_ADDRESS_SANITIZER) &&
	       i % n != 0;
}
#endif
