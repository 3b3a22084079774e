/* SPDX-License-Identifier: BSD-3-Clause
 * The memory that peers may reach over libfabric, and the keys they were given. A libfabric key
 * covers a whole registration, and any rank that knows it can use it. So each peer gets its own
 * registration of each described region, with that region's rights and a random key, and a
 * registration of only its own line of the control region. Ending a registration revokes the right.
 * Called by ofi.c and ofi_flow.c.
 *
 * A region ends its registrations when it closes, perhaps on a thread that does not poll, and takes
 * the transport's lock for that. All other calls require the lock. */
#ifndef RDMA_OFI_MEMORY_H
#define RDMA_OFI_MEMORY_H
#include "rdma/ofi_fabric.h"
#include "rdma/transport.h"
#include <pthread.h>

struct ofi_memory;

int ofi_memory_open(struct ofi_fabric *fabric, int rank, int size, pthread_mutex_t *lock,
		    struct ofi_memory **out);
/* Ends all registrations, and unmaps the addresses of closed regions. Called after
 * ofi_fabric_stop(). */
void ofi_memory_close(struct ofi_memory **m);

/* Writes the descriptor of a region for a peer that may reach bytes [from, from + n). */
int ofi_memory_describe(struct ofi_memory *m, int peer, const struct region *region, size_t from,
			size_t n, uint8_t descriptor[REGION_HEAD_BYTES]);
/* Makes all keys of the peer invalid. The peer gets no new keys. */
void ofi_memory_revoke(struct ofi_memory *m, int peer);

/* Opens a peer's region from its descriptor, which may be hostile. */
int ofi_memory_reach(struct ofi_memory *m, struct endpoint *e,
		     const uint8_t descriptor[REGION_HEAD_BYTES], struct remote **out);
void ofi_memory_leave(struct remote **remote);
/* The address of the peer's region, and its key. */
struct ofi_target {
	uint64_t address, key;
};
struct ofi_target ofi_memory_target(const struct remote *remote);

/* Finds libfabric's descriptor of local memory. *desc becomes NULL if the memory needs none. All
 * memory must pass through this call before it is used. */
int ofi_memory_local(struct ofi_memory *m, const struct region *region, void **desc);

/* Returns whether puts can read this device memory directly: 1, 0, SLUICE_E*, or OFI_UNTRIED. After
 * OFI_UNTRIED the caller registers the memory, tests it, and reports the result. A registration
 * whose test failed stays until the region closes, because the test may still use it. */
enum { OFI_UNTRIED = 2 };
int ofi_memory_in_place(struct ofi_memory *m, const struct region *region);
/* Registers device memory for the test. Returns 0, or a negative error of libfabric. */
int ofi_memory_try_device(struct ofi_memory *m, const struct region *region, struct fid_mr **mr);
void ofi_memory_tried(struct ofi_memory *m, const struct region *region, int works);
#endif
