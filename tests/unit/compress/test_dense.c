/* SPDX-License-Identifier: BSD-3-Clause
 * Uncompressed values that are copied into a message and out again in pieces, with the checksum
 * computed on the way; and a header read alone. */
#include "base/error.h"
#include "compress/message.h"
#include "dense_values.h"
#include "cases.h"
#include <math.h>
#include <string.h>

enum { ROOM = DENSE_PIECE + 8 };
static const uint32_t lengths[] = { 0, 1, 3, 4, 5, 255, DENSE_PIECE - 1, DENSE_PIECE };

TEST(put__every_length_and_place__same_bytes_and_checksum_and_none_beside)
{
	float value[ROOM];
	uint8_t room[sizeof(float) * (ROOM + 8)], expected[sizeof room];
	fill(value, ROOM, 1);
	for (size_t l = 0; l < COUNT_OF(lengths); l++)
		for (size_t place = 0; place < 4; place++)
			for (int past_caches = 0; past_caches < 2; past_caches++) {
				const size_t bytes = lengths[l] * sizeof *value,
					     at = place * sizeof *value;
				uint32_t crc = 17;
				memset(room, 0x5a, sizeof room);
				memset(expected, 0x5a, sizeof expected);
				memcpy(expected + at, value, bytes);
				dense_put(value, lengths[l], room + at, &crc, past_caches);
				dense_put_end();
				assert_memory_equal(room, expected, sizeof room);
				assert_int_equal(crc, crc32c(17, value, bytes));
			}
}

TEST(take__every_length__copies_and_continues_the_checksum)
{
	float from[ROOM], value[ROOM], expected[ROOM];
	fill(from, ROOM, 2);
	for (size_t l = 0; l < COUNT_OF(lengths); l++) {
		uint32_t crc = 5;
		memset(value, 0x5a, sizeof value);
		memset(expected, 0x5a, sizeof expected);
		memcpy(expected, from + 1, lengths[l] * sizeof *from);
		assert_int_equal(dense_take((uint8_t *)(from + 1), lengths[l], value, &crc), 0);
		assert_memory_equal(value, expected, sizeof value);
		assert_int_equal(crc, crc32c(5, from + 1, lengths[l] * sizeof *from));
	}
}

TEST(take__a_value_that_is_not_finite_anywhere__is_refused)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };
	float from[DENSE_PIECE], value[DENSE_PIECE];
	uint32_t crc = 0;
	for (size_t l = 1; l < COUNT_OF(lengths); l++)
		for (size_t b = 0; b < COUNT_OF(bad); b++)
			for (uint32_t at = 0; at < lengths[l]; at += at + 3 < lengths[l] ? 3 : 1) {
				fill(from, DENSE_PIECE, 3);
				from[at] = bad[b];
				assert_int_equal(
					dense_take((uint8_t *)from, lengths[l], value, &crc),
					SLUICE_EWIRE);
			}
}

TEST(scaled__every_length__is_the_product)
{
	float from[ROOM], value[ROOM];
	fill(from, ROOM, 4);
	for (size_t l = 0; l < COUNT_OF(lengths); l++) {
		memset(value, 0x5a, sizeof value);
		dense_scaled(from, -0.3f, lengths[l], value);
		for (uint32_t i = 0; i < lengths[l]; i++)
			assert_int_equal(float_bits(value[i]), float_bits(-0.3f * from[i]));
		assert_int_equal(float_bits(value[lengths[l]]), 0x5a5a5a5a);
	}
}

TEST(peek__a_header__is_what_a_copy_says_whatever_the_payload_is)
{
	static uint8_t bytes[4096], copy[4096];
	float value[100];
	struct message m = { .kind = MESSAGE_PUSH, .parts = 1, .span = 100, .lr = 0.5f, .rank = 3 },
		       seen, copied;
	const char *why = "";
	uint32_t crc = 0;
	fill(value, 100, 5);
	size_t n = message_encode(NULL, &m, NULL, value, value, bytes, sizeof bytes);
	assert_int_equal(message_copy(NULL, bytes, n, copy, sizeof copy, &copied, &why), 0);
	assert_int_equal(message_peek(bytes, n, &seen, &crc, &why), 0);
	assert_true(dense_plain(&seen) && seen.rank == 3 && seen.count == 100 &&
		    copied.count == 100);
	assert_int_equal(crc, crc32c(0, value, sizeof value));
	bytes[n - 1] ^= 1;
	assert_int_equal(message_peek(bytes, n, &seen, &crc, &why), 0);
	assert_int_equal(message_copy(NULL, bytes, n, copy, sizeof copy, &copied, &why),
			 SLUICE_EWIRE);
	assert_int_equal(message_peek(bytes, n - 1, &seen, &crc, &why),
			 SLUICE_EWIRE); /* the message does not fit */
	assert_int_equal(message_peek(bytes, MESSAGE_HEADER_BYTES - 1, &seen, &crc, &why),
			 SLUICE_EWIRE);
	bytes[12] ^= 1;
	assert_int_equal(message_peek(bytes, n, &seen, &crc, &why), SLUICE_EWIRE);
	assert_non_null(strstr(why, "header's checksum"));
}
