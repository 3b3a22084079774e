/* SPDX-License-Identifier: BSD-3-Clause
 * Determines how much memory is left. Callers check this before large allocations, because an
 * allocation beyond the limit of a control group does not fail: the kernel kills a process. Called
 * by runtime/calls/model_open.c. */
#ifndef BASE_ROOM_H
#define BASE_ROOM_H
#include <stdint.h>

enum { ROOM_TEXT = 64 };

struct room {
	uint64_t node; /* bytes left to all processes that share the limit; UINT64_MAX if there is
			  no limit */
	uint64_t process;           /* bytes of address space that this process may still use */
	char node_limit[ROOM_TEXT]; /* the name of the limit behind `node`: "the machine" or "a
				       memory control group (cgroup)" */
};

/* Returns the memory that is left. root is "", or in tests a directory that stands for the root of
 * the file system. A limit that cannot be read counts as no limit. */
struct room room_left(const char *root);
#endif
