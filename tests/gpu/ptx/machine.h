/* SPDX-License-Identifier: BSD-3-Clause
 * Executes kernels of program.h on the CPU, and ends the process with kernel, line, block and
 * thread where a GPU would fault or may compute something else: addresses that are not the device's
 * or not aligned, shared memory that nobody wrote or that threads touch at once, lanes that miss
 * each other. */
#ifndef PTX_MACHINE_H
#define PTX_MACHINE_H
#include "program.h"

/* The memory, of so many bytes, that a kernel may touch and of which p is a part; 0: there is none.
 */
typedef int (*ptx_memory_function)(const void *p, const char **base, size_t *bytes);

struct ptx_counts {
	uint64_t instructions; /* of all threads */
	uint64_t longest;      /* of the thread with most, not those of waiting for other blocks */
	uint64_t global_bytes; /* that loads and stores of the device's memory moved */
};

/* Runs grid blocks of so many threads; together: all at the same time, else in turn. */
struct ptx_counts ptx_run(const struct ptx_kernel *kernel, unsigned grid, unsigned threads,
			  const void *params, int together, ptx_memory_function memory);
#endif
