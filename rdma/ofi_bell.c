/* SPDX-License-Identifier: BSD-3-Clause
 * See ofi_bell.h. */
#include "rdma/ofi_bell.h"
#include "base/error.h"
#include "sluice.h"
#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int failed(const char *call)
{
	const int full = errno == EMFILE || errno == ENFILE || errno == ENOMEM;

	return fail(full ? SLUICE_ENOMEM : SLUICE_EDEVICE, "ofi: %s: %s%s", call, errno_text(errno),
		    errno == EMFILE ? "; raise the limit on open files (ulimit -n)" : "");
}

static int watch(const struct ofi_bell *bell, int fd, uint32_t how)
{
	struct epoll_event event = { .events = EPOLLIN | how };

	return fd < 0 ? 0 : epoll_ctl(bell->epoll, EPOLL_CTL_ADD, fd, &event);
}

int ofi_bell_open(struct ofi_bell *bell, int fd)
{
	bell->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (bell->wake_fd < 0)
		return failed("eventfd");
	bell->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (bell->timer < 0)
		return failed("timerfd_create");
	bell->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (bell->epoll < 0)
		return failed("epoll_create1");
	/* Some releases of libfabric leave their descriptor readable for good after the first
	 * completion. So only a change of it wakes, which every packet makes. */
	if (watch(bell, bell->wake_fd, 0) || watch(bell, bell->timer, 0) ||
	    watch(bell, fd, EPOLLET))
		return failed("epoll_ctl");
	return SLUICE_OK;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void ofi_bell_close(struct ofi_bell *bell)
{
	close_fd(bell->epoll);
	close_fd(bell->timer);
	close_fd(bell->wake_fd);
	*bell = OFI_BELL_NONE;
}

static void set_timer(struct ofi_bell *bell, int nanoseconds)
{
	struct timespec interval = { .tv_nsec = nanoseconds };
	struct itimerspec spec = { .it_interval = interval, .it_value = interval };

	if (!bell->timer_runs && !nanoseconds)
		return;
	timerfd_settime(bell->timer, 0, &spec, NULL);
	bell->timer_runs = nanoseconds != 0;
}

void ofi_bell_clear(const struct ofi_bell *bell)
{
	struct epoll_event events[3];

	epoll_wait(bell->epoll, events, 3, 0);
}

void ofi_bell_arm(struct ofi_bell *bell, int tick_ns)
{
	bell->armed = 1;
	set_timer(bell, tick_ns);
}

void ofi_bell_cancel(struct ofi_bell *bell)
{
	bell->armed = 0;
}

void ofi_bell_disarm(struct ofi_bell *bell)
{
	uint64_t count;
	ssize_t ignored;

	bell->armed = 0;
	set_timer(bell, 0);
	ignored = read(bell->wake_fd, &count, sizeof(count));
	(void)ignored; /* EAGAIN: nobody woke us */
}

int ofi_bell_fd(const struct ofi_bell *bell)
{
	return bell->epoll;
}

void ofi_bell_ring(const struct ofi_bell *bell)
{
	const uint64_t one = 1;
	int saved = errno;
	ssize_t ignored = write(bell->wake_fd, &one, sizeof(one));

	(void)ignored; /* it fails only when fd is readable anyway */
	errno = saved;
}
