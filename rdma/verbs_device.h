/* SPDX-License-Identifier: BSD-3-Clause
 * The device, port and address that the verbs transport uses, and the capabilities of that device.
 * Nothing here registers memory or contacts a peer, so every refusal comes before that. */
#ifndef RDMA_VERBS_DEVICE_H
#define RDMA_VERBS_DEVICE_H
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct verbs_device {
	char name[64];
	uint8_t port;
	int gid_index; /* -1 on InfiniBand, which uses the IP address */
	union ibv_gid gid;
	struct sockaddr_storage address; /* bound by rdma_cm; its port number is 0 */
	int infiniband;                  /* 1: InfiniBand, 0: Ethernet (RoCE) */
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	char reason[192]; /* why it was chosen, for the log */
};

/* device: the list of SLUICE_DEVICE (card_list.h). Of the usable ones that it allows, this process
 * takes the one that card_choice.h names. gid_index: "auto" or NULL: the first routable RoCEv2 one.
 * Fails with SLUICE_ENOSUPP, which is not logged, and a sentence that names what is missing and the
 * remedy. */
int verbs_device_choose(const char *device, const char *gid_index, struct verbs_device *out);

/* The effect of a fork on the queues of a card, whose pages are private memory of this process.
 * Before Linux 5.12, either parent or child got a copy, and the card kept the other one. */
enum verbs_fork {
	VERBS_FORK_COPIED,   /* the kernel copies pinned pages for the child */
	VERBS_FORK_GUARDED,  /* libibverbs keeps them from the child */
	VERBS_FORK_DANGEROUS /* neither: a fork may break this rank */
};
/* Called before the first device is opened, because libibverbs refuses later. Asks libibverbs to
 * guard the pages where the kernel does not, and logs a failure once. */
enum verbs_fork verbs_fork_guard(void);

/* Returns 1 if the port of an open device is up, or cannot be queried. */
int verbs_port_active(struct ibv_context *context, const struct verbs_device *device);

/* Returns the bytes that this process has pinned. */
uint64_t verbs_pinned(void);
/* Checks that this process may pin this many more bytes. SLUICE_ENOMEM: the message gives the need,
 * the limit, its origin and the remedy. */
int verbs_memlock_check(size_t bytes, const char *what);

/* Reports a failed call of libibverbs or of the system, with errno and a remedy. Returns
 * SLUICE_ENOMEM or SLUICE_EDEVICE. */
int verbs_failed(const char *call);

/* "10.3.0.1 port 1234" */
const char *verbs_address_text(const struct sockaddr_storage *address, char text[80]);
#endif
