/* SPDX-License-Identifier: BSD-3-Clause
 * The heartbeat. A thread of its own, which does nothing else, counts beats in this rank's own
 * memory; the other ranks read the count there. It takes no lock that work can hold and calls no
 * transport, so nothing holds it up but the end or the stop of the process.
 *
 * A pulse has three numbers. Two of them tell whether the rank lives, because a process can be
 * alive and get nowhere:
 *
 *   beats     counted by the thread. They stand still if the process ended, was stopped (SIGSTOP,
 *             a debugger, a frozen control group) or its node hangs. Such a rank is lost after
 *             lost_after.
 *   progress  counted in heart_tick() by whoever holds the progress token. It stands still while
 *             a step works under the token, for seconds with a large model, and for ever if the
 *             holder waits for something that never comes. Nobody can tell the two apart from
 *             outside, so a rank whose heart beats is lost only after budget.stalled_ns, which is
 *             long.
 *
 *   received  how many notifies this rank has taken from the peer that reads the pulse, counted up
 *             to the last change of progress. A peer that has sent more waits for an answer that
 *             may never come: a connection was reset and made again, or bits were changed on the
 *             way. Where a peer answers a READ, the notifies that were posted before it are there
 *             (rdma/transport.h); when that peer then polls and counts progress a few times, it
 *             has counted them. If not, they are lost, and so is the peer. No time is involved,
 *             so neither a slow network nor a long step is mistaken for a loss.
 *
 * Only the sender of notifies judges: it names the peer, and failure.c tells all others.
 *
 * An application that computes outside of Sluice holds no token: the progress thread then counts
 * progress. A pulse lies in each peer's own line of the control region, because a transport may
 * give a peer the keys of that line alone. */
#include "job/heart.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "job/peers.h"
#include "job/state.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* A rank polls at least once from one count of progress to the next. The others are for transports
 * that answer a READ before the last piece of a put, and for queues that one poll does not empty.
 */
enum { PROGRESS_TO_COUNT = 6 };

struct heard {
	uint64_t beats, progress; /* as read last */
	uint64_t received;        /* notifies that this rank received from the peer */
	uint64_t shown;           /* notifies that the peer received from this rank, as last read */
	uint64_t sent;            /* notifies sent to the peer when the READ under way was posted */
	/* the peer must show a count of `owed` soon after this progress */
	uint64_t owed, owed_progress;
	uint64_t beats_ns, progress_ns; /* time of the last change that was seen */
	int asked;                      /* a READ of it is under way */
	int failing;                    /* the last READ that ended has failed */
};

struct heart {
	struct region *pulses; /* where READs put the peers' pulses, PULSE_BYTES each */
	struct heard *heard;   /* size */
	uint64_t progress;     /* this rank's count of progress; token held */
	uint64_t last_tick_ns; /* when heart_tick() looked last; token held */
	pthread_t thread;
	int started;
	pthread_mutex_t lock;
	pthread_cond_t ends;
	int over; /* with the lock */
};

/* ---- beating --------------------------------------------------------------- */

/* Writes one number of this rank's pulse into the line of a peer. */
static void show(const sluice_job *job, int peer, size_t at, uint64_t value)
{
	uint8_t *line = line_of(job, peer);
	uint64_t bytes;
	put_le64((uint8_t *)&bytes, value);
	__atomic_store_n((uint64_t *)(void *)(line + at), bytes, __ATOMIC_RELAXED);
}

/* Returns the checksum of progress and received at `counts`. A peer may read one before and the
 * other after a change. */
static uint64_t check_of(const uint8_t *counts)
{
	return crc32c(0, counts, LINE_CHECK - LINE_PROGRESS);
}

static void show_counts(const sluice_job *job)
{
	for (int p = 0; p < job->size; p++) {
		show(job, p, LINE_PROGRESS, job->heart->progress);
		show(job, p, LINE_RECEIVED, job->heart->heard[p].received);
		show(job, p, LINE_CHECK, check_of(line_of(job, p) + LINE_PROGRESS));
	}
}

static void *beat(void *argument)
{
	const sluice_job *job = argument;
	struct heart *heart = job->heart;
	const uint64_t period = job->budget.heartbeat_ns;
	pthread_mutex_lock(&heart->lock);
	for (uint64_t beats = 1; !heart->over; beats++) {
		for (int p = 0; p < job->size; p++)
			show(job, p, LINE_BEATS, beats);
		const uint64_t next = now_ns() + period;
		const struct timespec at = { (time_t)(next / 1000000000),
					     (long)(next % 1000000000) };
		pthread_cond_timedwait(&heart->ends, &heart->lock, &at);
	}
	pthread_mutex_unlock(&heart->lock);
	return NULL;
}

int heart_open(sluice_job *job)
{
	struct heart *heart = calloc(1, sizeof(*heart));
	if (heart)
		heart->heard = calloc((size_t)job->size, sizeof(*heart->heard));
	if (!heart || !heart->heard) {
		free(heart);
		return fail(SLUICE_ENOMEM, "no memory for the heartbeats of %d ranks", job->size);
	}
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&heart->ends, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_init(&heart->lock, NULL);
	job->heart = heart;
	return region_open((size_t)job->size * PULSE_BYTES, 0, "pulses", &heart->pulses);
}

int heart_start(sluice_job *job)
{
	struct heart *heart = job->heart;
	heart->last_tick_ns = now_ns();
	sigset_t all, old; /* signals belong to the application's threads */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int err = pthread_create(&heart->thread, NULL, beat, job);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return fail(SLUICE_ENOMEM, "cannot start the heartbeat's thread: %s",
			    errno_text(err));
	heart->started = 1;
	return 0;
}

void heart_stop(sluice_job *job)
{
	struct heart *heart = job->heart;
	if (!heart || !heart->started)
		return;
	pthread_mutex_lock(&heart->lock);
	heart->over = 1;
	pthread_cond_signal(&heart->ends);
	pthread_mutex_unlock(&heart->lock);
	pthread_join(heart->thread, NULL);
	heart->started = 0;
}

void heart_close(sluice_job *job)
{
	struct heart *heart = job->heart;
	if (!heart)
		return;
	heart_stop(job);
	pthread_cond_destroy(&heart->ends);
	pthread_mutex_destroy(&heart->lock);
	region_close(&heart->pulses);
	free(heart->heard);
	free(heart);
	job->heart = NULL;
}

/* ---- hearing --------------------------------------------------------------- */

void heart_met(sluice_job *job, int peer)
{
	if (job->heart)
		job->heart->heard[peer].beats_ns = job->heart->heard[peer].progress_ns = now_ns();
}

void heart_noticed(sluice_job *job, int peer)
{
	if (job->heart)
		job->heart->heard[peer].received++;
}

/* Begins to read a peer's pulse. If the queue is full, the next tick tries again. A rank is judged
 * only by what was read from it. */
static void ask_pulse(sluice_job *job, int peer)
{
	struct heart *heart = job->heart;
	struct endpoint *e = job->peers[peer].endpoint;
	struct transfer t = { .kind = TRANSFER_GET,
			      .remote = job->peers[peer].control,
			      .offset = (uint64_t)job->rank * LINE_BYTES + LINE_BEATS,
			      .local_region = heart->pulses,
			      .local = (uint8_t *)heart->pulses->base + (size_t)peer * PULSE_BYTES,
			      .bytes = PULSE_BYTES,
			      .cookie = cookie_make(COOKIE_PULSE, 0, (uint32_t)peer),
			      .quiet = e->transport->ops->copies_at_post };
	heart->heard[peer].sent = e->notifies;
	int rc = e->transport->ops->post(e, &t);
	if (rc == SLUICE_EAGAIN || rc == SLUICE_EPEER)
		return; /* a lost peer is reported by its own event */
	if (rc)
		job_fail(job, rc, job->rank, "cannot read the heartbeat of %s",
			 rank_text(job, peer));
	else if (t.quiet)
		heart_heard(job, peer, 0);
	else
		heart->heard[peer].asked = 1;
}

/* A READ that failed or was not answered shows that the node, or the path to it, is gone. A full
 * queue shows nothing, because no READ was posted then. */
static void judge_unanswered(sluice_job *job, int peer, uint64_t now)
{
	const struct heard *h = &job->heart->heard[peer];
	char why[200];
	if (!(h->asked || h->failing) || !peers_matter(job, peer) ||
	    now - h->beats_ns <= job->budget.silent_ns)
		return;
	snprintf(why, sizeof(why),
		 "no heartbeat for %.1f s: its memory could not be read (the network between the "
		 "nodes is down, or its node hangs; SLUICE_LOST_AFTER)",
		 (double)(now - h->beats_ns) / 1e9);
	peers_lost(job, peer, why);
}

void heart_tick(sluice_job *job, uint64_t now)
{
	TOKEN_HELD(job);
	struct heart *heart = job->heart;
	if (!heart)
		return;
	/* If this process itself was stopped, silence of the others proves nothing. */
	const int was_stopped = now - heart->last_tick_ns > job->budget.stopped_ns;
	heart->last_tick_ns = now;
	heart->progress++;
	show_counts(job);
	for (int p = 0; p < job->size; p++) {
		if (p == job->rank || !job->peers[p].control || !peers_matter(job, p))
			continue; /* control: not connected yet */
		if (was_stopped)
			heart->heard[p].beats_ns = heart->heard[p].progress_ns = now;
		if (!heart->heard[p].asked)
			ask_pulse(job, p);
		judge_unanswered(job, p, now);
	}
}

/* Checks that the count that the peer shows includes all notifies that it must have counted by
 * now. */
static void judge_received(sluice_job *job, int peer, uint64_t received)
{
	struct heard *h = &job->heart->heard[peer];
	const uint64_t sent = job->peers[peer].endpoint->notifies;
	char why[240];
	if (received > sent || received < h->shown) {
		job_blame(job, SLUICE_EWIRE, peer,
			  "%s reports %llu received notifies, after it reported %llu "
			  "before, while this rank has sent %llu",
			  rank_text(job, peer), (unsigned long long)received,
			  (unsigned long long)h->shown, (unsigned long long)sent);
		return;
	}
	h->shown = received;
	if (received >= h->owed) {
		h->owed = h->sent;
		h->owed_progress = h->progress;
	} else if (h->progress - h->owed_progress >= PROGRESS_TO_COUNT) {
		snprintf(why, sizeof(why),
			 "of the %llu notifies that this rank sent to it, %llu never arrived: the "
			 "network lost data (a connection was reset, or bits were corrupted)",
			 (unsigned long long)h->owed, (unsigned long long)(h->owed - received));
		peers_lost(job, peer, why);
	}
}

void heart_heard(sluice_job *job, int peer, int status)
{
	struct heart *heart = job->heart;
	struct heard *h = &heart->heard[peer];
	const uint64_t now = now_ns();
	uint8_t pulse[PULSE_BYTES];
	char why[200];
	h->asked = 0;
	h->failing = status != 0;
	/* A pulse read before this process was stopped is no evidence. The next tick notices the
	 * stop. */
	if (status || now - heart->last_tick_ns > job->budget.stopped_ns)
		return;
	memcpy(pulse, (uint8_t *)heart->pulses->base + (size_t)peer * PULSE_BYTES, sizeof(pulse));
	if (get_le64(pulse) != h->beats) {
		h->beats = get_le64(pulse);
		h->beats_ns = now;
	}
	/* If the checksum is wrong, the counts were changed while they were read, or by the
	 * network. The next tick reads them again. */
	const int counts = get_le64(pulse + LINE_CHECK) == check_of(pulse + LINE_PROGRESS);
	if (counts && get_le64(pulse + LINE_PROGRESS) != h->progress) {
		h->progress = get_le64(pulse + LINE_PROGRESS);
		h->progress_ns = now;
	}
	if (now - h->beats_ns > job->budget.silent_ns) {
		snprintf(why, sizeof(why),
			 "no heartbeat for %.1f s (stopped, or its node does not answer; "
			 "SLUICE_LOST_AFTER)",
			 (double)(now - h->beats_ns) / 1e9);
		peers_lost(job, peer, why);
	} else if (now - h->progress_ns > job->budget.stalled_ns) {
		snprintf(why, sizeof(why),
			 "its heart beats, but it made no progress for %.1f s: one of its calls "
			 "hangs (half of SLUICE_WAIT_TIMEOUT)",
			 (double)(now - h->progress_ns) / 1e9);
		peers_lost(job, peer, why);
	} else if (counts && peers_matter(job, peer)) {
		judge_received(job, peer, get_le64(pulse + LINE_RECEIVED));
	}
}
