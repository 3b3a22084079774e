/* SPDX-License-Identifier: BSD-3-Clause
 * What a job asks of the models and regions that are open in it, without knowing what they are:
 * tables of functions, which come with the first of them. Until then the models' is that of
 * client.c, which does nothing. All are called with the token held. client.c and this file own
 * struct clients. */
#ifndef RUNTIME_CLIENT_H
#define RUNTIME_CLIENT_H
#include "sluice.h"
#include <stddef.h>
#include <stdint.h>

struct job_client {
	/* At every poll: whatever can be done without waiting. */
	void (*advance)(sluice_job *job);
	/* Notifies of a peer, to model `id`: it pushed to a shard here; it published a version of
	 * its shard. */
	void (*push_arrived)(sluice_job *job, uint32_t id, int peer, uint32_t shard);
	void (*notice_arrived)(sluice_job *job, uint32_t id, int peer, uint32_t shard);
	/* A push came from a worker that was dropped. */
	void (*push_refused)(sluice_job *job, uint32_t id);
	/* A GET with this index in its cookie has ended. */
	void (*read_done)(sluice_job *job, uint32_t id, uint32_t index, int status);
	/* Its unread pushes are refused, its notices dropped. */
	void (*worker_dropped)(sluice_job *job, int worker);
	/* A peer closes model `id` after its worker pushed the gradients of `steps` steps. A call
	 * of this rank waits; it fails if it waits for more of them. */
	void (*closed)(sluice_job *job, uint32_t id, int peer, uint64_t steps);
	/* Before this rank waits for others than shards: these need not wait for it, and what it
	 * pushed is posted. Returns an error of the job. */
	int (*park)(sluice_job *job);

	/* 1 if a shard of this rank waits for a push: then it knows itself whom for. */
	int (*waits)(const sluice_job *job);
	/* Logs one line per wait of the shards here; not always: of those that are long. */
	void (*explain)(sluice_job *job, uint64_t now, int always);
	/* "; shard 2 here waits for the push of step 7 from rank 3 (node n2)" for each model, or
	 * "". */
	void (*describe_waits)(const sluice_job *job, char *text, size_t cap);
};

/* The same for what happens to a public region; never called without one. */
struct region_client {
	void (*notified)(sluice_region *region, int peer);
	/* A GET or PUT with this index in its cookie has ended. */
	void (*done)(sluice_region *region, uint32_t index, int status);
};

enum { JOB_MODELS = 16, JOB_REGIONS = 64 };

struct clients {
	const struct job_client *told; /* never NULL */
	sluice_model *models[JOB_MODELS];
	int models_end; /* no model lies from here on */
	const struct region_client *regions_told;
	sluice_region *regions[JOB_REGIONS];
};

void clients_init(struct clients *clients);
/* What hears of the models' events. */
static inline const struct job_client *clients_told(const struct clients *clients)
{
	return clients->told;
}
void clients_tell(struct clients *clients, const struct job_client *client);

/* NULL: there is none of this number. Numbers below clients_models_end() are worth asking for. */
static inline sluice_model *clients_model(const struct clients *clients, uint32_t id)
{
	return id < JOB_MODELS ? clients->models[id] : NULL;
}
static inline int clients_models_end(const struct clients *clients)
{
	return clients->models_end;
}
int clients_have_models(const struct clients *clients);
/* The lowest number that no model has; JOB_MODELS if there are as many as there may be. */
uint32_t clients_free_model(const struct clients *clients);
void clients_add_model(struct clients *clients, uint32_t id, sluice_model *model);
/* Does nothing if this model was not added. */
void clients_drop_model(struct clients *clients, uint32_t id, const sluice_model *model);

/* The lowest number that no region has; JOB_REGIONS if there are as many as there may be. */
uint32_t clients_free_region(const struct clients *clients);
void clients_add_region(struct clients *clients, const struct region_client *client, uint32_t id,
			sluice_region *region);
void clients_drop_region(struct clients *clients, uint32_t id);
/* An event of region `id`, which may have gone. */
void clients_notified(const struct clients *clients, uint32_t id, int peer);
void clients_moved(const struct clients *clients, uint32_t id, uint32_t index, int status);
#endif
