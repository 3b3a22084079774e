/* SPDX-License-Identifier: BSD-3-Clause
 * A folder for one test program's files, made and removed by its group setup and teardown. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char scratch_folder[512];

static int scratch_make(void **state)
{
	const char *parent = getenv("TMPDIR");

	(void)state;
	snprintf(scratch_folder, sizeof(scratch_folder), "%s/sluice-test-XXXXXX", parent ? parent : "/tmp");
	return mkdtemp(scratch_folder) ? 0 : -1;
}

/* Valid until the next call but three. */
static const char *scratch_path(const char *name)
{
	static char path[4][1024];
	static unsigned next;

	next = (next + 1) % 4;
	snprintf(path[next], sizeof(path[next]), "%s/%s", scratch_folder, name);
	return path[next];
}

/* Files the tests write carry names from this list only. */
static int scratch_remove(void **state)
{
	static const char *const names[] = {
		"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
		"t10k-labels-idx1-ubyte", "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
		"t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", "train.txt", "test.txt",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(scratch_path(names[i]));
	return 0;
}

static int scratch_end(void **state)
{
	scratch_remove(state);
	return rmdir(scratch_folder);
}

static int scratch_write(const char *name, const void *bytes, size_t n)
{
	FILE *file = fopen(scratch_path(name), "wb");
	int rc = !file || fwrite(bytes, 1, n, file) != n;

	if (file)
		rc |= fclose(file);
	return rc;
}

static int scratch_write_gzip(const char *name, const void *bytes, size_t n)
{
	gzFile file = gzopen(scratch_path(name), "wb");
	int rc = !file || gzwrite(file, bytes, (unsigned)n) != (int)n;

	if (file)
		rc |= gzclose(file) != Z_OK;
	return rc;
}

/* Cuts the file to its first keep bytes. */
static inline int scratch_cut(const char *name, long keep)
{
	return truncate(scratch_path(name), keep);
}
#endif
