/* SPDX-License-Identifier: BSD-3-Clause
 * Steps in which every coordinate goes up, or comes down, as a float; see dense.c. */
#ifndef RUNTIME_DENSE_H
#define RUNTIME_DENSE_H
#include "model/model.h"
#include "worker/signal.h"

/* 1 if a step that sends a whole gradient of host memory can be dense_push(). */
int dense_push_fits(const sluice_model *model);
/* Judges, encodes and posts grad for all shards. As signal_fold(). */
int dense_push(sluice_model *model, const struct vector *grad);
/* What a publication must be. welcome: NULL, or why it may not come now. */
struct dense_expect {
	struct message_expect want;
	const char *(*welcome)(const sluice_model *model, uint32_t shard, const struct message *m);
};
/* What a shard published is added to the target from where it lies, if it is as expected: 1, or the
 * job has failed; *m is its header. 0: it is to be READ and judged first. Token held. */
int dense_pull(sluice_model *model, uint32_t shard, const struct dense_expect *expect,
	       struct message *m);
/* The same of what a READ has brought, for parameters on a device. 0: it is to be taken. */
int dense_pull_read(sluice_model *model, uint32_t shard, const struct dense_expect *expect,
		    struct message *m);
#endif
