/* SPDX-License-Identifier: BSD-3-Clause
 * The worker half of recipes in which workers and shards agree on a support. Either one worker
 * selects the indices for all (cyclic), or the shards find coordinates in the sum of the
 * workers' sketches and ask for them. The workers then send their values at the support. agree.c
 * owns the supports of the step under way. */
#ifndef RUNTIME_AGREE_H
#define RUNTIME_AGREE_H
#include "worker/hooks.h"

struct agreed; /* worker.agreed is NULL if the recipe has no agreed support */

/* Returns this step's support of a shard: *n_out positions, which count from the shard's first
 * coordinate. */
const uint32_t *agree_support(const struct agreed *agreed, uint32_t shard, uint32_t *n_out);

/* Each function makes the messages of one up phase. The table of payloads in worker.c calls
 * them. */
int agree_send_indices(struct worker *w, const struct signal *signal);
int agree_send_sketches(struct worker *w, const struct signal *signal);
int agree_send_values(struct worker *w, const struct signal *signal);
/* Stores the support that a shard published: the coordinates in the compressor's entries. */
int agree_apply_support(struct worker *w, uint32_t shard, const struct message *m,
			const struct entries *got);

extern const struct step_hooks agree_hooks;
#endif
