/* SPDX-License-Identifier: BSD-3-Clause
 * Which coordinates of the accumulator are sent: the recipe's selector on the way up. Called by
 * worker.c. */
#include "worker/worker.h"

void worker_put_back(sluice_model *model, const uint32_t *selected, uint32_t n)
{
	struct worker *w = model->worker;
	if (w->taken)
		sparse_set(w->residual, selected, w->selected + (selected - w->index), n);
	w->taken = 0;
}

/* Where the receiver decodes what the selection found, the same pass takes it out of the
 * residual. */
static int add_and_select(sluice_model *model, struct select_call call, size_t *n_out)
{
	struct worker *w = model->worker;
	int nan;
	w->addend = NULL;
	w->summed = 0;
	w->valued = w->selected != NULL;
	w->taken = call.clear = w->valued && model->recipe.up.values.type == VALUE_F32 &&
				!model->recipe.lazy_window;
	call.value = w->selected;
	*n_out = select_run(w->selector, &call, &nan);
	if (signal_sum_finite(w, *n_out, nan))
		return 0;
	worker_put_back(model, w->index, (uint32_t)*n_out); /* infinity less infinity is not zero */
	int rc = signal_judge_sum(model, call.grad);
	return rc < 0 ? rc : 0;
}

int worker_select_from(sluice_model *model, const struct span *spans, size_t n_spans, size_t *n_out)
{
	struct worker *w = model->worker;
	const struct layout *l = &model->layout;
	const struct selection_kind *kind = &selection_kinds[model->recipe.up.select];
	const uint64_t of = l->count - l->exempt;
	const double density = model->stats.density_up;
	const struct select_call call = { .x = w->addend ? NULL : w->residual,
					  .residual = w->residual,
					  .grad = w->addend,
					  .scale = w->addend_scale,
					  .spans = spans,
					  .n_spans = n_spans,
					  .k = kind->global ? census_up_count(model, density, of) :
							      schedule_count(density, of),
					  .index = w->index,
					  .hint = &w->hint };
	if (w->addend || w->summed)
		return add_and_select(model, call, n_out);
	const struct choice choice = { .x = w->residual,
				       .spans = kind->seeded ? w->shard_spans : spans,
				       .n_spans = kind->seeded ? l->n_shards : n_spans,
				       .density = density,
				       .k = call.k,
				       .level = model->recipe.up.level,
				       .chunks = model->recipe.up.chunks,
				       .scale = model->recipe.memory == MEMORY_NONE,
				       .stream = { kind->seeded ? RANDOM_SUPPORT_UP : RANDOM_KEEP,
						   (uint32_t)model->job->rank, w->step,
						   model->recipe.seed },
				       .selector = w->selector,
				       .hint = &w->hint,
				       .index = w->index };
	*n_out = kind->run(&choice);
	return 0;
}

size_t worker_select(sluice_model *model)
{
	size_t n = 0;
	worker_select_from(model, model->layout.spans, model->layout.n_spans, &n);
	return n;
}
