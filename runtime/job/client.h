/* SPDX-License-Identifier: BSD-3-Clause
 * How a job calls the models and regions that are open in it, without knowing what they are. The
 * first model and the first region bring a table of functions each. Until there is a model, the
 * table of client.c is used, whose functions do nothing. All functions are called with the token
 * held. client.c and this file own struct clients. */
#ifndef RUNTIME_CLIENT_H
#define RUNTIME_CLIENT_H
#include "sluice.h"
#include <stddef.h>
#include <stdint.h>

struct job_client {
	/* Called at every poll: does whatever can be done without waiting. */
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
	/* A peer closes model `id` after its worker pushed the gradients of `steps` steps. A call
	 * of this rank is waiting; it fails if it waits for more of them. */
	void (*closed)(sluice_job *job, uint32_t id, int peer, uint64_t steps);
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

/* The same for the events of public regions. It is called only while a region is open. */
struct region_client {
	void (*notified)(sluice_region *region, int peer);
	/* A GET or PUT with this index in its cookie has ended. */
	void (*done)(sluice_region *region, uint32_t index, int status);
};

enum { JOB_MODELS = 16, JOB_REGIONS = 64 };

struct clients {
	const struct job_client *told; /* never NULL */
	sluice_model *models[JOB_MODELS];
	int models_end; /* all models have numbers below this */
	const struct region_client *regions_told;
	sluice_region *regions[JOB_REGIONS];
};

void clients_init(struct clients *clients);
/* The table that receives the models' events. */
static inline const struct job_client *clients_told(const struct clients *clients)
{
	return clients->told;
}
void clients_tell(struct clients *clients, const struct job_client *client);

/* NULL if there is no model of this number. All models have numbers below clients_models_end(). */
static inline sluice_model *clients_model(const struct clients *clients, uint32_t id)
{
	return id < JOB_MODELS ? clients->models[id] : NULL;
}
static inline int clients_models_end(const struct clients *clients)
{
	return clients->models_end;
}
int clients_have_models(const struct clients *clients);
/* The lowest free number; JOB_MODELS if none is free. */
uint32_t clients_free_model(const struct clients *clients);
void clients_add_model(struct clients *clients, uint32_t id, sluice_model *model);
/* Does nothing if the model was not added. */
void clients_drop_model(struct clients *clients, uint32_t id, const sluice_model *model);

/* The lowest free number; JOB_REGIONS if none is free. */
uint32_t clients_free_region(const struct clients *clients);
void clients_add_region(struct clients *clients, const struct region_client *client, uint32_t id,
			sluice_region *region);
void clients_drop_region(struct clients *clients, uint32_t id);
/* Pass an event to region `id`, if it is still open. */
void clients_notified(const struct clients *clients, uint32_t id, int peer);
void clients_moved(const struct clients *clients, uint32_t id, uint32_t index, int status);
#endif
