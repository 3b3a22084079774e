/* SPDX-License-Identifier: BSD-3-Clause
 * The hooks of a method in a worker's step: a row of functions that the loop (worker.c) and the
 * calls (push.c) run without knowing any method by name. Functions that are NULL are skipped. Only
 * the rows that the model uses are asked.
 *
 * To add a method with its own state, write a file that owns the state and defines the row, and add
 * the row to the table in worker_setup.c. */
#ifndef RUNTIME_HOOKS_H
#define RUNTIME_HOOKS_H
#include "model/compressor.h"
#include "model/model.h"

struct signal;

struct step_hooks {
	/* ---- functions for the life of the model ---- */
	/* Returns 1 if the model uses this row of hooks. NULL: every model uses it. */
	int (*used)(const struct worker *w);
	int (*open)(struct worker *w); /* 0 or SLUICE_ENOMEM */
	void (*close)(struct worker *w);
	/* Called at open and after a restore. The worker has the state that worker_open() left,
	 * except for the kept vectors, which may have been restored. */
	void (*restart)(struct worker *w);
	/* Called when the training begins with these parameters on all workers. */
	void (*begin)(struct worker *w, const float *params);
	uint64_t (*memory)(const struct layout *l, const struct recipe *recipe);

	/* ---- functions of a push, which are called in this order ---- */
	void (*step_begins)(struct worker *w);
	/* Called after the gradient was added to the residual, or after that was left to the
	 * selection (*signal). */
	void (*folded)(struct worker *w, struct signal *signal);
	/* Returns how many of n coordinates are picked at this density. 0 means the number that
	 * follows from the density. */
	uint64_t (*count)(const struct worker *w, double density, uint64_t n);
	/* Called when the coordinates of all messages are picked, before any of them is emitted. */
	void (*picked)(struct worker *w);
	/* Called when a message is made, while its values are still in the residual. The positions
	 * are relative to the shard's first coordinate. */
	void (*emitted)(struct worker *w, const struct shard_layout *at,
			const struct pick *emitted);
	/* Returns the field `anchor` of this worker's messages, in which a method may send a count,
	 * or 0. */
	uint32_t (*mark)(const struct worker *w);
	/* Called when all messages of the step's first phase are made. elements:
	 * stats.pushed_elements before the push. */
	void (*sent)(struct worker *w, uint64_t elements);

	/* ---- functions of a pull ---- */
	/* Reads the n bytes that follow a delta in its log entry, when the delta is decoded but not
	 * yet applied. Returns 0, or SLUICE_EWIRE with *why. */
	int (*note)(struct worker *w, uint32_t shard, const uint8_t *note, size_t n,
		    const char **why);
	/* Called when a delta has been added to the target (the parameters). index lists the
	 * delta's coordinates; NULL means all. got has its values, and memory for as many
	 * coordinates. Returns 0 or an error. */
	int (*applied)(struct worker *w, uint32_t shard, const uint32_t *index,
		       const struct entries *got, const struct message *m);
	/* Called when all deltas of the step are applied. */
	void (*pulled)(struct worker *w);
};

/* Each of these functions calls the function of the same name in all rows, and stops at the first
 * error. hooks_count() and hooks_mark() return the first result that is not 0. If all results are
 * 0, hooks_count() returns the number that follows from the recipe's density. */
void hooks_close(struct worker *w);
void hooks_restart(struct worker *w);
void hooks_begin(struct worker *w, const float *params);
void hooks_step_begins(struct worker *w);
void hooks_folded(struct worker *w, struct signal *signal);
uint64_t hooks_count(const struct worker *w, double density, uint64_t n);
void hooks_picked(struct worker *w);
void hooks_emitted(struct worker *w, const struct shard_layout *at, const struct pick *emitted);
uint32_t hooks_mark(const struct worker *w);
void hooks_sent(struct worker *w, uint64_t elements);
int hooks_note(struct worker *w, uint32_t shard, const uint8_t *note, size_t n, const char **why);
int hooks_applied(struct worker *w, uint32_t shard, const uint32_t *index,
		  const struct entries *got, const struct message *m);
void hooks_pulled(struct worker *w);
#endif
