/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/stopwatch.h"
#include "base/clock.h"

struct lap stopwatch_begin(void)
{
	return (struct lap){ .began = now_ns() };
}

void stopwatch_without(const struct stopwatch *watch, struct lap *lap, unsigned sums)
{
	lap->without = sums;
	lap->inner = stopwatch_ns(watch, sums);
}

void stopwatch_trace(struct stopwatch *watch, struct trace *trace, uint32_t model)
{
	watch->trace = trace;
	watch->model = model;
	watch->step_ns = now_ns();
}

void stopwatch_step(struct stopwatch *watch, uint64_t step)
{
	if (!watch->trace || step <= watch->steps)
		return;
	const struct trace_slice slice = { .kind = TRACE_STEP,
					   .model = watch->model,
					   .step = step,
					   .begin_ns = watch->step_ns,
					   .end_ns = now_ns() };

	watch->steps = step;
	watch->step_ns = slice.end_ns;
	trace_add(watch->trace, &slice);
}

static void add_slice(const struct stopwatch *watch, enum trace_kind kind, uint64_t began,
		      uint64_t end)
{
	trace_add(watch->trace,
		  &(struct trace_slice){
			  .kind = kind, .model = watch->model, .begin_ns = began, .end_ns = end });
}

uint64_t stopwatch_slice(const struct stopwatch *watch)
{
	return watch->trace ? now_ns() : 0;
}

void stopwatch_slice_ends(const struct stopwatch *watch, enum trace_kind kind, uint64_t began)
{
	if (began && watch->trace)
		add_slice(watch, kind, began, now_ns());
}

static enum trace_kind kind_of(unsigned sums)
{
	return sums & TIME_DEVICE   ? TRACE_DEVICE :
	       sums & TIME_WAIT     ? TRACE_WAIT :
	       sums & TIME_COMPRESS ? TRACE_COMPRESS :
	       sums & TIME_PUSH     ? TRACE_PUSH :
	       sums & TIME_PULL     ? TRACE_PULL :
				      TRACE_APPLY;
}

void stopwatch_end(struct stopwatch *watch, unsigned sums, const struct lap *lap)
{
	const uint64_t inner = stopwatch_ns(watch, lap->without) - lap->inner;
	const uint64_t now = now_ns(), ns = now - lap->began - inner;

	if (watch->trace)
		add_slice(watch, kind_of(sums), lap->began, now);
	for (unsigned i = 0; i < TIME_SUMS; i++)
		if (sums & 1u << i)
			watch->ns[i] += ns;
}

uint64_t stopwatch_ns(const struct stopwatch *watch, unsigned sums)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < TIME_SUMS; i++)
		if (sums & 1u << i)
			total += watch->ns[i];
	return total;
}

void stopwatch_copy(const struct stopwatch *watch, sluice_model_stats *stats)
{
	stats->compress_ns = stopwatch_ns(watch, TIME_COMPRESS);
	stats->push_ns = stopwatch_ns(watch, TIME_PUSH);
	stats->wait_ns = stopwatch_ns(watch, TIME_WAIT);
	stats->pull_ns = stopwatch_ns(watch, TIME_PULL);
	stats->apply_ns = stopwatch_ns(watch, TIME_APPLY);
	stats->device_ns = stopwatch_ns(watch, TIME_DEVICE);
}
