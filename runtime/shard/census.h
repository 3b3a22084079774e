/* SPDX-License-Identifier: BSD-3-Clause
 * The histogram service of a model: where the recipe says global, one threshold over all workers (or, down,
 * over all shards) says how many of the density's coordinates each of them selects. Called by worker.c and
 * shard.c; without a global direction nothing is done, kept or sent.
 *
 * Every so often each one's histogram of magnitudes travels with its message. The sum is answered with the
 * threshold that the density asks for, and each moves its share of the coordinates towards what it has above
 * that threshold. Between exchanges the shares stay, and everyone selects exactly as many: its own
 * threshold follows its own vector, and the density holds in every step.
 *
 *   up:   workers' histograms with the pushes to shard 0; the threshold with shard 0's delta
 *   down: shards' histograms with their deltas, which every worker reads; the threshold, which all find
 *         alike, with the next pushes (a shard takes it from the first one that it counts)
 *
 * What travels follows its message in the slot or log entry, as a note, in these steps only:
 *   offset size                          offset size
 *        0    4 magic "SLN1"                 16    4 shard
 *        4    4 bytes from 24 on             20    4 CRC32C of bytes 0..19 and from 24 on
 *        8    8 seq of the message           24    4 threshold, f32 bits; 0: none
 *                                            28    4 bytes of the histogram; 0: none
 *                                            32      histogram (histogram.h), padded with zeros to a
 *                                                    multiple of 4 bytes */
#ifndef RUNTIME_CENSUS_H
#define RUNTIME_CENSUS_H
#include "compress/histogram.h"
#include "recipe/recipe.h"

struct shard;

/* Of one who selects. */
struct constituent {
	double share;                       /* of what an equal part would be: 1 at the beginning */
	struct sluice_histogram *histogram; /* of the last exchange, until its answer; then empty */
};

/* The halves run on different threads and share nothing. */
struct census {
	struct worker_census {
		struct constituent up;
		struct sluice_histogram *shards; /* down: sum of the step */
		float up_level, down_level;      /* newest answers; down: of the last step */
		uint8_t *note;                   /* a private copy, and where a message is made */
		size_t message_bytes;
	} worker;
	struct shard_census {
		struct constituent *down;        /* n_own */
		struct sluice_histogram *workers; /* up, at shard 0: sum of the step */
		uint8_t *note;
	} shard;
};

/* Room for the note behind a push to, or a delta of, a shard; 0 where there is none. Memory of a rank that
 * owns so many shards. */
size_t census_room(const struct recipe *recipe, uint32_t shard);
uint64_t census_memory(const struct recipe *recipe, uint32_t n_own);
int census_open(sluice_model *model); /* 0 or SLUICE_ENOMEM */
void census_close(sluice_model *model);

/* How many of n coordinates are selected at this density, by the worker, or by a shard. */
uint64_t census_up_count(const sluice_model *model, double density, uint64_t n);
uint64_t census_down_count(const sluice_model *model, const struct shard *shard, double density, uint64_t n);

/* ---- worker half, in the order of a step ---- */
/* At the accumulator, before what was selected leaves. */
void census_look(sluice_model *model);
/* Writes the note behind a push; returns its bytes. */
size_t census_note_push(sluice_model *model, uint32_t shard, uint64_t seq, uint8_t *out);
/* Takes the note behind a delta; SLUICE_EWIRE with *why. */
int census_take_delta(sluice_model *model, uint32_t shard, const uint8_t *note, size_t n,
		      const char **why);
/* All deltas of the step are there. */
void census_end_step(sluice_model *model);

/* ---- shard half ---- */
int census_take_push(sluice_model *model, struct shard *shard, uint64_t seq, const uint8_t *note,
		     size_t n, const char **why);
/* Before what was selected leaves. */
size_t census_note_delta(sluice_model *model, struct shard *shard, uint8_t *out);

/* ---- checkpoints: all that a restart needs, between two steps ---- */
enum { CENSUS_WORKER_NUMBERS = 2 };
size_t census_shard_numbers(void);
void census_save_worker(const sluice_model *model, uint64_t *numbers);
void census_save_shard(const sluice_model *model, uint32_t own, uint64_t *numbers);
/* SLUICE_EWIRE: numbers that none can be. */
int census_restore_worker(sluice_model *model, const uint64_t *numbers);
int census_restore_shard(sluice_model *model, uint32_t own, const uint64_t *numbers);
#endif
