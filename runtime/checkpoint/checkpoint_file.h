/* SPDX-License-Identifier: BSD-3-Clause
 * One rank's file of a checkpoint: pure file work, no job. checkpoint.c says what goes in.
 * Little-endian:
 *
 *   header  offset size field                 section  offset size field
 *                0    4 magic "SLCK"                        0    4 kind
 *                4    4 format version                      4    4 id       shard, else 0
 *                8    4 rank                                8    8 bytes    of the payload
 *               12    4 size                               16    4 CRC32C
 *               16    4 workers                            20      payload
 *               20    4 shards                                   4 CRC32C
 *               24    8 count        parameters
 *               32    8 step
 *               40    8 schema       digest of the model
 *               48    4 generation   random, of this checkpoint
 *               52    4 sections     that follow
 *               56    8 file bytes
 *               64    4 reserved, 0
 *               68    4 CRC32C
 *
 * The first section is the recipe's text. Each CRC32C field holds the CRC of everything before it
 * in the file except the CRC fields themselves; so the last one stands for the whole content, and
 * nothing can be moved or exchanged within a file. (A plain CRC over content that contains its own
 * CRC would be the same for all contents.) */
#ifndef RUNTIME_CHECKPOINT_FILE_H
#define RUNTIME_CHECKPOINT_FILE_H
#include <stdint.h>

enum {
	CHECKPOINT_VERSION = 1,
	CHECKPOINT_HEADER_BYTES = 72,
	CHECKPOINT_SECTION_BYTES = 24 /* what a section needs besides its payload */
};

enum section_kind {
	SECTION_RECIPE = 1, /* text; written and compared by checkpoint_file.c itself */
	SECTION_WORKER,     /* numbers: bits of the learning rate; bit 32: a new reference is due */
	SECTION_WORKER_RESIDUAL,
	SECTION_WORKER_VELOCITY,
	SECTION_SHARD, /* numbers: version */
	SECTION_SHARD_PARAMETERS,
	SECTION_SHARD_RESIDUAL,
	SECTION_SHARD_VELOCITY,
	SECTION_WORKER_MEMORY,
	SECTION_WORKER_FILTER,
	SECTION_WORKER_PREVIOUS,
	SECTION_WORKER_REFERENCE,
	SECTION_WORKER_SINCE,
	SECTION_WORKER_LAZY, /* numbers: lazy_save() */
	SECTION_SHARD_RUNNING,
	SECTION_WORKER_CENSUS = 16, /* numbers: as census_save_worker() and _shard() say */
	SECTION_SHARD_CENSUS
};

/* What is written, and where what is read goes: the same table in both directions. */
struct checkpoint_section {
	enum section_kind kind;
	uint32_t id;
	uint64_t count; /* of values or numbers */
	float *values;  /* finite; or NULL and */
	uint64_t *numbers;
};

/* Whose state it is; what a reader expects to find. */
struct checkpoint_identity {
	uint32_t rank, size, workers, shards;
	uint64_t count, step, schema;
	uint32_t generation;
	const char *recipe;
};

/* What LATEST remembers of a file. */
struct checkpoint_sum {
	uint64_t bytes;
	uint32_t crc; /* its last CRC field */
};

/* Writes the file durably. SLUICE_EIO, SLUICE_ENOMEM; SLUICE_ENUMERIC if a value is not finite (the
 * run has diverged: what could not be restored must not replace what can). Nothing is left on
 * failure. */
int checkpoint_file_write(const char *path, const struct checkpoint_identity *identity,
			  const struct checkpoint_section *sections, uint32_t n_sections,
			  struct checkpoint_sum *sum_out);

struct checkpoint_file;

/* Opens and reads the whole file, and compares everything with what is expected: exactly these
 * sections in this order. values[] stay untouched; numbers[] are filled in, the caller judges them.
 * SLUICE_EIO (cannot be read), SLUICE_EWIRE (damaged, or not the file LATEST names; file and
 * section are named), SLUICE_EINVAL (made for another job shape, model or recipe; both are named),
 * SLUICE_ENOMEM. */
int checkpoint_file_open(const char *path, const struct checkpoint_identity *identity,
			 const struct checkpoint_section *sections, uint32_t n_sections,
			 const struct checkpoint_sum *sum, struct checkpoint_file **file_out);
/* Fills values[] of all sections. Every check is made again: on failure (the file changed
 * meanwhile, or the disk failed) values[] are unspecified. */
int checkpoint_file_load(struct checkpoint_file *file);
/* For the caller's judgement of numbers[]: SLUICE_EWIRE with a sentence that names file and
 * section. */
int checkpoint_file_refuse(const struct checkpoint_file *file,
			   const struct checkpoint_section *section, const char *why);
void checkpoint_file_close(struct checkpoint_file **file);
#endif
