/* SPDX-License-Identifier: BSD-3-Clause
 * Messages that several threads encode, check and decode: the bytes and values are those of one
 * thread, and so is what is refused. */
#include "compress/message.h"
#include "compress/index_coding.h"
#include "base/bytes.h"
#include "base/team.h"
#include "cases.h"
#include "random.h"
#include "sluice.h"
#include "thinned.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPAN = 4 * TEAM_LEAST + 1237, SPARSE = 3 * TEAM_LEAST + 501, THREADS = 4 };

struct kind {
	struct value_coding values;
	int sparse;
};

struct room {
	float values[SPAN], decoded[SPAN], got[SPAN];
	uint32_t index[SPAN], got_index[SPAN];
	uint8_t bytes[MESSAGE_HEADER_BYTES + 9 * SPAN], copy[MESSAGE_HEADER_BYTES + 9 * SPAN];
};

static struct room *alone, *shared;
static struct team *teams[THREADS + 1]; /* [n] has n threads; [1] is NULL */

static int open_all(void **state)
{
	(void)state;
	alone = calloc(1, sizeof(*alone));
	shared = calloc(1, sizeof(*shared));
	for (unsigned n = 2; n <= THREADS; n++)
		if (team_open(n, 16, &teams[n]))
			return -1;
	return alone && shared ? 0 : -1;
}

static int close_all(void **state)
{
	(void)state;
	for (unsigned n = 2; n <= THREADS; n++)
		team_close(&teams[n]);
	free(alone);
	free(shared);
	return 0;
}

static void fill_room(struct room *r)
{
	struct random random = { 7 };

	for (uint32_t i = 0; i < SPAN; i++)
		r->values[i] = ldexpf(random_normal(&random), (int)(random_bits(&random) % 12));
	for (uint32_t i = 0, at = 0; i < SPARSE; i++, at++) {
		/* at most two coordinates for each value that is sent, and some runs */
		at += (SPAN - at > SPARSE - i) & (uint32_t)random_bits(&random);
		r->index[i] = at;
	}
}

static size_t encode(struct team *team, const struct kind *kind, struct room *r, struct message *m)
{
	*m = (struct message){ .kind = MESSAGE_PUSH,
			       .parts = 1,
			       .seq = 1,
			       .step = 1,
			       .span = SPAN,
			       .count = kind->sparse ? SPARSE : SPAN,
			       .first = (1ull << 32) - SPAN / 2, /* crosses 2^32 */
			       .stream = { RANDOM_ROUND, 3, 1, 0 },
			       .values = kind->values };
	/* Decoded in place, as by a compressor. */
	memcpy(r->decoded, r->values, sizeof(r->decoded));
	return message_encode(team, m, kind->sparse ? r->index : NULL, r->decoded, r->decoded,
			      r->bytes, sizeof(r->bytes));
}

static int decode(struct team *team, struct room *r, size_t length, const char **why)
{
	struct message m;

	/* A message that was READ is checked where it is. */
	memcpy(r->copy, r->bytes, length);
	return message_copy(team, r->copy, length, r->copy, sizeof(r->copy), &m, why) ||
	       message_copy(team, r->bytes, length, r->copy, sizeof(r->copy), &m, why) ||
	       message_decode(team, &m, r->copy, r->got_index, r->got, why);
}

static const struct kind kinds[] = {
	{ { VALUE_F32, 0, 0, 0 }, 0 },
	{ { VALUE_F32, 0, 0, 0 }, 1 },
	{ { VALUE_F16, 0, 0, 0 }, 0 },
	{ { VALUE_BF16, 0, 0, 0 }, 1 },
	{ { VALUE_UNIFORM, 1, 8, 0 }, 0 },
	{ { VALUE_UNIFORM, 4, 512, 0 }, 0 },
	{ { VALUE_UNIFORM, 3, UNIFORM_BLOCK_MAX / 8 * 8, 0 }, 0 },
	{ { VALUE_UNIFORM, 5, 24, 0 }, 1 },
	{ { VALUE_TWOMEANS, 2, UNIFORM_BLOCK, 0 }, 0 },
	{ { VALUE_E3M0, 4, UNIFORM_BLOCK, 0 }, 1 },
	{ { VALUE_GRID, 5, 0, 0 }, 0 },
	{ { VALUE_ROUND, 0, 0, 0.25f }, 1 },
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

TEST(messages__2_to_4_threads__the_bytes_and_values_of_one)
{
	for (size_t k = 0; k < KINDS; k++) {
		if (thinned(k, 3))
			continue;
		const uint32_t n = kinds[k].sparse ? SPARSE : SPAN;
		const char *why = "";
		struct message m, same;

		fill_room(alone);
		fill_room(shared);
		const size_t length = encode(NULL, &kinds[k], alone, &m);

		assert_true(length > 0);
		assert_int_equal(decode(NULL, alone, length, &why), 0);
		assert_memory_equal(alone->got, alone->decoded, n * sizeof(float));
		for (unsigned t = 2; t <= THREADS; t++) {
			memset(shared->bytes, 0x5a, length);
			memset(shared->got, 0x5a, n * sizeof(float));
			assert_int_equal(encode(teams[t], &kinds[k], shared, &same), length);
			assert_memory_equal(shared->bytes, alone->bytes, length);
			assert_memory_equal(shared->decoded, alone->decoded, n * sizeof(float));
			assert_int_equal(decode(teams[t], shared, length, &why), 0);
			assert_memory_equal(shared->got, alone->got, n * sizeof(float));
		}
	}
}

/* Positions of which one thread decodes some before another has decoded those in front of them. */
TEST(delta__2_to_4_threads__the_bytes_positions_and_refusals_of_one)
{
	enum { APART = 11, LIST = 3 * TEAM_LEAST + 501, WIDE = APART * LIST };
	static uint32_t index[LIST], got[LIST], wanted[LIST];
	static uint8_t coded[4 * LIST], other[4 * LIST];
	struct random r = { 9 };

	for (uint32_t i = 0; i < LIST; i++)
		index[i] = APART * i + random_bits(&r) % APART;
	const uint64_t bytes = index_bytes(NULL, CODING_DELTA, index, LIST, WIDE);
	const uint64_t step = bytes / 50;

	index_encode(NULL, CODING_DELTA, index, LIST, WIDE, coded, bytes);
	for (unsigned t = 2; t <= THREADS; t++) {
		const char *why;

		assert_int_equal(index_bytes(teams[t], CODING_DELTA, index, LIST, WIDE), bytes);
		memset(other, 0x5a, bytes);
		index_encode(teams[t], CODING_DELTA, index, LIST, WIDE, other, bytes);
		assert_memory_equal(other, coded, bytes);
		assert_int_equal(
			index_decode(teams[t], CODING_DELTA, other, bytes, LIST, WIDE, got, &why),
			0);
		assert_memory_equal(got, index, sizeof(got));
		for (uint64_t at = 0; at < bytes; at += step) { /* widths and gaps */
			if (thinned(at / step, 5))
				continue;
			const char *same = "", *text = "";
			int rc, status;

			other[at] = (uint8_t)(other[at] ^ 1u << at % 8);
			rc = index_decode(NULL, CODING_DELTA, other, bytes, LIST, WIDE, wanted,
					  &text);
			status = index_decode(teams[t], CODING_DELTA, other, bytes, LIST, WIDE, got,
					      &same);
			assert_int_equal(status, rc);
			assert_string_equal(same, text);
			if (!rc)
				assert_memory_equal(got, wanted, sizeof(got));
			other[at] = coded[at];
		}
		/* The last positions lie beyond a shorter shard. */
		assert_int_equal(index_decode(teams[t], CODING_DELTA, other, bytes, LIST,
					      index[LIST - 1], got, &why),
				 SLUICE_EWIRE);
		assert_string_equal(why, "a delta index lies beyond the shard");
	}
}

TEST(messages__a_value_is_not_finite__names_the_first)
{
	const uint32_t places[][2] = { { 0, 5 }, { SPAN / 2, SPAN - 1 }, { SPAN - 1, SPAN - 1 } };

	for (size_t k = 0; k < KINDS; k++)
		for (size_t p = 0; p < sizeof(places) / sizeof(*places); p++)
			for (unsigned t = 1; t <= 3 && !kinds[k].sparse && !thinned(k, 3); t++) {
				struct message m;

				fill_room(shared);
				shared->values[places[p][0]] = INFINITY;
				shared->values[places[p][1]] = NAN;
				assert_int_equal(encode(teams[t], &kinds[k], shared, &m), 0);
				assert_int_equal(m.bad, places[p][0]);
			}
}

/* Recomputes the checksums of changed bytes (message.h). */
static void seal(struct room *r, size_t length)
{
	enum { PAYLOAD_CRC = 80, HEADER_CRC = 92 };

	put_le32(r->bytes + PAYLOAD_CRC,
		 crc32c(0, r->bytes + MESSAGE_HEADER_BYTES, length - MESSAGE_HEADER_BYTES));
	put_le32(r->bytes + HEADER_CRC, crc32c(0, r->bytes, HEADER_CRC));
}

/* A number that no encoder writes among the values of the first and of a later part. */
static void spoil(const struct kind *kind, struct room *r, size_t length)
{
	const struct value_coding *c = &kind->values;
	const uint32_t n = kind->sparse ? SPARSE : SPAN;
	uint8_t *values = r->bytes + length - (n * value_bytes(c->type) + 3) / 4 * 4;

	if (value_few_bits(
		    c->type)) /* the words of blocks: infinite, or levels that are not sorted */
		values = r->bytes + length - (few_bits_bytes(c, n) + 3) / 4 * 4;
	memset(values + 8, 0xff, 4);
	memset(r->bytes + length - 12, 0xff, 4);
}

TEST(messages__bytes_are_wrong__refused_for_the_reason_that_one_thread_gives)
{
	for (size_t k = 0; k < KINDS; k++)
		for (unsigned t = 2; t <= 3 && !thinned(k, 3); t++)
			for (int sealed = 0; sealed < 2; sealed++) {
				const char *why = "", *reason = "";
				struct message m;

				/* All codes of these are right. */
				if (sealed && (kinds[k].values.type == VALUE_GRID ||
					       kinds[k].values.type == VALUE_ROUND))
					continue;
				fill_room(alone);
				const size_t length = encode(NULL, &kinds[k], alone, &m);

				spoil(&kinds[k], alone, length);
				if (sealed)
					seal(alone, length);
				assert_true(decode(NULL, alone, length, &reason));
				memcpy(shared->bytes, alone->bytes, length);
				assert_true(decode(teams[t], shared, length, &why));
				assert_string_equal(why, reason);
				assert_true((strstr(why, "checksum") != NULL) == !sealed);
			}
}

int main(void)
{
	return run_cases(open_all, close_all);
}
