/* SPDX-License-Identifier: BSD-3-Clause
 * A file that is there whole or not at all, after any crash: written under another name beside its
 * place, synchronised, renamed, and the rename synchronised. Called by the checkpoint files. */
#ifndef RUNTIME_DURABLE_H
#define RUNTIME_DURABLE_H
#include <stddef.h>
#include <stdint.h>

enum { DURABLE_PATH_BYTES = 1024 };

struct durable {
	char path[DURABLE_PATH_BYTES];
	char temporary[DURABLE_PATH_BYTES]; /* path + draft + ".tmp" */
	int fd;                             /* -1: nothing is open, nothing is left behind */
};

/* Each returns 0 or SLUICE_EIO with path, call, reason and remedy named; a failure abandons the
 * file: the temporary one is closed and removed, what lay at path before is untouched. (Only when
 * the last sync of the commit fails, path is new already, and complete.) */
int durable_open(struct durable *file, const char *path, const char *draft);
int durable_write(struct durable *file, const void *bytes, size_t n);
int durable_commit(struct durable *file);
/* Removes the temporary file, keeps the thread's last error; a second call does nothing. */
void durable_abandon(struct durable *file);

/* Makes names that were created, renamed or removed in the folder permanent. */
int durable_sync_folder(const char *path);
/* SLUICE_EIO for errno: "CALL of PATH failed: REASON; REMEDY". */
int durable_failed(const char *call, const char *path);
#endif
