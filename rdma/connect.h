/* SPDX-License-Identifier: BSD-3-Clause
 * All connections of the verbs transport. Passes the requests and answers of peers (carrier.h), the
 * events of the device and the timers to the links that they concern (link.h). Keeps no state for a
 * peer before its proof: a hello is answered and forgotten. Called by verbs.c. */
#ifndef RDMA_CONNECT_H
#define RDMA_CONNECT_H
#include "rdma/link.h"

struct connect;

/* Begins to accept requests at the device's address. The time limits are those of
 * transport_config. */
int connect_open(const struct verbs_device *device, int rank, int size, int lost_after_ms,
		 int link_lost_after_ms, struct connect **out);
/* Returns the open device, in which queue pairs must be made. */
struct ibv_context *connect_context(const struct connect *c);
/* connect_record() adds the data that peers need to connect to this rank. connect_text() writes the
 * same data for the log. */
void connect_record(const struct connect *c, struct verbs_record *out);
void connect_text(const struct connect *c, char text[CARRIER_TEXT]);
int connect_fd(const struct connect *c);
/* Sets the objects that links use. Called before the first link is added. */
void connect_use(struct connect *c, struct queues *queues, const struct queue_sizes *sizes,
		 const struct path_choice *path, struct event_queue *events, unsigned *wants);
/* Sets the keys by which peers are recognised. */
void connect_admit(struct connect *c, const struct peer_keys *keys);
int connect_admitted(const struct connect *c);
/* Begins to connect to a peer. c owns the link. */
int connect_add(struct connect *c, const struct link_config *config, struct link **out);

/* Handles the events of the carrier and the device, and the timers. Returns 1 if timers run. */
int connect_look(struct connect *c, uint64_t now);
/* Returns 1 if connect_look() left events of peers for its next call. No descriptor becomes
 * readable for these events. */
int connect_is_behind(const struct connect *c);
/* Handles events that completions recorded. Called when a link has set LINK_SETTLES. */
void connect_settle(struct connect *c);

/* Stops listening, and takes all links down. */
void connect_down(struct connect *c);
/* Closes the links, after connect_down(). */
void connect_close(struct connect **c);
#endif
