/* SPDX-License-Identifier: BSD-3-Clause
 * Valid and invalid IDX folders: for each invalid one a message names file and fault. */
#include "train_files.h"
#include "tools/train/data.h"
#include "cases.h"

enum { ROWS = 40, SIDE = 5, PIXELS = SIDE * SIDE };

static struct dataset train, test;
static struct complaint complaint;

static size_t put_header(uint8_t *to, uint32_t magic, const uint32_t *size, unsigned n)
{
	for (unsigned i = 0; i <= n; i++) {
		uint32_t word = i ? size[i - 1] : magic;

		for (unsigned j = 0; j < 4; j++)
			to[4 * i + j] = (uint8_t)(word >> (24 - 8 * j));
	}
	return 4 * (size_t)(n + 1);
}

/* Makes images with this header and `rows` rows of pixels, and labels (row mod 4). */
static size_t make_images(uint8_t *to, uint32_t magic, uint32_t announced, uint32_t side,
			  size_t rows)
{
	size_t at = put_header(to, magic, (uint32_t[]){ announced, side, side }, 3);

	for (size_t i = 0; i < rows * side * side; i++)
		to[at + i] = (uint8_t)(i * 7);
	return at + rows * side * side;
}

static size_t make_labels(uint8_t *to, uint32_t magic, uint32_t announced, size_t rows)
{
	size_t at = put_header(to, magic, (uint32_t[]){ announced }, 1);

	for (size_t i = 0; i < rows; i++)
		to[at + i] = (uint8_t)(i % 4);
	return at + rows;
}

static uint8_t images[16 + 2 * ROWS * PIXELS], labels[8 + 2 * ROWS];

/* Makes a correct directory, which the tests then damage. */
static int setup(void **state)
{
	size_t image_bytes = make_images(images, 0x803, ROWS, SIDE, ROWS);
	size_t label_bytes = make_labels(labels, 0x801, ROWS, ROWS);

	complaint.text[0] = '\0';
	return files_write("train-images-idx3-ubyte", images, image_bytes) ||
	       files_write("train-labels-idx1-ubyte", labels, label_bytes) ||
	       files_write("t10k-images-idx3-ubyte", images, image_bytes) ||
	       files_write("t10k-labels-idx1-ubyte", labels, label_bytes);
}

static int teardown(void **state)
{
	data_free(&train);
	data_free(&test);
	return files_remove(state);
}

static int load(uint64_t limit)
{
	struct data_source source = { .data = files_folder, .limit = limit };

	return data_load(&source, TASK_CLASSES, &train, &test, &complaint);
}

static void expect_refusal(const char *first, const char *second)
{
	assert_int_equal(load(0), -1);
	if (!strstr(complaint.text, first) || !strstr(complaint.text, second))
		fail_msg("\"%s\" lacks \"%s\" or \"%s\"", complaint.text, first, second);
}

#define CASE(name) TEST_WITH(name, setup, teardown)

CASE(load__plain_folder_gives_rows_pixels_and_classes)
{
	assert_int_equal(load(0), 0);
	assert_int_equal(train.rows, ROWS);
	assert_int_equal(test.rows, ROWS);
	assert_int_equal(train.features, PIXELS);
	assert_int_equal(train.classes, 4);
	assert_true(train.label[6] == 2);
	assert_memory_equal(train.pixels, images + 16, ROWS * PIXELS);
}

CASE(fill__pixels_are_standardised_by_the_training_set)
{
	float x[2 * PIXELS], first, last;
	uint32_t row;
	double sum = 0, squares = 0;

	for (size_t i = 0; i < ROWS * PIXELS; i++)
		images[16 + i] = i == 3 ? 255 : 17;
	files_write("t10k-images-idx3-ubyte", images, 16 + ROWS * PIXELS);
	assert_int_equal(load(0), 0);
	for (row = 0; row < ROWS; row++) {
		data_fill(&train, &row, 1, x);
		for (size_t i = 0; i < PIXELS; i++) {
			sum += (double)x[i];
			squares += (double)x[i] * (double)x[i];
		}
	}
	assert_float_equal((float)(sum / (ROWS * PIXELS)), 0, 1e-5f);
	assert_float_equal((float)(squares / (ROWS * PIXELS)), 1, 1e-5f);
	/* Rows have the requested order, and test pixels use the table of the training set. */
	data_fill(&train, (uint32_t[]){ 1, 0 }, 2, x);
	first = train.brightness[PIXELS * 7];
	last = train.brightness[14];
	assert_true(x[0] == first && x[PIXELS + 2] == last && first > last);
	data_fill(&test, (uint32_t[]){ 0 }, 1, x);
	assert_true(x[3] == train.brightness[255] && x[4] == train.brightness[17]);
}

CASE(fill__uniform_pixels_become_zero)
{
	float x[PIXELS];

	memset(images + 16, 200, ROWS * PIXELS);
	files_write("train-images-idx3-ubyte", images, 16 + ROWS * PIXELS);
	assert_int_equal(load(0), 0);
	data_fill(&train, (uint32_t[]){ 2 }, 1, x);
	for (size_t i = 0; i < PIXELS; i++)
		assert_true(x[i] == 0);
}

CASE(load__gzip_files_give_the_same)
{
	unlink(files_path("train-images-idx3-ubyte"));
	unlink(files_path("t10k-labels-idx1-ubyte"));
	assert_int_equal(files_write_gzip("train-images-idx3-ubyte.gz", images, 16 + ROWS * PIXELS),
			 0);
	assert_int_equal(files_write_gzip("t10k-labels-idx1-ubyte.gz", labels, 8 + ROWS), 0);
	assert_int_equal(load(0), 0);
	assert_int_equal(train.rows, ROWS);
	assert_memory_equal(train.pixels, images + 16, ROWS * PIXELS);
}

CASE(load__limit_takes_first_rows_and_keeps_all_classes)
{
	assert_int_equal(load(2), 0);
	assert_int_equal(train.rows, 2);
	assert_int_equal(train.classes, 4);
	assert_int_equal(test.rows, ROWS);
	data_free(&train);
	data_free(&test);
	assert_int_equal(load(1000), 0);
	assert_int_equal(train.rows, ROWS);
}

CASE(load__image_magic_wrong_fails)
{
	files_write("train-images-idx3-ubyte", images,
		    make_images(images, 0x804, ROWS, SIDE, ROWS));
	expect_refusal("train-images-idx3-ubyte", "magic number 0x00000804");
}

CASE(load__label_magic_wrong_fails)
{
	files_write("t10k-labels-idx1-ubyte", labels, make_labels(labels, 0x803, ROWS, ROWS));
	expect_refusal("t10k-labels-idx1-ubyte", "magic number 0x00000803");
}

CASE(load__counts_of_images_and_labels_disagree_fails)
{
	files_write("train-images-idx3-ubyte", images,
		    make_images(images, 0x803, ROWS - 1, SIDE, ROWS - 1));
	expect_refusal("sizes disagree", "39 images");
}

CASE(load__images_shorter_than_header_fails)
{
	files_cut("train-images-idx3-ubyte", 16 + ROWS * PIXELS - 3);
	expect_refusal("train-images-idx3-ubyte is too short", "3 more bytes");
}

CASE(load__images_longer_than_header_fails)
{
	files_write("train-images-idx3-ubyte", images,
		    make_images(images, 0x803, ROWS, SIDE, ROWS + 1));
	expect_refusal("train-images-idx3-ubyte", "longer");
}

CASE(load__labels_longer_than_header_fails)
{
	files_write("train-labels-idx1-ubyte", labels, make_labels(labels, 0x801, ROWS, ROWS + 1));
	expect_refusal("train-labels-idx1-ubyte", "longer");
}

CASE(load__header_cut_short_fails)
{
	files_cut("train-images-idx3-ubyte", 7);
	expect_refusal("train-images-idx3-ubyte", "too short");
}

CASE(load__empty_file_fails)
{
	files_cut("train-labels-idx1-ubyte", 0);
	expect_refusal("train-labels-idx1-ubyte", "too short");
}

CASE(load__sizes_beyond_any_file_fail_before_memory_is_taken)
{
	files_write("train-labels-idx1-ubyte", labels,
		    make_labels(labels, 0x801, 0xffffffff, ROWS));
	expect_refusal("train-labels-idx1-ubyte", "4294967295 rows");
	make_labels(labels, 0x801, ROWS, ROWS);
	files_write("train-labels-idx1-ubyte", labels, 8 + ROWS);
	files_write("train-images-idx3-ubyte", images,
		    put_header(images, 0x803, (uint32_t[]){ ROWS, 65535, 65535 }, 3) + 100);
	expect_refusal("train-images-idx3-ubyte", "more than a file of its size");
}

CASE(load__zero_size_fails)
{
	files_write("train-images-idx3-ubyte", images, make_images(images, 0x803, ROWS, 0, 0));
	expect_refusal("train-images-idx3-ubyte", "the size 0");
}

CASE(load__gzip_truncated_fails)
{
	unlink(files_path("train-images-idx3-ubyte"));
	files_write_gzip("train-images-idx3-ubyte.gz", images, 16 + ROWS * PIXELS);
	files_cut("train-images-idx3-ubyte.gz", 120);
	expect_refusal("train-images-idx3-ubyte.gz", "truncated");
}

CASE(load__gzip_without_its_checksum_fails)
{
	unlink(files_path("train-labels-idx1-ubyte"));
	files_write_gzip("train-labels-idx1-ubyte.gz", labels, 8 + ROWS);

	FILE *file = fopen(files_path("train-labels-idx1-ubyte.gz"), "rb");
	assert_non_null(file);
	fseek(file, 0, SEEK_END);
	long bytes = ftell(file);
	fclose(file);
	files_cut("train-labels-idx1-ubyte.gz", bytes - 4);
	expect_refusal("train-labels-idx1-ubyte.gz", "truncated");
}

CASE(load__gzip_damaged_fails)
{
	unlink(files_path("train-images-idx3-ubyte"));
	files_write_gzip("train-images-idx3-ubyte.gz", images, 16 + ROWS * PIXELS);

	FILE *file = fopen(files_path("train-images-idx3-ubyte.gz"), "r+b");
	assert_non_null(file);
	fseek(file, 40, SEEK_SET);
	fwrite("\xff\xff\xff\xff\xff\xff\xff\xff", 1, 8, file);
	fclose(file);
	expect_refusal("train-images-idx3-ubyte.gz", "damaged");
}

CASE(load__file_missing_fails)
{
	unlink(files_path("t10k-labels-idx1-ubyte"));
	expect_refusal("t10k-labels-idx1-ubyte.gz", "not a directory of IDX files");
}

CASE(load__folder_missing_fails_and_names_the_package)
{
	struct data_source source = { .data = files_path("nowhere") };

	assert_int_equal(data_load(&source, TASK_CLASSES, &train, &test, &complaint), -1);
	assert_non_null(strstr(complaint.text, "nowhere"));
	assert_non_null(strstr(complaint.text, "dataset-fashion-mnist"));
}

CASE(load__test_label_beyond_classes_fails)
{
	labels[8 + 17] = 9;
	files_write("t10k-labels-idx1-ubyte", labels, 8 + ROWS);
	expect_refusal("row 17", "label 9 is out of range");
}

CASE(load__test_images_of_another_size_fail)
{
	files_write("t10k-images-idx3-ubyte", images,
		    make_images(images, 0x803, ROWS, SIDE + 1, ROWS));
	expect_refusal("sizes disagree", "36");
}

CASE(load__without_test_needs_no_test_files)
{
	struct data_source source = { .data = files_folder, .without_test = 1 };

	unlink(files_path("t10k-labels-idx1-ubyte"));
	assert_int_equal(data_load(&source, TASK_CLASSES, &train, &test, &complaint), 0);
	assert_int_equal(test.rows, 0);
}

int main(void)
{
	return run_cases(files_begin, files_end);
}
