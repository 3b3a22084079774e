/* SPDX-License-Identifier: BSD-3-Clause
 * One message to one shard: what it says of itself, how it is made in a staging slot, and what
 * leaves the residual with it. */
#ifndef RUNTIME_UPLOAD_H
#define RUNTIME_UPLOAD_H
#include "model/compressor.h"
#include "worker/lane.h"

/* What a push of this step to a shard says of itself, but for the coordinates. */
struct message upload_head(const sluice_model *model, uint32_t shard);
/* A message is complete in its slot, but for a note behind it; its payload may lie elsewhere. */
void upload_stage(sluice_model *model, const struct message *m, const struct lane_payload *payload);
/* Encodes value[0..m->count) at index[] (NULL: all), which count from the shard's first coordinate,
 * and stages it; the entries then hold what the shard decodes. 0, or SLUICE_ENUMERIC: a value is
 * not finite (worker.overflowed), and nothing is staged. */
int upload_encode(sluice_model *model, struct message *m, const uint32_t *index,
		  const float *value);
/* The same of a pick, whose positions count from `begin`; *p is then what was emitted. */
int upload_pick(sluice_model *model, struct message *m, struct pick *p, uint64_t begin);
/* A message that says nothing but its kind, to each shard. */
void upload_empty(sluice_model *model, enum message_kind kind);
/* What was emitted leaves the residual, and the momentum where the recipe masks it. */
void upload_settle(sluice_model *model, uint32_t shard, const struct pick *emitted);
/* Whether the momentum of what this step sends is cleared. */
int upload_masks(const sluice_model *model);
#endif
