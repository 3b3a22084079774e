/* SPDX-License-Identifier: BSD-3-Clause
 * Another process on this machine: its identity, its end, and its files. Used by shm.c. Every error
 * message names what to change on the machine. */
#ifndef RDMA_PROCESS_H
#define RDMA_PROCESS_H
#include <stdint.h>
#include <sys/types.h>

struct process {
	pid_t pid;
	uint32_t uid;
	uint64_t start_time;    /* clock ticks since boot; differs if the pid was reused */
	uint64_t pid_namespace; /* inode number of the namespace; 0: unknown */
};

/* Describes this process. Fails with SLUICE_ENOSUPP if there is no /proc. */
int process_identify(struct process *out);

/* Opens a pidfd, which is readable once the process has ended. The function checks that it belongs
 * to this process, and not to a later process with the same number. *pidfd_out is -1 without
 * pidfd_open(2) (Linux before 5.3, a sandbox, valgrind before 3.20): then call process_ended()
 * regularly. rank is for messages. Fails with SLUICE_EPEER (ended), SLUICE_ENOSUPP (other pid or
 * time namespace) or SLUICE_ENOMEM (descriptors). */
int process_watch(const struct process *process, int rank, int *pidfd_out);

/* Returns 1 once the process has ended, even if its parent has not waited for it. */
int process_ended(const struct process *process);

/* Opens file number fd of the process again, with the given flags of open(2), close-on-exec and
 * non-blocking. `what` is the file's name in messages. Fails as above, or with SLUICE_EDEVICE if
 * the call is not permitted. */
int process_open_file(pid_t pid, int rank, int fd, int flags, const char *what, int *fd_out);
#endif
