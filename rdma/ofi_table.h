/* SPDX-License-Identifier: BSD-3-Clause
 * The peers of the transport over libfabric, by rank and by address, and the dispatch of their
 * notices. Called by ofi.c with its lock held. */
#ifndef RDMA_OFI_TABLE_H
#define RDMA_OFI_TABLE_H
#include "rdma/ofi_peer.h"

/* Only ofi_table.c reads the members. */
struct ofi_table {
	int n, size;
	struct ofi_peer **peers; /* [n], in the order in which they were added */
	struct ofi_peer **by_rank;
	/* [address]: libfabric numbers addresses from 0 as they are inserted (FI_AV_TABLE). */
	struct ofi_peer **by_address;
	size_t n_addresses;
	uint64_t strangers; /* number of notices that no peer has sent */
};

int ofi_table_open(struct ofi_table *table, int size);
/* Closes all peers; ofi_table_free() frees the table. */
void ofi_table_close(struct ofi_table *table);
void ofi_table_free(struct ofi_table *table);
/* Adds a peer. SLUICE_EWIRE means that another rank has the same address. */
int ofi_table_add(struct ofi_table *table, struct ofi_peer *p);
/* ofi_table_number() returns the number of peers. ofi_table_at() returns peer i, in the order in
 * which the peers were added. */
int ofi_table_number(const struct ofi_table *table);
struct ofi_peer *ofi_table_at(const struct ofi_table *table, int i);
/* Returns the peer of that rank, or NULL if none was added. */
struct ofi_peer *ofi_table_of_rank(const struct ofi_table *table, int rank);
/* Passes a notice to its peer. A 64-bit notice has a token; for a 32-bit one libfabric names the
 * sender. */
void ofi_table_notice(struct ofi_table *table, uint64_t data, uint32_t token_mask, uint64_t now_ns);
void ofi_table_narrow_notice(struct ofi_table *table, const struct ofi_completion *c,
			     uint64_t now_ns);
#endif
