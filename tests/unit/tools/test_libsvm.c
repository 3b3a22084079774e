/* SPDX-License-Identifier: BSD-3-Clause
 * Valid and invalid LIBSVM text: the message names the number of an invalid line. */
#include "train_files.h"
#include "tools/train/data.h"
#include "cases.h"

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

static int load(const char *text, enum task task)
{
	struct data_source source = { .data = files_path("train.txt") };

	assert_int_equal(files_write("train.txt", text, strlen(text)), 0);
	return data_load(&source, task, &train, &test, &complaint);
}

static int load_both(const char *text, const char *test_text, enum task task)
{
	struct data_source source = { .data = files_path("train.txt"),
				      .test = files_path("test.txt") };

	assert_int_equal(files_write("train.txt", text, strlen(text)), 0);
	assert_int_equal(files_write("test.txt", test_text, strlen(test_text)), 0);
	return data_load(&source, task, &train, &test, &complaint);
}

static void expect_text(const char *part)
{
	if (!strstr(complaint.text, part))
		fail_msg("\"%s\" lacks \"%s\"", complaint.text, part);
}

static void expect_refusal(const char *text, const char *part)
{
	assert_int_equal(load(text, TASK_SIGN), -1);
	expect_text(part);
	data_free(&train);
}

#define CASE(name) TEST_WITH(name, setup, teardown)

CASE(load__rows_comments_and_blank_lines)
{
	float x[2 * 5];

	assert_int_equal(
		load("+1 1:0.5 3:-2e-1\r\n\n# nothing\n-1\t5:1   # tail\n1 \n-1 2:3", TASK_SIGN),
		0);
	assert_int_equal(train.rows, 4);
	assert_int_equal(train.features, 5);
	assert_int_equal(test.rows, 0);
	assert_true(train.label[0] == 1 && train.label[1] == 0);
	assert_int_equal(train.line[1], 4);
	data_fill(&train, (uint32_t[]){ 0, 3 }, 2, x);
	assert_float_equal(x[0], 0.5, 0);
	assert_float_equal(x[2], -0.2f, 0);
	assert_float_equal(x[4], 0, 0);
	assert_float_equal(x[6], 3, 0);
}

CASE(load__gzip_with_long_lines)
{
	struct data_source source = { .data = files_path("train.txt") };
	size_t at = 0, bytes = 1 << 20;
	char *text = malloc(bytes);

	assert_non_null(text);
	for (int row = 0; row < 2; row++) {
		at += (size_t)snprintf(text + at, bytes - at, "%d", row);
		for (int i = 1; i <= 20000; i++)
			at += (size_t)snprintf(text + at, bytes - at, " %d:0.25", i);
		text[at++] = '\n';
	}
	assert_int_equal(files_write_gzip("train.txt", text, at), 0);
	free(text);
	assert_int_equal(data_load(&source, TASK_SIGN, &train, &test, &complaint), 0);
	assert_int_equal(train.features, 20000);
	assert_int_equal(train.row_start[2], 40000);
}

CASE(load__gzip_truncated_fails)
{
	struct data_source source = { .data = files_path("train.txt") };
	char text[4000];

	for (size_t i = 0; i < sizeof(text); i += 8)
		memcpy(text + i, i % 16 ? "-1 1:.5\n" : "+1 2:.7\n", 8);
	assert_int_equal(files_write_gzip("train.txt", text, sizeof(text)), 0);
	files_cut("train.txt", 30);
	assert_int_equal(data_load(&source, TASK_SIGN, &train, &test, &complaint), -1);
	expect_text("truncated");
}

CASE(load__bad_line_fails_with_its_number)
{
	expect_refusal("1 1:1\n\nx 1:2\n", "line 3 does not parse: no label at \"x\"");
	expect_refusal("1 1:1\n-1 2\n",
		       "line 2 does not parse: no index from 1 to 4294967295 before a colon");
	expect_refusal("1 1:1\n-1 2:\n", "line 2 does not parse: no finite value");
	expect_refusal("1 2: 3\n", "line 1 does not parse");
	expect_refusal("1 2:3x 4:1\n", "line 1 does not parse: no finite value at \"2:3x\"");
	expect_refusal("1 2:nan\n", "line 1 does not parse");
	expect_refusal("1 2:1e99\n", "line 1 does not parse");
	expect_refusal("inf 2:1\n", "line 1 does not parse: no label");
	expect_refusal("1 0:1\n", "line 1 does not parse: no index from 1");
	expect_refusal("1 -2:1\n", "line 1 does not parse: no index");
	expect_refusal("1 4294967296:1\n", "line 1 does not parse: no index from 1");
	expect_refusal("1 3:1 3:2\n", "line 1 does not parse: indices do not ascend at \"3:2\"");
	expect_refusal("1 3:1 2:2\n", "line 1 does not parse: indices do not ascend");
	expect_refusal("1 qid:3 2:2\n", "line 1 does not parse: no index");
}

CASE(load__no_rows_or_no_values_fails)
{
	expect_refusal("", "holds no samples");
	expect_refusal("# only this\n\n", "holds no samples");
	expect_refusal("1\n-1\n", "no values");
}

CASE(load__nul_bytes_fail)
{
	struct data_source source = { .data = files_path("train.txt") };

	files_write("train.txt", "1 1:1\n\0\n-1 1:2\n", 15);
	assert_int_equal(data_load(&source, TASK_SIGN, &train, &test, &complaint), -1);
	expect_text("NUL");
	data_free(&train);
	files_write("train.txt", "1 1:1\n-1 \0001:2\n1 1:1\n", 20);
	assert_int_equal(data_load(&source, TASK_SIGN, &train, &test, &complaint), -1);
	expect_text("NUL");
}

CASE(signs__zero_one_and_minus_plus_are_taken_mixtures_not)
{
	assert_int_equal(load("0 1:1\n1 1:2\n", TASK_SIGN), 0);
	assert_true(train.label[0] == 0 && train.label[1] == 1);
	data_free(&train);
	expect_refusal("0 1:1\n1 1:2\n-1 1:2\n", "line 3: label -1 is out of range");
	expect_refusal("2 1:1\n1 1:2\n", "line 1: label 2 is out of range");
}

CASE(classes__whole_numbers_are_numbered_in_order)
{
	assert_int_equal(
		load_both("7 1:1\n-3 2:2\n12 1:1\n7 1:2\n", "12 1:1\n7 2:2\n", TASK_CLASSES), 0);
	assert_int_equal(train.classes, 3);
	assert_true(train.label[0] == 1 && train.label[1] == 0 && train.label[2] == 2);
	assert_true(test.label[0] == 2 && test.label[1] == 1);
}

CASE(classes__test_label_unknown_to_training_fails)
{
	assert_int_equal(load_both("1 1:1\n3 2:2\n", "1 1:1\n\n2 2:2\n", TASK_CLASSES), -1);
	expect_text("test.txt, line 3: label 2 is out of range");
}

CASE(classes__fractions_or_one_class_fail)
{
	assert_int_equal(load("1.5 1:1\n3 2:2\n", TASK_CLASSES), -1);
	expect_text("not whole numbers");
	data_free(&train);
	assert_int_equal(load("3 1:1\n3 2:2\n", TASK_CLASSES), -1);
	expect_text("only one class");
}

CASE(values__any_finite_label_is_a_target)
{
	assert_int_equal(load("1.5 1:1\n-3e2 2:2\n", TASK_VALUE), 0);
	assert_float_equal(train.label[1], -300, 0);
}

CASE(test_set__columns_unknown_to_training_are_dropped_and_counted)
{
	assert_int_equal(load_both("1 1:1\n-1 2:2\n", "1 1:1 3:5\n-1 2:2 7:1 9:1\n", TASK_SIGN), 0);
	assert_int_equal(test.features, 2);
	assert_int_equal(test.dropped, 3);
	assert_int_equal(test.row_start[2], 2);
}

CASE(limit__later_bad_lines_are_not_read)
{
	struct data_source source = { .data = files_path("train.txt"), .limit = 2 };

	files_write("train.txt", "1 1:1\n-1 2:2\nbad\n", 17);
	assert_int_equal(data_load(&source, TASK_SIGN, &train, &test, &complaint), 0);
	assert_int_equal(train.rows, 2);
}

CASE(test_set__folder_beside_a_file_fails)
{
	struct data_source source = { .data = files_path("train.txt"), .test = files_folder };

	files_write("train.txt", "1 1:1\n-1 2:2\n", 13);
	assert_int_equal(data_load(&source, TASK_SIGN, &train, &test, &complaint), -1);
	expect_text("must both be");
}

int main(void)
{
	return run_cases(files_begin, files_end);
}
