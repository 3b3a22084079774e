/* SPDX-License-Identifier: BSD-3-Clause
 * Passes a job's events (job/client.h) to the half of a model that they concern. */
#include "calls/events.h"
#include "job/client.h"
#include "shard/inbox.h"
#include "shard/shard.h"
#include "shard/shard_setup.h"
#include "shard/state.h"
#include "job/collective.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "model/model.h"
#include "worker/async.h"
#include "worker/compressor_ops.h"
#include "worker/lane.h"
#include "worker/pull.h"
#include "worker/state.h"
#include "worker/push.h"
#include "worker/quorum.h"
#include <string.h>

/* ---- notifies and READs (token held) --------------------------------------- */

static void push_arrived(sluice_job *job, uint32_t id, int peer, uint32_t shard_id)
{
	sluice_model *model = clients_model(&job->clients, id);
	if (!model)
		return;
	struct shard *shard = shard_find(model, shard_id);
	if (!shard || peer >= job->workers) {
		job_blame(job, SLUICE_EWIRE, peer,
			  "%s pushed to shard %u, which this rank does not own",
			  rank_text(job, peer), shard_id);
		return;
	}
	inbox_arrived(shard, peer);
}

static void count_refused_push(sluice_job *job, uint32_t id)
{
	if (clients_model(&job->clients, id))
		clients_model(&job->clients, id)->stats.refused_messages++;
}

static void notice_arrived(sluice_job *job, uint32_t id, int peer, uint32_t shard)
{
	sluice_model *model = clients_model(&job->clients, id);
	if (!model)
		return;
	if (shard >= model->layout.n_shards || !sluice_is_worker(job) ||
	    !lane_notice(model->worker->lanes, shard, peer))
		job_blame(job, SLUICE_EWIRE, peer,
			  "%s sent a notice of shard %u, which it does not own",
			  rank_text(job, peer), shard);
}

/* The peer will push to this model again only after this rank has joined its collective call. If
 * this rank joins only after that push, both wait for each other. */
static void peer_is_in(sluice_job *job, int peer, uint32_t op, uint32_t id, uint64_t steps)
{
	sluice_model *model = clients_model(&job->clients, id);
	const uint64_t step = model && peer < job->workers ? step_in_vain(model->worker, steps) : 0;
	const char *here = rank_text(job, job->rank);
	if (step && op == COLLECTIVE_CLOSE)
		job_blame(job, SLUICE_EPEER, peer,
			  "%s closed model %u after %llu steps, but %s waits for step %llu, which "
			  "needs a push of every worker: let all workers make the same number of "
			  "steps",
			  rank_text(job, peer), id, (unsigned long long)steps, here,
			  (unsigned long long)step);
	else if (step)
		job_blame(job, SLUICE_EPEER, peer,
			  "%s is in %s of model %u after %llu steps, but %s is in sluice_pull and "
			  "waits for step %llu, which needs a push of every worker: let all ranks "
			  "make the same calls; if a call depends on a file, let rank 0 check it "
			  "and inform the others by sluice_broadcast",
			  rank_text(job, peer), collective_name(op), id, (unsigned long long)steps,
			  here, (unsigned long long)step);
}

static void route_read(sluice_job *job, uint32_t id, uint32_t index, int status)
{
	sluice_model *model = clients_model(&job->clients, id);
	if (!model)
		return;
	if (index == READ_BLOCKING) {
		model_read_ended(model, status);
		return;
	}
	if (index < model->layout.n_shards && model->worker->lanes)
		lane_read_ended(model->worker->lanes, index, status);
}

/* ---- all models (token held) ----------------------------------------------- */

/* Returns 1 if the model can advance without a notify, a READ or a call. */
static int is_at_work(const sluice_model *model)
{
	int works = worker_goes_on(model->worker);
	for (uint32_t i = 0; i < model->n_own && !works; i++)
		works = shard_works(&model->shards[i]);
	return works;
}

static void advance_models(sluice_job *job)
{
	for (uint32_t i = 0; i < clients_n_stirred(&job->clients);) {
		sluice_model *model = clients_stirred(&job->clients, i);
		if (worker_goes_on(model->worker))
			step_advance(model->worker);
		const int moved = shards_advance(model);
		if (moved)
			clients_count_advance(&job->clients);
		if (moved || is_at_work(model))
			i++;
		else
			clients_rest(&job->clients, i);
	}
}

static void drop_worker(sluice_job *job, int worker)
{
	for (uint32_t m = 0; m < clients_models_end(&job->clients); m++) {
		sluice_model *model = clients_model(&job->clients, m);
		for (uint32_t i = 0; model && i < model->n_own; i++)
			inbox_drop(&model->shards[i], worker);
	}
	clients_stir_all(&job->clients); /* for all models, because no shard waits for that worker
					    any more */
}

static int park_models(sluice_job *job)
{
	int rc = 0;
	for (uint32_t m = 0; m < clients_models_end(&job->clients) && !rc; m++) {
		sluice_model *model = clients_model(&job->clients, m);
		if (!model || !sluice_is_worker(job))
			continue;
		rc = worker_park(model->worker);
		if (!rc)
			rc = async_park(model->worker);
		if (!rc)
			rc = quorum_park(model->worker);
	}
	return rc;
}

/* A waiting shard still has work, so its model is stirred. */
static int shard_waits(const sluice_job *job)
{
	int any = 0;
	for (uint32_t i = 0; i < clients_n_stirred(&job->clients) && !any; i++)
		any = shards_wait(clients_stirred(&job->clients, i));
	return any;
}

static void explain_shard_waits(sluice_job *job, uint64_t now, int always)
{
	for (uint32_t i = 0; i < clients_n_stirred(&job->clients); i++)
		shards_explain(clients_stirred(&job->clients, i), now, always);
}

static void describe_shard_waits(const sluice_job *job, char *text, size_t cap)
{
	*text = 0;
	for (uint32_t i = 0; i < clients_n_stirred(&job->clients); i++)
		shards_describe_waits(clients_stirred(&job->clients, i), text + strlen(text),
				      cap - strlen(text));
}

static const struct job_client models = {
	.advance = advance_models,
	.push_arrived = push_arrived,
	.notice_arrived = notice_arrived,
	.push_refused = count_refused_push,
	.read_done = route_read,
	.worker_dropped = drop_worker,
	.is_in = peer_is_in,
	.park = park_models,
	.waits = shard_waits,
	.explain = explain_shard_waits,
	.describe_waits = describe_shard_waits,
};

void events_begin(sluice_model *model)
{
	sluice_job *job = model->job;
	progress_take(job);
	clients_set_handler(&job->clients, &models);
	clients_add_model(&job->clients, model->id, model, model->channel, model->layout.n_shards);
	progress_release(job);
}

void events_end(sluice_model *model)
{
	sluice_job *job = model->job;
	progress_take(job);
	clients_drop_model(&job->clients, model->id, model);
	progress_release(job);
}
