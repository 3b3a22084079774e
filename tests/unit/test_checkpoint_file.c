/* SPDX-License-Identifier: BSD-3-Clause
 * The checkpoint's files without a job: round trips, and every way in which a file or LATEST can be
 * wrong. What is refused is refused before anything is stored. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "checkpoint/checkpoint_folder.h"
#include "scratch.h"
#include "sluice.h"
#include <math.h>

enum { COUNT = 13, SPAN = 7, SECTIONS = 6 };
static const char recipe[] = "up=topk(0.01) down=topk(0.05)";

/* One rank's state, and the same again as what a reader fills. */
struct state {
	float residual[COUNT], velocity[COUNT], parameters[SPAN], shard_residual[SPAN];
	uint64_t lr, version;
};

struct fixture {
	char dir[SCRATCH_PATH], path[SCRATCH_PATH + 16];
	struct state saved, loaded, untouched;
	struct checkpoint_sum sum;
	uint8_t bytes[SCRATCH_FILE];
	size_t n;
};

static struct checkpoint_identity identity(void)
{
	return (struct checkpoint_identity){ .rank = 1,
					     .size = 4,
					     .workers = 3,
					     .shards = 5,
					     .count = COUNT,
					     .step = 1234,
					     .schema = 0x1122334455667788u,
					     .generation = 0xcafe0123u,
					     .recipe = recipe };
}

static void sections_of(struct state *s, struct checkpoint_section out[SECTIONS])
{
	out[0] = (struct checkpoint_section){ SECTION_WORKER, 0, 1, NULL, &s->lr };
	out[1] =
		(struct checkpoint_section){ SECTION_WORKER_RESIDUAL, 0, COUNT, s->residual, NULL };
	out[2] =
		(struct checkpoint_section){ SECTION_WORKER_VELOCITY, 0, COUNT, s->velocity, NULL };
	out[3] = (struct checkpoint_section){ SECTION_SHARD, 3, 1, NULL, &s->version };
	out[4] = (struct checkpoint_section){ SECTION_SHARD_PARAMETERS, 3, SPAN, s->parameters,
					      NULL };
	out[5] = (struct checkpoint_section){ SECTION_SHARD_RESIDUAL, 3, SPAN, s->shard_residual,
					      NULL };
}

static void fill(struct state *s, float from)
{
	for (int i = 0; i < COUNT; i++) {
		s->residual[i] = from + (float)i * 0.1f;
		s->velocity[i] = -from * (float)i;
	}
	for (int i = 0; i < SPAN; i++) {
		s->parameters[i] = from / (float)(i + 1);
		s->shard_residual[i] = from * 1e-20f * (float)i;
	}
	s->velocity[0] = -0.0f;
	s->velocity[1] = 0x1p-149f; /* the smallest denormal */
	s->velocity[2] = 0x1.fffffep127f;
	s->lr = float_bits(0.05f);
	s->version = 1234;
}

static int save(struct fixture *f)
{
	struct checkpoint_section sections[SECTIONS];
	struct checkpoint_identity who = identity();

	sections_of(&f->saved, sections);
	return checkpoint_file_write(f->path, &who, sections, SECTIONS, &f->sum);
}

/* Opens and, if that works, loads into f->loaded. */
static int load_as(struct fixture *f, const struct checkpoint_identity *who)
{
	struct checkpoint_section sections[SECTIONS];
	struct checkpoint_file *file = NULL;

	sections_of(&f->loaded, sections);
	int rc = checkpoint_file_open(f->path, who, sections, SECTIONS, &f->sum, &file);
	if (!rc)
		rc = checkpoint_file_load(file);
	checkpoint_file_close(&file);
	return rc;
}

static int load(struct fixture *f)
{
	struct checkpoint_identity who = identity();

	return load_as(f, &who);
}

static void assert_nothing_stored(const struct fixture *f)
{
	assert_memory_equal(f->loaded.residual, f->untouched.residual, sizeof f->loaded.residual);
	assert_memory_equal(f->loaded.velocity, f->untouched.velocity, sizeof f->loaded.velocity);
	assert_memory_equal(f->loaded.parameters, f->untouched.parameters,
			    sizeof f->loaded.parameters);
	assert_memory_equal(f->loaded.shard_residual, f->untouched.shard_residual,
			    sizeof f->loaded.shard_residual);
}

static void assert_refused(struct fixture *f, int code, const char *part)
{
	assert_int_equal(load(f), code);
	assert_nothing_stored(f);
	if (!strstr(sluice_last_error(), part) || !strstr(sluice_last_error(), f->path))
		fail_msg("\"%s\" says neither \"%s\" nor %s", sluice_last_error(), part, f->path);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	if (!f || scratch_make(f->dir))
		return -1;
	snprintf(f->path, sizeof f->path, "%s/rank-00001", f->dir);
	fill(&f->saved, 1.5f);
	memset(&f->untouched, 0x5a, sizeof f->untouched);
	f->loaded = f->untouched;
	*state = f;
	if (save(f))
		return -1;
	f->n = (size_t)scratch_read(f->path, f->bytes);
	return f->n == f->sum.bytes ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	scratch_remove(f->dir);
	free(f);
	return 0;
}

/* ---- one rank's file ---------------------------------------------------------------------- */

static void round_trip__every_value_comes_back_bit_by_bit(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(load(f), 0);
	assert_memory_equal(&f->loaded, &f->saved, sizeof f->saved);
	assert_int_equal(scratch_count(f->dir).files, 1);
}

static void round_trip__sections_larger_than_the_buffer(void **state)
{
	enum { MANY = 400003 };
	struct fixture *f = *state;
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

static void round_trip__no_sections_at_all(void **state)
{
	struct fixture *f = *state;
	struct checkpoint_identity who = identity();
	struct checkpoint_file *file = NULL;

	assert_int_equal(checkpoint_file_write(f->path, &who, NULL, 0, &f->sum), 0);
	assert_int_equal(checkpoint_file_open(f->path, &who, NULL, 0, &f->sum, &file), 0);
	assert_int_equal(checkpoint_file_load(file), 0);
	checkpoint_file_close(&file);
}

static void write__same_state_gives_same_bytes(void **state)
{
	struct fixture *f = *state;
	uint8_t again[SCRATCH_FILE];
	struct checkpoint_sum first = f->sum;

	assert_int_equal(save(f), 0);
	assert_int_equal(scratch_read(f->path, again), (long)f->n);
	assert_memory_equal(again, f->bytes, f->n);
	assert_int_equal(first.crc, f->sum.crc);
}

static void write__not_finite_is_ENUMERIC_and_the_old_file_stays(void **state)
{
	struct fixture *f = *state;
	struct checkpoint_sum before = f->sum;

	f->saved.parameters[5] = NAN;
	assert_int_equal(save(f), SLUICE_ENUMERIC);
	assert_non_null(strstr(sluice_last_error(), "index 5 of the parameters of shard 3"));
	assert_int_equal(scratch_count(f->dir).partial, 0);
	assert_int_equal(f->sum.crc, before.crc);
	assert_int_equal(load(f), 0);
}

static void write__missing_folder_is_EIO(void **state)
{
	struct fixture *f = *state;

	snprintf(f->path, sizeof f->path, "%s/a/b", f->dir);
	assert_int_equal(save(f), SLUICE_EIO);
	assert_non_null(strstr(sluice_last_error(), "open"));
	assert_non_null(strstr(sluice_last_error(), f->path));
	assert_non_null(strstr(sluice_last_error(), "ENOENT"));
	assert_non_null(strstr(sluice_last_error(), "all ranks see"));
}

static void write__link_in_place_of_the_temporary_file_is_EIO(void **state)
{
	struct fixture *f = *state;
	char tmp[SCRATCH_PATH + 32];

	/* Not followed: it could lead anywhere. */
	snprintf(tmp, sizeof tmp, "%s.tmp", f->path);
	assert_int_equal(symlink("/dev/full", tmp), 0);
	assert_int_equal(save(f), SLUICE_EIO);
	assert_int_equal(unlink(tmp), 0);
	assert_int_equal(load(f), 0);
}

static void truncated__every_length_is_refused(void **state)
{
	struct fixture *f = *state;

	for (size_t n = 0; n < f->n; n++) {
		assert_int_equal(scratch_write(f->path, f->bytes, n), 0);
		assert_refused(f, SLUICE_EWIRE, "shorter");
	}
}

/* LATEST may be damaged in the same way as the file: the length alone must not save us. */
static void truncated__every_length_is_refused_also_when_LATEST_agrees(void **state)
{
	struct fixture *f = *state;

	for (size_t n = 0; n < f->n; n++) {
		assert_int_equal(scratch_write(f->path, f->bytes, n), 0);
		f->sum.bytes = n;
		assert_refused(f, SLUICE_EWIRE, "damaged");
	}
}

static void longer_file__refused(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(scratch_write(f->path, f->bytes, f->n + 1), 0);
	assert_refused(f, SLUICE_EWIRE, "longer");
}

static void flipped__every_byte_is_refused(void **state)
{
	static const uint8_t masks[] = { 0x01, 0x80, 0xff };
	struct fixture *f = *state;

	for (size_t i = 0; i < f->n; i++) {
		for (size_t m = 0; m < sizeof masks; m++) {
			f->bytes[i] ^= masks[m];
			assert_int_equal(scratch_write(f->path, f->bytes, f->n), 0);
			assert_refused(f, SLUICE_EWIRE, "");
			f->bytes[i] ^= masks[m];
		}
	}
}

static void flipped__message_names_the_section(void **state)
{
	struct fixture *f = *state;

	f->bytes[f->n - 5] ^= 4; /* just before the last CRC */
	assert_int_equal(scratch_write(f->path, f->bytes, f->n), 0);
	assert_refused(f, SLUICE_EWIRE, "the residual of shard 3: its CRC32C");
}

static void file_of_another_attempt__same_lengths_refused_by_the_sum(void **state)
{
	struct fixture *f = *state;
	struct checkpoint_sum first = f->sum;

	fill(&f->saved, 2.5f);
	assert_int_equal(save(f), 0);
	assert_int_equal(first.bytes, f->sum.bytes);
	assert_int_not_equal(first.crc, f->sum.crc);
	f->sum = first;
	assert_refused(f, SLUICE_EWIRE, "another file than LATEST names");
}

static void changed_between_open_and_load__refused(void **state)
{
	struct fixture *f = *state;
	struct checkpoint_section sections[SECTIONS];
	struct checkpoint_identity who = identity();
	struct checkpoint_file *file = NULL;

	sections_of(&f->loaded, sections);
	assert_int_equal(checkpoint_file_open(f->path, &who, sections, SECTIONS, &f->sum, &file),
			 0);
	assert_nothing_stored(f);
	f->bytes[f->n / 2] ^= 1;
	assert_int_equal(scratch_write(f->path, f->bytes, f->n), 0);
	assert_int_equal(checkpoint_file_load(file), SLUICE_EWIRE);
	checkpoint_file_close(&file);
}

static void missing_file__EIO(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(unlink(f->path), 0);
	assert_refused(f, SLUICE_EIO, "ENOENT");
}

static void no_regular_file__refused_without_waiting(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(mkfifo(f->path, 0600), 0);
	assert_refused(f, SLUICE_EWIRE, "no regular file");
}

/* ---- damage with valid CRCs --------------------------------------------------------------- */

/* Writes all CRC fields anew, for the lengths the sections had when they were written. */
static void reseal(struct fixture *f)
{
	size_t lengths[2 * (SECTIONS + 1) + 1] = { CHECKPOINT_HEADER_BYTES - 4, 16,
						   sizeof recipe - 1 },
					    n = 3;
	struct checkpoint_section sections[SECTIONS];
	uint32_t crc = 0;
	size_t at = 0;

	sections_of(&f->saved, sections);
	for (int i = 0; i < SECTIONS; i++) {
		lengths[n++] = 16;
		lengths[n++] = sections[i].count * (sections[i].values ? 4 : 8);
	}
	for (size_t i = 0; i < n; i++) {
		crc = crc32c(crc, f->bytes + at, lengths[i]);
		at += lengths[i];
		put_le32(f->bytes + at, crc);
		at += 4;
	}
	assert_int_equal(at, f->n);
	f->sum.crc = crc;
	assert_int_equal(scratch_write(f->path, f->bytes, f->n), 0);
}

enum { /* offsets in the fixture's file */
       RECIPE_AT = CHECKPOINT_HEADER_BYTES,
       WORKER_AT = RECIPE_AT + CHECKPOINT_SECTION_BYTES + sizeof recipe - 1,
       RESIDUAL_AT = WORKER_AT + CHECKPOINT_SECTION_BYTES + 8
};

static void resealed_unchanged__accepted(void **state)
{
	struct fixture *f = *state;

	reseal(f);
	assert_int_equal(load(f), 0);
}

static void resealed_magic__refused(void **state)
{
	struct fixture *f = *state;

	f->bytes[0] = 'X';
	reseal(f);
	assert_refused(f, SLUICE_EWIRE, "no checkpoint file of Sluice");
}

static void resealed_version__refused_naming_both(void **state)
{
	struct fixture *f = *state;

	put_le32(f->bytes + 4, 7);
	reseal(f);
	assert_refused(f, SLUICE_EWIRE, "format version 7");
	assert_non_null(strstr(sluice_last_error(), "reads version 1"));
}

static void resealed_reserved_field_and_length__refused(void **state)
{
	struct fixture *f = *state;

	f->bytes[64] = 1;
	reseal(f);
	assert_refused(f, SLUICE_EWIRE, "the header");
	f->bytes[64] = 0;
	put_le64(f->bytes + 56, f->n + 8);
	reseal(f);
	assert_refused(f, SLUICE_EWIRE, "the header");
}

static void resealed_bytes_after_the_last_section__refused(void **state)
{
	struct fixture *f = *state;

	put_le64(f->bytes + 56, f->n + 8);
	reseal(f);
	f->sum.bytes += 8;
	assert_int_equal(scratch_write(f->path, f->bytes, f->n + 8), 0);
	assert_refused(f, SLUICE_EWIRE, "bytes follow the last section");
}

static void resealed_number_of_sections__refused(void **state)
{
	struct fixture *f = *state;

	for (uint32_t n = 0; n < 12; n++) {
		if (n == SECTIONS + 1)
			continue;
		put_le32(f->bytes + 52, n);
		reseal(f);
		assert_refused(f, SLUICE_EWIRE, "number of sections");
	}
}

static void resealed_section_kind_id_and_duplicates__refused(void **state)
{
	struct fixture *f = *state;

	for (uint32_t kind = 0; kind < 12; kind++) {
		if (kind == SECTION_WORKER_RESIDUAL)
			continue;
		put_le32(f->bytes + RESIDUAL_AT, kind);
		reseal(f);
		assert_refused(f, SLUICE_EWIRE, "another section is in its place");
	}
	put_le32(f->bytes + RESIDUAL_AT, SECTION_WORKER_RESIDUAL);
	put_le32(f->bytes + RESIDUAL_AT + 4, 1);
	reseal(f);
	assert_refused(f, SLUICE_EWIRE, "another section is in its place");
}

static void resealed_section_length__refused(void **state)
{
	static const uint64_t lengths[] = { 0,
					    4,
					    COUNT * 4 - 4,
					    COUNT * 4 + 4,
					    COUNT * 4 + 1,
					    UINT32_MAX,
					    1ull << 32 | COUNT * 4,
					    INT64_MAX,
					    UINT64_MAX };
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		put_le64(f->bytes + RESIDUAL_AT + 8, lengths[i]);
		reseal(f);
		assert_refused(f, SLUICE_EWIRE, "the worker's residual: its length");
	}
}

static void resealed_recipe_length__refused(void **state)
{
	static const uint64_t lengths[] = { 1024, UINT32_MAX, UINT64_MAX };
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		put_le64(f->bytes + RECIPE_AT + 8, lengths[i]);
		reseal(f);
		assert_refused(f, SLUICE_EWIRE, "the recipe");
	}
}

static void resealed_recipe_with_NUL__refused(void **state)
{
	struct fixture *f = *state;

	f->bytes[RECIPE_AT + 20 + 3] = 0;
	reseal(f);
	assert_refused(f, SLUICE_EWIRE, "NUL");
}

static void resealed_values_not_finite__refused(void **state)
{
	static const uint32_t bits[] = { 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001,
					 0xffffffff };
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
		put_le32(f->bytes + RESIDUAL_AT + 20 + 4 * 3, bits[i]);
		reseal(f);
		assert_refused(f, SLUICE_EWIRE, "NaN or infinity");
	}
}

/* ---- made for something else -------------------------------------------------------------- */

static void assert_other(struct fixture *f, const struct checkpoint_identity *who, int code,
			 const char *first, const char *second)
{
	assert_int_equal(load_as(f, who), code);
	assert_nothing_stored(f);
	if (!strstr(sluice_last_error(), first) || !strstr(sluice_last_error(), second))
		fail_msg("\"%s\" lacks \"%s\" or \"%s\"", sluice_last_error(), first, second);
}

static void other_shape__EINVAL_naming_both(void **state)
{
	struct fixture *f = *state;
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

static void other_recipe__EINVAL_naming_both(void **state)
{
	struct fixture *f = *state;
	struct checkpoint_identity who = identity();

	who.recipe = "up=all";
	who.schema++;
	assert_other(f, &who, SLUICE_EINVAL, recipe, "\"up=all\"");
}

static void other_schema__EINVAL(void **state)
{
	struct fixture *f = *state;
	struct checkpoint_identity who = identity();

	who.schema++;
	assert_other(f, &who, SLUICE_EINVAL, "1122334455667788", "1122334455667789");
}

static void other_rank_step_or_generation__EWIRE(void **state)
{
	struct fixture *f = *state;
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
		CASE(round_trip__every_value_comes_back_bit_by_bit),
		CASE(round_trip__sections_larger_than_the_buffer),
		CASE(round_trip__no_sections_at_all),
		CASE(write__same_state_gives_same_bytes),
		CASE(write__not_finite_is_ENUMERIC_and_the_old_file_stays),
		CASE(write__missing_folder_is_EIO),
		CASE(write__link_in_place_of_the_temporary_file_is_EIO),
		CASE(truncated__every_length_is_refused),
		CASE(truncated__every_length_is_refused_also_when_LATEST_agrees),
		CASE(longer_file__refused),
		CASE(flipped__every_byte_is_refused),
		CASE(flipped__message_names_the_section),
		CASE(file_of_another_attempt__same_lengths_refused_by_the_sum),
		CASE(changed_between_open_and_load__refused),
		CASE(missing_file__EIO),
		CASE(no_regular_file__refused_without_waiting),
		CASE(resealed_unchanged__accepted),
		CASE(resealed_magic__refused),
		CASE(resealed_version__refused_naming_both),
		CASE(resealed_reserved_field_and_length__refused),
		CASE(resealed_bytes_after_the_last_section__refused),
		CASE(resealed_number_of_sections__refused),
		CASE(resealed_section_kind_id_and_duplicates__refused),
		CASE(resealed_section_length__refused),
		CASE(resealed_recipe_length__refused),
		CASE(resealed_recipe_with_NUL__refused),
		CASE(resealed_values_not_finite__refused),
		CASE(other_shape__EINVAL_naming_both),
		CASE(other_recipe__EINVAL_naming_both),
		CASE(other_schema__EINVAL),
		CASE(other_rank_step_or_generation__EWIRE),
	};

	sluice_set_log(quiet, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
