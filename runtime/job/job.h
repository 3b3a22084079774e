/* SPDX-License-Identifier: BSD-3-Clause
 * A job: its struct, what its files offer to each other and to the models above them, and the
 * inline functions that need the whole struct. The job calls the models through client.h alone.
 *
 * Each file calls only files above it in this list. Its own header says the rest:
 *
 *   group                         which groups of ranks a job has
 *   lines, client, seat, budget   control lines, receivers of events, simulated ranks, timers
 *   messages                         the messages of the collectives
 *   failure                       the job's first failure, and how a rank leaves
 *   members                       continuing without lost workers
 *   peers                         the state of each peer, and what it means for the job
 *   heart                         heartbeats
 *   progress                      token, thread, waits; passes events to all of the above
 *   collective, window,
 *   broadcast, traffic            what the application calls
 *   join, split, job, simulate    from sluice_init() to sluice_finalize() */
#ifndef RUNTIME_JOB_H
#define RUNTIME_JOB_H
#include "base/env.h"
#include "base/error.h"
#include "job/budget.h"
#include "job/client.h"
#include "job/failure.h"
#include "job/group.h"
#include "job/heart.h"
#include "job/lines.h"
#include "job/messages.h"
#include "job/members.h"
#include "job/progress.h"
#include "job/sim_rank.h"
#include "rdma/transport.h"
#include "slurm/bootstrap.h"
#include "sluice.h"
#include <stdatomic.h>
#include <sys/types.h>
#include <unistd.h>

enum { JOB_TRANSPORTS = 4 };

enum peer_state { PEER_ALIVE, PEER_LEFT, PEER_LOST };

/* join.c connects the peers. members.c and peers.c change their states. Every file may read. */
struct peer {
	struct endpoint *endpoint;
	struct remote *control; /* the peer's control region; our line in it is number `rank` */
	enum peer_state state;
};

/* A job is a struct of structs, each of which belongs to the file of the same name. No other file
 * reads its members, unless its header names them. The other members are set by sluice_init() and
 * do not change until sluice_finalize(); every file may read them. */
struct sluice_job {
	/* The job of sluice_init() to which this one belongs: itself, unless this is a group. It
	 * has what all its groups share: progress, heart and transports. */
	sluice_job *root;
	int *page_of_this_process; /* 0 in a forked child, which costs no system call to find out */
	pid_t pid;                 /* the process that called sluice_init() */
	int rank, size, servers, workers;
	struct peer *peers; /* `size` entries; [rank] is this rank over `self` */
	struct progress progress;
	struct failure failure;
	/* 1 after the bootstrap. A push reads it without the token. Only members.c writes it. */
	atomic_uint membership_epoch;
	struct membership members;
	struct lines lines;
	struct collective_messages messages;
	struct heart *heart; /* NULL in a simulated rank */
	struct clients clients;
	struct groups groups; /* all groups of a root */
	struct group *group;  /* of a group; NULL in a root */
	/* What tells notifies and GETs of this group from those of others; 0 in a root. */
	uint32_t imm_of_group;
	uint64_t cookie_of_group;

	struct sim_rank *sim_rank; /* for a simulated rank; NULL in a real job */
	struct settings settings;
	struct budget budget;        /* all timers, from settings */
	struct key_file *key_file;   /* until all ranks have met; NULL without SLUICE_KEY_FILE */
	struct rank_record *records; /* size */
	struct transport *transports[JOB_TRANSPORTS];
	int n_transports;
	/* Why transports are missing that the user did not ask for by name. */
	char unopened[ERROR_TEXT_BYTES];
};

/* In builds that check it: asserts that the calling thread holds the job's token. */
#define TOKEN_HELD(job) progress_check(&(job)->root->progress)

/* ---- failure.c ---- */
/* Returns "rank 3 (node n2)" in one of a few rotating thread-local buffers. */
const char *rank_text(const sluice_job *job, int rank);
/* Whether this process is a forked child of the one that called sluice_init(). */
static inline int job_in_child(const sluice_job *job)
{
	return job->page_of_this_process ? !*job->page_of_this_process : job->pid != getpid();
}
/* SLUICE_EINVAL in a forked child, else 0. */
int job_check(const sluice_job *job, const char *function);

/* ---- join.c ---- */
/* Does the work of sluice_init(). The caller closes *boot, and on failure frees what exists of the
 * job. */
int job_join(sluice_job *job, const sluice_job_attr *attr, struct bootstrap **boot);

/* ---- split.c ---- */
/* Ends a group, for sluice_finalize(). */
void group_finalize(sluice_job *group);
/* Frees what groups are left of a root, whose transports are still open. */
void groups_free(sluice_job *root);

/* ---- peers.c ---- */
/* Records the first failure of the job, logs it, and tells all living peers who is to blame.
 * Returns code. Token held, here and in the functions below. */
int job_fail(sluice_job *job, int code, int culprit, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Called when a peer broke the rules. With on_failure=continue, a worker is dropped as if it were
 * lost. Otherwise, and for a server, this does the same as job_fail(). Returns code. */
int job_blame(sluice_job *job, int code, int peer, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* The peer is lost: nothing can be written to it or expected from it. why is for example "its
 * process ended". Of a root, this and peers_gone() also tell every group that holds the peer. */
void peers_lost(sluice_job *job, int peer, const char *why);
void peers_gone(sluice_job *job, int peer, const char *why); /* EVENT_GONE */
/* Whether this peer of a root is alive in it or in one of its groups, so that its heart counts. */
int peers_matter(sluice_job *job, int peer);
void peers_status(sluice_job *job, int peer);  /* IMM_STATUS */
void peers_members(sluice_job *job, int peer); /* IMM_MEMBERS */
/* Tells the living peers whom this rank's shard waits for, because they wait for the shard. */
void peers_report(sluice_job *job, const char *text);
/* Handles IMM_REPORT. waits: a call of this rank waits. */
void peers_reported(sluice_job *job, int peer, int waits);

/* ---- what tells a notify or GET of this job from those of its groups ---- */
static inline uint32_t job_imm(const sluice_job *job, enum imm_kind kind, uint32_t index)
{
	return imm_make(kind, index) | job->imm_of_group;
}
static inline uint64_t job_cookie(const sluice_job *job, enum cookie_kind kind, uint32_t id,
				  uint32_t index)
{
	return cookie_make(kind, id, index) | job->cookie_of_group;
}

/* ---- members.h, for all ranks ---- */
/* Whether the rank is alive in this epoch. Servers always are, because losing one ends the job. */
static inline int job_living(const sluice_job *job, int rank)
{
	return rank >= job->workers || members_living(&job->members, rank);
}
/* Whether the rank's contribution to the last collective counts. All ranks get the same answer. */
static inline int round_has(const sluice_job *job, int rank)
{
	return rank >= job->workers || members_counted(&job->members, rank);
}
/* The lowest worker of the last collective, which does what only one rank must do. All ranks get
 * the same answer. */
static inline int round_leader(const sluice_job *job)
{
	int rank = 0;
	while (!round_has(job, rank))
		rank++;
	return rank;
}

/* ---- collective.c ---- */
/* Exchanges `bytes` bytes (<= COLLECTIVE_BYTES) with each peer. Peer p gets mine + stride * p
 * (stride 0: all get the same), and all + r * bytes receives what rank r sent to this rank (`all`
 * may be NULL). The row of a rank that sends fewer bytes (a server in a sum of workers) is zero,
 * and so is that of a lost worker. round_has() says whose rows count, on all ranks alike. Token not
 * held. */
int collective_run(sluice_job *job, enum collective op, const void *mine, size_t stride,
		   size_t bytes, void *all);
/* The same for an operation on one model, to which this rank's worker has pushed the gradients of
 * about.steps steps. Ranks that wait for more steps learn of it at once. */
int collective_run_about(sluice_job *job, enum collective op, struct about about, const void *mine,
			 size_t stride, size_t bytes, void *all);
/* Collective: returns 0 if every rank came with rc 0, so that no rank is left waiting for one that
 * failed. Otherwise returns the rank's own rc if that is not 0, else SLUICE_EPEER with a message
 * that names the first rank that could not do `what` ("open the model"), and why. */
int collective_agree(sluice_job *job, int rc, const char *what);
/* The operation that the lowest living worker has begun and this rank has not joined; 0 if there is
 * none. A server joins it. */
uint32_t collective_pending(const sluice_job *job);

/* ---- progress.h, for callers of which each instruction counts ---- */
/* Takes the token for work that is not a call of the application and is not counted as one. */
static inline void progress_enter(sluice_job *job)
{
	if (!progress_try(&job->root->progress))
		progress_queue(job->root);
}
/* Takes the token for a caller that only posts. The transports stay armed for the sleeping progress
 * thread, which saves the system calls of disarming and arming. */
static inline void progress_lock(sluice_job *job)
{
	progress_enter(job);
	progress_count_call(&job->root->progress);
}
static inline void progress_unlock(sluice_job *job)
{
	progress_leave(&job->root->progress);
}
/* Takes the token for a caller that polls. */
static inline void progress_take(sluice_job *job)
{
	progress_lock(job);
	if (progress_is_armed(&job->root->progress))
		progress_cancel(job->root);
}
/* Hands the transports back to the progress thread. They are armed, so that it wakes at the next
 * event, unless it dozes and polls by itself. */
static inline void progress_release(sluice_job *job)
{
	if (progress_wants_events(&job->root->progress))
		progress_arm(job->root);
	progress_unlock(job);
}
#endif
