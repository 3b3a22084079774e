/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_checkpoint() and sluice_restore(): the order in which all ranks work. A failure with a
 * file fails the call on every rank, but not the job. checkpoint_contents.c lists the state that a
 * rank saves, checkpoint_rounds.c lets ranks agree, checkpoint_folder.c handles the directories,
 * and checkpoint_file.c the files. */
#include "checkpoint/checkpoint.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/checkpoint_contents.h"
#include "checkpoint/checkpoint_rounds.h"
#include "model/census.h"
#include "shard/publish.h"
#include "shard/shard_device.h"
#include "shard/shard_setup.h"
#include "shard/state.h"
#include "worker/local.h"
#include "sluice_vector.h"
#include "worker/hooks.h"
#include "job/living.h"
#include "job/progress_token.h"
#include "model/model.h"
#include "worker/compressor_ops.h"
#include "worker/lane.h"
#include "worker/pull.h"
#include "worker/state.h"
#include "worker/target.h"
#include "worker/worker_setup.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

static struct checkpoint_identity identity_of(const struct meeting *m)
{
	const sluice_model *model = m->model;
	const sluice_job *job = model->job;
	return (struct checkpoint_identity){ .rank = (uint32_t)job->rank,
					     .size = (uint32_t)job->size,
					     .workers = (uint32_t)job->workers,
					     .shards = model->layout.n_shards,
					     .count = model->layout.count,
					     .step = m->place.step,
					     .schema = model->schema,
					     .generation = m->place.generation,
					     .recipe = model->recipe_text };
}

/* Checks that every shard has published the step that the workers have completed. The workers have
 * already agreed that they are between two steps. */
static int check_versions(const struct contents *c, const struct meeting *m)
{
	for (uint32_t i = 0; i < m->model->n_own; i++) {
		const struct shard *shard = &m->model->shards[i];

		if (contents_fits(m->model, shard->id, c->numbers[1 + i], m->place.step))
			return fail(SLUICE_EWIRE,
				    "shard %u is at version %llu, but the checkpoint is at step "
				    "%llu",
				    shard->id, (unsigned long long)c->numbers[1 + i],
				    (unsigned long long)m->place.step);
	}
	return 0;
}

/* ---- checkpoint ------------------------------------------------------------ */

/* Copies the kept vectors that are on GPUs to the host's vectors. *own becomes the worker's own
 * parameters, which own_return() must free after a success. */
static int fetch_kept(sluice_model *model, const char *function, float **own)
{
	int rc = worker_fetch(model->worker);

	*own = NULL;
	if (!rc)
		rc = shard_devices_fetch(model);
	if (!rc && sluice_is_worker(model->job))
		rc = own_borrow(model->worker, function, own);
	return rc;
}

static int write_file(struct meeting *m, const struct checkpoint_identity *identity,
		      const struct contents *contents)
{
	char path[DURABLE_PATH_BYTES];

	checkpoint_path(&m->place, identity->rank, path);
	return checkpoint_file_write(path, identity, contents->sections, contents->n, &m->mine.sum);
}

static int write_bytes(const struct checkpoint_identity *identity, const struct contents *contents,
		       const char *function, uint8_t *state, size_t bytes)
{
	const uint64_t need = checkpoint_bytes_size(identity->recipe, contents->sections,
						    contents->n);

	if (bytes != need)
		return fail(SLUICE_EINVAL,
			    "%s: bytes=%zu, but the state has %llu: see sluice_state_size",
			    function, bytes, (unsigned long long)need);
	return checkpoint_bytes_write(state, identity, contents->sections, contents->n);
}

/* Writes what this rank saves to the program's memory, or to this rank's file if state is NULL. For
 * a file, the shards are idle until the call returns on every worker, so their vectors are read
 * without the token, and heartbeats continue during disk writes. For memory, other ranks' next
 * pushes may already have arrived, so the token is held. They change none of these vectors before
 * this rank pushes, too. */
static int write_own(struct meeting *m, const char *function, uint8_t *state, size_t bytes)
{
	const struct checkpoint_identity identity = identity_of(m);
	struct contents contents;
	float *own;
	int rc = fetch_kept(m->model, function, &own);

	m->mine.sum = (struct checkpoint_sum){ 0 };
	if (rc)
		return rc;
	progress_take(m->model->job);
	rc = contents_of(m->model, own, &contents);
	if (!state)
		progress_release(m->model->job);
	if (!rc) {
		rc = check_versions(&contents, m);
		if (!rc)
			rc = state ? write_bytes(&identity, &contents, function, state, bytes) :
				     write_file(m, &identity, &contents);
		contents_free(&contents);
	}
	if (state)
		progress_release(m->model->job);
	own_return(m->model->worker, own);
	return rc;
}

/* Returns 0 if this rank is still the leader. If a leader was stopped, the others drop it, and may
 * already have completed a newer checkpoint. */
static int still_leads(void *context)
{
	sluice_job *job = context;
	progress_take(job);
	progress_poll(job);
	int rc = job_failed(job);
	progress_release(job);
	return rc;
}

/* On the leader: makes the generation the valid one. It has no file of a rank that sent no
 * message. */
static int name_latest(struct meeting *m)
{
	uint32_t size = (uint32_t)m->model->job->size;
	struct checkpoint_manifest manifest = { .step = m->place.step,
						.generation = m->place.generation,
						.ranks = size,
						.sums = calloc(size, sizeof *manifest.sums) };
	if (!manifest.sums)
		return fail(SLUICE_ENOMEM, "no memory for the list of a checkpoint's files");
	for (uint32_t r = 0; r < size; r++) {
		struct word w;
		meeting_heard(m, (int)r, &w);
		manifest.sums[r] = w.sum;
	}
	int rc = checkpoint_manifest_write(m->place.dir, &manifest, still_leads, m->model->job);
	free(manifest.sums);
	return rc;
}

/* A checkpoint replaces that of another model or job in the same directory. */
static int check_own_dir(const sluice_model *model, const struct checkpoint_place *place)
{
	const char *dir = place->dir;
	struct checkpoint_place last = *place;
	const struct clients *clients = &model->job->clients;
	const uint64_t digest = digest64(dir, strlen(dir));

	for (uint32_t i = 0; i < clients_models_end(clients); i++) {
		const sluice_model *other = clients_model(clients, i);

		if (other && other != model && other->saved.directory == digest)
			return fail(SLUICE_EINVAL,
				    "%s has a checkpoint of model %u, which is still open, and one "
				    "of model %u would replace it: give each model its own "
				    "directory",
				    dir, other->id, model->id);
	}
	last.step = model->saved.step;
	last.generation = model->saved.generation;
	if (model->saved.directory == digest && last.generation && checkpoint_replaced(&last))
		return fail(SLUICE_EIO,
			    "another job's checkpoint has replaced that of step %llu in %s: give "
			    "each job its own directory, or remove LATEST if files were copied",
			    (unsigned long long)last.step, dir);
	return 0;
}

/* Makes the directories, on the leader, before the first round. */
static int begin_on_leader(struct meeting *m, const char *dir, int *begun_out)
{
	int rc = checkpoint_dir(dir, 1, m->place.dir);
	m->place.step = m->model->worker->step.done;
	/* Another rank leads only when rank 0 is lost, which may be stopped with the lock. */
	if (!rc && m->model->job->rank == 0)
		rc = checkpoint_lock(m->place.dir, &m->lock);
	if (!rc)
		rc = check_own_dir(m->model, &m->place);
	if (!rc)
		rc = checkpoint_begin(&m->place);
	*begun_out = !rc;
	m->mine.generation = m->place.generation;
	memcpy(m->mine.text, m->place.dir, sizeof m->place.dir);
	return rc;
}

/* Checks that this rank is between two steps, where it can save. */
static int check_between_steps(const sluice_model *model, const char *function)
{
	const int rc = model_whole(model, function);

	if (rc || !sluice_is_worker(model->job))
		return rc;
	if (model->worker->step.state)
		return fail(SLUICE_EINVAL, "%s: the last push was not pulled yet", function);
	if (!local_can_save(model->worker))
		return fail(SLUICE_EINVAL,
			    "%s: the workers hold different parameters, but only common ones can "
			    "be saved: with when=every(P), save after a multiple of P steps; with "
			    "up=block it cannot be done",
			    function);
	return 0;
}

static int save_in_rounds(struct meeting *m, const char *dir)
{
	sluice_model *model = m->model;
	int rank = model->job->rank, begun = 0, rc, again, namer;
	m->mine.step = model->worker->step.done;
	m->mine.digest = dir ? digest64(dir, strlen(dir)) : 0;
	m->mine.status = check_between_steps(model, "sluice_checkpoint");
	do {
		if (rank == m->leader && !begun && !m->mine.status)
			m->mine.status = begin_on_leader(m, dir, &begun);
		rc = meeting_agree(m, "sluice_checkpoint", &again);
	} while (!rc && again);
	if (!rc) {
		m->mine.status = write_own(m, "sluice_checkpoint", NULL, 0);
		rc = meeting_judge(m);
	}
	if (!rc) {
		struct checkpoint_others *others = NULL;
		model->saved.generation = 0;
		do { /* repeats if the leader was lost before it reported that the checkpoint is
			complete */
			namer = m->leader;
			if (rank == namer) {
				others = checkpoint_others(&m->place);
				m->mine.status = name_latest(m);
			}
			rc = meeting_judge(m);
		} while (!rc && namer != m->leader);
		checkpoint_clean(&m->place, &others, !rc);
	}
	/* If no peer was lost, no rank can still be writing. */
	if (rc && begun && !m->lost)
		checkpoint_drop(&m->place);
	return rc;
}

static int save(sluice_model *model, const char *dir)
{
	struct meeting *m = NULL;
	int rc = pull_settle(model->worker); /* only with the exchange under way does each shard
						have its version */
	if (!rc)
		rc = meeting_open(model, COLLECTIVE_CHECKPOINT, &m);
	if (!rc)
		rc = save_in_rounds(m, dir);
	if (!rc) {
		model->saved.directory = digest64(m->place.dir, strlen(m->place.dir));
		model->saved.step = m->place.step;
		model->saved.generation = m->place.generation;
		log_line(LOG_INFO, "runtime", "checkpoint of step %llu is complete in %s",
			 (unsigned long long)m->place.step, m->place.dir);
	}
	meeting_close(&m);
	return rc;
}

/* ---- restore --------------------------------------------------------------- */

/* Reads LATEST on rank 0 before the first round, because rank 0 is the leader unless it is lost.
 * *sums_out receives the size and CRC of each rank's file. */
static int find_latest(struct meeting *m, const char *dir, struct checkpoint_sum **sums_out)
{
	const sluice_job *job = m->model->job;
	struct checkpoint_manifest manifest = { 0 };
	int rc = checkpoint_dir(dir, 0, m->mine.text);
	if (!rc)
		rc = checkpoint_manifest_read(m->mine.text, &manifest);
	if (rc)
		return rc;
	*sums_out = manifest.sums;
	m->mine.step = manifest.step;
	m->mine.generation = manifest.generation;
	if (manifest.ranks != (uint32_t)job->size)
		return fail(SLUICE_EINVAL,
			    "the checkpoint in %s was made by %u ranks, but this job has %d: start "
			    "that many ranks (srun -n%u)",
			    dir, manifest.ranks, job->size, manifest.ranks);
	return 0;
}

/* Refuses the step of a checkpoint that no job can reach. */
static int check_step(const struct meeting *m)
{
	if (m->place.step > STEPS_MOST)
		return fail(
			SLUICE_EWIRE,
			"the checkpoint in %s is of step %llu, more than any job can make: LATEST "
			"is damaged; restore from another copy",
			m->place.dir, (unsigned long long)m->place.step);
	return 0;
}

/* Called when the file is known to be of this model's recipe. A checkpoint of another recipe may
 * rightly be of a step within a period of this one. */
static int check_contents(const struct meeting *m, const struct contents *contents,
			  const struct checkpoint_file *file)
{
	const uint32_t period = m->model->recipe.every.period;

	if (m->place.step % period && !recipe_drifts(&m->model->recipe))
		return fail(SLUICE_EWIRE,
			    "the checkpoint in %s is of step %llu, which is not a multiple of %u "
			    "steps (when=every): LATEST is damaged; restore from another copy",
			    m->place.dir, (unsigned long long)m->place.step, period);
	return contents_check(m->model, contents, m->place.step, file);
}

static int open_own_file(struct meeting *m, const struct checkpoint_sum *sum,
			 struct contents *contents, struct checkpoint_file **file)
{
	char path[DURABLE_PATH_BYTES];
	struct checkpoint_identity identity = identity_of(m);
	*file = NULL;
	if (!sum->bytes && sluice_is_worker(m->model->job)) {
		log_line(LOG_WARN, "runtime",
			 "the checkpoint in %s was made without this rank, which was lost at that "
			 "time: this rank begins with an empty residual",
			 m->place.dir);
		return 0;
	}
	checkpoint_path(&m->place, identity.rank, path);
	int rc = checkpoint_file_open(path, &identity, contents->sections, contents->n, sum, file);
	return rc ? rc : check_contents(m, contents, *file);
}

/* A worker without a file takes the learning rate from a worker with a file, because all workers
 * must train at the same rate. */
enum { HAS_RATE = 1 };

static void say_rate(struct meeting *m, const struct checkpoint_file *file)
{
	m->mine.digest = file && sluice_is_worker(m->model->job) ?
				 (uint64_t)HAS_RATE << 32 | float_bits(m->model->worker->step.lr) :
				 0;
}

static void hear_rate(struct meeting *m)
{
	for (int r = 0; r < m->model->job->workers; r++) {
		struct word w;
		meeting_heard(m, r, &w);
		float lr = bits_float((uint32_t)w.digest);
		if (w.digest >> 32 == HAS_RATE && isfinite(lr) && lr >= 0) {
			step_set_rate(&m->model->worker->step, lr);
			return;
		}
	}
}

/* No message is under way and no rank waits for one, so only the scalars need the token. Vectors
 * are filled without it, so that heartbeats continue during disk reads. */
static int load_state(struct meeting *m, const struct contents *contents,
		      struct checkpoint_file *file)
{
	sluice_model *model = m->model;
	sluice_job *job = model->job;
	progress_take(job);
	if (sluice_is_worker(job))
		worker_restart(model->worker, m->place.step);
	step_resume(&model->worker->step, m->place.step);
	for (uint32_t i = 0; i < model->n_own; i++) {
		const uint64_t exchanges = model_version(model, model->shards[i].id, m->place.step);

		shard_restart(&model->shards[i], exchanges,
			      file ? contents->numbers[1 + i] : exchanges);
	}
	if (file)
		contents_restore_numbers(model, contents);
	progress_release(job);
	int rc = file ? checkpoint_file_load(file) : 0;
	if (!rc && file)
		contents_restore_window(model, contents);
	for (uint32_t i = 0; i < model->n_own && !rc; i++) {
		progress_take(job);
		rc = shard_publish_snapshot(&model->shards[i], 0);
		progress_release(job);
	}
	return rc;
}

/* Reads the common parameters. With quorum=, also learns how many exchanges each shard has
 * closed. */
static int read_common(const struct meeting *m, float *common)
{
	sluice_model *model = m->model;
	uint64_t *versions = NULL;
	int rc;

	if (!model->recipe.quorum.workers)
		return model_read_snapshots(model, m->place.step, common, NULL);
	versions = calloc(model->layout.n_shards, sizeof(*versions));
	if (!versions)
		return fail(SLUICE_ENOMEM, "no memory for the versions of %u shards",
			    model->layout.n_shards);
	rc = model_read_snapshots(model, m->place.step, common, versions);
	progress_take(model->job);
	if (!rc)
		lanes_resume(model->worker->lanes, versions);
	progress_release(model->job);
	free(versions);
	return rc;
}

/* Reads the newest common parameters in place of those that the worker had when it saved. If it had
 * missed exchanges, its own parameters move with them, so that its drift stays what it was. */
static int catch_up(const struct meeting *m, float *common, float *params)
{
	const uint64_t count = m->model->layout.count;
	float *before = vector_open(count);
	int rc;

	if (!before)
		return fail(SLUICE_ENOMEM, "no memory for %llu parameters of a checkpoint",
			    (unsigned long long)count);
	memcpy(before, common, count * sizeof(*before));
	rc = read_common(m, common);
	for (uint64_t i = 0; i < count && !rc; i++)
		if (float_bits(common[i]) != float_bits(before[i]))
			params[i] += common[i] - before[i];
	vector_close(before, count);
	return rc;
}

/* Loads the state. Called when every rank's file was found to be valid. */
static int load_all(struct meeting *m, const struct contents *contents,
		    struct checkpoint_file *file, float *params)
{
	m->mine.status = load_state(m, contents, file);
	say_rate(m, file);
	int rc = meeting_judge(m); /* after this round, all snapshots exist */
	if (rc)
		return rc;
	if (!file)
		hear_rate(m);
	/* With signal=drift, params are the worker's own parameters, whose values came from the
	 * file. */
	const int drifts = recipe_drifts(&m->model->recipe) && sluice_is_worker(m->model->job);
	float *common = drifts ? local_base(m->model->worker->local) : params;
	/* With update=none, the shards publish means, and the parameters belong to the
	 * application. */
	if (sluice_is_worker(m->model->job) && !recipe_pulls_mean(&m->model->recipe))
		m->mine.status = drifts && file && m->model->recipe.quorum.workers ?
					 catch_up(m, common, params) :
					 read_common(m, common);
	if (!m->mine.status && file) /* the file had the worker's vectors */
		hooks_begin(m->model->worker, common);
	else if (!m->mine.status)
		worker_begin(m->model->worker, common);
	if (!m->mine.status && !file && drifts)
		memcpy(params, common, m->model->layout.count * sizeof(*params));
	return meeting_judge(m); /* after this round, all ranks have read the snapshots */
}

/* From here on, a failure on any rank leaves all ranks with a part of the checkpoint. */
static int load_in_rounds(struct meeting *m, const struct contents *contents,
			  struct checkpoint_file *file, float *params)
{
	char text[ERROR_TEXT_BYTES];
	m->model->half_restored = 1;
	int rc = load_all(m, contents, file, params);
	m->model->half_restored = rc != 0;
	if (!rc || m->lost)
		return rc;
	snprintf(text, sizeof text, "%s", sluice_last_error());
	return fail_quietly(rc, "%s; the model now has only a part of the checkpoint: close it",
			    text);
}

/* Loads the opened checkpoint, unless a rank could not open its part. The caller has set
 * m->mine.status to 0 or to this rank's error. Always closes the file and frees the contents. */
static int load_opened(struct meeting *m, struct contents *contents, struct checkpoint_file **file,
		       float *params)
{
	int rc = meeting_judge(m);
	if (!rc)
		rc = load_in_rounds(m, contents, *file, params);
	checkpoint_file_close(file);
	contents_free(contents);
	return rc;
}

/* failed: 1 if this rank cannot take part. All ranks must receive the reason, which is in
 * sluice_last_error(). */
static int restore_in_rounds(struct meeting *m, const char *dir, float *params, int failed)
{
	sluice_model *model = m->model;
	struct checkpoint_sum *sums = NULL, sum = { 0 };
	struct checkpoint_file *file = NULL;
	struct contents contents = { 0 };
	int lost = 0, again;
	while (lost < model->job->workers && round_has(model->job, lost))
		lost++;
	m->mine.digest = dir ? digest64(dir, strlen(dir)) : 0;
	if (failed || (failed = model_whole(model, "sluice_restore")))
		m->mine.status = failed;
	else if (lost < model->job->workers)
		m->mine.status = fail(
			SLUICE_EINVAL,
			"sluice_restore needs all ranks, and %s is lost: start the job again",
			rank_text(model->job, lost));
	else if (sluice_is_worker(model->job) &&
		 (model->worker->step.state || model->worker->step.done))
		m->mine.status = fail(SLUICE_EINVAL,
				      "sluice_restore: this model has made steps already; restore "
				      "right after sluice_model_open");
	else if (sluice_is_worker(model->job) && !params)
		m->mine.status = fail(SLUICE_EINVAL, "sluice_restore: params is NULL on a worker");
	else if (model->job->rank == 0)
		m->mine.status = find_latest(m, dir, &sums);
	int rc = meeting_agree(m, "sluice_restore", &again);
	if (!rc)
		rc = meeting_share_sums(m, sums, &sum);
	free(sums);
	if (rc)
		return rc;
	m->mine.status = check_step(m);
	if (!m->mine.status)
		m->mine.status = contents_of(model, params, &contents);
	if (!m->mine.status)
		m->mine.status = open_own_file(m, &sum, &contents, &file);
	return load_opened(m, &contents, &file, params);
}

static int restore(sluice_model *model, const char *dir, float *params, int failed,
		   uint64_t *step_out)
{
	struct meeting *m = NULL;
	int rc = meeting_open(model, COLLECTIVE_RESTORE, &m);
	if (!rc)
		rc = restore_in_rounds(m, dir, params, failed);
	if (!rc && step_out)
		*step_out = m->place.step;
	if (!rc)
		log_line(LOG_INFO, "runtime", "restored step %llu from %s",
			 (unsigned long long)m->place.step, m->place.dir);
	meeting_close(&m);
	return rc;
}

/* ---- state as bytes --------------------------------------------------------
 *
 * The program's memory holds the content of a rank's file. The ranks agree in the same rounds as
 * for files; the leader sends a text in place of a directory. */

static const char state_place[] = "the state of the first rank";

/* Returns the generation of parts that ranks save without the others. It is the same on all ranks
 * of a job after the same step. In another job, whose first rank has other addresses, it
 * differs. */
static uint32_t common_generation(const sluice_model *model)
{
	const struct rank_record *record = &model->job->records[0];
	const uint64_t of[] = { digest64(record->payload, record->payload_bytes), model->id,
				model->worker->step.done };

	return (uint32_t)digest64(of, sizeof(of));
}

/* Refuses recipes with which another rank's next push may already have changed the state. */
static int check_alone(const sluice_model *model)
{
	const struct recipe *r = &model->recipe;

	if (r->quorum.workers)
		return fail(SLUICE_ENOSUPP,
			    "sluice_state_save: SLUICE_STATE_PART is not possible with quorum=, "
			    "where other ranks close exchanges without this rank: leave the flag "
			    "out on all workers");
	if (r->signal.kind != SIGNAL_INNOVATION && !census_room(r, 0))
		return 0;
	return fail(SLUICE_ENOSUPP,
		    "sluice_state_save: SLUICE_STATE_PART is not possible with signal=innovation "
		    "or global, where pushes of other ranks change a shard before this rank "
		    "pushes: leave the flag out on all workers");
}

static int check_save(const sluice_model *model, const uint8_t *state)
{
	return state ? check_between_steps(model, "sluice_state_save") :
		       fail(SLUICE_EINVAL, "sluice_state_save: state is NULL");
}

static int save_part(sluice_model *model, uint8_t *state, size_t bytes)
{
	struct meeting alone = { .model = model,
				 .place = { .step = model->worker->step.done,
					    .generation = common_generation(model) } };
	int rc = check_save(model, state);

	if (!rc)
		rc = check_alone(model);
	return rc ? rc : write_own(&alone, "sluice_state_save", state, bytes);
}

static int save_state(sluice_model *model, uint8_t *state, size_t bytes)
{
	struct meeting *m = NULL;
	int again, rc = meeting_open(model, COLLECTIVE_CHECKPOINT, &m);
	if (rc)
		return rc;
	m->mine.step = model->worker->step.done;
	m->mine.digest = digest64(state_place, sizeof(state_place));
	snprintf(m->mine.text, sizeof(m->mine.text), "%s", state_place);
	m->mine.status = check_save(model, state);
	if (getrandom(&m->mine.generation, sizeof(m->mine.generation), GRND_NONBLOCK) < 0)
		m->mine.generation = (uint32_t)now_ns();
	rc = meeting_agree(m, "sluice_state_save", &again);
	if (!rc) {
		m->mine.status = write_own(m, "sluice_state_save", state, bytes);
		rc = meeting_judge(m);
	}
	meeting_close(&m);
	return rc;
}

static int open_state(struct meeting *m, const uint8_t *state, size_t bytes, float *params,
		      struct contents *contents, struct checkpoint_file **file)
{
	const struct checkpoint_identity identity = identity_of(m);
	int rc = check_step(m);
	if (!rc)
		rc = contents_of(m->model, params, contents);
	if (!rc)
		rc = checkpoint_bytes_open(state, bytes, &identity, contents->sections, contents->n,
					   file);
	return rc ? rc : check_contents(m, contents, *file);
}

/* failed: this rank cannot take part, and all ranks must receive the reason. */
static int load_state_in_rounds(struct meeting *m, const uint8_t *state, size_t bytes,
				float *params, int failed)
{
	sluice_model *model = m->model;
	struct checkpoint_file *file = NULL;
	struct contents contents = { 0 };
	int again;
	m->mine.digest = digest64(state_place, sizeof(state_place));
	snprintf(m->mine.text, sizeof(m->mine.text), "%s", state_place);
	if (failed || (failed = model_whole(model, "sluice_state_load")))
		m->mine.status = failed;
	else if (!state || !params)
		m->mine.status = fail(SLUICE_EINVAL, "sluice_state_load: %s is NULL",
				      state ? "params" : "state");
	else if (model->worker->step.state || model->worker->step.done)
		m->mine.status = fail(SLUICE_EINVAL,
				      "sluice_state_load: this model has made steps already; load "
				      "right after sluice_model_open");
	else
		m->mine.status = checkpoint_bytes_peek(state, bytes, &m->mine.step,
						       &m->mine.generation);
	int rc = meeting_agree(m, "sluice_state_load", &again);
	if (rc)
		return rc;
	m->mine.status = open_state(m, state, bytes, params, &contents, &file);
	return load_opened(m, &contents, &file, params);
}

/* ---- calls ----------------------------------------------------------------- */

static int check_call(const sluice_model *model, const char *function)
{
	if (!model)
		return fail(SLUICE_EINVAL, "%s: the model is NULL", function);
	int rc = job_check(model->job, function);
	if (!rc && !sluice_is_worker(model->job))
		rc = fail(SLUICE_EINVAL,
			  "%s: %s is a dedicated server: it takes part inside sluice_serve",
			  function, rank_text(model->job, model->job->rank));
	if (!rc && model->recipe.when == WHEN_ASYNC)
		rc = fail(SLUICE_EINVAL,
			  "%s is not possible with when=async, because workers and shards have no "
			  "common step",
			  function);
	return rc;
}

int sluice_checkpoint(sluice_model *model, const char *dir)
{
	struct error_scope scope;
	error_begin(&scope);
	int rc = check_call(model, "sluice_checkpoint");
	return error_end(&scope, rc ? rc : save(model, dir));
}

int sluice_restore(sluice_model *model, const char *dir, void *params, uint64_t *step_out)
{
	struct error_scope scope;
	struct params host = { 0 };
	error_begin(&scope);
	int rc = check_call(model, "sluice_restore");
	if (rc)
		return error_end(&scope, rc);
	rc = params_borrow(model->worker, params, "sluice_restore", &host);
	rc = restore(model, dir, host.host, rc, step_out);
	return error_end(&scope, params_return(&host, rc));
}

/* A dedicated server would have to keep its part of the state where no program could access it. */
static int check_state_call(const sluice_model *model, const char *function)
{
	int rc = check_call(model, function);
	if (!rc && model->job->servers)
		rc = fail(SLUICE_ENOSUPP,
			  "%s: the job has dedicated servers, whose part of the state no worker "
			  "has: use sluice_checkpoint and sluice_restore",
			  function);
	return rc;
}

int sluice_state_size(sluice_model *model, size_t *bytes_out)
{
	struct contents contents;
	int rc = check_state_call(model, "sluice_state_size");
	if (!rc && !bytes_out)
		rc = fail(SLUICE_EINVAL, "sluice_state_size: bytes_out is NULL");
	if (rc)
		return rc;
	progress_take(model->job);
	rc = contents_of(model, local_base(model->worker->local), &contents); /* for its length */
	progress_release(model->job);
	if (rc)
		return rc;
	*bytes_out = (size_t)checkpoint_bytes_size(model->recipe_text, contents.sections,
						   contents.n);
	contents_free(&contents);
	return 0;
}

int sluice_state_save(sluice_model *model, void *state, size_t bytes, int flags)
{
	struct error_scope scope;
	error_begin(&scope);
	int rc = check_state_call(model, "sluice_state_save");
	if (!rc && flags & ~SLUICE_STATE_PART)
		rc = fail(SLUICE_EINVAL, "sluice_state_save: there is no flag 0x%x",
			  (unsigned)(flags & ~SLUICE_STATE_PART));
	if (!rc)
		rc = pull_settle(model->worker);
	if (!rc)
		rc = flags ? save_part(model, state, bytes) : save_state(model, state, bytes);
	return error_end(&scope, rc);
}

int sluice_state_load(sluice_model *model, const void *state, size_t bytes, void *params,
		      uint64_t *step_out)
{
	struct error_scope scope;
	struct params host = { 0 };
	struct meeting *m = NULL;
	error_begin(&scope);
	int rc = check_state_call(model, "sluice_state_load");
	if (rc)
		return error_end(&scope, rc);
	int failed = params_borrow(model->worker, params, "sluice_state_load", &host);
	rc = meeting_open(model, COLLECTIVE_RESTORE, &m);
	if (!rc)
		rc = load_state_in_rounds(m, state, bytes, host.host, failed);
	if (!rc && step_out)
		*step_out = m->place.step;
	meeting_close(&m);
	return error_end(&scope, params_return(&host, rc));
}

int checkpoint_serve(sluice_model *model, uint32_t op)
{
	sluice_job *job = model->job;
	if (op == COLLECTIVE_RESTORE)
		restore(model, NULL, NULL, 0, NULL);
	else
		save(model, NULL);
	progress_take(job);
	int rc = job_failed(job);
	progress_release(job);
	return rc;
}
