/* SPDX-License-Identifier: BSD-3-Clause
 * See team.h. Runs are numbered. A helper wakes up when the number differs from that of its
 * last run. */
#include "base/team.h"
#include "base/error.h"
#include "base/thread.h"
#include "sluice.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct helper {
	struct team *team;
	pthread_t thread;
	unsigned worker;
};

struct team {
	pthread_mutex_t lock;
	pthread_cond_t wake, done;
	unsigned long run;
	unsigned busy; /* number of helpers that have not finished this run */
	int leave;
	team_work_fn *work;
	void *context;
	pid_t process;
	atomic_int taken;
	size_t memory;
	char *memories; /* of all workers */
	unsigned workers, started;
	struct helper helper[]; /* [0] is the caller of a run, and has no thread */
};

static void *help(void *argument)
{
	struct helper *h = argument;
	struct team *team = h->team;
	unsigned long last = 0;

	pthread_mutex_lock(&team->lock);
	for (;;) {
		while (team->run == last && !team->leave)
			pthread_cond_wait(&team->wake, &team->lock);
		if (team->leave)
			break;
		last = team->run;
		pthread_mutex_unlock(&team->lock);
		team->work(team->context, h->worker);
		pthread_mutex_lock(&team->lock);
		if (--team->busy == 0)
			pthread_cond_signal(&team->done);
	}
	pthread_mutex_unlock(&team->lock);
	return NULL;
}

int team_open(unsigned threads, size_t memory, struct team **out)
{
	struct team *team = calloc(1, sizeof(*team) + threads * sizeof(*team->helper));
	int rc = 0;

	if (team)
		team->memories = malloc(threads * memory);
	if (!team || !team->memories) {
		free(team);
		return fail(SLUICE_ENOMEM, "no memory for a team of %u threads", threads);
	}
	team->process = getpid();
	team->workers = threads;
	team->memory = memory;
	pthread_mutex_init(&team->lock, NULL);
	pthread_cond_init(&team->wake, NULL);
	pthread_cond_init(&team->done, NULL);
	for (unsigned i = 0; i < threads && !rc; i++) {
		struct helper *h = &team->helper[i];

		h->team = team;
		h->worker = i;
		if (i)
			rc = thread_start(&h->thread, help, h);
		team->started += i && !rc;
	}
	if (rc) {
		team_close(&team);
		return fail(SLUICE_ENOMEM, "cannot start a team of %u threads: %s", threads,
			    errno_text(rc));
	}
	*out = team;
	return 0;
}

void team_close(struct team **team_in)
{
	struct team *team = *team_in;

	if (!team)
		return;
	/* In a forked child, a thread may have held the lock, and there is none to wait for. */
	if (team->process == getpid()) {
		pthread_mutex_lock(&team->lock);
		team->leave = 1;
		pthread_cond_broadcast(&team->wake);
		pthread_mutex_unlock(&team->lock);
		for (unsigned i = 1; i <= team->started; i++)
			pthread_join(team->helper[i].thread, NULL);
		pthread_cond_destroy(&team->done);
		pthread_cond_destroy(&team->wake);
		pthread_mutex_destroy(&team->lock);
	}
	free(team->memories);
	free(team);
	*team_in = NULL;
}

unsigned team_threads(const struct team *team)
{
	return team->workers;
}

void *team_memory(const struct team *team, unsigned worker)
{
	return team->memories + worker * team->memory;
}

int team_take(struct team *team)
{
	int not_taken = 0;

	return team->process == getpid() &&
	       atomic_compare_exchange_strong(&team->taken, &not_taken, 1);
}

void team_give_back(struct team *team)
{
	atomic_store(&team->taken, 0);
}

void team_run(struct team *team, team_work_fn *work, void *context)
{
	pthread_mutex_lock(&team->lock);
	team->work = work;
	team->context = context;
	team->busy = team->started;
	team->run++;
	pthread_cond_broadcast(&team->wake);
	pthread_mutex_unlock(&team->lock);
	work(context, 0);
	pthread_mutex_lock(&team->lock);
	while (team->busy)
		pthread_cond_wait(&team->done, &team->lock);
	pthread_mutex_unlock(&team->lock);
}
