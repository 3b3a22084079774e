/* SPDX-License-Identifier: BSD-3-Clause
 * The IP addresses of a port of an RDMA device, by which rdma_cm connects: entries of its GID table
 * on Ethernet, addresses of its IPoIB interfaces on InfiniBand. Called by verbs_device.c. */
#ifndef RDMA_VERBS_ADDRESS_H
#define RDMA_VERBS_ADDRESS_H
#include "rdma/verbs_device.h"

/* The networks and interfaces that the user allows, and the addresses of this machine. */
struct verbs_addresses;
/* Fails with SLUICE_EINVAL, which is not logged, if a variable is not valid. */
int verbs_addresses_open(const struct verbs_wanted *wanted, struct verbs_addresses **out);
void verbs_addresses_close(struct verbs_addresses **a);

enum { VERBS_ADDRESSES_MOST = 4 };
struct verbs_address {
	struct sockaddr_storage address;
	uint8_t prefix;
	union ibv_gid gid;
	int gid_index; /* -1 on InfiniBand */
};
/* Finds the addresses of the device's port. IPv4 comes before IPv6. Returns how many, or
 * SLUICE_ENOSUPP, which is not logged. */
int verbs_addresses_find(const struct verbs_addresses *a, struct ibv_context *context,
			 const struct verbs_device *device,
			 struct verbs_address out[VERBS_ADDRESSES_MOST]);
#endif
