/* SPDX-License-Identifier: BSD-3-Clause
 * The index section of a payload: how the positions of the sent coordinates are encoded. message.h
 * has the layouts. Called only by message.c. The threads of a team, which may be NULL, share the
 * work of the delta coding. */
#ifndef COMPRESS_INDEX_CODING_H
#define COMPRESS_INDEX_CODING_H
#include "message.h"
#include <stddef.h>
#include <stdint.h>

struct team;

/* Returns how many bytes, padded to a multiple of 4, the coding needs for index[0..count), which is
 * ascending and below span. Only delta, run and Rice read index. A run must have no gaps. */
uint64_t index_bytes(struct team *team, enum index_coding coding, const uint32_t *index,
		     uint32_t count, uint32_t span);

/* Writes the indices. bytes is the result of index_bytes(), which is also the number of bytes that
 * are written. */
void index_encode(struct team *team, enum index_coding coding, const uint32_t *index,
		  uint32_t count, uint32_t span, uint8_t *out, uint64_t bytes);

/* Decodes index[0..count) from exactly `bytes` bytes, which may have any content. Returns 0 if the
 * bytes are those that index_encode() writes for count strictly increasing indices below span.
 * Otherwise returns SLUICE_EWIRE and sets *why to a static text. Never writes beyond index[count -
 * 1]. */
int index_decode(struct team *team, enum index_coding coding, const uint8_t *in, uint64_t bytes,
		 uint32_t count, uint32_t span, uint32_t *index, const char **why);
#endif
