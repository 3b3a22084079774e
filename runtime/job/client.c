/* SPDX-License-Identifier: BSD-3-Clause
 * The tables of open models and regions, and the functions of a job without models, which ignore
 * all events. */
#include "job/client.h"
#include "base/error.h"
#include "job/lines.h"
#include <stdlib.h>

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

static void idle_is_in(sluice_job *job, int peer, uint32_t op, uint32_t id, uint64_t steps)
{
	(void)job;
	(void)peer;
	(void)op;
	(void)id;
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
	.is_in = idle_is_in,
	.park = idle_park,
	.waits = idle_waits,
	.explain = idle_explain,
	.describe_waits = idle_describe,
};

void clients_init(struct clients *clients)
{
	clients->handler = &idle_client;
}

void clients_set_handler(struct clients *clients, const struct job_client *client)
{
	clients->handler = client;
}

void clients_close(struct clients *clients)
{
	free(clients->models);
	free(clients->stirred);
	free(clients->channels);
}

/* ---- models ---------------------------------------------------------------- */

enum { FIRST_ROOM = 64 };

int clients_have_models(const struct clients *clients)
{
	return clients->models_open != 0;
}

uint32_t clients_free_model(struct clients *clients)
{
	while (clients_model(clients, clients->models_free))
		clients->models_free++;
	return clients->models_free;
}

uint32_t clients_next_free(const struct clients *clients, uint32_t id)
{
	while (id < JOB_MODELS && clients_model(clients, ++id))
		;
	return id;
}

/* Returns a new size of a table: at least `wanted`, and at least twice the old size, so that a
 * table rarely grows. */
static uint32_t more_room(uint32_t room, uint32_t wanted)
{
	uint64_t more = room ? room : FIRST_ROOM;

	while (more < wanted)
		more *= 2;
	return more > UINT32_MAX ? wanted : (uint32_t)more;
}

static int grow_models(struct clients *clients, uint32_t wanted)
{
	const uint32_t room = more_room(clients->models_room, wanted);

	if (wanted <= clients->models_room)
		return 0;
	struct client_model *models = realloc(clients->models, room * sizeof(*models));
	if (models)
		clients->models = models;
	uint32_t *stirred = realloc(clients->stirred, room * sizeof(*stirred));
	if (stirred)
		clients->stirred = stirred;
	if (!models || !stirred)
		return fail(SLUICE_ENOMEM, "no memory for the table of %u models", wanted);
	clients->models_room = room;
	return 0;
}

static int grow_channels(struct clients *clients, uint32_t wanted)
{
	const uint32_t room = more_room(clients->channels_room, wanted);

	if (wanted <= clients->channels_room)
		return 0;
	uint16_t *channels = realloc(clients->channels, room * sizeof(*channels));
	if (!channels)
		return fail(SLUICE_ENOMEM, "no memory for the table of %u shards", wanted);
	clients->channels = channels;
	clients->channels_room = room;
	return 0;
}

int clients_reserve(struct clients *clients, uint32_t id, uint32_t n, uint32_t most,
		    uint32_t *channel)
{
	uint32_t at = clients->channels_free, run = 0;

	for (; at < clients->channels_end && run < n; at++)
		run = clients->channels[at] ? 0 : run + 1;
	at -= run;
	if (n > most || at > most - n)
		return fail(
			SLUICE_EINVAL,
			"there is no room for %u more shards besides those of the %u open models: "
			"all models of a job together can have %u shards, and all models of a "
			"group %u; give the models fewer shards (attr.shards), or close some",
			n, clients->models_open, IMM_INDEX_MOST, GROUP_INDEX_MOST);
	*channel = at;
	int rc = grow_models(clients, id + 1);
	return rc ? rc : grow_channels(clients, at + n);
}

void clients_add_model(struct clients *clients, uint32_t id, sluice_model *model, uint32_t channel,
		       uint32_t n)
{
	while (clients->models_end <= id)
		clients->models[clients->models_end++] = (struct client_model){ .model = NULL };
	while (clients->channels_end < channel + n)
		clients->channels[clients->channels_end++] = 0;
	clients->models[id] = (struct client_model){ .model = model,
						     .channel = channel,
						     .n_channels = n };
	clients->models_open++;
	for (uint32_t c = channel; c < channel + n; c++)
		clients->channels[c] = (uint16_t)(id + 1);
	while (clients->channels_free < clients->channels_end &&
	       clients->channels[clients->channels_free])
		clients->channels_free++;
}

void clients_drop_model(struct clients *clients, uint32_t id, const sluice_model *model)
{
	if (!model || clients_model(clients, id) != model)
		return;
	struct client_model *m = &clients->models[id];
	for (uint32_t c = m->channel; c < m->channel + m->n_channels; c++)
		clients->channels[c] = 0;
	if (clients->channels_free > m->channel)
		clients->channels_free = m->channel;
	for (uint32_t i = 0; m->stirred && i < clients->n_stirred; i++)
		if (clients->stirred[i] == id)
			clients_rest(clients, i);
	m->model = NULL;
	clients->models_open--;
	if (clients->models_free > id)
		clients->models_free = id;
}

int clients_at_channel(const struct clients *clients, uint32_t channel, uint32_t *id,
		       uint32_t *shard)
{
	if (channel >= clients->channels_end)
		return -1;
	if (!clients->channels[channel])
		return 0;
	*id = clients->channels[channel] - 1u;
	*shard = channel - clients->models[*id].channel;
	return 1;
}

void clients_stir(struct clients *clients, uint32_t id)
{
	if (!clients_model(clients, id) || clients->models[id].stirred)
		return;
	clients->models[id].stirred = 1;
	clients->stirred[clients->n_stirred++] = id;
}

void clients_stir_all(struct clients *clients)
{
	for (uint32_t id = 0; id < clients->models_end; id++)
		clients_stir(clients, id);
}

void clients_rest(struct clients *clients, uint32_t i)
{
	clients->models[clients->stirred[i]].stirred = 0;
	clients->stirred[i] = clients->stirred[--clients->n_stirred];
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
	clients->region_handler = client;
	clients->regions[id] = region;
}

void clients_drop_region(struct clients *clients, uint32_t id)
{
	clients->regions[id] = NULL;
}

void clients_notified(const struct clients *clients, uint32_t id, int peer)
{
	if (id < JOB_REGIONS && clients->regions[id])
		clients->region_handler->notified(clients->regions[id], peer);
}

void clients_moved(const struct clients *clients, uint32_t id, uint32_t index, int status)
{
	if (id < JOB_REGIONS && clients->regions[id])
		clients->region_handler->done(clients->regions[id], index, status);
}
