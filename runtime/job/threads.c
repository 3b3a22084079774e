/* SPDX-License-Identifier: BSD-3-Clause
 * See threads.h. Called when a model is opened, and by sluice_finalize(). */
#include "job/threads.h"
#include "base/log.h"
#include "base/team.h"
#include "job/state.h"
#include <pthread.h>
#include <sched.h>

enum { USUAL_MOST = 4 }; /* the default limit; with more threads, memory would be the bottleneck */

/* The ranks share the processors if together they are allowed more processors than the machine has.
 * Otherwise each rank has its own. */
unsigned threads_of_rank(unsigned allowed, unsigned online, unsigned ranks)
{
	const int share = ranks > 1 && (uint64_t)allowed * ranks > online;
	const unsigned own = share ? allowed / ranks : allowed;

	return own < 1 ? 1 : own > USUAL_MOST ? USUAL_MOST : own;
}

static unsigned count_threads(const sluice_job *job)
{
	const long online = sysconf(_SC_NPROCESSORS_ONLN);
	const int ranks = job_machine(job).count;
	long usable = online;
	cpu_set_t allowed;

	if (job->settings.threads)
		return (unsigned)job->settings.threads;
	/* The call fails if the machine has more processors than the set has room for. */
	if (!sched_getaffinity(0, sizeof(allowed), &allowed))
		usable = CPU_COUNT(&allowed);
	return online < 1 ? 1 :
			    threads_of_rank((unsigned)usable, (unsigned)online,
					    ranks > 1 ? (unsigned)ranks : 1);
}

static void start_team(sluice_job *root, size_t memory)
{
	const unsigned n = root->sim_rank ? 1 : count_threads(root);

	if (n > 1 && team_open(n, memory, &root->threads.team))
		log_line(LOG_WARN, "runtime", "%s; this rank works with one thread",
			 sluice_last_error());
	else
		log_line(LOG_INFO, "runtime", "passes over long vectors use %u thread%s", n,
			 n > 1 ? "s" : "");
}

struct team *threads_team(sluice_job *job, size_t memory)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	sluice_job *root = job->root;

	pthread_mutex_lock(&lock);
	if (!root->threads.tried)
		start_team(root, memory);
	root->threads.tried = 1;
	pthread_mutex_unlock(&lock);
	return root->threads.team;
}

void threads_end(sluice_job *job)
{
	team_close(&job->threads.team);
}
