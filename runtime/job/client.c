/* SPDX-License-Identifier: BSD-3-Clause
 * The client of a job without models: nothing waits, and what is sent to a model that is not there
 * is dropped. */
#include "job/client.h"

static void advance(sluice_job *job)
{
	(void)job;
}

static void arrived(sluice_job *job, uint32_t id, int peer, uint32_t shard)
{
	(void)job;
	(void)id;
	(void)peer;
	(void)shard;
}

static void push_refused(sluice_job *job, uint32_t id)
{
	(void)job;
	(void)id;
}

static void read_done(sluice_job *job, uint32_t id, uint32_t index, int status)
{
	(void)job;
	(void)id;
	(void)index;
	(void)status;
}

static void worker_dropped(sluice_job *job, int worker)
{
	(void)job;
	(void)worker;
}

static void closed(sluice_job *job, uint32_t id, int peer, uint64_t steps)
{
	(void)job;
	(void)id;
	(void)peer;
	(void)steps;
}

static int park(sluice_job *job)
{
	(void)job;
	return 0;
}

static int waits(const sluice_job *job)
{
	(void)job;
	return 0;
}

static void explain(sluice_job *job, uint64_t now, int always)
{
	(void)job;
	(void)now;
	(void)always;
}

static void describe_waits(const sluice_job *job, char *text, size_t cap)
{
	(void)job;
	if (cap)
		*text = 0;
}

const struct job_client idle_client = {
	.advance = advance,
	.push_arrived = arrived,
	.notice_arrived = arrived,
	.push_refused = push_refused,
	.read_done = read_done,
	.worker_dropped = worker_dropped,
	.closed = closed,
	.park = park,
	.waits = waits,
	.explain = explain,
	.describe_waits = describe_waits,
};
