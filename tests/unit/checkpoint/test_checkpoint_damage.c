/* SPDX-License-Identifier: BSD-3-Clause
 * Every way in which one rank's checkpoint file can be damaged: truncated, with flipped bits,
 * exchanged, and with matching CRCs. Every refusal comes before anything is stored. */
#include "base/bytes.h"
#include "quiet.h"
#include "rank_file.h"
#include "sluice.h"
#include "cases.h"
#include <string.h>

CASE(truncated__every_length_is_refused)
{
	for (size_t n = 0; n < f->n; n++) {
		assert_int_equal(scratch_write(f->path, f->bytes, n), 0);
		assert_refused(f, SLUICE_EWIRE, "shorter");
	}
}

/* LATEST may have the same damage as the file, so a comparison of the lengths is not enough. */
CASE(truncated__every_length_is_refused_also_when_LATEST_agrees)
{
	for (size_t n = 0; n < f->n; n++) {
		assert_int_equal(scratch_write(f->path, f->bytes, n), 0);
		f->sum.bytes = n;
		assert_refused(f, SLUICE_EWIRE, "damaged");
	}
}

CASE(longer_file__refused)
{
	assert_int_equal(scratch_write(f->path, f->bytes, f->n + 1), 0);
	assert_refused(f, SLUICE_EWIRE, "longer");
}

CASE(flipped__every_byte_is_refused)
{
	static const uint8_t masks[] = { 0x01, 0x80, 0xff };
	for (size_t i = 0; i < f->n; i++) {
		for (size_t m = 0; m < sizeof masks; m++) {
			f->bytes[i] ^= masks[m];
			assert_int_equal(scratch_write(f->path, f->bytes, f->n), 0);
			assert_refused(f, SLUICE_EWIRE, "");
			f->bytes[i] ^= masks[m];
		}
	}
}

CASE(flipped__message_names_the_section)
{
	f->bytes[f->n - 5] ^= 4; /* just before the last CRC */
	assert_int_equal(scratch_write(f->path, f->bytes, f->n), 0);
	assert_refused(f, SLUICE_EWIRE, "the residual of shard 3: its CRC32C");
}

CASE(file_of_another_attempt__same_lengths_refused_by_the_sum)
{
	struct checkpoint_sum first = f->sum;

	fill_state(&f->saved, 2.5f);
	assert_int_equal(save(f), 0);
	assert_int_equal(first.bytes, f->sum.bytes);
	assert_int_not_equal(first.crc, f->sum.crc);
	f->sum = first;
	assert_refused(f, SLUICE_EWIRE, "another file than LATEST names");
}

CASE(changed_between_open_and_load__refused)
{
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

/* ---- damage with valid CRCs ------------------------------------------------ */

/* Writes all CRC fields again, for the lengths that the sections had when they were written. */
static void reseal(struct fixture *f)
{
	size_t lengths[2 * (SECTIONS + 1) + 1] = { CHECKPOINT_HEADER_BYTES - 4, 16,
						   sizeof RECIPE - 1 },
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
       WORKER_AT = RECIPE_AT + CHECKPOINT_SECTION_BYTES + sizeof RECIPE - 1,
       RESIDUAL_AT = WORKER_AT + CHECKPOINT_SECTION_BYTES + 8
};

CASE(resealed_unchanged__accepted)
{
	reseal(f);
	assert_int_equal(load(f), 0);
}

CASE(resealed_magic__refused)
{
	f->bytes[0] = 'X';
	reseal(f);
	assert_refused(f, SLUICE_EWIRE, "no checkpoint file of Sluice");
}

CASE(resealed_version__refused_naming_both)
{
	put_le32(f->bytes + 4, 7);
	reseal(f);
	assert_refused(f, SLUICE_EWIRE, "format version 7");
	assert_non_null(strstr(sluice_last_error(), "reads version 1"));
}

CASE(resealed_reserved_field_and_length__refused)
{
	f->bytes[64] = 1;
	reseal(f);
	assert_refused(f, SLUICE_EWIRE, "the header");
	f->bytes[64] = 0;
	put_le64(f->bytes + 56, f->n + 8);
	reseal(f);
	assert_refused(f, SLUICE_EWIRE, "the header");
}

CASE(resealed_bytes_after_the_last_section__refused)
{
	put_le64(f->bytes + 56, f->n + 8);
	reseal(f);
	f->sum.bytes += 8;
	assert_int_equal(scratch_write(f->path, f->bytes, f->n + 8), 0);
	assert_refused(f, SLUICE_EWIRE, "bytes follow the last section");
}

CASE(resealed_number_of_sections__refused)
{
	for (uint32_t n = 0; n < 12; n++) {
		if (n == SECTIONS + 1)
			continue;
		put_le32(f->bytes + 52, n);
		reseal(f);
		assert_refused(f, SLUICE_EWIRE, "number of sections");
	}
}

CASE(resealed_section_kind_id_and_duplicates__refused)
{
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

CASE(resealed_section_length__refused)
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
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		put_le64(f->bytes + RESIDUAL_AT + 8, lengths[i]);
		reseal(f);
		assert_refused(f, SLUICE_EWIRE, "the worker's residual: its length");
	}
}

CASE(resealed_recipe_length__refused)
{
	static const uint64_t lengths[] = { 1024, UINT32_MAX, UINT64_MAX };
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		put_le64(f->bytes + RECIPE_AT + 8, lengths[i]);
		reseal(f);
		assert_refused(f, SLUICE_EWIRE, "the recipe");
	}
}

CASE(resealed_recipe_with_NUL__refused)
{
	f->bytes[RECIPE_AT + 20 + 3] = 0;
	reseal(f);
	assert_refused(f, SLUICE_EWIRE, "NUL");
}

CASE(resealed_values_not_finite__refused)
{
	static const uint32_t bits[] = { 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001,
					 0xffffffff };
	for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
		put_le32(f->bytes + RESIDUAL_AT + 20 + 4 * 3, bits[i]);
		reseal(f);
		assert_refused(f, SLUICE_EWIRE, "NaN or infinity");
	}
}
