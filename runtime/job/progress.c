/* SPDX-License-Identifier: BSD-3-Clause
 * Polling and waiting: a waiting call holds the progress token and polls itself; the progress
 * thread polls while the application computes. Waits spin briefly, then sleep in the kernel until a
 * peer's notify, a peer's end, or the next heartbeat.
 *
 * The progress thread sleeps until the armed transports wake it. While the application calls often,
 * it dozes instead: it checks every millisecond whether calls continue, and nothing is armed. So a
 * call that soon follows another costs neither arming nor a thread that wakes for the caller's own
 * events. Transports do not report what a device does, so while a device works
 * (progress_unannounced()) waiting threads nap instead of sleeping. */
#include "job/peers.h"
#include "job/state.h"
#include "job/place.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "job/heart.h"
#include "job/hubs.h"
#include "job/living.h"
#include "job/members.h"
#include "job/page.h"
#include "job/sim_rank.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum {
	EVENTS_PER_POLL = 64,
	ROUNDS_PER_POLL = 64,
	POLLS_PER_LOOK = 64 /* number of polls between two looks at the clock */
};
/* While the application calls often, the thread sleeps for 1 ms at a time. If these calls poll
 * often enough and no peer waits for a poll of this rank, the time doubles up to 16 ms. */
enum {
	NAP_NS = 100000,
	DOZE_NS = 1000000,
	DOZE_LONGEST_NS = 16000000,
	CALLS_PER_MS = 3,
	BUSY_DOZES = 4
};
/* If several threads wait, one of them polls for all. They take turns even when nothing arrives, so
 * that each one detects its own timeout. */
enum { TURN_NS = 10000000, LONGEST_NAPS = 20 };
/* A wait that lasts this long is shown on the page. The missing event is then looked up again with
 * this period, or, if the waiting thread sleeps, whenever it wakes up, such as at its next
 * heartbeat. */
enum { SHOW_NS = 200000000 };

/* The event for which a thread in progress_until() waits. */
struct wait {
	int (*done)(void *context);
	void (*describe)(void *context, char *text, size_t cap);
	void *context;
	uint64_t since_ns;
	struct wait *next; /* another thread's */
	uint64_t turn_ns;  /* time when the thread got the token */
	unsigned news;     /* value of progress.news when the thread released the token */
};

void progress_init(struct progress *p)
{
	p->epoll_fd = -1;
}

void progress_unannounced(sluice_job *job, int more)
{
	TOKEN_HELD(job);
	job->root->progress.unannounced += more;
}

int progress_waits(const sluice_job *job)
{
	return job->root->progress.waiting != NULL;
}

int progress_started(const sluice_job *job)
{
	return job->progress.thread_started;
}

static void refuse_imm(sluice_job *job, int peer, uint32_t imm)
{
	job_blame(job, SLUICE_EWIRE, peer, "%s sent a notify of unknown kind 0x%08x",
		  rank_text(job, peer), imm);
}

/* Returns the group to which a notify belongs. Translates peer and notify, which are given in terms
 * of the root. Returns NULL if this rank has left the group. */
static sluice_job *group_of_imm(sluice_job *root, int *peer, uint32_t *imm)
{
	const uint32_t kind = *imm >> IMM_KIND_SHIFT & 7;
	sluice_job *group = groups_at(root, *imm >> IMM_GROUP_SHIFT & (GROUPS_MAX - 1));
	/* A rank that has offered its lines finalizes only when the peer has answered or the group
	 * has failed. A group that has failed is kept. */
	if (!kind || (kind == IMM_MEMBERS && !group)) {
		refuse_imm(root, *peer, *imm);
		return NULL;
	}
	int rank = group ? group_rank_of(group, *peer) : -1;
	if (group && rank < 0)
		job_blame(root, SLUICE_EWIRE, *peer,
			  "%s sent a notify in a group to which it does not belong",
			  rank_text(root, *peer));
	*peer = rank;
	*imm &= ~(1u << 31 | (uint32_t)(GROUPS_MAX - 1) << IMM_GROUP_SHIFT);
	return rank < 0 ? NULL : group;
}

/* Handles a notify: a push to a shard of this rank has arrived, or a notice from a shard. */
static void dispatch_model(sluice_job *job, int peer, enum imm_kind kind, uint32_t channel)
{
	const struct job_client *client = clients_handler(&job->clients);
	uint32_t id = 0, shard = 0;
	const int found = clients_at_channel(&job->clients, channel, &id, &shard);
	if (!job_living(job, peer)) { /* the worker had been stopped, and was dropped meanwhile */
		if (found > 0 && kind == IMM_PUSH)
			client->push_refused(job, id);
		return;
	}
	if (found < 0)
		job_blame(job, SLUICE_EWIRE, peer,
			  "%s sent a notify for shard number %u of all open models, "
			  "but this rank has no such shard",
			  rank_text(job, peer), channel);
	if (found <= 0)
		return;
	clients_stir(&job->clients, id);
	(kind == IMM_PUSH ? client->push_arrived : client->notice_arrived)(job, id, peer, shard);
}

static void dispatch_imm(sluice_job *job, int peer, uint32_t imm)
{
	if (imm >> 31 && !(job = group_of_imm(job, &peer, &imm)))
		return;
	const uint32_t index = imm & IMM_INDEX_MOST;
	const enum imm_kind kind = (enum imm_kind)(imm >> IMM_KIND_SHIFT);
	if (kind == IMM_PUSH || kind == IMM_NOTICE) {
		dispatch_model(job, peer, kind, index);
		return;
	}
	if (!job_living(job, peer))
		return;
	switch (kind) {
	case IMM_PUSH:
	case IMM_NOTICE: return;
	case IMM_COLLECTIVE:
		if (!index)
			messages_arrived(job, peer, progress_waits(job));
		else if (messages_forwarded(job, peer, index, progress_waits(job)))
			break;
		return;
	case IMM_STATUS: peers_status(job, peer); return;
	case IMM_REPORT: peers_reported(job, peer, progress_waits(job)); return;
	case IMM_REGION: clients_notified(&job->clients, index, peer); return;
	case IMM_MEMBERS:
		if (job_in_group(job) ? hubs_take_offer(job, peer) : !job_elastic(job))
			break;
		if (!job_in_group(job))
			peers_members(job, peer);
		return;
	}
	refuse_imm(job, peer, imm);
}

static void dispatch_done(sluice_job *job, uint64_t cookie, int status)
{
	uint32_t id = cookie >> 32 & 0xffff, index = (uint32_t)cookie;
	const uint32_t group = cookie >> 48 & (GROUPS_MAX - 1);
	if (group && !(job = groups_at(job, group)))
		return;
	if (cookie >> 56 == COOKIE_MODEL) {
		clients_stir(&job->clients, id);
		clients_handler(&job->clients)->read_done(job, id, index, status);
	} else if (cookie >> 56 == COOKIE_REGION)
		clients_moved(&job->clients, id, index, status);
	else if (cookie >> 56 == COOKIE_PULSE)
		heart_heard(job, (int)index, status);
}

static void explain_shards(sluice_job *job, uint64_t now, int always)
{
	uint32_t at = 0;
	for (sluice_job *one; (one = groups_next(job, &at));)
		clients_handler(&one->clients)->explain(one, now, always);
}

static void explain_waits(sluice_job *job, int always)
{
	uint64_t now = now_ns();
	for (const struct wait *w = job->progress.waiting; w; w = w->next) {
		char text[512];
		w->describe(w->context, text, sizeof text);
		log_line(LOG_WARN, "runtime", "waiting for %.1f s: %s",
			 (double)(now - w->since_ns) / 1e9, text);
	}
	if (!job->progress.waiting && always)
		log_line(LOG_WARN, "runtime",
			 "this rank does not wait: the application is computing");
	explain_shards(job, now, always);
}

static void tick(sluice_job *job, uint64_t now)
{
	if (now < job->progress.next_tick_ns)
		return;
	job->progress.next_tick_ns = now + job->budget.heartbeat_ns;
	heart_tick(job, now);
}

/* Polls without reading the clock. The number of rounds is limited, because peers may write as fast
 * as this rank can read. */
static void poll_events(sluice_job *job)
{
	struct event events[EVENTS_PER_POLL];
	for (int t = 0; t < job->transports.n; t++) {
		int n, rounds = 0;
		do {
			n = job->transports.list[t]->ops->poll(job->transports.list[t], events,
							       EVENTS_PER_POLL);
			job->progress.news += n > 0;
			for (int i = 0; i < n; i++)
				switch (events[i].kind) {
				case EVENT_IMM:
					heart_noticed(job, events[i].peer);
					dispatch_imm(job, events[i].peer, events[i].imm);
					break;
				case EVENT_DONE:
					dispatch_done(job, events[i].cookie, events[i].status);
					break;
				case EVENT_GONE:
					peers_gone(job, events[i].peer, events[i].text);
					break;
				}
		} while (n == EVENTS_PER_POLL && ++rounds < ROUNDS_PER_POLL);
	}
	members_post(job);
	uint32_t at = 0;
	for (sluice_job *one; (one = groups_next(job, &at));) {
		failure_post(one);
		messages_tell(one);
		clients_handler(&one->clients)->advance(one);
	}
	if (atomic_load_explicit(&job->progress.explain, memory_order_relaxed) &&
	    atomic_exchange(&job->progress.explain, 0))
		explain_waits(job, 1);
}

void progress_poll(sluice_job *job)
{
	TOKEN_HELD(job);
	tick(job->root, now_ns());
	poll_events(job->root);
}

void progress_gather(sluice_job *job, int on)
{
	TOKEN_HELD(job);
	for (int t = 0; t < job->transports.n; t++)
		if (job->transports.list[t]->ops->gather)
			job->transports.list[t]->ops->gather(job->transports.list[t], on);
}

static int arm(sluice_job *job)
{
	int pending = 0;
	for (int t = 0; t < job->transports.n; t++)
		pending |= job->transports.list[t]->ops->sleep.arm(job->transports.list[t]);
	return pending;
}

static void disarm(sluice_job *job)
{
	for (int t = 0; t < job->transports.n; t++)
		job->transports.list[t]->ops->sleep.disarm(job->transports.list[t]);
}

/* Sleeps until an event or the time until_ns. */
static void sleep_in_kernel(sluice_job *job, uint64_t until_ns)
{
	struct epoll_event event;
	uint64_t now = now_ns();
	int ms = until_ns > now ? (int)((until_ns - now + 999999) / 1000000) : 0;
	if (epoll_wait(job->progress.epoll_fd, &event, 1, ms) < 0 && errno != EINTR)
		job_fail(job, SLUICE_EDEVICE, job->rank, "epoll_wait: %s", errno_text(errno));
}

void progress_cancel(sluice_job *job)
{
	for (int t = 0; t < job->transports.n; t++)
		job->transports.list[t]->ops->sleep.cancel(job->transports.list[t]);
	job->progress.sleeping_armed = 0;
}

void progress_arm(sluice_job *job)
{
	job->progress.sleeping_armed = 1;
	if (arm(job) || job->progress.unannounced)
		job->transports.list[0]->ops->sleep.wake(job->transports.list[0]);
}

/* ---- several threads ------------------------------------------------------- */

static void begin_wait(sluice_job *job, struct wait *wait)
{
	wait->next = job->progress.waiting;
	job->progress.waiting = wait;
}

static void end_wait(sluice_job *job, const struct wait *wait)
{
	struct wait **at = &job->progress.waiting;
	while (*at != wait)
		at = &(*at)->next;
	*at = wait->next;
}

static int others_wait(const sluice_job *job, const struct wait *own)
{
	return job->progress.waiting != own || own->next;
}

void progress_queue(sluice_job *job)
{
	atomic_fetch_add(&job->progress.queue, 1);
	if (atomic_load(&job->progress.asleep))
		job->transports.list[0]->ops->sleep.wake(job->transports.list[0]);
	token_await(&job->progress.token);
	atomic_fetch_sub(&job->progress.queue, 1);
}

/* Returns 1 if another thread should get the token now. This is a thread with a new call, or a
 * waiting thread, because only that thread evaluates its done(). */
static int turn_over(sluice_job *job, const struct wait *own, uint64_t now)
{
	const uint64_t longest = job->progress.unannounced ? DOZE_NS : TURN_NS;
	if (atomic_load(&job->progress.queue))
		return 1;
	for (const struct wait *w = job->progress.waiting; w; w = w->next)
		if (w != own && (w->news != job->progress.news || now - own->turn_ns >= longest))
			return 1;
	return 0;
}

/* Passes the token to another thread. If that thread also waits, it polls for both. */
static void give_way(sluice_job *job, struct wait *own)
{
	own->news = job->progress.news;
	unsigned calls = atomic_load_explicit(&job->progress.calls, memory_order_relaxed);
	token_leave(&job->progress.token);
	for (int naps = 0; naps < LONGEST_NAPS && atomic_load(&job->progress.calls) == calls;
	     naps++)
		progress_nap(); /* a sleeping thread needs time to wake up and take the token */
	token_take(&job->progress.token);
	progress_count_call(&job->progress);
	if (job->progress.sleeping_armed)
		progress_cancel(job);
	own->turn_ns = now_ns();
}

/* ---- waiting --------------------------------------------------------------- */

/* Returns 1 if the wait is over. *rc is then 0, the error of done(), or the failure of the job. */
static int is_over(sluice_job *job, const struct wait *wait, int *rc)
{
	const int over = wait->done(wait->context);
	*rc = over ? (over < 0 ? over : 0) : job_failed(job);
	return over || *rc;
}

/* A simulated rank waits by letting the other ranks run. */
static int take_turns(sluice_job *job, struct wait *wait)
{
	sluice_job *root = job->root;
	char text[512];
	int rc;
	begin_wait(root, wait);
	for (;;) {
		if (!sim_rank_yield(job->sim_rank)) {
			wait->describe(wait->context, text, sizeof text);
			rc = job_fail(job, SLUICE_ETIMEDOUT, job->rank,
				      "%s waits for %s, but no simulated rank can proceed: check "
				      "that all of them make the same calls",
				      rank_text(job, job->rank), text);
			break;
		}
		poll_events(root);
		if (is_over(job, wait, &rc))
			break;
	}
	sim_rank_progressed(job->sim_rank);
	end_wait(root, wait);
	return rc;
}

/* Describes the event that is missing, and for which pushes the shards of this rank wait. */
static void describe_wait(sluice_job *job, const struct wait *wait, char *text, size_t cap)
{
	wait->describe(wait->context, text, cap);
	clients_handler(&job->clients)
		->describe_waits(job, text + strlen(text), cap - strlen(text));
}

/* A peer in a collective waits for this rank, while this rank waits for something else. Another
 * thread of the peer may make progress, so this is not treated as an error, and both ranks only log
 * it. */
static void report_ahead(sluice_job *job, const struct wait *wait)
{
	char ahead[256], text[REPORT_TEXT_BYTES];
	messages_ahead_text(job, ahead, sizeof(ahead));
	if (!*ahead)
		return;
	wait->describe(wait->context, text, sizeof(text));
	log_line(LOG_WARN, "runtime", "this rank waits for %s%s", text, ahead);
	char report[REPORT_TEXT_BYTES];
	snprintf(report, sizeof(report), "it is in no collective call, but waits for %.*s", 320,
		 text);
	peers_report(job, report);
}

static int wait_until(sluice_job *job, int (*done)(void *),
		      void (*describe)(void *, char *, size_t), void *context)
{
	sluice_job *root = job->root;
	int over;
	struct wait wait = { .done = done, .describe = describe, .context = context };
	TOKEN_HELD(job);
	if (job->failure.code)
		return job_failed(job);
	for (int polls = 0; polls < POLLS_PER_LOOK && !job->failure.code; polls++) {
		/* A server may keep the token and never wait. It then reads the clock only here. */
		if (!job->sim_rank && ++root->progress.quick_polls % POLLS_PER_LOOK == 0)
			tick(root, now_ns());
		poll_events(root);
		/* If a rank was lost meanwhile, this call still succeeds, and the next call reports
		 * the loss. */
		if ((over = done(context)))
			return over < 0 ? over : 0;
	}
	wait.since_ns = wait.turn_ns = now_ns();
	messages_report(job);
	if (job->sim_rank && !job->failure.code)
		return take_turns(job, &wait);
	begin_wait(root, &wait);
	uint64_t spin_until = wait.since_ns + (uint64_t)job->settings.spin_us * 1000;
	uint64_t warn_every = job->budget.warn_after_ns;
	uint64_t warn_at = wait.since_ns + warn_every;
	uint64_t give_up_at = wait.since_ns + job->budget.wait_timeout_ns;
	const uint64_t show_first = root->page.page ? wait.since_ns + SHOW_NS : UINT64_MAX;
	uint64_t show_at = show_first;
	int rc;
	for (;;) {
		progress_poll(root);
		if (is_over(job, &wait, &rc))
			break;
		uint64_t now = now_ns();
		if (now >= give_up_at) {
			char text[512];
			/* A rank for which shards of this rank wait may be the cause. */
			describe_wait(job, &wait, text, sizeof text);
			messages_ahead_text(job, text + strlen(text), sizeof text - strlen(text));
			rc = job_fail(job, SLUICE_ETIMEDOUT, job->rank,
				      "%s waited %.0f s (SLUICE_WAIT_TIMEOUT) for %s",
				      rank_text(job, job->rank),
				      (double)(now - wait.since_ns) / 1e9, text);
			break;
		}
		if (now >= show_at) {
			char text[512];
			describe_wait(job, &wait, text, sizeof text);
			page_show_wait(job, wait.since_ns, text);
			show_at = now + SHOW_NS;
		}
		if (now >= warn_at) {
			/* The other ranks may be missing because of the error that this rank holds
			 * back. */
			error_release(LOG_ERROR);
			explain_waits(root, 0);
			report_ahead(job, &wait);
			warn_at = now + warn_every;
		}
		if (turn_over(root, &wait, now)) {
			give_way(root, &wait);
			continue;
		}
		if (now < spin_until) {
			sched_yield(); /* lets the kernel and other processes on this processor
					  run */
			for (int polls = 1; polls < POLLS_PER_LOOK && !job->failure.code; polls++) {
				poll_events(root);
				if (done(context))
					break;
			}
			continue;
		}
		if (root->progress.unannounced) {
			progress_nap();
			continue;
		}
		uint64_t until = root->progress.next_tick_ns < warn_at ?
					 root->progress.next_tick_ns :
					 warn_at;
		if (show_at == show_first && show_at < until)
			until = show_at;
		if (others_wait(root, &wait) && wait.turn_ns + TURN_NS < until)
			until = wait.turn_ns + TURN_NS;
		atomic_store(&root->progress.asleep, 1);
		if (!arm(root) && !done(context) && !atomic_load(&root->progress.queue))
			sleep_in_kernel(root, until < give_up_at ? until : give_up_at);
		atomic_store(&root->progress.asleep, 0);
		disarm(root);
	}
	end_wait(root, &wait);
	if (show_at != show_first)
		page_show_wait(job, 0, "");
	return rc;
}

int progress_until(sluice_job *job, int (*done)(void *), void (*describe)(void *, char *, size_t),
		   void *context)
{
	struct error_scope scope;
	error_begin(&scope);
	return error_end(&scope, wait_until(job, done, describe, context));
}

static void doze(uint32_t ns)
{
	struct timespec rest = { 0, (long)ns };
	nanosleep(&rest, NULL);
}

void progress_nap(void)
{
	doze(NAP_NS);
}

/* Returns the length of the next doze. `calls` is the number of calls since the last doze. Without
 * calls it returns 0, and the thread sleeps until an event. */
static uint32_t next_doze(uint32_t doze_ns, unsigned calls, uint32_t longest_ns)
{
	if (!calls)
		return 0;
	if (!doze_ns || calls < doze_ns / DOZE_NS * CALLS_PER_MS)
		return DOZE_NS;
	return 2 * doze_ns < longest_ns ? 2 * doze_ns : longest_ns;
}

/* Does the part of the progress thread's work that needs the token. */
static void look_after(sluice_job *job, unsigned *calls_seen, uint64_t *warn_at)
{
	unsigned calls = atomic_load_explicit(&job->progress.calls, memory_order_relaxed);
	uint32_t doze_ns = next_doze(job->progress.doze_ns, calls - *calls_seen,
				     job->progress.longest_doze_ns);
	*calls_seen = calls;
	if (!job->progress.doze_ns)
		disarm(job); /* this thread slept, so it clears the wake-up event */
	job->progress.sleeping_armed = 0;
	progress_poll(job);
	/* A shard can be stuck even while the application is not in a call. */
	if (now_ns() >= *warn_at) {
		explain_shards(job, now_ns(), 0);
		*warn_at = now_ns() + job->budget.warn_after_ns;
	}
	job->progress.doze_ns = doze_ns || !job->progress.unannounced ? doze_ns : DOZE_NS;
}

/* Takes the token for the progress thread. If another thread holds the token for long, that thread
 * waits and polls, so this thread need not poll. */
static void take_for_thread(sluice_job *job)
{
	for (int tries = 0; job->progress.doze_ns && tries < BUSY_DOZES; tries++) {
		if (token_try(&job->progress.token))
			return;
		doze(job->progress.doze_ns);
	}
	token_take(&job->progress.token);
}

static void *progress_thread(void *argument)
{
	sluice_job *job = argument;
	uint64_t warn_at = now_ns() + job->budget.warn_after_ns;
	unsigned calls_seen = 0;
	while (!atomic_load(&job->progress.stop)) {
		take_for_thread(job);
		look_after(job, &calls_seen, &warn_at);
		uint32_t doze_ns = job->progress.unannounced ? NAP_NS : job->progress.doze_ns;
		uint64_t until = job->progress.next_tick_ns;
		if (progress_wants_events(&job->progress))
			progress_arm(job);
		progress_leave(&job->progress);
		/* The wake-up of progress_stop() may have been cleared together with other
		 * wake-ups. */
		if (doze_ns)
			doze(doze_ns);
		else if (!atomic_load(&job->progress.stop))
			sleep_in_kernel(job, until);
	}
	return NULL;
}

int progress_start(sluice_job *job)
{
	job->progress.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (job->progress.epoll_fd < 0)
		return fail(SLUICE_ENOMEM, "epoll_create1: %s", errno_text(errno));
	job->progress.longest_doze_ns = DOZE_LONGEST_NS;
	for (int t = 0; t < job->transports.n; t++) {
		int fd = job->transports.list[t]->ops->sleep.fd(job->transports.list[t]);
		struct epoll_event event = { .events = EPOLLIN };
		if (job->transports.list[t]->ops->moves_by_polling)
			job->progress.longest_doze_ns = DOZE_NS;
		if (epoll_ctl(job->progress.epoll_fd, EPOLL_CTL_ADD, fd, &event))
			return fail(SLUICE_ENOMEM, "epoll_ctl: %s", errno_text(errno));
	}
	job->progress.thread_started = 1;
	int err = thread_start(&job->progress.thread, progress_thread, job);
	if (err) {
		job->progress.thread_started = 0;
		return fail(SLUICE_ENOMEM, "cannot start the progress thread: %s", errno_text(err));
	}
	const char *device = NULL;
	for (int t = 0; t < job->transports.n && !device; t++)
		device = job->transports.list[t]->device;
	if (strcmp(job->settings.placement, "no"))
		place_thread(job->progress.thread, device);
	return 0;
}

void progress_stop(sluice_job *job)
{
	if (job->progress.thread_started) {
		atomic_store(&job->progress.stop, 1);
		job->transports.list[0]->ops->sleep.wake(job->transports.list[0]);
		pthread_join(job->progress.thread, NULL);
		job->progress.thread_started = 0;
	}
	if (job->progress.epoll_fd >= 0)
		close(job->progress.epoll_fd);
	job->progress.epoll_fd = -1;
}

void sluice_log_waits(sluice_job *job)
{
	if (!job)
		return;
	job = job->root;
	atomic_store(&job->progress.explain, 1);
	if (job->transports.n)
		job->transports.list[0]->ops->sleep.wake(job->transports.list[0]);
}
