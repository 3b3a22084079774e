/* SPDX-License-Identifier: BSD-3-Clause
 * The state that a rank saves in a checkpoint: a table whose vectors are written from and read into
 * their own memory. Called by checkpoint.c. */
#ifndef RUNTIME_CHECKPOINT_CONTENTS_H
#define RUNTIME_CHECKPOINT_CONTENTS_H
#include "checkpoint/checkpoint_file.h"
#include "model/model.h"

struct contents {
	struct checkpoint_section *sections;
	/* The worker's counters, the shards' versions, and the numbers of lazy_save(). */
	uint64_t *numbers;
	uint64_t *census; /* numbers of the worker, then of each shard; NULL if there are none */
	uint64_t *guard;  /* the same for guard=raise */
	uint64_t *bits;   /* the same for recipe=auto */
	uint32_t n;
};

/* Sets the numbers to the current state. own: with signal=drift, the worker's own parameters, which
 * are to be saved or filled. Returns 0 or SLUICE_ENOMEM. The token must be held. */
int contents_of(sluice_model *model, float *own, struct contents *c);
void contents_free(struct contents *c);

/* Checks whether the numbers from the file can be those of this model after `step` steps. Stores
 * nothing. Returns 0 or SLUICE_EWIRE. */
int contents_check(const sluice_model *model, const struct contents *c, uint64_t step,
		   const struct checkpoint_file *file);
/* Returns NULL if a shard can have this version after `step` steps of each worker, or else why not.
 * With quorum=, it may have closed more exchanges than each worker took part in. */
const char *contents_fits(const sluice_model *model, uint32_t shard, uint64_t version,
			  uint64_t step);
/* contents_restore_numbers() copies the checked numbers to the model; checkpoint_file_load() fills
 * the vectors. For both, the token must be held. contents_restore_window() needs the filled
 * vectors, so it is called last, without the token. */
void contents_restore_numbers(sluice_model *model, const struct contents *c);
void contents_restore_window(sluice_model *model, const struct contents *c);
#endif
