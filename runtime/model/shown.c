/* SPDX-License-Identifier: BSD-3-Clause
 * See shown.h. */
#include "model/shown.h"
#include "base/clock.h"
#include "job/page.h"
#include "job/progress_token.h"
#include "job/reporter.h"
#include "model/model.h"
#include <stdio.h>

_Static_assert((int)PAGE_RECIPE_BYTES == (int)RECIPE_TEXT_BYTES, "a recipe fits a page");

void shown_open(sluice_model *model)
{
	const sluice_job *job = model->job;
	struct page_model shown = { .count = model->layout.count,
				    .id = model->id,
				    .shards = model->layout.n_shards,
				    .group = job_in_group(job) ? group_color(job) : -1 };

	snprintf(shown.recipe, sizeof(shown.recipe), "%s", model->recipe_text);
	model->shown = page_take(model->job);
	page_show_model(model->job, model->shown, &shown);
	stopwatch_trace(&model->stopwatch, reporter_trace(job), model->id);
}

void shown_trace(sluice_model *model, struct trace *trace)
{
	progress_take(model->job);
	stopwatch_trace(&model->stopwatch, trace, model->id);
	progress_release(model->job);
}

void shown_close(sluice_model *model)
{
	page_give_back(model->job, model->shown);
}

void shown_held(sluice_job *job, int entry, const sluice_model_stats *stats,
		struct stopwatch *watch, uint64_t version)
{
	stopwatch_step(watch, version);
	if (!job->root->page.page || entry < 0)
		return;
	struct page_numbers numbers = { .ns = now_ns(), .version = version, .stats = *stats };

	stopwatch_copy(watch, &numbers.stats);
	page_show_numbers(job, entry, &numbers);
}

void shown_step(sluice_job *job, int entry, const sluice_model_stats *stats,
		struct stopwatch *watch)
{
	stopwatch_step(watch, stats->steps);
	if (!job->root->page.page || !progress_try(&job->root->progress))
		return;
	shown_held(job, entry, stats, watch, stats->steps);
	progress_unlock(job);
}
