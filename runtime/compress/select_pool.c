/* SPDX-License-Identifier: BSD-3-Clause
 * See select_pool.h. Runs are numbered. A helper wakes up when the number differs from that of its
 * last run. */
#include "select_pool.h"
#include "base/error.h"
#include "sluice.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct helper {
	struct select_pool *pool;
	pthread_t thread;
	unsigned worker;
};

struct select_pool {
	pthread_mutex_t lock;
	pthread_cond_t wake, done;
	unsigned long run;
	unsigned busy; /* number of helpers that have not finished this run */
	int leave;
	select_work_fn *work;
	void *context;
	unsigned n_helpers;
	struct helper helpers[];
};

static void *help(void *argument)
{
	struct helper *h = argument;
	struct select_pool *pool = h->pool;
	unsigned long last = 0;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		while (pool->run == last && !pool->leave)
			pthread_cond_wait(&pool->wake, &pool->lock);
		if (pool->leave)
			break;
		last = pool->run;
		pthread_mutex_unlock(&pool->lock);
		pool->work(pool->context, h->worker);
		pthread_mutex_lock(&pool->lock);
		if (--pool->busy == 0)
			pthread_cond_signal(&pool->done);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

int select_pool_open(unsigned threads, struct select_pool **out)
{
	struct select_pool *pool = calloc(1, sizeof(*pool) + threads * sizeof(*pool->helpers));
	sigset_t all, before;
	int rc = 0;

	if (!pool)
		return fail(SLUICE_ENOMEM, "no memory for a pool of %u threads", threads);
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->wake, NULL);
	pthread_cond_init(&pool->done, NULL);
	/* Signals are for the application's threads, so a helper blocks all of them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (pool->n_helpers + 1 < threads && !rc) {
		struct helper *h = &pool->helpers[pool->n_helpers];

		h->pool = pool;
		h->worker = pool->n_helpers + 1;
		rc = pthread_create(&h->thread, NULL, help, h);
		pool->n_helpers += !rc;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		select_pool_close(&pool);
		return fail(SLUICE_ENOMEM, "cannot start %u threads for a selector: %s", threads,
			    errno_text(rc));
	}
	*out = pool;
	return 0;
}

void select_pool_close(struct select_pool **pool_in)
{
	struct select_pool *pool = *pool_in;

	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->leave = 1;
	pthread_cond_broadcast(&pool->wake);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned i = 0; i < pool->n_helpers; i++)
		pthread_join(pool->helpers[i].thread, NULL);
	pthread_cond_destroy(&pool->done);
	pthread_cond_destroy(&pool->wake);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
	*pool_in = NULL;
}

void select_pool_run(struct select_pool *pool, select_work_fn *work, void *context)
{
	pthread_mutex_lock(&pool->lock);
	pool->work = work;
	pool->context = context;
	pool->busy = pool->n_helpers;
	pool->run++;
	pthread_cond_broadcast(&pool->wake);
	pthread_mutex_unlock(&pool->lock);
	work(context, 0);
	pthread_mutex_lock(&pool->lock);
	while (pool->busy)
		pthread_cond_wait(&pool->done, &pool->lock);
	pthread_mutex_unlock(&pool->lock);
}
