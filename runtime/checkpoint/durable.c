/* SPDX-License-Identifier: BSD-3-Clause
 * Write, fsync, rename, fsync of the directory: in this order, with every result checked. */
#include "checkpoint/durable.h"
#include "base/error.h"
#include "sluice.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *remedy(int err)
{
	switch (err) {
	case ENOSPC:
	case EDQUOT: return "free space there or choose another directory";
	case EACCES:
	case EPERM:
	case EROFS: return "choose a directory that this user may read and write";
	case ENOENT:
	case ENOTDIR:
	case ESTALE: return "it must lie in one directory that all ranks see";
	case EMFILE:
	case ENFILE: return "raise the limit of open files (ulimit -n)";
	default: return "look at the file system and the kernel log of this node";
	}
}

int durable_failed(const char *call, const char *path)
{
	int err = errno;
	return fail(SLUICE_EIO, "%s of %s failed: %s; %s", call, path, errno_text(err),
		    remedy(err));
}

int durable_open(struct durable *file, const char *path, const char *draft)
{
	file->fd = -1;
	int n = snprintf(file->temporary, sizeof file->temporary, "%s%s.tmp", path, draft);
	if (n < 0 || (size_t)n >= sizeof file->temporary) {
		errno = ENAMETOOLONG;
		return durable_failed("open", path);
	}
	memcpy(file->path, path, strlen(path) + 1);
	file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
			0600);
	if (file->fd < 0)
		return durable_failed("open", file->temporary);
	/* Sets the mode, because a crash may have left the file with another mode. File systems
	 * without modes refuse this, which is no error. */
	fchmod(file->fd, 0600);
	return 0;
}

void durable_abandon(struct durable *file)
{
	if (file->fd < 0)
		return;
	int saved_errno = errno;
	close(file->fd);
	unlink(file->temporary);
	file->fd = -1;
	errno = saved_errno;
}

static int abandon_after(struct durable *file, const char *call)
{
	durable_abandon(file);
	return durable_failed(call, file->temporary);
}

int durable_write(struct durable *file, const void *bytes, size_t n)
{
	const uint8_t *at = bytes;
	while (n) {
		ssize_t written = write(file->fd, at, n);
		if (written < 0 && errno == EINTR)
			continue;
		if (written == 0)
			errno = ENOSPC; /* write() to a regular file returned 0, which means that
					   nothing fits */
		if (written <= 0)
			return abandon_after(file, "write");
		at += written;
		n -= (size_t)written;
	}
	return 0;
}

/* Returns the directory of path; "." or "/" if path names none. */
static void parent_of(const char *path, char parent[DURABLE_PATH_BYTES])
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;
	memcpy(parent, path, n);
	parent[n] = '\0';
	if (!n)
		memcpy(parent, slash ? "/" : ".", 2);
}

int durable_commit(struct durable *file)
{
	if (fsync(file->fd))
		return abandon_after(file, "fsync");
	/* Some network file systems report a full disk only here. */
	if (close(file->fd)) {
		int err = errno;
		file->fd = -1; /* Linux has closed it even if close() failed */
		unlink(file->temporary);
		errno = err;
		return durable_failed("close", file->temporary);
	}
	file->fd = -1;
	if (rename(file->temporary, file->path)) {
		int err = errno;
		unlink(file->temporary);
		errno = err;
		return durable_failed("rename", file->temporary);
	}
	char parent[DURABLE_PATH_BYTES];
	parent_of(file->path, parent);
	return durable_sync_folder(parent);
}

int durable_sync_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return durable_failed("open", path);
	int failed = fsync(fd), err = errno;
	close(fd);
	errno = err;
	/* File systems that cannot synchronise directories return one of these errors. They offer
	 * no better way to make names permanent. */
	if (failed && err != EINVAL && err != EOPNOTSUPP)
		return durable_failed("fsync", path);
	return 0;
}
