/* SPDX-License-Identifier: BSD-3-Clause
 * Data files for the loaders' tests, plain or gzip, in a folder that group setup and teardown make
 * and remove. */
#ifndef TESTS_TRAIN_FILES_H
#define TESTS_TRAIN_FILES_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char files_folder[512];

static int files_begin(void **state)
{
	const char *parent = getenv("TMPDIR");

	(void)state;
	snprintf(files_folder, sizeof(files_folder), "%s/sluice-test-XXXXXX",
		 parent ? parent : "/tmp");
	return mkdtemp(files_folder) ? 0 : -1;
}

/* Returns a path that is valid until three more calls. */
static const char *files_path(const char *name)
{
	static char path[4][1024];
	static unsigned next;

	next = (next + 1) % 4;
	snprintf(path[next], sizeof(path[next]), "%s/%s", files_folder, name);
	return path[next];
}

/* The tests write only files with names in this list. */
static int files_remove(void **state)
{
	static const char *const names[] = {
		"train-images-idx3-ubyte",
		"train-labels-idx1-ubyte",
		"t10k-images-idx3-ubyte",
		"t10k-labels-idx1-ubyte",
		"train-images-idx3-ubyte.gz",
		"train-labels-idx1-ubyte.gz",
		"t10k-images-idx3-ubyte.gz",
		"t10k-labels-idx1-ubyte.gz",
		"train.txt",
		"test.txt",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(files_path(names[i]));
	return 0;
}

static int files_end(void **state)
{
	files_remove(state);
	return rmdir(files_folder);
}

static int files_write(const char *name, const void *bytes, size_t n)
{
	FILE *file = fopen(files_path(name), "wb");
	int rc = !file || fwrite(bytes, 1, n, file) != n;

	if (file)
		rc |= fclose(file);
	return rc;
}

static int files_write_gzip(const char *name, const void *bytes, size_t n)
{
	gzFile file = gzopen(files_path(name), "wb");
	int rc = !file || gzwrite(file, bytes, (unsigned)n) != (int)n;

	if (file)
		rc |= gzclose(file) != Z_OK;
	return rc;
}

/* Cuts the file to its first `keep` bytes. */
static inline int files_cut(const char *name, long keep)
{
	return truncate(files_path(name), keep);
}
#endif
