/* SPDX-License-Identifier: BSD-3-Clause
 * Values in few bits: compared with their definitions in double precision, and encoded and decoded
 * in messages. test_uniform.c tests the random numbers of uniform. */
#include "base/bytes.h"
#include "compress/bit_pack.h"
#include "compress/message.h"
#include "few_bits_values.h"
#include "sluice.h"
#include "cases.h"
#include <float.h>
#include <stdlib.h>

static uint8_t again[BYTES];

TEST(bits__every_width_and_length__come_back_and_take_no_more)
{
	struct random r = { 1 };
	uint8_t codes[80], back[88];

	for (unsigned bits = 1; bits <= 8; bits++)
		for (size_t n = 0; n <= 70; n++) {
			for (size_t i = 0; i < n; i++)
				codes[i] = (uint8_t)(random_bits(&r) >> (32 - bits));
			memset(again, 0xa5, 100);
			bits_pack(codes, n, bits, again);
			assert_int_equal(again[bits_bytes(n, bits)], 0xa5);
			assert_true(bits_unpack(again, n, bits, back));
			assert_memory_equal(codes, back, n);
			for (size_t i = 0; i < n; i++) { /* codes are stored from the least
							    significant bit on */
				unsigned code = 0;

				for (unsigned b = 0; b < bits; b++)
					code |= (unsigned)(again[(i * bits + b) / 8] >>
								   (i * bits + b) % 8 &
							   1)
						<< b;
				assert_int_equal(code, codes[i]);
			}
		}
}

TEST(grid__every_width__is_the_nearest_of_its_points)
{
	fill(7, 10);
	for (unsigned bits = 1; bits <= 8; bits++) {
		struct value_coding c = grid(bits);
		double range = (double)there_and_back(&c, N, 0), tau = 1.0 / ((1 << bits) - 1);

		assert_true(range == (double)largest_magnitude(v, N));
		for (int i = 0; i < N; i++) {
			double code = ((double)sent[i] + range) / (2 * tau * range);

			assert_true(fabs(code - round(code)) < 1e-4);
			assert_true(fabs((double)sent[i] - (double)v[i]) <= tau * range * 1.0001);
		}
	}
}

TEST(grid__range_given__is_used_where_it_is_larger)
{
	struct value_coding c = grid(4);

	fill(8, 0);
	assert_true(few_bits_fit(&c, v, N, 100) == 100);
	assert_true(few_bits_fit(&c, v, N, 1e-3f) == largest_magnitude(v, N));
}

TEST(round__any_width__is_the_nearest_multiple_in_the_fewest_bits)
{
	const float widths[] = { 0.5f, 1, 3, 1e-4f, 1e4f, 0.1f };

	fill(9, 4);
	for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++) {
		struct value_coding c = rounded(widths[w]);
		long largest = 0;

		there_and_back(&c, N, 0);
		for (int i = 0; i < N; i++) {
			long q = lrint((double)sent[i] / (double)widths[w]);
			long code = q < 0 ? -2 * q - 1 : 2 * q;

			assert_true(sent[i] == (float)q * widths[w]);
			assert_true(fabs((double)v[i] - (double)sent[i]) <=
				    0.5 * (double)widths[w] + 4e-7 * fabs((double)v[i]));
			largest = code > largest ? code : largest;
		}
		assert_int_equal(c.bits, bit_length((uint32_t)largest));
	}
}

TEST(few_bits__extremes__stay_finite)
{
	const float extremes[] = { 0, -0.0f, FLT_MAX, -FLT_MAX, FLT_MIN, -0x1p-149f, 1, 0x1p-130f };
	const struct value_coding codings[] = {
		uniform(1, 8), uniform(2, 8),    uniform(8, 8),      grid(1),
		grid(8),       rounded(FLT_MAX), rounded(0x1p-149f), rounded(3e38f)
	};

	for (size_t c = 0; c < sizeof(codings) / sizeof(codings[0]); c++)
		for (size_t n = 0; n <= 8; n++)
			for (size_t from = 0; from + n <= 8; from++) {
				struct value_coding coding = codings[c];

				memcpy(v, extremes + from, n * sizeof(*v));
				there_and_back(&coding, n, 1);
				for (size_t i = 0; i < n; i++)
					assert_true(isfinite(sent[i]));
			}
}

/* A sum that overflowed must be refused, not sent as a large number. */
TEST(few_bits__infinite_value__is_told_and_receiver_refuses)
{
	const struct value_coding codings[] = { uniform(1, 8), uniform(2, 8), uniform(8, 8) };
	const struct rounding rounding = { .stream = { RANDOM_ROUND, 3, 1, 0 } };

	for (size_t c = 0; c < sizeof(codings) / sizeof(codings[0]); c++)
		for (int sign = -1; sign <= 1; sign += 2) {
			const char *why = "";

			for (size_t i = 0; i < 24; i++)
				v[i] = i == 11 ? (float)sign * INFINITY : (float)i - 11;
			assert_int_equal(
				few_bits_encode(&codings[c], 1, v, 24, &rounding, bytes, sent), 11);
			assert_int_equal(few_bits_decode(&codings[c], 1, bytes, 24, got, &why),
					 SLUICE_EWIRE);
			assert_non_null(strstr(why, "not finite"));
		}
	for (size_t b = 0; b < 2; b++) {
		const float bad[] = { INFINITY, NAN };
		struct value_coding coding = grid(3);
		const char *why = "";

		v[11] = bad[b];
		float range = few_bits_fit(&coding, v, 24, 7); /* 7: the largest magnitude in the
								  vector before this shard */
		assert_int_equal(few_bits_encode(&coding, range, v, 24, &rounding, bytes, sent),
				 11);
		assert_false(few_bits_valid(&coding, range, &why));
		assert_non_null(strstr(why, "must be finite"));
	}
}

TEST(message__few_bits__sparse_and_dense_come_back)
{
	const struct value_coding codings[] = { uniform(1, 8), uniform(2, 512), uniform(5, 64),
						grid(3),       grid(8),         rounded(0.01f),
						rounded(100) };
	struct random r = { 11 };
	static uint32_t index[N], back[N];

	fill(10, 2);
	for (size_t c = 0; c < sizeof(codings) / sizeof(codings[0]); c++)
		for (unsigned share = 1; share <= 1024; share *= 2) {
			struct message m = { .kind = MESSAGE_DELTA,
					     .parts = 1,
					     .span = N,
					     .values = codings[c],
					     .stream = { RANDOM_ROUND, 0, 1, 0 } },
				       read;
			size_t bound, length;
			const char *why = "";

			for (uint32_t i = 0; i < N; i++)
				if (share == 1 || random_bits(&r) % share == 0)
					index[m.count++] = i;
			bound = message_bound(N, m.count, codings[c]);
			assert_true(bound <= sizeof(bytes));
			uint32_t n = m.count;
			memset(again, 0, sizeof(again));
			length = message_encode(&m, share == 1 ? NULL : index, v, sent, bytes,
						bound);
			assert_true(length <= bound && m.count == n);
			assert_int_equal(
				message_copy(bytes, length, again, sizeof(again), &read, &why), 0);
			if (message_decode(&read, again, back, got, &why))
				fail_msg("%u in %u: %s", n, N, why);
			assert_memory_equal(got, sent, n * sizeof(*got));
			if (read.coding != CODING_DENSE)
				assert_memory_equal(back, index, n * sizeof(*back));
			for (uint32_t k = 1; k <= N; k += 97)
				assert_true(message_bound(N, k, codings[c]) >=
					    message_bound(N, k - 1, codings[c]));
		}
}
