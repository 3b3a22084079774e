/* SPDX-License-Identifier: BSD-3-Clause
 * The queue pair of a connection, and the state that it takes over from the previous one: the
 * peer's log (sendlog.h) and rights (rights.h). On a new queue pair each side sends READY once the
 * keys that it sent are valid, and then KEYS once it has written the table of all keys; see link.h.
 * link.c calls these functions in that order. */
#ifndef RDMA_QUEUE_PAIR_H
#define RDMA_QUEUE_PAIR_H
#include "rdma/frame.h"
#include "rdma/path.h"
#include "rdma/queues.h"
#include "rdma/rights.h"
#include "rdma/sendlog.h"

enum { QP_WHY_BYTES = 200 };

struct queue_pair_config {
	int peer, client; /* client: 1 if this rank connects to the peer */
	struct queues *queues;
	const struct queue_sizes *sizes;
	const struct path_choice *path;
	struct sendlog *log;
	struct rights_peer *rights;
	const uint8_t *slot; /* the slot that the peer writes */
};

struct queue_pair;
int qp_open(const struct queue_pair_config *config, struct queue_pair **out);
void qp_close(struct queue_pair **p);

/* Functions that return an int return 0, or -1 with the reason in why, unless stated otherwise. */

/* Makes a queue pair, whose completions go to owner. */
int qp_make(struct queue_pair *p, void *owner, char why[QP_WHY_BYTES]);
/* Attaches the send log to the queue pair, and makes the keys for its connection. A queue pair that
 * is only named in a hello does not need this. */
int qp_equip(struct queue_pair *p, char why[QP_WHY_BYTES]);
uint32_t qp_number(const struct queue_pair *p);
/* Joins the queue pair to the peer's. peer_mtu: the MTU of the peer's port, or 0 if it is not known
 * yet. */
int qp_join(struct queue_pair *p, const struct path_ends *ends, unsigned peer_mtu,
	    char why[QP_WHY_BYTES]);
/* Ends the queue pair, if there is one. Delivers everything that has arrived before. */
void qp_end(struct queue_pair *p);
/* Two values for the peer: the number of notifies received so far, and the data by which the peer
 * reaches this rank. */
uint64_t qp_received(struct queue_pair *p);
/* Returns the path MTU of the queue pair. Valid once the queue pair has joined. */
unsigned qp_mtu(const struct queue_pair *p);
int qp_greeting(struct queue_pair *p, struct slot_address *slot, uint8_t control[REGION_HEAD_BYTES],
		char why[QP_WHY_BYTES]);
/* qp_replay() takes the number of notifies that the peer has received, and posts the later ones
 * again. qp_take_accept() takes from the peer's acceptance its slot, its control region and this
 * number. Both return -1 if a value is impossible. */
int qp_replay(struct queue_pair *p, uint64_t received, char why[QP_WHY_BYTES]);
int qp_take_accept(struct queue_pair *p, const struct frame *accept, char why[QP_WHY_BYTES]);

/* Binds all keys, and then sends READY. */
int qp_send_ready(struct queue_pair *p, char why[QP_WHY_BYTES]);
int qp_send_keys(struct queue_pair *p, char why[QP_WHY_BYTES]);
/* Takes the peer's keys. Returns -1 if they are impossible. */
int qp_take_keys(struct queue_pair *p, char why[QP_WHY_BYTES]);
/* Starts transfers over the new connection and logs it. again: 1 if the link was up before. */
void qp_start(struct queue_pair *p, int again);

/* Returns the queue pair, or NULL if there is none now. */
struct ibv_qp *qp_of(const struct queue_pair *p);
#endif
