/* SPDX-License-Identifier: BSD-3-Clause
 * See team.h. The calls of a run are handed out in order, to whichever thread is free. A thread
 * that finds no call polls for a while, so that it takes part in the next run of the same step
 * without being woken up, and then sleeps. */
#include "base/team.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "sluice.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* POLL_NS: how long a thread polls. After polls that found no run, a thread sleeps once, twice,
 * four times and so on without polling, at most MOST_RESTS times: runs may be far apart, or other
 * threads may need its processor. */
enum { POLL_NS = 50000, POLLS = 32, MOST_RESTS = 16 };

struct team {
	pthread_mutex_t lock;
	pthread_cond_t wake, done;
	/* The run: the next call, the number of calls, and the number in progress. */
	unsigned next, end;
	atomic_uint busy;
	atomic_uint runs; /* number of runs so far */
	atomic_int leave;
	team_work_fn *work;
	void *context;
	pid_t process;
	atomic_int taken;
	size_t memory;
	char *memories; /* of all workers */
	unsigned workers, started;
	pthread_t thread[]; /* [0] is not used, because the caller is a worker */
};

static void pause_shortly(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Polls for up to POLL_NS until *what differs from `from`. Returns 1 if it does. */
static int poll_for_change(const atomic_uint *what, unsigned from)
{
	const uint64_t until = now_ns() + POLL_NS;

	while (now_ns() < until)
		for (unsigned i = 0; i < POLLS; i++) {
			if (atomic_load_explicit(what, memory_order_relaxed) != from)
				return 1;
			pause_shortly();
		}
	return 0;
}

/* Makes calls until all are handed out. The lock is held, except during a call. */
static void make_calls(struct team *team)
{
	while (team->next < team->end) {
		const unsigned call = team->next++;

		atomic_fetch_add(&team->busy, 1);
		pthread_mutex_unlock(&team->lock);
		team->work(team->context, call);
		pthread_mutex_lock(&team->lock);
		if (atomic_fetch_sub(&team->busy, 1) == 1)
			pthread_cond_signal(&team->done);
	}
}

static void *help(void *argument)
{
	struct team *team = argument;
	unsigned rests = 0, next_rests = 1;

	pthread_mutex_lock(&team->lock);
	while (!team->leave) {
		make_calls(team);
		const unsigned runs = team->runs;

		pthread_mutex_unlock(&team->lock);
		if (rests) {
			rests--;
		} else if (poll_for_change(&team->runs, runs)) {
			next_rests = 1;
		} else {
			rests = next_rests;
			next_rests = rests < MOST_RESTS ? 2 * rests : rests;
		}
		pthread_mutex_lock(&team->lock);
		while (team->runs == runs && !team->leave)
			pthread_cond_wait(&team->wake, &team->lock);
	}
	pthread_mutex_unlock(&team->lock);
	return NULL;
}

int team_open(unsigned threads, size_t memory, struct team **out)
{
	struct team *team = calloc(1, sizeof(*team) + threads * sizeof(*team->thread));
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
	for (unsigned i = 1; i < threads && !rc; i++) {
		rc = thread_start(&team->thread[i], help, team);
		team->started += !rc;
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
		team->runs++; /* ends the polls */
		pthread_cond_broadcast(&team->wake);
		pthread_mutex_unlock(&team->lock);
		for (unsigned i = 1; i <= team->started; i++)
			pthread_join(team->thread[i], NULL);
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

static void run(struct team *team, unsigned calls, team_work_fn *work, void *context)
{
	pthread_mutex_lock(&team->lock);
	team->work = work;
	team->context = context;
	team->next = 0;
	team->end = calls;
	team->runs++;
	pthread_cond_broadcast(&team->wake);
	make_calls(team);
	pthread_mutex_unlock(&team->lock);
	for (unsigned busy = team->busy; busy && poll_for_change(&team->busy, busy);)
		busy = team->busy;
	pthread_mutex_lock(&team->lock);
	while (team->busy)
		pthread_cond_wait(&team->done, &team->lock);
	pthread_mutex_unlock(&team->lock);
}

void team_run(struct team *team, team_work_fn *work, void *context)
{
	run(team, team->workers, work, context);
}

/* ---- loops ------------------------------------------------------------------- */

struct loop {
	team_part_fn *work;
	void *context;
	uint64_t n, unit;
	unsigned parts;
};

static uint64_t part_begin(const struct loop *l, unsigned part)
{
	const uint64_t units = (l->n + l->unit - 1) / l->unit, begin = units * part / l->parts;

	return begin * l->unit < l->n ? begin * l->unit : l->n;
}

static void part_work(void *context, unsigned part)
{
	const struct loop *l = context;

	l->work(l->context, part, part_begin(l, part), part_begin(l, part + 1));
}

unsigned team_parts(const struct team *team)
{
	const unsigned threads = team ? team->workers : 1;

	return threads < TEAM_PARTS ? threads : TEAM_PARTS;
}

unsigned team_split(struct team *team, uint64_t n, uint64_t unit, team_part_fn *work, void *context)
{
	const uint64_t least = unit > TEAM_LEAST ? unit : TEAM_LEAST;
	struct loop loop = { work, context, n, unit, team_parts(team) };

	if (loop.parts > 1 && n / least < loop.parts)
		loop.parts = (unsigned)(n / least);
	if (loop.parts < 2 || !team_take(team)) {
		work(context, 0, 0, n);
		return 1;
	}
	run(team, loop.parts, part_work, &loop);
	team_give_back(team);
	return loop.parts;
}
