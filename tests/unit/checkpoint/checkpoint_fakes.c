/* SPDX-License-Identifier: BSD-3-Clause
 * The fakes that the linker puts in place of the runtime below checkpoint.c: see
 * checkpoint_ranks.h. */
#include "checkpoint_ranks.h"
#include "base/error.h"
#include "job/progress_token.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

int __wrap_collective_run_about(sluice_job *job, enum collective op, struct about about,
				const void *mine, size_t stride, size_t bytes, void *all);
int __wrap_job_check(const sluice_job *job, const char *function);
int __wrap_job_fail(sluice_job *job, int code, int culprit, const char *format, ...);
int __wrap_job_failed(sluice_job *job);
const char *__wrap_rank_text(const sluice_job *job, int rank);
int __wrap_sluice_is_worker(const sluice_job *job);
void __wrap_progress_take(sluice_job *job);
void __wrap_progress_release(sluice_job *job);
void __wrap_progress_poll(sluice_job *job);
void __wrap_worker_restart(struct worker *w, uint64_t version);
void __wrap_shard_restart(struct shard *shard, uint64_t exchanges, uint64_t version);
int __wrap_shard_publish_snapshot(struct shard *shard, uint64_t flags);
int __wrap_model_read_snapshots(sluice_model *model, uint64_t version, float *params,
				uint64_t *versions);
int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_collective_run_about(sluice_job *job, enum collective op, struct about about,
				const void *mine, size_t stride, size_t bytes, void *all)
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
		if (world.op[r] != op || world.bytes[r] != bytes || bytes > COLLECTIVE_BYTES)
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
	return 0;
}

int __wrap_job_fail(sluice_job *job, int code, int culprit, const char *format, ...)
{
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

	snprintf(text[++next % 4], sizeof text[0], "rank %d (node n%d)", rank, rank);
	return text[next % 4];
}

int __wrap_sluice_is_worker(const sluice_job *job)
{
	return job->rank < job->workers;
}

void __wrap_progress_take(sluice_job *job)
{
	progress_lock(job);
}

void __wrap_progress_release(sluice_job *job)
{
	progress_unlock(job);
}

void __wrap_progress_poll(sluice_job *job)
{
}

void __wrap_worker_restart(struct worker *w, uint64_t version)
{
	w->step.number = w->step.done = version;
}

void __wrap_shard_restart(struct shard *shard, uint64_t exchanges, uint64_t version)
{
	shard->version = version;
}

int __wrap_shard_publish_snapshot(struct shard *shard, uint64_t flags)
{
	memcpy(world.published + shard->at->begin, shard->copy, shard->at->span * sizeof(float));
	world.published_version[shard->id] = shard->version;
	return 0;
}

int __wrap_model_read_snapshots(sluice_model *model, uint64_t version, float *params,
				uint64_t *versions)
{
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
