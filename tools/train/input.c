/* SPDX-License-Identifier: BSD-3-Clause
 * Data files through zlib, which reads plain files as well. */
#include "tools/train/input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { READ_BUFFER_BYTES = 1 << 18, FIRST_LINE_BYTES = 1 << 12 };

/* The longest line that is accepted. LIBSVM text has no longer lines. */
#define LONGEST_LINE_BYTES ((size_t)1 << 30)

int input_open(struct input *input, const char *path, struct complaint *complaint)
{
	struct stat status;

	memset(input, 0, sizeof(*input));
	snprintf(input->path, sizeof(input->path), "%s", path);
	input->file = gzopen(path, "rbe");
	if (!input->file)
		return complain(complaint, "cannot open %s: %s", path, strerror(errno));
	if (stat(path, &status) == 0)
		input->stored_bytes = (uint64_t)status.st_size;
	gzbuffer(input->file, READ_BUFFER_BYTES);
	return 0;
}

void input_close(struct input *input)
{
	if (input->file)
		gzclose_r(input->file);
	free(input->line);
	memset(input, 0, sizeof(*input));
}

/* Called when zlib returned fewer bytes than requested. Fills in the complaint, or returns 0 at
 * a proper end of the stream. */
static int complain_about_stream(struct input *input, struct complaint *complaint)
{
	int code, saved = errno;
	const char *text = gzerror(input->file, &code);

	switch (code) {
	case Z_OK:
	case Z_STREAM_END: return 0;
	case Z_BUF_ERROR:
		return complain(complaint,
				"%s is truncated: the gzip data ends too early; fetch it again",
				input->path);
	case Z_ERRNO:
		return complain(complaint, "cannot read %s: %s", input->path, strerror(saved));
	default:
		return complain(complaint, "%s is damaged gzip data (%s); fetch it again",
				input->path, text);
	}
}

ssize_t input_some(struct input *input, void *to, size_t bytes, struct complaint *complaint)
{
	size_t done = 0;

	while (done < bytes) {
		size_t left = bytes - done;
		int got = gzread(input->file, (char *)to + done,
				 left > 1 << 30 ? 1 << 30 : (unsigned)left);

		if (got <= 0) {
			if (complain_about_stream(input, complaint))
				return -1;
			break;
		}
		done += (size_t)got;
	}
	return (ssize_t)done;
}

int input_read(struct input *input, void *to, size_t bytes, struct complaint *complaint)
{
	ssize_t got = input_some(input, to, bytes, complaint);

	if (got < 0)
		return -1;
	if ((size_t)got < bytes)
		return complain(complaint, "%s is too short: its header announces %zu more bytes",
				input->path, bytes - (size_t)got);
	return 0;
}

int input_has_more(struct input *input, struct complaint *complaint)
{
	char byte;

	return (int)input_some(input, &byte, 1, complaint);
}

static int grow_line(struct input *input, struct complaint *complaint)
{
	size_t capacity = input->line_capacity ? 2 * input->line_capacity : FIRST_LINE_BYTES;
	char *line;

	if (capacity > LONGEST_LINE_BYTES)
		return complain(complaint, "%s has a line of more than %zu bytes: not LIBSVM text",
				input->path, input->line_capacity);
	line = realloc(input->line, capacity);
	if (!line)
		return complain_memory(complaint, "a line of the data file");
	input->line = line;
	input->line_capacity = capacity;
	return 0;
}

int input_line(struct input *input, char **line_out, struct complaint *complaint)
{
	size_t length = 0;

	if (!input->line && grow_line(input, complaint))
		return -1;
	for (;;) {
		if (!gzgets(input->file, input->line + length,
			    (int)(input->line_capacity - length))) {
			if (complain_about_stream(input, complaint))
				return -1;
			break;
		}
		length += strlen(input->line + length);
		if (length && input->line[length - 1] == '\n') {
			input->line[--length] = '\0';
			*line_out = input->line;
			return 1;
		}
		if (length + 1 < input->line_capacity) {
			/* gzgets() does not distinguish a NUL byte from a last line without a
			 * newline. */
			if (complain_about_stream(input, complaint))
				return -1;
			if (!length || !gzeof(input->file))
				return complain(complaint, "%s holds NUL bytes: not LIBSVM text",
						input->path);
			break;
		}
		if (grow_line(input, complaint))
			return -1;
	}
	*line_out = input->line;
	return length > 0;
}
