/* SPDX-License-Identifier: BSD-3-Clause
 * The descriptor that a sleeping rank waits for: an epoll instance over an eventfd (or a pipe,
 * which peers can open), a timer, and the descriptors that a transport adds. All transports use it.
 * One thread at a time calls these functions, except wakeup_fd() and the functions that wake. */
#ifndef RDMA_WAKEUP_H
#define RDMA_WAKEUP_H
#include <stdint.h>

/* A descriptor that wakes a thread. Only wakeup.c reads the members. */
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
/* Accepts WAKEUP_NONE, and a wakeup that wakeup_open() failed to open. */
void wakeup_close(struct wakeup *w);
/* Opens the timer that wakeup_arm() needs for ticks. A second call changes nothing. */
int wakeup_open_timer(struct wakeup *w);

enum { WAKEUP_NO_ID = INT32_MAX, WAKEUP_BATCH = 16 };
/* Adds a descriptor. id is the rank to which the descriptor belongs, or WAKEUP_NO_ID;
 * wakeup_ready() returns it. With only_changes, a descriptor that stays readable wakes only
 * once. */
int wakeup_watch(const struct wakeup *w, int fd, int id, int only_changes);
void wakeup_unwatch(const struct wakeup *w, int fd);
/* Writes the ids of up to WAKEUP_BATCH readable descriptors. Never waits. */
int wakeup_ready(const struct wakeup *w, int ids[WAKEUP_BATCH]);

/* Called before sleeping. tick_ns: the period of the timer; 0: no timer. */
void wakeup_arm(struct wakeup *w, int tick_ns);
/* After sleeping. */
void wakeup_disarm(struct wakeup *w);
/* Called if no thread slept. A running timer causes one spurious wake-up of the next sleeper. */
static inline void wakeup_cancel(struct wakeup *w)
{
	w->armed = 0;
}

/* Returns the descriptor that becomes readable. */
int wakeup_fd(const struct wakeup *w);
/* Returns the descriptor that peers open, if the kind is WAKEUP_PIPE. */
int wakeup_pipe(const struct wakeup *w);

/* Any thread, and a signal handler, may call these two functions. */
void wakeup_wake(const struct wakeup *w);
void wakeup_write(int write_fd);

/* If a thread sleeps, wakes it for an event that this transport made itself. */
static inline void wakeup_if_armed(struct wakeup *w)
{
	if (!w->armed)
		return;
	w->armed = 0;
	wakeup_wake(w);
}
#endif
