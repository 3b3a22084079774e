/* SPDX-License-Identifier: BSD-3-Clause
 * See out_file.h. */
#include "metrics/out_file.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Appends a word without slashes. Returns 0, or -1 if there is no room. */
static int append_word(char out[PATH_MAX], size_t *n, const char *word)
{
	const size_t length = strlen(word);

	if (length >= PATH_MAX - *n)
		return -1;
	for (size_t i = 0; i <= length; i++)
		out[*n + i] = word[i] == '/' ? '_' : word[i];
	*n += length;
	return 0;
}

const char *out_path(const char *pattern, const struct out_words *words, char out[PATH_MAX])
{
	size_t n = 0;
	char rank[16];

	snprintf(rank, sizeof(rank), "%d", words->rank);
	out[0] = '\0';
	if (*pattern != '/') {
		if (!getcwd(out, PATH_MAX - 1))
			return "the current directory has no path";
		n = strlen(out);
		out[n++] = '/';
	}
	for (const char *c = pattern; *c; c++) {
		const char *word = *c != '%'   ? NULL :
				   c[1] == 'j' ? words->job :
				   c[1] == 'n' ? words->node :
				   c[1] == 'r' ? rank :
				   c[1] == '%' ? "%" :
						 "";

		if (word && !*word)
			return "only %j, %n, %r and %% may follow a percent sign";
		if (word ? append_word(out, &n, word) : n + 1 >= PATH_MAX)
			return "the path is too long";
		if (word)
			c++;
		else
			out[n++] = *c;
	}
	out[n] = '\0';
	return n && out[n - 1] == '/' ? "it names a directory" : NULL;
}

int out_begin(struct out_file *file, const char *path, int for_all_users)
{
	struct stat there;
	int fd, failed;

	/* Renaming would replace a device such as /dev/null. */
	if (!lstat(path, &there) && !S_ISREG(there.st_mode) && !S_ISLNK(there.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	snprintf(file->path, sizeof(file->path), "%s", path);
	snprintf(file->temporary, sizeof(file->temporary), "%s.%d.tmp", path, (int)getpid());
	unlink(file->temporary); /* left by an earlier process with this number */
	fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (fd < 0)
		return -1;
	/* If the reader is another user, a strict umask must not apply. */
	file->to = for_all_users && fchmod(fd, 0644) ? NULL : fdopen(fd, "w");
	if (file->to)
		return 0;
	failed = errno;
	close(fd);
	unlink(file->temporary);
	errno = failed;
	return -1;
}

int out_end(struct out_file *file, int keep)
{
	int failed = ferror(file->to) ? EIO : 0;

	if (fclose(file->to))
		failed = errno;
	file->to = NULL;
	if (!failed && keep && rename(file->temporary, file->path))
		failed = errno;
	if (failed || !keep)
		unlink(file->temporary);
	errno = failed;
	return failed ? -1 : 0;
}
