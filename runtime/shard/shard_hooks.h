/* SPDX-License-Identifier: BSD-3-Clause
 * The hooks of a method in a shard's step. They form a row of functions that the loop (shard.c)
 * calls without knowing any method by name. It is the shard's counterpart of worker/hooks.h.
 * Functions that are NULL are skipped. Only the rows that the shard's recipe uses are called. */
#ifndef RUNTIME_SHARD_HOOKS_H
#define RUNTIME_SHARD_HOOKS_H
#include "model/compressor.h"
#include "compress/message.h"

struct shard;

struct shard_hooks {
	int (*used)(const struct shard *shard); /* returns 1 if the recipe uses the row */
	int (*open)(struct shard *shard);       /* 0 or SLUICE_ENOMEM */
	void (*close)(struct shard *shard);
	/* Called at open and after a restore, which may have changed the vectors. */
	void (*restart)(struct shard *shard);

	/* Reads the note that follows a worker's next message. The message was checked, but is not
	 * counted yet. At most `room` bytes may be read. Returns NULL, or why the message is
	 * refused. */
	const char *(*note)(struct shard *shard, uint64_t seq, const uint8_t *note, size_t room);
	/* Called when a worker's message was counted. */
	void (*taken)(struct shard *shard, int worker, const struct message *m);
	/* Called when all messages of the step are in the sum, before the change is made from
	 * it. */
	void (*summed)(struct shard *shard);
	/* Returns how many of n coordinates to pick at this density, or 0 for the number that
	 * follows from the density alone. */
	uint64_t (*count)(const struct shard *shard, double density, uint64_t n);
	/* Picks in place of the recipe's selector. Returns 0 if the recipe's selector must pick. */
	int (*pick)(struct shard *shard, float *vector, struct pick *out);
	/* Returns the value of the field `anchor` in the delta's header. */
	uint32_t (*mark)(const struct shard *shard);
	/* Writes to `out` what follows a delta in its log entry. Returns the number of bytes. */
	size_t (*delta_note)(struct shard *shard, uint8_t *out);
	/* Returns 1 if the step counts this worker, which then gets a notice. NULL: it counts all
	 * living workers. */
	int (*counts)(const struct shard *shard, int worker);
	/* Called when the delta is published, before the version is counted. */
	void (*step_ends)(struct shard *shard);
};

/* Each of these functions calls the hook of the same name in all rows that the recipe uses, and
 * stops at the first error or refusal. shard_hooks_open() makes the list of these rows. */
int shard_hooks_open(struct shard *shard);
void shard_hooks_close(struct shard *shard);
void shard_hooks_restart(struct shard *shard);
const char *shard_hooks_note(struct shard *shard, uint64_t seq, const uint8_t *note, size_t room);
void shard_hooks_taken(struct shard *shard, int worker, const struct message *m);
void shard_hooks_summed(struct shard *shard);
uint64_t shard_hooks_count(const struct shard *shard, double density, uint64_t n);
int shard_hooks_pick(struct shard *shard, float *vector, struct pick *out);
uint32_t shard_hooks_mark(const struct shard *shard);
size_t shard_hooks_delta_note(struct shard *shard, uint8_t *out);
int shard_hooks_counts(const struct shard *shard, int worker);
void shard_hooks_step_ends(struct shard *shard);
#endif
