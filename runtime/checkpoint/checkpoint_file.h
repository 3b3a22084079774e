/* SPDX-License-Identifier: BSD-3-Clause
 * One rank's file of a checkpoint. These functions need no job; checkpoint.c decides what a file
 * contains. The format is little-endian:
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
 * in the file except for the CRC fields. The last one therefore covers the whole content, and
 * nothing can be moved or exchanged within a file. (The CRC of content that contains its own CRC
 * would be the same for all contents.) */
#ifndef RUNTIME_CHECKPOINT_FILE_H
#define RUNTIME_CHECKPOINT_FILE_H
#include <stdint.h>

enum {
	CHECKPOINT_VERSION = 1,
	CHECKPOINT_HEADER_BYTES = 72,
	CHECKPOINT_SECTION_BYTES = 24 /* bytes that a section takes in addition to its payload */
};

enum section_kind {
	SECTION_RECIPE = 1, /* text, which only checkpoint_file.c writes and compares */
	/* numbers: the bits of the learning rate; bit 32 is 1 if a new reference is needed */
	SECTION_WORKER,
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
	SECTION_WORKER_CENSUS = 16, /* numbers of census_save_worker() and census_save_shard() */
	SECTION_SHARD_CENSUS,
	SECTION_WORKER_GUARD, /* numbers: guard_save() */
	SECTION_SHARD_GUARD,  /* a number: how often the density was doubled */
	SECTION_SHARD_VARIANCE,
	SECTION_WORKER_OWN,  /* signal=drift: the program's parameters */
	SECTION_WORKER_BASE, /* quorum=: the common parameters of this worker's last exchange */
	SECTION_WORKER_BITS, /* number: bits_save() */
	SECTION_SHARD_BITS   /* number: shard_bits_save() */
};

/* A section of the content. Writers set the values; readers set the memory into which to read. Both
 * use the same table. */
struct checkpoint_section {
	enum section_kind kind;
	uint32_t id;
	uint64_t count; /* number of values or numbers */
	float *values;  /* finite values; if NULL, the section has numbers */
	uint64_t *numbers;
};

/* The rank and job that own the state, and the values that a reader expects. */
struct checkpoint_identity {
	uint32_t rank, size, workers, shards;
	uint64_t count, step, schema;
	uint32_t generation;
	const char *recipe;
};

/* The size and checksum of a file, as LATEST records them. */
struct checkpoint_sum {
	uint64_t bytes;
	uint32_t crc; /* the last CRC field of the file */
};

/* Writes the file durably. Fails with SLUICE_EIO, SLUICE_ENOMEM, or SLUICE_ENUMERIC if a value is
 * not finite. In the last case the run has diverged, and its checkpoint must not replace one that
 * can be restored. A failure leaves no file. */
int checkpoint_file_write(const char *path, const struct checkpoint_identity *identity,
			  const struct checkpoint_section *sections, uint32_t n_sections,
			  struct checkpoint_sum *sum_out);

struct checkpoint_file;

/* Opens and reads the whole file, and checks that it has exactly these sections in this order.
 * values[] do not change; numbers[] are filled, and the caller checks them. Fails with SLUICE_EIO
 * if the file cannot be read, and with SLUICE_EWIRE if it is damaged or is not the file that LATEST
 * names; the message then names file and section. Fails with SLUICE_EINVAL if the file was made for
 * another shape of the job, model or recipe; the message then names both. Also fails with
 * SLUICE_ENOMEM. */
int checkpoint_file_open(const char *path, const struct checkpoint_identity *identity,
			 const struct checkpoint_section *sections, uint32_t n_sections,
			 const struct checkpoint_sum *sum, struct checkpoint_file **file_out);
/* Fills values[] of all sections, and repeats every check. If the file has changed meanwhile or the
 * disk fails, this fails, and values[] are unspecified. */
int checkpoint_file_load(struct checkpoint_file *file);
/* The functions below handle the same content in memory, for programs that write it to their own
 * files. Its size depends only on the shape of the model. */
uint64_t checkpoint_bytes_size(const char *recipe, const struct checkpoint_section *sections,
			       uint32_t n_sections);
/* Writes exactly checkpoint_bytes_size() bytes. Fails with SLUICE_ENOMEM or SLUICE_ENUMERIC. */
int checkpoint_bytes_write(uint8_t *out, const struct checkpoint_identity *identity,
			   const struct checkpoint_section *sections, uint32_t n_sections);
/* Reads step and generation. They are not validated before checkpoint_bytes_open(). Returns 0 or
 * SLUICE_EWIRE. */
int checkpoint_bytes_peek(const uint8_t *bytes, uint64_t n, uint64_t *step_out,
			  uint32_t *generation_out);
/* Like checkpoint_file_open(). The bytes must stay valid until checkpoint_file_close(). */
int checkpoint_bytes_open(const uint8_t *bytes, uint64_t n,
			  const struct checkpoint_identity *identity,
			  const struct checkpoint_section *sections, uint32_t n_sections,
			  struct checkpoint_file **file_out);
/* Reports that the caller found numbers[] invalid: returns SLUICE_EWIRE with a message that names
 * file and section. */
int checkpoint_file_refuse(const struct checkpoint_file *file,
			   const struct checkpoint_section *section, const char *why);
void checkpoint_file_close(struct checkpoint_file **file);
#endif
