/* SPDX-License-Identifier: BSD-3-Clause
 * up=sketch where the residual lives on the device (on_device.h): what leaves it are the shards'
 * sketches, in the push, and in the pull, when the shards have asked for them, the exact values.
 * What is published is cleared there. Called by on_device_push.c and worker_agree.c. */
#include "worker/worker.h"
#include "base/error.h"
#include <string.h>

uint32_t on_device_most_columns(const sluice_model *model)
{
	uint32_t most = 0;
	for (uint32_t s = 0; s < model->layout.n_shards; s++)
		if (model->layout.shards[s].sketch_columns > most)
			most = model->layout.shards[s].sketch_columns;
	return most;
}

void on_device_measure_sketches(sluice_model *model)
{
	struct device_part *parts = model->worker->device.parts;
	for (uint32_t s = 0; s < model->layout.n_shards; s++)
		parts[s].bytes = model->layout.shards[s].sketch_cells * (uint32_t)sizeof(float);
}

/* Its residual comes here to be looked at. */
static int sketch_overflowed(sluice_model *model, const struct shard_layout *at)
{
	struct worker *w = model->worker;
	const float *there = (const float *)w->device.residual.address + at->begin;
	int rc = on_device_fetch(model, w->residual + at->begin, there, at->span * sizeof *there);
	return rc ? rc : agree_overflowed(model, at);
}

int on_device_send_sketches(sluice_model *model)
{
	struct on_device *d = &model->worker->device;
	for (uint32_t s = 0; s < model->layout.n_shards; s++)
		if (d->sent[s].nonfinite)
			return sketch_overflowed(model, &model->layout.shards[s]);
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		struct message m = worker_message(model, s);
		m.span = m.count = model->layout.shards[s].sketch_cells;
		m.coding = CODING_DENSE;
		on_device_stage(model, s, &m);
	}
	return 0;
}

int on_device_send_values(sluice_model *model)
{
	struct worker *w = model->worker;
	struct on_device *d = &w->device;
	on_device_aim(model);
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		d->parts[s].bytes = w->down[s].support_n * (uint32_t)sizeof(float);
		d->parts[s].index = w->down[s].support;
	}
	const struct device_push push = { .payload = DEVICE_VALUES,
					  .vector = d->residual.address,
					  .parts = d->parts };
	if (d->ops->push(d->compressor, &push, d->stream))
		return device_fail(d->ops, "sluice_pull");
	return on_device_ask(model);
}

int on_device_stage_values(sluice_model *model)
{
	struct worker *w = model->worker;
	struct on_device *d = &w->device;
	struct device_selected nothing;
	if (d->ops->pushed(d->compressor, &nothing, d->sent,
			   d->stream)) /* it is done: it does not ask CUDA */
		return device_fail(d->ops, "sluice_pull");
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		struct message m = worker_message(model, s);
		m.count = w->down[s].support_n;
		m.coding = CODING_AGREED;
		on_device_stage(model, s, &m);
		model->stats.pushed_elements += m.count;
	}
	return 0;
}

int on_device_clear(sluice_model *model, const struct shard_layout *at, const uint32_t *index,
		    uint32_t n)
{
	struct worker *w = model->worker;
	struct on_device *d = &w->device;
	float *residual = (float *)d->residual.address + at->begin;
	uint32_t published = index ? n : 0;
	for (uint32_t i = 0; !index && i < n; i++)
		if (w->value[i] != 0)
			w->relative[published++] = i;
	memset(w->value, 0, n * sizeof *w->value); /* applied already */
	float *velocity = (float *)d->velocity.address;
	if (!index)
		index = w->relative;
	if (d->ops->apply(d->compressor, residual, index, w->value, published, 1, d->stream) ||
	    (velocity && model->recipe.mask &&
	     d->ops->apply(d->compressor, velocity + at->begin, index, w->value, published, 1,
			   d->stream)))
		return device_fail(d->ops, "sluice_pull");
	return 0;
}
