/* SPDX-License-Identifier: BSD-3-Clause
 * See sim_rank.h. */
#include "job/sim_rank.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/wire_version.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* If no rank's wait ends in this many rounds, none ever will. The phases of a step, and full
 * queues, take only a few rounds. */
enum { IDLE_ROUNDS = 1000 };
enum { NOBODY = -1, ABANDONED = -2 };

struct sim_rank {
	struct sim_ranks *all;
	int rank, taken, finished;
	uint64_t turns;
	pthread_cond_t go;
};

struct sim_ranks {
	int size;
	struct sim_rank *sim_ranks; /* size */
	struct neighbours neighbours;
	struct rank_record *records; /* size */
	int records_given;
	pthread_mutex_t lock;
	/* The rank that runs. NOBODY: before the start. ABANDONED: the simulation does not
	 * start. */
	int turn;
	uint64_t idle; /* number of turns since a wait last ended */
};

static _Thread_local struct sim_rank *own_sim_rank;

struct sim_rank *sim_rank_of_thread(void)
{
	return own_sim_rank;
}

int sim_rank_claim(struct sim_rank *sim_rank, int *rank_out, int *size_out)
{
	if (sim_rank->taken)
		return fail(SLUICE_EINVAL,
			    "sluice_init: simulated rank %d already has a job, which is the "
			    "argument of rank_main",
			    sim_rank->rank);
	sim_rank->taken = 1;
	*rank_out = sim_rank->rank;
	*size_out = sim_rank->all->size;
	return 0;
}

struct neighbours *sim_rank_neighbours(struct sim_rank *sim_rank)
{
	return &sim_rank->all->neighbours;
}

/* ---- turns ----------------------------------------------------------------- */

/* Passes the turn to the next rank after `from`. Lock held. */
static void pass_on(struct sim_ranks *s, int from)
{
	for (int i = 1; i <= s->size; i++) {
		struct sim_rank *next = &s->sim_ranks[(from + i) % s->size];
		if (next->finished)
			continue;
		s->turn = next->rank;
		pthread_cond_signal(&next->go);
		return;
	}
}

/* Waits, with the lock held, for this rank's turn. Returns 0 if the simulation was abandoned before
 * it began. */
static int await_own_turn(struct sim_rank *sim_rank)
{
	struct sim_ranks *s = sim_rank->all;
	while (s->turn != sim_rank->rank && s->turn != ABANDONED)
		pthread_cond_wait(&sim_rank->go, &s->lock);
	return s->turn == sim_rank->rank;
}

int sim_rank_yield(struct sim_rank *sim_rank)
{
	struct sim_ranks *s = sim_rank->all;
	pthread_mutex_lock(&s->lock);
	sim_rank->turns++;
	int hope = ++s->idle < (uint64_t)IDLE_ROUNDS * (uint64_t)s->size;
	if (hope) {
		pass_on(s, sim_rank->rank);
		await_own_turn(sim_rank);
	}
	pthread_mutex_unlock(&s->lock);
	log_identify(sim_rank->rank, "simulated");
	return hope;
}

void sim_rank_progressed(struct sim_rank *sim_rank)
{
	sim_rank->all->idle = 0;
}

uint64_t sim_rank_time_ns(struct sim_rank *sim_rank)
{
	if (!sim_rank)
		return now_ns();
	sim_rank_progressed(sim_rank); /* time goes on, so the ranks are not stuck */
	return sim_rank->turns * NS_PER_MS;
}

int sim_rank_enter(struct sim_rank *sim_rank)
{
	struct sim_ranks *s = sim_rank->all;
	pthread_mutex_lock(&s->lock);
	int begin = await_own_turn(sim_rank);
	pthread_mutex_unlock(&s->lock);
	if (!begin)
		return 0;
	own_sim_rank = sim_rank;
	in_process_regions(1);
	log_identify(sim_rank->rank, "simulated");
	return 1;
}

void sim_rank_leave(struct sim_rank *sim_rank)
{
	struct sim_ranks *s = sim_rank->all;
	pthread_mutex_lock(&s->lock);
	sim_rank->finished = 1;
	s->idle = 0;
	pass_on(s, sim_rank->rank);
	pthread_mutex_unlock(&s->lock);
}

/* ---- records ----------------------------------------------------------------- */

int sim_rank_exchange(struct sim_rank *sim_rank, const uint8_t *payload, size_t payload_bytes,
		      struct rank_record **records_out)
{
	struct sim_ranks *s = sim_rank->all;
	struct rank_record *own = &s->records[sim_rank->rank];
	if (payload_bytes > sizeof own->payload)
		return fail(SLUICE_EINVAL, "a record of %zu bytes is too long", payload_bytes);
	own->wire_version = SLUICE_WIRE_VERSION;
	snprintf(own->version, sizeof own->version, "%s", PACKAGE_VERSION);
	snprintf(own->node, sizeof own->node, "simulated");
	own->payload_bytes = (uint32_t)payload_bytes;
	memcpy(own->payload, payload, payload_bytes);
	s->records_given++;
	while (s->records_given < s->size)
		if (!sim_rank_yield(sim_rank))
			return fail(SLUICE_ETIMEDOUT, "%d of %d simulated ranks did not start",
				    s->size - s->records_given, s->size);
	sim_rank_progressed(sim_rank);
	*records_out = malloc((size_t)s->size * sizeof **records_out);
	if (!*records_out)
		return fail(SLUICE_ENOMEM, "no memory for the records of %d simulated ranks",
			    s->size);
	memcpy(*records_out, s->records, (size_t)s->size * sizeof **records_out);
	return 0;
}

/* ---- all ranks ------------------------------------------------------------- */

int sim_ranks_open(int size, struct sim_ranks **out)
{
	struct sim_ranks *s = calloc(1, sizeof *s);
	if (s) {
		s->sim_ranks = calloc((size_t)size, sizeof *s->sim_ranks);
		s->records = calloc((size_t)size, sizeof *s->records);
		s->neighbours.at = calloc((size_t)size, sizeof(struct transport *));
	}
	if (!s || !s->sim_ranks || !s->records || !s->neighbours.at) {
		sim_ranks_close(&s);
		return fail(SLUICE_ENOMEM, "no memory to simulate %d ranks", size);
	}
	s->neighbours.size = size;
	s->turn = NOBODY;
	pthread_mutex_init(&s->lock, NULL);
	for (int r = 0; r < size; r++) {
		s->sim_ranks[r].all = s;
		s->sim_ranks[r].rank = r;
		pthread_cond_init(&s->sim_ranks[r].go, NULL);
	}
	s->size = size;
	*out = s;
	return 0;
}

void sim_ranks_close(struct sim_ranks **sim_ranks)
{
	struct sim_ranks *s = *sim_ranks;
	if (!s)
		return;
	for (int r = 0; r < s->size; r++)
		pthread_cond_destroy(&s->sim_ranks[r].go);
	if (s->size) /* the lock exists only after sim_ranks_open() has succeeded */
		pthread_mutex_destroy(&s->lock);
	free(s->sim_ranks);
	free(s->records);
	free(s->neighbours.at);
	free(s);
	*sim_ranks = NULL;
}

struct sim_rank *sim_ranks_at(struct sim_ranks *sim_ranks, int rank)
{
	return &sim_ranks->sim_ranks[rank];
}

void sim_ranks_begin(struct sim_ranks *s, int going)
{
	pthread_mutex_lock(&s->lock);
	s->turn = going ? 0 : ABANDONED;
	for (int r = 0; r < s->size; r++)
		pthread_cond_signal(&s->sim_ranks[r].go);
	pthread_mutex_unlock(&s->lock);
}
