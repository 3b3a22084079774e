/* SPDX-License-Identifier: BSD-3-Clause
 * Measures the first steps of a job. Under recipe=auto each rank proposes in its pushes how to
 * go on. A shard adopts the proposal of the push that it counts first, and all workers follow
 * the shard's delta. With any other recipe, the first worker logs one warning if compression
 * costs more than it saves. worth.c has the arithmetic. */
#include "base/log.h"
#include "job/living.h"
#include "job/state.h"
#include "model/stopwatch.h"
#include "worker/state.h"
#include "worker/watch.h"
#include <string.h>

/* Returns the growth of the counters since the last call. */
static struct worth_step step_taken(sluice_model *model)
{
	const sluice_model_stats *s = &model->stats;
	const struct stopwatch *w = &model->stopwatch;
	struct worth_step now = { .work_ns = stopwatch_ns(w, TIME_COMPRESS | TIME_APPLY),
				  .wire_ns = stopwatch_ns(w, TIME_PUSH | TIME_WAIT | TIME_PULL),
				  .bytes = s->pushed_bytes + s->pulled_bytes,
				  .dense_bytes = s->dense_bytes };
	const struct worth_step before = model->watched;
	model->watched = now;
	return (struct worth_step){ .work_ns = now.work_ns - before.work_ns,
				    .wire_ns = now.wire_ns - before.wire_ns,
				    .bytes = now.bytes - before.bytes,
				    .dense_bytes = now.dense_bytes - before.dense_bytes };
}

int is_first_worker(const sluice_job *job)
{
	int first = 0;
	while (first < job->rank && !job_living(job, first))
		first++;
	return first == job->rank;
}

static int advises(const sluice_model *model)
{
	return !strcmp(model->job->settings.advice, "yes");
}

/* Returns 1 if the cost of a step should be compared with that of a dense step. All steps must be
 * alike, the recipe must leave out or shorten something, and advice must be enabled. */
static int compares(const sluice_model *model)
{
	const struct recipe *r = &model->recipe;
	const int dense = r->up.select == SELECT_ALL && r->down.select == SELECT_ALL &&
			  r->up.values.type == VALUE_F32 && r->down.values.type == VALUE_F32;
	return r->when == WHEN_ALWAYS && !dense && advises(model);
}

void watch_step(sluice_model *model)
{
	struct worker *w = model->worker;
	uint64_t steps = w->step.number - model->first_step, warmup = model->schedule.warmup_steps;
	char text[400];
	if (model->recipe.automatic) {
		if (steps > WORTH_TRIAL)
			return;
		const struct worth_step step = step_taken(model);
		worth_note(&model->worth, steps, worth_candidate(steps - 1, 0), &step);
		if (steps == WORTH_TRIAL)
			step_propose(&w->step, worth_choose(&model->worth));
		return;
	}
	if (steps < warmup || steps > warmup + WORTH_WATCHED || !compares(model) ||
	    !is_first_worker(model->job))
		return;
	const struct worth_step step = step_taken(model);
	if (steps > warmup)
		worth_note(&model->worth, steps - warmup, 0, &step);
	if (steps == warmup + WORTH_WATCHED &&
	    worth_verdict(&model->worth, model->layout.count, text, sizeof text))
		log_line(LOG_WARN, "runtime", "model %u: %s", model->id, text);
}

void watch_chosen(sluice_model *model, unsigned chosen)
{
	char text[400];
	struct worker *w = model->worker;
	if (chosen && !w->step.chosen && model->recipe.automatic && is_first_worker(model->job)) {
		worth_explain(&model->worth, chosen, text, sizeof text);
		log_line(chosen == 1 && advises(model) ? LOG_WARN : LOG_INFO, "runtime",
			 "model %u: %s", model->id, text);
	}
	if (chosen)
		step_adopt(&w->step, chosen);
}
