/* SPDX-License-Identifier: BSD-3-Clause
 * The directory of checkpoints: LATEST read back, LATEST damaged, folders made and removed. */

#include "base/bytes.h"
#include "checkpoint/checkpoint_folder.h"
#include "quiet.h"
#include "scratch.h"
#include "sluice.h"
#include "cases.h"
#include <sys/stat.h>

struct fixture {
	char dir[SCRATCH_PATH], latest[SCRATCH_PATH + 16];
	struct checkpoint_sum sums[3];
	struct checkpoint_manifest manifest;
	uint8_t bytes[SCRATCH_FILE];
	size_t n;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	if (!f || scratch_make(f->dir))
		return -1;
	snprintf(f->latest, sizeof f->latest, "%s/LATEST", f->dir);
	f->sums[0] = (struct checkpoint_sum){ 1000, 0xdeadbeef };
	f->sums[1] = (struct checkpoint_sum){ 1ull << 40, 0 };
	f->sums[2] = (struct checkpoint_sum){ 77, 0x1234 };
	f->manifest = (struct checkpoint_manifest){ 1234567890123456, 0x00c0ffee, 3, f->sums };
	*state = f;
	if (checkpoint_manifest_write(f->dir, &f->manifest, NULL, NULL))
		return -1;
	f->n = (size_t)scratch_read(f->latest, f->bytes);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	scratch_remove(f->dir);
	free(f);
	return 0;
}

static int read_bytes(struct fixture *f, const void *bytes, size_t n)
{
	struct checkpoint_manifest m = { 0 };

	assert_int_equal(scratch_write(f->latest, bytes, n), 0);
	int rc = checkpoint_manifest_read(f->dir, &m);
	if (rc)
		assert_null(m.sums);
	free(m.sums);
	return rc;
}

/* Reads a text with a valid last line in place of LATEST. */
static int read_text(struct fixture *f, const char *text)
{
	char whole[1024];

	snprintf(whole, sizeof whole, "%scrc32c %08x\n", text, crc32c(0, text, strlen(text)));
	return read_bytes(f, whole, strlen(whole));
}

/* ---- LATEST ---------------------------------------------------------------- */

#define CASE(name) TEST_OF(name, struct fixture *f, setup, teardown)

CASE(manifest__round_trip)
{
	struct checkpoint_manifest m;

	assert_int_equal(checkpoint_manifest_read(f->dir, &m), 0);
	assert_true(m.step == f->manifest.step);
	assert_int_equal(m.generation, f->manifest.generation);
	assert_int_equal(m.ranks, 3);
	for (int r = 0; r < 3; r++) {
		assert_true(m.sums[r].bytes == f->sums[r].bytes);
		assert_int_equal(m.sums[r].crc, f->sums[r].crc);
	}
	free(m.sums);
	assert_non_null(strstr((char *)f->bytes, "folder step-1234567890123456-00c0ffee\n"));
}

CASE(manifest__replaced_by_the_next)
{
	struct checkpoint_manifest m;

	f->manifest.step = 7;
	assert_int_equal(checkpoint_manifest_write(f->dir, &f->manifest, NULL, NULL), 0);
	assert_int_equal(checkpoint_manifest_read(f->dir, &m), 0);
	assert_true(m.step == 7);
	free(m.sums);
	assert_int_equal(scratch_count(f->dir).files, 1);
}

CASE(manifest__is_for_its_owner_only)
{
	char draft[SCRATCH_PATH + 32];
	const mode_t mask = umask(0);
	struct stat status;

	snprintf(draft, sizeof draft, "%s.tmp", f->latest);
	assert_int_equal(scratch_write(draft, "of a crash", 10), 0);
	assert_int_equal(chmod(draft, 0666), 0);
	assert_int_equal(checkpoint_manifest_write(f->dir, &f->manifest, NULL, NULL), 0);
	assert_int_equal(stat(f->latest, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	umask(mask);
}

CASE(manifest__missing_is_EIO_naming_the_directory)
{
	struct checkpoint_manifest m;

	assert_int_equal(unlink(f->latest), 0);
	assert_int_equal(checkpoint_manifest_read(f->dir, &m), SLUICE_EIO);
	assert_non_null(strstr(sluice_last_error(), "no checkpoint in"));
	assert_non_null(strstr(sluice_last_error(), f->dir));
}

CASE(manifest__every_truncation_is_refused)
{
	for (size_t n = 0; n < f->n; n++)
		assert_int_equal(read_bytes(f, f->bytes, n), SLUICE_EWIRE);
	f->bytes[f->n] = '\n';
	assert_int_equal(read_bytes(f, f->bytes, f->n + 1), SLUICE_EWIRE);
	assert_int_equal(read_bytes(f, f->bytes, f->n), 0);
}

CASE(manifest__every_flipped_byte_is_refused)
{
	for (size_t i = 0; i < f->n; i++) {
		for (int bit = 0; bit < 8; bit++) {
			f->bytes[i] ^= (uint8_t)(1 << bit);
			assert_int_equal(read_bytes(f, f->bytes, f->n), SLUICE_EWIRE);
			f->bytes[i] ^= (uint8_t)(1 << bit);
		}
	}
}

CASE(manifest__valid_crc_but_odd_text_is_refused)
{
	const char *good =
		"sluice checkpoint 1\nfolder step-000000000005-00000001\nstep 5\nranks 1\n"
		"rank 0 bytes 9 crc32c 00000002\n";

	assert_int_equal(read_text(f, good), 0);
	const char *bad[] = {
		"",
		"\n\n\n\n\n",
		"sluice checkpoint 1\n",
		"sluice checkpoint 1\nfolder step-5-1\nstep 5\nranks 1\nrank 0 bytes 9 crc32c "
		"00000002\n",
		"sluice checkpoint 1\nfolder ../../etc\nstep 5\nranks 1\nrank 0 bytes 9 crc32c "
		"00000002\n",
		"sluice checkpoint 1\nfolder step-000000000006-00000001\nstep 5\nranks 1\n"
		"rank 0 bytes 9 crc32c 00000002\n",
		"sluice checkpoint 1\nfolder step-000000000005-00000001\nstep 5\nranks 0\n",
		"sluice checkpoint 1\nfolder step-000000000005-00000001\nstep 5\nranks 2\n"
		"rank 0 bytes 9 crc32c 00000002\n",
		"sluice checkpoint 1\nfolder step-000000000005-00000001\nstep 5\nranks 999999999\n"
		"rank 0 bytes 9 crc32c 00000002\n",
		"sluice checkpoint 1\nfolder step-000000000005-00000001\nstep 5\nranks -1\n"
		"rank 0 bytes 9 crc32c 00000002\n",
		"sluice checkpoint 1\nfolder step-000000000005-00000001\nstep 5\nranks 2\n"
		"rank 0 bytes 9 crc32c 00000002\nrank 0 bytes 9 crc32c 00000002\n",
		"sluice checkpoint 1\nfolder step-000000000005-00000001\nstep 5\nranks 1\n"
		"rank 0 bytes -9 crc32c 00000002\n",
		"sluice checkpoint 1\nfolder step-000000000005-00000001\nstep 5\nranks 1\n"
		"rank 0 bytes 99999999999999999999999 crc32c 00000002\n",
		"sluice checkpoint 1\nfolder step-000000000005-00000001\nstep 5\nranks 1\n"
		"rank 0 bytes 9 crc32c 00000002\nmore\n",
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (read_text(f, bad[i]) != SLUICE_EWIRE)
			fail_msg("accepted:\n%s", bad[i]);
}

CASE(manifest__other_version_names_both)
{
	assert_int_equal(read_text(f, "sluice checkpoint 2\nother lines\n"), SLUICE_EWIRE);
	assert_non_null(strstr(sluice_last_error(), "format version 2"));
	assert_non_null(strstr(sluice_last_error(), "reads version 1"));
}

CASE(manifest__a_directory_in_its_place_is_refused)
{
	struct checkpoint_manifest m;

	assert_int_equal(unlink(f->latest), 0);
	assert_int_equal(mkdir(f->latest, 0777), 0);
	assert_int_equal(checkpoint_manifest_read(f->dir, &m), SLUICE_EWIRE);
	assert_int_equal(checkpoint_manifest_write(f->dir, &f->manifest, NULL, NULL), SLUICE_EIO);
	assert_non_null(strstr(sluice_last_error(), "rename"));
	assert_int_equal(scratch_count(f->dir).partial, 0);
}

/* ---- folders --------------------------------------------------------------- */

CASE(dir__missing_parents_are_made)
{
	char given[2 * SCRATCH_PATH], absolute[CHECKPOINT_DIR_BYTES], expected[2 * SCRATCH_PATH];

	snprintf(given, sizeof given, "%s//a/./b/../c/", f->dir);
	snprintf(expected, sizeof expected, "%s/a/c", f->dir);
	assert_int_equal(checkpoint_dir(given, 1, absolute), 0);
	assert_string_equal(absolute, expected);
	assert_int_equal(checkpoint_dir(given, 1, absolute), 0); /* there already */
}

CASE(dir__missing_and_not_to_be_made_is_EIO)
{
	char given[2 * SCRATCH_PATH], absolute[CHECKPOINT_DIR_BYTES] = "untouched";

	snprintf(given, sizeof given, "%s/absent", f->dir);
	assert_int_equal(checkpoint_dir(given, 0, absolute), SLUICE_EIO);
	assert_non_null(strstr(sluice_last_error(), given));
	assert_string_equal(absolute, "untouched");
}

CASE(dir__NULL_empty_or_too_long_is_EINVAL)
{
	char given[2 * CHECKPOINT_DIR_BYTES], absolute[CHECKPOINT_DIR_BYTES];

	assert_int_equal(checkpoint_dir(NULL, 1, absolute), SLUICE_EINVAL);
	assert_int_equal(checkpoint_dir("", 1, absolute), SLUICE_EINVAL);
	memset(given, 'x', sizeof given);
	given[sizeof given - 1] = '\0';
	assert_int_equal(checkpoint_dir(given, 1, absolute), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "1799 bytes long, but the limit is 899"));
}

CASE(dir__a_file_in_its_place_is_EIO)
{
	char absolute[CHECKPOINT_DIR_BYTES];

	assert_int_equal(checkpoint_dir(f->latest, 1, absolute), SLUICE_EIO);
	assert_non_null(strstr(sluice_last_error(), "ENOTDIR"));
	assert_non_null(strstr(sluice_last_error(), f->latest));
}

static struct checkpoint_place begin(const struct fixture *f, uint64_t step)
{
	struct checkpoint_place place = { .step = step };
	char path[DURABLE_PATH_BYTES];

	memcpy(place.dir, f->dir, strlen(f->dir) + 1);
	assert_int_equal(checkpoint_begin(&place), 0);
	for (uint32_t r = 0; r < 3; r++) {
		checkpoint_path(&place, r, path);
		assert_int_equal(scratch_write(path, "x", 1), 0);
	}
	return place;
}

CASE(begin__two_attempts_at_one_step_differ)
{
	struct checkpoint_place a = begin(f, 5), b = begin(f, 5);

	assert_int_not_equal(a.generation, b.generation);
	assert_int_equal(scratch_count(f->dir).folders, 2);
}

CASE(clean__only_other_generations_go)
{
	char path[DURABLE_PATH_BYTES], *slash;
	struct checkpoint_place partial = begin(f, 3), keep = begin(f, 4), foreign = begin(f, 6);

	begin(f, 5);
	checkpoint_path(&partial, 1, path);
	strcat(path, ".tmp");
	assert_int_equal(scratch_write(path, "x", 1), 0);
	/* Foreign files and directories stay: another file in a generation, directories with other
	 * names. */
	checkpoint_path(&foreign, 0, path);
	slash = strrchr(path, '/');
	memcpy(slash, "/notes", sizeof "/notes");
	assert_int_equal(scratch_write(path, "x", 1), 0);
	snprintf(path, sizeof path, "%s/step-5-1", f->dir);
	assert_int_equal(mkdir(path, 0777), 0);
	snprintf(path, sizeof path, "%s/step-000000000005-0000000g", f->dir);
	assert_int_equal(mkdir(path, 0777), 0);
	struct checkpoint_others *others = checkpoint_others(&keep);
	struct checkpoint_place later = begin(f, 7); /* made by ranks that continued without the
							rank that cleans */
	checkpoint_clean(&keep, &others, 1);
	assert_null(others);
	checkpoint_path(&later, 0, path);
	assert_int_equal(access(path, F_OK), 0);
	others = checkpoint_others(&keep);
	checkpoint_clean(&keep, &others, 0);
	assert_null(others);
	assert_int_equal(access(path, F_OK), 0);
	others = checkpoint_others(&keep);
	checkpoint_clean(&keep, &others, 1);
	struct scratch_count c = scratch_count(f->dir);
	assert_int_equal(c.folders, 4); /* keep, foreign, and the two with other names */
	assert_int_equal(c.files, 1 + 3 + 1);
	checkpoint_path(&keep, 2, path);
	assert_int_equal(access(path, F_OK), 0);
}

/* Another job has saved in the same directory since the list was made. */
CASE(clean__the_generation_that_LATEST_names_stays)
{
	char path[DURABLE_PATH_BYTES];
	struct checkpoint_place own = begin(f, 4), of_another_job = begin(f, 5);
	struct checkpoint_others *others = checkpoint_others(&own);

	f->manifest.step = of_another_job.step;
	f->manifest.generation = of_another_job.generation;
	assert_int_equal(checkpoint_manifest_write(f->dir, &f->manifest, NULL, NULL), 0);
	checkpoint_clean(&own, &others, 1);
	checkpoint_path(&of_another_job, 0, path);
	*strrchr(path, '/') = '\0';
	assert_int_equal(access(path, F_OK), 0);
}

CASE(lock__of_a_second_job__fails_until_the_first_is_done)
{
	int first, second;

	assert_int_equal(checkpoint_lock(f->dir, &first), 0);
	assert_true(first >= 0);
	assert_int_equal(checkpoint_lock(f->dir, &second), SLUICE_EIO);
	assert_int_equal(second, -1);
	assert_non_null(strstr(sluice_last_error(), "its own directory"));
	assert_non_null(strstr(sluice_last_error(), f->dir));
	checkpoint_unlock(&second);
	checkpoint_unlock(&first);
	assert_int_equal(checkpoint_lock(f->dir, &second), 0);
	checkpoint_unlock(&second);
}

static int refuse(void *context)
{
	struct fixture *f = context;

	assert_int_equal(scratch_count(f->dir).partial,
			 2); /* everything is written, and an older draft still exists */
	return SLUICE_EPEER;
}

CASE(manifest__not_to_be_the_valid_one_any_more__stays_a_draft_and_is_removed)
{
	struct checkpoint_manifest read = { 0 };
	char draft[DURABLE_PATH_BYTES];

	assert_int_equal(checkpoint_manifest_write(f->dir, &f->manifest, NULL, NULL), 0);
	snprintf(draft, sizeof draft, "%s/LATEST.0badcafe.tmp",
		 f->dir); /* left by a rank that was stopped */
	assert_int_equal(scratch_write(draft, "x", 1), 0);
	f->manifest.step++;
	assert_int_equal(checkpoint_manifest_write(f->dir, &f->manifest, refuse, f), SLUICE_EPEER);
	assert_int_equal(scratch_count(f->dir).partial, 1);
	assert_int_equal(checkpoint_manifest_read(f->dir, &read), 0);
	assert_int_equal(read.step, f->manifest.step - 1);
	free(read.sums);
	assert_int_equal(checkpoint_manifest_write(f->dir, &f->manifest, NULL, NULL), 0);
	assert_int_equal(scratch_count(f->dir).partial, 0);
}

CASE(drop__removes_unless_LATEST_names_it)
{
	struct checkpoint_place failed = begin(f, 5), named = begin(f, 6);

	f->manifest.step = named.step;
	f->manifest.generation = named.generation;
	assert_int_equal(checkpoint_manifest_write(f->dir, &f->manifest, NULL, NULL), 0);
	checkpoint_drop(&named);
	assert_int_equal(scratch_count(f->dir).folders, 2);
	checkpoint_drop(&failed);
	assert_int_equal(scratch_count(f->dir).folders, 1);
	assert_int_equal(unlink(f->latest), 0);
	checkpoint_drop(&named);
	assert_int_equal(scratch_count(f->dir).folders, 0);
}
