/* SPDX-License-Identifier: BSD-3-Clause
 * One rank's checkpoint file without a job: round trips, files that cannot be written or read, and
 * files of other models or jobs. Every refusal comes before anything is stored. Damage:
 * test_checkpoint_damage.c. */
#include "quiet.h"
#include "rank_file.h"
#include "sluice.h"
#include "cases.h"
#include <math.h>
#include <string.h>

CASE(round_trip__every_value_comes_back_bit_by_bit)
{
	assert_int_equal(load(f), 0);
	assert_memory_equal(&f->loaded, &f->saved, sizeof f->saved);
	assert_int_equal(scratch_count(f->dir).files, 1);
}

CASE(round_trip__sections_larger_than_the_buffer)
{
	enum { MANY = 400003 };
	struct checkpoint_identity who = identity();
	float *saved = malloc(MANY * sizeof *saved), *loaded = calloc(MANY, sizeof *loaded);
	uint64_t lr = 7;

	for (int i = 0; i < MANY; i++)
		saved[i] = (float)i * 1.25f;
	struct checkpoint_section out[2] = { { SECTION_WORKER, 0, 1, NULL, &lr },
					     { SECTION_WORKER_RESIDUAL, 0, MANY, saved, NULL } };
	struct checkpoint_section in[2] = { out[0],
					    { SECTION_WORKER_RESIDUAL, 0, MANY, loaded, NULL } };
	struct checkpoint_file *file = NULL;
	assert_int_equal(checkpoint_file_write(f->path, &who, out, 2, &f->sum), 0);
	assert_int_equal(checkpoint_file_open(f->path, &who, in, 2, &f->sum, &file), 0);
	assert_true(loaded[MANY - 1] == 0.0f);
	assert_int_equal(checkpoint_file_load(file), 0);
	assert_memory_equal(saved, loaded, MANY * sizeof *saved);
	checkpoint_file_close(&file);
	assert_null(file);
	free(saved);
	free(loaded);
}

CASE(round_trip__no_sections_at_all)
{
	struct checkpoint_identity who = identity();
	struct checkpoint_file *file = NULL;

	assert_int_equal(checkpoint_file_write(f->path, &who, NULL, 0, &f->sum), 0);
	assert_int_equal(checkpoint_file_open(f->path, &who, NULL, 0, &f->sum, &file), 0);
	assert_int_equal(checkpoint_file_load(file), 0);
	checkpoint_file_close(&file);
}

CASE(write__same_state_gives_same_bytes)
{
	uint8_t again[SCRATCH_FILE];
	struct checkpoint_sum first = f->sum;

	assert_int_equal(save(f), 0);
	assert_int_equal(scratch_read(f->path, again), (long)f->n);
	assert_memory_equal(again, f->bytes, f->n);
	assert_int_equal(first.crc, f->sum.crc);
}

CASE(write__not_finite_is_ENUMERIC_and_the_old_file_stays)
{
	struct checkpoint_sum before = f->sum;

	f->saved.parameters[5] = NAN;
	assert_int_equal(save(f), SLUICE_ENUMERIC);
	assert_non_null(strstr(sluice_last_error(), "index 5 of the parameters of shard 3"));
	assert_int_equal(scratch_count(f->dir).partial, 0);
	assert_int_equal(f->sum.crc, before.crc);
	assert_int_equal(load(f), 0);
}

CASE(write__missing_folder_is_EIO)
{
	snprintf(f->path, sizeof f->path, "%s/a/b", f->dir);
	assert_int_equal(save(f), SLUICE_EIO);
	assert_non_null(strstr(sluice_last_error(), "open"));
	assert_non_null(strstr(sluice_last_error(), f->path));
	assert_non_null(strstr(sluice_last_error(), "ENOENT"));
	assert_non_null(strstr(sluice_last_error(), "all ranks see"));
}

CASE(write__link_in_place_of_the_temporary_file_is_EIO)
{
	char tmp[SCRATCH_PATH + 32];

	/* The link must not be followed, because it could point anywhere. */
	snprintf(tmp, sizeof tmp, "%s.tmp", f->path);
	assert_int_equal(symlink("/dev/full", tmp), 0);
	assert_int_equal(save(f), SLUICE_EIO);
	assert_int_equal(unlink(tmp), 0);
	assert_int_equal(load(f), 0);
}

CASE(missing_file__EIO)
{
	assert_int_equal(unlink(f->path), 0);
	assert_refused(f, SLUICE_EIO, "ENOENT");
}

CASE(no_regular_file__refused_without_waiting)
{
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(mkfifo(f->path, 0600), 0);
	assert_refused(f, SLUICE_EWIRE, "no regular file");
}

static void assert_other(struct fixture *f, const struct checkpoint_identity *who, int code,
			 const char *first, const char *second)
{
	assert_int_equal(load_as(f, who), code);
	assert_nothing_stored(f);
	if (!strstr(sluice_last_error(), first) || !strstr(sluice_last_error(), second))
		fail_msg("\"%s\" lacks \"%s\" or \"%s\"", sluice_last_error(), first, second);
}

CASE(other_shape__EINVAL_naming_both)
{
	struct checkpoint_identity who = identity();

	who.size = 8;
	assert_other(f, &who, SLUICE_EINVAL, "4 ranks", "has 8");
	who = identity();
	who.workers = 2;
	assert_other(f, &who, SLUICE_EINVAL, "3 workers", "has 2");
	who = identity();
	who.shards = 6;
	assert_other(f, &who, SLUICE_EINVAL, "5 shards", "has 6");
	who = identity();
	who.count = COUNT + 1;
	assert_other(f, &who, SLUICE_EINVAL, "13 parameters", "has 14");
}

CASE(other_recipe__EINVAL_naming_both)
{
	struct checkpoint_identity who = identity();

	who.recipe = "up=all";
	who.schema++;
	assert_other(f, &who, SLUICE_EINVAL, RECIPE, "\"up=all\"");
}

/* Recipes are long. If they differ in one word, the message has only that word of both. */
CASE(other_word_of_the_recipe__EINVAL_naming_the_word)
{
	struct checkpoint_identity who = identity();

	who.recipe = "up=topk(0.01) down=all";
	who.schema++;
	assert_other(f, &who, SLUICE_EINVAL, "made with \"down=topk(0.05)\"",
		     "this model has \"down=all\"");
}

CASE(other_schema__EINVAL)
{
	struct checkpoint_identity who = identity();

	who.schema++;
	assert_other(f, &who, SLUICE_EINVAL, "1122334455667788", "1122334455667789");
}

CASE(other_rank_step_or_generation__EWIRE)
{
	struct checkpoint_identity who = identity();

	who.rank = 2;
	assert_other(f, &who, SLUICE_EWIRE, "another rank", f->path);
	who = identity();
	who.step++;
	assert_other(f, &who, SLUICE_EWIRE, "another checkpoint", f->path);
	who = identity();
	who.generation++;
	assert_other(f, &who, SLUICE_EWIRE, "another checkpoint", f->path);
}
