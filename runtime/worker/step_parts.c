/* SPDX-License-Identifier: BSD-3-Clause
 * What the calls of a step have in common: the order in which they may come, and the waits around
 * worker_send(). Called by step.c, push_range.c, point.c and async.c. */
#include "worker/worker.h"
#include "base/clock.h"
#include <stdio.h>

/* The first shard whose slots are all full; n_shards if there is none. */
static uint32_t full_shard(const sluice_model *model)
{
	uint32_t s = 0;
	while (s < model->layout.n_shards && ring_writer_free(&model->worker->up[s].ring))
		s++;
	return s;
}

static int slots_free(void *context)
{
	const sluice_model *model = context;
	return full_shard(model) == model->layout.n_shards;
}

static void describe_full(void *context, char *text, size_t cap)
{
	const sluice_model *model = context;
	uint32_t s = full_shard(model) %
		     model->layout.n_shards; /* freed just now: the first, as good as any */
	snprintf(text, cap, "step %llu: a free slot at shard %u of %s",
		 (unsigned long long)(model->step / model->recipe.period + 1), s,
		 rank_text(model->job, model->layout.shards[s].owner));
}

static int push_done(void *context)
{
	return worker_advance(context, 1);
}

void step_describe(void *context, char *text, size_t cap)
{
	sluice_model *model = context;
	struct worker *w = model->worker;
	uint32_t waiting = 0, first = 0;
	uint64_t wanted = worker_wanted(model);
	if (on_device_busy(model, text, cap))
		return;
	int down = w->phase < model->schedule.n_phases &&
		   phase_now(model, w->phase)->direction == PHASE_DOWN;
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		int missing = down ? w->down[s].have_version < wanted : !w->up[s].posted;
		if (missing && !waiting++)
			first = s;
	}
	int owner = model->layout.shards[first].owner;
	snprintf(text, cap, "step %llu: %s shard %u of %s%s", (unsigned long long)w->step,
		 down ? "the new version of" : "a free slot at", first,
		 rank_text(model->job, owner), waiting > 1 ? " and of others" : "");
}

/* A failure of the job cuts a step short: then it is what to say of the next call. */
static int has_failed(sluice_job *job)
{
	progress_take(job);
	const int failed = job->failure.code != 0;
	progress_release(job);
	return failed;
}

int step_check(sluice_model *model, const void *vector, const char *function,
	       enum step_state expected)
{
	if (!model)
		return fail(SLUICE_EINVAL, "%s: the model is NULL", function);
	int rc = job_check(model->job, function);
	if (rc)
		return rc;
	if (!sluice_is_worker(model->job))
		return fail(SLUICE_EINVAL, "%s: %s is a dedicated server: it calls sluice_serve",
			    function, rank_text(model->job, model->job->rank));
	if (!vector)
		return fail(SLUICE_EINVAL, "%s: the vector is NULL", function);
	if ((rc = model_whole(model, function)))
		return rc;
	enum step_state state = model->worker->in_step;
	const int incomplete = state == STEP_PUSHING && expected != STEP_PUSHING;
	if (!incomplete && (state == STEP_PUSHED) == (expected == STEP_PUSHED))
		return 0;
	if (has_failed(model->job))
		return job_failed(model->job);
	if (incomplete)
		return fail(SLUICE_EINVAL,
			    "%s: the ranges pushed in this step leave out coordinate %llu and "
			    "maybe others: push them with sluice_push_range first",
			    function, (unsigned long long)tiling_gap(&model->worker->pushed));
	return fail(SLUICE_EINVAL, "%s: %s (one push, then one pull per step)", function,
		    expected == STEP_PUSHED ? "nothing was pushed since the last pull" :
					      "the last push was not pulled yet");
}

int step_await_slots(sluice_model *model)
{
	uint64_t start = now_ns();
	progress_take(model->job);
	int rc = progress_until(model->job, slots_free, describe_full, model);
	progress_release(model->job);
	model->stats.push_ns += now_ns() - start;
	return rc;
}

void step_begin(sluice_model *model)
{
	struct worker *w = model->worker;
	w->step = model->step / model->recipe.period + 1;
	w->phase = 0;
	w->encoded = 0;
	w->target = NULL;
	w->shards_done = 0;
	w->awaited = w->up[0].ring.next_seq;
	w->parked = 0;
	model->stats.density_up = model_density(model, &model->recipe.up, w->step, w->chosen);
	w->density_down = model_density(model, &model->recipe.down, w->step, w->chosen);
}

int step_sent(sluice_model *model)
{
	uint64_t start = now_ns();
	model->worker->raise = 0;
	model->worker->encoded = 1;
	model->worker->in_step = STEP_PUSHED;
	progress_take(model->job);
	int rc = progress_until(model->job, push_done, step_describe, model);
	progress_release(model->job);
	model->stats.push_ns += now_ns() - start;
	return rc;
}

/* ---- unequal numbers of steps ---------------------------------------------- */

/* Where a step has several phases up, only its pull completes them. */
uint64_t step_pushed(const sluice_model *model)
{
	const int whole = sluice_is_worker(model->job) && model->schedule.n_phases == 2 &&
			  model->worker->in_step == STEP_PUSHED;
	return model->step + (uint64_t)whole;
}

/* An asynchronous step needs all workers only where they meet at an anchor. */
uint64_t step_in_vain(const sluice_model *model, uint64_t pushed)
{
	const struct worker *w = model->worker;
	if (!sluice_is_worker(model->job) || !w->target || w->in_step != STEP_PUSHED ||
	    model->step < pushed)
		return 0;
	if (model_async(model) && !schedule_at_anchor(&model->schedule, w->step) &&
	    !schedule_before_anchor(&model->schedule, w->step))
		return 0;
	return model->step + 1;
}
