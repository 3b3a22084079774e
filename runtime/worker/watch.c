/* SPDX-License-Identifier: BSD-3-Clause
 * Measures the first steps of a job. With recipe=auto each rank proposes in its pushes how to
 * continue. A shard adopts the proposal of the push that it counts first, and all workers follow
 * the shard's delta. With any other recipe, the first worker logs one warning if compression costs
 * more than it saves. worth.c has the arithmetic. */
#include "base/log.h"
#include "job/living.h"
#include "job/state.h"
#include "model/stopwatch.h"
#include "worker/state.h"
#include "worker/watch.h"
#include <string.h>

/* Returns how much the counters have grown since the last call. */
static struct worth_step step_taken(struct worker *w)
{
	const sluice_model_stats *s = w->model.stats;
	const struct stopwatch *times = w->model.stopwatch;
	const struct worth_step sums = { .work_ns = stopwatch_ns(times, TIME_COMPRESS | TIME_APPLY),
					 .wire_ns = stopwatch_ns(times,
								 TIME_PUSH | TIME_WAIT | TIME_PULL),
					 .bytes = s->pushed_bytes + s->pulled_bytes,
					 .dense_bytes = s->dense_bytes };

	return worth_since(w->model.worth, &sums);
}

int is_first_worker(const sluice_job *job)
{
	int first = 0;
	while (first < job->rank && !job_living(job, first))
		first++;
	return first == job->rank;
}

static int advises(const struct worker *w)
{
	return !strcmp(w->job->settings.advice, "yes");
}

/* Returns 1 if the cost of a step can be compared with that of a dense step: all steps must be
 * alike, the recipe must leave out or shorten something, and advice must be enabled. */
static int compares(const struct worker *w)
{
	const struct recipe *r = w->rules.recipe;
	return r->when == WHEN_ALWAYS && !recipe_is_dense(r) && advises(w);
}

void watch_step(struct worker *w)
{
	uint64_t steps = w->step.number - w->rules.first_step,
		 warmup = w->rules.schedule->warmup_steps;
	char text[WORTH_TEXT_BYTES];
	if (w->rules.recipe->automatic) {
		if (steps > WORTH_TRIAL || w->rules.recipe->budget)
			return;
		const struct worth_step step = step_taken(w);
		worth_note(w->model.worth, steps, worth_candidate(steps - 1, 0), &step);
		if (steps == WORTH_TRIAL)
			step_propose(&w->step, choice_with_budget(w->step.proposed,
								  worth_choose(w->model.worth)));
		return;
	}
	if (steps < warmup || steps > warmup + WORTH_WATCHED || !compares(w) ||
	    !is_first_worker(w->job))
		return;
	const struct worth_step step = step_taken(w);
	if (steps > warmup)
		worth_note(w->model.worth, steps - warmup, 0, &step);
	if (steps == warmup + WORTH_WATCHED &&
	    worth_verdict(w->model.worth, w->layout->count, text, sizeof text))
		log_line(LOG_WARN, "runtime", "model %u: %s", w->model.id, text);
}

/* Logs a choice of recipe=auto that differs from the last one. */
static void log_choice(const struct worker *w, unsigned chosen)
{
	const struct auto_choice now = choice_unpack(chosen),
				 before = choice_unpack(w->step.chosen);
	const unsigned budget = w->rules.recipe->budget ? w->rules.recipe->budget + 1 : now.budget;
	char text[WORTH_TEXT_BYTES], words[WORTH_WORDS_BYTES];

	if (now.budget && now.budget != before.budget) {
		worth_explain(w->model.worth, &now, text, sizeof(text));
		log_line(now.budget == 1 && advises(w) ? LOG_WARN : LOG_INFO, "runtime",
			 "model %u: %s", w->model.id, text);
	} else if (budget > 1) {
		worth_words(budget - 1, now.code, words, sizeof(words));
		log_line(
			LOG_INFO, "runtime",
			"model %u: recipe auto sends %s from step %llu on (deltas one step later): "
			"of the choices measured, this one keeps the largest part of the vectors "
			"for "
			"its bytes",
			w->model.id, words, (unsigned long long)w->step.number + 1);
	}
}

void watch_chosen(struct worker *w, unsigned chosen)
{
	const int automatic = w->rules.recipe->automatic;

	if (automatic && chosen != w->step.chosen && is_first_worker(w->job))
		log_choice(w, chosen);
	if (automatic || chosen)
		step_adopt(&w->step, chosen);
}
