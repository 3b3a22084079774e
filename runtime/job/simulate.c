/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_simulate(): runs a job whose ranks are threads of this process that take turns
 * (sim_rank.h). The results are those of a real job, whatever the order of its messages. */
#include "job/sim_rank.h"
#include "base/error.h"
#include "base/log.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS_MOST = 4096, STACK_BYTES = 1 << 20 };

struct simulation {
	int size;
	const sluice_job_attr *attr;
	int (*rank_main)(sluice_job *job, void *context);
	void *context;
	struct sim_ranks *sim_ranks;
	struct player *players; /* size */
};

/* The thread of one rank, and its result. */
struct player {
	const struct simulation *simulation;
	struct sim_rank *sim_rank;
	int rank;
	pthread_t thread;
	int rc;
	char error[ERROR_TEXT_BYTES];
};

static int live(struct player *player)
{
	const struct simulation *s = player->simulation;
	sluice_job *job = NULL;
	int rc = sluice_init(s->attr, &job);
	if (rc)
		return rc;
	rc = s->rank_main(job, s->context);
	if (rc) { /* the other ranks see this as the end of a process */
		progress_take(job);
		if (!job->failure.code)
			job_fail(job, SLUICE_EPEER, player->rank,
				 "%s: its rank_main returned %d%s%s", rank_text(job, player->rank),
				 rc, *sluice_last_error() ? ": " : "", sluice_last_error());
		snprintf(player->error, sizeof player->error, "%s", failure_text(job));
		progress_release(job);
	}
	sluice_finalize(&job);
	return rc;
}

static void *rank_thread(void *argument)
{
	struct player *player = argument;
	if (!sim_rank_enter(player->sim_rank))
		return NULL;
	player->rc = live(player);
	if (player->rc && !*player->error)
		snprintf(player->error, sizeof player->error, "%s", sluice_last_error());
	sim_rank_leave(player->sim_rank);
	return NULL;
}

static int start(struct simulation *s)
{
	pthread_attr_t attributes;
	int started = 0, err = 0;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (; started < s->size && !err; started += !err)
		err = pthread_create(&s->players[started].thread, &attributes, rank_thread,
				     &s->players[started]);
	pthread_attr_destroy(&attributes);
	sim_ranks_begin(s->sim_ranks, !err);
	for (int r = 0; r < started; r++)
		pthread_join(s->players[r].thread, NULL);
	log_identify(-1, NULL);
	return !err ? 0 :
		      fail(SLUICE_ENOMEM,
			   "cannot start simulated rank %d of %d: %s; raise the limit on threads "
			   "(ulimit -u)",
			   started, s->size, errno_text(err));
}

/* Returns the failure that caused the others. A rank that only received the report of a failure
 * returns SLUICE_EPEER, so the first other code is preferred. */
static int first_cause(const struct simulation *s)
{
	const struct player *found = NULL;
	for (int r = 0; r < s->size; r++) {
		const struct player *player = &s->players[r];
		if (player->rc &&
		    (!found || (found->rc == SLUICE_EPEER && player->rc != SLUICE_EPEER)))
			found = player;
	}
	return found ? fail_quietly(found->rc, "%s", found->error) : 0;
}

int sluice_simulate(const sluice_job_attr *attr, int size,
		    int (*rank_main)(sluice_job *job, void *context), void *context)
{
	if (size < 1 || size > RANKS_MOST || !rank_main)
		return fail(SLUICE_EINVAL, "sluice_simulate: %s",
			    rank_main ? "the number of ranks must be 1 .. 4096" :
					"rank_main is NULL");
	if (sim_rank_of_thread())
		return fail(SLUICE_EINVAL, "sluice_simulate: called by a simulated rank");
	struct simulation s = {
		.size = size, .attr = attr, .rank_main = rank_main, .context = context
	};
	int rc = sim_ranks_open(size, &s.sim_ranks);
	s.players = calloc((size_t)size, sizeof *s.players);
	if (!rc && !s.players)
		rc = fail(SLUICE_ENOMEM, "no memory to simulate %d ranks", size);
	for (int r = 0; r < size && !rc; r++)
		s.players[r] = (struct player){ .simulation = &s,
						.sim_rank = sim_ranks_at(s.sim_ranks, r),
						.rank = r };
	if (!rc)
		rc = start(&s);
	if (!rc)
		rc = first_cause(&s);
	free(s.players);
	sim_ranks_close(&s.sim_ranks);
	return rc;
}
