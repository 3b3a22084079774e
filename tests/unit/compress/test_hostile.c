/* SPDX-License-Identifier: BSD-3-Clause
 * Each hostile message is refused at its stage with its reason, and nothing is stored outside the
 * receiver's arrays. "test_hostile --write DIR" writes seeds for the fuzz target. */

#include "base/bytes.h"
#include "compress/message.h"
#include "hostile.h"
#include "sluice.h"
#include "cases.h"
#include <stdio.h>
#include <stdlib.h>

enum { GUARD = 64 };

static const struct message_expect expected = { .kind = MESSAGE_PUSH,
						.rank = 3,
						.epoch = 2,
						.model = 6,
						.shard = 5,
						.seq = 40,
						.step = 41,
						.phase = 1,
						.span = SPAN,
						.count_max = COUNT_MAX };

static void make(const char *name, struct slot *s)
{
	const struct hostile *h;

	for (size_t i = 0; (h = hostile_message(i)) != NULL; i++)
		if (!strcmp(h->name, name)) {
			h->make(s);
			return;
		}
	fail_msg("no message is called %s", name);
}

/* Arrays of COUNT_MAX elements between guard bytes. */
struct receiver {
	uint8_t before_index[GUARD];
	uint32_t index[COUNT_MAX];
	uint8_t between[GUARD];
	float value[COUNT_MAX];
	uint8_t after_value[GUARD];
};

static void expect_guards_whole(const struct receiver *r)
{
	uint8_t guard[GUARD];

	memset(guard, 0xee, sizeof(guard));
	assert_memory_equal(r->before_index, guard, GUARD);
	assert_memory_equal(r->between, guard, GUARD);
	assert_memory_equal(r->after_value, guard, GUARD);
}

static enum stage receive(const struct slot *s, const struct message_expect *want, const char **why)
{
	uint8_t *copy = malloc(SLOT_BYTES + GUARD), guard[GUARD];
	struct message m, untouched;
	struct receiver r;
	enum stage refused_by = ACCEPTED;

	assert_non_null(copy);
	memset(guard, 0xee, sizeof(guard));
	memset(copy, 0xee, SLOT_BYTES + GUARD);
	memset(&r, 0xee, sizeof(r));
	memset(&m, 0xee, sizeof(m));
	memset(&untouched, 0xee, sizeof(untouched));
	if (message_copy(NULL, s->bytes, SLOT_BYTES, copy, SLOT_BYTES, &m, why)) {
		refused_by = COPY;
		assert_memory_equal(&m, &untouched, sizeof(m));
	} else if (message_check(&m, want, why)) {
		refused_by = CHECK;
	} else if (message_decode(NULL, &m, copy, r.index, r.value, why)) {
		refused_by = DECODE;
	}
	assert_memory_equal(copy + SLOT_BYTES, guard, GUARD);
	expect_guards_whole(&r);
	free(copy);
	return refused_by;
}

TEST(hostile__each_is_refused_where_and_why_it_should)
{
	const struct hostile *h;
	struct slot *s = malloc(sizeof(*s));

	assert_non_null(s);
	for (size_t i = 0; (h = hostile_message(i)) != NULL; i++) {
		struct message_expect want = expected;
		const char *why = "";
		enum stage refused_by;

		want.span = h->span;
		h->make(s);
		refused_by = receive(s, &want, &why);
		if (refused_by != h->refused_by || !strstr(why, h->why))
			fail_msg("%s: stage %d instead of %d, because '%s' instead of '%s'",
				 h->name, (int)refused_by, (int)h->refused_by, why, h->why);
	}
	free(s);
}

/* One of the two checksums, or an earlier check, must find every one-bit error in a message. */
TEST(bit_flip__anywhere_is_refused_by_copy)
{
	struct slot s;

	make("good-delta", &s);
	for (size_t bit = 0; bit < 8 * (MESSAGE_HEADER_BYTES + (size_t)s.payload_bytes); bit++) {
		const char *why = "";

		s.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(receive(&s, &expected, &why), COPY);
		s.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

/* Sets every payload byte to every value, with matching checksums. The message must be refused or
 * decoded without an access out of bounds. */
TEST(payload_byte__any_value_stays_within_bounds)
{
	const char *const good[] = { "good-raw", "good-raw-f16", "good-delta", "good-bitmap" };
	struct slot s;

	for (size_t g = 0; g < sizeof(good) / sizeof(good[0]); g++) {
		make(good[g], &s);
		for (uint32_t at = 0, n = s.payload_bytes; at < n; at++)
			for (unsigned v = 0; v < 256; v++) {
				const char *why = "";

				make(good[g], &s);
				slot_payload(&s)[at] = (uint8_t)v;
				slot_seal(&s);
				assert_int_not_equal(receive(&s, &expected, &why), COPY);
			}
	}
}

TEST(check__any_field_left_open_is_not_compared)
{
	const struct message_expect any = { MESSAGE_PUSH,
					    MESSAGE_ANY,
					    MESSAGE_ANY,
					    MESSAGE_ANY,
					    MESSAGE_ANY,
					    MESSAGE_ANY,
					    MESSAGE_ANY,
					    MESSAGE_ANY,
					    MESSAGE_ANY,
					    MESSAGE_ANY,
					    0 };
	const struct message m = { .kind = MESSAGE_PUSH,
				   .rank = 1,
				   .epoch = UINT32_MAX,
				   .seq = 4,
				   .step = UINT64_MAX - 1,
				   .span = 9,
				   .count = 9 };
	const char *why = "";

	assert_int_equal(message_check(&m, &any, &why), 0);
	assert_string_equal(why, "");
}

TEST(copy__slot_or_buffer_too_small_is_refused)
{
	uint8_t copy[SLOT_BYTES];
	const char *why = "";
	struct message m;
	struct slot s;

	make("good-raw", &s);
	for (size_t n = 0; n < MESSAGE_HEADER_BYTES + (size_t)s.payload_bytes; n++) {
		uint8_t *exact = malloc(n + !n); /* so that ASan detects a read beyond the end */

		assert_non_null(exact);
		memcpy(exact, s.bytes, n);
		assert_int_equal(message_copy(NULL, exact, n, copy, sizeof(copy), &m, &why),
				 SLUICE_EWIRE);
		assert_int_equal(message_copy(NULL, s.bytes, SLOT_BYTES, exact, n, &m, &why),
				 SLUICE_EWIRE);
		free(exact);
	}
	assert_int_equal(
		message_copy(NULL, s.bytes, SLOT_BYTES, copy, 96 + s.payload_bytes, &m, &why), 0);
	assert_int_equal(
		message_copy(NULL, s.bytes, 96 + s.payload_bytes, copy, sizeof(copy), &m, NULL), 0);
}

/* Writes one file: a byte of options for the fuzz target (0: none), then the message. */
static int write_seed(const char *folder, const char *name, const uint8_t *bytes, size_t n)
{
	char path[4096];
	FILE *file;
	int bad;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "wb");
	bad = !file || fputc(0, file) == EOF || fwrite(bytes, 1, n, file) != n;
	if ((file && fclose(file)) || bad) {
		perror(path);
		return 1;
	}
	return 0;
}

static int write_coded(const char *folder, const char *name, uint32_t span, uint32_t count,
		       struct value_coding values)
{
	struct message m = { .kind = MESSAGE_DELTA,
			     .parts = 1,
			     .span = span,
			     .count = count,
			     .values = values,
			     .lr = 1 };
	static uint8_t out[65536];
	uint32_t index[1024];
	float value[1024];

	for (uint32_t i = 0; i < count; i++) {
		index[i] = (uint32_t)((uint64_t)i * span / count) +
			   (span / count > 1 && i % 3 == 0);
		value[i] = (float)i - 7.3f;
	}
	return write_seed(folder, name, out,
			  message_encode(NULL, &m, index, value, value, out, sizeof(out)));
}

static int write_encoded(const char *folder, const char *name, uint32_t span, uint32_t count,
			 enum value_type type)
{
	return write_coded(folder, name, span, count, (struct value_coding){ type, 0, 0, 0 });
}

/* Writes the messages that pass the checks of the header, because the fuzzer learns nothing from
 * the others, and some of more than one block. */
static int write_corpus(const char *folder)
{
	const struct hostile *h;
	int failed = 0;

	for (size_t i = 0; (h = hostile_message(i)) != NULL; i++) {
		struct slot s;

		if (h->refused_by != ACCEPTED && h->refused_by != DECODE)
			continue;
		h->make(&s);
		failed |= write_seed(folder, h->name, s.bytes,
				     MESSAGE_HEADER_BYTES + (size_t)s.payload_bytes);
	}
	return failed | write_encoded(folder, "delta-3-blocks-f16", 100000, 300, VALUE_F16) |
	       write_encoded(folder, "delta-8-blocks-bf16", UINT32_MAX, 1024, VALUE_BF16) |
	       write_encoded(folder, "bitmap-f32", 1000, 500, VALUE_F32) |
	       write_encoded(folder, "dense-with-zeros-f16", 200, 195, VALUE_F16) |
	       write_encoded(folder, "dense-bf16", 99, 99, VALUE_BF16) |
	       write_coded(folder, "dense-uniform-2", 1000, 1000,
			   (struct value_coding){ VALUE_UNIFORM, 2, 64, 0 }) |
	       write_coded(folder, "dense-uniform-1", 77, 77,
			   (struct value_coding){ VALUE_UNIFORM, 1, 512, 0 }) |
	       write_coded(folder, "delta-grid-8", 9000, 700,
			   (struct value_coding){ VALUE_GRID, 8, 0, 0 }) |
	       write_coded(folder, "dense-round", 300, 300,
			   (struct value_coding){ VALUE_ROUND, 0, 0, 2 }) |
	       write_coded(folder, "delta-twomeans", 9000, 700,
			   (struct value_coding){ VALUE_TWOMEANS, 2, 512, 0 }) |
	       write_coded(folder, "dense-twomeans", 1000, 1000,
			   (struct value_coding){ VALUE_TWOMEANS, 2, 512, 0 }) |
	       write_coded(folder, "dense-e3m0", 600, 600,
			   (struct value_coding){ VALUE_E3M0, 4, 512, 0 });
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--write"))
		return write_corpus(argv[2]);
	return run_cases(NULL, NULL);
}
