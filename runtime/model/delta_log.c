/* SPDX-License-Identifier: BSD-3-Clause
 * See delta_log.h. Called by shard.c (append) and worker.c (locate). */
#include "model/delta_log.h"
#include "sluice.h"
#include <stdatomic.h>
#include <string.h>

static size_t padded(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

uint8_t *delta_log_reserve(struct delta_log *log, size_t max_bytes)
{
	size_t at = log->end % log->ring_bytes;
	if (at + padded(max_bytes) > log->ring_bytes) {
		log->end += log->ring_bytes - at;
		at = 0;
	}
	/* Readers recognize an entry by its magic, so the old magic must be overwritten before any
	 * byte of the body. */
	memset(log->ring + at, 0, 8);
	atomic_thread_fence(memory_order_seq_cst);
	return log->ring + at;
}

uint64_t delta_log_commit(struct delta_log *log, size_t bytes)
{
	log->end += padded(bytes);
	return log->end;
}

int delta_log_locate(uint64_t log_end, uint32_t last_bytes, size_t ring_bytes, uint64_t *offset_out)
{
	uint64_t length = padded(last_bytes);
	if (!last_bytes || length > ring_bytes || log_end < length || log_end % 8)
		return SLUICE_EWIRE;
	uint64_t offset = (log_end - length) % ring_bytes;
	if (offset + length > ring_bytes)
		return SLUICE_EWIRE;
	*offset_out = offset;
	return 0;
}
