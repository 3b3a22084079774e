/* SPDX-License-Identifier: BSD-3-Clause
 * The heartbeat. A separate thread, which does nothing else, counts beats in this rank's memory,
 * where the other ranks read the count. It takes no lock that work can hold and calls no transport,
 * so only the end or the stop of the process stops it.
 *
 * A pulse has three numbers. The first two show whether the rank lives, because a process can be
 * alive without making progress:
 *
 *   beats     counted by the thread. The count stops if the process ended or was stopped (SIGSTOP,
 *             a debugger, a frozen control group), or if its node hangs. The rank is then lost
 *             after lost_after.
 *   progress  counted in heart_tick() by the holder of the progress token. The count stops while a
 *             step works under the token, for seconds with a large model, and for ever if the
 *             holder waits for an event that never comes. Other ranks cannot distinguish the two
 *             cases, so a rank whose heartbeat continues is lost only after budget.stalled_ns,
 *             which is long.
 *
 *   received  number of notifies that this rank has taken from the peer that reads the pulse, up
 *             to the last change of progress. If the peer has sent more, the rest may be lost,
 *             because a connection was reset and made again, or bits were changed on the way.
 *             When a peer answers a READ, the notifies that were posted before it have arrived
 *             (rdma/transport.h). When that peer has then counted progress a few times, it has
 *             also counted them. If it has not, they are lost, and so is the peer. No time is
 *             involved, so neither a slow network nor a long step is mistaken for a loss.
 *
 * If a pulse cannot be read, the process has ended, its node hangs, or only the link is down or
 * busy. The first of these signs decides:
 *
 *   movement  any transfer between the two ranks proceeds: the link works. A READ may then wait
 *             behind other bytes, for up to link_lost_after. After that the connection is made
 *             again, once, because a queue pair can hang in one direction.
 *   refusal   the peer's kernel refuses a question over the control network (probe.h): the process
 *             has ended, and the peer is lost at once.
 *   answer    the process answers over the control network: the link is down, and the peer is lost
 *             after link_lost_after. The same holds if this rank's own port is down.
 *   silence   on both networks: the peer is lost after lost_after.
 *
 * Only the sender of notifies decides that they are lost: it declares the peer lost, and failure.c
 * reports that to all others.
 *
 * An application that computes outside of Sluice holds no token: the progress thread then counts
 * progress. Each peer's line of the control region has its own pulse, because a transport may give
 * a peer the keys of only that line. */
#include "job/heart.h"
#include "base/bytes.h"
#include "job/reach.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "job/peers.h"
#include "job/probe.h"
#include "job/state.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A rank polls at least once between two counts of progress. Six counts are needed, because some
 * transports answer a READ before the last piece of a put, and because one poll may not empty a
 * queue. */
enum { PROGRESS_TO_COUNT = 6 };
/* A peer with a silent link is asked once in this many beats. */
enum { PROBE_BEATS = 2 };

struct heard {
	uint64_t beats, progress; /* values of the last READ */
	uint64_t received;        /* notifies that this rank received from the peer */
	uint64_t shown;           /* notifies that the peer had received from this rank at the
				     last READ */
	uint64_t sent;            /* notifies sent to the peer when the READ under way was posted */
	/* once the peer's progress has grown by PROGRESS_TO_COUNT since owed_progress, its count
	 * must be at least `owed` */
	uint64_t owed, owed_progress;
	uint64_t beats_ns, progress_ns; /* time at which this rank saw the last change */
	uint64_t asked_ns;              /* time at which the last READ was posted */
	int asked;                      /* 1 while a READ of the pulse is under way */
	uint64_t moved, moved_ns;       /* the counter of the transport, and when it last grew */
	uint64_t probed_ns;  /* time of the last question over the control network, which was asked
				because the link is silent */
	int away;            /* 1 if this rank has logged that the link is down */
	uint64_t renewed_ns; /* time at which the connection was made again, because the READ under
				way was not answered; 0: it was not */
};

struct heart {
	struct region *pulses; /* READs store the peers' pulses here, PULSE_BYTES each */
	struct heard *heard;   /* size */
	uint64_t progress;     /* this rank's count of progress; token held */
	uint64_t last_tick_ns; /* time of the last heart_tick(); token held */
	struct probe *probe;   /* NULL: this rank has no transport over a network */
	int next_probed;       /* the peer that the next tick asks; token held */
	pthread_t thread;
	int started;
	int ends; /* a descriptor that becomes readable when the thread must end */
};

/* ---- beating --------------------------------------------------------------- */

/* Writes one number of this rank's pulse into this rank's line at a peer. */
static void show(const sluice_job *job, int peer, size_t at, uint64_t value)
{
	uint8_t *line = line_of(job, peer);
	uint64_t bytes;
	put_le64((uint8_t *)&bytes, value);
	__atomic_store_n((uint64_t *)(void *)(line + at), bytes, __ATOMIC_RELAXED);
}

/* Returns the checksum of progress and received at `counts`. It shows the reader whether one of the
 * two changed between its reads of both. */
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
	struct pollfd fds[] = { { .fd = heart->ends, .events = POLLIN },
				{ .fd = heart->probe ? probe_fd(heart->probe) : -1,
				  .events = POLLIN } };
	for (uint64_t beats = 0, next = now_ns(); !fds[0].revents;) {
		const uint64_t now = now_ns();
		if (now >= next) {
			beats++;
			for (int p = 0; p < job->size; p++)
				show(job, p, LINE_BEATS, beats);
			next = now + period;
		}
		const struct timespec rest = { (time_t)((next - now) / 1000000000),
					       (long)((next - now) % 1000000000) };
		if (ppoll(fds, 2, &rest, NULL) > 0 && fds[1].revents)
			probe_serve(heart->probe);
	}
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
	job->heart = heart;
	heart->ends = eventfd(0, EFD_CLOEXEC);
	if (heart->ends < 0)
		return fail(SLUICE_ENOMEM, "eventfd: %s", errno_text(errno));
	int rc = probe_check(job->settings.control_interface);
	return rc ? rc : region_open((size_t)job->size * PULSE_BYTES, 0, "pulses", &heart->pulses);
}

/* Returns 1 if this rank may use a network to reach a peer. */
static int has_network(const sluice_job *job)
{
	for (int t = 0; t < job->transports.n && job->size > 1; t++)
		if (job->transports.list[t]->ops->moved)
			return 1;
	return 0;
}

int heart_record(sluice_job *job, uint8_t bytes[PROBE_RECORD_BYTES], size_t *n_out)
{
	struct heart *heart = job->heart;
	int rc = 0;
	*n_out = 0;
	if (!heart || !has_network(job))
		return 0;
	if (!heart->probe)
		rc = probe_open(job->rank, job->size, job->settings.control_interface,
				job->settings.ports, &heart->probe);
	if (!rc)
		*n_out = probe_record(heart->probe, bytes);
	return rc;
}

int heart_admit(sluice_job *job, const struct peer_keys *keys)
{
	struct heart *heart = job->heart;
	int rc = 0;
	if (!heart || !heart->probe)
		return 0;
	probe_admit(heart->probe, keys);
	for (int p = 0; p < job->size && !rc; p++) {
		size_t n = 0;
		const uint8_t *bytes = record_find(&job->records[p], HEART_ENTRY, 0, &n);
		rc = probe_meet(heart->probe, p, bytes, bytes ? n : 0);
	}
	return rc;
}

int heart_start(sluice_job *job)
{
	struct heart *heart = job->heart;
	heart->last_tick_ns = now_ns();
	int err = thread_start(&heart->thread, beat, job);
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
	eventfd_write(heart->ends, 1);
	pthread_join(heart->thread, NULL);
	heart->started = 0;
}

void heart_close(sluice_job *job)
{
	struct heart *heart = job->heart;
	if (!heart)
		return;
	heart_stop(job);
	probe_close(&heart->probe);
	if (heart->ends >= 0)
		close(heart->ends);
	region_close(&heart->pulses);
	free(heart->heard);
	free(heart);
	job->heart = NULL;
}

/* ---- reading the pulses of peers ----------------------------------------------- */

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

/* Starts to read a peer's pulse. If the queue is full, the next tick tries again. */
static void ask_pulse(sluice_job *job, int peer, uint64_t now)
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
		return; /* another event reports the loss of a peer */
	heart->heard[peer].asked_ns = now;
	if (rc)
		job_fail(job, rc, job->rank, "cannot read the heartbeat of %s",
			 rank_text(job, peer));
	else if (t.quiet)
		heart_heard(job, peer, 0);
	else
		heart->heard[peer].asked = 1;
}

static void look_for_movement(sluice_job *job, int peer, uint64_t now)
{
	struct heard *h = &job->heart->heard[peer];
	struct endpoint *e = job->peers[peer].endpoint;
	const uint64_t moved = e->transport->ops->moved(e);
	if (moved == h->moved)
		return;
	h->moved = moved;
	h->moved_ns = now;
	if (h->away)
		log_line(LOG_WARN, "runtime", "the link to %s works again", rank_text(job, peer));
	h->away = 0;
}

/* Returns the time of the last sign of life that came over the link. It may be later than the
 * tick's time. */
static uint64_t last_ns(const struct heard *h)
{
	return h->moved_ns > h->beats_ns ? h->moved_ns : h->beats_ns;
}

/* Called when a link has been silent for longer than a process may be, but the process lives. */
static void wait_for_link(sluice_job *job, int peer, uint64_t silent, int down)
{
	struct heard *h = &job->heart->heard[peer];
	const char *lives = down ? "this rank's own port is down" :
				   "its process answers over the control network";
	char why[240];
	if (silent > job->budget.link_lost_ns) {
		snprintf(why, sizeof(why),
			 "the link to it was down for %.1f s (%s; SLUICE_LINK_LOST_AFTER)",
			 (double)silent / 1e9, lives);
		peers_lost(job, peer, why);
	} else if (!h->away) {
		h->away = 1;
		log_line(LOG_WARN, "runtime",
			 "the link to %s has been silent for %.1f s, but %s: waiting up to %.0f s "
			 "(SLUICE_LINK_LOST_AFTER)",
			 rank_text(job, peer), (double)silent / 1e9, lives,
			 (double)job->budget.link_lost_ns / 1e9);
	}
}

/* Bytes arrive, but a READ gets no answer: the queue pair works in only one direction. */
static void judge_one_way(sluice_job *job, int peer, uint64_t now)
{
	struct heard *h = &job->heart->heard[peer];
	struct endpoint *e = job->peers[peer].endpoint;
	const double seconds = (double)(now - h->asked_ns) / 1e9;
	char why[240];
	if (e->transport->ops->renew && !h->renewed_ns) {
		h->renewed_ns = now;
		log_line(LOG_WARN, "runtime",
			 "the memory of %s could not be read for %.1f s, although bytes come from "
			 "it: making the connection again",
			 rank_text(job, peer), seconds);
		e->transport->ops->renew(e, "it works in only one direction");
		return;
	}
	snprintf(why, sizeof(why),
		 "its memory could not be read for %.1f s, although bytes come from it "
		 "(SLUICE_LINK_LOST_AFTER)",
		 seconds);
	peers_lost(job, peer, why);
}

static void judge_silence(sluice_job *job, int peer, uint64_t now)
{
	struct heart *heart = job->heart;
	struct heard *h = &heart->heard[peer];
	struct endpoint *e = job->peers[peer].endpoint;
	const uint64_t silent = now > last_ns(h) ? now - last_ns(h) : 0;
	const uint64_t answered_ns = probe_answered_ns(heart->probe, peer);
	const uint64_t since = h->renewed_ns > h->asked_ns ? h->renewed_ns : h->asked_ns;
	char why[240];
	if (silent <= job->budget.doubt_ns) {
		if (h->asked && now > since && now - since > job->budget.link_lost_ns)
			judge_one_way(job, peer, now);
		return;
	}
	if (probe_refused_ns(heart->probe, peer) > last_ns(h)) {
		peers_lost(job, peer,
			   "its process ended: its port in the control network is closed");
		return;
	}
	if (now - h->probed_ns >= PROBE_BEATS * job->budget.heartbeat_ns) {
		h->probed_ns = now;
		probe_ask(heart->probe, peer, now);
	}
	if (silent <= job->budget.silent_ns)
		return;
	const int down = e->transport->ops->away && e->transport->ops->away(e);
	if (down || (answered_ns && now - answered_ns <= job->budget.silent_ns)) {
		wait_for_link(job, peer, silent, down);
		return;
	}
	snprintf(why, sizeof(why),
		 "no heartbeat for %.1f s: its memory could not be read, and %s (its process or "
		 "node "
		 "hangs, or no network leads to it; SLUICE_LOST_AFTER)",
		 (double)silent / 1e9,
		 answered_ns ? "it does not answer over the control network any more" :
			       "it has never answered over a control network");
	peers_lost(job, peer, why);
}

/* Returns 1 if this rank reads the peer's memory through a network. */
static int is_remote(const sluice_job *job, int peer)
{
	return job->peers[peer].endpoint->transport->ops->moved != NULL;
}

/* Asks one remote peer after another, so that each of them has already answered once when an answer
 * matters. */
static void ask_the_next(sluice_job *job, uint64_t now)
{
	struct heart *heart = job->heart;
	for (int tries = 0; tries < job->size; tries++) {
		const int peer = heart->next_probed;
		heart->next_probed = (peer + 1) % job->size;
		if (peer == job->rank || !job->peers[peer].control || !peers_matter(job, peer) ||
		    !is_remote(job, peer))
			continue;
		probe_ask(heart->probe, peer, now);
		return;
	}
}

void heart_tick(sluice_job *job, uint64_t now)
{
	TOKEN_HELD(job);
	struct heart *heart = job->heart;
	if (!heart)
		return;
	/* The silence of peers proves nothing if this process itself was stopped. */
	const int was_stopped = now - heart->last_tick_ns > job->budget.stopped_ns;
	heart->last_tick_ns = now;
	heart->progress++;
	show_counts(job);
	for (int p = 0; p < job->size; p++) {
		if (p == job->rank || !job->peers[p].control || !peers_matter(job, p))
			continue; /* without a control region, the peer is not connected yet */
		if (was_stopped)
			heart->heard[p].beats_ns = heart->heard[p].progress_ns =
				heart->heard[p].asked_ns = now;
		if (!heart->heard[p].asked)
			ask_pulse(job, p, now);
		if (!is_remote(job, p))
			continue;
		look_for_movement(job, p, now);
		judge_silence(job, p, now);
	}
	ask_the_next(job, now);
}

/* Checks that the peer's count includes all notifies that the peer must have counted by now. */
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
	h->renewed_ns = 0;
	/* If this process was stopped after the READ, the pulse is no evidence. The next tick
	 * detects the stop. */
	if (status || now - heart->last_tick_ns > job->budget.stopped_ns)
		return;
	memcpy(pulse, (uint8_t *)heart->pulses->base + (size_t)peer * PULSE_BYTES, sizeof(pulse));
	if (get_le64(pulse) != h->beats) {
		h->beats = get_le64(pulse);
		h->beats_ns = now;
	}
	/* A wrong checksum means that the counts changed during the READ, or that the network
	 * damaged them. The next tick reads them again. */
	const int counts = get_le64(pulse + LINE_CHECK) == check_of(pulse + LINE_PROGRESS);
	if (counts && get_le64(pulse + LINE_PROGRESS) != h->progress) {
		h->progress = get_le64(pulse + LINE_PROGRESS);
		h->progress_ns = now;
	}
	/* A pulse that had to wait behind other bytes may be as old as the READ, so the time of the
	 * READ counts. */
	if (h->asked_ns > h->beats_ns && h->asked_ns - h->beats_ns > job->budget.silent_ns) {
		snprintf(why, sizeof(why),
			 "no heartbeat for %.1f s (stopped, or its node does not answer; "
			 "SLUICE_LOST_AFTER)",
			 (double)(h->asked_ns - h->beats_ns) / 1e9);
		peers_lost(job, peer, why);
	} else if (now - h->progress_ns > job->budget.stalled_ns) {
		snprintf(why, sizeof(why),
			 "its heartbeat continues, but it made no progress for %.1f s: one of its "
			 "calls hangs (half of SLUICE_WAIT_TIMEOUT)",
			 (double)(now - h->progress_ns) / 1e9);
		peers_lost(job, peer, why);
	} else if (counts && peers_matter(job, peer)) {
		judge_received(job, peer, get_le64(pulse + LINE_RECEIVED));
	}
}
