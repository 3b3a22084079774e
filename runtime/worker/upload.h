/* SPDX-License-Identifier: BSD-3-Clause
 * One message to one shard: its header, its encoding in a staging slot, and the update of the
 * residual. */
#ifndef RUNTIME_UPLOAD_H
#define RUNTIME_UPLOAD_H
#include "model/compressor.h"
#include "worker/lane.h"

struct worker;

/* Returns the header of this step's push to a shard. The fields that depend on the coordinates are
 * set when the message is encoded. */
struct message upload_head(const struct worker *w, uint32_t shard);
/* Stages message m, which is complete in its staging slot, after appending this step's note, if
 * there is one (model/census.h). payload is NULL if the payload is in the slot; otherwise it
 * describes where the payload is. */
void upload_stage(struct worker *w, const struct message *m, const struct lane_payload *payload);
/* Encodes value[0..m->count) at index[] (NULL: all), which counts from the shard's first
 * coordinate, and stages the message. The entries then hold the values that the shard decodes.
 * Returns 0, or SLUICE_ENUMERIC: a value is not finite (worker.overflowed), and nothing is
 * staged. */
int upload_encode(struct worker *w, struct message *m, const uint32_t *index, const float *value);
/* Does the same for a pick. Its positions count from coordinate 0, and `begin` is the shard's first
 * coordinate. On return *p holds the emitted entries, with positions that count from the shard's
 * first coordinate. */
int upload_pick(struct worker *w, struct message *m, struct pick *p, uint64_t begin);
/* For each shard, stages a message without coordinates, which carries only its kind. */
void upload_empty(struct worker *w, enum message_kind kind);
/* Subtracts the emitted values from the residual, unless the selection has already done so
 * (PICK_TAKEN). Clears their momentum if the recipe masks it. */
void upload_settle(struct worker *w, uint32_t shard, const struct pick *emitted);
/* Returns 1 if the momentum of the coordinates sent in this step is cleared. */
int upload_masks(const struct worker *w);
#endif
