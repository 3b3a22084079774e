/* SPDX-License-Identifier: BSD-3-Clause
 * The way of every publication out of a shard: a place in the log, the message in it, and the
 * workers that are to hear of it. Also the header of a delta, and snapshots. */
#ifndef RUNTIME_PUBLISH_H
#define RUNTIME_PUBLISH_H
#include "model/compressor.h"
#include "model/model.h"

struct shard;

/* Who reads a publication. A publication for all goes behind the last one in the log. One for a
 * single worker (when=async) goes where that worker has read what lay there: it waits for this. */
struct readers {
	int worker;      /* READERS_ALL, or the only one */
	uint64_t before; /* publications that were made for this one before */
};
enum { READERS_ALL = -1 };
#define READERS_EVERYBODY ((struct readers){ READERS_ALL, 0 })

/* Each encodes m into the log and announces it. */
/* A delta for all, of a pick whose positions count from the shard's first coordinate, with the note
 * that the step may want behind it. *p is then what was emitted. Returns where the message lies in
 * the log; NULL: a value is NaN or infinite, and the job ends before anybody hears of it. */
const uint8_t *publish_pick(sluice_model *model, struct shard *shard, struct message *m,
			    struct pick *p);
/* The values of all coordinates, 1, or 0 as above. What the readers decode is then in the scratch.
 */
int publish_all_of(sluice_model *model, struct shard *shard, struct readers readers,
		   struct message *m, const float *value);
/* The positions of a support, for all. */
void publish_support(sluice_model *model, struct shard *shard, struct message *m,
		     const uint32_t *index);
/* The two ends of it, for whoever makes the message in its place. */
uint8_t *publish_reserve(struct shard *shard, struct readers readers);
void publish_commit(sluice_model *model, struct shard *shard, struct readers readers,
		    const struct message *m, size_t bytes);
/* The job ends: what is to be published has no finite value at this coordinate of the shard. */
void publish_overflowed(sluice_model *model, const struct shard *shard, uint32_t at);

/* What the delta of this step says of itself, but for the coordinates, of which it has n. */
struct message publish_delta(const sluice_model *model, const struct shard *shard, uint32_t n);
/* The delta of this step is published, and in the copy. */
void publish_step_ends(struct shard *shard);
#endif
