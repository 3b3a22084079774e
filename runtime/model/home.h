/* SPDX-License-Identifier: BSD-3-Clause
 * Records which ranks hold a shard, in which window and log, and since which epoch. At present each
 * shard has one holder. All holders of a shard receive the workers' messages, and workers read the
 * publications of the current holder. */
#ifndef RUNTIME_HOME_H
#define RUNTIME_HOME_H
#include "model/layout.h"

/* ---- holdings, which every rank computes alike ---- */

/* A shard at one of its holders. */
struct holding {
	int rank;
	size_t slots_offset; /* offset in each worker's window on the holder */
	size_t notice_index; /* position of its notice among the notices of the rank's shards */
	size_t log_offset, snapshot_offset; /* offsets in the rank's log */
};

/* Assigns each shard to `holders` of the ranks that own shards. Returns 0 or SLUICE_ENOMEM. */
int holdings_make(const struct layout *l, uint32_t holders, struct holdings **out);
void holdings_free(struct holdings **holdings);
/* Returns holder k of the shard. */
const struct holding *holdings_at(const struct holdings *h, uint32_t shard, uint32_t k);
int holdings_has(const struct holdings *h, uint32_t shard, int rank);
/* Returns the size of the memory on `rank` to which `peer` may write. If peer is a worker, this
 * memory begins with the peer's slots in rank's shards. The notices of peer's shards follow. */
size_t holdings_window_bytes(const struct holdings *h, int rank, int peer);
/* Returns the offset of the notice of a peer's shard in the peer's window on `rank`. */
size_t holdings_notice_offset(const struct holdings *h, int rank, const struct holding *of_peer);
size_t holdings_log_bytes(const struct holdings *h, int rank);
/* Returns 1 if one of the ranks holds a shard that the other one uses (connect.h). */
int holdings_meet(const void *holdings, int a, int b);

/* ---- home: the regions of a model, and the current holders of its shards ---- */

struct home;

struct holder {
	struct holding at;
	/* The epoch since which workers read from this holder; 0: they never did. The current
	 * holder is the one with the newest epoch. */
	uint64_t since;
	struct endpoint *endpoint;
	struct remote *window; /* this rank's window on the holder; NULL if the holder is lost */
	struct remote *log;    /* memory of the holder that this rank reads */
};

/* Opens the log and, for each peer that writes to this rank, a window. */
int home_open(sluice_job *job, const struct layout *l, struct home **out);
/* Exchanges the windows and logs of n models of one job with all ranks. Collective. */
int homes_exchange(struct home *const *homes, size_t n);
void home_close(struct home **home);

/* Returns the number of holders of each shard. */
uint32_t home_holders(const struct home *home);
/* Returns holder k of the shard. The pointer is valid until home_close(). */
const struct holder *home_holder(const struct home *home, uint32_t shard, uint32_t k);
/* Returns the holder from which workers read. */
const struct holder *home_current(const struct home *home, uint32_t shard);
int home_rank(const struct home *home, uint32_t shard);
/* Returns 1 if this rank is the holder from which workers read. */
int home_is_here(const struct home *home, uint32_t shard);
/* Returns the shard to which this rank sends next after i others: first one shard of each other
 * rank, beginning with the next rank, then a second one of each, and so on, and this rank's own
 * shards last. So all ranks send to different ranks at any time, and every rank can sum its first
 * shard early. */
uint32_t home_turn(const struct home *home, uint32_t i);
/* Makes workers read from holder k. `epoch` must be newer than all previous epochs. */
void home_move(struct home *home, uint32_t shard, uint32_t k, uint64_t epoch);

/* Returns the address on this rank to which holder k writes its notices of the shard. */
const uint8_t *home_notice(const struct home *home, uint32_t shard, uint32_t k);
/* Returns the worker's window for the notice of this rank's shard, and the notice's offset in that
 * window. Returns NULL if the worker is lost. */
struct remote *home_notice_to(const struct home *home, uint32_t shard, int worker,
			      uint64_t *offset);
/* Returns the address to which the worker writes its messages to this rank's shard. */
const uint8_t *home_slots(const struct home *home, uint32_t shard, int worker);
/* Return the log and the snapshot of this rank's shard. */
uint8_t *home_log(const struct home *home, uint32_t shard);
uint8_t *home_snapshot(const struct home *home, uint32_t shard);
#endif
