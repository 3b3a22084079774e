/* SPDX-License-Identifier: BSD-3-Clause
 * The worker half where a support is agreed on: by the indices that one worker selects for all
 * (cyclic), or by what the shards find in the sum of the workers' sketches and ask for; then the
 * values at that support. agree.c owns the supports of the step under way. */
#ifndef RUNTIME_AGREE_H
#define RUNTIME_AGREE_H
#include "model/model.h"

struct agreed; /* worker.agreed is NULL where the recipe agrees on none */

int agree_open(const sluice_model *model, struct agreed **out); /* 0 or SLUICE_ENOMEM */
void agree_close(struct agreed **agreed);
/* The support of this step at a shard, shard-relative; *n_out of it. */
const uint32_t *agree_support(const sluice_model *model, uint32_t shard, uint32_t *n_out);

/* The messages of the phase under way, as worker_send(). */
int agree_encode(sluice_model *model);
/* A sum of that shard's sketch is not finite: SLUICE_ENUMERIC. */
int agree_overflowed(sluice_model *model, const struct shard_layout *at);
/* A shard said which coordinates it wants (worker.relative). */
void agree_apply_support(sluice_model *model, uint32_t shard, const struct message *m);
/* A shard said what was published of them: 0, or SLUICE_EGPU. */
int agree_clear_published(sluice_model *model, const struct shard_layout *at, const uint32_t *index,
			  const float *value, uint32_t n);
#endif
