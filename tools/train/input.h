/* SPDX-License-Identifier: BSD-3-Clause
 * Reads a data file from beginning to end, gzip or plain (zlib detects which). Used by idx.c,
 * libsvm.c and text.c. The end of a truncated or damaged gzip file is never mistaken for a proper
 * end. */
#ifndef TRAIN_INPUT_H
#define TRAIN_INPUT_H
#include "tools/train/complaint.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <zlib.h>

struct input {
	gzFile file;
	char path[4096];
	uint64_t stored_bytes; /* size of the file on disk */
	char *line;            /* buffer of input_line() */
	size_t line_capacity;
};

/* Opens path. Returns 0, or -1 with the complaint filled in. */
int input_open(struct input *input, const char *path, struct complaint *complaint);

/* Accepts a NULL file. */
void input_close(struct input *input);

/* Reads up to `bytes` bytes. Returns the number read, which is only smaller at a proper end, or -1
 * with the complaint filled in. */
ssize_t input_some(struct input *input, void *to, size_t bytes, struct complaint *complaint);

/* Reads exactly `bytes` bytes. An earlier end of the file is an error. */
int input_read(struct input *input, void *to, size_t bytes, struct complaint *complaint);

/* Returns 1 if *line_out is the next line, without its newline and valid until the next call; 0 at
 * the end; or -1 with the complaint filled in. */
int input_line(struct input *input, char **line_out, struct complaint *complaint);

/* Returns 1 if at least one more byte follows, 0 if none does, or -1 with the complaint filled
 * in. */
int input_has_more(struct input *input, struct complaint *complaint);
#endif
