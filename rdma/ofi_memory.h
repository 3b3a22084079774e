/* SPDX-License-Identifier: BSD-3-Clause
 * What peers may reach over libfabric, and what they were told of it. A key of libfabric is good
 * for whoever knows it, and covers a whole registration. So each peer gets a registration of its
 * own of each region that is described to it, with the rights of that region only and a random key,
 * and of the control region one of its own line. To end a registration takes the right back. Called
 * by ofi.c and ofi_flow.c.
 *
 * A region ends its registrations when it closes, which may be in another thread than the one that
 * polls. All other calls are made with the transport's lock held, which that one takes. */
#ifndef RDMA_OFI_MEMORY_H
#define RDMA_OFI_MEMORY_H
#include "rdma/ofi_fabric.h"
#include "rdma/transport.h"
#include <pthread.h>

struct ofi_memory;

int ofi_memory_open(struct ofi_fabric *fabric, int rank, int size, pthread_mutex_t *lock,
		    struct ofi_memory **out);
/* All registrations end, and regions forget them; so do the addresses of regions that were closed.
 * Called after ofi_fabric_stop(). */
void ofi_memory_close(struct ofi_memory **m);

/* What a peer needs to know of a region of which it may reach bytes [from, from + n). */
int ofi_memory_describe(struct ofi_memory *m, int peer, const struct region *region, size_t from,
			size_t n, uint8_t descriptor[REGION_DESCRIPTOR_BYTES]);
/* No key that the peer was given works any more, and it gets no other. */
void ofi_memory_revoke(struct ofi_memory *m, int peer);

/* A peer's region, from its descriptor (hostile input). */
int ofi_memory_reach(struct ofi_memory *m, struct endpoint *e,
		     const uint8_t descriptor[REGION_DESCRIPTOR_BYTES], struct remote **out);
void ofi_memory_leave(struct remote **remote);
/* Where the peer's region begins, and its key. */
struct ofi_target {
	uint64_t address, key;
};
struct ofi_target ofi_memory_target(const struct remote *remote);

/* The descriptor of local memory for libfabric; *desc is NULL where it wants none. Called for all
 * memory that is going to be used. */
int ofi_memory_local(struct ofi_memory *m, const struct region *region, void **desc);

/* Device memory as the source of puts: 1 or 0, SLUICE_E*, or OFI_UNTRIED: register it, try it, and
 * say whether it works. A registration that does not work ends with the region, as the trial may
 * still use it. */
enum { OFI_UNTRIED = 2 };
int ofi_memory_in_place(struct ofi_memory *m, const struct region *region);
/* 0, or a negative error of libfabric. */
int ofi_memory_try_device(struct ofi_memory *m, const struct region *region, struct fid_mr **mr);
void ofi_memory_tried(struct ofi_memory *m, const struct region *region, int works);
#endif
