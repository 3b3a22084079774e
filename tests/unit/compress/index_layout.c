/* SPDX-License-Identifier: BSD-3-Clause
 * See index_layout.h. */
#include "index_layout.h"
#include "base/bytes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

const enum index_coding codings[CODINGS] = { CODING_DENSE,  CODING_RAW,  CODING_DELTA,
					     CODING_BITMAP, CODING_RICE, CODING_RUN };

uint64_t up_to_4(uint64_t bytes)
{
	return (bytes + 3) / 4 * 4;
}

static unsigned slow_width(const uint32_t *index, uint32_t count, uint32_t block)
{
	unsigned width = 0;

	for (uint64_t i = (uint64_t)block * 128; i < count && i < (uint64_t)block * 128 + 128;
	     i++) {
		uint64_t gap = i ? index[i] - index[i - 1] - 1 : index[0];

		while (gap >> width)
			width++;
	}
	return width;
}

static unsigned slow_low_bits(uint32_t count, uint32_t span)
{
	unsigned low = 0;

	while (((uint64_t)count << (low + 1)) <= (uint64_t)span * 45426 / 65536)
		low++;
	return low;
}

static uint64_t slow_rice_bytes(const uint32_t *index, uint32_t count, uint32_t span)
{
	uint64_t low = count ? slow_low_bits(count, span) : 0, unary = 0;

	for (uint32_t i = 0; i < count; i++)
		unary += ((i ? index[i] - index[i - 1] - 1 : index[0]) >> low) + 1;
	return up_to_4((count * low + 7) / 8 + (unary + 7) / 8);
}

uint64_t slow_bytes(enum index_coding coding, const uint32_t *index, uint32_t count, uint32_t span)
{
	uint32_t blocks = (count + 127) / 128;
	uint64_t bytes = up_to_4(blocks);

	if (coding == CODING_DENSE)
		return 0;
	if (coding == CODING_RAW)
		return 4 * (uint64_t)count;
	if (coding == CODING_BITMAP)
		return up_to_4(((uint64_t)span + 7) / 8);
	if (coding == CODING_RICE)
		return slow_rice_bytes(index, count, span);
	if (coding == CODING_RUN)
		return count && index[count - 1] - index[0] + 1 == count ? 4 : UINT32_MAX;
	for (uint32_t b = 0; b < blocks; b++) {
		uint32_t n = count - b * 128 < 128 ? count - b * 128 : 128;

		bytes += (n * slow_width(index, count, b) + 7) / 8;
	}
	return up_to_4(bytes);
}

static unsigned bit_of(const uint8_t *bytes, uint64_t i)
{
	return bytes[i / 8] >> i % 8 & 1;
}

static void expect_rice(const uint8_t *in, const uint32_t *index, uint32_t count, uint32_t span)
{
	uint64_t low = count ? slow_low_bits(count, span) : 0, at = 0, end;
	uint64_t unary = (count * low + 7) / 8 * 8;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t gap = i ? index[i] - index[i - 1] - 1 : index[0], high = 0, lows = 0;

		for (; !bit_of(in, unary); unary++)
			high++;
		unary++;
		for (uint64_t bit = 0; bit < low; bit++)
			lows |= (uint64_t)bit_of(in, at++) << bit;
		assert_int_equal(high << low | lows, gap);
	}
	for (; at % 8; at++)
		assert_int_equal(bit_of(in, at), 0);
	end = slow_rice_bytes(index, count, span) * 8;
	for (; unary < end; unary++)
		assert_int_equal(bit_of(in, unary), 0);
}

void expect_layout(enum index_coding coding, const uint8_t *in, const uint32_t *index,
		   uint32_t count, uint32_t span)
{
	uint32_t blocks = (count + 127) / 128;
	uint64_t at = up_to_4(blocks) * 8, place = 0;

	if (coding == CODING_RAW)
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(get_le32(in + 4 * (size_t)i), index[i]);
	if (coding == CODING_BITMAP)
		for (uint64_t i = 0; i < up_to_4(((uint64_t)span + 7) / 8) * 8; i++) {
			unsigned expected = place < count && index[place] == i;

			assert_int_equal(bit_of(in, i), expected);
			place += expected;
		}
	if (coding == CODING_RUN)
		assert_int_equal(get_le32(in), index[0]);
	if (coding == CODING_RICE)
		expect_rice(in, index, count, span);
	if (coding != CODING_DELTA)
		return;
	for (uint32_t b = 0; b < blocks; b++) {
		unsigned width = slow_width(index, count, b);

		assert_int_equal(in[b], width);
		for (uint64_t i = (uint64_t)b * 128; i < count && i < (uint64_t)b * 128 + 128;
		     i++) {
			uint64_t gap = 0;

			for (unsigned bit = 0; bit < width; bit++)
				gap |= (uint64_t)bit_of(in, at++) << bit;
			assert_int_equal(gap, i ? index[i] - index[i - 1] - 1 : index[0]);
		}
		at = (at + 7) / 8 * 8;
	}
	for (; at < slow_bytes(coding, index, count, span) * 8; at++)
		assert_int_equal(bit_of(in, at), 0);
}
