/* SPDX-License-Identifier: BSD-3-Clause
 * Private state of a job, shared by job.c (init, finalize), failure.c, peers.c (heartbeat, loss),
 * heart.c (heartbeat), members.c (going on without a lost worker), collective.c (barrier, sum,
 * gather, exchange), progress.c (token, waits, thread) and the models above them, which it calls
 * through client.h alone. */
#ifndef RUNTIME_JOB_H
#define RUNTIME_JOB_H
#include "base/env.h"
#include "base/error.h"
#include "job/budget.h"
#include "job/client.h"
#include "job/heart.h"
#include "rdma/transport.h"
#include "slurm/bootstrap.h"
#include "sluice.h"
#include "job/seat.h"
#include "job/token.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <unistd.h>

enum { JOB_MODELS = 16, JOB_REGIONS = 64, JOB_TRANSPORTS = 4 };

/* What travels in the 32 bits of a notify: kind, model or 0, and an index (shard, region). */
enum imm_kind {
	IMM_MAIL = 1,
	IMM_STATUS,
	IMM_PUSH,
	IMM_NOTICE,
	IMM_REGION,
	IMM_REPORT,
	IMM_MEMBERS
};
static inline uint32_t imm_make(enum imm_kind kind, uint32_t model, uint32_t index)
{
	return (uint32_t)kind << 28 | model << 24 | index;
}

/* Cookies of GETs: who is told when it is done. */
enum cookie_kind { COOKIE_MODEL = 1, COOKIE_REGION, COOKIE_PULSE };
static inline uint64_t cookie_make(enum cookie_kind kind, uint32_t id, uint32_t index)
{
	return (uint64_t)kind << 56 | (uint64_t)id << 32 | index;
}

/* The line that a peer writes in this rank's control region, one per peer. */
enum {
	MAIL_BYTES = 1024,
	MAIL_HEADER_BYTES = 32, /* seq u64, op u32, length u32, crc u32, zeros */
	LINE_BEATS = 0, /* u64, and progress: written by this rank itself, read by the peer */
	LINE_PROGRESS = 8,
	PULSE_BYTES = 16, /* both */
	LINE_STATUS = 64, /* state u32, culprit u32, crc u32, length u32, text */
	LINE_STATUS_TEXT = LINE_STATUS + 16,
	STATUS_TEXT_BYTES = 432,
	LINE_REPORT = 512, /* crc u32, length u32, text: whom a shard of the writer waits for */
	REPORT_TEXT_BYTES = 376,
	LINE_MAIL = 896,
	/* epoch u32, CRC32C of the rest u32, round u64, zeros; then two bitmaps (members.c) */
	LINE_MEMBERS = LINE_MAIL + 2 * (MAIL_HEADER_BYTES + MAIL_BYTES),
	MEMBERS_MAX = 4096, /* workers, with on_failure=continue */
	MEMBERS_BYTES = MEMBERS_MAX / 8,
	MEMBERS_HEADER_BYTES = 64,
	MEMBERS_BLOCK_BYTES = MEMBERS_HEADER_BYTES + 2 * MEMBERS_BYTES,
	LINE_BYTES = LINE_MEMBERS + MEMBERS_BLOCK_BYTES
};
enum line_state { LINE_ALIVE = 0, LINE_BYE = 1, LINE_GAVE_UP = 2 };

enum peer_state { PEER_ALIVE, PEER_LEFT, PEER_LOST };

struct peer {
	struct endpoint *endpoint;
	struct remote *control; /* its control region; our line is number `rank` */
	enum peer_state state;
	uint64_t mails;    /* IMM_MAILs received: mail seq <= mails is complete */
	uint64_t held_seq; /* at the announcer: this peer holds all mails of that round */
	int members_due;   /* our membership block is not written to it yet */
};

/* Who is in the job, if workers may be lost without losing it (members.c). */
struct membership {
	int elastic;                   /* on_failure=continue */
	uint8_t living[MEMBERS_BYTES]; /* workers of this epoch: bit w % 8 of byte w / 8 */
	uint8_t closed[MEMBERS_BYTES]; /* workers whose mails count in round closed_seq */
	uint64_t held_seq;             /* this rank holds the mails of all living of that round */
	uint64_t closed_seq;           /* the announcer closed this round */
	int due;                       /* peers with members_due */
};

struct failure {
	int code;    /* 0: none */
	int culprit; /* rank */
	char text[ERROR_TEXT_BYTES];
};

struct sluice_job {
	pid_t pid;                 /* of the process that called sluice_init */
	int *page_of_this_process; /* holds 0 in a forked child; asks no kernel */
	struct seat *seat;         /* of a simulated rank; NULL in a real job */
	int rank, size, servers, workers;
	struct settings settings;
	struct budget budget; /* all timers, from settings */
	struct card *cards;   /* size */
	struct transport *transports[JOB_TRANSPORTS];
	int n_transports;
	char unopened[ERROR_TEXT_BYTES]; /* why transports that were not asked for by name are not
					    there */
	struct region *control;          /* size lines, written by the peers but for the pulse */
	struct region *outbox;           /* sources of our control writes: status, membership
					  * block, 2 mails a peer */
	struct peer *peers;              /* size; [rank] is this rank over `self` */

	struct token token; /* the progress token: whoever holds it polls */
	pthread_t thread;
	int thread_started;
	atomic_int stop;    /* ends the progress thread */
	atomic_int explain; /* sluice_explain() was called */
	int epoll_fd;
	int sleeping_armed; /* transports are armed for the sleeping progress thread */
	uint32_t doze_ns;   /* not 0: the progress thread looks by itself so often; it alone writes
			       this */
	/* How much is under way of which no event tells, on a device or in a peer's queue: whoever
	 * waits looks often. With the token. */
	int unannounced;
	atomic_uint calls; /* how often the application took the token */
	atomic_int
		queue; /* of its threads that wait for the token, but for those in progress_until */
	atomic_int asleep; /* who holds the token sleeps in the kernel */
	unsigned news;     /* how often a poll found something */
	uint64_t next_tick_ns, last_tick_ns;
	unsigned quick_polls; /* without a look at the clock */
	struct heart *heart;  /* NULL in a simulated rank */

	struct failure failure;
	int finalizing;               /* in sluice_finalize: a peer's bye is now in order */
	int said_bye;                 /* all were there: nobody can be lost any more */
	atomic_uint membership_epoch; /* 1 from bootstrap on; a push reads it without the token */
	struct membership members;
	atomic_int living;       /* workers; for sluice_living() */
	uint64_t collective_seq; /* mails sent */
	int ahead;               /* peers that have begun the next collective already */
	int collecting;          /* a thread is in a collective; another one has to wait */
	struct wait *waiting;    /* what callers in progress_until wait for, the last one first */

	const struct job_client *client;           /* never NULL */
	sluice_model *models[JOB_MODELS];          /* the client's */
	int models_end;                            /* no model lies from here on */
	const struct region_client *region_client; /* set where a region is */
	sluice_region *regions[JOB_REGIONS];
};

/* ---- failure.c ---- */
/* Records the first failure of the job, logs it, and tells all living peers who is to blame.
 * Returns code. Token held. */
int job_fail(sluice_job *job, int code, int culprit, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Returns the recorded failure to a caller (sets sluice_last_error, logs nothing). */
int job_failed(sluice_job *job);
/* "rank 3 (node n2)" in one of a few rotating thread-local buffers. */
const char *rank_text(const sluice_job *job, int rank);
/* Of the process that called sluice_init. */
static inline int job_in_child(const sluice_job *job)
{
	return job->page_of_this_process ? !*job->page_of_this_process : job->pid != getpid();
}
/* SLUICE_EINVAL in a forked child, else 0. */
int job_check(const sluice_job *job, const char *function);
/* Writes to this rank's line at a peer, from the outbox. As the transport's post(). */
int peers_put(sluice_job *job, int peer, enum transfer_kind kind, size_t offset_in_line,
	      void *source, size_t bytes, uint32_t imm);
/* Last words. */
void peers_announce(sluice_job *job, enum line_state state, int culprit, const char *text);

/* ---- join.c ---- */
/* Everything of sluice_init(): the caller closes *boot, and frees what there is of the job on
 * failure. */
int job_join(sluice_job *job, const sluice_job_attr *attr, struct bootstrap **boot);

/* ---- peers.c ---- */
void peers_gone(sluice_job *job, int peer, const char *why); /* EVENT_GONE */
void peers_status(sluice_job *job, int peer);                /* IMM_STATUS */
/* Tells the living peers, who wait for this rank's shard, whom the shard waits for. */
void peers_report(sluice_job *job, const char *text);
void peers_reported(sluice_job *job, int peer); /* IMM_REPORT */

/* Nothing can be written to it or expected from it any more. why: "its process ended". */
void peers_lost(sluice_job *job, int peer, const char *why);
/* A peer broke the rules. With on_failure=continue a worker is dropped, as if it were lost; else,
 * and for a server, the same as job_fail(). Returns code. Token held. */
int job_blame(sluice_job *job, int code, int peer, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- members.c ---- */
/* After the ranks are known; refuses on_failure=continue where it cannot work. */
int members_open(sluice_job *job);
/* A peer is lost: returns 1 if the job goes on without it, 0 if that is the job's end. */
int members_lost(sluice_job *job, int peer, const char *why);
void members_arrived(sluice_job *job, int peer); /* IMM_MEMBERS */
/* What this rank read makes no sense. If it was stopped, others may have dropped it and have gone
 * on overwriting: then the job has failed with that when this returns. */
void members_overtaken(sluice_job *job);
/* This rank holds the mails of this round of all living ranks. */
void members_held(sluice_job *job, uint64_t seq);
/* Writes what found a full queue. */
void members_post(sluice_job *job);

static inline int members_bit(const uint8_t *bits, int worker)
{
	return bits[worker / 8] >> worker % 8 & 1;
}
/* In this epoch. Servers always are: losing one ends the job. */
static inline int job_living(const sluice_job *job, int rank)
{
	return !job->members.elastic || rank >= job->workers ||
	       members_bit(job->members.living, rank);
}
/* Whether what that rank gave in the last collective counts, on all ranks alike. */
static inline int round_has(const sluice_job *job, int rank)
{
	return !job->members.elastic || rank >= job->workers ||
	       members_bit(job->members.closed, rank);
}
/* The lowest worker of the last collective, on all ranks alike; it does what only one must do. */
static inline int round_leader(const sluice_job *job)
{
	int rank = 0;
	while (!round_has(job, rank))
		rank++;
	return rank;
}

/* ---- collective.c ---- */
enum collective {
	COLLECTIVE_BARRIER = 1,
	COLLECTIVE_SUM,
	COLLECTIVE_GATHER,
	COLLECTIVE_OPEN,
	COLLECTIVE_EXCHANGE,
	COLLECTIVE_CHECKPOINT,
	COLLECTIVE_RESTORE,
	COLLECTIVE_CLOSE,
	COLLECTIVE_FINALIZE
};
/* All ranks give `bytes` bytes (<= MAIL_BYTES) to each peer: from mine + stride * peer (stride 0:
 * the same to all), and receive: all + r * bytes holds what rank r gave this rank (`all` may be
 * NULL). A rank that gives fewer bytes (a server in a worker's sum) leaves its row zero; so does a
 * lost worker: round_has() tells, on all ranks alike, whose rows count. Token not held. */
int collective_run(sluice_job *job, enum collective op, const void *mine, size_t stride,
		   size_t bytes, void *all);
/* Collective: 0 if every rank came with rc 0, so that nobody is left waiting for one that failed.
 * Own rc if it is not 0, else SLUICE_EPEER naming the first rank that could not do `what` ("open
 * the model"), and why. */
int collective_agree(sluice_job *job, int rc, const char *what);
/* A mail of this peer has come. */
void collective_arrived(sluice_job *job, int peer);
/* Closes a model of which this rank's worker pushed the gradients of so many steps: others learn
 * at once if they wait for more. */
int collective_close(sluice_job *job, uint32_t model, uint64_t steps);
/* Tells the client of all peers that have begun to close a model, because a call now waits. */
void collective_closings(sluice_job *job);
/* The operation that the lowest living worker has begun and this rank has not joined, 0 if none:
 * what a server mirrors. */
uint32_t collective_pending(const sluice_job *job);

/* ---- progress.c ---- */
/* What a blocked caller waits for. done() is asked after each poll by its thread, maybe again after
 * it said yes (1), or that the call fails (SLUICE_E*); describe() writes what is missing ("version
 * 13 of shard 2 from rank 3 (node n2)"). */
struct wait {
	int (*done)(void *context);
	void (*describe)(void *context, char *text, size_t cap);
	void *context;
	uint64_t since_ns;
	struct wait *next; /* another thread's */
	uint64_t turn_ns;  /* since when its thread has the token */
	unsigned news;     /* job.news when it gave the token away */
};
/* The token for a thread of the application; who holds it for long, because it waits, is asked for
 * it. */
void progress_queue(sluice_job *job);
static inline void progress_enter(sluice_job *job)
{
	if (!token_try(&job->token))
		progress_queue(job);
}
/* The token for a caller that only posts: the transports stay armed for the sleeping progress
 * thread, which spares the system calls of disarming and arming. Inline, as the others that a put
 * or a wait needs. */
static inline void progress_lock(sluice_job *job)
{
	progress_enter(job);
	/* One writer: who holds the token. */
	atomic_store_explicit(&job->calls,
			      atomic_load_explicit(&job->calls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}
static inline void progress_unlock(sluice_job *job)
{
	token_leave(&job->token);
}
void progress_cancel(sluice_job *job);
void progress_arm(sluice_job *job);
/* The token for a caller that polls. */
static inline void progress_take(sluice_job *job)
{
	progress_lock(job);
	if (job->sleeping_armed)
		progress_cancel(job);
}
/* Hands the transports back to the progress thread: armed, so that it wakes at the next event,
 * unless it dozes and will look by itself. */
static inline void progress_release(sluice_job *job)
{
	if (job->thread_started && !job->doze_ns)
		progress_arm(job);
	progress_unlock(job);
}
void progress_poll(sluice_job *job);
/* Between two looks for what no event tells of. */
void progress_nap(void);
/* Polls, spins, sleeps until done() or failure or wait_timeout. Token held; meanwhile other threads
 * may have had it, for other objects. */
int progress_until(sluice_job *job, int (*done)(void *), void (*describe)(void *, char *, size_t),
		   void *context);
int progress_start(sluice_job *job);
void progress_stop(sluice_job *job);
#endif
