/* SPDX-License-Identifier: BSD-3-Clause
 * Starts a thread of the library. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* Returns 0 or the errno value of pthread_create(). The application's signals must reach its own
 * threads, so the new thread blocks all signals, and so do the threads that it starts. */
static inline int thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(thread, NULL, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}
#endif
