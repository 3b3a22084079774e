/* SPDX-License-Identifier: BSD-3-Clause
 * Memory allocation that ends the program if there is no memory. */
#ifndef REPRODUCE_MEMORY_H
#define REPRODUCE_MEMORY_H
#include <stdio.h>
#include <stdlib.h>

static inline void *zeroed(size_t n, size_t bytes)
{
	void *p = calloc(n ? n : 1, bytes);

	if (!p) {
		fprintf(stderr, "reproduce: no memory for %zu x %zu bytes\n", n, bytes);
		exit(1);
	}
	return p;
}
#endif
