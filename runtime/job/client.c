/* SPDX-License-Identifier: BSD-3-Clause
 * Which models and regions are open, and the table of a job without models: nothing waits there,
 * and events for a model that does not exist are ignored. */
#include "job/client.h"

static void idle_advance(sluice_job *job)
{
	(void)job;
}

static void idle_arrived(sluice_job *job, uint32_t id, int peer, uint32_t shard)
{
	(void)job;
	(void)id;
	(void)peer;
	(void)shard;
}

static void idle_refused(sluice_job *job, uint32_t id)
{
	(void)job;
	(void)id;
}

static void idle_read(sluice_job *job, uint32_t id, uint32_t index, int status)
{
	(void)job;
	(void)id;
	(void)index;
	(void)status;
}

static void idle_dropped(sluice_job *job, int worker)
{
	(void)job;
	(void)worker;
}

static void idle_closed(sluice_job *job, uint32_t id, int peer, uint64_t steps)
{
	(void)job;
	(void)id;
	(void)peer;
	(void)steps;
}

static int idle_park(sluice_job *job)
{
	(void)job;
	return 0;
}

static int idle_waits(const sluice_job *job)
{
	(void)job;
	return 0;
}

static void idle_explain(sluice_job *job, uint64_t now, int always)
{
	(void)job;
	(void)now;
	(void)always;
}

static void idle_describe(const sluice_job *job, char *text, size_t cap)
{
	(void)job;
	if (cap)
		*text = 0;
}

static const struct job_client idle_client = {
	.advance = idle_advance,
	.push_arrived = idle_arrived,
	.notice_arrived = idle_arrived,
	.push_refused = idle_refused,
	.read_done = idle_read,
	.worker_dropped = idle_dropped,
	.closed = idle_closed,
	.park = idle_park,
	.waits = idle_waits,
	.explain = idle_explain,
	.describe_waits = idle_describe,
};

void clients_init(struct clients *clients)
{
	clients->told = &idle_client;
}

void clients_tell(struct clients *clients, const struct job_client *client)
{
	clients->told = client;
}

/* ---- models ---------------------------------------------------------------- */

int clients_have_models(const struct clients *clients)
{
	for (int m = 0; m < JOB_MODELS; m++)
		if (clients->models[m])
			return 1;
	return 0;
}

uint32_t clients_free_model(const struct clients *clients)
{
	uint32_t id = 0;
	while (id < JOB_MODELS && clients->models[id])
		id++;
	return id;
}

void clients_add_model(struct clients *clients, uint32_t id, sluice_model *model)
{
	clients->models[id] = model;
	if (clients->models_end <= (int)id)
		clients->models_end = (int)id + 1;
}

void clients_drop_model(struct clients *clients, uint32_t id, const sluice_model *model)
{
	if (id < JOB_MODELS && clients->models[id] == model)
		clients->models[id] = NULL;
}

/* ---- regions --------------------------------------------------------------- */

uint32_t clients_free_region(const struct clients *clients)
{
	uint32_t id = 0;
	while (id < JOB_REGIONS && clients->regions[id])
		id++;
	return id;
}

void clients_add_region(struct clients *clients, const struct region_client *client, uint32_t id,
			sluice_region *region)
{
	clients->regions_told = client;
	clients->regions[id] = region;
}

void clients_drop_region(struct clients *clients, uint32_t id)
{
	clients->regions[id] = NULL;
}

void clients_notified(const struct clients *clients, uint32_t id, int peer)
{
	if (id < JOB_REGIONS && clients->regions[id])
		clients->regions_told->notified(clients->regions[id], peer);
}

void clients_moved(const struct clients *clients, uint32_t id, uint32_t index, int status)
{
	if (id < JOB_REGIONS && clients->regions[id])
		clients->regions_told->done(clients->regions[id], index, status);
}
