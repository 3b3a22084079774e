/* SPDX-License-Identifier: BSD-3-Clause
 * See home.h. */
#include "model/home.h"
#include "base/error.h"
#include "job/collective.h"
#include "job/describe.h"
#include "job/living.h"
#include "job/peers.h"
#include "job/state.h"
#include "job/swap.h"
#include "rdma/transport.h"
#include <stdlib.h>

/* The sizes of all shards that a rank holds, added up. */
struct keep {
	size_t slots_bytes, log_bytes, n;
};

struct holdings {
	uint32_t n_shards, holders;
	struct keep *of_rank;
	struct holding *at; /* [shard][holder] */
};

struct home {
	sluice_job *job;
	const struct holdings *holdings;
	struct holder *of; /* [shard][holder] */
	uint64_t *turns;   /* [i]: see turn_key() */
	/* [peer]: the window to which the peer may write on this rank, or NULL */
	struct region **windows;
	struct remote **remote_windows;
	struct region *log; /* deltas and snapshots of this rank's shards; NULL if it has none */
	struct remote **remote_logs;
};

/* ---- holdings -------------------------------------------------------------- */

/* Places the shard after the shards that the rank already holds. */
static struct holding add_holding(struct keep *rank, const struct shard_layout *s)
{
	struct holding at = { .slots_offset = rank->slots_bytes,
			      .notice_index = rank->n++,
			      .log_offset = rank->log_bytes,
			      .snapshot_offset = rank->log_bytes + s->log_bytes };

	rank->slots_bytes += s->slot_depth * s->slot_bytes;
	rank->log_bytes = at.snapshot_offset + s->snapshot_bytes;
	return at;
}

/* Each fragment is spread over all owners. Neighbouring shards have different owners, so that a
 * range that is pushed alone, such as one bucket of gradients, does not go to a single rank. */
static uint64_t usual_owner(uint32_t shard, uint32_t shards, uint32_t owners)
{
	return shards < owners ? (uint64_t)shard * owners / shards : shard % owners;
}

int holdings_make(const struct layout *l, uint32_t holders, struct holdings **out)
{
	const uint32_t first = l->workers < l->size ? (uint32_t)l->workers : 0;
	const uint32_t owners = (uint32_t)l->size - first;
	struct holdings *h = *out = calloc(1, sizeof(*h));

	if (h) {
		h->of_rank = calloc((size_t)l->size, sizeof(*h->of_rank));
		h->at = calloc((size_t)l->n_shards * holders, sizeof(*h->at));
	}
	if (!h || !h->of_rank || !h->at)
		return fail(SLUICE_ENOMEM, "no memory for %u shards", l->n_shards);
	h->n_shards = l->n_shards;
	h->holders = holders;
	const uint32_t shards = l->n_shards / l->n_fragments;

	for (uint32_t s = 0; s < l->n_shards; s++)
		for (uint32_t k = 0; k < holders; k++) {
			const uint64_t owner = usual_owner(s % shards, shards, owners) + k;
			const uint32_t rank = first + (uint32_t)(owner % owners);
			struct holding *at = &h->at[s * holders + k];

			*at = add_holding(&h->of_rank[rank], &l->shards[s]);
			at->rank = (int)rank;
		}
	return 0;
}

void holdings_free(struct holdings **holdings)
{
	if (!*holdings)
		return;
	free((*holdings)->of_rank);
	free((*holdings)->at);
	free(*holdings);
	*holdings = NULL;
}

const struct holding *holdings_at(const struct holdings *h, uint32_t shard, uint32_t k)
{
	return &h->at[shard * h->holders + k];
}

/* Returns the rank's index among the shard's holders, or the number of holders if the rank is none
 * of them. */
static uint32_t which_holder(const struct holdings *h, uint32_t shard, int rank)
{
	uint32_t k = 0;

	while (k < h->holders && holdings_at(h, shard, k)->rank != rank)
		k++;
	return k;
}

int holdings_has(const struct holdings *h, uint32_t shard, int rank)
{
	return which_holder(h, shard, rank) < h->holders;
}

size_t holdings_window_bytes(const struct holdings *h, int rank, int peer)
{
	return h->of_rank[rank].slots_bytes + h->of_rank[peer].n * NOTICE_BYTES;
}

size_t holdings_notice_offset(const struct holdings *h, int rank, const struct holding *of_peer)
{
	return h->of_rank[rank].slots_bytes + of_peer->notice_index * NOTICE_BYTES;
}

size_t holdings_log_bytes(const struct holdings *h, int rank)
{
	return h->of_rank[rank].log_bytes;
}

int holdings_meet(const void *holdings, int a, int b)
{
	return holdings_window_bytes(holdings, a, b) || holdings_window_bytes(holdings, b, a);
}

/* ---- opening and closing --------------------------------------------------- */

/* Each shard is read from its first holder at the start. */
static void find_holders(struct home *home)
{
	const struct holdings *h = home->holdings;

	for (uint32_t i = 0; i < h->n_shards * h->holders; i++)
		home->of[i] = (struct holder){
			.at = h->at[i],
			.since = i % h->holders ? 0 : home->job->membership_epoch,
			.endpoint = home->job->peers[h->at[i].rank].endpoint
		};
}

/* Returns a number that sorts the shards in the order of home_turn(). Its lowest 24 bits are the
 * shard. Jobs with more than 2^15 ranks have another order. */
static uint64_t turn_key(const struct home *home, uint32_t shard)
{
	const int size = home->job->size, self = home->job->rank;
	const struct holding *at = holdings_at(home->holdings, shard, 0);
	const uint64_t own = at->rank == self, ahead = (uint64_t)((at->rank - self + size) % size);

	return own << 63 | (uint64_t)at->notice_index << 39 | ahead << 24 | shard;
}

static int by_turn(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

uint32_t home_turn(const struct home *home, uint32_t i)
{
	return home->turns[i] & SHARDS_MAX;
}

int home_open(sluice_job *job, const struct layout *l, struct home **out)
{
	const struct holdings *h = l->holdings;
	const size_t n = (size_t)job->size;
	struct home *home = *out = calloc(1, sizeof(*home));
	int rc = 0;

	if (home) {
		home->job = job;
		home->holdings = h;
		home->of = calloc((size_t)h->n_shards * h->holders, sizeof(*home->of));
		home->turns = calloc(h->n_shards, sizeof(*home->turns));
		home->windows = calloc(n, sizeof(struct region *));
		home->remote_windows = calloc(n, sizeof(struct remote *));
		home->remote_logs = calloc(n, sizeof(struct remote *));
	}
	if (!home || !home->of || !home->turns || !home->windows || !home->remote_windows ||
	    !home->remote_logs)
		return fail(SLUICE_ENOMEM, "no memory for %zu windows", n);
	find_holders(home);
	for (uint32_t s = 0; s < h->n_shards; s++)
		home->turns[s] = turn_key(home, s);
	qsort(home->turns, h->n_shards, sizeof(*home->turns), by_turn);
	for (int p = 0; p < job->size && !rc; p++) {
		const size_t bytes = holdings_window_bytes(h, job->rank, p);

		if (bytes)
			rc = region_open(bytes, REGION_WRITE, "window", &home->windows[p]);
		if (home->windows[p])
			region_relax(home->windows[p]);
	}
	if (!rc && holdings_log_bytes(h, job->rank))
		rc = region_open(holdings_log_bytes(h, job->rank), REGION_READ, "log", &home->log);
	if (home->log)
		region_relax(home->log);
	return rc;
}

static void close_remote(struct remote **remote)
{
	if (*remote)
		(*remote)->endpoint->transport->ops->remote_close(remote);
}

void home_close(struct home **out)
{
	struct home *home = *out;

	if (!home)
		return;
	for (int p = 0; p < home->job->size; p++) {
		if (home->remote_windows)
			close_remote(&home->remote_windows[p]);
		if (home->remote_logs)
			close_remote(&home->remote_logs[p]);
		if (home->windows)
			region_close(&home->windows[p]);
	}
	region_close(&home->log);
	free(home->windows);
	free(home->remote_windows);
	free(home->remote_logs);
	free(home->of);
	free(home->turns);
	free(home);
	*out = NULL;
}

/* ---- exchanging ------------------------------------------------------------ */

/* Closes the files of regions once all peers have mapped them, because file descriptors are
 * limited. */
static void close_files(const struct home *home)
{
	for (int p = 0; p < home->job->size; p++)
		region_close_file(home->windows[p]);
	region_close_file(home->log);
}

static int open_remote(const struct home *home, int peer, const uint8_t *descriptor, uint64_t need,
		       struct remote **out)
{
	sluice_job *job = home->job;

	if (!need || !round_has(job, peer))
		return 0;
	int rc = peers_open_region(job, peer, descriptor, out);
	if (rc == SLUICE_EPEER && job_can_lose(job, peer))
		return 0; /* the peer has ended, and an event will report that */
	if (!rc && (*out)->bytes < need)
		rc = fail(SLUICE_EWIRE, "%s offers a region of %llu bytes, but %llu are needed",
			  rank_text(job, peer), (unsigned long long)(*out)->bytes,
			  (unsigned long long)need);
	return rc;
}

/* The descriptors of all models for one peer are contiguous, two for each model. */
enum { ROW = 2 * REGION_DESCRIPTOR_BYTES };

static uint8_t *row_at(uint8_t *rows, size_t n, int peer, size_t i)
{
	return rows + ((size_t)peer * n + i) * ROW;
}

static int describe_home(const struct home *home, uint8_t *mine, size_t n, size_t i)
{
	sluice_job *job = home->job;
	int rc = 0;

	for (int p = 0; p < job->size && !rc; p++) {
		uint8_t *row = row_at(mine, n, p, i);

		if (home->windows[p])
			rc = describe_to_peer(job, p, home->windows[p], row);
		if (!rc && home->log && job->peers[p].control)
			rc = describe_to_peer(job, p, home->log, row + ROW / 2);
	}
	return rc;
}

static int reach_home(struct home *home, uint8_t *theirs, size_t n, size_t i)
{
	const struct holdings *h = home->holdings;
	const int own = home->job->rank;
	int rc = 0;

	for (int p = 0; p < home->job->size && !rc; p++) {
		const uint8_t *row = row_at(theirs, n, p, i);

		rc = open_remote(home, p, row, holdings_window_bytes(h, p, own),
				 &home->remote_windows[p]);
		if (!rc)
			rc = open_remote(home, p, row + ROW / 2, holdings_log_bytes(h, p),
					 &home->remote_logs[p]);
	}
	for (uint32_t k = 0; k < h->n_shards * h->holders; k++) {
		home->of[k].window = home->remote_windows[h->at[k].rank];
		home->of[k].log = home->remote_logs[h->at[k].rank];
	}
	return rc;
}

int homes_exchange(struct home *const *homes, size_t n)
{
	static const char what[] = "open the model";
	sluice_job *job = homes[0]->job;
	const size_t rows = (size_t)job->size * n;
	uint8_t *mine = calloc(rows, ROW), *theirs = calloc(rows, ROW);
	int rc = mine && theirs ? 0 : fail(SLUICE_ENOMEM, "no memory to exchange regions");

	for (size_t i = 0; i < n && !rc; i++)
		rc = describe_home(homes[i], mine, n, i);
	rc = descriptors_swap(job, rc, what, mine, 2 * n, theirs);
	for (size_t i = 0; i < n && !rc; i++)
		rc = reach_home(homes[i], theirs, n, i);
	free(mine);
	free(theirs);
	rc = collective_agree(job, rc, what);
	for (size_t i = 0; i < n && !rc; i++)
		close_files(homes[i]);
	return rc;
}

/* ---- who holds a shard ------------------------------------------------------ */

uint32_t home_holders(const struct home *home)
{
	return home->holdings->holders;
}

const struct holder *home_holder(const struct home *home, uint32_t shard, uint32_t k)
{
	return &home->of[shard * home->holdings->holders + k];
}

const struct holder *home_current(const struct home *home, uint32_t shard)
{
	const struct holder *of = home_holder(home, shard, 0), *newest = of;

	for (uint32_t k = 1; k < home->holdings->holders; k++)
		if (of[k].since > newest->since)
			newest = &of[k];
	return newest;
}

int home_rank(const struct home *home, uint32_t shard)
{
	return home_current(home, shard)->at.rank;
}

int home_is_here(const struct home *home, uint32_t shard)
{
	return home_rank(home, shard) == home->job->rank;
}

void home_move(struct home *home, uint32_t shard, uint32_t k, uint64_t epoch)
{
	home->of[shard * home->holdings->holders + k].since = epoch;
}

/* ---- where a shard is ------------------------------------------------------- */

static const struct holding *holding_here(const struct home *home, uint32_t shard)
{
	const struct holdings *h = home->holdings;

	return holdings_at(h, shard, which_holder(h, shard, home->job->rank));
}

const uint8_t *home_notice(const struct home *home, uint32_t shard, uint32_t k)
{
	const struct holding *at = holdings_at(home->holdings, shard, k);

	return (const uint8_t *)home->windows[at->rank]->base +
	       holdings_notice_offset(home->holdings, home->job->rank, at);
}

struct remote *home_notice_to(const struct home *home, uint32_t shard, int worker, uint64_t *offset)
{
	*offset = holdings_notice_offset(home->holdings, worker, holding_here(home, shard));
	return home->remote_windows[worker];
}

const uint8_t *home_slots(const struct home *home, uint32_t shard, int worker)
{
	return (const uint8_t *)home->windows[worker]->base +
	       holding_here(home, shard)->slots_offset;
}

uint8_t *home_log(const struct home *home, uint32_t shard)
{
	return (uint8_t *)home->log->base + holding_here(home, shard)->log_offset;
}

uint8_t *home_snapshot(const struct home *home, uint32_t shard)
{
	return (uint8_t *)home->log->base + holding_here(home, shard)->snapshot_offset;
}
