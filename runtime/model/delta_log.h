/* SPDX-License-Identifier: BSD-3-Clause
 * The delta log: a ring of bytes in the shard's readable region. Positions grow without limit;
 * entries are aligned to 8 bytes and never wrap. The shard appends entries; workers plan their
 * READs from the positions in a notice. A reader detects a torn entry by its CRC. */
#ifndef RUNTIME_DELTA_LOG_H
#define RUNTIME_DELTA_LOG_H
#include <stddef.h>
#include <stdint.h>

struct delta_log {
	uint8_t *ring;
	size_t ring_bytes; /* multiple of 8 */
	uint64_t end;      /* position after the last entry */
};

/* Returns the address of the next entry, with space for max_bytes, and invalidates the old content
 * there. */
uint8_t *delta_log_reserve(struct delta_log *log, size_t max_bytes);
/* Appends the entry of `bytes` bytes that the caller has written to the reserved memory. Returns
 * the new end. */
uint64_t delta_log_commit(struct delta_log *log, size_t bytes);

/* For the reader: computes the offset in the ring of the entry that ends at log_end and has
 * last_bytes bytes. Returns SLUICE_EWIRE (without a message) if these numbers are impossible for
 * this ring. */
int delta_log_locate(uint64_t log_end, uint32_t last_bytes, size_t ring_bytes,
		     uint64_t *offset_out);
#endif
