/* SPDX-License-Identifier: BSD-3-Clause
 * Chooses the transport between each two ranks. Every rank computes it from the records of all
 * ranks, so all get the same result. Called by join.c.
 *
 * A record has the address of each transport that its rank has opened. A name without an address is
 * a transport that the rank can open: a last resort (rdma/transport.h), which is costly and which
 * most jobs do not need.
 *
 * A transport with networks (rdma/network.h) reaches a peer through two cards of one network. If
 * the peers' first cards share none, the ranks open other cards, or one of them tries whether a
 * route leads to the other; then all exchange records a second time. The lowest of several ranks
 * with equal networks makes the trial for all of them. */
#ifndef RUNTIME_REACH_H
#define RUNTIME_REACH_H
#include "rdma/network.h"
#include "slurm/bootstrap.h"
#include <stddef.h>
#include <stdint.h>

/* Returns the entry of a record that has this name of at most 7 characters, or NULL. card: the
 * number of the card on which the transport is open. It is 0 for the card that the rank prefers,
 * and for entries without a card. */
const uint8_t *record_find(const struct rank_record *record, const char *name, int card,
			   size_t *bytes_out);

struct reach;
/* simulated: 1 if the ranks are threads of one process. Before reach_fill(), no rank reaches
 * another. */
int reach_open(int size, int simulated, struct reach **out);
/* Reads the records of all ranks, which may be freed afterwards. After a second call, no transport
 * is missing any more, because all cards are open and all trials were made. */
void reach_fill(struct reach *r, const struct rank_record *records);
void reach_close(struct reach **r);

/* Returns the index, in the table of transports, of the first transport that both ranks have opened
 * and that connects them, or -1. */
int reach_transport(const struct reach *r, int a, int b);
/* Returns the first transport that would connect two ranks and that both have opened or can open,
 * if it precedes the one that connects them now. Returns -1 if there is none. */
int reach_missing(const struct reach *r, int a, int b);
/* Returns 1 if two ranks can never reach each other, and sets *a_out and *b_out to them. Prefers a
 * pair that includes this rank, and otherwise takes the lowest pair. */
int reach_cut(const struct reach *r, int own, int *a_out, int *b_out);
/* Returns 1 if some rank must open another transport. */
int reach_is_incomplete(const struct reach *r);
/* Returns 1 if this rank must open that transport, even if only because a trial may fail. */
int reach_wants(const struct reach *r, int rank, int transport);

/* Returns how the transport with networks connects two ranks: by card a of one rank and card b of
 * the other. */
struct pairing reach_pairing(const struct reach *r, int a, int b);
/* Returns the index, in the table, of the transport with networks, or -1. */
int reach_networked(void);
/* Counts, for each card of a rank except the preferred one, the peers that the rank reaches through
 * that card. */
void reach_cards(const struct reach *r, int rank, int peers[NETWORKS_MOST]);
/* Sets peers to the ranks to which this rank must try a route. Returns their number, which is less
 * than the number of ranks. */
int reach_trials(const struct reach *r, int rank, int *peers);

/* The result of a rank's trials, an entry of its second record. It has the number of ranks that did
 * not answer, or TRIAL_ALL, in 1 byte; those ranks, in 4 bytes each; and a text that explains the
 * first failure. */
enum { TRIAL_LISTED = 32, TRIAL_ALL = 255, TRIAL_TEXT = 160 };
extern const char reach_trial_name[8];
/* Returns which of two ranks made the trial for the pair. */
int reach_tester(const struct reach *r, int a, int b);

/* How the transport with networks connects two ranks. The last two values mean that it does not. */
enum reach_way { WAY_OWN, WAY_OTHER_CARD, WAY_ROUTE, WAY_NO_ROUTE, WAY_NO_NETWORK, WAYS };
/* For one reach_way: the number of pairs of ranks on different nodes that have opened that
 * transport, and the lowest pair. */
struct reach_count {
	uint64_t pairs;
	int a, b;
};
void reach_count(const struct reach *r, struct reach_count out[WAYS]);
/* Returns the lowest rank that uses a transport, or -1. */
int reach_first_user(const struct reach *r, int transport);
#endif
