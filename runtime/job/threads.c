/* SPDX-License-Identifier: BSD-3-Clause
 * See threads.h. Called when a model is opened, and by sluice_finalize(). */
#include "job/threads.h"
#include "base/log.h"
#include "base/team.h"
#include "job/state.h"
#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { USUAL_MOST = 4 }; /* by default, because memory is busy with as many */

/* The ranks of a machine have processors of their own if all of them together have no more than
 * there are. Otherwise they share. */
unsigned threads_of_rank(unsigned allowed, unsigned online, unsigned ranks)
{
	const int share = ranks > 1 && (uint64_t)allowed * ranks > online;
	const unsigned own = share ? allowed / ranks : allowed;

	return own < 1 ? 1 : own > USUAL_MOST ? USUAL_MOST : own;
}

static unsigned count_ranks_here(const sluice_job *job)
{
	const struct rank_record *r = job->records;
	unsigned n = 0;

	for (int i = 0; r && i < job->size; i++)
		n += !memcmp(r[i].boot_id, r[job->rank].boot_id, sizeof(r->boot_id));
	return n ? n : 1;
}

static unsigned count_threads(const sluice_job *job)
{
	const long online = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t allowed;

	if (job->settings.threads)
		return (unsigned)job->settings.threads;
	if (online < 1 || sched_getaffinity(0, sizeof(allowed), &allowed))
		return 1;
	return threads_of_rank((unsigned)CPU_COUNT(&allowed), (unsigned)online,
			       count_ranks_here(job));
}

static void start(sluice_job *root, size_t memory)
{
	const unsigned n = root->sim_rank ? 1 : count_threads(root);

	if (n > 1 && team_open(n, memory, &root->threads.team))
		log_line(LOG_WARN, "runtime", "%s; this rank selects with one thread",
			 sluice_last_error());
	else
		log_line(LOG_INFO, "runtime", "selections from long vectors use %u thread%s", n,
			 n > 1 ? "s" : "");
}

struct team *threads_team(sluice_job *job, size_t memory)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	sluice_job *root = job->root;

	pthread_mutex_lock(&lock);
	if (!root->threads.tried)
		start(root, memory);
	root->threads.tried = 1;
	pthread_mutex_unlock(&lock);
	return root->threads.team;
}

void threads_end(sluice_job *job)
{
	team_close(&job->threads.team);
}
