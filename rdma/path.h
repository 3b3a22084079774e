/* SPDX-License-Identifier: BSD-3-Clause
 * How the packets of a rank's queue pairs travel: traffic class, service level, path MTU and
 * timers. librdmacm would take them from the connection manager, which sets an RNR timer of 655 ms,
 * the client's MTU, and a timeout that the server chooses for its side. So this file moves queue
 * pairs to RTS itself. Called by verbs.c, which chooses, and by queue_pair.c. */
#ifndef RDMA_PATH_H
#define RDMA_PATH_H
#include "rdma/verbs_device.h"
#include <rdma/rdma_cma.h>
#include <stdint.h>

enum {
	PATH_WHY_BYTES = 200,
	PATH_RNR_TIMER = 12,      /* 0.64 ms: a rank without a ready receive soon has one */
	PATH_TRAFFIC_CLASS = 106, /* DSCP 26, and ECN is possible: as RoCE networks are set up */
	PATH_AS_RESOLVED = -1     /* as rdma_cm resolved it */
};

struct path_choice {
	int traffic_class, service_level; /* or PATH_AS_RESOLVED */
	uint8_t mtu;                      /* of the port: enum ibv_mtu */
};

/* traffic_class: "auto" or a number; NULL: auto. On Ethernet, auto is the port's traffic class if
 * an administrator has set it, else PATH_TRAFFIC_CLASS. service_level: the same, but auto is the
 * resolved level. Returns SLUICE_EINVAL, which is not logged, for other text. */
int path_choose(const struct verbs_device *device, const char *traffic_class,
		const char *service_level, struct path_choice *out);
/* "106", or "resolved" for PATH_AS_RESOLVED. */
const char *path_text(int value, char text[16]);

/* Moves a new queue pair to RTS. The id has received the request, or its answer. peer_gid: the only
 * GID that it may reach; NULL: any. peer_mtu: the MTU of the other side's port, or 0 if it is not
 * known. reads: the most READs at once. Returns the path MTU, or -1 and why. */
int path_join(const struct path_choice *path, struct ibv_qp *qp, struct rdma_cm_id *id,
	      const uint8_t *peer_gid, unsigned peer_mtu, uint32_t reads, char why[PATH_WHY_BYTES]);
#endif
