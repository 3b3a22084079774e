/* SPDX-License-Identifier: BSD-3-Clause
 * Which device, port and address the verbs transport uses, and what that device can do. Nothing
 * here registers memory or talks to a peer, so that every refusal comes before that. */
#ifndef RDMA_VERBS_DEVICE_H
#define RDMA_VERBS_DEVICE_H
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct verbs_device {
	char name[64];
	uint8_t port;
	int gid_index; /* -1 on InfiniBand, where the address is found by name */
	union ibv_gid gid;
	struct sockaddr_storage address; /* what rdma_cm binds: port number 0 */
	int infiniband;                  /* link layer; else Ethernet (RoCE) */
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	char reason[192]; /* why this one, for the log */
};

/* Chooses by device ("name[:port]"; "" or NULL: the usable one that is nearest to this process's
 * GPU, without a GPU the first usable one) and gid_index ("auto" or NULL: the first routable RoCEv2
 * one). SLUICE_ENOSUPP with a sentence that says what is missing and what to do; not logged: the
 * caller knows whether it matters. */
int verbs_device_choose(const char *device, const char *gid_index, struct verbs_device *out);

/* Whether the port of an open device is up, or cannot be asked. */
int verbs_port_active(struct ibv_context *context, const struct verbs_device *device);

/* May this process pin so many bytes more? 0, or SLUICE_ENOMEM: need, limit, origin, remedy. */
int verbs_memlock_check(size_t bytes, const char *what);

/* After a call of libibverbs or of the system failed: a message with the call, errno and a remedy.
 * SLUICE_ENOMEM or SLUICE_EDEVICE. */
int verbs_failed(const char *call);

/* "10.3.0.1 port 1234" */
const char *verbs_address_text(const struct sockaddr_storage *address, char text[80]);
#endif
