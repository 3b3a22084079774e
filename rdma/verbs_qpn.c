/* SPDX-License-Identifier: BSD-3-Clause
 * Whose queue pair is it: from a completion's number to the endpoint. */
#include "rdma/verbs.h"
#include <string.h>

static uint32_t hash_of(uint32_t qpn)
{
	return qpn * 2654435761u;
}

struct verbs_endpoint *link_of_qpn(const struct verbs *v, uint32_t qpn)
{
	uint32_t at = hash_of(qpn) & v->qpn_mask;

	while (v->by_qpn[at] != NULL && v->by_qpn[at]->qpn != qpn)
		at = (at + 1) & v->qpn_mask;
	return v->by_qpn[at];
}

/* Cold, and a table of a few pointers: made anew at every change. */
void link_index(struct verbs *v)
{
	memset(v->by_qpn, 0, (v->qpn_mask + 1) * sizeof(*v->by_qpn));
	for (int i = 0; i < v->n_peers; i++) {
		struct verbs_endpoint *ep = v->peers[i];
		uint32_t at = hash_of(ep->qpn) & v->qpn_mask;

		if (ep->id == NULL || ep->id->qp == NULL)
			continue;
		while (v->by_qpn[at] != NULL)
			at = (at + 1) & v->qpn_mask;
		v->by_qpn[at] = ep;
	}
}
