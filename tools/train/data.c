/* SPDX-License-Identifier: BSD-3-Clause
 * Chooses the loader by the kind of file at the path, and converts labels of files into labels for
 * the model's loss. */
#include "tools/train/data.h"
#include "tools/train/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Returns the origin of a label, "FILE, line 7" or "FILE, row 7". */
static const char *place(const struct dataset *set, size_t row, char *text, size_t bytes)
{
	if (set->line)
		snprintf(text, bytes, "%.200s, line %u", set->path, set->line[row]);
	else
		snprintf(text, bytes, "%.200s, row %zu", set->path, row);
	return text;
}

/* Replaces labels by their positions in the training set's list of class labels. */
static int number_classes(const struct dataset *train, struct dataset *set,
			  struct complaint *complaint)
{
	const float *first = train->class_value;
	char where[256];

	if (!first || train->classes < 2)
		return complain(complaint,
				"%s has %s, but this model needs labels that are whole numbers "
				"of at least two classes; use --model linreg for other targets",
				train->path,
				first ? "only one class" : "labels that are not whole numbers");
	for (size_t row = 0; row < set->rows; row++) {
		size_t low = 0, high = train->classes;

		while (high - low > 1) {
			size_t middle = low + (high - low) / 2;

			if (first[middle] <= set->label[row])
				low = middle;
			else
				high = middle;
		}
		if (first[low] != set->label[row])
			return complain(complaint,
					"%s: label %g is out of range: the training set has %zu "
					"classes labelled %g to %g",
					place(set, row, where, sizeof(where)),
					(double)set->label[row], train->classes, (double)first[0],
					(double)first[train->classes - 1]);
		set->label[row] = (float)low;
	}
	return 0;
}

/* Converts -1/+1 or 0/1 to 0/1. */
static int number_signs(struct dataset *set, struct complaint *complaint)
{
	int minus = 0, zero = 0;
	char where[256];

	for (size_t row = 0; row < set->rows; row++) {
		float label = set->label[row];

		minus |= label == -1;
		zero |= label == 0;
		if ((label != -1 && label != 0 && label != 1) || (minus && zero))
			return complain(complaint,
					"%s: label %g is out of range: logreg takes labels that "
					"are all -1 or +1, or all 0 or 1; for more classes use "
					"--model softmax",
					place(set, row, where, sizeof(where)), (double)label);
		set->label[row] = label == 1;
	}
	return 0;
}

static int prepare_labels(enum task task, struct dataset *train, struct dataset *test,
			  struct complaint *complaint)
{
	switch (task) {
	case TASK_CLASSES:
		if (number_classes(train, train, complaint))
			return -1;
		return number_classes(train, test, complaint);
	case TASK_SIGN:
		if (number_signs(train, complaint))
			return -1;
		return number_signs(test, complaint);
	case TASK_VALUE:
	case TASK_TEXT: break;
	}
	return 0;
}

/* Scales both sets with the table of the training set. With unscaled pixels (0 to 1), training ends
 * less accurate, and a sparse recipe loses more than a dense one. The sums are integers, so every
 * rank computes the same table. */
static void standardise(struct dataset *train, struct dataset *test)
{
	uint64_t times[256] = { 0 }, sum = 0, squares = 0;
	size_t pixels = train->rows * train->features;
	double mean, deviation;

	for (size_t i = 0; i < pixels; i++)
		times[train->pixels[i]]++;
	for (size_t i = 0; i < 256; i++) {
		sum += times[i] * i;
		squares += times[i] * i * i;
	}
	mean = (double)sum / (double)pixels;
	deviation = sqrt((double)squares / (double)pixels - mean * mean);
	for (size_t i = 0; i < 256; i++)
		train->brightness[i] = deviation > 0 ? (float)(((double)i - mean) / deviation) : 0;
	memcpy(test->brightness, train->brightness, sizeof(test->brightness));
}

static int missing(const char *path, struct complaint *complaint)
{
	int saved = errno;

	if (saved == ENOENT && !strcmp(path, DEFAULT_DATA))
		return complain(complaint,
				"the directory %s does not exist; install the Debian package "
				"dataset-fashion-mnist, or name your data with --data PATH",
				path);
	return complain(complaint,
			"cannot read data from %s: %s; --data takes a directory of IDX files (such "
			"as " DEFAULT_DATA
			" of the Debian package dataset-fashion-mnist) or a LIBSVM file",
			path, strerror(saved));
}

static int load_test(const struct data_source *source, int data_is_folder,
		     const struct dataset *train, struct dataset *test, struct complaint *complaint)
{
	const char *path = source->test ? source->test : data_is_folder ? source->data : NULL;
	struct stat status;
	int test_is_folder;

	if (!path || source->without_test)
		return 0;
	if (stat(path, &status))
		return complain(complaint, "cannot read the test set %s: %s", path,
				strerror(errno));
	test_is_folder = S_ISDIR(status.st_mode);
	if (test_is_folder != data_is_folder)
		return complain(
			complaint,
			"--data %.150s and --test %.150s must both be directories of IDX files "
			"or both be LIBSVM files",
			source->data, path);
	if (!test_is_folder)
		return libsvm_load(path, 0, train->features, test, complaint);
	if (idx_load(path, "t10k", 0, test, complaint))
		return -1;
	if (test->features != train->features)
		return complain(
			complaint,
			"sizes disagree: training images have %zu pixels, but test images in %s "
			"have %zu",
			train->features, path, test->features);
	return 0;
}

int data_load(const struct data_source *source, enum task task, struct dataset *train,
	      struct dataset *test, struct complaint *complaint)
{
	struct stat status;
	int folder, rc;

	memset(train, 0, sizeof(*train));
	memset(test, 0, sizeof(*test));
	if (task == TASK_TEXT)
		return text_load(source->data, source->limit, train,
				 source->without_test ? NULL : test, complaint);
	if (stat(source->data, &status))
		return missing(source->data, complaint);
	folder = S_ISDIR(status.st_mode);
	rc = folder ? idx_load(source->data, "train", source->limit, train, complaint) :
		      libsvm_load(source->data, source->limit, 0, train, complaint);
	if (rc)
		return rc;
	if (load_test(source, folder, train, test, complaint))
		return -1;
	if (train->pixels)
		standardise(train, test);
	return prepare_labels(task, train, test, complaint);
}

void data_free(struct dataset *set)
{
	free(set->pixels);
	free(set->text);
	free(set->row_start);
	free(set->column);
	free(set->value);
	free(set->line);
	free(set->label);
	free(set->class_value);
	memset(set, 0, sizeof(*set));
}

static void fill_symbols(const uint8_t *context, size_t symbols, float *x)
{
	memset(x, 0, TEXT_CONTEXT * symbols * sizeof(*x));
	for (size_t i = 0; i < TEXT_CONTEXT; i++)
		x[i * symbols + context[i]] = 1;
}

void data_fill(const struct dataset *set, const uint32_t *rows, size_t n, float *x)
{
	for (size_t i = 0; i < n; i++, x += set->features) {
		size_t row = rows[i];

		if (set->text) {
			fill_symbols(text_place(set, row), set->classes, x);
		} else if (set->pixels) {
			const uint8_t *pixel = set->pixels + row * set->features;

			for (size_t j = 0; j < set->features; j++)
				x[j] = set->brightness[pixel[j]];
		} else {
			memset(x, 0, set->features * sizeof(*x));
			for (size_t j = set->row_start[row]; j < set->row_start[row + 1]; j++)
				x[set->column[j]] = set->value[j];
		}
	}
}
