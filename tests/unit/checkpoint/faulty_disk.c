/* SPDX-License-Identifier: BSD-3-Clause
 * See faulty_disk.h. */
#include "faulty_disk.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct disk disk;

int __real_open(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *bytes, size_t n);
int __real_fsync(int fd);
int __real_close(int fd);
int __real_rename(const char *from, const char *to);
int __real_mkdir(const char *path, mode_t mode);
int __real_unlink(const char *path);
int __real_unlinkat(int fd, const char *path, int flags);
int __real_rmdir(const char *path);
int __wrap_open(const char *path, int flags, ...);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
int __wrap_fsync(int fd);
int __wrap_close(int fd);
int __wrap_rename(const char *from, const char *to);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_unlink(const char *path);
int __wrap_unlinkat(int fd, const char *path, int flags);
int __wrap_rmdir(const char *path);

/* Simulates a power failure: the length of files that were not synchronised never reached the
 * disk. */
static void crash(void)
{
	for (size_t i = 0; i < sizeof disk.files / sizeof *disk.files; i++)
		if (disk.files[i].dirty && ftruncate(disk.files[i].again, 0))
			_exit(1);
	_exit(CRASHED);
}

/* Returns 1 if this call must fail, with errno set. */
static int strikes(void)
{
	if (disk.fault == FAULT_NONE || ++disk.calls != disk.at)
		return 0;
	if (disk.fault == FAULT_CRASH)
		crash();
	errno = disk.error;
	return disk.fault == FAULT_ERROR;
}

static void name_changed(const char *path)
{
	char *name = disk.folders[disk.n_folders];
	const char *slash = strrchr(path, '/');

	if (disk.fault == FAULT_NONE || disk.n_folders == 15)
		return;
	snprintf(name, SCRATCH_PATH, "%.*s", (int)(slash - path), path);
	disk.n_folders++;
}

static void synchronised(int fd)
{
	char link[64], path[SCRATCH_PATH];

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	path[n > 0 ? n : 0] = '\0';
	for (int i = 0; i < disk.n_folders;) {
		if (strcmp(disk.folders[i], path)) {
			i++;
			continue;
		}
		memcpy(disk.folders[i], disk.folders[--disk.n_folders], SCRATCH_PATH);
	}
	for (size_t i = 0; i < sizeof disk.files / sizeof *disk.files; i++)
		if (disk.files[i].fd == fd)
			disk.files[i].dirty = 0;
}

int anything_unsynchronised(void)
{
	int any = disk.n_folders;

	for (size_t i = 0; i < sizeof disk.files / sizeof *disk.files; i++)
		any += disk.files[i].dirty;
	return any;
}

int __wrap_open(const char *path, int flags, ...)
{
	va_list arguments;

	va_start(arguments, flags);
	unsigned mode = flags & O_CREAT ? va_arg(arguments, unsigned) : 0;
	va_end(arguments);
	if (strikes())
		return -1;
	return __real_open(path, flags, mode);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
	int before = disk.calls, fails = strikes();

	if (disk.fault == FAULT_NONE)
		return __real_write(fd, bytes, n);
	if (disk.fault == FAULT_SHORT) { /* writes one byte at a time, interrupted before each */
		if (before % 2 == 0) {
			errno = EINTR;
			return -1;
		}
		return __real_write(fd, bytes, 1);
	}
	if (fails) { /* the previous call has written the part that fits */
		disk.hit_write = 1;
		return -1;
	}
	for (size_t i = 0; i < sizeof disk.files / sizeof *disk.files; i++) {
		if (disk.files[i].dirty)
			continue;
		if (disk.files[i].again > 0)
			__real_close(disk.files[i].again);
		disk.files[i].fd = fd;
		disk.files[i].again = dup(fd);
		disk.files[i].dirty = 1;
		break;
	}
	return __real_write(fd, bytes, n);
}

int __wrap_fsync(int fd)
{
	if (strikes())
		return -1;
	synchronised(fd);
	return __real_fsync(fd);
}

int __wrap_close(int fd)
{
	int fails = strikes();

	if (fails && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY)
		disk.hit_close = 1;
	__real_close(fd); /* Linux closes it even if close() fails */
	return fails ? -1 : 0;
}

int __wrap_rename(const char *from, const char *to)
{
	if (strikes())
		return -1;
	if (disk.fault != FAULT_NONE && strstr(to, "/LATEST"))
		disk.too_early |= anything_unsynchronised();
	name_changed(to);
	return __real_rename(from, to);
}

int __wrap_mkdir(const char *path, mode_t mode)
{
	if (strikes())
		return -1;
	int rc = __real_mkdir(path, mode);
	if (!rc)
		name_changed(path);
	return rc;
}

int __wrap_unlink(const char *path)
{
	return strikes() ? -1 : __real_unlink(path);
}

int __wrap_unlinkat(int fd, const char *path, int flags)
{
	if (strikes())
		return -1;
	if (disk.fault != FAULT_NONE) /* before an old file is removed, the new LATEST must be
					 safe */
		disk.too_early |= anything_unsynchronised();
	return __real_unlinkat(fd, path, flags);
}

int __wrap_rmdir(const char *path)
{
	return strikes() ? -1 : __real_rmdir(path);
}

void arm(enum fault fault, int at, int error)
{
	for (size_t i = 0; i < sizeof disk.files / sizeof *disk.files; i++)
		if (disk.files[i].again > 0)
			__real_close(disk.files[i].again);
	memset(&disk, 0, sizeof disk);
	disk.fault = fault;
	disk.at = at;
	disk.error = error;
}

void disarm(void)
{
	disk.fault = FAULT_NONE;
}
