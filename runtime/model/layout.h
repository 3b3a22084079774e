/* SPDX-License-Identifier: BSD-3-Clause
 * Where everything of a model lies: shards and their owners, slots, logs, notices. Pure arithmetic
 * that every rank repeats, so that both ends of a transfer agree without asking. */
#ifndef RUNTIME_LAYOUT_H
#define RUNTIME_LAYOUT_H
#include "compress/select.h"
#include "recipe/schedule.h"
#include "sluice.h"

enum {
	SLOT_DEPTH = 2, /* slots of a (worker, shard) ring: one read, one being written */
	/* when=async: a push between two words that its worker parks, none of which it knows to be
	   read. */
	ASYNC_SLOT_DEPTH = 3,
	LOG_ENTRIES = 2,   /* versions a delta log keeps: staleness 0 + 2 */
	NOTICE_BYTES = 32, /* version, log_end, consumed_seq u64; last entry's bytes, CRC32C u32 */
	SHARD_ELEMENTS_MAX = 1 << 28
};

struct shard_layout {
	uint64_t begin;            /* first coordinate */
	uint32_t span;             /* coordinates */
	int owner;                 /* rank */
	uint32_t exempt;           /* coordinates sent whole (dense=) */
	uint32_t up_capacity;      /* most coordinates of a push message */
	uint32_t down_capacity;    /* most coordinates of a delta message */
	uint32_t support_capacity; /* most coordinates of an agreed support; 0: none is agreed */
	uint32_t sketch_columns, sketch_cells; /* up=sketch, else 0 */
	uint32_t slot_depth;                   /* slots of each worker's ring */
	uint32_t room; /* most coordinates that a message of any phase is made of or decoded to */
	size_t slot_bytes, delta_bytes, snapshot_bytes;
	size_t slots_offset;                           /* in the owner's window for any worker */
	size_t notice_index;                           /* among the owner's shards */
	size_t log_offset, log_bytes, snapshot_offset; /* in the owner's log region */
};

struct layout {
	uint64_t count;
	int size, workers;
	uint32_t n_shards;
	struct shard_layout *shards;
	/* of the whole vector, exempt or not, ascending, adjacent ones merged */
	struct span *spans;
	size_t n_spans;
	uint64_t exempt;        /* coordinates in exempt spans */
	uint64_t support_most;  /* support_capacity of all shards */
	uint64_t selected_most; /* coordinates that a worker selects in a step; 0 for up=all */
};

/* Shapes and capacities from the attributes and the recipe, whose counts become densities here.
 * SLUICE_EINVAL, SLUICE_ENOMEM. */
int layout_make(const sluice_model_attr *attr, struct recipe *recipe,
		const struct schedule *schedule, int size, int workers, struct layout *out);
void layout_free(struct layout *l);

/* A window: what `peer` may write at `rank`. First the slots of rank's shards (for workers), then
 * the notice lines for peer's shards. */
size_t layout_window_bytes(const struct layout *l, int rank, int peer);
size_t layout_notice_offset(const struct layout *l, int rank, const struct shard_layout *of_peer);
size_t layout_log_bytes(const struct layout *l, int rank);
/* The largest part of a shard's snapshot. */
size_t layout_part_bytes(const struct layout *l);
/* What the halves share out among their shards: room for the largest one at a time. owner: -1 for
 * any. */
struct layout_largest {
	size_t span, room, slot_bytes, up_capacity;
};
struct layout_largest layout_largest(const struct layout *l, int owner);
/* The spans of one shard, shard-relative; room for n_spans entries. Returns how many. */
size_t layout_shard_spans(const struct layout *l, const struct shard_layout *shard,
			  struct span *out);
#endif
