/* SPDX-License-Identifier: BSD-3-Clause
 * Training and test rows in memory: pixels of IDX files, or the sparse rows of LIBSVM text. Loaders
 * return raw labels; data_load() converts them for the task of the model. */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H
#include "tools/train/complaint.h"

#include <stddef.h>
#include <stdint.h>

enum task {
	TASK_CLASSES, /* one of several classes: labels become class numbers */
	TASK_SIGN,    /* one of two: labels become 0 or 1 */
	TASK_VALUE    /* a number: labels stay */
};

struct dataset {
	char path[4096]; /* file the labels came from, for messages */
	size_t rows, features;
	uint8_t *pixels;       /* IDX: rows x features; else NULL and the sparse rows below */
	float brightness[256]; /* what each pixel value becomes */
	size_t *row_start;     /* rows + 1 positions in column and value */
	uint32_t *column;
	float *value;
	uint32_t *line; /* LIBSVM: line number of each row; NULL for IDX */
	float *label;
	float *class_value; /* label as written of each class, ascending; NULL if not whole
			     * numbers */
	size_t classes;
	uint64_t dropped; /* LIBSVM: test values whose column does not occur in training */
};

struct data_source {
	const char *data; /* directory or file */
	const char *test; /* or NULL */
	uint64_t limit;   /* training rows to use; 0: all */
	int without_test; /* a dedicated server needs the shape only */
};

/* Loads both sets; test->rows is 0 when there is none. Returns 0, or -1 with the complaint filled
 * in; in both cases both sets may be passed to data_free(). */
int data_load(const struct data_source *source, enum task task, struct dataset *train,
	      struct dataset *test, struct complaint *complaint);
void data_free(struct dataset *set);

/* Fills x, n x features and row-major, with the given rows. Pixels are standardised: mean 0 and
 * deviation 1 over all pixels of the training set. Absent columns are 0. */
void data_fill(const struct dataset *set, const uint32_t *rows, size_t n, float *x);

/* The loaders. They leave labels as written and fill class_value. The caller zeroed *set. */

/* Loads directory/{prefix}-images-idx3-ubyte and directory/{prefix}-labels-idx1-ubyte, each
 * plain or .gz. */
int idx_load(const char *folder, const char *prefix, uint64_t limit, struct dataset *set,
	     struct complaint *complaint);

/* Loads lines "LABEL INDEX:VALUE ...", with indices ascending from 1. features: 0 to take the
 * largest index, else the width of the training set (larger indices are dropped and counted). */
int libsvm_load(const char *path, uint64_t limit, size_t features, struct dataset *set,
		struct complaint *complaint);
#endif
