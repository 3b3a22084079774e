/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_checkpoint() and sluice_restore() with every rank a thread. The collective, the token and
 * what a restore calls in the two halves of a model are replaced by the linker (--wrap) with small
 * fakes that behave; the rounds, folders and files are the real ones. */
#include "base/bytes.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_folder.h"
#include "shard/shard.h"
#include "worker/worker.h"
#include "scratch.h"
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* last: its fail() is a macro */

enum { COUNT = 40, SHARDS = 3, RANKS_MAX = 3 };

/* ---- fakes -------------------------------------------------------------------------------- */

struct rank_state {
	sluice_job job;
	sluice_model model;
	struct worker worker;
	struct shard shards[SHARDS];
	struct shard_layout layout[SHARDS];
	float residual[COUNT], velocity[COUNT], params[COUNT];
	float copy[SHARDS][COUNT], shard_residual[SHARDS][COUNT];
	int restore; /* what the thread calls: sluice_restore, else sluice_checkpoint */
	const char *dir;
	int code;
	char error[ERROR_TEXT_BYTES];
	uint64_t step_out;
	int fsync_error; /* this rank's disk */
	int rounds;
};

static struct {
	int size, workers;
	struct rank_state ranks[RANKS_MAX];
	pthread_barrier_t barrier;
	const uint8_t *mine[RANKS_MAX];
	uint32_t op[RANKS_MAX];
	size_t bytes[RANKS_MAX];
	float published[COUNT]; /* snapshots */
	uint64_t published_version[SHARDS];
	int lost_in_round; /* a peer is lost in this round; 0: never */
	char dir[SCRATCH_PATH];
} world;

static _Thread_local struct rank_state *self;

int __wrap_collective_run(sluice_job *job, enum collective op, const void *mine, size_t stride,
			  size_t bytes, void *all);
int __wrap_job_check(const sluice_job *job, const char *function);
int __wrap_job_fail(sluice_job *job, int code, int culprit, const char *format, ...);
int __wrap_job_failed(sluice_job *job);
const char *__wrap_rank_text(const sluice_job *job, int rank);
int __wrap_sluice_is_worker(const sluice_job *job);
void __wrap_progress_take(sluice_job *job);
void __wrap_progress_release(sluice_job *job);
void __wrap_worker_restart(sluice_model *model, uint64_t version);
void __wrap_shard_restart(sluice_model *model, struct shard *shard, uint64_t version);
int __wrap_shard_publish_snapshot(sluice_model *model, struct shard *shard);
int __wrap_model_read_snapshots(sluice_model *model, uint64_t version, float *params);
int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_collective_run(sluice_job *job, enum collective op, const void *mine, size_t stride,
			  size_t bytes, void *all)
{
	int rc = 0;

	if (++self->rounds == world.lost_in_round) {
		job->failure.code = SLUICE_EPEER;
		return fail_quietly(SLUICE_EPEER, "rank 9 is lost");
	}
	world.mine[job->rank] = mine;
	world.op[job->rank] = op;
	world.bytes[job->rank] = bytes;
	pthread_barrier_wait(&world.barrier);
	for (int r = 0; r < world.size; r++) {
		if (world.op[r] != op || world.bytes[r] != bytes || bytes > MAIL_BYTES)
			rc = fail_quietly(SLUICE_EINVAL, "collectives differ");
		else
			memcpy((uint8_t *)all + (size_t)r * bytes,
			       world.mine[r] + stride * (size_t)job->rank, bytes);
	}
	pthread_barrier_wait(&world.barrier);
	return rc;
}

int __wrap_job_check(const sluice_job *job, const char *function)
{
	(void)job;
	(void)function;
	return 0;
}

int __wrap_job_fail(sluice_job *job, int code, int culprit, const char *format, ...)
{
	(void)culprit;
	(void)format;
	return job->failure.code = code;
}

int __wrap_job_failed(sluice_job *job)
{
	return job->failure.code;
}

const char *__wrap_rank_text(const sluice_job *job, int rank)
{
	static _Thread_local char text[4][32];
	static _Thread_local unsigned next;

	(void)job;
	snprintf(text[++next % 4], sizeof text[0], "rank %d (node n%d)", rank, rank);
	return text[next % 4];
}

int __wrap_sluice_is_worker(const sluice_job *job)
{
	return job->rank < job->workers;
}

void __wrap_progress_take(sluice_job *job)
{
	pthread_mutex_lock(&job->token);
}

void __wrap_progress_release(sluice_job *job)
{
	pthread_mutex_unlock(&job->token);
}

void __wrap_worker_restart(sluice_model *model, uint64_t version)
{
	model->worker->step = model->step = version;
}

void __wrap_shard_restart(sluice_model *model, struct shard *shard, uint64_t version)
{
	(void)model;
	shard->version = version;
}

int __wrap_shard_publish_snapshot(sluice_model *model, struct shard *shard)
{
	(void)model;
	memcpy(world.published + shard->at->begin, shard->copy, shard->at->span * sizeof(float));
	world.published_version[shard->id] = shard->version;
	return 0;
}

int __wrap_model_read_snapshots(sluice_model *model, uint64_t version, float *params)
{
	(void)model;
	for (int s = 0; s < SHARDS; s++)
		if (world.published_version[s] != version)
			return fail_quietly(SLUICE_EWIRE, "the snapshot of shard %d is not there",
					    s);
	memcpy(params, world.published, sizeof world.published);
	return 0;
}

int __wrap_fsync(int fd)
{
	if (self && self->fsync_error) {
		errno = self->fsync_error;
		return -1;
	}
	return __real_fsync(fd);
}

/* ---- a job -------------------------------------------------------------------------------- */

static float value_of(int kind, int rank, int i, uint64_t step)
{
	return (float)step + (float)kind * 0.25f + (float)rank * 100.0f + (float)i * 0.1f;
}

/* The state after `step` steps; step 0: freshly opened, all zero. */
static void fill(struct rank_state *r, uint64_t step)
{
	r->model.step = step;
	r->model.lr = step ? 0.5f / (float)step : 0.01f;
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

static void open_rank(int rank, uint64_t step)
{
	struct rank_state *r = &world.ranks[rank];
	int owners = world.workers < world.size ? world.size - world.workers : world.size;
	int first = world.workers < world.size ? world.workers : 0;

	memset(r, 0, sizeof *r);
	r->job = (sluice_job){ .rank = rank, .size = world.size, .workers = world.workers };
	pthread_mutex_init(&r->job.token, NULL);
	r->dir = world.dir;
	sluice_model *model = &r->model;
	model->job = &r->job;
	model->worker = &r->worker;
	model->schema = 77;
	model->recipe.memory = MEMORY_RESIDUAL;
	model->recipe.period = 1;
	model->recipe.update = UPDATE_SGD;
	snprintf(model->recipe_text, sizeof model->recipe_text, "up=topk(0.01)");
	model->layout = (struct layout){ .count = COUNT,
					 .size = world.size,
					 .workers = world.workers,
					 .n_shards = SHARDS,
					 .shards = r->layout };
	model->shards = r->shards;
	for (uint32_t s = 0; s < SHARDS; s++) {
		r->layout[s].begin = COUNT * s / SHARDS;
		r->layout[s].span = (uint32_t)(COUNT * (s + 1) / SHARDS - r->layout[s].begin);
		r->layout[s].owner = first + (int)s * owners / SHARDS;
		if (r->layout[s].owner == rank)
			r->shards[model->n_own++] =
				(struct shard){ .at = &r->layout[s],
						.id = s,
						.copy = r->copy[s],
						.residual = r->shard_residual[s] };
	}
	if (rank < world.workers) {
		model->worker->residual = r->residual;
		model->worker->velocity = r->velocity;
	}
	fill(r, step);
}

static void open_job(int size, int workers, uint64_t step)
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

static void run_job(int restore)
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

/* All workers return the code; each text holds this. Servers go on unless the job failed. */
static void assert_all(int code, const char *text)
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

static void checkpoint_at(uint64_t step)
{
	open_job(world.size, world.workers, step);
	run_job(0);
	assert_all(0, "");
}

/* Every rank has exactly the state of that step. */
static void assert_state(uint64_t step)
{
	for (int k = 0; k < world.size; k++) {
		struct rank_state *r = &world.ranks[k], *want = calloc(1, sizeof *want);
		want->job = r->job;
		fill(want, step);
		if (k < world.workers) {
			assert_memory_equal(r->residual, want->residual, sizeof want->residual);
			assert_memory_equal(r->velocity, want->velocity, sizeof want->velocity);
			assert_true(float_bits(r->model.lr) == float_bits(want->model.lr));
			assert_int_equal(r->model.step, step);
		}
		for (uint32_t i = 0; i < r->model.n_own; i++) {
			struct shard *s = &r->shards[i];
			assert_memory_equal(s->copy, want->copy[s->id],
					    s->at->span * sizeof(float));
			assert_memory_equal(s->residual, want->shard_residual[s->id],
					    s->at->span * sizeof(float));
			assert_int_equal(s->version, step);
		}
		free(want);
	}
}

static void restore_gives(uint64_t step)
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

/* A restore that is refused before anything is stored. */
static void restore_refused(int code, const char *text)
{
	run_job(1);
	assert_all(code, text);
	assert_state(0);
}

static int setup(void **state)
{
	(void)state;
	memset(&world, 0, sizeof world);
	world.size = world.workers = RANKS_MAX;
	return scratch_make(world.dir);
}

static int teardown(void **state)
{
	(void)state;
	scratch_remove(world.dir);
	return 0;
}

/* A rank's file of the only generation. */
static void file_of(uint32_t rank, char path[DURABLE_PATH_BYTES])
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

/* ---- tests -------------------------------------------------------------------------------- */

static void colocated__checkpoint_and_restore_bit_by_bit(void **state)
{
	(void)state;
	checkpoint_at(12);
	restore_gives(12);
	checkpoint_at(13);
	struct scratch_count c = scratch_count(world.dir);
	assert_int_equal(c.folders, 1);
	assert_int_equal(c.files, 1 + RANKS_MAX);
	restore_gives(13);
}

static void dedicated_server__takes_part_in_both(void **state)
{
	(void)state;
	world.workers = 2;
	checkpoint_at(12);
	restore_gives(12);
}

static void one_rank__works_alone(void **state)
{
	(void)state;
	world.size = world.workers = 1;
	checkpoint_at(3);
	restore_gives(3);
}

static void memory_none__residual_is_not_saved(void **state)
{
	(void)state;
	world.size = world.workers = 1;
	checkpoint_at(3);
	char path[DURABLE_PATH_BYTES];
	struct stat with, without;
	file_of(0, path);
	assert_int_equal(stat(path, &with), 0);
	open_job(1, 1, 4);
	world.ranks[0].model.recipe.memory = MEMORY_NONE;
	run_job(0);
	assert_all(0, "");
	file_of(0, path);
	assert_int_equal(stat(path, &without), 0);
	assert_int_equal(with.st_size - without.st_size, CHECKPOINT_SECTION_BYTES + 4 * COUNT);
}

static void one_disk_full__all_ranks_EIO_and_the_old_checkpoint_stays(void **state)
{
	(void)state;
	for (int bad = 0; bad < RANKS_MAX; bad++) {
		char who[64];
		world.workers = 2; /* rank 2 serves */
		checkpoint_at(12);
		open_job(RANKS_MAX, 2, 13);
		world.ranks[bad].fsync_error = ENOSPC;
		run_job(0);
		assert_all(SLUICE_EIO, "ENOSPC");
		snprintf(who, sizeof who, "rank %d (node n%d): ", bad, bad);
		for (int r = 0; r < 2; r++)
			assert_true(!strncmp(world.ranks[r].error, who, strlen(who)) == (r != bad));
		assert_int_equal(scratch_count(world.dir).partial, 0);
		assert_int_equal(scratch_count(world.dir).files, 1 + RANKS_MAX);
		assert_int_equal(world.ranks[0].job.failure.code, 0);
		restore_gives(12);
	}
}

static void diverged__ENUMERIC_on_all_ranks(void **state)
{
	(void)state;
	checkpoint_at(12);
	open_job(RANKS_MAX, RANKS_MAX, 13);
	world.ranks[1].residual[7] = NAN;
	run_job(0);
	assert_all(SLUICE_ENUMERIC, "index 7 of the worker's residual");
	restore_gives(12);
}

static void inside_a_step__EINVAL_on_all_ranks(void **state)
{
	(void)state;
	open_job(RANKS_MAX, RANKS_MAX, 13);
	world.ranks[2].model.worker->in_step = 1;
	run_job(0);
	assert_all(SLUICE_EINVAL, "not pulled yet");
	assert_int_equal(scratch_count(world.dir).folders, 0);
}

static void different_steps__EINVAL_naming_both(void **state)
{
	(void)state;
	open_job(RANKS_MAX, RANKS_MAX, 13);
	world.ranks[2].model.step = 14;
	run_job(0);
	assert_all(SLUICE_EINVAL, "rank 0 (node n0) is at step 13, rank 2 (node n2) at step 14");
	assert_int_equal(scratch_count(world.dir).folders, 0);
}

static void different_or_missing_directories__EINVAL(void **state)
{
	const char *dirs[] = { "/elsewhere", "", NULL };

	(void)state;
	for (int restore = 0; restore < 2; restore++) {
		for (int r = 0; r < RANKS_MAX; r++) {
			for (size_t i = restore ? 1 : 0; i < 3; i++) {
				if (r == 0 && i == 0)
					continue;
				checkpoint_at(12);
				open_job(RANKS_MAX, RANKS_MAX, restore ? 0 : 13);
				world.ranks[r].dir = dirs[i];
				run_job(restore);
				assert_all(SLUICE_EINVAL, "director");
				assert_int_equal(scratch_count(world.dir).folders, 1);
			}
		}
	}
}

static void different_models__EINVAL(void **state)
{
	(void)state;
	open_job(RANKS_MAX, RANKS_MAX, 13);
	world.ranks[1].model.id = 3;
	run_job(0);
	assert_all(SLUICE_EINVAL, "for model 3");
}

static void directory_that_cannot_be_made__EIO_on_all_ranks(void **state)
{
	char path[SCRATCH_PATH + 16];

	(void)state;
	snprintf(path, sizeof path, "%s/file", world.dir);
	assert_int_equal(scratch_write(path, "x", 1), 0);
	open_job(RANKS_MAX, RANKS_MAX, 13);
	for (int r = 0; r < RANKS_MAX; r++)
		world.ranks[r].dir = path;
	run_job(0);
	assert_all(SLUICE_EIO, "ENOTDIR");
}

static void peer_lost_in_any_round__old_or_new_stays(void **state)
{
	(void)state;
	for (int round = 1; round <= 3; round++) {
		world.size = 1; /* the barrier would wait for a rank that has left */
		world.workers = 1;
		checkpoint_at(12);
		open_job(1, 1, 13);
		world.lost_in_round = round;
		run_job(0);
		world.lost_in_round = 0;
		assert_int_equal(world.ranks[0].code, SLUICE_EPEER);
		restore_gives(round == 3 ? 13 : 12);
		checkpoint_at(14); /* and clears up */
		assert_int_equal(scratch_count(world.dir).folders, 1);
	}
}

static void server_after_a_lost_peer__stops_serving(void **state)
{
	(void)state;
	open_job(1, 0, 13);
	world.lost_in_round = 1;
	run_job(0);
	world.lost_in_round = 0;
	assert_int_equal(world.ranks[0].code, SLUICE_EPEER);
}

static void restore_without_a_checkpoint__EIO_on_all_ranks(void **state)
{
	(void)state;
	open_job(RANKS_MAX, RANKS_MAX, 0);
	restore_refused(SLUICE_EIO, "no checkpoint in");
}

static void restore_of_a_damaged_file__EWIRE_on_all_ranks_nothing_stored(void **state)
{
	char path[DURABLE_PATH_BYTES];
	uint8_t bytes[SCRATCH_FILE];

	(void)state;
	for (uint32_t bad = 0; bad < RANKS_MAX; bad++) {
		world.workers = 2;
		checkpoint_at(12);
		file_of(bad, path);
		long n = scratch_read(path, bytes);
		bytes[n - 20] ^= 1;
		assert_int_equal(scratch_write(path, bytes, (size_t)n), 0);
		open_job(RANKS_MAX, 2, 0);
		restore_refused(SLUICE_EWIRE, path);
	}
}

static void restore_with_a_missing_file__EIO_on_all_ranks(void **state)
{
	char path[DURABLE_PATH_BYTES];

	(void)state;
	checkpoint_at(12);
	file_of(1, path);
	assert_int_equal(unlink(path), 0);
	open_job(RANKS_MAX, RANKS_MAX, 0);
	restore_refused(SLUICE_EIO, "ENOENT");
}

static void restore_into_another_job_or_model__EINVAL_naming_both(void **state)
{
	(void)state;
	checkpoint_at(12);
	open_job(2, 2, 0);
	restore_refused(SLUICE_EINVAL, "made by 3 ranks, this job has 2");
	open_job(RANKS_MAX, 2, 0); /* a server instead of a worker */
	restore_refused(SLUICE_EINVAL, "3 workers, this job has 2");
	open_job(RANKS_MAX, RANKS_MAX, 0);
	for (int r = 0; r < RANKS_MAX; r++) {
		snprintf(world.ranks[r].model.recipe_text, RECIPE_TEXT_BYTES, "up=all");
		world.ranks[r].model.schema = 78;
	}
	restore_refused(SLUICE_EINVAL, "\"up=topk(0.01)\", this model has \"up=all\"");
}

static void restore_after_steps__EINVAL(void **state)
{
	(void)state;
	checkpoint_at(12);
	run_job(1);
	assert_all(SLUICE_EINVAL, "steps already");
	assert_state(12);
}

static void on_a_server_or_NULL__EINVAL_at_once(void **state)
{
	(void)state;
	open_job(2, 1, 0);
	self = &world.ranks[1];
	assert_int_equal(sluice_checkpoint(&world.ranks[1].model, world.dir), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "sluice_serve"));
	assert_int_equal(sluice_restore(NULL, world.dir, NULL, NULL), SLUICE_EINVAL);
	assert_int_equal(world.ranks[1].rounds, 0);
	self = NULL;
}

static void quiet(int level, const char *line, void *context)
{
	(void)level;
	(void)line;
	(void)context;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(colocated__checkpoint_and_restore_bit_by_bit),
		CASE(dedicated_server__takes_part_in_both),
		CASE(one_rank__works_alone),
		CASE(memory_none__residual_is_not_saved),
		CASE(one_disk_full__all_ranks_EIO_and_the_old_checkpoint_stays),
		CASE(diverged__ENUMERIC_on_all_ranks),
		CASE(inside_a_step__EINVAL_on_all_ranks),
		CASE(different_steps__EINVAL_naming_both),
		CASE(different_or_missing_directories__EINVAL),
		CASE(different_models__EINVAL),
		CASE(directory_that_cannot_be_made__EIO_on_all_ranks),
		CASE(peer_lost_in_any_round__old_or_new_stays),
		CASE(server_after_a_lost_peer__stops_serving),
		CASE(restore_without_a_checkpoint__EIO_on_all_ranks),
		CASE(restore_of_a_damaged_file__EWIRE_on_all_ranks_nothing_stored),
		CASE(restore_with_a_missing_file__EIO_on_all_ranks),
		CASE(restore_into_another_job_or_model__EINVAL_naming_both),
		CASE(restore_after_steps__EINVAL),
		CASE(on_a_server_or_NULL__EINVAL_at_once),
	};

	sluice_set_log(quiet, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
