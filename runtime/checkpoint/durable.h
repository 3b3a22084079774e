/* SPDX-License-Identifier: BSD-3-Clause
 * Writes a file so that after any crash it exists completely or not at all: it is written under a
 * temporary name in the same directory, synchronised and renamed, and then the rename is
 * synchronised. Called by the checkpoint files. */
#ifndef RUNTIME_DURABLE_H
#define RUNTIME_DURABLE_H
#include <stddef.h>
#include <stdint.h>

enum { DURABLE_PATH_BYTES = 1024 };

struct durable {
	char path[DURABLE_PATH_BYTES];
	char temporary[DURABLE_PATH_BYTES]; /* path + draft + ".tmp" */
	int fd;                             /* -1: no file is open, and no temporary file exists */
};

/* Each function returns 0, or SLUICE_EIO with a message that names path, call, reason and remedy.
 * After a failure the temporary file is closed and removed, and an earlier file at path has not
 * changed. There is one exception: if the last synchronization in durable_commit() fails, path
 * already has the complete new contents. */
int durable_open(struct durable *file, const char *path, const char *draft);
int durable_write(struct durable *file, const void *bytes, size_t n);
int durable_commit(struct durable *file);
/* Removes the temporary file. Does not change the thread's last error. A second call does
 * nothing. */
void durable_abandon(struct durable *file);

/* Makes the creation, renaming or removal of names in the directory permanent. */
int durable_sync_folder(const char *path);
/* Fails with SLUICE_EIO and the message "CALL of PATH failed: REASON; REMEDY", with the reason for
 * errno. */
int durable_failed(const char *call, const char *path);
#endif
