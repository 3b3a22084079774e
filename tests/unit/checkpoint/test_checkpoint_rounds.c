/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_checkpoint() with every rank a thread: the state returns bit by bit, and all ranks learn
 * why one of them failed. */
#include "checkpoint_ranks.h"
#include "quiet.h"
#include "sluice.h"
#include "cases.h"
#include <errno.h>
#include <math.h>
#include <string.h>

CASE(colocated__checkpoint_and_restore_bit_by_bit)
{
	checkpoint_at(12);
	restore_gives(12);
	checkpoint_at(13);
	struct scratch_count c = scratch_count(world.dir);
	assert_int_equal(c.folders, 1);
	assert_int_equal(c.files, 1 + RANKS_MAX);
	restore_gives(13);
}

CASE(dedicated_server__takes_part_in_both)
{
	world.workers = 2;
	checkpoint_at(12);
	restore_gives(12);
}

CASE(one_rank__works_alone)
{
	world.size = world.workers = 1;
	checkpoint_at(3);
	restore_gives(3);
}

CASE(memory_none__residual_is_not_saved)
{
	world.size = world.workers = 1;
	checkpoint_at(3);
	char path[DURABLE_PATH_BYTES];
	struct stat with, without;
	file_of(0, path);
	assert_int_equal(stat(path, &with), 0);
	open_job(1, 1, 4);
	world.ranks[0].model.recipe.memory.kind = MEMORY_NONE;
	run_job(0);
	assert_all(0, "");
	file_of(0, path);
	assert_int_equal(stat(path, &without), 0);
	assert_int_equal(with.st_size - without.st_size, CHECKPOINT_SECTION_BYTES + 4 * COUNT);
}

CASE(one_disk_full__all_ranks_EIO_and_the_old_checkpoint_stays)
{
	for (int bad = 0; bad < RANKS_MAX; bad++) {
		char who[64];
		world.workers = 2; /* rank 2 is a server */
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

CASE(diverged__ENUMERIC_on_all_ranks)
{
	checkpoint_at(12);
	open_job(RANKS_MAX, RANKS_MAX, 13);
	world.ranks[1].residual[7] = NAN;
	run_job(0);
	assert_all(SLUICE_ENUMERIC, "index 7 of the worker's residual");
	restore_gives(12);
}

CASE(inside_a_step__EINVAL_on_all_ranks)
{
	open_job(RANKS_MAX, RANKS_MAX, 13);
	world.ranks[2].model.worker->step.state = 1;
	run_job(0);
	assert_all(SLUICE_EINVAL, "not pulled yet");
	assert_int_equal(scratch_count(world.dir).folders, 0);
}

CASE(different_steps__EINVAL_naming_both)
{
	open_job(RANKS_MAX, RANKS_MAX, 13);
	world.ranks[2].worker.step.done = 14;
	run_job(0);
	assert_all(SLUICE_EINVAL,
		   "rank 0 (node n0) is at step 13, but rank 2 (node n2) is at step 14");
	assert_int_equal(scratch_count(world.dir).folders, 0);
}

CASE(different_or_missing_directories__EINVAL)
{
	const char *dirs[] = { "/elsewhere", "", NULL };

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

CASE(different_models__EINVAL)
{
	open_job(RANKS_MAX, RANKS_MAX, 13);
	world.ranks[1].model.id = 3;
	run_job(0);
	assert_all(SLUICE_EINVAL, "for model 3");
}

CASE(directory_that_cannot_be_made__EIO_on_all_ranks)
{
	char path[SCRATCH_PATH + 16];

	snprintf(path, sizeof path, "%s/file", world.dir);
	assert_int_equal(scratch_write(path, "x", 1), 0);
	open_job(RANKS_MAX, RANKS_MAX, 13);
	for (int r = 0; r < RANKS_MAX; r++)
		world.ranks[r].dir = path;
	run_job(0);
	assert_all(SLUICE_EIO, "ENOTDIR");
}

CASE(peer_lost_in_any_round__old_or_new_stays)
{
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
		checkpoint_at(14); /* and removes old generations */
		assert_int_equal(scratch_count(world.dir).folders, 1);
	}
}

CASE(server_after_a_lost_peer__stops_serving)
{
	open_job(1, 0, 13);
	world.lost_in_round = 1;
	run_job(0);
	world.lost_in_round = 0;
	assert_int_equal(world.ranks[0].code, SLUICE_EPEER);
}

CASE(on_a_server_or_NULL__EINVAL_at_once)
{
	open_job(2, 1, 0);
	self = &world.ranks[1];
	assert_int_equal(sluice_checkpoint(&world.ranks[1].model, world.dir), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "sluice_serve"));
	assert_int_equal(sluice_restore(NULL, world.dir, NULL, NULL), SLUICE_EINVAL);
	assert_int_equal(world.ranks[1].rounds, 0);
	self = NULL;
}
