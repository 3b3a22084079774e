/* SPDX-License-Identifier: BSD-3-Clause
 * The worker half of exchanges that close on a quorum (quorum=); shard_quorum.h has the protocol.
 * quorum.c owns how this worker catches up with what each shard has published without it. */
#ifndef RUNTIME_WORKER_QUORUM_H
#define RUNTIME_WORKER_QUORUM_H
#include "worker/hooks.h"

struct quorum; /* worker.quorum is NULL unless the recipe has quorum= */

/* ---- a closing (a row in worker.c): how a worker handles publications ---- */
/* Returns the number of the shard's next publication. */
uint64_t quorum_wanted(const struct worker *w, uint32_t shard);
/* Sets the conditions that this publication must meet. */
void quorum_expect(const struct worker *w, uint32_t shard, struct message_expect *want);

/* Begins to read what this worker needs next of the shard, if it can be read now. Token held. */
void quorum_read(struct worker *w, uint32_t shard);
/* Handles a message that a READ has brought, unless it is the next publication. Returns 1 if it was
 * handled. */
int quorum_took(struct worker *w, uint32_t shard, const struct message *m, const uint8_t *copy);
/* Called when the READ brought no valid message, because the shard was overwriting it. */
void quorum_torn(struct worker *w, uint32_t shard);
/* Returns 1 if the last push was counted by all shards, and all that they had announced by then is
 * applied. Otherwise tells those that have counted it whether to wait for the next one. Token held.
 */
int quorum_pulled(struct worker *w);
/* Returns 1 if that is so of one shard. */
int quorum_pulled_from(const struct worker *w, uint32_t shard);

/* For a pull without a push: requests the newest publications. */
int quorum_ask(struct worker *w);
/* Informs the shards that they need not wait for this worker until a collective is complete. Token
 * held. */
int quorum_park(struct worker *w);
/* Sets the weight of the following pushes. */
int quorum_set_weight(struct worker *w, float weight);
/* Returns how many publications a shard has made between the last two that include this worker's
 * drift. Shards may differ, and this is the largest number. */
uint64_t quorum_missed(const struct quorum *quorum);
/* Returns the smallest number of publications of any shard that this worker has. */
uint64_t quorum_exchanges(const struct worker *w);
/* Returns the smallest number of workers that any shard counted in its newest publication. */
unsigned quorum_counted(const struct quorum *quorum);

extern const struct step_hooks quorum_hooks;
#endif
