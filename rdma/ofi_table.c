/* SPDX-License-Identifier: BSD-3-Clause
 * See ofi_table.h. */
#include "rdma/ofi_table.h"
#include "base/error.h"
#include "base/log.h"
#include "sluice.h"
#include <stdlib.h>

int ofi_table_open(struct ofi_table *table, int size)
{
	*table = (struct ofi_table){
		.size = size,
		.peers = calloc((size_t)size, sizeof(struct ofi_peer *)),
		.by_rank = calloc((size_t)size, sizeof(struct ofi_peer *)),
		.n_addresses = (size_t)size + 1, /* the trial inserts this rank's own address too */
		.by_address = calloc((size_t)size + 1, sizeof(struct ofi_peer *)),
	};
	return table->peers && table->by_rank && table->by_address ?
		       SLUICE_OK :
		       fail(SLUICE_ENOMEM, "ofi: no memory for a table of %d peers", size);
}

void ofi_table_close(struct ofi_table *table)
{
	for (int i = 0; i < table->n; i++)
		ofi_peer_close(&table->peers[i]);
	table->n = 0;
}

void ofi_table_free(struct ofi_table *table)
{
	free(table->peers);
	free(table->by_rank);
	free(table->by_address);
}

int ofi_table_add(struct ofi_table *table, struct ofi_peer *p)
{
	const fi_addr_t at = ofi_peer_address(p);
	const int rank = ofi_peer_endpoint(p)->peer;

	if (at >= table->n_addresses || table->by_address[at])
		return fail(SLUICE_EWIRE,
			    "ofi: the address in the record of rank %d belongs to another rank, or "
			    "got an unexpected number from libfabric (%llu of %zu)",
			    rank, (unsigned long long)at, table->n_addresses);
	table->by_address[at] = table->by_rank[rank] = table->peers[table->n++] = p;
	return SLUICE_OK;
}

int ofi_table_number(const struct ofi_table *table)
{
	return table->n;
}

struct ofi_peer *ofi_table_at(const struct ofi_table *table, int i)
{
	return table->peers[i];
}

struct ofi_peer *ofi_table_of_rank(const struct ofi_table *table, int rank)
{
	return table->by_rank[rank];
}

static void drop_notice(struct ofi_table *table)
{
	if (!(table->strangers & (table->strangers + 1)))
		log_line(LOG_WARN, "rdma",
			 "ofi: dropped a notice that no rank of this job sent (%llu so far)",
			 (unsigned long long)table->strangers + 1);
	table->strangers++;
}

void ofi_table_notice(struct ofi_table *table, uint64_t data, uint32_t token_mask, uint64_t now_ns)
{
	const uint32_t token = (uint32_t)(data >> 32), rank = token & token_mask;
	struct ofi_peer *p = rank < (uint32_t)table->size ? table->by_rank[rank] : NULL;

	if (!p || !ofi_peer_noticed(p, token, (uint32_t)data, now_ns))
		drop_notice(table);
}

void ofi_table_narrow_notice(struct ofi_table *table, const struct ofi_completion *c,
			     uint64_t now_ns)
{
	struct ofi_peer *p = c->from < table->n_addresses ? table->by_address[c->from] : NULL;

	if (p)
		ofi_peer_arrived(p, (uint32_t)c->data, now_ns);
	else
		drop_notice(table);
}
