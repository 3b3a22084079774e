/* SPDX-License-Identifier: BSD-3-Clause
 * Training and test rows in memory: pixels of IDX files, the sparse rows of LIBSVM text, or places
 * of a text. Loaders return raw labels; data_load() converts them for the task of the model. */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H
#include "tools/train/complaint.h"

#include <stddef.h>
#include <stdint.h>

enum { TEXT_CONTEXT = 16 }; /* number of symbols from which the next is predicted */

enum task {
	TASK_CLASSES, /* one of several classes: labels become class numbers */
	TASK_SIGN,    /* one of two classes: labels become 0 or 1 */
	TASK_VALUE,   /* a number: labels are not changed */
	TASK_TEXT     /* the next symbol of a text: the file is a text, and symbols are classes */
};

struct dataset {
	char path[4096]; /* file of the labels, for messages */
	size_t rows, features;
	uint8_t *pixels;       /* IDX: rows x features */
	uint8_t *text;         /* text: the number of each symbol; else NULL */
	size_t places;         /* text: the rows are spread evenly over this many places */
	float brightness[256]; /* the value that replaces each pixel value */
	size_t *row_start;     /* LIBSVM: rows + 1 positions in column and value */
	uint32_t *column;
	float *value;
	uint32_t *line; /* LIBSVM: line number of each row; NULL for IDX */
	float *label;
	float *class_value; /* the label of each class as written, ascending; NULL if not whole
			       numbers */
	size_t classes;     /* text: number of different symbols */
	uint64_t dropped;   /* LIBSVM: number of test values whose column is not in the training
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
 * 0 and deviation 1 over all pixels of the training set. Absent columns are 0. In a text, each
 * place of the context has a column for each symbol. The column of the symbol at that place is 1,
 * and the others are 0. */
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

/* Loads a text: the first nine tenths of its bytes into train, and 8000 places (or all, if there
 * are fewer) of the rest into test, which is left empty if it is NULL. Symbols are bytes, in
 * ascending order. limit: number of training rows; 0: all. */
int text_load(const char *path, uint64_t limit, struct dataset *train, struct dataset *test,
	      struct complaint *complaint);
/* Returns the context of a row of a text. The next symbol follows it. */
static inline const uint8_t *text_place(const struct dataset *set, size_t row)
{
	return set->text + (uint64_t)row * set->places / set->rows;
}
#endif
