/* SPDX-License-Identifier: BSD-3-Clause
 * See wakeup.h. */
#include "rdma/wakeup.h"
#include "base/error.h"
#include "sluice.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int wakeup_failed(const struct wakeup *w, const char *call)
{
	const int full = errno == EMFILE || errno == ENFILE;

	return fail(full || errno == ENOMEM ? SLUICE_ENOMEM : SLUICE_EDEVICE, "%s: %s: %s%s",
		    w->owner, call, errno_text(errno),
		    full ? "; raise the limit on open files (ulimit -n)" : "");
}

int wakeup_watch(const struct wakeup *w, int fd, int id, int only_changes)
{
	struct epoll_event event = { .events = EPOLLIN | (only_changes ? (uint32_t)EPOLLET : 0),
				     .data.u32 = (uint32_t)id };

	char call[48] = "epoll_ctl";

	if (!epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &event))
		return SLUICE_OK;
	if (id != WAKEUP_NO_ID)
		snprintf(call, sizeof(call), "epoll_ctl for rank %d", id);
	return wakeup_failed(w, call);
}

void wakeup_unwatch(const struct wakeup *w, int fd)
{
	epoll_ctl(w->epoll, EPOLL_CTL_DEL, fd, NULL);
}

int wakeup_open(struct wakeup *w, enum wakeup_kind kind, const char *owner)
{
	int ends[2];

	*w = WAKEUP_NONE;
	w->owner = owner;
	if (kind == WAKEUP_EVENT) {
		ends[0] = ends[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (ends[0] < 0)
			return wakeup_failed(w, "eventfd");
	} else if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) {
		return wakeup_failed(w, "pipe2");
	}
	w->read_fd = ends[0];
	w->write_fd = ends[1];
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (w->epoll < 0)
		return wakeup_failed(w, "epoll_create1");
	return wakeup_watch(w, w->read_fd, WAKEUP_NO_ID, 0);
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

int wakeup_open_timer(struct wakeup *w)
{
	int rc;

	if (w->timer >= 0)
		return SLUICE_OK;
	w->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (w->timer < 0)
		return wakeup_failed(w, "timerfd_create");
	rc = wakeup_watch(w, w->timer, WAKEUP_NO_ID, 0);
	if (rc) {
		close_fd(w->timer);
		w->timer = -1;
	}
	return rc;
}

void wakeup_close(struct wakeup *w)
{
	close_fd(w->epoll);
	close_fd(w->timer);
	close_fd(w->read_fd);
	close_fd(w->write_fd != w->read_fd ? w->write_fd : -1);
	*w = WAKEUP_NONE;
}

int wakeup_ready(const struct wakeup *w, int ids[WAKEUP_BATCH])
{
	struct epoll_event ready[WAKEUP_BATCH];
	int n = epoll_wait(w->epoll, ready, WAKEUP_BATCH, 0), found = 0;

	for (int i = 0; i < n; i++)
		if (ready[i].data.u32 != WAKEUP_NO_ID)
			ids[found++] = (int)ready[i].data.u32;
	return found;
}

static void set_timer(struct wakeup *w, int nanoseconds)
{
	struct timespec interval = { .tv_nsec = nanoseconds };
	struct itimerspec spec = { .it_interval = interval, .it_value = interval };

	if (!w->timer_runs && !nanoseconds)
		return;
	timerfd_settime(w->timer, 0, &spec, NULL);
	w->timer_runs = nanoseconds != 0;
}

void wakeup_arm(struct wakeup *w, int tick_ns)
{
	w->armed = 1;
	set_timer(w, tick_ns);
}

/* Stopping the timer also drops its ticks. The number of reads is limited, because a pipe holds 64
 * KiB and a faulty peer may never stop writing. */
void wakeup_disarm(struct wakeup *w)
{
	char bytes[512];

	w->armed = 0;
	set_timer(w, 0);
	for (int rounds = 0; rounds < 128; rounds++)
		if (read(w->read_fd, bytes, sizeof(bytes)) < (ssize_t)sizeof(bytes))
			break;
}

int wakeup_fd(const struct wakeup *w)
{
	return w->epoll;
}

int wakeup_pipe(const struct wakeup *w)
{
	return w->write_fd;
}

void wakeup_wake(const struct wakeup *w)
{
	wakeup_write(w->write_fd);
}

void wakeup_write(int write_fd)
{
	const uint64_t one = 1; /* an eventfd takes eight bytes */
	int saved = errno;      /* a signal handler must not change errno */
	ssize_t ignored = write(write_fd, &one, sizeof(one));

	(void)ignored; /* The write fails only if the descriptor is readable already. */
	errno = saved;
}
