/* SPDX-License-Identifier: BSD-3-Clause
 * One pass over the vector, by one thread or several. select.c estimates the bounds of a pass. */
#ifndef COMPRESS_SELECT_SWEEP_H
#define COMPRESS_SELECT_SWEEP_H
#include "select.h"
#include "select_kernels.h"
#include "base/team.h"
#include <pthread.h>

/* A single thread lists coordinates directly into their place, tile after tile. With several
 * threads, larger tiles let them wait for each other less often. */
enum { TILE = 16384, TILE_SHARED = 65536 };

/* The entries of one tile that are listed but are not yet in their place. */
struct select_stage {
	uint32_t *index, *near_index;
	float *value, *near_value;
};

struct selector {
	const struct select_kernels *kernels;
	size_t n, near_room;
	size_t tile, shared_tile;  /* of one thread, and of several */
	size_t merge_least;        /* if there are at least this many sure coordinates, each thread
				      merges a share */
	uint32_t *near_index;      /* near_room entries */
	float *near_value;         /* near_room entries; holds the sample before the pass */
	uint32_t *counts;          /* BINS entries */
	struct select_stage stage; /* for a sweep by one thread */
	struct team *team;         /* NULL for one thread */
	int owns_team;
	pthread_mutex_t lock; /* protects the sweep under way */
};

/* Return the bytes of a stage for tiles of this length, which is a multiple of 16, and the stage in
 * memory of that size. */
static inline size_t stage_bytes(size_t tile)
{
	return (tile + LISTS_SLACK + 3) / 4 * 4 * 4 * sizeof(float);
}
static inline struct select_stage stage_in(void *memory, size_t tile)
{
	const size_t room = tile + LISTS_SLACK;
	float *value = memory;

	return (struct select_stage){ .value = value,
				      .near_value = value + room,
				      .index = (void *)(value + 2 * room),
				      .near_index = (void *)(value + 3 * room) };
}

enum sweep_end {
	SWEEP_COMPLETE,
	SWEEP_TOO_MANY, /* more than k are sure, so the boundary is higher */
	SWEEP_OVERFULL  /* there is no room for all near coordinates */
};

struct sweep {
	struct selector *s;
	struct team *team; /* the selector's, if sweep_run() could take it */
	const struct select_call *call;
	int adding;     /* 1: residual += scale * grad is computed during the pass */
	int one_key;    /* 1: all near coordinates have the same key, so the first near_room are
			   enough */
	int merge_ties; /* 1: this pass also selects the first `ties` near coordinates */
	size_t ties;
	int ties_found; /* 1: enough ties were found, so the pass looks for no more */
	struct select_bounds bounds;
	size_t budget, room; /* k, and the entries of call->index */
	/* The result. */
	size_t n, counted; /* number of listed coordinates, and how many of them count towards the
			      budget */
	size_t n_near, near_stored;
	int32_t largest;
	enum sweep_end end;
	/* The next tile. Protected by lock. */
	size_t span;
	uint64_t at, next_tile;
	/* The tiles before this one are in place. */
	uint64_t turn;
};

/* BOUNDS_NOTHING has bounds between which there is only NaN. With BOUNDS_NONZERO, all non-zeros are
 * sure. */
#define BOUNDS_NOTHING ((struct select_bounds){ KEY_MASK, KEY_INFINITY })
#define BOUNDS_NONZERO ((struct select_bounds){ 0, 0 })

void sweep_run(struct sweep *w);
/* Completes a good pass. Returns the number of selected coordinates and the k-th largest key. near:
 * the interval of the pass. */
size_t sweep_finish(struct sweep *w, struct known near, uint32_t *boundary);

/* A cut selects the keys above floor, and the first `ties` of those equal to it. */
struct cut {
	uint32_t floor;
	size_t ties;
};
/* Returns the cut that selects the `need` largest of v[0..n), whose keys are in [low, high]. 0 <
 * need <= n. */
struct cut cut_of(const float *v, size_t n, size_t need, uint32_t low, uint32_t high,
		  uint32_t counts[BINS]);
#endif
