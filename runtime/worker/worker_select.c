/* SPDX-License-Identifier: BSD-3-Clause
 * Which coordinates of the accumulator are sent: the recipe's selector on the way up. Called by worker.c. */
#include "worker/worker.h"

int worker_select_from(sluice_model *model, const struct span *spans, size_t n_spans, size_t *n_out)
{
	struct worker *w = model->worker;
	const struct layout *l = &model->layout;
	const struct selection_kind *kind = &selection_kinds[model->recipe.up.select];
	const uint64_t of = l->count - l->exempt;
	const double density = model->stats.density_up;
	const struct select_call call = { .x = w->addend ? NULL : w->residual, .residual = w->residual,
					  .grad = w->addend, .scale = w->addend_scale,
					  .spans = spans, .n_spans = n_spans,
					  .k = kind->global ? census_up_count(model, density, of)
							    : schedule_count(density, of),
					  .index = w->index, .hint = &w->hint };
	if (w->addend) {
		int nan;
		w->addend = NULL;
		*n_out = select_run(w->selector, &call, &nan);
		return signal_check_sum(model, call.grad, *n_out, nan);
	}
	const struct choice choice = {
		.x = w->residual, .spans = kind->seeded ? w->shard_spans : spans,
		.n_spans = kind->seeded ? l->n_shards : n_spans, .density = density, .k = call.k,
		.level = model->recipe.up.level, .chunks = model->recipe.up.chunks,
		.scale = model->recipe.memory == MEMORY_NONE,
		.stream = { kind->seeded ? RANDOM_SUPPORT_UP : RANDOM_KEEP,
			    (uint32_t)model->job->rank, w->step, model->recipe.seed },
		.selector = w->selector, .hint = &w->hint, .index = w->index };
	*n_out = kind->run(&choice);
	return 0;
}

size_t worker_select(sluice_model *model)
{
	size_t n = 0;
	worker_select_from(model, model->layout.spans, model->layout.n_spans, &n);
	return n;
}
