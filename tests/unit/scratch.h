/* SPDX-License-Identifier: BSD-3-Clause
 * A temporary directory for tests that write files, and helpers to read and damage them. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SCRATCH_PATH = 512, SCRATCH_FILE = 1 << 16 };

static inline int scratch_remove_one(const char *path, const struct stat *st, int kind,
				     struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

static inline void scratch_remove(const char *dir)
{
	nftw(dir, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Returns 0, or -1 without a path. The path is absolute and has no symbolic links. */
static inline int scratch_make(char path[SCRATCH_PATH])
{
	const char *base = getenv("TMPDIR");
	char name[SCRATCH_PATH], *real;

	if (!base || !*base) /* the default is the build tree, so that files of interrupted tests
				stay there */
		base = ".";
	snprintf(name, sizeof name, "%s/sluice-test-XXXXXX", base);
	if (!mkdtemp(name) || !(real = realpath(name, NULL)))
		return -1;
	snprintf(path, SCRATCH_PATH, "%s", real);
	free(real);
	return 0;
}

/* Reads a small file. Returns its length, or -1 if it cannot be read. */
static inline long scratch_read(const char *path, uint8_t out[SCRATCH_FILE])
{
	FILE *f = fopen(path, "rb");

	if (!f)
		return -1;
	size_t n = fread(out, 1, SCRATCH_FILE, f);
	fclose(f);
	return (long)n;
}

static inline int scratch_write(const char *path, const void *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");

	if (!f)
		return -1;
	size_t written = fwrite(bytes, 1, n, f);
	return fclose(f) || written != n ? -1 : 0;
}

/* The number of files and directories below a directory. */
struct scratch_count {
	int files, folders, partial; /* partial: names that end in .tmp */
};

static struct scratch_count scratch_counted;

static inline int scratch_count_one(const char *path, const struct stat *st, int kind,
				    struct FTW *at)
{
	size_t n = strlen(path);

	(void)st;
	if (at->level == 0)
		return 0;
	scratch_counted.files += kind == FTW_F;
	scratch_counted.folders += kind == FTW_D;
	scratch_counted.partial += n > 4 && !strcmp(path + n - 4, ".tmp");
	return 0;
}

static inline struct scratch_count scratch_count(const char *dir)
{
	scratch_counted = (struct scratch_count){ 0 };
	nftw(dir, scratch_count_one, 16, FTW_PHYS);
	return scratch_counted;
}
#endif
