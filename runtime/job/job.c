/* SPDX-License-Identifier: BSD-3-Clause
 * A job's life from sluice_init() to sluice_finalize(). */
#include "job/collective.h"
#include "job/heart.h"
#include "job/hubs.h"
#include "job/join.h"
#include "job/members.h"
#include "job/page.h"
#include "job/pair_keys.h"
#include "job/peers.h"
#include "job/reach.h"
#include "job/progress_token.h"
#include "job/reporter.h"
#include "job/split.h"
#include "base/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Maps a page that the kernel clears in forked children. Returns NULL if the kernel does not
 * support that (Linux before 4.14). */
static int *open_page_of_this_process(void)
{
	int *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return NULL;
	if (madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK)) {
		munmap(page, (size_t)sysconf(_SC_PAGESIZE));
		return NULL;
	}
	*page = 1;
	return page;
}

static void free_job(sluice_job *job)
{
	progress_stop(job);
	reporter_close(job);
	rank_page_close(job);
	groups_free(job);
	hubs_close(job);
	for (int p = 0; job->peers && p < job->size; p++)
		if (job->peers[p].control)
			job->peers[p].endpoint->transport->ops->remote_close(
				&job->peers[p].control);
	for (int t = 0; t < job->transports.n; t++)
		job->transports.list[t]->ops->close(&job->transports.list[t]);
	reach_close(&job->reach);
	heart_close(job); /* the heartbeat must continue until the connections end */
	pair_keys_close(&job->keys.pairs);
	lines_close(&job->lines);
	messages_close(&job->messages);
	members_close(job);
	clients_close(&job->clients);
	threads_end(job);
	free(job->peers);
	free(job->records);
	if (job->process.page)
		munmap(job->process.page, (size_t)sysconf(_SC_PAGESIZE));
	free(job);
}

static int init(const sluice_job_attr *attr, sluice_job **job_out)
{
	if (!job_out)
		return fail(SLUICE_EINVAL, "sluice_init: job_out is NULL");
	sluice_job *job = calloc(1, sizeof *job);
	if (!job)
		return fail(SLUICE_ENOMEM, "sluice_init: no memory for the job");
	job->root = job;
	job->process.pid = getpid();
	job->process.page = open_page_of_this_process();
	progress_init(&job->progress);
	clients_init(&job->clients);
	job->membership_epoch = 1;
	struct bootstrap *boot = NULL;
	int rc = job_join(job, attr, &boot);
	bootstrap_close(&boot);
	if (rc) {
		/* Peers that are already connected learn the reason from this rank's status. */
		if (!job->failure.code && progress_started(job)) {
			progress_take(job);
			failure_announce(job, job->rank, sluice_last_error());
			progress_release(job);
		}
		free_job(job);
		return rc;
	}
	if (log_enabled(LOG_DEBUG, "runtime"))
		env_dump(&job->settings, stderr);
	*job_out = job;
	return 0;
}

int sluice_init(const sluice_job_attr *attr, sluice_job **job_out)
{
	struct error_scope scope;
	error_begin(&scope);
	return error_end(&scope, init(attr, job_out));
}

void sluice_finalize(sluice_job **job_pointer)
{
	sluice_job *job = job_pointer ? *job_pointer : NULL;
	if (!job)
		return;
	*job_pointer = NULL;
	if (job_in_child(job)) {
		/* In a forked child, the job belongs to the parent, so it is not freed here. This
		 * pointer keeps leak checkers from reporting it. */
		static sluice_job *volatile parents __attribute__((unused));
		parents = job;
		return;
	}
	if (job_in_group(job)) {
		group_finalize(job);
		return;
	}
	struct error_scope scope;
	const int groups = groups_open(job), open = groups || clients_have_models(&job->clients);
	error_begin(&scope);
	progress_take(job);
	if (open && !job->failure.code)
		job_fail(job, SLUICE_EINVAL, job->rank, "sluice_finalize with a %s still open: %s",
			 groups ? "group" : "model",
			 groups ? "first call sluice_finalize for each group" :
				  "call sluice_model_close first");
	const int finalizing = failure_finalize(job);
	progress_release(job);
	reporter_flush(job);
	const int left = finalizing && !collective_run(job, COLLECTIVE_FINALIZE, NULL, 0, 0, NULL);
	if (left) {
		progress_take(job);
		failure_announce_end(job);
		progress_release(job);
	}
	if (left)
		reporter_join_traces(job);
	error_end(&scope, !left);
	/* open models and groups still use the job's regions, so this does not free the job */
	if (open) {
		progress_stop(job);
		reporter_stop(job);
		heart_stop(job);
	} else {
		free_job(job);
	}
}
