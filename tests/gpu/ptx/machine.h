/* SPDX-License-Identifier: BSD-3-Clause
 * Executes kernels of program.h on the CPU, and ends the process with kernel, line, block and
 * thread where a GPU would fault or could get another result: addresses outside device memory or
 * unaligned, shared memory that was never written or that threads access at the same time, and
 * lanes that do not meet. */
#ifndef PTX_MACHINE_H
#define PTX_MACHINE_H
#include "program.h"

/* Returns the size of the memory that contains p and that a kernel may access, or 0. */
typedef int (*ptx_memory_function)(const void *p, const char **base, size_t *bytes);

struct ptx_counts {
	uint64_t instructions; /* total of all threads */
	uint64_t longest;      /* of the thread with the most, without waiting for other blocks */
	uint64_t global_bytes; /* bytes of device memory that loads and stores moved */
};

/* Runs `grid` blocks of this number of threads; together: all at the same time, otherwise one after
 * another. */
struct ptx_counts ptx_run(const struct ptx_kernel *kernel, unsigned grid, unsigned threads,
			  const void *params, int together, ptx_memory_function memory);
#endif
