/* SPDX-License-Identifier: BSD-3-Clause
 * One message to one shard: what it says of itself, how it is made in a staging slot, and what
 * leaves the residual with it. */
#ifndef RUNTIME_UPLOAD_H
#define RUNTIME_UPLOAD_H
#include "model/compressor.h"
#include "worker/lane.h"

/* The header of this step's push to a shard. The fields that depend on the coordinates are set when
 * the message is encoded. */
struct message upload_head(const sluice_model *model, uint32_t shard);
/* The message m is complete in its staging slot. Writes the note (model/census.h) behind it, if
 * this step has one, and tells the lane. payload says where the payload lies if that is not the
 * slot; else it is NULL. */
void upload_stage(sluice_model *model, const struct message *m, const struct lane_payload *payload);
/* Encodes value[0..m->count) at index[] (NULL: all), which count from the shard's first coordinate,
 * and stages it; the entries then hold what the shard decodes. 0, or SLUICE_ENUMERIC: a value is
 * not finite (worker.overflowed), and nothing is staged. */
int upload_encode(sluice_model *model, struct message *m, const uint32_t *index,
		  const float *value);
/* The same for a pick. Its positions count from coordinate 0, and `begin` is the shard's first
 * coordinate. *p is then what was emitted, whose positions count from the shard's first
 * coordinate. */
int upload_pick(sluice_model *model, struct message *m, struct pick *p, uint64_t begin);
/* Stages a message without coordinates, which says nothing but its kind, for each shard. */
void upload_empty(sluice_model *model, enum message_kind kind);
/* What was emitted is subtracted from the residual, unless the selection has taken it out already
 * (PICK_TAKEN). Its momentum is cleared where the recipe masks it. */
void upload_settle(sluice_model *model, uint32_t shard, const struct pick *emitted);
/* 1 if the momentum of what this step sends is cleared. */
int upload_masks(const sluice_model *model);
#endif
