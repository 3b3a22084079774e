/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_restore() with every rank a thread: refusals on all ranks before anything is stored, and a
 * failure afterwards. */
#include "checkpoint_ranks.h"
#include "base/error.h"
#include "quiet.h"
#include "sluice.h"
#include "cases.h"
#include <stdio.h>

/* Runs a restore that is refused before anything is stored. */
static void restore_refused(int code, const char *text)
{
	run_job(1);
	assert_all(code, text);
	assert_state(0);
}

CASE(restore_without_a_checkpoint__EIO_on_all_ranks)
{
	open_job(RANKS_MAX, RANKS_MAX, 0);
	restore_refused(SLUICE_EIO, "no checkpoint in");
}

CASE(restore_of_a_damaged_file__EWIRE_on_all_ranks_nothing_stored)
{
	char path[DURABLE_PATH_BYTES];
	uint8_t bytes[SCRATCH_FILE];

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

CASE(restore_with_a_missing_file__EIO_on_all_ranks)
{
	char path[DURABLE_PATH_BYTES];

	checkpoint_at(12);
	file_of(1, path);
	assert_int_equal(unlink(path), 0);
	open_job(RANKS_MAX, RANKS_MAX, 0);
	restore_refused(SLUICE_EIO, "ENOENT");
}

CASE(restore_into_another_job_or_model__EINVAL_naming_both)
{
	checkpoint_at(12);
	open_job(2, 2, 0);
	restore_refused(SLUICE_EINVAL, "made by 3 ranks, but this job has 2");
	open_job(RANKS_MAX, 2, 0); /* a server instead of a worker */
	restore_refused(SLUICE_EINVAL, "3 workers, but this job has 2");
	open_job(RANKS_MAX, RANKS_MAX, 0);
	for (int r = 0; r < RANKS_MAX; r++) {
		snprintf(world.ranks[r].model.recipe_text, RECIPE_TEXT_BYTES, "up=all");
		world.ranks[r].model.schema = 78;
	}
	restore_refused(SLUICE_EINVAL,
			"\"up=topk(0.01)\" in the recipe, but this model has \"up=all\"");
}

CASE(restore_with_a_period_that_the_checkpoint_has_not__EINVAL_naming_both_recipes)
{
	checkpoint_at(12);
	open_job(RANKS_MAX, RANKS_MAX, 0);
	for (int r = 0; r < RANKS_MAX; r++) {
		struct sluice_model *model = &world.ranks[r].model;

		snprintf(model->recipe_text, RECIPE_TEXT_BYTES, "when=every(5)");
		model->recipe.every.period = 5;
	}
	restore_refused(SLUICE_EINVAL, "but this model has \"when=every(5)\"");
}

CASE(restore_after_steps__EINVAL)
{
	checkpoint_at(12);
	run_job(1);
	assert_all(SLUICE_EINVAL, "steps already");
	assert_state(12);
}

/* The disk of one rank fails when its file was found to be valid and is read again. */
static int failing = -1;

int __real_checkpoint_file_load(struct checkpoint_file *file);
int __wrap_checkpoint_file_load(struct checkpoint_file *file);
int __wrap_checkpoint_file_load(struct checkpoint_file *file)
{
	if (self->job.rank == failing)
		return (fail)(SLUICE_EIO, "read of rank %d's file failed", failing);
	return __real_checkpoint_file_load(file);
}

CASE(restore_that_fails_while_it_loads__the_model_can_only_be_closed)
{
	checkpoint_at(12);
	for (failing = 0; failing < RANKS_MAX; failing++) {
		open_job(RANKS_MAX, RANKS_MAX, 0);
		run_job(1);
		assert_all(SLUICE_EIO, "'s file failed; the model now has only a part of the "
				       "checkpoint: close it");
		run_job(1);
		assert_all(SLUICE_EINVAL,
			   "sluice_restore: loading a checkpoint into this model failed");
		run_job(0);
		assert_all(SLUICE_EINVAL,
			   "sluice_checkpoint: loading a checkpoint into this model failed");
		for (int r = 0; r < RANKS_MAX; r++)
			assert_int_equal(step_check(&world.ranks[r].model, world.ranks[r].params,
						    "sluice_push", STEP_DONE),
					 SLUICE_EINVAL);
	}
	failing = -1;
	open_job(RANKS_MAX, RANKS_MAX, 0);
	restore_gives(12); /* the older checkpoint still exists */
	assert_int_equal(
		step_check(&world.ranks[0].model, world.ranks[0].params, "sluice_push", STEP_DONE),
		0);
}
