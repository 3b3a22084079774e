/* SPDX-License-Identifier: BSD-3-Clause
 * What a rank saves in a checkpoint: the table of its state, whose vectors are written and read
 * where they are. Called by checkpoint.c. */
#ifndef RUNTIME_CHECKPOINT_CONTENTS_H
#define RUNTIME_CHECKPOINT_CONTENTS_H
#include "checkpoint/checkpoint_file.h"
#include "model/model.h"

struct contents {
	struct checkpoint_section *sections;
	uint64_t *numbers; /* the worker's counters, the shards' versions, lazy_save()'s */
	uint64_t *census;  /* of the worker, then of each shard; NULL where there is none */
	uint32_t n;
};

/* The numbers hold the state of now. 0 or SLUICE_ENOMEM; token held. */
int contents_of(sluice_model *model, struct contents *c);
void contents_free(struct contents *c);

/* Whether the numbers that were read from the file can be those of this model after `step` steps.
 * Nothing is stored. 0 or SLUICE_EWIRE. */
int contents_judge(const sluice_model *model, const struct contents *c, uint64_t step,
		   const struct checkpoint_file *file);
/* Everything that the model keeps as numbers becomes what was judged; its vectors are the file's to
 * fill. Token held. contents_restore_window() needs these vectors: it comes after them, without the
 * token. */
void contents_restore_numbers(sluice_model *model, const struct contents *c);
void contents_restore_window(sluice_model *model, const struct contents *c);
#endif
