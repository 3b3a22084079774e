/* SPDX-License-Identifier: BSD-3-Clause
 * One pass over the vector, by one thread or several: select_sweep.c. How the bounds of a pass are
 * guessed: select_estimate.c. select.c puts them together. */
#ifndef COMPRESS_SELECT_SWEEP_H
#define COMPRESS_SELECT_SWEEP_H
#include "select.h"
#include "select_kernels.h"
#include "select_pool.h"
#include <pthread.h>

/* One thread lists into place, tile after tile; several wait for each other less often. */
enum { TILE = 16384, TILE_SHARED = 65536 };

/* Listed but not yet in its place: one tile's entries. */
struct select_stage {
	uint32_t *index, *near_index;
	float *value, *near_value;
};

struct selector {
	const struct select_kernels *kernels;
	size_t n, tile, near_room;
	size_t merge_least;   /* of so many sure ones each thread merges a share */
	uint32_t *near_index; /* near_room */
	float *near_value;    /* near_room; holds the sample before the pass */
	uint32_t *counts;     /* BINS */
	unsigned threads;
	struct select_stage *stages; /* threads */
	struct select_pool *pool;    /* NULL for one thread */
	pthread_mutex_t lock;        /* of the sweep under way */
};

enum sweep_end {
	SWEEP_COMPLETE,
	SWEEP_TOO_MANY, /* more than k are sure: the boundary is higher */
	SWEEP_OVERFULL  /* no room for all that is near */
};

struct sweep {
	struct selector *s;
	const struct select_call *call;
	int adding;     /* residual += scale * grad on the way */
	int one_key;    /* all near ones are ties: the first near_room are enough */
	int merge_ties; /* the first `ties` near ones are selected at once */
	size_t ties;
	int ties_found; /* as many as are needed: no more are looked for */
	struct select_bounds bounds;
	size_t budget, room; /* k; entries of call->index */
	/* what was found */
	size_t n, counted; /* listed; of them, within the budget */
	size_t n_near, near_stored;
	int32_t largest;
	enum sweep_end end;
	/* under lock: the next tile */
	size_t span;
	uint64_t at, next_tile;
	/* tiles before this one are in place */
	uint64_t turn;
};

/* Bounds between which nothing but NaN lies, and those with which all non-zeros are sure. */
#define BOUNDS_NOTHING ((struct select_bounds){ KEY_MASK, KEY_INFINITY })
#define BOUNDS_NONZERO ((struct select_bounds){ 0, 0 })

void sweep_run(struct sweep *w);
/* Completes what a good pass found; returns the number selected and the k-th largest key:
 * select_finish.c. near: what the pass called so. */
size_t sweep_finish(struct sweep *w, struct known near, uint32_t *boundary);

/* Selected are keys above floor, and the first `ties` of those equal to it. */
struct cut {
	uint32_t floor;
	size_t ties;
};
/* The cut that leaves the need-th largest of v[0..n), whose keys are in [low, high]; 0 < need <=
 * n. */
struct cut cut_of(const float *v, size_t n, size_t need, uint32_t low, uint32_t high,
		  uint32_t counts[BINS]);

/* What the next pass should call near: an interval that holds the k-th largest key most probably,
 * from a sample; wider and from a larger sample at each attempt. */
struct known estimate(struct selector *s, const struct select_call *call, int adding, size_t total,
		      struct known known, unsigned attempt);
/* Whether a small sample agrees that the boundary is within the hint, and the near ones have
 * room. */
int hint_agrees(struct selector *s, const struct select_call *call, int adding, size_t total,
		struct known hinted);
/* The same interval by counting, when guessing failed: passes over x until what is near has
 * room. */
struct known narrow(struct selector *s, const float *x, const struct select_call *call,
		    struct known known);
#endif
