/* SPDX-License-Identifier: BSD-3-Clause
 * The shard's side of a step in which every worker sends every coordinate as a float, and every
 * coordinate is published: one pass over all messages at once. shard_dense.c owns the state of
 * reading each message. */
#ifndef RUNTIME_SHARD_DENSE_H
#define RUNTIME_SHARD_DENSE_H

struct shard;
struct dense_sum; /* shard.dense */

int shard_dense_open(struct shard *shard); /* 0 or SLUICE_ENOMEM */
void shard_dense_close(struct shard *shard);

enum dense_outcome {
	DENSE_NONE,  /* this step must be gathered message by message */
	DENSE_WAITS, /* not all messages have arrived, or a message was refused */
	DENSE_READY,
	DENSE_PUBLISHED
};
enum dense_outcome shard_dense_advance(struct shard *shard);

/* For tests: returns 1 if the messages of any step were summed in one pass. */
int shard_dense_summed(const struct shard *shard);
#endif
