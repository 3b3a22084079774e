/* SPDX-License-Identifier: BSD-3-Clause
 * Records which threads have accessed a block's shared memory since the last barrier. If two
 * threads access the same word and one of them writes, that is an error. */
#ifndef PTX_SHARED_H
#define PTX_SHARED_H
#include <stddef.h>
#include <stdint.h>

enum ptx_access { PTX_READS, PTX_WRITES, PTX_ADDS /* by an atomic operation */ };

struct ptx_touched;
struct ptx_shared {
	struct ptx_touched *touched; /* one entry per byte */
	uint32_t bytes;
	uint32_t block_met, warp_met[32];
};

void ptx_shared_open(struct ptx_shared *s, uint32_t bytes);
void ptx_shared_close(struct ptx_shared *s);
/* Called at the beginning of a block, when nothing was written. */
void ptx_shared_begin(struct ptx_shared *s);
void ptx_shared_block_met(struct ptx_shared *s);
void ptx_shared_warp_met(struct ptx_shared *s, unsigned warp);
/* Returns 0, or -1 and the reason. */
int ptx_shared_touch(struct ptx_shared *s, uint64_t offset, size_t bytes, enum ptx_access access,
		     unsigned thread, unsigned line, char *why, size_t cap);
#endif
