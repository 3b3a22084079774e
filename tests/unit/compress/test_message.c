/* SPDX-License-Identifier: BSD-3-Clause
 * Messages: positions of the header's fields, bounds, the choice of coding, and copies of memory
 * that a peer still writes. Round trips: test_message_round_trip.c; indices:
 * test_index_coding.c. */
#include "base/bytes.h"
#include "message_example.h"
#include "sluice.h"
#include "cases.h"
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(header__fields_are_at_their_offsets)
{
	const float value[] = { 1.5f, -40 };
	const uint32_t index[] = { 2, 70000 };
	struct message m = example(100000, 2, VALUE_F16);
	float decoded[2];
	uint8_t h[256];
	size_t length;

	m.kind = MESSAGE_DELTA;
	m.divisor = 8;
	length = message_encode(NULL, &m, index, value, decoded, h, sizeof(h));
	assert_memory_equal(h, "SLC1", 4);
	assert_int_equal(get_le16(h + 4), SLUICE_WIRE_VERSION);
	assert_int_equal(h[6], 2);
	assert_int_equal(h[7], 1); /* raw: the message has two indices, and delta would need 17
				      bits for each and a width */
	assert_int_equal(h[8], 1);
	assert_int_equal(h[9], 0x81);
	assert_int_equal(get_le16(h + 10), 2);
	assert_int_equal(get_le32(h + 12), 7);
	assert_int_equal(get_le32(h + 16), 4);
	assert_int_equal(get_le32(h + 20), 11);
	assert_int_equal(get_le64(h + 24), (uint64_t)5 << 40);
	assert_int_equal(get_le64(h + 32), (uint64_t)6 << 40);
	assert_int_equal(get_le64(h + 40), 12);
	assert_int_equal(get_le32(h + 48), 100000);
	assert_int_equal(get_le32(h + 52), 2);
	assert_int_equal(get_le32(h + 56), 8);
	assert_true(bits_float(get_le32(h + 60)) == 512); /* 40 * 512 = 20480, in [2^14, 2^15) */
	assert_true(bits_float(get_le32(h + 64)) == 0.05f);
	assert_int_equal(get_le16(h + 68), 1);
	assert_int_equal(get_le16(h + 70), 3);
	assert_int_equal(get_le32(h + 72), 1);
	assert_int_equal(get_le32(h + 76), length - 96);
	assert_int_equal(get_le32(h + 80), crc32c(0, h + 96, length - 96));
	assert_int_equal(get_le32(h + 84), 9);
	assert_int_equal(get_le32(h + 88), 3); /* the sender's choice; no bits and no block */
	assert_int_equal(get_le32(h + 92), crc32c(0, h, 92));
}

TEST(bound__grows_with_count_and_holds_a_header)
{
	for (uint32_t span = 0; span < 200; span++)
		for (enum value_type type = VALUE_F32; type <= VALUE_BF16; type++) {
			assert_true(message_bound(span, 0, plain(type)) >= MESSAGE_HEADER_BYTES);
			for (uint32_t count = 1; count <= span; count++)
				assert_true(message_bound(span, count, plain(type)) >=
					    message_bound(span, count - 1, plain(type)));
			assert_int_equal(message_bound(span, span + 5, plain(type)),
					 message_bound(span, span, plain(type)));
		}
	assert_int_equal(message_bound(UINT32_MAX, UINT32_MAX, plain(VALUE_F32)),
			 96 + ((size_t)4 << 32));
}

TEST(canonical__all_values_with_or_without_index_give_equal_bytes)
{
	const uint32_t index[] = { 0, 1, 2, 3, 4 };
	const float value[] = { 1, 2, 3, 4, 5 };
	uint8_t with[256], without[256];

	for (uint32_t span = 0; span <= 5; span++) {
		struct message a = example(span, span, VALUE_F16), b = example(span, 0, VALUE_F16);
		float decoded[5];
		size_t length = message_encode(NULL, &a, index, value, decoded, with, sizeof(with));

		assert_int_equal(
			message_encode(NULL, &b, NULL, value, decoded, without, sizeof(without)),
			length);
		assert_memory_equal(with, without, length);
	}
}

TEST(choice__of_equal_lengths_raw_before_bitmap_before_delta_before_dense)
{
	const struct {
		uint32_t span, count, index[3];
		enum index_coding best;
	} equal[] = {
		{ 1000, 0, { 0 }, CODING_RAW },        /* raw and delta need no bytes */
		{ 32, 1, { 31 }, CODING_RAW },         /* raw and bitmap need 4 bytes */
		{ 64, 2, { 30, 61 }, CODING_RAW },     /* raw, bitmap and delta need 8 bytes */
		{ 64, 3, { 5, 6, 9 }, CODING_BITMAP }, /* bitmap and delta need 8 bytes */
		{ 64, 3, { 5, 6, 7 }, CODING_RUN },    /* 4 bytes */
		{ 4, 3, { 0, 1, 3 }, CODING_BITMAP },  /* bitmap and dense need 16 bytes, values
							  included */
	};
	const float value[3] = { 1, 2, 3 };
	uint8_t out[256];

	for (size_t i = 0; i < COUNT_OF(equal); i++) {
		struct message m = example(equal[i].span, equal[i].count, VALUE_F32);
		float decoded[3];

		message_encode(NULL, &m, equal[i].index, value, decoded, out, sizeof(out));
		assert_int_equal(m.coding, equal[i].best);
	}
}

TEST(decoded__may_alias_value)
{
	const uint32_t few[] = { 3, 900 }, most[] = { 0, 2 };
	uint8_t out[256];

	for (enum value_type type = VALUE_F32; type <= VALUE_BF16; type++) {
		float value[] = { 0.1f, -70.3f }, decoded[2], in_place[2];
		struct message sparse = example(1000, 2, type), dense = example(3, 2, type);

		memcpy(in_place, value, sizeof(value));
		message_encode(NULL, &sparse, few, value, decoded, out, sizeof(out));
		message_encode(NULL, &sparse, few, in_place, in_place, out, sizeof(out));
		assert_memory_equal(in_place, decoded, sizeof(decoded));
		memcpy(in_place, value, sizeof(value));
		message_encode(NULL, &dense, most, in_place, in_place, out, sizeof(out));
		assert_memory_equal(in_place, decoded, sizeof(decoded));
	}
}

/* No coding may silently turn such a value into a large number. */
TEST(encode__value_that_is_not_finite__makes_no_message_and_says_which)
{
	enum { SPAN = 9000, BOUND = 96 + 4 * SPAN + 8 };
	static const struct value_coding codings[] = {
		{ VALUE_F32, 0, 0, 0 },     { VALUE_F16, 0, 0, 0 },       { VALUE_BF16, 0, 0, 0 },
		{ VALUE_UNIFORM, 1, 8, 0 }, { VALUE_UNIFORM, 4, 512, 0 }, { VALUE_GRID, 3, 0, 0 },
		{ VALUE_ROUND, 0, 0, 0.5f }
	};
	static const float bad[] = { INFINITY, -INFINITY, NAN };
	static const uint32_t places[] = { 0, 700, 4999 };
	static float value[SPAN], decoded[SPAN];
	static uint32_t index[SPAN];
	static uint8_t out[BOUND];

	for (size_t c = 0; c < COUNT_OF(codings); c++)
		for (size_t b = 0; b < COUNT_OF(bad) * COUNT_OF(places); b++)
			for (int aliased = 0; aliased < 2; aliased++)
				/* All coordinates; then enough of them for dense to be shorter. */
				for (uint32_t span = 5000; span <= SPAN; span += 4000) {
					struct message m = example(span, 5000, codings[c].type);

					m.values = codings[c];
					for (uint32_t i = 0; i < 5000; i++) {
						index[i] = i + (i > 2000) * (span - 5000);
						value[i] = (float)i - 2500;
					}
					assert_true(message_encode(NULL, &m, index, value, decoded,
								   out, BOUND) > 0);
					m = example(span, 5000, codings[c].type);
					m.values = codings[c];
					value[places[b / COUNT_OF(bad)]] = bad[b % COUNT_OF(bad)];
					assert_int_equal(
						message_encode(NULL, &m, span > 5000 ? index : NULL,
							       value, aliased ? value : decoded,
							       out, BOUND),
						0);
					assert_int_equal(m.bad, places[b / COUNT_OF(bad)]);
				}
}

/* A peer rewrites its slot all the time. An accepted message must be one of those that it wrote. */
TEST(copy__slot_changing_meanwhile_gives_one_whole_message_or_none)
{
	enum { SPAN = 9000, BOUND = 96 + 4 * SPAN + 8, TRIES = 3000 };
	uint8_t *slot = mmap(NULL, BOUND, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			     0);
	uint8_t *first = get_memory(BOUND), *second = get_memory(BOUND), *copy = get_memory(BOUND);
	float *value = get_memory(4 * SPAN), *decoded = get_memory(4 * SPAN);
	struct message m = example(SPAN, SPAN, VALUE_F32);
	size_t length;
	pid_t peer;

	assert_true(slot != MAP_FAILED);
	for (int i = 0; i < SPAN; i++)
		value[i] = (float)i;
	length = message_encode(NULL, &m, NULL, value, decoded, first, BOUND);
	for (int i = 0; i < SPAN; i++)
		value[i] = (float)-i;
	assert_int_equal(message_encode(NULL, &m, NULL, value, decoded, second, BOUND), length);
	memcpy(slot, first, length);
	peer = fork();
	assert_true(peer >= 0);
	if (peer == 0)
		alarm(60); /* ends the peer if the test fails before it kills the peer */
	while (peer == 0) {
		memcpy(slot, second, length);
		memcpy(slot, first, length);
	}
	for (int i = 0; i < TRIES; i++) {
		const char *why;

		if (message_copy(NULL, slot, BOUND, copy, BOUND, &m, &why))
			continue;
		assert_int_equal(message_decode(NULL, &m, copy, NULL, decoded, &why), 0);
		assert_true(!memcmp(copy, first, length) || !memcmp(copy, second, length));
	}
	kill(peer, SIGKILL);
	waitpid(peer, NULL, 0);
	munmap(slot, BOUND);
	free(first);
	free(second);
	free(copy);
	free(value);
	free(decoded);
}
