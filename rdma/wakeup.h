/* SPDX-License-Identifier: BSD-3-Clause
 * The descriptor that a sleeping rank waits for: an epoll instance over an eventfd (or a pipe,
 * which peers can open), a timer, and the descriptors that a transport adds. All transports use it.
 * One thread at a time calls these functions, except wakeup_fd() and those that wake. */
#ifndef RDMA_WAKEUP_H
#define RDMA_WAKEUP_H
#include <stdint.h>

/* Only wakeup.c reads the members. */
struct wakeup {
	const char *owner; /* the transport, for messages */
	int epoll, read_fd, write_fd, timer;
	int armed, timer_runs;
};
#define WAKEUP_NONE ((struct wakeup){ NULL, -1, -1, -1, -1, 0, 0 })

enum wakeup_kind {
	WAKEUP_EVENT,
	WAKEUP_PIPE /* a peer on this machine opens its write end through /proc */
};
int wakeup_open(struct wakeup *w, enum wakeup_kind kind, const char *owner);
/* Accepts WAKEUP_NONE, and what a failed wakeup_open() left. */
void wakeup_close(struct wakeup *w);
/* Makes the ticks of wakeup_arm() possible. A second call changes nothing. */
int wakeup_open_timer(struct wakeup *w);

enum { WAKEUP_NO_ID = INT32_MAX, WAKEUP_BATCH = 16 };
/* Adds a descriptor. wakeup_ready() returns the id, unless it is WAKEUP_NO_ID. only_changes: a
 * descriptor that stays readable wakes only once. */
int wakeup_watch(const struct wakeup *w, int fd, int id, int only_changes);
void wakeup_unwatch(const struct wakeup *w, int fd);
/* The ids of up to WAKEUP_BATCH readable descriptors. It never waits. */
int wakeup_ready(const struct wakeup *w, int ids[WAKEUP_BATCH]);

/* Before sleeping. tick_ns: the period of the timer; 0: no timer. */
void wakeup_arm(struct wakeup *w, int tick_ns);
/* After sleeping. */
void wakeup_disarm(struct wakeup *w);
/* Nobody slept. A running timer wakes the next sleeper once without a reason. */
static inline void wakeup_cancel(struct wakeup *w)
{
	w->armed = 0;
}

/* What becomes readable. */
int wakeup_fd(const struct wakeup *w);
/* What peers open, of WAKEUP_PIPE. */
int wakeup_pipe(const struct wakeup *w);

/* Any thread may call these two, and a signal handler. */
void wakeup_wake(const struct wakeup *w);
void wakeup_write(int write_fd);

/* Wakes a sleeper, if there is one, for an event that this transport made itself. */
static inline void wakeup_if_armed(struct wakeup *w)
{
	if (!w->armed)
		return;
	w->armed = 0;
	wakeup_wake(w);
}
#endif
