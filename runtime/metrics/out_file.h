/* SPDX-License-Identifier: BSD-3-Clause
 * Files that the library writes for other programs: their names, and replacing them at once. */
#ifndef RUNTIME_OUT_FILE_H
#define RUNTIME_OUT_FILE_H
#include <limits.h>
#include <stdio.h>

struct out_words {
	const char *job;  /* %j */
	const char *node; /* %n */
	int rank;         /* %r */
};

/* Writes the path that the pattern stands for: %j, %n and %r are replaced, %% is a percent sign,
 * and a relative path begins at the current directory. A slash in a word becomes an underscore.
 * Returns NULL, or why there is no path. */
const char *out_path(const char *pattern, const struct out_words *words, char out[PATH_MAX]);

struct out_file {
	FILE *to;
	char path[PATH_MAX], temporary[PATH_MAX + 32];
};
/* Creates a file next to the path. for_all_users: every user may read it, whatever the umask is.
 * Returns 0, or -1 with the reason in errno, which is EINVAL if the path is no regular file. */
int out_begin(struct out_file *file, const char *path, int for_all_users);
/* Replaces the file at the path by the new one. keep 0: removes the new one. Returns 0, or -1 with
 * the reason in errno. */
int out_end(struct out_file *file, int keep);
#endif
