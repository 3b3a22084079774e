/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_restore() with every rank a thread: what it refuses, on all ranks, before anything is
 * stored. */
#include "checkpoint_ranks.h"
#include "quiet.h"
#include "sluice.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

/* A restore that is refused before anything is stored. */
static void restore_refused(int code, const char *text)
{
	run_job(1);
	assert_all(code, text);
	assert_state(0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(restore_without_a_checkpoint__EIO_on_all_ranks),
		CASE(restore_of_a_damaged_file__EWIRE_on_all_ranks_nothing_stored),
		CASE(restore_with_a_missing_file__EIO_on_all_ranks),
		CASE(restore_into_another_job_or_model__EINVAL_naming_both),
		CASE(restore_after_steps__EINVAL),
	};

	sluice_set_log(swallow_line, NULL);
	return cmocka_run_group_tests_name("checkpoint, refused restores", tests, NULL, NULL);
}
