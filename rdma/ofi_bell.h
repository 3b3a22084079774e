/* SPDX-License-Identifier: BSD-3-Clause
 * What a rank sleeps on that waits for libfabric: one epoll over the descriptor of the completion
 * queue, a timer and an eventfd. Called by ofi.c, with its lock held but for ofi_bell_ring() and
 * ofi_bell_fd(). */
#ifndef RDMA_OFI_BELL_H
#define RDMA_OFI_BELL_H

struct ofi_bell {
	int epoll, timer, wake_fd; /* -1: not open */
	int armed, timer_runs;
};
#define OFI_BELL_NONE ((struct ofi_bell){ .epoll = -1, .timer = -1, .wake_fd = -1 })

/* fd: of the completion queue; -1: there is none. 0 or SLUICE_E*. */
int ofi_bell_open(struct ofi_bell *bell, int fd);
void ofi_bell_close(struct ofi_bell *bell);

/* Forgets what the completion queue's descriptor said so far. It is called before the last look at
 * the queue: what comes after that look wakes. */
void ofi_bell_clear(const struct ofi_bell *bell);
/* Somebody is going to sleep; tick_ns: the descriptor becomes readable so often; 0: not by time. */
void ofi_bell_arm(struct ofi_bell *bell, int tick_ns);
/* Nobody slept. A timer that runs wakes the next sleeper once for nothing. */
void ofi_bell_cancel(struct ofi_bell *bell);
void ofi_bell_disarm(struct ofi_bell *bell);
static inline int ofi_bell_armed(const struct ofi_bell *bell)
{
	return bell->armed;
}
int ofi_bell_fd(const struct ofi_bell *bell);
/* Any thread may call it, and a signal handler. */
void ofi_bell_ring(const struct ofi_bell *bell);
#endif
