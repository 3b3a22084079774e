/* SPDX-License-Identifier: BSD-3-Clause
 * Which transport carries what two ranks send each other. Every rank reads it out of the records of
 * all ranks, so that all decide alike. Called by join.c.
 *
 * A record has the address of each transport that its rank has opened. Where there is a name
 * without an address, the rank can open that transport: a last resort (rdma/transport.h), which
 * costs something, and which most jobs do not need. */
#ifndef RUNTIME_REACH_H
#define RUNTIME_REACH_H
#include "slurm/bootstrap.h"
#include <stddef.h>
#include <stdint.h>

/* What a record says under a name of at most 7 characters; NULL: it has no such name. */
const uint8_t *record_find(const struct rank_record *record, const char *name, size_t *bytes_out);

struct reach;
/* simulated: the ranks are threads of one process. Nobody reaches anybody before reach_fill(). */
int reach_open(int size, int simulated, struct reach **out);
/* Reads the records of all ranks, also again. They are not needed afterwards. */
void reach_fill(struct reach *r, const struct rank_record *records);
void reach_close(struct reach **r);

/* The number, in the table of transports, of the first one that both ranks have opened and that
 * reaches from one to the other; -1: there is none. */
int reach_transport(const struct reach *r, int a, int b);
/* Where there is none: the first one that reaches, and that both have opened or can open; -1: there
 * is none either, or none is needed. */
int reach_missing(const struct reach *r, int a, int b);
/* 1 with two ranks between which there is no way, and will be none: with own among them, if it is
 * in such a pair; else the lowest ones. 0: there are no such. */
int reach_cut(const struct reach *r, int own, int *a_out, int *b_out);
/* Whether some rank is to open a transport that it has not opened. */
int reach_is_incomplete(const struct reach *r);
/* Whether this rank is to open that transport. */
int reach_wants(const struct reach *r, int rank, int transport);
/* The lowest rank that uses a transport; -1: none does. */
int reach_first_user(const struct reach *r, int transport);
#endif
