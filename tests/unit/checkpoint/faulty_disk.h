/* SPDX-License-Identifier: BSD-3-Clause
 * A disk that fails: open, write, fsync, rename, close, mkdir, unlink, unlinkat and rmdir are
 * wrapped by the linker and counted; at the n-th one the process dies as in a power failure (what
 * was not synchronised is lost), or the call fails. For test_checkpoint_crash.c. */
#ifndef TESTS_FAULTY_DISK_H
#define TESTS_FAULTY_DISK_H
#include "scratch.h"

/* None, the process dies, the call fails, writes of one byte each. */
enum fault { FAULT_NONE, FAULT_CRASH, FAULT_ERROR, FAULT_SHORT };
enum { CRASHED = 99 }; /* the exit status after a crash */

struct disk {
	enum fault fault;
	int at, error; /* which call, with which errno */
	int calls;
	/* LATEST was replaced, or an old file removed, before what replaces it was on disk. */
	int too_early;
	int hit_write, hit_close; /* the call that failed was one of a file being written */
	/* Files written and not synchronised: a second descriptor each, for the crash. */
	struct {
		int fd, again, dirty;
	} files[16];
	/* Folders with names that are not synchronised. */
	char folders[16][SCRATCH_PATH];
	int n_folders;
};

extern struct disk disk;

/* From here on calls are counted, and the at-th strikes (0: none), with this errno. */
void arm(enum fault fault, int at, int error);
void disarm(void);
int anything_unsynchronised(void);
#endif
