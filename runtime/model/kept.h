/* SPDX-License-Identifier: BSD-3-Clause
 * The vectors that a recipe makes each half keep from step to step: one table, a row for each. It
 * drives what is opened and closed, how much memory is announced, and what sluice_plan() prints.
 * Pure. */
#ifndef RUNTIME_KEPT_H
#define RUNTIME_KEPT_H
#include "recipe/recipe.h"

enum half { HALF_WORKER, HALF_SHARD };

enum kept {
	/* a worker's, as long as the model */
	KEPT_RESIDUAL,
	KEPT_VELOCITY,
	KEPT_MEMORY,
	KEPT_FILTER,
	KEPT_PREVIOUS,
	KEPT_REFERENCE,
	KEPT_SINCE,
	KEPT_BASE,
	KEPT_LOCAL,
	KEPT_ANCHOR,
	/* a shard's, as long as the shard */
	KEPT_SHARD_COPY,
	KEPT_SHARD_RESIDUAL,
	KEPT_SHARD_VELOCITY,
	KEPT_SHARD_RUNNING,
	KEPT_SHARD_ANCHOR,
	KEPT_SHARD_MEAN,
	KEPT_SHARD_LEADING,
	KEPT_SHARD_ITERATES,
	KEPTS
};

struct kept_row {
	const char *name; /* as sluice_plan() prints it */
	const char *what; /* what it holds, in one line */
	enum half half;
	uint8_t element; /* bytes */
	uint8_t large;   /* from vector_open(): scattered additions meet it */
	int (*needed)(const struct recipe *recipe);
};
extern const struct kept_row kept_rows[KEPTS];

/* The vectors of one half. Those that the recipe does not need are NULL. */
struct vectors {
	void *of[KEPTS];
	uint64_t count;
};

/* Zeroed vectors of count elements. 0, or SLUICE_ENOMEM, which names the one that had no room. */
int vectors_open(struct vectors *v, const struct recipe *recipe, enum half half, uint64_t count);
void vectors_close(struct vectors *v);
uint64_t vectors_bytes(const struct recipe *recipe, enum half half, uint64_t count);
#endif
