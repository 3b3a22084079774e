/* SPDX-License-Identifier: BSD-3-Clause
 * Another process on this machine: who exactly it is, when it ends, and how to open a file of its
 * file table. Used by shm.c; every failure says what to change on the machine. */
#ifndef RDMA_PROCESS_H
#define RDMA_PROCESS_H
#include <stdint.h>
#include <sys/types.h>

struct process {
	pid_t pid;
	uint32_t uid;
	uint64_t start_time;    /* clock ticks since boot; differs when the pid was reused */
	uint64_t pid_namespace; /* inode number, 0 unknown */
};

/* This process. Errors: SLUICE_ENOSUPP (no /proc). */
int process_identify(struct process *out);

/* A pidfd of the process, readable once it ended; checked to be this very process and not a later
 * one of the same number. -1 where there is no pidfd_open(2) (Linux before 5.3, a sandbox, valgrind
 * before 3.20): then ask process_ended() from time to time. rank is for messages. Errors:
 * SLUICE_EPEER (ended), SLUICE_ENOSUPP (other pid or time namespace), SLUICE_ENOMEM (descriptors).
 */
int process_watch(const struct process *process, int rank, int *pidfd_out);

/* 1 once the process has ended, reaped or not. */
int process_ended(const struct process *process);

/* Opens file number fd of the process anew, with open(2) flags (close-on-exec and non-blocking are
 * added). what names it in messages. Errors: as above and SLUICE_EDEVICE (not permitted). */
int process_open_file(pid_t pid, int rank, int fd, int flags, const char *what, int *fd_out);
#endif
