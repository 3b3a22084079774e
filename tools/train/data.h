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
	TASK_SIGN,    /* one of two classes: labels become 0 or 1 */
	TASK_VALUE    /* a number: labels are not changed */
};

struct dataset {
	char path[4096]; /* file of the labels, for messages */
	size_t rows, features;
	uint8_t *pixels;       /* IDX: rows x features; NULL: the sparse rows below are used */
	float brightness[256]; /* the value that replaces each pixel value */
	size_t *row_start;     /* rows + 1 positions in column and value */
	uint32_t *column;
	float *value;
	uint32_t *line; /* LIBSVM: line number of each row; NULL for IDX */
	float *label;
	float *class_value; /* the label of each class as written, ascending; NULL if not whole
			       numbers */
	size_t classes;
	uint64_t dropped; /* LIBSVM: number of test values whose column is not in the training
			     set */
};

struct data_source {
	const char *data; /* directory or file */
	const char *test; /* or NULL */
	uint64_t limit;   /* number of training rows to use; 0: all */
	int without_test; /* 1: a dedicated server, which needs only the shape */
};

/* Loads both sets. test->rows is 0 if there is no test set. Returns 0, or -1 with the complaint
 * filled in. The caller may always call data_free() on both sets. */
int data_load(const struct data_source *source, enum task task, struct dataset *train,
	      struct dataset *test, struct complaint *complaint);
void data_free(struct dataset *set);

/* Fills x, which is n x features and row-major, with the given rows. Pixels are standardised: mean
 * 0 and deviation 1 over all pixels of the training set. Absent columns are 0. */
void data_fill(const struct dataset *set, const uint32_t *rows, size_t n, float *x);

/* The loaders do not change labels, and fill class_value. The caller has zeroed *set. */

/* Loads directory/{prefix}-images-idx3-ubyte and directory/{prefix}-labels-idx1-ubyte, each
 * plain or .gz. */
int idx_load(const char *folder, const char *prefix, uint64_t limit, struct dataset *set,
	     struct complaint *complaint);

/* Loads lines "LABEL INDEX:VALUE ...", with indices ascending from 1. features: the width of the
 * training set, or 0 for the largest index in the file. Larger indices are dropped and counted. */
int libsvm_load(const char *path, uint64_t limit, size_t features, struct dataset *set,
		struct complaint *complaint);
#endif
