/* SPDX-License-Identifier: BSD-3-Clause
 * Chooses the transport between each two ranks. Every rank computes it from the records of all
 * ranks, so all get the same result. Called by join.c.
 *
 * A record has the address of each transport that its rank has opened. A name without an address is
 * a transport that the rank can open: a last resort (rdma/transport.h), which is costly and which
 * most jobs do not need. */
#ifndef RUNTIME_REACH_H
#define RUNTIME_REACH_H
#include "slurm/bootstrap.h"
#include <stddef.h>
#include <stdint.h>

/* Returns the entry of a record that has this name of at most 7 characters, or NULL. */
const uint8_t *record_find(const struct rank_record *record, const char *name, size_t *bytes_out);

struct reach;
/* simulated: the ranks are threads of one process. No rank reaches another before reach_fill(). */
int reach_open(int size, int simulated, struct reach **out);
/* Reads the records of all ranks, which are not needed afterwards. A second call replaces them. */
void reach_fill(struct reach *r, const struct rank_record *records);
void reach_close(struct reach **r);

/* Returns the index, in the table of transports, of the first one that both ranks have opened and
 * that connects them, or -1. */
int reach_transport(const struct reach *r, int a, int b);
/* If no open transport connects them, returns the first one that would connect them and that both
 * have opened or can open. Returns -1 if there is none, or none is needed. */
int reach_missing(const struct reach *r, int a, int b);
/* Returns 1 and two ranks that can never reach each other: a pair with this rank if there is one,
 * else the lowest pair. */
int reach_cut(const struct reach *r, int own, int *a_out, int *b_out);
/* Returns 1 if some rank must open another transport. */
int reach_is_incomplete(const struct reach *r);
/* Returns 1 if this rank must open that transport. */
int reach_wants(const struct reach *r, int rank, int transport);
/* Returns the lowest rank that uses a transport, or -1. */
int reach_first_user(const struct reach *r, int transport);
#endif
