/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of the program in pieces of GPU memory (device.h). The pieces of a gradient are put
 * together there and compressed as one vector. Parameters and means are added to in one vector of
 * floats there, from which each piece is written when the pull ends. Called by parts.c and
 * target.c. */
#include "worker/device_state.h"
#include "base/log.h"
#include "model/model.h"
#include "worker/device.h"
#include "worker/state.h"

/* ---- gradients --------------------------------------------------------------- */

static int collect_pieces(sluice_model *model, const struct vector *s, const void **whole)
{
	const void *first = vector_given(s, 0);
	int rc = on_device_range(model, &first, 0, 1);

	if (rc || !on_device_collects(model))
		return rc;
	if (vector_join_there(s, model->worker->device->ops,
			      model->worker->device->collected.address, on_device_stream(model)))
		rc = outbox_failed(model, 0);
	*whole = on_device_collected(model);
	return rc;
}

int on_device_pieces(sluice_model *model, const struct vector *s, const void **whole)
{
	const char *why = on_device_why_not(model);
	struct on_device *d = model->worker->device;
	const int there = vector_there(s, on_device_stream(model));
	struct device_scope scope;

	*whole = NULL;
	if (there <= 0)
		return there;
	if (!why && !vector_alike(s, model_pushed_type(model), model->grad.scale))
		why = "they are not all of the model's grad_type and of one scale";
	if (why && !d->told)
		log_line(LOG_INFO, "runtime",
			 "model %u: segments of gradients are copied from the GPU to the host each "
			 "step: %s",
			 model->id, why);
	if (why) {
		d->told = 1;
		return 0;
	}
	device_scope_begin(vector_given(s, 0), on_device_stream(model), &scope);
	return device_scope_end(&scope, collect_pieces(model, s, whole));
}
