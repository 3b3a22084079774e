/* SPDX-License-Identifier: BSD-3-Clause
 * A text, gzip or plain, of which a model predicts the next symbol. Any file will do, because
 * symbols are bytes. */
#include "tools/train/data.h"
#include "tools/train/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 1 << 20, TEST_ROWS = 8000, LONGEST_TEXT = 1 << 30 };

/* Reads the file to its end. The caller frees *out_bytes. */
static int read_all(struct input *input, uint8_t **bytes_out, size_t *n_out,
		    struct complaint *complaint)
{
	size_t capacity = 0, n = 0;
	ssize_t got;

	*bytes_out = NULL;
	do {
		uint8_t *bytes;

		if (n == LONGEST_TEXT)
			return complain(complaint,
					"%s is longer than the %d bytes that a text may have",
					input->path, LONGEST_TEXT - 1);
		capacity = capacity ? 2 * capacity : FIRST_BYTES;
		bytes = realloc(*bytes_out, capacity);
		if (!bytes)
			return complain_memory(complaint, "the text");
		*bytes_out = bytes;
		got = input_some(input, bytes + n, capacity - n, complaint);
		n += got > 0 ? (size_t)got : 0;
	} while (got > 0 && n == capacity);
	*n_out = n;
	return got < 0 ? -1 : 0;
}

/* Replaces each byte by the number of its symbol. Returns the number of symbols. */
static size_t number_symbols(uint8_t *bytes, size_t n)
{
	uint8_t number[256] = { 0 };
	size_t symbols = 0;

	for (size_t i = 0; i < n; i++)
		number[bytes[i]] = 1;
	for (size_t i = 0; i < sizeof(number); i++)
		if (number[i])
			number[i] = (uint8_t)symbols++;
	for (size_t i = 0; i < n; i++)
		bytes[i] = number[bytes[i]];
	return symbols;
}

/* Makes rows from a part of the text, of which n > TEXT_CONTEXT. */
static int make_rows(struct dataset *set, const char *path, const uint8_t *text, size_t n,
		     size_t symbols, size_t rows, struct complaint *complaint)
{
	snprintf(set->path, sizeof(set->path), "%s", path);
	set->rows = rows;
	set->features = TEXT_CONTEXT * symbols;
	set->classes = symbols;
	set->places = n - TEXT_CONTEXT;
	set->text = malloc(n);
	set->label = malloc(rows * sizeof(*set->label));
	if (!set->text || !set->label)
		return complain_memory(complaint, "the text");
	memcpy(set->text, text, n);
	for (size_t row = 0; row < rows; row++)
		set->label[row] = text_place(set, row)[TEXT_CONTEXT];
	return 0;
}

static int make_sets(const char *path, uint64_t limit, uint8_t *bytes, size_t n,
		     struct dataset *train, struct dataset *test, struct complaint *complaint)
{
	const size_t begin = n / 10 * 9 + n % 10 * 9 / 10; /* of the test part */
	const size_t symbols = number_symbols(bytes, n);
	size_t rows, test_rows;

	if (!n)
		return complain(complaint, "%s is empty: --model char:FILE takes a text", path);
	if (n - begin <= TEXT_CONTEXT)
		return complain(complaint,
				"%s is too short, with %zu bytes: the last tenth of a text is for "
				"testing, and needs more than the %d bytes of a context",
				path, n, TEXT_CONTEXT);
	if (symbols == 1)
		return complain(complaint, "%s has only one symbol, so there is nothing to predict",
				path);
	rows = begin - TEXT_CONTEXT;
	test_rows = n - begin - TEXT_CONTEXT;
	rows = limit && limit < rows ? (size_t)limit : rows;
	if (make_rows(train, path, bytes, rows + TEXT_CONTEXT, symbols, rows, complaint))
		return -1;
	return test ? make_rows(test, path, bytes + begin, n - begin, symbols,
				test_rows < TEST_ROWS ? test_rows : TEST_ROWS, complaint) :
		      0;
}

int text_load(const char *path, uint64_t limit, struct dataset *train, struct dataset *test,
	      struct complaint *complaint)
{
	struct input input;
	uint8_t *bytes;
	size_t n = 0;
	int rc;

	if (input_open(&input, path, complaint))
		return -1;
	rc = read_all(&input, &bytes, &n, complaint);
	input_close(&input);
	if (!rc)
		rc = make_sets(path, limit, bytes, n, train, test, complaint);
	free(bytes);
	return rc;
}
