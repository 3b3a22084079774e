/* SPDX-License-Identifier: BSD-3-Clause
 * The hooks of a method in a worker's step: a row of functions that the loop (worker.c) and the
 * calls (push.c) run without knowing any method by name. Functions that are NULL are skipped. Only
 * the rows that the model uses are asked.
 *
 * To add a method with its own state, write a file that owns the state and defines the row, and add
 * the row to hooks.c. */
#ifndef RUNTIME_HOOKS_H
#define RUNTIME_HOOKS_H
#include "model/compressor.h"
#include "model/model.h"
#include "worker/signal.h"

struct step_hooks {
	/* ---- as long as the model ---- */
	/* 1 if the model uses the row. NULL: every model does. */
	int (*used)(const sluice_model *model);
	int (*open)(sluice_model *model); /* 0 or SLUICE_ENOMEM */
	void (*close)(sluice_model *model);
	/* The model is as after worker_open(); the kept vectors may have been restored since. */
	void (*restart)(sluice_model *model);
	/* The training begins with these parameters on all workers. */
	void (*begin)(sluice_model *model, const float *params);
	uint64_t (*memory)(const struct layout *l, const struct recipe *recipe);

	/* ---- a push, in this order ---- */
	void (*step_begins)(sluice_model *model);
	/* The gradient is in the residual, or left to the selection to add (*signal). */
	void (*folded)(sluice_model *model, struct signal *signal);
	/* The number of coordinates, of n, that are picked at this density; 0: the number
	 * follows from the density. */
	uint64_t (*count)(const sluice_model *model, double density, uint64_t n);
	/* Coordinates are picked for all messages, and none has been emitted. */
	void (*picked)(sluice_model *model);
	/* One message is made, and what it holds is still in the residual. The positions count from
	 * the shard's first coordinate. */
	void (*emitted)(sluice_model *model, const struct shard_layout *at,
			const struct pick *emitted);
	/* The field `anchor` of the messages of this worker: a count of the method; 0: none. */
	uint32_t (*mark)(const sluice_model *model);
	/* All messages of the step's first phase are made. elements is what stats.pushed_elements
	 * was before the push. */
	void (*sent)(sluice_model *model, uint64_t elements);

	/* ---- a pull ---- */
	/* Takes the n bytes that lie behind a delta in the log entry. The delta is decoded and not
	 * yet applied. Returns 0, or SLUICE_EWIRE with *why. */
	int (*note)(sluice_model *model, uint32_t shard, const uint8_t *note, size_t n,
		    const char **why);
	/* A delta has been added to the target (the parameters). index has its coordinates; NULL:
	 * all. got has its values, and room for as many coordinates. 0 or an error. */
	int (*applied)(sluice_model *model, uint32_t shard, const uint32_t *index,
		       const struct entries *got, const struct message *m);
	/* All deltas of the step are applied. */
	void (*pulled)(sluice_model *model);
};

/* Each calls the function of the same name in all rows, and stops at the first error.
 * hooks_count() and hooks_mark() return the first answer that is not 0. If there is none,
 * hooks_count() returns the recipe's density. */
int hooks_open(sluice_model *model);
/* Lists the rows that the model uses: when it is opened, and when measuring begins or ends. */
void hooks_list(sluice_model *model);
void hooks_close(sluice_model *model);
void hooks_restart(sluice_model *model);
void hooks_begin(sluice_model *model, const float *params);
uint64_t hooks_memory(const struct layout *l, const struct recipe *recipe);
void hooks_step_begins(sluice_model *model);
void hooks_folded(sluice_model *model, struct signal *signal);
uint64_t hooks_count(const sluice_model *model, double density, uint64_t n);
void hooks_picked(sluice_model *model);
void hooks_emitted(sluice_model *model, const struct shard_layout *at, const struct pick *emitted);
uint32_t hooks_mark(const sluice_model *model);
void hooks_sent(sluice_model *model, uint64_t elements);
int hooks_note(sluice_model *model, uint32_t shard, const uint8_t *note, size_t n,
	       const char **why);
int hooks_applied(sluice_model *model, uint32_t shard, const uint32_t *index,
		  const struct entries *got, const struct message *m);
void hooks_pulled(sluice_model *model);
#endif
