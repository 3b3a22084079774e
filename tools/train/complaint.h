/* SPDX-License-Identifier: BSD-3-Clause
 * A sentence for the user about an error in an option or a file. Options, loaders and models fill
 * one in; main.c prints it once for all ranks (see agree.h). */
#ifndef TRAIN_COMPLAINT_H
#define TRAIN_COMPLAINT_H

enum { COMPLAINT_BYTES = 480 };

struct complaint {
	char text[COMPLAINT_BYTES]; /* "" if there is no complaint */
};

/* Fills in the sentence and returns -1, so that a failing check can be one return statement. */
int complain(struct complaint *complaint, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* As complain(), with the text "out of memory for WHAT". */
int complain_memory(struct complaint *complaint, const char *what);
#endif
