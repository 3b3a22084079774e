/* SPDX-License-Identifier: BSD-3-Clause
 * What a rank saves in a checkpoint: the table of its state, whose vectors are written and read
 * where they are. Called by checkpoint.c. */
#ifndef RUNTIME_CHECKPOINT_CONTENTS_H
#define RUNTIME_CHECKPOINT_CONTENTS_H
#include "checkpoint/checkpoint_file.h"
#include "model/model.h"

struct contents {
	struct checkpoint_section *sections;
	uint64_t *numbers; /* the learning rate's bits, then the shards' versions */
	uint64_t *census;  /* of the worker, then of each shard; NULL where there is none */
	uint32_t n;
};

/* The numbers hold the state of now. 0 or SLUICE_ENOMEM; token held. */
int contents_of(sluice_model *model, struct contents *c);
void contents_free(struct contents *c);

/* The census takes up the numbers that were loaded. 0 or SLUICE_EWIRE. */
int contents_restore_census(sluice_model *model, const struct contents *c);
#endif
