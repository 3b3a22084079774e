/* SPDX-License-Identifier: BSD-3-Clause
 * See bell.h. */
#include "rdma/bell.h"
#include "base/error.h"
#include "base/log.h"
#include "sluice.h"
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { NO_RANK = INT32_MAX }; /* in epoll's data where pidfds have the peer's rank */

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int add(const struct bell *b, int fd, int rank)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = (uint32_t)rank };

	return epoll_ctl(b->epoll, EPOLL_CTL_ADD, fd, &event);
}

static int call_fails(const char *call)
{
	if (errno == EMFILE || errno == ENFILE)
		return fail(SLUICE_ENOMEM, "shm: %s: %s; raise the limit on open files (ulimit -n)",
			    call, errno_text(errno));
	return fail(SLUICE_EDEVICE, "shm: %s: %s", call, errno_text(errno));
}

int bell_open(struct bell *b)
{
	int ends[2];

	*b = BELL_NONE;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return call_fails("pipe2");
	b->pipe_read = ends[0];
	b->pipe_write = ends[1];
	b->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (b->epoll < 0)
		return call_fails("epoll_create1");
	return add(b, b->pipe_read, NO_RANK) ? call_fails("epoll_ctl") : SLUICE_OK;
}

void bell_close(struct bell *b)
{
	close_end(&b->epoll);
	close_end(&b->ticker);
	close_end(&b->pipe_read);
	close_end(&b->pipe_write);
}

int bell_fd(const struct bell *b)
{
	return b->epoll;
}

int bell_pipe(const struct bell *b)
{
	return b->pipe_write;
}

void bell_ring(const struct bell *b)
{
	bell_ring_pipe(b->pipe_write);
}

void bell_ring_pipe(int pipe)
{
	int saved = errno; /* may be called from a signal handler */
	ssize_t ignored = write(pipe, "", 1);

	(void)ignored; /* EAGAIN: the pipe is full, so its reader will wake */
	errno = saved;
}

/* ---- watching --------------------------------------------------------------------- */

static int open_ticker(struct bell *b)
{
	if (b->ticker >= 0)
		return SLUICE_OK;
	b->ticker = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (b->ticker < 0 || add(b, b->ticker, NO_RANK)) {
		int err = errno;

		close_end(&b->ticker);
		return fail(err == EMFILE || err == ENFILE ? SLUICE_ENOMEM : SLUICE_EDEVICE,
			    "shm: timer: %s", errno_text(err));
	}
	log_line(LOG_WARN, "rdma",
		 "shm: no pidfd_open (Linux 5.3) here: that a rank ended is noticed up to %d ms "
		 "late",
		 BELL_TICK_MS);
	return SLUICE_OK;
}

int bell_watch(struct bell *b, int pidfd, int rank)
{
	if (pidfd < 0)
		return open_ticker(b);
	if (add(b, pidfd, rank))
		return fail(SLUICE_EDEVICE, "shm: epoll_ctl for the process of rank %d: %s", rank,
			    errno_text(errno));
	return SLUICE_OK;
}

void bell_unwatch(const struct bell *b, int pidfd)
{
	if (pidfd >= 0)
		epoll_ctl(b->epoll, EPOLL_CTL_DEL, pidfd, NULL);
}

int bell_ended(const struct bell *b, int ranks[BELL_RANKS])
{
	struct epoll_event ready[BELL_RANKS]; /* the pipe and the timer may be among them */
	int n = epoll_wait(b->epoll, ready, BELL_RANKS, 0), found = 0;

	for (int i = 0; i < n; i++)
		if (ready[i].data.u32 != NO_RANK)
			ranks[found++] = (int)ready[i].data.u32;
	return found;
}

int bell_looks(const struct bell *b)
{
	return b->ticker >= 0;
}

/* ---- sleeping --------------------------------------------------------------------- */

static void tick_each(const struct bell *b, int milliseconds)
{
	struct timespec interval = { .tv_nsec = milliseconds * 1000000L };
	struct itimerspec spec = { .it_interval = interval, .it_value = interval };

	if (b->ticker >= 0)
		timerfd_settime(b->ticker, 0, &spec, NULL);
}

void bell_sleep(const struct bell *b)
{
	tick_each(b, BELL_TICK_MS);
}

/* A tick that came is forgotten with the timer's setting. Reading the pipe is bounded: it holds
 * 64 KiB, and a peer gone mad may write on and on. */
void bell_awake(const struct bell *b)
{
	char bytes[512];

	tick_each(b, 0);
	for (int rounds = 0; rounds < 128; rounds++)
		if (read(b->pipe_read, bytes, sizeof(bytes)) < (ssize_t)sizeof(bytes))
			break;
}
