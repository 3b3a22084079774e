/* SPDX-License-Identifier: BSD-3-Clause
 * See rice.h. The low bits of all gaps are stored together, followed by the high parts in unary, so
 * both can be read in whole words. */
#include "rice.h"
#include "base/bytes.h"
#include "base/error.h"
#include "message_rules.h"
#include "sluice.h"

uint64_t rice_bytes(const uint32_t *index, uint32_t count, uint32_t span)
{
	uint64_t unary = count;
	uint32_t next = 0;
	unsigned low;

	if (!count)
		return 0;
	low = rice_low_bits(count, span);
	for (uint32_t i = 0; i < count; i++) {
		unary += (index[i] - next) >> low;
		next = index[i] + 1;
	}
	return bytes_of_bits((uint64_t)count * low) + bytes_of_bits(unary);
}

void rice_encode(const uint32_t *index, uint32_t count, uint32_t span, uint8_t *out)
{
	uint64_t held = 0, place = 0; /* place: the bit position of the next unary one */
	uint8_t *unary;
	uint32_t next = 0;
	unsigned low, fill = 0;

	if (!count)
		return;
	low = rice_low_bits(count, span);
	unary = out + bytes_of_bits((uint64_t)count * low);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t gap = index[i] - next;

		next = index[i] + 1;
		place += gap >> low;
		unary[place / 8] |= (uint8_t)(1 << place % 8);
		place++;
		held |= (gap & (((uint64_t)1 << low) - 1)) << fill;
		for (fill += low; fill >= 8; fill -= 8, held >>= 8)
			*out++ = (uint8_t)held;
	}
	if (fill)
		*out = (uint8_t)held;
}

/* Returns up to eight bytes from position `at` on, of n bytes in total, followed by zeros. */
static uint64_t word_at(const uint8_t *in, uint64_t n, uint64_t at)
{
	uint8_t last[8] = { 0 };

	if (at + 8 <= n)
		return get_le64(in + at);
	if (at < n)
		memcpy(last, in + at, (size_t)(n - at));
	return get_le64(last);
}

int rice_decode(const uint8_t *in, uint64_t bytes, uint32_t count, uint32_t span, uint32_t *index,
		uint64_t *used, const char **why)
{
	uint64_t lows, mask, next = 0, from = 0, word_bit = 0;
	unsigned low;
	uint32_t n = 0;

	*used = 0;
	if (!count)
		return 0;
	low = rice_low_bits(count, span);
	mask = ((uint64_t)1 << low) - 1;
	lows = bytes_of_bits((uint64_t)count * low);
	if (bytes < lows)
		return refuse_bytes(why, "the payload is too short for its Rice codes");
	if ((uint64_t)count * low % 8 && in[lows - 1] >> (uint64_t)count * low % 8)
		return refuse_bytes(why, "spare bits of the Rice codes are not zero");
	/* from: the bit after the last 1 that was read. That 1 ends a unary code. */
	for (; n < count; word_bit += 64) {
		uint64_t word;

		if (word_bit / 8 >= bytes - lows)
			return refuse_bytes(why, "the payload ends within a Rice code");
		for (word = word_at(in + lows, bytes - lows, word_bit / 8); word && n < count;
		     word &= word - 1, n++) {
			uint64_t place = word_bit + (unsigned)__builtin_ctzll(word);
			uint64_t bit = (uint64_t)n * low;
			uint64_t high = place - from;

			if (high <= span >> low)
				next += high << low |
					(word_at(in, lows, bit / 8) >> bit % 8 & mask);
			if (high > span >> low || next >= span)
				return refuse_bytes(why,
						    "a Rice coded index lies beyond the shard");
			from = place + 1;
			index[n] = (uint32_t)next++;
		}
	}
	*used = lows + bytes_of_bits(from);
	if (from % 8 && in[*used - 1] >> from % 8)
		return refuse_bytes(why, "bits follow the last Rice code");
	return 0;
}
