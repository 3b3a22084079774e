/* SPDX-License-Identifier: BSD-3-Clause
 * How much memory there still is: asked before much of it is taken, because beyond the limit of a
 * control group no allocation fails, but a process is killed. Called by model_open.c. */
#ifndef BASE_ROOM_H
#define BASE_ROOM_H
#include <stdint.h>

enum { ROOM_TEXT = 64 };

struct room {
	uint64_t node;    /* bytes left to all processes that share the limit; UINT64_MAX: none */
	uint64_t process; /* bytes of address space left to this one */
	char node_limit[ROOM_TEXT]; /* which limit the first is: "the machine", "the job's control
				       group" */
};

/* root: "" or a folder that stands for the root of the file system, for tests. What cannot be read
 * is no limit. */
struct room room_left(const char *root);
#endif
