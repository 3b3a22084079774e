/* SPDX-License-Identifier: BSD-3-Clause
 * Steps in which every coordinate goes up, or comes down, as a float; see dense.c. */
#ifndef RUNTIME_DENSE_H
#define RUNTIME_DENSE_H
#include "model/model.h"
#include "worker/signal.h"

/* Checks, encodes and posts grad for all shards. Returns the result of signal_fold(). */
int dense_push(struct worker *w, const struct vector *grad);
/* The conditions that a publication must meet. welcome() returns NULL, or the reason why the
 * publication is not expected now. */
struct dense_expect {
	struct message_expect want;
	const char *(*welcome)(const struct worker *w, uint32_t shard, const struct message *m);
};
/* Adds a shard's publication to the target directly from the owner's log, if it meets the
 * conditions. Returns 1 if it was added (*m is its header) or if the job has failed. Returns 0 if
 * the caller must READ and validate it first. The token must be held. */
int dense_pull(struct worker *w, uint32_t shard, const struct dense_expect *expect,
	       struct message *m);
/* As dense_pull(), for parameters on a device and a publication that a READ has fetched. Returns 0
 * if the caller must handle the publication. */
int dense_pull_read(struct worker *w, uint32_t shard, const struct dense_expect *expect,
		    struct message *m);
#endif
