/* SPDX-License-Identifier: BSD-3-Clause
 * The addresses of a port of an RDMA device. rdma_cm connects by IP addresses: on Ethernet these
 * are entries of the port's GID table, on InfiniBand addresses of its IPoIB interfaces. Without an
 * IP address, ranks connect by GID and datagrams (carrier.h). That is always possible on
 * InfiniBand, and on Ethernet if the user names the index of a link-local GID. Called by
 * verbs_device.c. */
#ifndef RDMA_VERBS_ADDRESS_H
#define RDMA_VERBS_ADDRESS_H
#include "rdma/verbs_device.h"

/* The networks and interfaces that the user allows, and the addresses of this machine. */
struct verbs_addresses;
/* Reads the addresses. by_ip is 0 if there is no rdma_cm, and IP addresses are then not used. If an
 * environment variable is not valid, fails with SLUICE_EINVAL, without logging it. */
int verbs_addresses_open(const struct verbs_wanted *wanted, int by_ip,
			 struct verbs_addresses **out);
void verbs_addresses_close(struct verbs_addresses **a);

enum { VERBS_ADDRESSES_MOST = 5 };
struct verbs_address {
	struct sockaddr_storage address; /* AF_UNSPEC: the GID is the address */
	uint8_t prefix;
	union ibv_gid gid;
	int gid_index;             /* -1: an IP address on InfiniBand */
	uint16_t pkey, pkey_index; /* for the GID */
};
/* Finds the addresses of the device's port: IPv4, IPv6, then the GID. Returns their number, or
 * SLUICE_ENOSUPP, which is not logged. */
int verbs_addresses_find(const struct verbs_addresses *a, struct ibv_context *context,
			 const struct verbs_device *device,
			 struct verbs_address out[VERBS_ADDRESSES_MOST]);
#endif
