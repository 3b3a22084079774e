/* SPDX-License-Identifier: BSD-3-Clause
 * What ends the sleep of a process: a byte in its pipe, which a peer or wake() writes, and the end
 * of another process of the machine. One epoll instance holds the pipe and a pidfd for each process
 * that is watched. Where there are no pidfds a timer wakes the sleeper now and then. Called by
 * shm.c. */
#ifndef RDMA_BELL_H
#define RDMA_BELL_H

enum { BELL_TICK_MS = 100 };

/* Only bell.c looks into it. */
struct bell {
	int pipe_read, pipe_write;
	int epoll;
	int ticker; /* -1 while every process that is watched has a pidfd */
};

#define BELL_NONE ((struct bell){ -1, -1, -1, -1 })
int bell_open(struct bell *b);
/* Also after bell_open() failed, or of BELL_NONE. */
void bell_close(struct bell *b);
/* The descriptor that becomes readable. */
int bell_fd(const struct bell *b);
/* The end of the pipe that peers open to write to. */
int bell_pipe(const struct bell *b);

/* Any thread may call these, and a signal handler. */
void bell_ring(const struct bell *b);
void bell_ring_pipe(int pipe);

/* Watches the process of a rank. pidfd -1: there is none, and the sleeper is to look itself. */
int bell_watch(struct bell *b, int pidfd, int rank);
/* A pidfd stays readable for ever, so one whose process ended is to be taken out. */
void bell_unwatch(const struct bell *b, int pidfd);
/* Up to n ranks whose processes ended, of those that have a pidfd and are not taken out. */
enum { BELL_RANKS = 16 };
int bell_ended(const struct bell *b, int ranks[BELL_RANKS]);
/* Whether some process has no pidfd. */
int bell_looks(const struct bell *b);

/* Before sleeping, and after. */
void bell_sleep(const struct bell *b);
void bell_awake(const struct bell *b);
#endif
