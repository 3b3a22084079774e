/* SPDX-License-Identifier: BSD-3-Clause
 * All connections of the verbs transport: the listener, the events of rdma_cm and of the device,
 * and the timers, each handed to the link that it concerns (link.h). Nothing is kept for whoever
 * has not proved to belong to the job: a hello is answered and forgotten. Called by verbs.c. */
#ifndef RDMA_CONNECT_H
#define RDMA_CONNECT_H
#include "rdma/link.h"

struct connect;

/* Listens at the device's address. */
int connect_open(const struct verbs_device *device, int rank, int size, int lost_after_ms,
		 struct connect **out);
/* The context of the listener, which rdma_cm shares among all ids of the device. */
struct ibv_context *connect_context(const struct connect *c);
/* Where it listens. */
const struct sockaddr_storage *connect_address(const struct connect *c);
uint16_t connect_port(const struct connect *c);
int connect_fd(const struct connect *c);
/* What the links use, before the first is added. */
void connect_use(struct connect *c, struct queues *queues, const struct queue_sizes *sizes,
		 struct event_queue *events, unsigned *wants);
/* The job's key is known: peers can be told from strangers. */
void connect_admit(struct connect *c, const struct job_secret *secret);
int connect_admitted(const struct connect *c);
/* Seconds after which a request that nobody answers fails. */
double connect_fails_after(const struct connect *c);
/* Begins to connect to a peer. The link is c's. */
int connect_add(struct connect *c, const struct link_config *config, struct link **out);

/* Handles what rdma_cm and the device report, and the timers. Returns whether timers run. */
int connect_look(struct connect *c, uint64_t now);
/* What completions noted, when a link wanted LINK_SETTLES. */
void connect_settle(struct connect *c);

/* Nobody can connect any more, and all links are down. */
void connect_down(struct connect *c);
/* The links are closed. After connect_down(). */
void connect_close(struct connect **c);
#endif
