/* SPDX-License-Identifier: BSD-3-Clause
 * Functions for tests of rdma/: checks that also work in a forked child, a pair of real processes
 * connected by a transport, waits with a deadline, and counts of a process's files and mappings. */
#ifndef TESTS_RDMA_PAIR_H
#define TESTS_RDMA_PAIR_H
#include "rdma/transport.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { DEADLINE_MS = 60000 };

/* Fails the test in the process that runs it; in a forked child, prints a message and ends the
 * child. */
void check_at(int holds, const char *text, const char *file, int line);
#define CHECK(condition) check_at((condition) != 0, #condition, __FILE__, __LINE__)

struct side {
	int rank;   /* parent 0, child 1 */
	int socket; /* to the other side */
	struct transport *t;
	struct endpoint *e; /* to the other side */
};

/* The transport of pairs; shm unless a test sets another one. */
extern const struct transport_ops *pair_ops;
extern int pair_lost_after_ms; /* DEADLINE_MS */

/* Forks. The child runs body on its connected side and ends with body's return value as its status.
 * Gives the parent its side and the child's pid. */
pid_t pair_start(struct side *side, uint32_t queue_depth, int (*body)(struct side *));
/* Closes the parent's side and waits for the child, which must have returned 0. */
void pair_end(struct side *side, pid_t child);
void side_close(struct side *side);
/* Waits at most DEADLINE_MS for the child and returns its wait status. */
int child_status(pid_t child);

/* Called on both sides: sends bytes to the other side and receives the same number. */
void swap_bytes(const struct side *side, const void *mine, void *theirs, size_t n);
void meet(const struct side *side);
/* Called on both sides: describes a region to the other side, and opens the other side's region. */
struct remote *swap_regions(const struct side *side, const struct region *mine);

/* Returns the next event, within DEADLINE_MS. Sleeps on the transport's fd in between. */
struct event next_event(struct transport *t);
/* Posts a transfer, which must return 0. The caller must leave room in the queue. */
void post_now(struct endpoint *e, struct transfer transfer);

/* Returns 1 if fd becomes readable within timeout_ms. */
int readable(int fd, int timeout_ms);
int open_files(void);
/* Returns the number of lines in /proc/self/maps that contain text. */
int mappings_of(const char *text);

/* Fills with a pattern that depends on seed. */
void fill(uint8_t *bytes, size_t n, uint64_t seed);
int filled(const uint8_t *bytes, size_t n, uint64_t seed);
uint64_t scramble(uint64_t x);

/* Discards log lines in tests of refusals. Returns their number since the last call. */
int quiet_log(void);
/* Returns a transfer between the beginning of the local region and an offset of the remote one. */
struct transfer transfer_of(enum transfer_kind kind, struct remote *remote, uint64_t offset,
			    const struct region *local, size_t bytes);
/* Both end the process if they fail. next_imm() waits for the next event, which must be this notice
 * from the other side. */
struct region *new_region(size_t bytes, unsigned access);
struct event next_imm(struct side *side, uint32_t imm);
#endif
