/* SPDX-License-Identifier: BSD-3-Clause
 * See seat.h. */
#include "job/seat.h"
#include "base/error.h"
#include "base/log.h"
#include "base/wire_version.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many rounds may pass in which no rank's wait ends. A step's sequence of phases, and full
 * queues, need a few. */
enum { IDLE_ROUNDS = 1000 };
enum { NOBODY = -1, ABANDONED = -2 };

struct seat {
	struct seats *all;
	int rank, taken, finished;
	pthread_cond_t go;
};

struct seats {
	int size;
	struct seat *seats; /* size */
	struct neighbours neighbours;
	struct card *cards; /* size */
	int cards_given;
	pthread_mutex_t lock;
	/* The rank that runs; NOBODY before the start, ABANDONED if there is no start. */
	int turn;
	uint64_t idle; /* turns since a wait ended last */
};

static _Thread_local struct seat *own_seat;

struct seat *seat_of_thread(void)
{
	return own_seat;
}

int seat_take(struct seat *seat, int *rank_out, int *size_out)
{
	if (seat->taken)
		return fail(SLUICE_EINVAL,
			    "sluice_init: simulated rank %d has its job already: rank_main gets it "
			    "as its argument",
			    seat->rank);
	seat->taken = 1;
	*rank_out = seat->rank;
	*size_out = seat->all->size;
	return 0;
}

struct neighbours *seat_neighbours(struct seat *seat)
{
	return &seat->all->neighbours;
}

/* ---- turns ----------------------------------------------------------------- */

/* Passes the turn to the next rank after `from`. Lock held. */
static void pass_on(struct seats *s, int from)
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

/* Lock held. Returns 0 if the simulation was abandoned before it began. */
static int await_seat(struct seat *seat)
{
	struct seats *s = seat->all;
	while (s->turn != seat->rank && s->turn != ABANDONED)
		pthread_cond_wait(&seat->go, &s->lock);
	return s->turn == seat->rank;
}

int seat_hand_over(struct seat *seat)
{
	struct seats *s = seat->all;
	pthread_mutex_lock(&s->lock);
	int hope = ++s->idle < (uint64_t)IDLE_ROUNDS * (uint64_t)s->size;
	if (hope) {
		pass_on(s, seat->rank);
		await_seat(seat);
	}
	pthread_mutex_unlock(&s->lock);
	log_identify(seat->rank, "simulated");
	return hope;
}

void seat_moved(struct seat *seat)
{
	seat->all->idle = 0;
}

int seat_enter(struct seat *seat)
{
	struct seats *s = seat->all;
	pthread_mutex_lock(&s->lock);
	int begin = await_seat(seat);
	pthread_mutex_unlock(&s->lock);
	if (!begin)
		return 0;
	own_seat = seat;
	in_process_regions(1);
	log_identify(seat->rank, "simulated");
	return 1;
}

void seat_leave(struct seat *seat)
{
	struct seats *s = seat->all;
	pthread_mutex_lock(&s->lock);
	seat->finished = 1;
	s->idle = 0;
	pass_on(s, seat->rank);
	pthread_mutex_unlock(&s->lock);
}

/* ---- cards ----------------------------------------------------------------- */

int seat_exchange(struct seat *seat, const uint8_t *payload, size_t payload_bytes,
		  struct card **cards_out)
{
	struct seats *s = seat->all;
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
		return fail(SLUICE_ENOMEM, "no memory for the cards of %d simulated ranks",
			    s->size);
	memcpy(*cards_out, s->cards, (size_t)s->size * sizeof **cards_out);
	return 0;
}

/* ---- all seats ------------------------------------------------------------- */

int seats_open(int size, struct seats **out)
{
	struct seats *s = calloc(1, sizeof *s);
	if (s) {
		s->seats = calloc((size_t)size, sizeof *s->seats);
		s->cards = calloc((size_t)size, sizeof *s->cards);
		s->neighbours.at = calloc((size_t)size, sizeof(struct transport *));
	}
	if (!s || !s->seats || !s->cards || !s->neighbours.at) {
		seats_close(&s);
		return fail(SLUICE_ENOMEM, "no memory to simulate %d ranks", size);
	}
	s->neighbours.size = size;
	s->turn = NOBODY;
	pthread_mutex_init(&s->lock, NULL);
	for (int r = 0; r < size; r++) {
		s->seats[r].all = s;
		s->seats[r].rank = r;
		pthread_cond_init(&s->seats[r].go, NULL);
	}
	s->size = size;
	*out = s;
	return 0;
}

void seats_close(struct seats **seats)
{
	struct seats *s = *seats;
	if (!s)
		return;
	for (int r = 0; r < s->size; r++)
		pthread_cond_destroy(&s->seats[r].go);
	if (s->size) /* seats_open() succeeded completely */
		pthread_mutex_destroy(&s->lock);
	free(s->seats);
	free(s->cards);
	free(s->neighbours.at);
	free(s);
	*seats = NULL;
}

struct seat *seats_at(struct seats *seats, int rank)
{
	return &seats->seats[rank];
}

void seats_begin(struct seats *s, int going)
{
	pthread_mutex_lock(&s->lock);
	s->turn = going ? 0 : ABANDONED;
	for (int r = 0; r < s->size; r++)
		pthread_cond_signal(&s->seats[r].go);
	pthread_mutex_unlock(&s->lock);
}
