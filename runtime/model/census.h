/* SPDX-License-Identifier: BSD-3-Clause
 * The histogram service of a model, for recipes with a global direction. One threshold over all
 * workers, or for deltas over all shards, determines how many of the density's coordinates each of
 * them selects. Without a global direction, the service does nothing. This file has the code that
 * worker/worker_census.c and shard/shard_census.c share.
 *
 * At intervals, each participant sends a histogram of its magnitudes with its message. The sum of
 * the histograms gives the threshold that yields the density, and each participant moves its share
 * towards the number of its coordinates above the threshold. Between exchanges the shares stay the
 * same, and each participant selects exactly its share, so the density holds in every step.
 *
 *   up:   workers' histograms with the pushes to shard 0; the threshold with shard 0's delta
 *   down: shards' histograms with their deltas, which every worker reads; the threshold, which all
 *         compute alike, with the next pushes (a shard takes it from the first one that it counts)
 *
 * In these steps only, a note follows the message in its slot or log entry:
 *   offset size                          offset size
 *        0    4 magic "SLN1"                 16    4 shard
 *        4    4 bytes from 24 on             20    4 CRC32C of bytes 0..19 and from 24 on
 *        8    8 seq of the message           24    4 threshold, f32 bits; 0: none
 *                                            28    4 bytes of the histogram; 0: none
 *                                            32      histogram (histogram.h), padded with zeros
 *                                                    to a multiple of 4 bytes */
#ifndef RUNTIME_CENSUS_H
#define RUNTIME_CENSUS_H
#include "compress/histogram.h"
#include "compress/random.h"
#include "recipe/recipe.h"

/* With 2 bits of mantissa, a threshold gives the density to within a few per cent. */
enum { CENSUS_MANTISSA_BITS = 2, NOTE_FRAME_BYTES = 24, NOTE_HEADER_BYTES = 32 };

/* Returns the size of the note that can follow a push to this shard, or a delta of it. Returns 0 if
 * neither ever has a note. */
size_t census_room(const struct recipe *recipe, uint32_t shard);
/* Returns 1 if histograms of this direction are sent in this step, with a note after each push or
 * delta. */
int census_exchanges(const struct direction *d, uint64_t step);
int census_push_has_note(const struct recipe *recipe, uint32_t shard, uint64_t step);
int census_delta_has_note(const struct recipe *recipe, uint32_t shard, uint64_t version);
/* Returns the random stream that rounds a participant's counts. who: the worker's rank, which is
 * below 2^23, or a number that stands for a shard and differs from every rank. */
struct random_stream census_stream(const struct recipe *recipe, uint32_t who, uint64_t step);

/* ---- one participant ---- */
struct constituent {
	double share; /* share of the selected coordinates, relative to an equal part; 1 at the
			 start */
	/* The counts of the last exchange. They are kept until the threshold arrives. */
	struct sluice_histogram *histogram;
};

/* Returns 0 or SLUICE_ENOMEM. The caller frees the histogram. */
int constituent_open(struct constituent *c);
uint64_t constituent_memory(void);
/* Returns how many of n coordinates the participant selects at this density: at least one if n is
 * not 0. */
uint64_t constituent_count(const struct constituent *c, double density, uint64_t n);
/* Counts x and writes the histogram as a message. Writes 0 bytes if x has NaN or infinity; another
 * check refuses such values. The participant keeps the counts as the message rounded them, so that
 * all shares add up. */
size_t constituent_look(struct constituent *c, const float *x, const struct span *spans,
			size_t n_spans, const struct random_stream *stream, uint8_t *out);
/* Handles the threshold that follows from the participant's histogram. A level of 0 means that
 * there are fewer non-zero coordinates than requested. */
void constituent_answered(struct constituent *c, float level, double density);
/* Convert the share to a number in a checkpoint and back. constituent_judge() returns NULL, or the
 * reason why the number cannot be a participant's share. */
uint64_t constituent_save(const struct constituent *c);
const char *constituent_judge(const struct direction *d, uint64_t bits);
void constituent_restore(struct constituent *c, uint64_t bits);

/* ---- notes ---- */
struct note {
	float level;
	const uint8_t *histogram;
	size_t histogram_bytes;
};

/* Writes the note and returns its length. The histogram may already be at out +
 * NOTE_HEADER_BYTES. */
size_t note_write(const struct note *note, uint32_t shard, uint64_t seq, uint8_t *out);
/* Validates a note of census_room() bytes in private memory. If it is not valid, returns
 * SLUICE_EWIRE and sets *why. */
int note_read(const uint8_t *from, size_t n, uint32_t shard, uint64_t seq, uint8_t *copy,
	      struct note *note, const char **why);
/* Adds the note's histogram, if it has one, to the sum. sum is NULL if no histogram is expected. If
 * the note is refused, returns SLUICE_EWIRE and sets *why. */
int note_add(const struct note *note, struct sluice_histogram *sum, const char **why);
#endif
