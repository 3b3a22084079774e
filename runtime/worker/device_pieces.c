/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of the program in pieces of GPU memory (device.h). The pieces of a gradient are put
 * together there and compressed as one vector. Parameters and means are added to in one vector of
 * floats there, from which each piece is written when the pull ends. Called by parts.c and
 * target.c. */
#include "worker/device_state.h"
#include "base/log.h"
#include "worker/worker.h"

/* Whether all pieces are memory of a device: 1 or 0, or SLUICE_EGPU. */
static int all_there(const struct segments *s, const struct device_ops **ops)
{
	int rc = 0;

	*ops = NULL;
	for (size_t i = 0; i < segments_number(s) && !rc; i++) {
		rc = device_of(segments_given(s, i), ops);
		if (!rc && !*ops)
			return 0;
	}
	return rc ? rc : *ops != NULL;
}

int on_device_holds(const sluice_model *model, const struct segments *s)
{
	const struct device_ops *ops;
	struct device_scope scope;

	if (!segments_number(s))
		return 0;
	device_scope_begin(segments_given(s, 0), on_device_stream(model), &scope);
	return device_scope_end(&scope, all_there(s, &ops));
}

/* ---- gradients --------------------------------------------------------------- */

static int collect_pieces(sluice_model *model, const struct segments *s, const void **whole)
{
	const void *first = segments_given(s, 0);
	int rc = on_device_range(model, &first, 0, 1);

	if (rc || !on_device_collects(model))
		return rc;
	for (size_t i = 0; i < segments_number(s) && !rc; i++)
		rc = on_device_collect(model, segments_given(s, i), segments_begin(s, i),
				       segments_count(s, i));
	*whole = on_device_collected(model);
	return rc;
}

int on_device_pieces(sluice_model *model, const struct segments *s, const void **whole)
{
	const char *why = on_device_why_not(model);
	struct on_device *d = model->worker->device;
	const int there = on_device_holds(model, s);
	struct device_scope scope;

	*whole = NULL;
	if (there <= 0)
		return there;
	if (!why && !segments_alike(s, model_pushed_type(model), model->grad.scale))
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
	device_scope_begin(segments_given(s, 0), on_device_stream(model), &scope);
	return device_scope_end(&scope, collect_pieces(model, s, whole));
}

/* ---- parameters and means ------------------------------------------------------ */

static int gather_floats(struct on_device *d, const struct segments *s)
{
	int failed = 0;

	for (size_t i = 0; i < segments_number(s) && !failed; i++)
		failed = d->ops->copy((float *)d->master.address + segments_begin(s, i),
				      segments_given(s, i), segments_bytes(s, i), d->stream);
	return failed;
}

int on_device_target_pieces(sluice_model *model, const struct segments *s, int gathers,
			    const float *copy, float **flat)
{
	struct on_device *d = model->worker->device;
	const size_t bytes = model->layout.count * sizeof(float);
	int rc = device_of(segments_given(s, 0), &d->target);

	if (!rc)
		rc = on_device_check_stream(d->target, d->stream, "sluice_pull");
	if (rc)
		return rc;
	d->narrow = NULL;
	d->ops = d->target;
	if ((rc = on_device_open_compressor(model, segments_given(s, 0))))
		return rc;
	if ((!d->master.address && d->ops->alloc(MEMORY_DEVICE, bytes, &d->master)) ||
	    (copy && d->ops->copy(d->master.address, copy, bytes, d->stream)) ||
	    (gathers && gather_floats(d, s)))
		return device_fail(d->ops, "parameters in pieces on the GPU");
	*flat = d->master.address;
	return 0;
}

/* Floats as they are, and elements of 16 bits rounded. */
static int write_piece(const struct on_device *d, const struct segments *s, size_t i)
{
	const float *from = (const float *)d->master.address + segments_begin(s, i);
	const struct device_rounded call = { .narrow = segments_given(s, i),
					     .narrow_type = (int)segments_type(s, i),
					     .value = from,
					     .count = (uint32_t)segments_count(s, i),
					     .assign = 1 };

	return segments_type(s, i) == VALUE_F32 ?
		       d->ops->copy(segments_given(s, i), from, segments_bytes(s, i), d->stream) :
		       d->ops->apply_rounded(d->compressor, &call, d->stream);
}

int on_device_scatter(sluice_model *model, const struct segments *s)
{
	const struct on_device *d = model->worker->device;
	int failed = 0;

	for (size_t i = 0; i < segments_number(s) && !failed; i++)
		failed = write_piece(d, s, i);
	return failed ? device_fail(d->ops, "sluice_pull") : 0;
}
