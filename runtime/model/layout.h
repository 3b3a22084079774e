/* SPDX-License-Identifier: BSD-3-Clause
 * Shapes and capacities of a model's shards and of their messages. This is pure arithmetic that
 * every rank repeats, so both ends of a transfer agree without communication. */
#ifndef RUNTIME_LAYOUT_H
#define RUNTIME_LAYOUT_H
#include "compress/select.h"
#include "compress/sketch.h"
#include "model/transform.h"
#include "recipe/schedule.h"
#include "sluice.h"

enum {
	SLOT_DEPTH = 2, /* slots per (worker, shard) ring: the shard reads one while the worker
			   writes the other */
	/* With when=async a worker may send a parking message, a push and another parking message
	 * before it learns that any of them was read. */
	ASYNC_SLOT_DEPTH = 3,
	LOG_ENTRIES = 2, /* number of versions in a delta log, which has room for one more */
	/* With quorum=, a worker that is at most this many publications behind reads them one after
	 * the other. One that is further behind reads the parameters themselves. */
	QUORUM_LOG_ENTRIES = 4,
	NOTICE_BYTES = 32, /* version, log_end, consumed_seq u64; bytes of the last entry, CRC32C
			      u32 */
	SHARD_ELEMENTS_MAX = 1 << 28,
	SHARDS_MAX = 0xffffff,
	/* A shard whose messages and parameters have at most this many coordinates is short. */
	SHORT_SHARD_COORDINATES = 1 << 14
};

struct holdings;

/* The shards that are exchanged in the same step, and their coordinates. Unless the recipe has
 * fragments, these are all. */
struct fragment {
	uint32_t first, end; /* shards first .. end - 1 */
	uint64_t begin, count;
	uint64_t exempt;
};

struct shard_layout {
	uint64_t begin;            /* first coordinate */
	uint32_t span;             /* coordinates */
	uint32_t exempt;           /* number of coordinates that are sent whole (dense=) */
	uint32_t fragment;         /* the fragment of when=every(H),fragments(P); otherwise 0 */
	uint32_t up_capacity;      /* most coordinates of a push message */
	uint32_t down_capacity;    /* most coordinates of a delta message */
	uint32_t support_capacity; /* most coordinates of an agreed support; 0 if there is none */
	uint32_t sketch_columns, sketch_cells; /* 0 unless up=sketch */
	uint32_t slot_depth;                   /* slots in each worker's ring */
	/* 1: dense messages bypass the caches, because the whole vector does not fit into them. */
	int past_caches;
	/* The most coordinates in a message of any phase before it is encoded or after it is
	 * decoded. */
	uint32_t room;
	size_t slot_bytes, delta_bytes, log_bytes, snapshot_bytes; /* whole cache lines */
	/* With quorum=, publication v begins at place (v - 1) % log_places of the log, each of
	 * which has delta_bytes; else 0. */
	uint32_t log_places;
};

struct layout {
	uint64_t count;
	int size, workers;
	uint32_t n_shards, n_fragments;
	struct shard_layout *shards;
	struct fragment *fragments;
	struct holdings *holdings; /* the holders of each shard (holdings_make() in home.h) */
	/* Spans that cover the whole vector, exempt or not, in ascending order. Adjacent spans are
	 * merged. */
	struct span *spans;
	size_t n_spans;
	uint64_t exempt;             /* number of coordinates in exempt spans */
	uint64_t support_most;       /* sum of support_capacity over all shards */
	uint64_t selected_most;      /* number of coordinates that a worker selects in a step; 0 for
					up=all */
	struct transform *transform; /* NULL unless the recipe has one */
	int narrow_params;           /* the program's parameters have 16-bit elements */
};

/* Computes shapes and capacities from the attributes and the recipe, and converts the recipe's
 * counts to densities. Returns 0, SLUICE_EINVAL or SLUICE_ENOMEM. */
int layout_make(const sluice_model_attr *attr, struct recipe *recipe,
		const struct schedule *schedule, int size, int workers, struct layout *out);
void layout_free(struct layout *l);

/* Returns the size in bytes of the largest part of any shard's snapshot. */
size_t layout_part_bytes(const struct layout *l);
/* The largest sizes among the shards that a rank holds. They give the size of scratch memory that
 * these shards share. rank -1: all shards. */
struct layout_largest {
	size_t span, room, slot_bytes, up_capacity;
};
struct layout_largest layout_largest(const struct layout *l, int rank_or_any);
static inline struct fragment layout_fragment(const struct layout *l, uint32_t fragment)
{
	return l->fragments[fragment];
}
/* Returns 1 if the shard takes about as long to sum and publish as a message takes to send. The
 * notices of a rank's short shards to one worker are sent together, and so are the worker's READs.
 * A long shard does not wait for others, so workers read it while its rank sums the next one. */
static inline int shard_is_short(const struct shard_layout *at, int workers)
{
	const uint64_t pushed = (uint64_t)workers * at->up_capacity;

	return pushed + at->span <= SHORT_SHARD_COORDINATES;
}
/* Writes the spans within coordinates begin .. end - 1 to out[n_spans]. Returns their number. */
size_t layout_spans(const struct layout *l, uint64_t begin, uint64_t end, struct span *out);
/* Writes the spans of one shard, relative to the shard, to out[n_spans]. Returns their number. */
size_t layout_shard_spans(const struct layout *l, const struct shard_layout *shard,
			  struct span *out);
/* Returns the shape of each worker's sketch of a shard. */
static inline struct sketch_shape layout_sketch_shape(const struct recipe *recipe,
						      const struct shard_layout *at, uint32_t shard)
{
	return (struct sketch_shape){ recipe->up.sketch_rows, at->sketch_columns, shard };
}
#endif
