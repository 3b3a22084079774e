/* SPDX-License-Identifier: BSD-3-Clause
 * Checks that public functions share: vectors, and structs that begin with their size. Both return
 * 0, or SLUICE_EINVAL with a sentence that names function and argument. */
#ifndef BASE_ARGUMENTS_H
#define BASE_ARGUMENTS_H
#include <stddef.h>

/* Checks that address is NULL or a multiple of `bytes`, the size of an element. */
int argument_aligned(const void *address, size_t bytes, const char *argument, const char *function);

/* Checks the size that a caller gives for its struct. `least` is the size of the struct's oldest
 * version. Structs only grow at their end, and the size of each version is a multiple of
 * `alignment`, so no version ends inside a member. */
int argument_size(size_t size, size_t least, size_t alignment, const char *type,
		  const char *function);
#endif
