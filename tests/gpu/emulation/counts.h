/* SPDX-License-Identifier: BSD-3-Clause
 * Counters of the emulated device's work, for tests. They are updated in runtime.c, stream.c and
 * cuda_runtime.h. */
#ifndef EMULATED_COUNTS_H
#define EMULATED_COUNTS_H
#include <stdint.h>

struct emulated_counts {
	unsigned contexts; /* bits: devices on which the calls would have made a context */
	unsigned kernels, sets, copies; /* enqueued */
	unsigned pageable;              /* copies from or to memory that is not pinned */
	unsigned pinned;                /* allocations of pinned memory */
	unsigned loaded_late;           /* launches of kernels that were not loaded before */
	unsigned dma_bufs;              /* exported */
	unsigned widest;                /* most blocks of any kernel */
	uint64_t vector_bytes;          /* bytes of vectors that kernels read and wrote */
};
/* Returns the counts since the last call. */
__attribute__((visibility("default"))) void emulated_count(struct emulated_counts *out);
#endif
