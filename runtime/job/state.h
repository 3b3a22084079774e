/* SPDX-License-Identifier: BSD-3-Clause
 * The struct of a job, which consists of the structs of its files, and questions that need more
 * than one of them. A caller of a function includes the header of its file. The job calls its
 * models only through client.h.
 *
 * Each file of job/ calls only files above it in this list, or to its left. Inline functions do not
 * count: with those of progress_token.h, any file may take the token. Each file's own header has
 * the details:
 *
 *   group                         which groups of ranks a job has
 *   key_file, reach, pair_keys    what proves that a peer belongs to the job; ways to reach it
 *   page                          what sluice-top shows of this rank
 *   token, place, probe           a lock, processors for threads, datagrams that probe links
 *   threads                       the threads that share passes over long vectors
 *   lines, client, sim_rank,
 *   budget, living                control lines, receivers of events, simulated ranks, timers,
 *                                 the workers of the epoch
 *   hubs                          forwarding of control messages in large jobs
 *   failure                       the job's first failure, and how a rank leaves
 *   messages                      the messages of the collectives
 *   members                       continuing without lost workers
 *   findings                      errors and warnings of ranks that join
 *   peers                         the state of each peer, and what it means for the job
 *   heart                         heartbeats
 *   progress                      token, thread, waits; passes events to all of the above
 *   collective, swap              collectives
 *   ways, describe, connect       connections with peers, at the start and on demand
 *   window_move, window,
 *   broadcast, traffic            what the application calls
 *   join, split, job, simulate    from sluice_init() to sluice_finalize() */
#ifndef RUNTIME_JOB_STATE_H
#define RUNTIME_JOB_STATE_H
#include "base/env.h"
#include "base/error.h"
#include "job/budget.h"
#include "job/client.h"
#include "job/failure.h"
#include "job/group.h"
#include "job/lines.h"
#include "job/messages.h"
#include "job/page.h"
#include "job/peers.h"
#include "job/progress.h"
#include "job/threads.h"
#include "rdma/transport.h"
#include "slurm/bootstrap.h"
#include "sluice.h"
#include <stdatomic.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { JOB_TRANSPORTS = 4 + NETWORKS_MOST }; /* one transport may be open on several cards */

enum peer_state { PEER_ALIVE, PEER_LEFT, PEER_LOST };

/* A peer of the job. connect.c connects the peers. members.c and peers.c change their states. Any
 * file may read the members of this struct. */
struct peer {
	struct endpoint *endpoint; /* NULL: nothing has needed a connection with this peer yet */
	/* the peer's control region, in which line number `rank` is this rank's; NULL before the
	 * peer is connected */
	struct remote *control;
	enum peer_state state;
	int due; /* failure.c: 1: this rank must still write its status to this peer */
};

/* A job is a struct of structs, each of which belongs to the file of the same name. No other file
 * reads the members of such a struct, unless its header lists them. The other members of the job
 * are set by sluice_init() and do not change until sluice_finalize(); every file may read them. */
struct sluice_job {
	/* The job of sluice_init() to which this job belongs. If this is not a group, it is the job
	 * itself. The root has the parts that all its groups share: progress, heart and
	 * transports. */
	sluice_job *root;
	struct own_process {
		int *page; /* reads 0 in a forked child, so no system call is needed to detect
			      one */
		pid_t pid; /* the process that called sluice_init() */
	} process;
	int rank, size, servers, workers;
	struct peer *peers; /* `size` entries; [rank] is this rank over `self` */
	struct progress progress;
	struct failure failure;
	/* 1 after the bootstrap. Pushes read it without the token. Only members.c writes it. */
	atomic_uint membership_epoch;
	struct living *living;
	struct membership *members; /* NULL: the loss of any rank ends the job */
	struct lines lines;
	struct hubs *hubs; /* NULL if all ranks connect at the start */
	struct collective_messages messages;
	struct heart *heart; /* NULL in a simulated rank */
	struct clients clients;
	struct groups groups;        /* all groups of a root */
	struct report_limit reports; /* of a root */
	struct page_writer page;     /* of a root */
	struct threads threads;      /* of a root */
	struct reporter *reporter;   /* of a root; NULL without metrics and trace */
	struct group_place group;    /* zeros in a root */

	struct sim_rank *sim_rank; /* for a simulated rank; NULL in a real job */
	struct settings settings;
	struct budget budget; /* all timers, from settings */
	struct job_keys {
		struct key_file *file;   /* freed when all ranks have met; NULL without
					    SLUICE_KEY_FILE */
		struct pair_keys *pairs; /* NULL if no transport needs keys */
	} keys;
	struct rank_record *records; /* size */
	struct reach *reach; /* the transport that connects each two ranks; NULL in groups */
	struct job_transports {
		struct transport *list[JOB_TRANSPORTS]; /* a group uses the list of its root */
		int n;
		/* The reasons why transports that the user did not name could not be opened. */
		char unopened[ERROR_TEXT_BYTES];
	} transports;
};

/* Asserts that the calling thread holds the job's token, in builds that check this. */
#define TOKEN_HELD(job) progress_check(&(job)->root->progress)

/* Returns 1 if this process is a forked child of the process that called sluice_init(). */
static inline int job_in_child(const sluice_job *job)
{
	return job->process.page ? !*job->process.page : job->process.pid != getpid();
}
static inline int job_in_group(const sluice_job *job)
{
	return job->group.ranks != NULL;
}
/* Notifies and GETs of a group carry the group's number. Those of a root have no number. */
static inline uint32_t job_imm(const sluice_job *job, enum imm_kind kind, uint32_t index)
{
	return imm_make(kind, index) | job->group.imm;
}
static inline uint64_t job_cookie(const sluice_job *job, enum cookie_kind kind, uint32_t id,
				  uint32_t index)
{
	return cookie_make(kind, id, index) | job->group.cookie;
}

/* The ranks that run on this rank's machine. Nodes of a test can share one. */
struct machine_ranks {
	int lowest, count;
};
static inline struct machine_ranks job_machine(const sluice_job *job)
{
	struct machine_ranks ranks = { job->rank, 0 };

	for (int r = job->size - 1; job->records && r >= 0; r--)
		if (!memcmp(job->records[r].boot_id, job->records[job->rank].boot_id,
			    sizeof(job->records[r].boot_id)))
			ranks = (struct machine_ranks){ r, ranks.count + 1 };
	return ranks;
}

/* Returns 1 if the job continues without lost workers (on_failure=continue). */
static inline int job_elastic(const sluice_job *job)
{
	return job->members != NULL;
}

/* Returns 1 if the job continues after it has lost this peer. */
static inline int job_can_lose(const sluice_job *job, int peer)
{
	return job_elastic(job) && peer < job->workers;
}

#endif
