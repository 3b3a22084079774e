/* SPDX-License-Identifier: BSD-3-Clause
 * signal=innovation: a worker sends how its gradient differs from what the shards have of it, its
 * reference, and the shards keep the sum of all references. So an upload can be left out
 * (when=lazy): the reference then stays. Called by worker.c and step.c. */
#include "worker/worker.h"
#include <math.h>
#include <string.h>

static int is_lazy(const sluice_model *model)
{
	return model->recipe.when == WHEN_LAZY;
}

/* Squared norms of what a message carries (worker.value) and of what it leaves of the
 * accumulator. */
static void weigh(sluice_model *model, const struct shard_layout *at, const uint32_t *index,
		  uint32_t n)
{
	struct worker *w = model->worker;
	const float *vector = w->residual + at->begin;
	double carried = 0, all = 0, sent = 0, off = 0;
	for (uint32_t i = 0; i < n; i++) {
		double value = (double)w->value[i], exact = (double)vector[index ? index[i] : i];
		carried += value * value;
		sent += exact * exact;
		off += (exact - value) * (exact - value);
	}
	for (uint32_t i = 0; i < at->span && index; i++)
		all += (double)vector[i] * (double)vector[i];
	w->innovation += carried;
	w->innovation_error += off + (index && all > sent ? all - sent : 0);
}

uint32_t innovation_mark(const struct worker *w)
{
	return w->refresh ? INNOVATION_REFRESH : 2 * w->uploads + (uint32_t)w->uploading;
}

void innovation_renew(sluice_model *model)
{
	struct worker *w = model->worker;
	if (!w->refresh)
		return;
	memset(w->reference, 0, model->layout.count * sizeof *w->reference);
	w->lazy.uploaded = 0; /* so that this push is not left out */
}

void innovation_settle(sluice_model *model, const struct shard_layout *at, const uint32_t *index,
		       uint32_t n)
{
	if (is_lazy(model))
		weigh(model, at, index, n);
	else
		sparse_add(model->worker->reference + at->begin, index, model->worker->value, n);
}

void innovation_begin(sluice_model *model)
{
	model->worker->innovation = 0;
	model->worker->uploading = !model->worker->skip;
	model->worker->innovation_error = 0;
	for (uint32_t s = 0; s < model->layout.n_shards; s++)
		model->worker->down[s].moved = 0;
}

void innovation_apply(sluice_model *model, uint32_t shard, const uint32_t *index,
		      const float *value, uint32_t n)
{
	struct worker *w = model->worker;
	double moved = 0;
	if (!w->lazy.window)
		return;
	for (uint32_t i = 0; i < n; i++)
		moved += (double)value[i] * (double)value[i];
	w->down[shard].moved = moved;
	if (w->since)
		sparse_add(w->since + model->layout.shards[shard].begin, index, value, n);
}

static void measure_distance(sluice_model *model)
{
	struct worker *w = model->worker;
	double distance = 0;
	for (uint64_t i = 0; i < model->layout.count && w->since; i++)
		distance += (double)w->since[i] * (double)w->since[i];
	w->distance = distance;
}

void innovation_pulled(sluice_model *model)
{
	struct worker *w = model->worker;
	double moved = 0;
	if (!w->lazy.window)
		return;
	for (uint32_t s = 0; s < model->layout.n_shards; s++) /* in this order on every worker */
		moved += w->down[s].moved;
	lazy_moved(&w->lazy, moved);
	measure_distance(model);
}

void innovation_restore(sluice_model *model, const uint64_t *numbers)
{
	if (!model->worker->lazy.window)
		return;
	lazy_load(&model->worker->lazy, numbers);
	measure_distance(model);
}

int sluice_wanted(const sluice_model *model)
{
	if (!model || model->recipe.when != WHEN_LAZY_SERVER || !sluice_is_worker(model->job))
		return 1;
	const struct worker *w = model->worker;
	return w->refresh || !(w->smoothness > 0) ||
	       !lazy_skips_unseen(&w->lazy, model->lr, w->smoothness, w->distance);
}

int sluice_set_smoothness(sluice_model *model, float smoothness)
{
	if (!model || !(smoothness > 0) || !isfinite(smoothness))
		return fail(SLUICE_EINVAL,
			    "sluice_set_smoothness: smoothness=%g, must be finite and > 0",
			    (double)smoothness);
	model->worker->smoothness = smoothness;
	return 0;
}
