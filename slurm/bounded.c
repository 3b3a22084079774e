/* SPDX-License-Identifier: BSD-3-Clause
 * See bounded.h. */
#include "slurm/bounded.h"
#include "base/error.h"
#include "base/thread.h"
#include "sluice.h"
#include <errno.h>
#include <time.h>

void bounded_open(struct bounded *b, void *object, void (*free)(void *object))
{
	pthread_condattr_t attr;

	pthread_mutex_init(&b->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&b->changed, &attr);
	pthread_condattr_destroy(&attr);
	b->holders = 1;
	b->object = object;
	b->free = free;
}

void bounded_lock(struct bounded *b)
{
	pthread_mutex_lock(&b->lock);
}

void bounded_unlock(struct bounded *b)
{
	pthread_mutex_unlock(&b->lock);
}

void bounded_hold(struct bounded *b)
{
	bounded_lock(b);
	b->holders++;
	bounded_unlock(b);
}

void bounded_release(struct bounded *b)
{
	int last;

	bounded_lock(b);
	last = --b->holders == 0;
	bounded_unlock(b);
	if (!last)
		return;
	pthread_cond_destroy(&b->changed);
	pthread_mutex_destroy(&b->lock);
	b->free(b->object);
}

int bounded_finish(struct bounded *b, unsigned call, int status)
{
	int late;

	bounded_lock(b);
	b->status[call] = status;
	b->done[call] = 1;
	late = b->late[call];
	pthread_cond_broadcast(&b->changed);
	bounded_unlock(b);
	return late;
}

int bounded_await(struct bounded *b, unsigned call, int timeout_ms)
{
	struct timespec until;
	int done, err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	bounded_lock(b);
	while (!b->done[call] && err != ETIMEDOUT)
		err = pthread_cond_timedwait(&b->changed, &b->lock, &until);
	done = b->done[call];
	if (!done)
		b->late[call] = 1;
	bounded_unlock(b);
	return done ? 0 : SLUICE_ETIMEDOUT;
}

int bounded_run(struct bounded *b, unsigned call, void *(*body)(void *), int timeout_ms)
{
	pthread_t thread;
	int err;

	bounded_hold(b);
	err = thread_start(&thread, body, b->object); /* PMIx starts further threads from it */
	if (err) {
		bounded_release(b);
		return fail(SLUICE_ENOMEM, "cannot start a thread for the launcher's calls: %s",
			    errno_text(err));
	}
	pthread_detach(thread);
	return bounded_await(b, call, timeout_ms);
}

void bounded_renew(struct bounded *b, unsigned call)
{
	bounded_lock(b);
	b->done[call] = b->late[call] = 0;
	bounded_unlock(b);
}

int bounded_status(const struct bounded *b, unsigned call)
{
	return b->status[call];
}

int bounded_is_late(struct bounded *b, unsigned call)
{
	int late;

	bounded_lock(b);
	late = b->late[call];
	bounded_unlock(b);
	return late;
}
