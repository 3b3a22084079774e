/* SPDX-License-Identifier: BSD-3-Clause
 * Two ranks' checkpoint, in the order of checkpoint.c, on a disk that crashes or fails at the n-th
 * call, for n = 1, 2, ... until a checkpoint completes without a fault. Afterwards the directory
 * must restore, bit by bit, to the old state or to the new one. */
#include "checkpoint/checkpoint_folder.h"
#include "faulty_disk.h"
#include "quiet.h"
#include "sluice.h"
#include "cases.h"
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, COUNT = 50, CALLS_MAX = 500 };

/* ---- two ranks ------------------------------------------------------------- */

struct state {
	float residual[RANKS][COUNT], parameters[RANKS][COUNT];
	uint64_t version;
};

static struct state state_of_step(uint64_t step)
{
	struct state s = { .version = step };

	for (int r = 0; r < RANKS; r++)
		for (int i = 0; i < COUNT; i++) {
			s.residual[r][i] = (float)step * 0.1f + (float)(r * COUNT + i);
			s.parameters[r][i] = -s.residual[r][i] / 3.0f;
		}
	return s;
}

static void describe(struct state *s, const struct checkpoint_place *place, uint32_t rank,
		     struct checkpoint_identity *who, struct checkpoint_section sections[3])
{
	*who = (struct checkpoint_identity){ .rank = rank,
					     .size = RANKS,
					     .workers = RANKS,
					     .shards = RANKS,
					     .count = COUNT,
					     .step = place->step,
					     .schema = 42,
					     .generation = place->generation,
					     .recipe = "up=all" };
	sections[0] = (struct checkpoint_section){ SECTION_WORKER_RESIDUAL, 0, COUNT,
						   s->residual[rank], NULL };
	sections[1] = (struct checkpoint_section){ SECTION_SHARD, rank, 1, NULL, &s->version };
	sections[2] = (struct checkpoint_section){ SECTION_SHARD_PARAMETERS, rank, COUNT,
						   s->parameters[rank], NULL };
}

/* Does the work of all ranks in sluice_checkpoint(), one after the other. */
static int take(const char *dir, uint64_t step)
{
	struct state s = state_of_step(step);
	struct checkpoint_sum sums[RANKS];
	struct checkpoint_place place = { .step = step };
	struct checkpoint_others *others = NULL;
	struct checkpoint_identity who;
	struct checkpoint_section sections[3];
	char path[DURABLE_PATH_BYTES];
	int rc = checkpoint_dir(dir, 1, place.dir);

	if (!rc)
		rc = checkpoint_begin(&place);
	if (rc)
		return rc;
	for (uint32_t r = 0; r < RANKS && !rc; r++) {
		describe(&s, &place, r, &who, sections);
		checkpoint_path(&place, r, path);
		rc = checkpoint_file_write(path, &who, sections, 3, &sums[r]);
	}
	if (!rc) {
		struct checkpoint_manifest m = { place.step, place.generation, RANKS, sums };
		others = checkpoint_others(&place);
		rc = checkpoint_manifest_write(place.dir, &m, NULL, NULL);
	}
	checkpoint_clean(&place, &others, !rc);
	if (rc)
		checkpoint_drop(&place);
	return rc;
}

/* Does the work of all ranks in sluice_restore(). Returns the restored step, -1 if there is no
 * checkpoint, or -2 after any other result. */
static long restart(const char *dir)
{
	struct checkpoint_manifest m;
	struct checkpoint_place place = { 0 };
	struct checkpoint_identity who;
	struct checkpoint_section sections[3];
	struct state s = { 0 };
	char path[DURABLE_PATH_BYTES];

	if (checkpoint_dir(dir, 0, place.dir))
		return access(dir, F_OK) ? -1 : -2;
	if (checkpoint_manifest_read(dir, &m))
		return strstr(sluice_last_error(), "no checkpoint") ? -1 : -2;
	place.step = m.step;
	place.generation = m.generation;
	struct state expected = state_of_step(m.step);
	int rc = m.ranks == RANKS ? 0 : -1;
	for (uint32_t r = 0; r < RANKS && !rc; r++) {
		struct checkpoint_file *file = NULL;
		describe(&s, &place, r, &who, sections);
		checkpoint_path(&place, r, path);
		rc = checkpoint_file_open(path, &who, sections, 3, &m.sums[r], &file);
		if (!rc)
			rc = checkpoint_file_load(file);
		checkpoint_file_close(&file);
	}
	free(m.sums);
	return rc || memcmp(&s, &expected, sizeof s) ? -2 : (long)place.step;
}

static char current[SCRATCH_PATH]; /* the directory in use */

static int remove_current(void **state)
{
	disarm();
	if (*current)
		scratch_remove(current);
	*current = '\0';
	return 0;
}

static void fresh(char dir[SCRATCH_PATH])
{
	remove_current(NULL);
	assert_int_equal(scratch_make(dir), 0);
	memcpy(current, dir, sizeof current);
}

/* Checks that a directory is complete: LATEST, one subdirectory, a file per rank. */
static void assert_tidy(const char *dir)
{
	struct scratch_count c = scratch_count(dir);

	assert_int_equal(c.folders, 1);
	assert_int_equal(c.files, 1 + RANKS);
	assert_int_equal(c.partial, 0);
}

/* ---- tests ----------------------------------------------------------------- */

#define CASE(name) TEST_WITH(name, NULL, remove_current)

CASE(without_faults__old_then_new_and_nothing_else)
{
	char dir[SCRATCH_PATH];

	fresh(dir);
	assert_int_equal(restart(dir), -1);
	for (uint64_t step = 5; step < 8; step++) {
		assert_int_equal(take(dir, step), 0);
		assert_int_equal(restart(dir), step);
		assert_tidy(dir);
	}
}

/* Repeats until a child does not crash. Returns how many calls a checkpoint makes. seen[0] and
 * seen[1] count the restarts with the old and with the new state. */
static int sweep_crashes(int with_old, int seen[2])
{
	for (int n = 1; n < CALLS_MAX; n++) {
		char top[SCRATCH_PATH], dir[SCRATCH_PATH + 16];
		int status;

		fresh(top);
		snprintf(dir, sizeof dir, "%s/runs/a", top);
		if (with_old)
			assert_int_equal(take(dir, 5), 0);
		pid_t child = fork();
		assert_true(child >= 0);
		if (!child) {
			arm(FAULT_CRASH, n, 0);
			_exit(take(dir, 6) || disk.too_early ? 1 : 0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status));
		assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == CRASHED);
		long step = restart(dir);
		if (step != 6 && step != (with_old ? 5 : -1))
			fail_msg("after a crash at call %d the directory restores as %ld: %s", n,
				 step, sluice_last_error());
		seen[step == 6]++;
		/* The next checkpoint removes what the crash left. */
		assert_int_equal(take(dir, 7), 0);
		assert_int_equal(restart(dir), 7);
		assert_tidy(dir);
		if (WEXITSTATUS(status) == 0) {
			assert_int_equal(step, 6);
			return n - 1;
		}
	}
	fail_msg("no checkpoint got through");
	return 0;
}

CASE(crash_at_every_call__old_or_new_never_mixed)
{
	int seen[2] = { 0, 0 };

	int calls = sweep_crashes(1, seen);
	print_message("%d calls: %d restarts with the old state, %d with the new\n", calls, seen[0],
		      seen[1]);
	assert_true(calls > 20 && seen[0] > 10 && seen[1] > 3);
}

CASE(crash_at_every_call_of_the_first_checkpoint__none_or_new)
{
	int seen[2] = { 0, 0 };

	int calls = sweep_crashes(0, seen);
	assert_true(calls > 20 && seen[0] > 10 && seen[1] > 0);
}

CASE(everything_is_on_disk_before_LATEST_names_it)
{
	char dir[SCRATCH_PATH];

	fresh(dir);
	assert_int_equal(take(dir, 4), 0);
	arm(FAULT_ERROR, 0, 0); /* counts the calls, none of which fails */
	assert_int_equal(take(dir, 5), 0);
	assert_int_equal(disk.too_early, 0);
	assert_int_equal(anything_unsynchronised(), 0); /* and in the end LATEST itself is
							   synchronised */
	disarm();
}

/* Makes each call fail in turn. The caller gets the error, continues, and has the old checkpoint
 * (or the new one if only the last synchronisation failed). No partial file is left. */
static void sweep_errors(int error, const char *name)
{
	int refused = 0, writes = 0, closes = 0;

	for (int n = 1; n < CALLS_MAX; n++) {
		char dir[SCRATCH_PATH];

		fresh(dir);
		assert_int_equal(take(dir, 5), 0);
		arm(FAULT_ERROR, n, error);
		int rc = take(dir, 6), struck = disk.calls >= n;
		disarm();
		long step = restart(dir);
		closes += disk.hit_close;
		if (rc) {
			assert_int_equal(rc, SLUICE_EIO);
			assert_true(struck && (step == 5 || step == 6));
			assert_int_equal(scratch_count(dir).partial, 0);
			if (step == 5) /* restart() sets no message, so this is the checkpoint's */
				assert_tidy(dir);
			if (!strstr(sluice_last_error(), name) || !strstr(sluice_last_error(), dir))
				fail_msg("\"%s\" lacks %s or the path", sluice_last_error(), name);
			refused++;
			writes += disk.hit_write;
			if (disk.hit_write)
				assert_int_equal(step, 5);
		} else {
			assert_int_equal(step, 6);
			assert_int_equal(disk.hit_close, 0);
		}
		assert_int_equal(take(dir, 7), 0);
		assert_int_equal(restart(dir), 7);
		assert_tidy(dir);
		if (!struck) {
			assert_int_equal(rc, 0);
			print_message("%s: %d of %d calls fail the checkpoint, %d of them writes\n",
				      name, refused, n - 1, writes);
			assert_true(refused > 10 && writes == RANKS + 1 && closes == RANKS + 1);
			return;
		}
	}
	fail_msg("no checkpoint got through");
}

CASE(disk_full_at_every_call__old_stays_and_nothing_partial)
{
	sweep_errors(ENOSPC, "ENOSPC");
}

CASE(io_error_at_every_call__old_stays_and_nothing_partial)
{
	sweep_errors(EIO, "EIO");
}

CASE(short_and_interrupted_writes__same_file)
{
	char dir[SCRATCH_PATH];

	fresh(dir);
	arm(FAULT_SHORT, 0, 0);
	assert_int_equal(take(dir, 5), 0);
	disarm();
	assert_int_equal(restart(dir), 5);
}

CASE(folders_that_cannot_be_synchronised__accepted)
{
	char dir[SCRATCH_PATH];
	int accepted = 0;

	fresh(dir);
	for (int n = 1; n < 12; n++) {
		arm(FAULT_ERROR, n, EINVAL);
		accepted += !take(dir, 5);
		disarm();
	}
	assert_true(accepted > 0);
}
