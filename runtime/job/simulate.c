/* SPDX-License-Identifier: BSD-3-Clause
 * Simulated jobs; see simulate.h. The turn goes round by rank, so a run is the same every time; results are
 * those of a real job in any order. */
#include "job/simulate.h"
#include "base/error.h"
#include "base/log.h"
#include "compress/message.h"
#include "job/job.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MOST = 4096, STACK_BYTES = 1 << 20 };
/* Rounds in which no rank's wait ends. A step's chain of phases, and queues that fill, need a few. */
enum { IDLE_ROUNDS = 1000 };
enum { NOBODY = -1, ABANDONED = -2 };

struct simulation {
	int size;
	const sluice_job_attr *attr;
	int (*rank_main)(sluice_job *job, void *context);
	void *context;
	struct seat *seats;          /* size */
	struct neighbours neighbours;
	struct card *cards;          /* size */
	int cards_given;
	pthread_mutex_t lock;
	int turn;                    /* rank that runs; NOBODY before the start, ABANDONED: go home */
	uint64_t idle;               /* turns since a wait ended */
};

struct seat {
	struct simulation *simulation;
	int rank, taken, finished;
	pthread_t thread;
	pthread_cond_t go;
	int rc;
	char error[ERROR_TEXT_BYTES];
};

static _Thread_local struct seat *own_seat;

struct seat *seat_of_thread(void)
{
	return own_seat;
}

int seat_take(struct seat *seat, int *rank_out, int *size_out)
{
	if (seat->taken)
		return fail(SLUICE_EINVAL, "sluice_init: simulated rank %d has its job already: rank_main gets "
			    "it as its argument", seat->rank);
	seat->taken = 1;
	*rank_out = seat->rank;
	*size_out = seat->simulation->size;
	return 0;
}

struct neighbours *seat_neighbours(struct seat *seat)
{
	return &seat->simulation->neighbours;
}

/* ---- turns ------------------------------------------------------------------------------- */

/* Lock held. */
static void pass_on(struct simulation *s, int from)
{
	for (int i = 1; i <= s->size; i++) {
		struct seat *next = &s->seats[(from + i) % s->size];
		if (next->finished)
			continue;
		s->turn = next->rank;
		pthread_cond_signal(&next->go);
		return;
	}
}

/* Lock held. 0: the simulation was abandoned before it began. */
static int await_turn(struct seat *seat)
{
	struct simulation *s = seat->simulation;
	while (s->turn != seat->rank && s->turn != ABANDONED)
		pthread_cond_wait(&seat->go, &s->lock);
	return s->turn == seat->rank;
}

int seat_hand_over(struct seat *seat)
{
	struct simulation *s = seat->simulation;
	pthread_mutex_lock(&s->lock);
	int hope = ++s->idle < (uint64_t)IDLE_ROUNDS * (uint64_t)s->size;
	if (hope) {
		pass_on(s, seat->rank);
		await_turn(seat);
	}
	pthread_mutex_unlock(&s->lock);
	log_identify(seat->rank, "simulated");
	return hope;
}

void seat_moved(struct seat *seat)
{
	seat->simulation->idle = 0;
}

/* ---- cards ------------------------------------------------------------------------------- */

int seat_exchange(struct seat *seat, const uint8_t *payload, size_t payload_bytes, struct card **cards_out)
{
	struct simulation *s = seat->simulation;
	struct card *own = &s->cards[seat->rank];
	if (payload_bytes > sizeof own->payload)
		return fail(SLUICE_EINVAL, "a card of %zu bytes is too long", payload_bytes);
	own->wire_version = SLUICE_WIRE_VERSION;
	snprintf(own->version, sizeof own->version, "%s", PACKAGE_VERSION);
	snprintf(own->node, sizeof own->node, "simulated");
	own->payload_bytes = (uint32_t)payload_bytes;
	memcpy(own->payload, payload, payload_bytes);
	s->cards_given++;
	while (s->cards_given < s->size)
		if (!seat_hand_over(seat))
			return fail(SLUICE_ETIMEDOUT, "%d of %d simulated ranks did not start",
				    s->size - s->cards_given, s->size);
	seat_moved(seat);
	*cards_out = malloc((size_t)s->size * sizeof **cards_out);
	if (!*cards_out)
		return fail(SLUICE_ENOMEM, "no memory for the cards of %d simulated ranks", s->size);
	memcpy(*cards_out, s->cards, (size_t)s->size * sizeof **cards_out);
	return 0;
}

/* ---- a rank's life ------------------------------------------------------------------------ */

static int live(struct seat *seat)
{
	struct simulation *s = seat->simulation;
	sluice_job *job = NULL;
	int rc = sluice_init(s->attr, &job);
	if (rc)
		return rc;
	rc = s->rank_main(job, s->context);
	if (rc) { /* as if its process had ended: the others hear of it */
		progress_take(job);
		if (!job->failure.code)
			job_fail(job, SLUICE_EPEER, seat->rank, "%s: its rank_main returned %d%s%s",
				 rank_text(job, seat->rank), rc, *sluice_last_error() ? ": " : "",
				 sluice_last_error());
		snprintf(seat->error, sizeof seat->error, "%s", job->failure.text);
		progress_release(job);
	}
	sluice_finalize(&job);
	return rc;
}

static void *rank_thread(void *argument)
{
	struct seat *seat = argument;
	struct simulation *s = seat->simulation;
	pthread_mutex_lock(&s->lock);
	int begin = await_turn(seat);
	pthread_mutex_unlock(&s->lock);
	if (!begin)
		return NULL;
	own_seat = seat;
	in_process_regions(1);
	log_identify(seat->rank, "simulated");
	seat->rc = live(seat);
	if (seat->rc && !*seat->error)
		snprintf(seat->error, sizeof seat->error, "%s", sluice_last_error());
	pthread_mutex_lock(&s->lock);
	seat->finished = 1;
	s->idle = 0;
	pass_on(s, seat->rank);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static int start(struct simulation *s)
{
	pthread_attr_t attributes;
	int started = 0, err = 0;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (; started < s->size && !err; started += !err)
		err = pthread_create(&s->seats[started].thread, &attributes, rank_thread, &s->seats[started]);
	pthread_attr_destroy(&attributes);
	pthread_mutex_lock(&s->lock);
	s->turn = err ? ABANDONED : 0;
	for (int r = 0; r < started; r++)
		pthread_cond_signal(&s->seats[r].go);
	pthread_mutex_unlock(&s->lock);
	for (int r = 0; r < started; r++)
		pthread_join(s->seats[r].thread, NULL);
	log_identify(-1, NULL);
	return !err ? 0 : fail(SLUICE_ENOMEM, "cannot start simulated rank %d of %d: %s; raise the limit on "
			       "threads (ulimit -u)", started, s->size, errno_text(err));
}

/* What is to blame rather than what followed from it: ranks that heard of a failure say SLUICE_EPEER. */
static int judge(const struct simulation *s)
{
	const struct seat *found = NULL;
	for (int r = 0; r < s->size; r++) {
		const struct seat *seat = &s->seats[r];
		if (seat->rc && (!found || (found->rc == SLUICE_EPEER && seat->rc != SLUICE_EPEER)))
			found = seat;
	}
	return found ? fail_quietly(found->rc, "%s", found->error) : 0;
}

int sluice_simulate(const sluice_job_attr *attr, int size, int (*rank_main)(sluice_job *job, void *context),
		    void *context)
{
	if (size < 1 || size > RANKS_MOST || !rank_main)
		return fail(SLUICE_EINVAL, "sluice_simulate: %s",
			    rank_main ? "the number of ranks must be 1 .. 4096" : "rank_main is NULL");
	if (own_seat)
		return fail(SLUICE_EINVAL, "sluice_simulate: called by a simulated rank");
	struct simulation s = { .size = size, .attr = attr, .rank_main = rank_main, .context = context,
				.turn = NOBODY, .neighbours.size = size };
	s.seats = calloc((size_t)size, sizeof *s.seats);
	s.cards = calloc((size_t)size, sizeof *s.cards);
	s.neighbours.at = calloc((size_t)size, sizeof(struct transport *));
	int rc = s.seats && s.cards && s.neighbours.at
		? 0 : fail(SLUICE_ENOMEM, "no memory to simulate %d ranks", size);
	if (!rc) {
		pthread_mutex_init(&s.lock, NULL);
		for (int r = 0; r < size; r++) {
			s.seats[r].simulation = &s;
			s.seats[r].rank = r;
			pthread_cond_init(&s.seats[r].go, NULL);
		}
		rc = start(&s);
		if (!rc)
			rc = judge(&s);
		for (int r = 0; r < size; r++)
			pthread_cond_destroy(&s.seats[r].go);
		pthread_mutex_destroy(&s.lock);
	}
	free(s.seats);
	free(s.cards);
	free(s.neighbours.at);
	return rc;
}
