/* SPDX-License-Identifier: BSD-3-Clause
 * See pieces.h. */
#include "rdma/pieces.h"
#include "base/error.h"
#include "sluice.h"
#include <stdlib.h>

struct piece {
	struct piece *next;
	struct ibv_mr *mr;
};

int pieces_find(const struct piece *first, const void *at, size_t n, uint32_t *lkey_out)
{
	for (const struct piece *p = first; p; p = p->next) {
		const size_t from = (uintptr_t)at - (uintptr_t)p->mr->addr;

		if ((uintptr_t)at < (uintptr_t)p->mr->addr || from > p->mr->length ||
		    n > p->mr->length - from)
			continue;
		*lkey_out = p->mr->lkey;
		return 1;
	}
	return 0;
}

static int register_device_part(struct ibv_pd *pd, const struct verbs_device *device,
				const struct memory *whole, const void *at, size_t n,
				enum method *method, struct ibv_mr **out)
{
	struct memory part = *whole;

	part.address = (void *)(uintptr_t)at;
	part.bytes = n;
	part.fd_offset += (uintptr_t)at - (uintptr_t)whole->address;
	return register_device_memory(pd, device, &part, method, out);
}

int pieces_add(struct piece **first, struct ibv_pd *pd, const struct verbs_device *device,
	       const struct region *region, enum relaxed relaxed, const void *at, size_t n,
	       enum method *method)
{
	struct piece *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*p));
	rc = region->device ?
		     register_device_part(pd, device, region->device, at, n, method, &p->mr) :
		     register_host(pd, (void *)(uintptr_t)at, n,
				   register_local_access(region, relaxed), "a local region",
				   &p->mr);
	if (rc) {
		free(p);
		return rc;
	}
	p->next = *first;
	*first = p;
	return SLUICE_OK;
}

void pieces_end(struct piece **first)
{
	while (*first) {
		struct piece *p = *first;

		register_end(&p->mr);
		*first = p->next;
		free(p);
	}
}
