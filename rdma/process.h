/* SPDX-License-Identifier: BSD-3-Clause
 * Another process on this machine: its identity, its end, and its files. Used by shm.c. Every
 * failure says what to change on the machine. */
#ifndef RDMA_PROCESS_H
#define RDMA_PROCESS_H
#include <stdint.h>
#include <sys/types.h>

struct process {
	pid_t pid;
	uint32_t uid;
	uint64_t start_time;    /* clock ticks since boot; differs if the pid was reused */
	uint64_t pid_namespace; /* inode number; 0: unknown */
};

/* This process. Errors: SLUICE_ENOSUPP (no /proc). */
int process_identify(struct process *out);

/* A pidfd of the process, readable once it ended; checked to be of this process and not of a later
 * one of the same number. -1 without pidfd_open(2) (Linux before 5.3, a sandbox, valgrind
 * before 3.20): then call process_ended() from time to time. rank is for messages. SLUICE_EPEER
 * (ended), SLUICE_ENOSUPP (other pid or time namespace), SLUICE_ENOMEM (descriptors). */
int process_watch(const struct process *process, int rank, int *pidfd_out);

/* Returns 1 once the process has ended, reaped or not. */
int process_ended(const struct process *process);

/* Opens file number fd of the process again, with open(2) flags; close-on-exec and non-blocking are
 * added. `what` names the file in messages. Errors: as above and SLUICE_EDEVICE (not permitted). */
int process_open_file(pid_t pid, int rank, int fd, int flags, const char *what, int *fd_out);
#endif
