/* SPDX-License-Identifier: BSD-3-Clause
 * For whom a rank waits, and which ranks are slow. */
#ifndef TOOLS_TOP_WAITS_H
#define TOOLS_TOP_WAITS_H
#include "metrics/seen.h"

/* Returns number i of the ranks for which this rank waits, or -1 if there are fewer. If a rank
 * waits for one of its shards, these are the ranks whose pushes the shard lacks. */
int awaited_rank(const struct seen_rank *rank, int i);
/* Returns the number of ranks of its step that wait for this rank. */
int waiting_for(const struct seen *seen, const struct seen_rank *awaited_by, int rank);

/* The growth of a model's numbers between two copies. */
struct pace {
	double seconds, steps;
	double up, down; /* bytes */
	double parts[8]; /* seconds in each part of the steps (metrics.h) */
};
/* Returns 0, or -1 if the earlier look does not have this model. */
int pace_of(const struct seen_rank *rank, const struct seen_rank *before, int model,
	    struct pace *out);
/* Returns how many times longer than the median worker of its step this rank takes for a step,
 * without the time in which it waits; 0 if that is unknown. */
double rank_slowness(const struct seen *seen, const struct seen *before,
		     const struct seen_rank *rank);
#endif
