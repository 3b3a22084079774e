/* SPDX-License-Identifier: BSD-3-Clause
 * For tests that sweep over very many alike cases: under valgrind, where each takes fifty times as
 * long and which looks for memory that nobody wrote rather than for a wrong value, they run some of
 * them. */
#ifndef TESTS_THINNED_H
#define TESTS_THINNED_H
#include <stdlib.h>
#include <string.h>

static inline int under_valgrind(void)
{
	const char *preloaded = getenv("LD_PRELOAD");
	return preloaded && strstr(preloaded, "vgpreload") != NULL;
}

/* Whether case number i is left out: under valgrind all but every n-th. */
static inline int thinned(size_t i, size_t n)
{
	return under_valgrind() && i % n != 0;
}
#endif
