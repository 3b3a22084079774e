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
/* Adds this step's note (model/census.h), if there is one, to message m, and stages it. m is
 * complete except for the note. payload describes where the payload is; NULL means that it is in
 * the staging slot. */
void upload_stage(struct worker *w, const struct message *m, const struct lane_payload *payload);
/* Encodes value[0..m->count) at index[] (NULL: all), relative to the shard's first coordinate, and
 * stages the message. The compressor's entries then have the values that the shard decodes. Returns
 * 0, or SLUICE_ENUMERIC if a value is not finite. In that case step.overflowed is its coordinate,
 * and nothing is staged. */
int upload_encode(struct worker *w, struct message *m, const uint32_t *index, const float *value);
/* As upload_encode(), for a pick whose positions count from coordinate 0. `begin` is the shard's
 * first coordinate. On return *p has the emitted entries, with positions relative to it. */
int upload_pick(struct worker *w, struct message *m, struct pick *p, uint64_t begin);
/* Posts the staged message of a shard, so that it travels while the next one is made. more:
 * messages to other shards follow at once, so a short message may wait for them. The token must be
 * free. */
void upload_post(struct worker *w, uint32_t shard, int more);
/* Stages a message without coordinates, for one shard or for each. The only content is the kind of
 * the message. */
void upload_without(struct worker *w, uint32_t shard, enum message_kind kind);
void upload_empty(struct worker *w, enum message_kind kind);
/* For a pull without a push: waits for free slots, calls begins(), and stages a MESSAGE_ASK to each
 * shard. */
int upload_ask(struct worker *w, void (*begins)(struct worker *w));
/* Subtracts the emitted values from the residual, unless the selection has already done so
 * (PICK_TAKEN). Clears their momentum if the recipe masks it. */
void upload_settle(struct worker *w, uint32_t shard, const struct pick *emitted);
/* Returns 1 if this step clears the momentum of the coordinates that it sends. */
int upload_masks(const struct worker *w);
#endif
