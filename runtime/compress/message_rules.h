/* SPDX-License-Identifier: BSD-3-Clause
 * The rules of message.c that the GPU follows when it packs messages. message.h has the layouts.
 * Pure, inline. */
#ifndef COMPRESS_MESSAGE_RULES_H
#define COMPRESS_MESSAGE_RULES_H
#include "base/both.h"
#include "few_bits_rules.h"
#include "message.h"

HOST_AND_DEVICE static inline uint64_t section_padded(uint64_t bytes)
{
	return (bytes + 3) & ~(uint64_t)3;
}

/* Returns the length of the values, without padding. */
HOST_AND_DEVICE static inline uint64_t values_length(uint32_t count,
						     const struct value_coding *values)
{
	if (value_few_bits(values->type))
		return codes_bytes(values->bits, values->block, count);
	return (uint64_t)count * (values->type == VALUE_F32 ? 4 : 2);
}

HOST_AND_DEVICE static inline uint64_t section_of_values(uint32_t count,
							 const struct value_coding *values)
{
	return section_padded(values_length(count, values));
}

HOST_AND_DEVICE static inline uint64_t section_of_bitmap(uint32_t span)
{
	return section_padded(((uint64_t)span + 7) / 8);
}

/* Returns 1 if this coding is better. Sparse codings are tried in the order raw, bitmap, delta,
 * Rice. The shortest wins, and among equally short ones the one that is fastest to read. Dense wins
 * only if it is shorter than all others. */
HOST_AND_DEVICE static inline int coding_wins(uint64_t bytes, enum index_coding best,
					      uint64_t best_bytes)
{
	return bytes < best_bytes || (best == CODING_DENSE && bytes == best_bytes);
}

/* ---- delta: blocks of 128 gaps, each with as many bits as its largest gap ---- */

enum { DELTA_BLOCK = 128 };

HOST_AND_DEVICE static inline uint32_t delta_blocks(uint32_t count)
{
	return count / DELTA_BLOCK + (count % DELTA_BLOCK != 0);
}

HOST_AND_DEVICE static inline uint32_t delta_block_bytes(uint32_t gaps, unsigned width)
{
	return (gaps * width + 7) / 8;
}

/* ---- Rice: the low bits of all gaps, then their high parts in unary ---- */

HOST_AND_DEVICE static inline uint64_t bytes_of_bits(uint64_t bits)
{
	return (bits + 7) / 8;
}

/* Returns the number of low bits in a gap: floor(log2(ln 2 * span / count)), in integer arithmetic
 * so that all machines agree. count > 0. */
HOST_AND_DEVICE static inline unsigned rice_low_bits(uint32_t count, uint32_t span)
{
	uint32_t mean = (uint32_t)((uint64_t)span * 45426 / 65536) / count;
	unsigned bits = 0;

	while (mean >>= 1)
		bits++;
	return bits;
}
#endif
