/* SPDX-License-Identifier: BSD-3-Clause
 * A disk that fails: open, write, fsync, rename, close, mkdir, unlink, unlinkat and rmdir are
 * wrapped by the linker and counted; at the n-th one the process dies as in a power failure (what
 * was not synchronised is lost), or the call fails. For test_checkpoint_crash.c. */
#ifndef TESTS_FAULTY_DISK_H
#define TESTS_FAULTY_DISK_H
#include "scratch.h"

/* No fault; the process ends; the call fails; each write writes one byte. */
enum fault { FAULT_NONE, FAULT_CRASH, FAULT_ERROR, FAULT_SHORT };
enum { CRASHED = 99 }; /* the exit status after a crash */

struct disk {
	enum fault fault;
	int at, error; /* the call that fails, and its errno */
	int calls;
	/* 1: LATEST was replaced, or an old file removed, before its replacement was on disk. */
	int too_early;
	int hit_write, hit_close; /* 1: the call that failed belonged to a file that is written */
	/* Files that are not synchronised, with a second descriptor each, for the crash. */
	struct {
		int fd, again, dirty;
	} files[16];
	/* Directories with names that are not synchronised. */
	char folders[16][SCRATCH_PATH];
	int n_folders;
};

extern struct disk disk;

/* From here on calls are counted, and call number `at` (0: none) fails with this errno. */
void arm(enum fault fault, int at, int error);
void disarm(void);
int anything_unsynchronised(void);
#endif
