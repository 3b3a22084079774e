/* SPDX-License-Identifier: BSD-3-Clause
 * See gpu_lag.h. */
#include "gpu_lag.h"
#include "base/clock.h"
#include "job/progress_token.h"
#include "ranks.h"
#include <string.h>

struct emulated emulated;

void open_models(struct pair *p, sluice_job *job, const struct shape *shape, void *stream)
{
	sluice_model_attr attr = attr_of_shape(shape);
	attr.stream = stream;
	*p = (struct pair){ .ops = device(), .job = job, .rank = sluice_rank(job), .shape = shape };
	p->there = device_vector(p->ops, &p->params_memory);
	p->grad_there = device_vector(p->ops, &p->grad_memory);
	CHECK_OK(sluice_model_open(p->job, &attr, p->params, &p->host));
	CHECK_OK(sluice_model_open(p->job, &attr, p->there, &p->gpu));
}

void begin_emulated(void)
{
	device_look_up("emulated_lag", &emulated.lag);
	device_look_up("emulated_run", &emulated.run);
	device_look_up("emulated_fail_running", &emulated.fail_running);
	device_look_up("emulated_fail", &emulated.fail_call);
	device_look_up("cudaStreamCreateWithFlags", &emulated.stream);
	device_look_up("cudaStreamDestroy", &emulated.destroy);
	device_look_up("cudaStreamBeginCapture", &emulated.begin);
	device_look_up("cudaStreamEndCapture", &emulated.end);
	device_look_up("cudaGraphDestroy", &emulated.free_graph);
	log_capture();
}

void open_pair(struct pair *p, const struct shape *shape, void *stream, int wait_ms)
{
	sluice_job_attr waits = { .size = sizeof waits, .wait_timeout_ms = wait_ms };
	begin_emulated();
	open_models(p, rank_join(&waits), shape, stream);
}

void close_models(struct pair *p)
{
	sluice_model_close(&p->gpu);
	sluice_model_close(&p->host);
	p->ops->release(&p->params_memory);
	p->ops->release(&p->grad_memory);
}

void close_pair(struct pair *p)
{
	close_models(p);
	sluice_finalize(&p->job);
	emulated.lag(AT_ONCE);
}

void new_gradient(struct pair *p, int step)
{
	gradient(p->grad, p->rank, step, p->shape);
	to_device(p->ops, p->grad_there, p->grad);
}

enum on_device_state late(const struct pair *p)
{
	return on_device_state(p->gpu->worker->device);
}

uint64_t next_seq(struct pair *p)
{
	progress_lock(p->job);
	uint64_t seq = lane_next_seq(p->gpu->worker->lanes, 0);
	progress_unlock(p->job);
	return seq;
}

void expect_becomes(const struct pair *p, enum on_device_state state)
{
	const uint64_t until = now_ns() + 20000000000ull;
	while (late(p) != state && now_ns() < until)
		sleep_ms(1);
	CHECK(late(p) == state);
}

void expect_same_pair(struct pair *p)
{
	expect_on_device(p->ops, p->there, p->params);
	CHECK_OK(on_device_fetch(p->gpu->worker));
	CHECK(p->host->recipe.memory.kind == MEMORY_NONE ||
	      !memcmp(worker_residual(p->gpu->worker), worker_residual(p->host->worker),
		      sizeof p->params));
	CHECK(!compressor_velocity(p->host->worker->compressor) ||
	      !memcmp(compressor_velocity(p->gpu->worker->compressor),
		      compressor_velocity(p->host->worker->compressor), sizeof p->params));
}
