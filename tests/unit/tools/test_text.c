/* SPDX-License-Identifier: BSD-3-Clause
 * Texts as data: symbols, the two parts, gzip, and the messages about files that cannot be used. */
#include "train_files.h"
#include "tools/train/data.h"
#include "cases.h"

#include <sys/stat.h>

enum { LONG = 100000 };

static struct dataset train, test;
static struct complaint complaint;

static int setup(void **state)
{
	complaint.text[0] = '\0';
	return 0;
}

static int teardown(void **state)
{
	data_free(&train);
	data_free(&test);
	return files_remove(state);
}

static int load(uint64_t limit)
{
	struct data_source source = { .data = files_path("train.txt"), .limit = limit };

	return data_load(&source, TASK_TEXT, &train, &test, &complaint);
}

/* Writes n bytes that count in fives: "acegi", with a byte above 127 for the last. */
static char *write_text(size_t n, int gzip)
{
	char *text = malloc(n);

	assert_non_null(text);
	for (size_t i = 0; i < n; i++)
		text[i] = "aceg\xe9"[i % 5];
	assert_int_equal((gzip ? files_write_gzip : files_write)("train.txt", text, n), 0);
	return text;
}

/* Checks the one in each place of the row's context, and the label. at: where the context is. */
static void check_row(const struct dataset *set, uint32_t row, size_t at)
{
	float x[TEXT_CONTEXT * 5];

	data_fill(set, &row, 1, x);
	for (size_t i = 0; i < TEXT_CONTEXT * 5; i++)
		assert_true(x[i] == (i % 5 == (at + i / 5) % 5));
	assert_true(set->label[row] == (float)((at + TEXT_CONTEXT) % 5));
}

#define CASE(name) TEST_WITH(name, setup, teardown)

CASE(load__parts_and_symbols)
{
	free(write_text(LONG, 0));
	assert_int_equal(load(0), 0);
	assert_int_equal(train.rows, LONG / 10 * 9 - TEXT_CONTEXT);
	assert_int_equal(train.classes, 5);
	assert_int_equal(train.features, 5 * TEXT_CONTEXT);
	for (uint32_t row = 0; row < 12; row++)
		check_row(&train, row, row);
	check_row(&train, (uint32_t)train.rows - 1, train.rows - 1);
	/* The 8000 test rows are spread over all places of the last tenth. */
	assert_int_equal(test.rows, 8000);
	assert_int_equal(test.classes, 5);
	check_row(&test, 0, 0);
	check_row(&test, 4001, 4001ul * (LONG / 10 - TEXT_CONTEXT) / 8000);
	check_row(&test, 7999, 7999ul * (LONG / 10 - TEXT_CONTEXT) / 8000);
}

CASE(load__gzip_and_plain_are_the_same)
{
	float *label;
	size_t rows;

	free(write_text(LONG, 0));
	assert_int_equal(load(0), 0);
	rows = train.rows;
	label = train.label;
	train.label = NULL;
	teardown(NULL);
	free(write_text(LONG, 1));
	assert_int_equal(load(0), 0);
	assert_int_equal(train.rows, rows);
	assert_memory_equal(train.label, label, rows * sizeof(*label));
	free(label);
}

CASE(load__longer_than_the_first_buffer)
{
	enum { BYTES = (1 << 20) + 3 };

	free(write_text(BYTES, 1));
	assert_int_equal(load(0), 0);
	assert_int_equal(train.rows + test.places + 2 * (size_t)TEXT_CONTEXT, BYTES);
	check_row(&train, (uint32_t)train.rows - 1, train.rows - 1);
}

CASE(load__limit_takes_the_first_rows)
{
	free(write_text(LONG, 0));
	assert_int_equal(load(7), 0);
	assert_int_equal(train.rows, 7);
	check_row(&train, 6, 6);
	assert_int_equal(test.rows, 8000);
}

CASE(load__server_needs_the_shape_only)
{
	struct data_source source = { .data = files_path("train.txt"), .without_test = 1 };

	free(write_text(LONG, 0));
	assert_int_equal(data_load(&source, TASK_TEXT, &train, &test, &complaint), 0);
	assert_int_equal(train.classes, 5);
	assert_int_equal(test.rows, 0);
	assert_null(test.text);
}

static void expect_refusal(const char *part)
{
	assert_int_equal(load(0), -1);
	if (!strstr(complaint.text, part))
		fail_msg("\"%s\" lacks \"%s\"", complaint.text, part);
}

CASE(load__smallest_text)
{
	free(write_text(161, 0)); /* 144 and 17 */
	assert_int_equal(load(0), 0);
	assert_int_equal(test.rows, 1);
	data_free(&train);
	data_free(&test);
	free(write_text(160, 0));
	expect_refusal("is too short, with 160 bytes: the last tenth of a text is for testing");
}

CASE(load__bad_files_are_refused)
{
	char same[500];

	expect_refusal("train.txt: No such file or directory");
	assert_int_equal(files_write("train.txt", "", 0), 0);
	expect_refusal("is empty");
	memset(same, '.', sizeof(same));
	assert_int_equal(files_write("train.txt", same, sizeof(same)), 0);
	expect_refusal("has only one symbol");
	free(write_text(LONG, 1));
	assert_int_equal(files_cut("train.txt", 100), 0);
	expect_refusal("is truncated: the gzip data ends too early");
	assert_int_equal(unlink(files_path("train.txt")), 0);
	assert_int_equal(mkdir(files_path("train.txt"), 0700), 0);
	expect_refusal("cannot read");
	assert_int_equal(rmdir(files_path("train.txt")), 0);
}

int main(void)
{
	return run_cases(files_begin, files_end);
}
