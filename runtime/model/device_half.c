/* SPDX-License-Identifier: BSD-3-Clause
 * See device_half.h. */
#include "model/device_half.h"
#include "base/clock.h"
#include "base/error.h"
#include "job/progress.h"
#include <stdlib.h>

enum { ASK_EVERY_NS = 10000000 };

int half_open(struct device_half *h, const void *pointer, struct device_shape shape,
	      const struct span *spans, size_t n_spans, const char *what)
{
	struct device_span *exempt;

	if (h->compressor)
		return 0;
	exempt = calloc(n_spans + 1, sizeof(*exempt));
	if (!exempt)
		return fail(SLUICE_ENOMEM, "no memory for %zu spans", n_spans);
	shape.exempt = exempt;
	for (size_t i = 0; i < n_spans; i++)
		if (spans[i].exempt)
			exempt[shape.n_exempt++] = (struct device_span){ (uint32_t)spans[i].begin,
									 (uint32_t)spans[i].end };
	const int failed = h->ops->find(pointer, &shape.device) < 0 ||
			   h->ops->open(&shape, &h->compressor);
	free(exempt);
	return failed ? device_fail(h->ops, what) : 0;
}

int half_keep(struct device_half *h, float *residual, float *velocity, float *variance,
	      uint64_t count)
{
	h->host_residual = residual;
	h->host_velocity = velocity;
	h->host_variance = variance;
	h->bytes = count * sizeof(float);
	if (!h->residual.address && h->ops->alloc(MEMORY_DEVICE, h->bytes, &h->residual))
		return device_fail(h->ops, "a residual on the GPU");
	if (velocity && !h->velocity.address &&
	    h->ops->alloc(MEMORY_DEVICE, h->bytes, &h->velocity))
		return device_fail(h->ops, "momentum on the GPU");
	if (variance && !h->variance.address &&
	    h->ops->alloc(MEMORY_DEVICE, h->bytes, &h->variance))
		return device_fail(h->ops, "a variance on the GPU");
	return 0;
}

void half_drop(struct device_half *h)
{
	h->ops->release(&h->variance);
	h->ops->release(&h->velocity);
	h->ops->release(&h->residual);
}

void half_close(struct device_half *h)
{
	h->ops->close(&h->compressor);
	half_drop(h);
}

int half_take_up(const struct device_half *h)
{
	const struct device_ops *ops = h->ops;
	const int failed = h->host_residual ? ops->copy(h->residual.address, h->host_residual,
							h->bytes, h->stream) :
					      ops->zero(h->residual.address, h->bytes, h->stream);

	return failed ||
			       (h->velocity.address &&
				ops->copy(h->velocity.address, h->host_velocity, h->bytes,
					  h->stream)) ||
			       (h->variance.address &&
				ops->copy(h->variance.address, h->host_variance, h->bytes,
					  h->stream)) ?
		       -1 :
		       0;
}

int half_copy_home(const struct device_half *h, void *to, const void *from, size_t bytes)
{
	if (h->ops->ready(h->stream) || h->ops->copy(to, from, bytes, h->stream) ||
	    h->ops->wait(h->stream))
		return device_fail(h->ops, "a copy from the GPU");
	return 0;
}

int half_land(const struct device_half *h, uint32_t count, uint32_t **index, float **value)
{
	return h->ops->land(h->compressor, count, index, value, h->stream) ?
		       device_fail(h->ops, "sluice_pull") :
		       0;
}

int half_fetch(const struct device_half *h)
{
	int rc = 0;

	if (h->host_residual)
		rc = half_copy_home(h, h->host_residual, h->residual.address, h->bytes);
	if (!rc && h->velocity.address)
		rc = half_copy_home(h, h->host_velocity, h->velocity.address, h->bytes);
	if (!rc && h->variance.address)
		rc = half_copy_home(h, h->host_variance, h->variance.address, h->bytes);
	return rc;
}

int half_bad(const struct device_half *h, float *to, uint64_t begin, size_t count, size_t *bad)
{
	const float *from = (const float *)h->residual.address + begin;
	const int rc = half_copy_home(h, to, from, count * sizeof(*to));

	if (!rc)
		*bad = first_nonfinite(to, count);
	return rc;
}

struct device_values half_values(const struct value_coding *values,
				 const struct random_stream *stream, uint64_t first)
{
	return (struct device_values){ .type = (int)values->type,
				       .bits = values->bits,
				       .block = values->block,
				       .purpose = stream->purpose,
				       .rank = stream->rank,
				       .seed = stream->seed,
				       .step = stream->step,
				       .first = first };
}

int half_push(struct device_half *h, const struct device_push *push, int waits)
{
	h->asked_ns = now_ns();
	return h->ops->push(h->compressor, push, h->stream) || (waits && h->ops->wait(h->stream)) ?
		       -1 :
		       0;
}

int half_poll(struct device_half *h, int asks)
{
	const uint64_t now = now_ns();

	asks = asks && now - h->asked_ns > ASK_EVERY_NS;
	if (asks)
		h->asked_ns = now;
	return h->ops->poll(h->compressor, asks, h->stream);
}

void half_abandon(struct device_half *h, uint64_t until_ns)
{
	while (!half_poll(h, 1) && now_ns() < until_ns)
		progress_nap();
}
