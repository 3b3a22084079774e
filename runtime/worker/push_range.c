/* SPDX-License-Identifier: BSD-3-Clause
 * A push in pieces, as back-propagation frees them: each range is folded into the residual when it
 * comes, and what can be decided before the whole gradient is there is sent before. The parts of a
 * push are step.c's and worker.c's. */
#include "worker/worker.h"
#include "base/clock.h"

/* Recipes for which a range says too little. */
static int check_recipe(const struct recipe *recipe)
{
	if (recipe->signal == SIGNAL_STORM)
		return fail(SLUICE_EINVAL, "sluice_push_range: the recipe says signal=storm, which "
					   "takes two whole gradients: call sluice_push_pair");
	const char *key = recipe->clip > 0 ? "clip=" : "nonfinite=skip";
	const char *needs = recipe->clip > 0 ? "the norm" : "all values";
	if (recipe->clip > 0 || recipe->nonfinite == NONFINITE_SKIP)
		return fail(SLUICE_EINVAL,
			    "sluice_push_range: the recipe's %s needs %s of the whole gradient "
			    "before any of it can be added: call sluice_push with the whole, or "
			    "change the recipe",
			    key, needs);
	if (recipe->signal == SIGNAL_INNOVATION || recipe->when != WHEN_ALWAYS ||
	    recipe->update == UPDATE_AVERAGE)
		return fail(SLUICE_EINVAL,
			    "sluice_push_range: signal=innovation, when= other than always and "
			    "update=average decide over the whole vector: call sluice_push with "
			    "the whole, or change the recipe");
	return 0;
}

static int check_range(const sluice_model *model, uint64_t begin, uint64_t count)
{
	uint64_t all = model->layout.count;
	if (!count || begin >= all || count > all - begin)
		return fail(SLUICE_EINVAL,
			    "sluice_push_range: the range of %llu coordinates from %llu on is "
			    "empty or outside of the model's %llu",
			    (unsigned long long)count, (unsigned long long)begin,
			    (unsigned long long)all);
	return 0;
}

/* Enters the range; the first one of a step begins it. */
static int take_range(sluice_model *model, uint64_t begin, uint64_t count)
{
	uint64_t taken = 0;
	int rc = tiling_add(&model->worker->pushed, begin, begin + count, &taken);
	if (rc == SLUICE_EINVAL)
		return fail(SLUICE_EINVAL,
			    "sluice_push_range: coordinate %llu of the range [%llu, %llu) was "
			    "already pushed in this step: ranges must not overlap",
			    (unsigned long long)taken, (unsigned long long)begin,
			    (unsigned long long)(begin + count));
	return rc;
}

/* Shards whose last coordinates this range brought, where they need not wait for others. */
static int send_complete_shards(sluice_model *model, uint64_t begin, uint64_t end)
{
	int rc = 0;
	for (uint32_t s = 0; s < model->layout.n_shards && !rc; s++) {
		const struct shard_layout *at = &model->layout.shards[s];
		uint64_t shard_end = at->begin + at->span;
		if (at->begin < end && begin < shard_end &&
		    tiling_covers(&model->worker->pushed, at->begin, shard_end))
			rc = worker_send_shard(model, s);
	}
	return rc;
}

int sluice_push_range(sluice_model *model, const void *grad, uint64_t begin, uint64_t count)
{
	int rc = step_check(model, grad, "sluice_push_range", STEP_PUSHING);
	if (!rc)
		rc = check_recipe(&model->recipe);
	if (!rc)
		rc = check_range(model, begin, count);
	if (!rc)
		rc = accumulator_check(model, grad, begin, "sluice_push_range");
	if (rc)
		return rc;
	struct worker *w = model->worker;
	if ((rc = on_device_range(model, &grad, count)))
		return rc;
	if (w->in_step == STEP_DONE && (rc = step_await_slots(model)))
		return rc;
	if ((rc = take_range(model, begin, count)))
		return rc;
	uint64_t start = now_ns(), pushing = model->stats.push_ns;
	if (w->in_step == STEP_DONE)
		step_begin(model);
	if ((rc = signal_accumulate(model, grad, NULL, begin, count)))
		return rc;
	w->in_step = STEP_PUSHING;
	int whole = tiling_covers(&w->pushed, 0, model->layout.count);
	/* A grid's range is that of the whole vector. */
	if (selection_kinds[model->recipe.up.select].by_coordinate &&
	    model->recipe.up.values.type != VALUE_GRID) {
		rc = send_complete_shards(model, begin, begin + count);
	} else if (whole) {
		measure_push(model);
		rc = worker_send(model);
	}
	if (rc)
		return signal_overflowed(model, 0);
	model->stats.compress_ns += now_ns() - start - (model->stats.push_ns - pushing);
	if (!whole)
		return 0;
	tiling_clear(&w->pushed);
	return step_sent(model);
}
