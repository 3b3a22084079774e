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
	/* Called at every poll. Advances the stirred models as far as this is possible without
	 * waiting. */
	void (*advance)(sluice_job *job);
	/* Called when a notify from a peer has arrived for model `id`: the peer pushed to a shard
	 * of this rank, or published a version of its shard. */
	void (*push_arrived)(sluice_job *job, uint32_t id, int peer, uint32_t shard);
	void (*notice_arrived)(sluice_job *job, uint32_t id, int peer, uint32_t shard);
	/* Called when a push has arrived from a worker that the job has already dropped. */
	void (*push_refused)(sluice_job *job, uint32_t id);
	/* Called when the GET whose cookie has this index has ended. */
	void (*read_done)(sluice_job *job, uint32_t id, uint32_t index, int status);
	/* Called when this worker was dropped: refuses its unread pushes and ignores its
	 * notices. */
	void (*worker_dropped)(sluice_job *job, int worker);
	/* Called when a peer is in collective `op` of model `id` while a call of this rank waits.
	 * The peer's worker has pushed the gradients of `steps` steps, so this rank's call fails if
	 * it waits for a later step. */
	void (*is_in)(sluice_job *job, int peer, uint32_t op, uint32_t id, uint64_t steps);
	/* Called before this rank waits for something other than shards. Posts the messages of
	 * pushes, and tells the shards not to wait for this rank. Returns an error of the job. */
	int (*park)(sluice_job *job);

	/* Returns 1 if a shard of this rank waits for a push. The shard then stores the rank for
	 * which it waits. */
	int (*waits)(const sluice_job *job);
	/* Logs one line per waiting shard of this rank: every wait if `always` is set, otherwise
	 * only long ones. */
	void (*explain)(sluice_job *job, uint64_t now, int always);
	/* Writes the waits of each model, for example "; shard 2 here waits for the push of step 7
	 * from rank 3 (node n2)", or "". */
	void (*describe_waits)(const sluice_job *job, char *text, size_t cap);
};

/* The functions for events of public regions, called only while a region is open. */
struct region_client {
	void (*notified)(sluice_region *region, int peer);
	/* Called when the GET or PUT whose cookie has this index has ended. */
	void (*done)(sluice_region *region, uint32_t index, int status);
};

/* The most models and regions of one job or group. A cookie has 16 bits for a model's number. */
enum { JOB_MODELS = 65535, JOB_REGIONS = 64 };

/* Each shard of each open model has a channel: a number that its notifies carry. It is the model's
 * first channel plus the number of the shard. All ranks open and close the same models in the same
 * order, so they assign the same channels without a message. A table maps a channel to its model.
 *
 * A poll advances only the stirred models: those that a notify, a READ or a call has touched, and
 * that still have work. The other models cost nothing. */
struct clients {
	const struct job_client *handler; /* never NULL */
	struct client_model *models;      /* models_end entries, with memory for models_room */
	uint32_t models_end, models_room, models_open;
	uint32_t models_free; /* all smaller numbers are in use */
	uint32_t *stirred;    /* numbers of models, with memory for models_room */
	uint32_t n_stirred;
	uint64_t advanced;  /* number of times that a shard made progress */
	uint16_t *channels; /* 1 + the number of the model; 0: free */
	uint32_t channels_end, channels_room;
	uint32_t channels_free; /* all smaller channels are in use */
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
/* Returns the functions that receive the models' events. */
static inline const struct job_client *clients_handler(const struct clients *clients)
{
	return clients->handler;
}
void clients_set_handler(struct clients *clients, const struct job_client *client);

/* Returns the model with this number, or NULL. All numbers are below clients_models_end(). */
static inline sluice_model *clients_model(const struct clients *clients, uint32_t id)
{
	return id < clients->models_end ? clients->models[id].model : NULL;
}
static inline uint32_t clients_models_end(const struct clients *clients)
{
	return clients->models_end;
}
int clients_have_models(const struct clients *clients);
/* Returns the lowest free number, or JOB_MODELS if none is free. */
uint32_t clients_free_model(struct clients *clients);
/* Returns the lowest free number above id, or JOB_MODELS if none is free. */
uint32_t clients_next_free(const struct clients *clients, uint32_t id);
/* Finds n consecutive free channels, none above `most`, and grows the table of models so that it
 * has an entry for id. Returns 0, SLUICE_EINVAL if there are not enough free channels, or
 * SLUICE_ENOMEM. */
int clients_reserve(struct clients *clients, uint32_t id, uint32_t n, uint32_t most,
		    uint32_t *channel);
/* Adds a model on the n channels that clients_reserve() returned. Several models may
 * share the channels of one call. Between the two calls no other model may be added. */
void clients_add_model(struct clients *clients, uint32_t id, sluice_model *model, uint32_t channel,
		       uint32_t n);
/* Does nothing if the model was not added. */
void clients_drop_model(struct clients *clients, uint32_t id, const sluice_model *model);
/* Finds the model and shard of a channel. Returns 1 if it finds them, 0 if the model was closed,
 * and -1 if the channel was never in use. In the last case the peer that sent the channel is in
 * error. */
int clients_at_channel(const struct clients *clients, uint32_t channel, uint32_t *id,
		       uint32_t *shard);

/* Makes polls advance the model until it has nothing left to do. */
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
/* Removes stirred model i from the list, because it has no work before the next event. Another
 * model moves to index i. */
void clients_rest(struct clients *clients, uint32_t i);
/* Counts progress of a shard. The time limit of a waiting server then starts again. */
static inline void clients_count_advance(struct clients *clients)
{
	clients->advanced++;
}
static inline uint64_t clients_advanced(const struct clients *clients)
{
	return clients->advanced;
}

/* Returns the lowest free number, or JOB_REGIONS if none is free. */
uint32_t clients_free_region(const struct clients *clients);
void clients_add_region(struct clients *clients, const struct region_client *client, uint32_t id,
			sluice_region *region);
void clients_drop_region(struct clients *clients, uint32_t id);
/* Both pass an event to region `id` if it is still open. */
void clients_notified(const struct clients *clients, uint32_t id, int peer);
void clients_moved(const struct clients *clients, uint32_t id, uint32_t index, int status);
#endif
