/* SPDX-License-Identifier: BSD-3-Clause
 * The devices, ports and addresses that the verbs transport can use, the one of them that this rank
 * prefers, and their capabilities.
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
	int gid_index; /* -1: an IP address on InfiniBand, which rdma_cm uses */
	union ibv_gid gid;
	/* The address for rdma_cm; its port number is 0. With the family AF_UNSPEC, this is the
	 * port without an IP address, and ranks connect by its GID. */
	struct sockaddr_storage address;
	uint8_t prefix; /* the prefix length of the address */
	int infiniband; /* 1: InfiniBand, 0: Ethernet (RoCE) */
	uint16_t pkey;  /* for a port without an IP address: the partition, of which the port is
			   a full member */
	uint16_t pkey_index;
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	char reason[192]; /* the reason why it was chosen, for the log */
};

/* The devices and addresses that the user allows. */
struct verbs_wanted {
	const char *device;    /* SLUICE_DEVICE, a list (card_list.h) */
	const char *interface; /* SLUICE_INTERFACE, a list of network interfaces */
	const char *gid_index; /* SLUICE_GID_INDEX; "auto" or NULL: any RoCEv2 GID that can be
				  routed */
	const char *gid_net;   /* SLUICE_GID_NET: addresses in this network; NULL or "": all */
};
enum { VERBS_DEVICES_MOST = 16 };
/* Finds the usable devices, one for each address. out[0] is the one that card_choice.h chooses for
 * this process, with its first address. The other addresses of its port follow, then the first
 * addresses of other ports, nearest first, and then the other addresses of these ports. Fails with
 * SLUICE_ENOSUPP, which is not logged, and a sentence that names what is missing and the remedy. */
int verbs_devices_find(const struct verbs_wanted *wanted,
		       struct verbs_device out[VERBS_DEVICES_MOST], int *n_out);
/* Finds only out[0]. */
int verbs_device_choose(const struct verbs_wanted *wanted, struct verbs_device *out);

/* How a fork treats the queues of a card, whose pages belong to this process alone. Before
 * Linux 5.12, the kernel gave a copy to either the parent or the child, and the card kept the
 * original pages. */
enum verbs_fork {
	VERBS_FORK_COPIED,   /* the kernel copies pinned pages for the child */
	VERBS_FORK_GUARDED,  /* libibverbs excludes pinned pages from the child */
	VERBS_FORK_DANGEROUS /* neither is done, so a fork may break this rank */
};
/* Called before the first device is opened, because libibverbs refuses this later. If the kernel
 * does not protect the pages, asks libibverbs to guard them, and logs a failure once. */
enum verbs_fork verbs_fork_guard(void);

/* Returns 1 if the port of an open device is up, or cannot be queried. */
int verbs_port_active(struct ibv_context *context, const struct verbs_device *device);

/* Returns the bytes that this process has pinned. */
uint64_t verbs_pinned(void);
/* Checks that this process may pin this many more bytes. If not, returns SLUICE_ENOMEM, and the
 * message gives the need, the limit, its origin and the remedy. */
int verbs_memlock_check(size_t bytes, const char *what);

/* Reports a failed call of libibverbs or of the system, with errno and a remedy. Returns
 * SLUICE_ENOMEM or SLUICE_EDEVICE. */
int verbs_failed(const char *call);
/* Does the same for a call on this device, which the message names. */
int verbs_device_failed(const struct verbs_device *device, const char *call);

/* Returns 1 if ranks connect by the GID of the device's port. */
static inline int verbs_device_by_gid(const struct verbs_device *device)
{
	return device->address.ss_family == AF_UNSPEC;
}

/* Returns 1 if packets from the port need a GRH. */
static inline int verbs_device_global(const struct verbs_device *device)
{
	return !device->infiniband || !device->port_attr.lid ||
	       (device->port_attr.flags & IBV_QPF_GRH_REQUIRED) != 0;
}

/* Writes for example "10.3.0.1" or "GID fe80::2c9:300:1:2, P_Key 0xffff". */
const char *verbs_device_text(const struct verbs_device *device, char text[80]);
/* Writes for example "10.3.0.1 port 1234". */
const char *verbs_address_text(const struct sockaddr_storage *address, char text[80]);
/* Returns the smaller number, for limits of a device. */
static inline uint32_t lesser(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Returns n, or 0 for a negative limit. */
static inline uint32_t counted(int n)
{
	return n > 0 ? (uint32_t)n : 0;
}
#endif
