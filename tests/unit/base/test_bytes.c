/* SPDX-License-Identifier: BSD-3-Clause
 * CRC32C against published vectors and between its two versions; the digest; little-endian
 * fields. */
#include "base/bytes.h"
#include "sluice.h"
#include "cases.h"

#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 0x243F6A8885A308D3u;

static uint64_t random_u64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void fill_random(uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)(random_u64() >> 24);
}

typedef uint32_t (*crc_fn)(uint32_t, const void *, size_t);
static const crc_fn crc_versions[] = { crc32c, crc32c_portable };

TEST(crc32c__published_vectors_match)
{
	uint8_t zeros[32] = { 0 }, ones[32], up[32], down[32];

	memset(ones, 0xff, sizeof(ones));
	for (unsigned i = 0; i < 32; i++) {
		up[i] = (uint8_t)i;
		down[i] = (uint8_t)(31 - i);
	}
	for (size_t v = 0; v < 2; v++) {
		assert_int_equal(crc_versions[v](0, "123456789", 9), 0xE3069283u);
		assert_int_equal(crc_versions[v](0, zeros, 32), 0x8A9136AAu);
		assert_int_equal(crc_versions[v](0, ones, 32), 0x62A8AB43u);
		assert_int_equal(crc_versions[v](0, up, 32), 0x46DD794Eu);
		assert_int_equal(crc_versions[v](0, down, 32), 0x113FDB5Cu);
		assert_int_equal(crc_versions[v](0, "", 0), 0);
	}
}

TEST(crc32c__versions_agree_on_lengths_and_alignments)
{
	enum { LONG = 8192 }; /* long enough for several rounds of the widest loop in any version */
	static uint8_t bytes[LONG + 16];

	fill_random(bytes, sizeof(bytes));
	for (int round = 0; round < 5000; round++) {
		size_t offset = random_u64() % 16;
		size_t n = random_u64() % (round % 4 ? 1024 : LONG);
		uint32_t seed = (uint32_t)random_u64();

		fill_random(bytes + offset, n % 64);
		assert_int_equal(crc32c(seed, bytes + offset, n),
				 crc32c_portable(seed, bytes + offset, n));
	}
}

TEST(crc32c__pieces_give_the_crc_of_the_whole)
{
	uint8_t bytes[300];

	fill_random(bytes, sizeof(bytes));
	for (size_t cut = 0; cut <= sizeof(bytes); cut++) {
		for (size_t v = 0; v < 2; v++) {
			uint32_t head = crc_versions[v](0, bytes, cut);

			assert_int_equal(crc_versions[v](head, bytes + cut, sizeof(bytes) - cut),
					 crc_versions[v](0, bytes, sizeof(bytes)));
		}
	}
}

TEST(crc32c__the_crcs_of_parts_give_the_crc_of_the_whole)
{
	enum { LONG = 70000 };
	uint8_t *bytes = malloc(LONG);

	assert_non_null(bytes);
	fill_random(bytes, LONG);
	for (size_t n = 0; n <= LONG; n = n * 3 + 1)
		for (size_t cut = 0; cut <= n; cut += 1 + n / 7) {
			const size_t half = cut / 2;
			const struct crc_part part[] = {
				{ crc32c(5, bytes, half), half },
				{ crc32c(0, bytes + half, cut - half), cut - half },
				{ crc32c(0, bytes + cut, n - cut), n - cut },
			};

			assert_int_equal(crc32c_of_parts(part, 3), crc32c(5, bytes, n));
			assert_int_equal(crc32c_of_parts(part, 1), part[0].crc);
		}
	free(bytes);
}

TEST(digest64__any_flipped_bit_changes_it)
{
	uint8_t bytes[200];

	for (size_t n = 1; n <= sizeof(bytes); n += 1 + n / 8) {
		fill_random(bytes, n);
		uint64_t before = digest64(bytes, n);

		for (size_t bit = 0; bit < 8 * n; bit++) {
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			assert_true(digest64(bytes, n) != before);
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		assert_true(digest64(bytes, n) == before);
	}
}

TEST(digest64__flipped_bit_changes_about_half_of_it)
{
	uint8_t bytes[96];
	long changed = 0, flips = 0;

	fill_random(bytes, sizeof(bytes));
	uint64_t before = digest64(bytes, sizeof(bytes));

	for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++, flips++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		changed += __builtin_popcountll(digest64(bytes, sizeof(bytes)) ^ before);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_in_range(changed, flips * 31, flips * 33);
}

TEST(digest64__alignment_does_not_matter)
{
	uint8_t room[256 + 16], bytes[256];

	fill_random(bytes, sizeof(bytes));
	for (size_t n = 0; n <= sizeof(bytes); n += 7) {
		for (size_t offset = 0; offset < 16; offset++) {
			memcpy(room + offset, bytes, n);
			assert_true(digest64(room + offset, n) == digest64(bytes, n));
		}
	}
}

TEST(digest64__zeros_of_different_lengths_differ)
{
	uint8_t zeros[300] = { 0 };
	uint64_t seen[300];

	for (size_t n = 0; n < 300; n++) {
		seen[n] = digest64(zeros, n);
		for (size_t m = 0; m < n; m++)
			assert_true(seen[m] != seen[n]);
	}
}

TEST(digest64__swapped_words_and_lanes_differ)
{
	uint8_t bytes[128], swapped[128];

	fill_random(bytes, sizeof(bytes));
	for (size_t a = 0; a < 16; a++) {
		for (size_t b = 0; b < a; b++) {
			memcpy(swapped, bytes, sizeof(bytes));
			memcpy(swapped + 8 * a, bytes + 8 * b, 8);
			memcpy(swapped + 8 * b, bytes + 8 * a, 8);
			assert_true(digest64(swapped, 128) != digest64(bytes, 128));
		}
	}
}

/* The digest is compared between machines and kept in logs, so its definition must not change. */
TEST(digest64__known_values_stay)
{
	uint8_t bytes[100];

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 37 + 11);
	assert_true(digest64("", 0) == 0x790CC05C75A2D93Fu);
	assert_true(digest64("sluice", 6) == 0x431052543253855Du);
	assert_true(digest64(bytes, 100) == 0xB45643CE01A412BFu);
	assert_true(sluice_digest(bytes, 100) == 0xB45643CE01A412BFu);
}

TEST(le_fields__round_trip_and_byte_order)
{
	uint8_t p[8];

	put_le64(p, 0x0102030405060708u);
	assert_int_equal(p[0], 8);
	assert_int_equal(p[7], 1);
	assert_true(get_le64(p) == 0x0102030405060708u);
	assert_int_equal(get_le32(p), 0x05060708u);
	assert_int_equal(get_le16(p), 0x0708u);
	put_le32(p, 0xfffefdfcu);
	assert_int_equal(get_le32(p), 0xfffefdfcu);
	put_le16(p, 0xfffeu);
	assert_int_equal(get_le16(p), 0xfffeu);
	assert_int_equal(float_bits(bits_float(0x80000001u)), 0x80000001u);
}
