/* SPDX-License-Identifier: BSD-3-Clause
 * The vectors that each half keeps from step to step for a recipe, as a table with a row for each
 * vector. The table determines which vectors are opened and closed, how much memory is announced,
 * and what sluice_plan() prints. Pure. */
#ifndef RUNTIME_KEPT_H
#define RUNTIME_KEPT_H
#include "recipe/recipe.h"

enum half { HALF_WORKER, HALF_SHARD };

enum kept {
	/* Vectors of a worker, each as long as the model. */
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
	/* Vectors of a shard, each as long as the shard. */
	KEPT_SHARD_COPY,
	KEPT_SHARD_RESIDUAL,
	KEPT_SHARD_VELOCITY,
	KEPT_SHARD_VARIANCE,
	KEPT_SHARD_RUNNING,
	KEPT_SHARD_ANCHOR,
	KEPT_SHARD_MEAN,
	KEPT_SHARD_LEADING,
	KEPT_SHARD_ITERATES,
	KEPTS
};

struct kept_row {
	const char *name; /* name in the output of sluice_plan() */
	const char *what; /* content of the vector, in one line */
	enum half half;
	uint8_t element; /* size of an element in bytes */
	/* 1: allocate with vector_open(), because additions go to scattered elements */
	uint8_t large;
	int (*needed)(const struct recipe *recipe);
};
extern const struct kept_row kept_rows[KEPTS];

/* The vectors of one half. A vector that the recipe does not need is NULL. */
struct vectors {
	void *of[KEPTS];
	uint64_t count;
};

/* Opens zeroed vectors of count elements. Returns 0, or SLUICE_ENOMEM with a message that names the
 * vector. */
int vectors_open(struct vectors *v, const struct recipe *recipe, enum half half, uint64_t count);
void vectors_close(struct vectors *v);
uint64_t vectors_bytes(const struct recipe *recipe, enum half half, uint64_t count);
#endif
