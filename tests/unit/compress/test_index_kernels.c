/* SPDX-License-Identifier: BSD-3-Clause
 * The versions of the hot loops over positions: each does what loops over single bits do, for
 * every width and all input bytes, and accesses no memory outside its buffers. */
#include "base/bytes.h"
#include "compress/index_kernels.h"
#include "random.h"
#include "cases.h"
#include <string.h>

enum { ROUNDS = 200, BYTES_MAX = 16 * INDEX_WIDTH_MAX, GUARD = 0x5a };

static void each_version(void (*check)(const struct index_kernels *))
{
	for (size_t v = 0; index_versions[v]; v++)
		if (index_versions[v]->usable())
			check(index_versions[v]);
}

/* ---- loops over single bits ---- */

static void plain_pack_gaps(const uint32_t *gap, unsigned width, uint8_t *out)
{
	memset(out, 0, 16 * width);
	for (unsigned i = 0; i < INDEX_BLOCK * width; i++)
		out[i / 8] |= (uint8_t)((gap[i / width] >> i % width & 1) << i % 8);
}

static uint32_t plain_unpack_gaps(const uint8_t *in, unsigned width, uint64_t *next,
				  uint32_t *index)
{
	uint32_t gap[INDEX_BLOCK] = { 0 }, all = 0;

	for (unsigned i = 0; i < INDEX_BLOCK * width; i++)
		gap[i / width] |= (uint32_t)(in[i / 8] >> i % 8 & 1) << i % width;
	for (unsigned i = 0; i < INDEX_BLOCK; i++) {
		all |= gap[i];
		index[i] = (uint32_t)(*next + gap[i]);
		*next += (uint64_t)gap[i] + 1;
	}
	return all;
}

static size_t plain_ones(const uint8_t *in, size_t n, uint32_t room, uint32_t *index,
			 uint32_t *found)
{
	size_t at = 0;

	for (; at + 8 <= n && room - *found >= 64; at += 8)
		for (size_t bit = 8 * at; bit < 8 * at + 64; bit++)
			if (in[bit / 8] >> bit % 8 & 1)
				index[(*found)++] = (uint32_t)bit;
	return at;
}

/* ---- the versions ---- */

static uint32_t gap_of(struct random *r, unsigned width)
{
	return width ? random_bits(r) >> (32 - width) : 0;
}

static void check_pack(const struct index_kernels *k)
{
	struct random r = { 11 };

	for (unsigned width = 0; width <= INDEX_WIDTH_MAX; width++)
		for (int round = 0; round < ROUNDS; round++) {
			uint8_t expected[BYTES_MAX + INDEX_SLACK + 8],
				got[BYTES_MAX + INDEX_SLACK + 8];
			uint32_t gap[INDEX_BLOCK];

			for (int i = 0; i < INDEX_BLOCK; i++)
				gap[i] = gap_of(&r, width);
			memset(got, GUARD, sizeof(got));
			plain_pack_gaps(gap, width, expected);
			k->pack(gap, width, got);
			if (memcmp(got, expected, 16 * width) != 0)
				fail_msg("%s, width %u", k->name, width);
			for (size_t i = 16 * width + INDEX_SLACK; i < sizeof(got); i++)
				assert_int_equal(got[i], GUARD);
		}
}

static void check_unpack(const struct index_kernels *k)
{
	struct random r = { 12 };

	for (unsigned width = 0; width <= INDEX_WIDTH_MAX; width++)
		for (int round = 0; round < ROUNDS; round++) {
			uint32_t expected[INDEX_BLOCK], got[INDEX_BLOCK + 1], all;
			uint8_t in[BYTES_MAX + INDEX_SLACK];
			/* in some rounds the sum exceeds 2^32 */
			uint64_t next = round % 4 ? random_bits(&r) >> round % 30 : UINT32_MAX;
			uint64_t expected_next = next, got_next = next;

			for (size_t i = 0; i < sizeof(in); i++)
				in[i] = round ? (uint8_t)random_bits(&r) : 0xff;
			got[INDEX_BLOCK] = 0x5a5a5a5a;
			all = plain_unpack_gaps(in, width, &expected_next, expected);
			assert_int_equal(k->unpack(in, width, &got_next, got), all);
			if (got_next != expected_next ||
			    memcmp(got, expected, sizeof(expected)) != 0)
				fail_msg("%s, width %u from %llu: %llu instead of %llu", k->name,
					 width, (unsigned long long)next,
					 (unsigned long long)got_next,
					 (unsigned long long)expected_next);
			assert_int_equal(got[INDEX_BLOCK], 0x5a5a5a5a);
		}
}

static void check_gaps(const struct index_kernels *k)
{
	struct random r = { 13 };

	for (unsigned width = 0; width <= 25; width++)
		for (int round = 0; round < ROUNDS; round++) {
			uint32_t index[INDEX_BLOCK], gap[INDEX_BLOCK], wanted[INDEX_BLOCK], all = 0;
			uint32_t next = random_bits(&r) >> 4, at = next;

			for (int i = 0; i < INDEX_BLOCK; i++) {
				wanted[i] = gap_of(&r, width) >> (round % 3);
				all |= wanted[i];
				index[i] = at + wanted[i];
				at = index[i] + 1;
			}
			assert_int_equal(k->largest(index, next), all);
			assert_int_equal(k->gaps(index, next, gap), all);
			assert_memory_equal(gap, wanted, sizeof(wanted));
		}
}

static void check_there_and_back(const struct index_kernels *k)
{
	struct random r = { 14 };

	for (unsigned width = 0; width <= 24; width++) {
		uint32_t index[INDEX_BLOCK], gap[INDEX_BLOCK], got[INDEX_BLOCK];
		uint8_t bytes[BYTES_MAX + INDEX_SLACK] = { 0 };
		uint64_t next = 1000;

		for (uint32_t i = 0, at = 1000; i < INDEX_BLOCK; i++) {
			index[i] = at + gap_of(&r, width);
			at = index[i] + 1;
		}
		k->gaps(index, 1000, gap);
		k->pack(gap, width, bytes);
		k->unpack(bytes, width, &next, got);
		assert_memory_equal(got, index, sizeof(index));
		assert_int_equal(next, (uint64_t)index[INDEX_BLOCK - 1] + 1);
		memset(bytes + 16 * width, 0xff, INDEX_SLACK);
		k->codes(bytes, width, got);
		assert_memory_equal(got, gap, sizeof(gap));
	}
}

static void check_ascends(const struct index_kernels *k)
{
	struct random r = { 15 };
	uint32_t index[70] = { 0 };

	for (size_t n = 0; n <= 70; n++) {
		for (size_t i = 0; i < n; i++)
			index[i] = (uint32_t)i * 0x03800000 +
				   random_bits(&r) % 0x03800000; /* also exceeds 2^31 */
		assert_true(k->ascends(index, n));
		for (size_t i = 1; i < n; i++) {
			uint32_t was = index[i];

			index[i] = index[i - 1];
			assert_false(k->ascends(index, n));
			index[i] = index[i - 1] ? index[i - 1] - 1 : 0;
			assert_false(k->ascends(index, n));
			index[i] = was;
		}
	}
}

static void check_ones(const struct index_kernels *k)
{
	enum { MOST = 64 };
	struct random r = { 16 };

	for (int round = 0; round < 40 * ROUNDS; round++) {
		static uint32_t expected[8 * MOST + 1], got[8 * MOST + 1];
		size_t n = random_bits(&r) % (MOST + 1), read;
		uint32_t room = random_bits(&r) % (8 * MOST + 1),
			 found = room ? random_bits(&r) % room : 0;
		uint32_t wanted_found = found, before = found, dense = random_bits(&r) % 3;
		uint8_t in[MOST];

		for (size_t i = 0; i < n; i++)
			in[i] = (uint8_t)(dense == 0 ? 0xffu :
					  dense == 1 ? random_bits(&r) :
						       1u << random_bits(&r) % 32);
		memset(got, GUARD, sizeof(got));
		read = plain_ones(in, n, room, expected, &wanted_found);
		assert_int_equal(k->ones(in, n, room, got, &found), read);
		assert_int_equal(found, wanted_found);
		assert_memory_equal(got + before, expected + before,
				    (found - before) * sizeof(*got));
		assert_true(found <= room && read <= n);
		for (size_t i = room; i < sizeof(got) / sizeof(*got); i++)
			assert_int_equal(got[i], 0x01010101u * GUARD);
		for (size_t i = before; i < found; i++)
			assert_true(got[i] < 8 * read && in[got[i] / 8] >> got[i] % 8 & 1);
	}
}

TEST(ascends__one_pair_not_in_order__is_seen)
{
	each_version(check_ascends);
}

TEST(ones__any_bytes_and_room__are_listed_within_it)
{
	each_version(check_ones);
}

TEST(pack__every_version_and_width__writes_what_the_plain_loop_does)
{
	each_version(check_pack);
}

TEST(unpack__any_bytes__reads_bit_by_bit_without_wrapping)
{
	each_version(check_unpack);
}

TEST(gaps__every_version__are_the_differences)
{
	each_version(check_gaps);
}

TEST(pack_unpack__there_and_back__same_indices)
{
	each_version(check_there_and_back);
}
