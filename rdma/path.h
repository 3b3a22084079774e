/* SPDX-License-Identifier: BSD-3-Clause
 * How the packets of a rank's queue pairs travel: traffic class, service level, path MTU and
 * timers. The connection manager would set an RNR timer of 655 ms, the client's MTU, and a timeout
 * that the server chooses for its side, and librdmacm would use these. So this file itself moves
 * queue pairs to RTS. Called by verbs.c, which chooses, and by queue_pair.c and carrier_ud.c. */
#ifndef RDMA_PATH_H
#define RDMA_PATH_H
#include "rdma/verbs_device.h"
#include <rdma/rdma_cma.h>
#include <stdint.h>

enum {
	PATH_WHY_BYTES = 200,
	PATH_RNR_TIMER = 12,      /* 0.64 ms: if a rank has no receive ready, it soon has one */
	PATH_TRAFFIC_CLASS = 106, /* DSCP 26, with ECN, as RoCE networks are usually set up */
	PATH_AS_RESOLVED = -1     /* as rdma_cm resolved it */
};

struct path_choice {
	int traffic_class, service_level; /* or PATH_AS_RESOLVED */
	uint8_t mtu;                      /* the port's MTU, as enum ibv_mtu */
};

/* Chooses the path. traffic_class is "auto" or a number; NULL means "auto". On Ethernet, auto is
 * the port's traffic class if an administrator has set it, and otherwise PATH_TRAFFIC_CLASS.
 * service_level has the same form; there auto is the resolved level, or 0 on a port without IP. For
 * other text, returns SLUICE_EINVAL, which is not logged. */
int path_choose(const struct verbs_device *device, const char *traffic_class,
		const char *service_level, struct path_choice *out);
/* Returns for example "106", or "resolved" for PATH_AS_RESOLVED. */
const char *path_text(int value, char text[16]);

/* One end of a connection that is made without the connection manager. */
struct path_end {
	uint16_t lid;
	int global; /* 1: packets to this end need a GRH */
	union ibv_gid gid;
	uint8_t mtu;              /* the MTU of its port */
	uint32_t qpn, psn, reads; /* psn: its first packet number; reads: the most READs under
				     way */
};

/* Identifies the ends of a connection. */
struct path_ends {
	/* The id that has received the request or the answer to it, and the only GID to which it
	 * may lead, or NULL. */
	struct rdma_cm_id *id;
	const uint8_t *peer_gid;
	/* These are set if there is no id. */
	const struct verbs_device *device;
	uint32_t psn; /* the first packet number of this side */
	struct path_end peer;
};

/* Moves a new queue pair to RTS. peer_mtu: the MTU of the other side's port, or 0 if it is not
 * known. reads: the most READs under way. Returns the path MTU, or -1 with the reason in why. */
int path_join(const struct path_choice *path, struct ibv_qp *qp, const struct path_ends *ends,
	      unsigned peer_mtu, uint32_t reads, char why[PATH_WHY_BYTES]);
/* Returns the address of an end, for packets from the device. The service level is the user's or 0,
 * because this does not ask the subnet manager for one. */
struct ibv_ah_attr path_address(const struct path_choice *path, const struct verbs_device *device,
				const struct path_end *end);
#endif
