/* SPDX-License-Identifier: BSD-3-Clause
 * Prepares the directory of --checkpoint, so that a job that cannot save fails at once and not
 * after hours. */
#include "tools/train/folder.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int folder_prepare(const char *path, struct complaint *complaint)
{
	char part[PATH_MAX], inside[PATH_MAX];
	size_t n = strlen(path);
	int why = 0;

	if (n == 0 || n + sizeof("/.") > sizeof(inside))
		return complain(complaint, "--checkpoint takes a directory%s",
				n ? ", and this path is too long" : ", not \"\"");
	memcpy(part, path, n + 1);
	for (size_t i = 1; i <= n; i++) {
		if (path[i] && path[i] != '/')
			continue;
		part[i] = '\0';
		if (mkdir(part, 0777) && errno != EEXIST)
			why = errno; /* reported only if the directory is missing */
		part[i] = path[i];
	}
	snprintf(inside, sizeof(inside), "%s/.", path);
	if (!access(inside, R_OK | W_OK | X_OK))
		return 0;
	return complain(
		complaint,
		"cannot write checkpoints to %s: %s; --checkpoint takes a directory that all "
		"ranks see and may write to",
		path, strerror(errno == ENOENT && why ? why : errno));
}
