/* SPDX-License-Identifier: BSD-3-Clause
 * A job: the struct, what its files offer to each other and to the models above them, and the
 * inline functions that need all of it. The job calls the models through client.h alone.
 *
 * Each file calls only files above it, and its own header says the rest:
 *
 *   lines, client, seat, budget   control lines, who is told of events, simulated turns, timers
 *   mails                         the mails of the collectives
 *   failure                       the job's first failure, and how a rank leaves
 *   members                       going on without lost workers
 *   peers                         what becomes of a peer, and what that means for the job
 *   heart                         heartbeats
 *   progress                      token, thread, waits; hands events to all of the above
 *   collective, window, traffic   what the application calls
 *   join, job, simulate           from sluice_init() to sluice_finalize() */
#ifndef RUNTIME_JOB_H
#define RUNTIME_JOB_H
#include "base/env.h"
#include "base/error.h"
#include "job/budget.h"
#include "job/client.h"
#include "job/failure.h"
#include "job/heart.h"
#include "job/lines.h"
#include "job/mails.h"
#include "job/members.h"
#include "job/progress.h"
#include "job/seat.h"
#include "rdma/transport.h"
#include "slurm/bootstrap.h"
#include "sluice.h"
#include <stdatomic.h>
#include <sys/types.h>
#include <unistd.h>

enum { JOB_TRANSPORTS = 4 };

enum peer_state { PEER_ALIVE, PEER_LEFT, PEER_LOST };

/* join.c connects the peers, and members.c and peers.c change their states. Everybody may read. */
struct peer {
	struct endpoint *endpoint;
	struct remote *control; /* its control region; our line is number `rank` */
	enum peer_state state;
};

/* A job is a struct of structs, each of which belongs to the file that it is named after: no other
 * file reads its members, unless its header says which. What is not in one of them is made by
 * sluice_init() and does not change until sluice_finalize(); everybody may read it. */
struct sluice_job {
	int *page_of_this_process; /* holds 0 in a forked child; asks no kernel */
	pid_t pid;                 /* of the process that called sluice_init */
	int rank, size, servers, workers;
	struct peer *peers; /* size; [rank] is this rank over `self` */
	struct progress progress;
	struct failure failure;
	/* 1 from bootstrap on; a push reads it without the token. members.c alone writes it. */
	atomic_uint membership_epoch;
	struct membership members;
	struct lines lines;
	struct mails mails;
	struct heart *heart; /* NULL in a simulated rank */
	struct clients clients;

	struct seat *seat; /* of a simulated rank; NULL in a real job */
	struct settings settings;
	struct budget budget; /* all timers, from settings */
	struct card *cards;   /* size */
	struct transport *transports[JOB_TRANSPORTS];
	int n_transports;
	/* Why transports that were not asked for by name are not there. */
	char unopened[ERROR_TEXT_BYTES];
};

/* In builds that check it: the calling thread holds the job's token. */
#define TOKEN_HELD(job) progress_check(&(job)->progress)

/* ---- failure.c ---- */
/* "rank 3 (node n2)" in one of a few rotating thread-local buffers. */
const char *rank_text(const sluice_job *job, int rank);
/* Of the process that called sluice_init. */
static inline int job_in_child(const sluice_job *job)
{
	return job->page_of_this_process ? !*job->page_of_this_process : job->pid != getpid();
}
/* SLUICE_EINVAL in a forked child, else 0. */
int job_check(const sluice_job *job, const char *function);

/* ---- join.c ---- */
/* Everything of sluice_init(): the caller closes *boot, and frees what there is of the job on
 * failure. */
int job_join(sluice_job *job, const sluice_job_attr *attr, struct bootstrap **boot);

/* ---- peers.c ---- */
/* Records the first failure of the job, logs it, and tells all living peers who is to blame.
 * Returns code. Token held, here and in the functions below. */
int job_fail(sluice_job *job, int code, int culprit, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* A peer broke the rules. With on_failure=continue a worker is dropped, as if it were lost; else,
 * and for a server, the same as job_fail(). Returns code. */
int job_blame(sluice_job *job, int code, int peer, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Nothing can be written to it or expected from it any more. why: "its process ended". */
void peers_lost(sluice_job *job, int peer, const char *why);
void peers_gone(sluice_job *job, int peer, const char *why); /* EVENT_GONE */
void peers_status(sluice_job *job, int peer);                /* IMM_STATUS */
void peers_members(sluice_job *job, int peer);               /* IMM_MEMBERS */
/* Tells the living peers, who wait for this rank's shard, whom the shard waits for. */
void peers_report(sluice_job *job, const char *text);
/* IMM_REPORT. waits: a call of this rank waits. */
void peers_reported(sluice_job *job, int peer, int waits);

/* ---- members.h, for all ranks ---- */
/* In this epoch. Servers always are: losing one ends the job. */
static inline int job_living(const sluice_job *job, int rank)
{
	return rank >= job->workers || members_living(&job->members, rank);
}
/* Whether what that rank gave in the last collective counts, on all ranks alike. */
static inline int round_has(const sluice_job *job, int rank)
{
	return rank >= job->workers || members_counted(&job->members, rank);
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
/* Closes a model of which this rank's worker pushed the gradients of so many steps: others learn
 * at once if they wait for more. */
int collective_close(sluice_job *job, uint32_t model, uint64_t steps);
/* The operation that the lowest living worker has begun and this rank has not joined, 0 if none:
 * what a server mirrors. */
uint32_t collective_pending(const sluice_job *job);

/* ---- progress.h, for callers of which each instruction counts ---- */
/* The token for work that is not a call of the application, and is not counted as one. */
static inline void progress_enter(sluice_job *job)
{
	if (!progress_try(&job->progress))
		progress_queue(job);
}
/* The token for a caller that only posts: the transports stay armed for the sleeping progress
 * thread, which spares the system calls of disarming and arming. */
static inline void progress_lock(sluice_job *job)
{
	progress_enter(job);
	progress_count_call(&job->progress);
}
static inline void progress_unlock(sluice_job *job)
{
	progress_leave(&job->progress);
}
/* The token for a caller that polls. */
static inline void progress_take(sluice_job *job)
{
	progress_lock(job);
	if (progress_is_armed(&job->progress))
		progress_cancel(job);
}
/* Hands the transports back to the progress thread: armed, so that it wakes at the next event,
 * unless it dozes and will look by itself. */
static inline void progress_release(sluice_job *job)
{
	if (progress_wants_events(&job->progress))
		progress_arm(job);
	progress_unlock(job);
}
#endif
