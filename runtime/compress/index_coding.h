/* SPDX-License-Identifier: BSD-3-Clause
 * The index part of a payload: how the positions of the sent coordinates are written. Layouts are
 * in message.h. Called by message.c only. */
#ifndef COMPRESS_INDEX_CODING_H
#define COMPRESS_INDEX_CODING_H
#include "message.h"
#include <stddef.h>
#include <stdint.h>

/* Bytes (padded to 4) that the coding needs for index[0..count), ascending and < span. Only delta,
 * run and Rice look at index; no run has gaps. */
uint64_t index_bytes(enum index_coding coding, const uint32_t *index, uint32_t count,
		     uint32_t span);

/* bytes: what index_bytes() says; exactly these are written. */
void index_encode(enum index_coding coding, const uint32_t *index, uint32_t count, uint32_t span,
		  uint8_t *out, uint64_t bytes);

/* Reads index[0..count) from exactly `bytes` bytes, which may hold anything. Returns 0, or
 * SLUICE_EWIRE with *why (static text) unless they are what index_encode() writes for count
 * strictly increasing indices < span. Never writes beyond index[count - 1]. */
int index_decode(enum index_coding coding, const uint8_t *in, uint64_t bytes, uint32_t count,
		 uint32_t span, uint32_t *index, const char **why);
#endif
