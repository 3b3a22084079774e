/* SPDX-License-Identifier: BSD-3-Clause
 * See checkpoint_ranks.h. */
#include "checkpoint_ranks.h"
#include "base/bytes.h"
#include "checkpoint/checkpoint.h"
#include "worker/worker_setup.h"
#include "sluice.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

struct world world;
_Thread_local struct rank_state *self;

static float value_of(int kind, int rank, int i, uint64_t step)
{
	return (float)step + (float)kind * 0.25f + (float)rank * 100.0f + (float)i * 0.1f;
}

/* Sets the state after `step` steps; step 0: freshly opened, all zero. */
static void fill_state(struct rank_state *r, uint64_t step)
{
	r->worker.step.done = step;
	r->worker.step.lr = step ? 0.5f / (float)step : 0.01f;
	for (int i = 0; i < COUNT; i++) {
		r->residual[i] = step ? value_of(1, r->job.rank, i, step) : 0.0f;
		r->velocity[i] = step ? value_of(2, r->job.rank, i, step) : 0.0f;
		for (int s = 0; s < SHARDS; s++) {
			r->copy[s][i] = step ? value_of(3, s, i, step) : 0.0f;
			r->shard_residual[s][i] = step ? value_of(4, s, i, step) : 0.0f;
		}
	}
	for (uint32_t s = 0; s < r->model.n_own; s++)
		r->shards[s].version = step;
}

static void close_rank(struct rank_state *r)
{
	if (r->model.worker)
		on_device_close(r->model.worker);
}

static void open_rank(int rank, uint64_t step)
{
	struct rank_state *r = &world.ranks[rank];
	int owners = world.workers < world.size ? world.size - world.workers : world.size;
	int first = world.workers < world.size ? world.workers : 0;

	close_rank(r);
	memset(r, 0, sizeof *r);
	r->job = (sluice_job){
		.root = &r->job, .rank = rank, .size = world.size, .workers = world.workers
	};
	r->dir = world.dir;
	sluice_model *model = &r->model;
	model->job = &r->job;
	model->worker = &r->worker;
	worker_stand_on(model->worker, model);
	assert_int_equal(on_device_open(model->worker, NULL), 0);
	model->schema = 77;
	model->recipe.memory.kind = MEMORY_RESIDUAL;
	model->recipe.every.period = model->recipe.every.fragments = 1;
	model->recipe.update = UPDATE_SGD;
	snprintf(model->recipe_text, sizeof model->recipe_text, "up=topk(0.01)");
	model->layout = (struct layout){ .count = COUNT,
					 .size = world.size,
					 .workers = world.workers,
					 .n_shards = SHARDS,
					 .n_fragments = 1,
					 .shards = r->layout };
	model->shards = r->shards;
	for (uint32_t s = 0; s < SHARDS; s++) {
		r->layout[s].begin = COUNT * s / SHARDS;
		r->layout[s].span = (uint32_t)(COUNT * (s + 1) / SHARDS - r->layout[s].begin);
		if (first + (int)s % owners == rank)
			r->shards[model->n_own++] = (struct shard){
				.at = &r->layout[s],
				.id = s,
				.kept = { .count = r->layout[s].span,
					  .of = { [KEPT_SHARD_COPY] = r->copy[s],
						  [KEPT_SHARD_RESIDUAL] = r->shard_residual[s] } },
				.copy = r->copy[s]
			};
	}
	if (rank < world.workers) {
		model->worker->kept = (struct vectors){
			.count = COUNT,
			.of = { [KEPT_RESIDUAL] = r->residual, [KEPT_VELOCITY] = r->velocity }
		};
	}
	fill_state(r, step);
}

void open_job(int size, int workers, uint64_t step)
{
	world.size = size;
	world.workers = workers;
	for (int r = 0; r < size; r++)
		open_rank(r, step);
}

static void *rank_thread(void *argument)
{
	struct rank_state *r = self = argument;

	if (r->job.rank >= world.workers)
		r->code = checkpoint_serve(&r->model,
					   r->restore ? COLLECTIVE_RESTORE : COLLECTIVE_CHECKPOINT);
	else if (r->restore)
		r->code = sluice_restore(&r->model, r->dir, r->params, &r->step_out);
	else
		r->code = sluice_checkpoint(&r->model, r->dir);
	snprintf(r->error, sizeof r->error, "%s", sluice_last_error());
	return NULL;
}

void run_job(int restore)
{
	pthread_t threads[RANKS_MAX];

	pthread_barrier_init(&world.barrier, NULL, (unsigned)world.size);
	memset(world.published, 0, sizeof world.published);
	memset(world.published_version, 0xff, sizeof world.published_version);
	for (int r = 0; r < world.size; r++) {
		world.ranks[r].restore = restore;
		world.ranks[r].rounds = 0;
		assert_int_equal(pthread_create(&threads[r], NULL, rank_thread, &world.ranks[r]),
				 0);
	}
	for (int r = 0; r < world.size; r++)
		pthread_join(threads[r], NULL);
	pthread_barrier_destroy(&world.barrier);
}

void assert_all(int code, const char *text)
{
	for (int r = 0; r < world.size; r++) {
		assert_int_equal(world.ranks[r].rounds, world.ranks[0].rounds);
		if (r >= world.workers) {
			assert_int_equal(world.ranks[r].code, 0);
			continue;
		}
		if (world.ranks[r].code != code || (code && !strstr(world.ranks[r].error, text)))
			fail_msg("rank %d returned %d: %s", r, world.ranks[r].code,
				 world.ranks[r].error);
	}
}

void checkpoint_at(uint64_t step)
{
	open_job(world.size, world.workers, step);
	run_job(0);
	assert_all(0, "");
}

void assert_state(uint64_t step)
{
	for (int k = 0; k < world.size; k++) {
		struct rank_state *r = &world.ranks[k], *want = calloc(1, sizeof *want);
		want->job = r->job;
		fill_state(want, step);
		if (k < world.workers) {
			assert_memory_equal(r->residual, want->residual, sizeof want->residual);
			assert_memory_equal(r->velocity, want->velocity, sizeof want->velocity);
			assert_true(float_bits(r->worker.step.lr) ==
				    float_bits(want->worker.step.lr));
			assert_int_equal(r->worker.step.done, step);
		}
		for (uint32_t i = 0; i < r->model.n_own; i++) {
			struct shard *s = &r->shards[i];
			assert_memory_equal(s->copy, want->copy[s->id],
					    s->at->span * sizeof(float));
			assert_memory_equal(s->kept.of[KEPT_SHARD_RESIDUAL],
					    want->shard_residual[s->id],
					    s->at->span * sizeof(float));
			assert_int_equal(s->version, step);
		}
		free(want);
	}
}

void restore_gives(uint64_t step)
{
	open_job(world.size, world.workers, 0);
	run_job(1);
	assert_all(0, "");
	assert_state(step);
	for (int r = 0; r < world.workers; r++) {
		assert_int_equal(world.ranks[r].step_out, step);
		for (int s = 0; s < SHARDS; s++)
			for (uint32_t i = 0; i < world.ranks[0].layout[s].span; i++)
				assert_true(
					world.ranks[r].params[world.ranks[0].layout[s].begin + i] ==
					value_of(3, s, (int)i, step));
	}
}

int world_open(void **state)
{
	for (int r = 0; r < RANKS_MAX; r++)
		close_rank(&world.ranks[r]);
	memset(&world, 0, sizeof world);
	world.size = world.workers = RANKS_MAX;
	return scratch_make(world.dir);
}

int world_close(void **state)
{
	scratch_remove(world.dir);
	return 0;
}

void file_of(uint32_t rank, char path[DURABLE_PATH_BYTES])
{
	struct checkpoint_manifest m;
	struct checkpoint_place place = { 0 };

	assert_int_equal(checkpoint_manifest_read(world.dir, &m), 0);
	memcpy(place.dir, world.dir, sizeof world.dir);
	place.step = m.step;
	place.generation = m.generation;
	free(m.sums);
	checkpoint_path(&place, rank, path);
}
