/* SPDX-License-Identifier: BSD-3-Clause
 * Publishes messages: reserves space in the log, writes the message there, and notifies the
 * workers. Also makes the headers of deltas, and snapshots. */
#ifndef RUNTIME_PUBLISH_H
#define RUNTIME_PUBLISH_H
#include "model/compressor.h"
#include "compress/message.h"

struct shard;

/* The readers of a publication. A publication for all workers is appended to the log. A publication
 * for a single worker (when=async) overwrites the previous publication for that worker. This is
 * safe, because the worker has read the previous one and waits for the new one. */
struct readers {
	int worker;      /* READERS_ALL, or the only worker that reads the publication */
	uint64_t before; /* the number of earlier publications for this worker alone */
};
enum { READERS_ALL = -1 };
#define READERS_EVERYBODY ((struct readers){ READERS_ALL, 0 })

/* publish_pick(), publish_all_of() and publish_support() encode m into the log.
 *
 * Makes a delta for all workers from a pick, whose positions count from the shard's first
 * coordinate. If the step has a note (model/census.h), the note follows the delta. On return *p
 * holds the emitted entries. Returns the place of the message in the log, whose *bytes_out bytes
 * publish_commit() announces. Returns NULL if a value is NaN or infinite, which ends the job. */
const uint8_t *publish_pick(struct shard *shard, struct message *m, struct pick *p,
			    size_t *bytes_out);
/* Publishes the values of all coordinates. Returns 1, or 0 if a value is NaN or infinite, which
 * ends the job. Afterwards the scratch holds the values that the readers decode. */
int publish_all_of(struct shard *shard, struct readers readers, struct message *m,
		   const float *value);
/* Publishes the coordinates of a support to all workers. */
void publish_support(struct shard *shard, struct message *m, const uint32_t *index);
/* The two halves of a publication, for a caller that writes the message into the log itself:
 * publish_reserve() returns the place, and publish_commit() announces the `bytes` that were written
 * there. */
uint8_t *publish_reserve(struct shard *shard, struct readers readers);
void publish_commit(struct shard *shard, struct readers readers, const struct message *m,
		    size_t bytes);
/* Ends the job, because the value to publish at this coordinate of the shard is not finite. */
void publish_overflowed(const struct shard *shard, uint32_t at);
/* Adds a delta to the shard's copy, from coordinate `at` on, with the functions by which the
 * workers add it to their parameters. Returns 1, or 0 if a parameter is no longer finite. The delta
 * must then not be announced, and publish_param_overflowed() ends the job. */
int publish_follow(struct shard *shard, uint32_t at, const uint32_t *index, const float *value,
		   uint32_t n);
void publish_param_overflowed(const struct shard *shard);

/* Each worker and each shard has its own random streams. Numbers below this one are workers. Shard
 * s has this number plus s. */
enum { SHARD_NUMBERS = 1 << 23 };

/* Returns a header with the fields that all publications of the shard share. */
struct message publish_head(const struct shard *shard, enum message_kind kind);
/* Returns the header of the next publication of this step, which has n coordinates. */
struct message publish_next(const struct shard *shard, enum message_kind kind, uint32_t n);
/* Returns the header of this step's delta, which has n coordinates. The fields that depend on the
 * coordinates are set when the delta is encoded. */
struct message publish_delta(const struct shard *shard, uint32_t n);
/* Counts the step. Called after its delta was published and added to the copy. */
void publish_step_ends(struct shard *shard);
/* Writes the copy as a snapshot entry of the current version. flags: how long ago they were raised
 * (compress/message.h), with quorum=; otherwise 0. */
int shard_publish_snapshot(struct shard *shard, uint64_t flags);
#endif
