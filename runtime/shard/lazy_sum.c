/* SPDX-License-Identifier: BSD-3-Clause
 * See lazy_sum.h. */
#include "shard/lazy_sum.h"
#include "base/error.h"
#include "base/log.h"
#include "model/kept.h"
#include "model/model.h"
#include "shard/gather.h"
#include "shard/reduce.h"
#include "shard/state.h"
#include <stdlib.h>
#include <string.h>

struct lazy_sum {
	float *running;
	int refresh;        /* 1: the running sum no longer equals the sum of the references */
	uint32_t restarted; /* how many pushes of this step have restarted their references: none or
			       all */
	uint32_t uploads[]; /* for each worker: the number of uploads that were added */
};

static int lazy_sum_used(const struct shard *shard)
{
	return shard->kept.of[KEPT_SHARD_RUNNING] != NULL;
}

static int lazy_sum_open(struct shard *shard)
{
	const size_t workers = (size_t)shard->job->workers;

	shard->lazy = calloc(1, sizeof(*shard->lazy) + workers * sizeof(uint32_t));
	if (!shard->lazy)
		return fail(SLUICE_ENOMEM, "no memory for shard %u", shard->id);
	shard->lazy->running = shard->kept.of[KEPT_SHARD_RUNNING];
	return 0;
}

static void lazy_sum_close(struct shard *shard)
{
	free(shard->lazy);
	shard->lazy = NULL;
}

static void lazy_sum_step_ends(struct shard *shard)
{
	shard->lazy->refresh = 0;
	shard->lazy->restarted = 0;
}

static void lazy_sum_restart(struct shard *shard)
{
	lazy_sum_step_ends(shard);
	memset(shard->lazy->uploads, 0, (size_t)shard->job->workers * sizeof(uint32_t));
}

/* Compares the number of uploads that a worker has made with the number that the shard has added.
 * If they differ, one upload was lost or came twice, and all workers are asked to restart their
 * references. */
static void lazy_sum_taken(struct shard *shard, int worker, const struct message *m)
{
	struct lazy_sum *lazy = shard->lazy;

	if (m->anchor == INNOVATION_REFRESH) {
		if (!lazy->restarted++) /* all workers restart in the same step */
			memset(lazy->running, 0, shard->at->span * sizeof(*lazy->running));
		lazy->uploads[worker] = 1;
		return;
	}
	if (m->anchor / 2 != lazy->uploads[worker]) {
		log_line(LOG_WARN, "runtime",
			 "step %llu: %s has made %u uploads to shard %u, which counted %u: one "
			 "was lost or came twice, so all workers will send their whole gradients "
			 "again",
			 (unsigned long long)shard->version + 1, rank_text(shard->job, worker),
			 m->anchor / 2, shard->id, lazy->uploads[worker]);
		lazy->refresh = 1;
	}
	lazy->uploads[worker] = m->anchor / 2 + m->anchor % 2;
}

/* Adds the sum of the step to the running sum, which then takes its place in the reduction. */
static void lazy_sum_summed(struct shard *shard)
{
	reduction_run(&shard->reduction, shard->lazy->running);
}

/* Returns 1 if the running sum differs from the sum of all references, so that the workers must
 * restart their references. */
static uint32_t lazy_sum_mark(const struct shard *shard)
{
	const struct lazy_sum *lazy = shard->lazy;

	return lazy->refresh || (lazy->restarted && lazy->restarted != gather_counted(shard));
}

uint32_t *lazy_sum_uploads(struct shard *shard, int worker)
{
	return &shard->lazy->uploads[worker];
}

float *lazy_sum_running(struct shard *shard)
{
	return shard->lazy->running;
}

const struct shard_hooks lazy_sum_hooks = { .used = lazy_sum_used,
					    .open = lazy_sum_open,
					    .close = lazy_sum_close,
					    .restart = lazy_sum_restart,
					    .taken = lazy_sum_taken,
					    .summed = lazy_sum_summed,
					    .mark = lazy_sum_mark,
					    .step_ends = lazy_sum_step_ends };
