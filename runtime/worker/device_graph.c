/* SPDX-License-Identifier: BSD-3-Clause
 * A push that is part of a CUDA graph (device.h). A graph repeats what was captured with the same
 * arguments, so its payloads come to memory of their own, which is the same for each launch, and
 * are copied from there to the slots. device_push.c enqueues the push, and makes messages of what
 * a launch left. */
#include "worker/device_state.h"
#include "worker/device.h"
#include "worker/state.h"
#include <stdlib.h>

struct graph_push {
	struct memory made,
		landing; /* payloads of all shards on the device, and in pinned memory */
};

void graph_close(sluice_model *model)
{
	struct on_device *d = model->worker->device;
	if (!d->graph)
		return;
	d->ops->release(&d->graph->landing);
	d->ops->release(&d->graph->made);
	free(d->graph);
	d->graph = NULL;
}

static int open_graph(sluice_model *model)
{
	struct on_device *d = model->worker->device;
	const size_t bytes = outbox_landing_at(model, model->layout.n_shards);
	if (d->graph)
		return 0;
	d->graph = calloc(1, sizeof(*d->graph));
	if (!d->graph)
		return fail(SLUICE_ENOMEM, "sluice_push: no memory for a push in a graph");
	if (!d->ops->alloc(MEMORY_DEVICE, bytes, &d->graph->made) &&
	    !d->ops->alloc(MEMORY_HOST, bytes, &d->graph->landing))
		return 0;
	int rc = device_fail(d->ops, "sluice_push");
	graph_close(model);
	return rc;
}

/* ---- capturing --------------------------------------------------------------- */

int on_device_captured(const sluice_model *model)
{
	const struct on_device *d = model->worker->device;
	return d->ops && d->ops->captured(d->stream);
}

/* Why what is enqueued now is no push of a later step. NULL: it is. */
static const char *changes_by_step(const sluice_model *model)
{
	const struct recipe *recipe = &model->recipe;
	const enum selection select = recipe->up.select;
	if (on_device_state(model) != DEVICE_IDLE)
		return "no push on this GPU went before it, which prepares what is needed";
	if (select == SELECT_SKETCH || !outbox_packs(recipe))
		return "with this recipe the host takes part in the messages";
	if (select == SELECT_RANDOM || select == SELECT_VARIANCE ||
	    recipe->up.values.type == VALUE_UNIFORM)
		return "with this recipe each step draws other random numbers";
	if (recipe->reset)
		return "with reset= some steps send everything";
	if (recipe->warmup > 0)
		return "with warmup= the density changes";
	if (model->schedule.raises)
		return "with guard=raise the density may change";
	if (model->worker->census)
		return "with this recipe a note of the host follows the messages";
	return NULL;
}

static int capture(sluice_model *model, const void *grad)
{
	struct graph_push *g = model->worker->device->graph;
	struct device_part *parts = calloc(model->layout.n_shards, sizeof(*parts));
	if (!parts)
		return fail(SLUICE_ENOMEM, "sluice_push: no memory for a push in a graph");
	for (uint32_t s = 0; s < model->layout.n_shards; s++) {
		parts[s] = outbox_parts(model)[s];
		parts[s].payload = (uint8_t *)g->made.address + outbox_landing_at(model, s);
		parts[s].copy = (uint8_t *)g->landing.address + outbox_landing_at(model, s);
	}
	int rc = outbox_capture(model, grad, parts);
	free(parts);
	return rc;
}

int on_device_capture(sluice_model *model, const void *grad)
{
	const struct device_ops *ops;
	int rc = device_of(grad, &ops);
	const char *why = rc   ? NULL :
			  !ops ? "the gradient is in host memory" :
				 changes_by_step(model);
	if (why)
		rc = fail(SLUICE_EGPU,
			  "sluice_push: the stream is being captured into a graph, and %s: call "
			  "outside of the capture",
			  why);
	if (!rc)
		rc = open_graph(model);
	return rc ? rc : capture(model, grad);
}

/* ---- a launch ---------------------------------------------------------------- */

int on_device_launched(sluice_model *model)
{
	const struct on_device *d = model->worker->device;
	if (!d->graph)
		return fail(SLUICE_EINVAL, "sluice_push_launched: no push of this model is in a "
					   "graph: capture sluice_push first");
	if (on_device_captured(model))
		return on_device_ready(model, "sluice_push_launched");
	d->ops->launched(d->compressor);
	if (on_device_state(model) != DEVICE_IDLE)
		return fail(SLUICE_EINVAL,
			    "sluice_push_launched: residual and momentum %s, and the graph has "
			    "used those before: make the step with sluice_push, and launch the "
			    "graph again after its pull",
			    on_device_selects(model) ? "were restored after the last push" :
						       "left the GPU with the last push");
	return 0;
}

void on_device_take_launched(sluice_model *model)
{
	const struct graph_push *g = model->worker->device->graph;
	outbox_launched(model, (const uint8_t *)g->landing.address);
}
