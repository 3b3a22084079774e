/* SPDX-License-Identifier: BSD-3-Clause
 * The delta log: a ring of bytes in the shard's readable region. Positions are counted for ever;
 * entries start on 8 bytes and never wrap. The shard appends; workers plan their READs from the
 * positions in a notice. A torn entry is the reader's CRC's business. */
#ifndef RUNTIME_DELTA_LOG_H
#define RUNTIME_DELTA_LOG_H
#include <stddef.h>
#include <stdint.h>

struct delta_log {
	uint8_t *ring;
	size_t ring_bytes; /* multiple of 8 */
	uint64_t end;      /* position after the last entry */
};

/* Room for one entry of up to max_bytes, where the next commit will find it; what lay there is
 * invalidated first. */
uint8_t *delta_log_reserve(struct delta_log *log, size_t max_bytes);
/* Appends the entry of `bytes` written at the reserved place; returns the new end. */
uint64_t delta_log_commit(struct delta_log *log, size_t bytes);

/* Reader: offset in the ring of the entry that ends at log_end and is last_bytes long. SLUICE_EWIRE
 * (quietly, no message) if the numbers of the notice are impossible for this ring. */
int delta_log_locate(uint64_t log_end, uint32_t last_bytes, size_t ring_bytes,
		     uint64_t *offset_out);
#endif
