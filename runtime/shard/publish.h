/* SPDX-License-Identifier: BSD-3-Clause
 * Publishing: takes a place in the log, writes the message there, and notifies the workers. Also
 * makes the header of a delta, and snapshots. */
#ifndef RUNTIME_PUBLISH_H
#define RUNTIME_PUBLISH_H
#include "model/compressor.h"
#include "compress/message.h"

struct shard;

/* The readers of a publication. A publication for all goes behind the last one in the log. A
 * publication for a single worker (when=async) overwrites one that this worker has read. That is
 * safe because the worker waits for the new one. */
struct readers {
	int worker;      /* READERS_ALL, or the only worker that reads it */
	uint64_t before; /* how many publications were made for this worker alone before */
};
enum { READERS_ALL = -1 };
#define READERS_EVERYBODY ((struct readers){ READERS_ALL, 0 })

/* The three functions that follow encode m into the log.
 *
 * A delta for all, of a pick whose positions count from the shard's first coordinate, with a note
 * (model/census.h) behind it if the step has one. *p is then what was emitted. Returns where the
 * message lies in the log: publish_commit() announces its *bytes_out. NULL: a value is NaN or
 * infinite, and the job ends. */
const uint8_t *publish_pick(struct shard *shard, struct message *m, struct pick *p,
			    size_t *bytes_out);
/* Publishes the values of all coordinates. Returns 1, or 0 where publish_pick() returns NULL. What
 * the readers decode is then in the scratch. */
int publish_all_of(struct shard *shard, struct readers readers, struct message *m,
		   const float *value);
/* Publishes the positions of a support, for all. */
void publish_support(struct shard *shard, struct message *m, const uint32_t *index);
/* The two halves of a publication, for a caller that writes the message into the log itself:
 * publish_reserve() returns the place, and publish_commit() announces the `bytes` that were written
 * there. */
uint8_t *publish_reserve(struct shard *shard, struct readers readers);
void publish_commit(struct shard *shard, struct readers readers, const struct message *m,
		    size_t bytes);
/* Ends the job, because the value to publish at this coordinate of the shard is not finite. */
void publish_overflowed(const struct shard *shard, uint32_t at);
/* Moves the copy from its coordinate `at` on, with the functions that move the workers' parameters.
 * Returns 1, or 0 if a parameter is no longer finite: the delta must not be announced then, and
 * publish_param_overflowed() ends the job. */
int publish_follow(struct shard *shard, uint32_t at, const uint32_t *index, const float *value,
		   uint32_t n);
void publish_param_overflowed(const struct shard *shard);

/* Streams of random numbers of a shard: workers are below it. */
enum { SHARD_NUMBERS = 1 << 23 };

/* The header fields that all publications of the shard share. */
struct message publish_head(const struct shard *shard, enum message_kind kind);
/* The header of the next publication of the step under way, which has n coordinates. */
struct message publish_next(const struct shard *shard, enum message_kind kind, uint32_t n);
/* The header of this step's delta, which has n coordinates. The fields that depend on them are set
 * when it is encoded. */
struct message publish_delta(const struct shard *shard, uint32_t n);
/* Counts the step, whose delta is published and added to the copy. */
void publish_step_ends(struct shard *shard);
/* Writes the copy as a snapshot entry of the current version. */
int shard_publish_snapshot(struct shard *shard);
#endif
