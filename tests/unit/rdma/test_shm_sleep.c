/* SPDX-License-Identifier: BSD-3-Clause
 * Sleep in the shm transport: what wakes a rank, what must not, and that no event is missed in
 * between. */
#include "shm_trio.h"
#include "cases.h"
#include <pthread.h>
#include <unistd.h>

FRESH(arm__imm_or_done_there__does_not_sleep)
{
	struct event event;

	assert_int_equal(ops->sleep.arm(trio->t[0]), 0);
	ops->sleep.disarm(trio->t[0]);
	post_now(trio->to_0[1], notify(trio, 1, 1));
	assert_int_equal(ops->sleep.arm(trio->t[0]), 1);
	assert_false(
		readable(ops->sleep.fd(trio->t[0]), 0)); /* no rank slept, so no byte was written */
	assert_int_equal(ops->poll(trio->t[0], &event, 1), 1);
	assert_int_equal(ops->sleep.arm(trio->t[0]), 0);
	ops->sleep.disarm(trio->t[0]);
	post_now(trio->to_0[1], get(trio, 1, 0, 8));
	assert_int_equal(ops->sleep.arm(trio->t[1]), 1);
}

FRESH(arm__imm_or_done_comes__wakes)
{
	struct event events[4];
	int fd = ops->sleep.fd(trio->t[0]), i;

	for (i = 0; i < 1000; i++) {
		assert_int_equal(ops->sleep.arm(trio->t[0]), 0);
		assert_false(readable(fd, 0));
		post_now(trio->to_0[1], notify(trio, 1, 1));
		post_now(trio->to_0[2], notify(trio, 2, 1));
		assert_true(readable(fd, 0));
		ops->sleep.disarm(trio->t[0]);
		assert_false(readable(fd, 0));
		assert_int_equal(ops->poll(trio->t[0], events, 4), 2);
	}
	assert_int_equal(ops->sleep.arm(trio->t[1]), 0);
	post_now(trio->to_0[1], get(trio, 1, 0, 8));
	assert_true(readable(ops->sleep.fd(trio->t[1]), 0));
}

FRESH(cancel__nobody_slept__the_next_word_writes_no_byte)
{
	struct event event;
	int fd = ops->sleep.fd(trio->t[0]);

	assert_int_equal(ops->sleep.arm(trio->t[0]), 0);
	ops->sleep.cancel(trio->t[0]);
	post_now(trio->to_0[1], notify(trio, 1, 1));
	assert_false(readable(fd, 0));
	assert_int_equal(ops->poll(trio->t[0], &event, 1), 1);
}

FRESH(cancel__word_came_while_armed__the_next_sleeper_wakes_and_drains)
{
	struct event event;
	int fd = ops->sleep.fd(trio->t[0]);

	assert_int_equal(ops->sleep.arm(trio->t[0]), 0);
	post_now(trio->to_0[1], notify(trio, 1, 1));
	ops->sleep.cancel(trio->t[0]);
	assert_int_equal(ops->poll(trio->t[0], &event, 1), 1);
	assert_int_equal(ops->sleep.arm(trio->t[0]), 0);
	assert_true(readable(fd, 0));
	ops->sleep.disarm(trio->t[0]);
	assert_int_equal(ops->sleep.arm(trio->t[0]), 0);
	assert_false(readable(fd, 0));
	ops->sleep.disarm(trio->t[0]);
}

FRESH(wake__armed_or_not_and_often__fd_readable_until_disarm)
{
	int fd = ops->sleep.fd(trio->t[0]), i;

	for (i = 0; i < 100000; i++) /* more than fits into a pipe: must not block */
		ops->sleep.wake(trio->t[0]);
	assert_int_equal(ops->sleep.arm(trio->t[0]), 0);
	assert_true(readable(fd, 0));
	for (i = 0; i < 4 && readable(fd, 0); i++)
		ops->sleep.disarm(trio->t[0]);
	assert_false(readable(fd, 0));
}

static void *wake_soon(void *t)
{
	usleep(20000);
	ops->sleep.wake(t);
	return NULL;
}

FRESH(wake__from_another_thread__ends_the_sleep)
{
	pthread_t thread;

	assert_int_equal(ops->sleep.arm(trio->t[0]), 0);
	assert_int_equal(pthread_create(&thread, NULL, wake_soon, trio->t[0]), 0);
	assert_true(readable(ops->sleep.fd(trio->t[0]), DEADLINE_MS));
	pthread_join(thread, NULL);
	ops->sleep.disarm(trio->t[0]);
}
