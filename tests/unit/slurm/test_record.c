/* SPDX-License-Identifier: BSD-3-Clause
 * Records: written ones are read back, and those that a faulty or hostile process could write are
 * refused.
 * */
#include "base/bytes.h"
#include "base/log.h"
#include "compress/message.h"
#include "sluice.h"
#include "slurm/record.h"
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>

static char last_line[1024];
static int n_lines;

static void keep_line(int level, const char *line, void *context)
{
	snprintf(last_line, sizeof(last_line), "%s", line);
	n_lines++;
}

static int setup(void **state)
{
	last_line[0] = 0;
	n_lines = 0;
	log_set_sink(keep_line, NULL);
	return 0;
}

static struct rank_record example(const char *node)
{
	struct rank_record c;

	memset(&c, 0, sizeof(c));
	c.wire_version = SLUICE_WIRE_VERSION;
	strcpy(c.version, "0.1.0");
	strcpy(c.build, "gcc 12.2.0 optimized");
	memcpy(c.boot_id, "0123456789abcdef", 16);
	strcpy(c.node, node);
	c.payload_bytes = 5;
	memcpy(c.payload, "shm:7", 5);
	return c;
}

/* Makes a correct record of rank 3, and returns its length. */
static size_t example_bytes(uint8_t *bytes)
{
	struct rank_record c = example("n2");

	return record_encode(&c, 3, bytes);
}

static void seal(uint8_t *bytes, size_t n)
{
	put_le32(bytes + n - 4, crc32c(0, bytes, n - 4));
}

static void refused(const uint8_t *bytes, size_t n, const char *because)
{
	struct rank_record out;
	const char *why = "";
	uint8_t *exact = malloc(n ? n : 1); /* allocated so that a sanitizer detects a read past
					       the end */

	memcpy(exact, bytes, n);
	assert_int_equal(record_decode(exact, n, 3, &out, &why), SLUICE_EWIRE);
	assert_non_null(strstr(why, because));
	free(exact);
}

#define CASE(name) TEST_WITH(name, setup, NULL)

CASE(decode__what_encode_wrote__gives_the_same_card)
{
	uint8_t bytes[RECORD_MAX_BYTES];
	struct rank_record in = example("n2"), out;
	const char *why;
	size_t n = record_encode(&in, 3, bytes);

	assert_int_equal(n, RECORD_HEADER_BYTES + 5 + 4);
	assert_int_equal(record_decode(bytes, n, 3, &out, &why), 0);
	assert_memory_equal(&in, &out, sizeof(in));
}

CASE(decode__full_payload__is_kept_and_empty_one_too)
{
	uint8_t bytes[RECORD_MAX_BYTES];
	struct rank_record in = example("n2"), out;
	const char *why;
	size_t n;

	in.payload_bytes = RECORD_PAYLOAD_BYTES;
	memset(in.payload, 0xa5, sizeof(in.payload));
	n = record_encode(&in, 0, bytes);
	assert_int_equal(n, RECORD_MAX_BYTES);
	assert_int_equal(record_decode(bytes, n, 0, &out, &why), 0);
	assert_memory_equal(&in, &out, sizeof(in));

	in.payload_bytes = 0;
	n = record_encode(&in, 0, bytes);
	assert_int_equal(record_decode(bytes, n, 0, &out, &why), 0);
	assert_int_equal(out.payload_bytes, 0);
}

CASE(encode__text_with_control_characters__sends_question_marks)
{
	uint8_t bytes[RECORD_MAX_BYTES];
	struct rank_record in = example("n\x1b[31m\n"), out;
	const char *why;
	size_t n;

	memset(in.version, '7', sizeof(in.version)); /* no zero ends the text */
	n = record_encode(&in, 0, bytes);
	assert_int_equal(record_decode(bytes, n, 0, &out, &why), 0);
	assert_string_equal(out.node, "n?[31m?");
	assert_int_equal(strlen(out.version), sizeof(out.version) - 1);
}

CASE(decode__every_shorter_length__is_refused)
{
	uint8_t bytes[RECORD_MAX_BYTES];
	size_t n = example_bytes(bytes), cut;

	for (cut = 0; cut < n; cut++)
		refused(bytes, cut, "");
}

CASE(decode__every_single_bit_flipped__is_refused)
{
	uint8_t bytes[RECORD_MAX_BYTES];
	size_t n = example_bytes(bytes), bit;

	for (bit = 0; bit < n * 8; bit++) {
		bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
		refused(bytes, n, "");
		bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
	}
}

CASE(decode__sealed_lies__are_refused_by_name)
{
	static const struct {
		size_t offset;
		uint32_t value;
		const char *because;
	} lies[] = {
		{ 0, 0x31434c53, "magic" },
		{ 4, 0, "lengths" },
		{ 4, 179, "lengths" },
		{ 4, 0xffffffff, "lengths" },
		{ 8, 4, "lengths" },
		{ 8, 6, "lengths" },
		{ 8, 0xffffffff, "lengths" },
		{ 8, 0xfffffffb, "lengths" },
		{ 16, 2, "another rank" },
		{ 16, 0xffffffff, "another rank" },
		{ 20, 0x0a303030, "printable" },
		{ 48, 0x30000000, "printable" },
		{ 52, 0x1b1b1b1b, "printable" },
		{ 116, 0x000000ff, "printable" },
		{ 176, 0x00000030, "printable" },
	};
	size_t i, n;

	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		uint8_t bytes[RECORD_MAX_BYTES];

		n = example_bytes(bytes);
		put_le32(bytes + lies[i].offset, lies[i].value);
		seal(bytes, n);
		refused(bytes, n, lies[i].because);
	}
}

CASE(decode__payload_over_the_limit__is_refused)
{
	uint8_t bytes[RECORD_MAX_BYTES + 1];
	struct rank_record in = example("n2");
	size_t n;

	in.payload_bytes = RECORD_PAYLOAD_BYTES;
	n = record_encode(&in, 3, bytes);
	bytes[n - 4] = 0;
	put_le32(bytes + 8, RECORD_PAYLOAD_BYTES + 1);
	seal(bytes, n + 1);
	refused(bytes, n + 1, "payload");
}

CASE(decode__more_than_any_card__is_refused)
{
	uint8_t *bytes = calloc(1, RECORD_ACCEPT_BYTES + 1);

	example_bytes(bytes);
	put_le32(bytes + 8, RECORD_ACCEPT_BYTES + 1 - RECORD_HEADER_BYTES - 4);
	seal(bytes, RECORD_ACCEPT_BYTES + 1);
	refused(bytes, RECORD_ACCEPT_BYTES + 1, "too long");
	free(bytes);
}

CASE(decode__later_version_with_longer_header_and_payload__tells_its_version)
{
	enum { N = 8192 };
	uint8_t bytes[N] = { 0 };
	struct rank_record out;
	const char *why;

	example_bytes(bytes);
	memset(bytes + RECORD_HEADER_BYTES, 0xee, N - RECORD_HEADER_BYTES);
	put_le32(bytes + 4, RECORD_HEADER_BYTES + 64);
	put_le32(bytes + 8, N - RECORD_HEADER_BYTES - 64 - 4);
	put_le32(bytes + 12, SLUICE_WIRE_VERSION + 1);
	seal(bytes, N);
	assert_int_equal(record_decode(bytes, N, 3, &out, &why), 0);
	assert_int_equal(out.wire_version, SLUICE_WIRE_VERSION + 1);
	assert_string_equal(out.version, "0.1.0");
	assert_string_equal(out.node, "n2");
	assert_int_equal(out.payload_bytes, 0);
}

CASE(compare__equal_cards__is_silent)
{
	struct rank_record records[3] = { example("n1"), example("n1"), example("n2") };

	assert_int_equal(record_compare(records, 3, 0), 0);
	assert_int_equal(record_compare(records, 1, 0), 0);
	assert_int_equal(n_lines, 0);
}

CASE(compare__other_wire_version__every_rank_says_the_same)
{
	struct rank_record records[4] = { example("n1"), example("n1"), example("n2"),
					  example("n3") };
	char first[1024], own[80];
	int rank;

	records[2].wire_version = 99;
	records[3].wire_version = 98;
	for (rank = 0; rank < 4; rank++) {
		assert_int_equal(record_compare(records, 4, rank), SLUICE_EPEER);
		if (rank == 0)
			strcpy(first, sluice_last_error());
		assert_string_equal(sluice_last_error(), first);
	}
	snprintf(own, sizeof(own), "rank 0 on node n1 runs Sluice 0.1.0 (wire %d)",
		 SLUICE_WIRE_VERSION);
	assert_non_null(strstr(first, own));
	assert_non_null(strstr(first, "rank 2 on node n2 runs Sluice 0.1.0 (wire 99)"));
	assert_null(strstr(first, "n3"));
}

CASE(compare__other_package_version_of_rank_0__names_rank_1)
{
	struct rank_record records[3] = { example("n1"), example("n1"), example("n2") };

	strcpy(records[0].version, "0.0.9");
	assert_int_equal(record_compare(records, 3, 2), SLUICE_EPEER);
	assert_non_null(strstr(sluice_last_error(), "rank 0 on node n1 runs Sluice 0.0.9"));
	assert_non_null(strstr(sluice_last_error(), "rank 1 on node n1 runs Sluice 0.1.0"));
}

CASE(compare__other_build__is_one_warning_of_rank_0)
{
	struct rank_record records[3] = { example("n1"), example("n1"), example("n2") };

	strcpy(records[2].build, "clang 14.0.6 optimized");
	assert_int_equal(record_compare(records, 3, 1), 0);
	assert_int_equal(n_lines, 0);
	assert_int_equal(record_compare(records, 3, 0), 0);
	assert_int_equal(n_lines, 1);
	assert_non_null(strstr(last_line, "clang 14.0.6"));
	assert_non_null(strstr(last_line, "n2"));
}
