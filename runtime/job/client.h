/* SPDX-License-Identifier: BSD-3-Clause
 * How a job calls its open models and regions, without knowing what they are. The first model and
 * the first region each bring a table of functions. Until there is a model, client.c's table is
 * used, whose functions do nothing. All functions are called with the token held. client.c and this
 * file own struct clients. */
#ifndef RUNTIME_CLIENT_H
#define RUNTIME_CLIENT_H
#include "sluice_region.h"
#include <stddef.h>
#include <stdint.h>

struct job_client {
	/* Called at every poll: does whatever the stirred models can do without waiting. */
	void (*advance)(sluice_job *job);
	/* A peer's notify for model `id` arrived: it pushed to a shard here, or it published a
	 * version of its shard. */
	void (*push_arrived)(sluice_job *job, uint32_t id, int peer, uint32_t shard);
	void (*notice_arrived)(sluice_job *job, uint32_t id, int peer, uint32_t shard);
	/* A push arrived from a worker that was dropped. */
	void (*push_refused)(sluice_job *job, uint32_t id);
	/* A GET with this index in its cookie has ended. */
	void (*read_done)(sluice_job *job, uint32_t id, uint32_t index, int status);
	/* This worker was dropped: refuse its unread pushes and ignore its notices. */
	void (*worker_dropped)(sluice_job *job, int worker);
	/* A peer is in collective `op` about model `id`, after its worker pushed the gradients of
	 * `steps` steps. A call of this rank is waiting; it fails if it waits for more of them. */
	void (*is_in)(sluice_job *job, int peer, uint32_t op, uint32_t id, uint64_t steps);
	/* Called before this rank waits for something other than shards. It posts what was pushed,
	 * and releases shards from waiting for this rank. Returns an error of the job. */
	int (*park)(sluice_job *job);

	/* Returns 1 if a shard of this rank waits for a push. The shard then knows which rank it
	 * waits for. */
	int (*waits)(const sluice_job *job);
	/* Logs one line per wait of the shards here: every wait if always, else only the long
	 * ones. */
	void (*explain)(sluice_job *job, uint64_t now, int always);
	/* Writes for each model for example "; shard 2 here waits for the push of step 7 from rank
	 * 3 (node n2)", or "". */
	void (*describe_waits)(const sluice_job *job, char *text, size_t cap);
};

/* The functions for events of public regions, called only while a region is open. */
struct region_client {
	void (*notified)(sluice_region *region, int peer);
	/* A GET or PUT with this index in its cookie has ended. */
	void (*done)(sluice_region *region, uint32_t index, int status);
};

/* Models of one job or group. A number of a model fits into the 16 bits of a cookie. */
enum { JOB_MODELS = 65535, JOB_REGIONS = 64 };

/* Each shard of each open model has a channel, by which notifies name it: the model's first channel
 * plus the number of the shard. All ranks open and close the same models in the same order, so they
 * give the same channels without a message. A table leads from a channel to its model.
 *
 * A poll advances only the stirred models: a notify, a READ or a call has touched them, and they
 * did not come to rest since. The others cost nothing. */
struct clients {
	const struct job_client *handler; /* never NULL */
	struct client_model *models;      /* models_end entries, room for models_room */
	uint32_t models_end, models_room, models_open;
	uint32_t models_free; /* all numbers below are taken */
	uint32_t *stirred;    /* numbers of models; room for models_room */
	uint32_t n_stirred;
	uint64_t advanced;  /* how often a shard moved */
	uint16_t *channels; /* 1 + the number of the model; 0: free */
	uint32_t channels_end, channels_room;
	uint32_t channels_free; /* all channels below are taken */
	const struct region_client *region_handler;
	sluice_region *regions[JOB_REGIONS];
};

struct client_model {
	sluice_model *model; /* NULL: this number is free */
	uint32_t channel, n_channels;
	int stirred;
};

void clients_init(struct clients *clients);
void clients_close(struct clients *clients);
/* The table that receives the models' events. */
static inline const struct job_client *clients_handler(const struct clients *clients)
{
	return clients->handler;
}
void clients_set_handler(struct clients *clients, const struct job_client *client);

/* NULL if there is no model of this number. All models have numbers below clients_models_end(). */
static inline sluice_model *clients_model(const struct clients *clients, uint32_t id)
{
	return id < clients->models_end ? clients->models[id].model : NULL;
}
static inline uint32_t clients_models_end(const struct clients *clients)
{
	return clients->models_end;
}
int clients_have_models(const struct clients *clients);
/* The lowest free number; JOB_MODELS if none is free. */
uint32_t clients_free_model(struct clients *clients);
/* Finds n consecutive channels, none above `most`, and makes room for a model with number id. 0,
 * SLUICE_EINVAL: too few are free, or SLUICE_ENOMEM. */
int clients_reserve(struct clients *clients, uint32_t id, uint32_t n, uint32_t most,
		    uint32_t *channel);
/* Adds a model on the n channels that clients_reserve() returned. Between the two calls no other
 * model may be added. */
void clients_add_model(struct clients *clients, uint32_t id, sluice_model *model, uint32_t channel,
		       uint32_t n);
/* Does nothing if the model was not added. */
void clients_drop_model(struct clients *clients, uint32_t id, const sluice_model *model);
/* The model and shard of a channel. 1, 0: the model was closed, or -1: no model had this channel,
 * and the peer that names it is wrong. */
int clients_at_channel(const struct clients *clients, uint32_t channel, uint32_t *id,
		       uint32_t *shard);

/* The next polls advance the model until it rests. */
void clients_stir(struct clients *clients, uint32_t id);
void clients_stir_all(struct clients *clients);
static inline uint32_t clients_n_stirred(const struct clients *clients)
{
	return clients->n_stirred;
}
static inline sluice_model *clients_stirred(const struct clients *clients, uint32_t i)
{
	return clients->models[clients->stirred[i]].model;
}
/* Stirred model i has nothing to do before the next event. Another one takes its place in the
 * list. */
void clients_rest(struct clients *clients, uint32_t i);
/* Counts shards that moved, for a server whose wait then begins again. */
static inline void clients_count_advance(struct clients *clients)
{
	clients->advanced++;
}
static inline uint64_t clients_advanced(const struct clients *clients)
{
	return clients->advanced;
}

/* The lowest free number; JOB_REGIONS if none is free. */
uint32_t clients_free_region(const struct clients *clients);
void clients_add_region(struct clients *clients, const struct region_client *client, uint32_t id,
			sluice_region *region);
void clients_drop_region(struct clients *clients, uint32_t id);
/* Pass an event to region `id`, if it is still open. */
void clients_notified(const struct clients *clients, uint32_t id, int peer);
void clients_moved(const struct clients *clients, uint32_t id, uint32_t index, int status);
#endif
