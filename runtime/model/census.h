/* SPDX-License-Identifier: BSD-3-Clause
 * The histogram service of a model: where the recipe says global, one threshold over all workers
 * (or, down, over all shards) says how many of the density's coordinates each of them selects.
 * Without a global direction nothing is done, kept or sent. Here is what its halves share:
 * worker/worker_census.c and shard/shard_census.c.
 *
 * Every so often each one's histogram of magnitudes travels with its message. The sum is answered
 * with the threshold that the density asks for, and each moves its share of the coordinates
 * towards what it has above that threshold. Between exchanges the shares stay, and everyone
 * selects exactly as many: its own threshold follows its own vector, and the density holds in
 * every step.
 *
 *   up:   workers' histograms with the pushes to shard 0; the threshold with shard 0's delta
 *   down: shards' histograms with their deltas, which every worker reads; the threshold, which all
 *         find alike, with the next pushes (a shard takes it from the first one that it counts)
 *
 * What travels follows its message in the slot or log entry, as a note, in these steps only:
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

/* 2 mantissa bits: thresholds within a few per cent of the density. */
enum { CENSUS_MANTISSA_BITS = 2, NOTE_FRAME_BYTES = 24, NOTE_HEADER_BYTES = 32 };

/* Room for the note behind a push to, or a delta of, a shard; 0 where there is none. */
size_t census_room(const struct recipe *recipe, uint32_t shard);
/* Whether this way's histograms travel in this step, and so a note with the push, or with the
 * delta. */
int census_exchanges(const struct direction *d, uint64_t step);
int census_push_has_note(const struct recipe *recipe, uint32_t shard, uint64_t step);
int census_delta_has_note(const struct recipe *recipe, uint32_t shard, uint64_t version);
/* Of who rounds its counts: a worker's rank; workers are below 2^23, a shard's numbers are no
 * worker's. */
struct random_stream census_stream(const struct recipe *recipe, uint32_t who, uint64_t step);

/* ---- one who selects ---- */
struct constituent {
	double share;                       /* of what an equal part would be: 1 at the beginning */
	struct sluice_histogram *histogram; /* of the last exchange, until its answer; then empty */
};

int constituent_open(
	struct constituent *c); /* 0 or SLUICE_ENOMEM; histogram is the caller's to free */
uint64_t constituent_memory(void);
/* How many of n coordinates it selects at this density: at least one, if n is not 0. */
uint64_t constituent_count(const struct constituent *c, double density, uint64_t n);
/* Looks at x and writes what was seen as a message; 0 bytes if there is NaN or infinity, which is
 * refused elsewhere. What the message says is kept, with its rounding: so the shares of all add
 * up. */
size_t constituent_look(struct constituent *c, const float *x, const struct span *spans,
			size_t n_spans, const struct random_stream *stream, uint8_t *out);
/* The answer to its histogram has come; level 0: fewer than asked for are not zero. */
void constituent_answered(struct constituent *c, float level, double density);
/* The share as a number of a checkpoint, and back. judge: NULL, or why it cannot be the share of
 * one who selects this way. */
uint64_t constituent_save(const struct constituent *c);
const char *constituent_judge(const struct direction *d, uint64_t bits);
void constituent_restore(struct constituent *c, uint64_t bits);

/* ---- notes ---- */
struct note {
	float level;
	const uint8_t *histogram;
	size_t histogram_bytes;
};

/* Returns its bytes. The histogram may be in its place, at out + NOTE_HEADER_BYTES, already. */
size_t note_write(const struct note *note, uint32_t shard, uint64_t seq, uint8_t *out);
/* Validates a private copy (census_room() bytes); SLUICE_EWIRE with *why. */
int note_read(const uint8_t *from, size_t n, uint32_t shard, uint64_t seq, uint8_t *copy,
	      struct note *note, const char **why);
/* Its histogram, if it has one, joins the sum; NULL where none was to come. SLUICE_EWIRE with
 * *why. */
int note_add(const struct note *note, struct sluice_histogram *sum, const char **why);
#endif
