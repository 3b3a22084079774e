/* SPDX-License-Identifier: BSD-3-Clause
 * The progress token, the progress thread, and the waiting threads of the application. progress.c
 * and this file own struct progress. Only progress_lock() and similar functions of a put or a wait
 * call the inline functions below. */
#ifndef RUNTIME_PROGRESS_H
#define RUNTIME_PROGRESS_H
#include "job/token.h"
#include "sluice.h"
#include <pthread.h>
#include <stdint.h>

struct wait; /* the wait of one thread */

/* Every put reads the members up to doze_ns. In the job they share one cache line with its peers
 * and its failure. */
struct progress {
	struct token token; /* the holder of the token polls */
	atomic_uint calls;  /* number of times that the application took the token */
	int sleeping_armed; /* transports will wake the sleeping progress thread */
	int thread_started;
	uint32_t doze_ns; /* if not 0, the progress thread polls with this period; only that
			     thread writes it */
	/* Number of operations, on a device or in a peer's queue, whose end no event reports. If
	 * there are any, waiting threads poll often. */
	int unannounced;
	/* Number of threads that wait for the token, except those in progress_until(). */
	atomic_int queue;
	atomic_int asleep;    /* the holder of the token sleeps in the kernel */
	unsigned news;        /* number of polls that found an event */
	unsigned quick_polls; /* number of polls, few of which read the clock */
	uint64_t next_tick_ns;
	struct wait *waiting; /* the waits of all threads in progress_until(), the newest first */
	pthread_t thread;
	atomic_int stop;    /* ends the progress thread */
	atomic_int explain; /* sluice_log_waits() was called */
	int epoll_fd;
	uint32_t longest_doze_ns;
};

static inline int progress_try(struct progress *p)
{
	return token_try(&p->token);
}
/* Counts a call of the application. Only the holder of the token writes. */
static inline void progress_count_call(struct progress *p)
{
	atomic_store_explicit(&p->calls, atomic_load_explicit(&p->calls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}
static inline void progress_leave(struct progress *p)
{
	token_leave(&p->token);
}
/* Asserts that the calling thread holds the token, in builds that check this. */
static inline void progress_check(struct progress *p)
{
	token_check(&p->token);
}
static inline int progress_is_armed(const struct progress *p)
{
	return p->sleeping_armed;
}
/* Returns 1 if the progress thread must sleep until an event. The transports must then be armed. */
static inline int progress_wants_events(const struct progress *p)
{
	return p->thread_started && !p->doze_ns;
}

/* ---- for progress_token.h ---- */
/* Called by threads of the application: waits for the token. A thread that holds the token while it
 * waits for an event hands it over. */
void progress_queue(sluice_job *job);
/* Stops the transports from waking the sleeping progress thread. */
void progress_cancel(sluice_job *job);
/* Makes the transports wake the progress thread at the next event. */
void progress_arm(sluice_job *job);

/* ---- for everybody ---- */
void progress_init(struct progress *p);
/* Polls once, and reads the clock. The token must be held. */
void progress_poll(sluice_job *job);
/* Pauses between two polls for operations whose end no event reports. */
void progress_nap(void);
/* Polls, spins and sleeps until done() returns nonzero, the job fails, or wait_timeout is over. The
 * waiting thread calls done() after each poll. done() returns 1 when the wait is over, or an error
 * SLUICE_E* to make the call fail. It may be called again afterwards. describe() writes which event
 * is missing ("version 13 of shard 2 from rank 3 (node n2)"). The token is held before and after.
 * During the wait, other threads may hold it for other objects. */
int progress_until(sluice_job *job, int (*done)(void *), void (*describe)(void *, char *, size_t),
		   void *context);
/* With `on` 1, holds back the transfers that the caller posts next. With 0, passes them to the
 * network card, with one doorbell for each peer. Between the two calls, the caller only posts. The
 * token must be held. */
void progress_gather(sluice_job *job, int on);
/* Adds to the number of operations whose end no event reports. The token must be held. */
void progress_unannounced(sluice_job *job, int more);
/* Returns 1 if a call of this rank has waited in progress_until() for longer than it spins. Token
 * held. */
int progress_waits(const sluice_job *job);
int progress_start(sluice_job *job);
/* Returns 1 from progress_start() until progress_stop(), while the progress thread exists. */
int progress_started(const sluice_job *job);
void progress_stop(sluice_job *job);
#endif
