/* SPDX-License-Identifier: BSD-3-Clause
 * Memory that peers reach one-sidedly: zeroed, page-aligned, backed by shared memory, not inherited
 * by forked children (MADV_DONTFORK), freed when the last process that maps it ends.
 *
 * A region is opened for reading or for writing by peers. Model memory is only in REGION_READ
 * regions, which the kernel refuses to map writable (F_SEAL_FUTURE_WRITE). */
#ifndef RDMA_REGION_H
#define RDMA_REGION_H
#include "base/memory.h"
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum region_access { REGION_READ = 1, REGION_WRITE = 2 }; /* what peers may do */

struct region;

/* A transport's data about a region, such as keys of a network card. It is the first member of a
 * struct of the transport, and is freed before the region's memory. */
struct registration {
	struct registration *next, *next_there; /* the next one in the region's list; the next
						   one in the registry's list */
	struct registry *registry;
	const struct region *region;
	uint32_t id; /* its number in the registry: 1, 2, ... */
};

/* All registrations of one transport. They are used with the transport's lock held. */
struct registry {
	void *owner; /* passed to end() */
	const char *transport;
	size_t bytes; /* size of the struct that begins with a registration */
	pthread_mutex_t *lock;
	/* Frees r, which is already unlinked. Returns 1 if the transport keeps the addresses and
	 * unmaps them itself later. */
	int (*end)(void *owner, struct registration *r);
	struct registration *first;
	uint32_t last_id;
};
/* find() returns a region's registration, or NULL if there is none; add() makes a registration. */
void *registry_find(const struct registry *registry, const struct region *region);
int registry_add(struct registry *registry, const struct region *region, void *out);
/* Ends all registrations. */
void registry_clear(struct registry *registry);

struct common;

struct region {
	char name[24]; /* the region's name in messages; "": it has none */
	void *base;
	size_t bytes;
	void *mapped; /* the mapping of the file, which may begin before base; NULL: none */
	size_t mapped_bytes;
	unsigned access; /* REGION_* mask; 0: only local use (staging, read buffers) */
	int fd; /* sealed memfd, close-on-exec; -1: device memory, memory of a simulated rank, or
		   a file that was closed because no other peer will map it */
	struct common *common;       /* the memory of a simulated rank, which is reached by address
					(in_process.h), or NULL */
	const struct memory *device; /* NULL: host memory. Otherwise base is a device address, which
					the host cannot read */
	int relaxed;                 /* see region_relax() */
	uint64_t nonce;              /* random; checked when a mapping is made from a descriptor */
	struct registration **registrations; /* head of the list of registrations */
};

int region_open(size_t bytes, unsigned access, const char *name, struct region **out);
/* Opens a region over device memory, which must outlive the region. Such a region can only be a
 * source of puts. access must be 0, because peers reach host memory only. */
int region_open_device(const struct memory *memory, unsigned access, struct region **out);
/* Lets a card write and read the region out of order. This is allowed if the bytes are used only
 * after the completion or notify of the transfer that moved them, and are never polled. Called
 * before the region is described or prepared. */
void region_relax(struct region *region);
/* Closes the file once all peers that map the region have done so. Accepts NULL. */
void region_close_file(struct region *region);
/* Ends the registrations, unmaps the region and frees it. No posted transfer may still use it. */
void region_close(struct region **region);

/* A descriptor: the bytes that a peer needs to reach a region. It is made for one endpoint and sent
 * to the endpoint's peer by any means. The head is enough, unless a network card needs several keys
 * for the region. In that case all keys but the first follow the head. */
enum {
	REGION_HEAD_BYTES = 64,
	REGION_KEYS_MOST = 64,
	REGION_DESCRIPTOR_BYTES = REGION_HEAD_BYTES + 4 * (REGION_KEYS_MOST - 1)
};
/* Both also serve memory files that are no regions. region_memfd() is memfd_create(2) for memory
 * that is never executed. region_within_file_limit() returns 1 if RLIMIT_FSIZE allows a file of
 * this size. */
int region_memfd(const char *label, unsigned flags);
int region_within_file_limit(size_t file_bytes);
#endif
