/* SPDX-License-Identifier: BSD-3-Clause
 * A device that lags behind the host. Enqueued work of all streams waits in one queue until a call
 * waits for it, a test lets some of it run, or a thread runs it. As in CUDA, unpinned host memory
 * is used before the call returns. If an operation fails, all later ones in the queue are dropped,
 * and the next query returns the error, once. A real device would not recover, but this lets tests
 * check that nothing hangs. */
#include "lag.h"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { ROOM = 4096, REST_NS = 30000 };

struct waiting {
	struct node node;
	void *copy; /* copy of arguments or of pageable memory */
};

static struct {
	pthread_mutex_t running, lock; /* a thread that runs operations takes running first */
	struct waiting queue[ROOM];
	unsigned first, n;
	int lags, busy, stop;
	unsigned fail_in;
	cudaError_t failure, failed;
	pthread_t thread;
	int has_thread;
} lag = { .running = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER };

int lag_lags(void)
{
	pthread_mutex_lock(&lag.lock);
	const int lags = lag.lags;
	pthread_mutex_unlock(&lag.lock);
	return lags;
}

static int take(struct waiting *out)
{
	pthread_mutex_lock(&lag.lock);
	const int any = lag.n > 0;
	if (any) {
		*out = lag.queue[lag.first];
		lag.first = (lag.first + 1) % ROOM;
		lag.n--;
	}
	lag.busy = any;
	pthread_mutex_unlock(&lag.lock);
	return any;
}

static void drop_all(void)
{
	struct waiting w;
	while (take(&w))
		free(w.copy);
}

/* The caller holds running. Returns 0 if the queue was empty. */
static int do_one(void)
{
	struct waiting w;
	if (!take(&w))
		return 0;
	pthread_mutex_lock(&lag.lock);
	const int fails = lag.fail_in && !--lag.fail_in;
	if (fails)
		lag.failed = lag.failure;
	pthread_mutex_unlock(&lag.lock);
	if (!fails)
		emulated_do(&w.node);
	free(w.copy);
	if (fails)
		drop_all();
	pthread_mutex_lock(&lag.lock);
	lag.busy = 0;
	pthread_mutex_unlock(&lag.lock);
	return 1;
}

cudaError_t lag_drain(void)
{
	lag_settle();
	pthread_mutex_lock(&lag.lock);
	const cudaError_t failed = lag.failed;
	lag.failed = cudaSuccess;
	pthread_mutex_unlock(&lag.lock);
	return failed;
}

void lag_settle(void)
{
	pthread_mutex_lock(&lag.running);
	while (do_one())
		;
	pthread_mutex_unlock(&lag.running);
}

cudaError_t lag_state(void)
{
	pthread_mutex_lock(&lag.lock);
	cudaError_t state = lag.n || lag.busy ? cudaErrorNotReady : lag.failed;
	if (state != cudaErrorNotReady)
		lag.failed = cudaSuccess;
	pthread_mutex_unlock(&lag.lock);
	return state;
}

void lag_do(const struct node *node)
{
	pthread_mutex_lock(&lag.running);
	emulated_do(node);
	pthread_mutex_unlock(&lag.running);
}

cudaError_t lag_put(const struct node *node)
{
	struct waiting w = { .node = *node };
	if (node->kind == NODE_COPY && !emulated_knows(node->to)) {
		const cudaError_t error = lag_drain();
		if (!error)
			lag_do(node);
		return error;
	}
	if (node->kernel)
		w.node.from = w.copy = stream_copy_of_arguments(node);
	else if (node->kind == NODE_COPY && !emulated_knows(node->from)) {
		if (!(w.copy = malloc(node->bytes)))
			abort();
		w.node.from = memcpy(w.copy, node->from, node->bytes);
	}
	pthread_mutex_lock(&lag.lock);
	if (lag.n == ROOM)
		abort();
	lag.queue[(lag.first + lag.n++) % ROOM] = w;
	pthread_mutex_unlock(&lag.lock);
	return cudaSuccess;
}

/* ---- for tests ------------------------------------------------------------- */

static void *device(void *unused)
{
	const struct timespec rest = { 0, REST_NS };
	for (int stop = 0; !stop;) {
		pthread_mutex_lock(&lag.running);
		do_one();
		pthread_mutex_unlock(&lag.running);
		nanosleep(&rest, NULL);
		pthread_mutex_lock(&lag.lock);
		stop = lag.stop;
		pthread_mutex_unlock(&lag.lock);
	}
	return unused;
}

void emulated_lag(enum emulated_lag how)
{
	if (lag.has_thread) {
		pthread_mutex_lock(&lag.lock);
		lag.stop = 1;
		pthread_mutex_unlock(&lag.lock);
		pthread_join(lag.thread, NULL);
		lag.has_thread = lag.stop = 0;
	}
	if (how == EMULATED_AT_ONCE)
		lag_settle();
	pthread_mutex_lock(&lag.lock);
	lag.lags = how != EMULATED_AT_ONCE;
	pthread_mutex_unlock(&lag.lock);
	if (how == EMULATED_BESIDE &&
	    !(lag.has_thread = !pthread_create(&lag.thread, NULL, device, NULL)))
		abort();
}

unsigned emulated_run(unsigned most)
{
	unsigned done = 0;
	pthread_mutex_lock(&lag.running);
	while (done < most && do_one())
		done++;
	pthread_mutex_unlock(&lag.running);
	return done;
}

void emulated_fail_running(unsigned after, cudaError_t error)
{
	pthread_mutex_lock(&lag.lock);
	lag.fail_in = error ? after + 1 : 0;
	lag.failure = error;
	pthread_mutex_unlock(&lag.lock);
}
