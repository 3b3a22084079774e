/* SPDX-License-Identifier: BSD-3-Clause
 * The exchange through rdma_cm in which both sides prove that they hold the key of the pair,
 * before either gives the other a memory key; see link.h. The frames travel in the private data of
 * requests, rejects and accepts. A server makes nothing for a request before it has judged the
 * proof, so strangers cost no memory. Called by link.c for its peer, and by connect.c, which
 * answers requests.
 *
 * A client's first message is its proof, without a challenge by the server. That is safe because
 * - the two processes have made the key of the pair for this job (auth.h), so a proof from another
 *   job, another pair or an earlier process is a wrong one;
 * - a server accepts each attempt of a client once, and none that is older than one it accepted, so
 *   an eavesdropper can repeat only a proof that the server has never accepted;
 * - the proof covers the number and GID of the queue pair that the server will connect to, so such
 *   a proof connects the server to nobody but that client, where the attempt is over. InfiniBand
 *   addresses without a GRH have no GID to compare; there the subnet manager's paths decide;
 * - a connection that is up is newer than all attempts that the client has made until then, so no
 *   repeated proof ends it.
 * The client draws a nonce for each attempt, and the acceptance covers it. */
#ifndef RDMA_PROOF_H
#define RDMA_PROOF_H
#include "rdma/auth.h"
#include "rdma/frame.h"
#include "rdma/path.h"
#include <rdma/rdma_cma.h>

/* A copied event of rdma_cm: an id cannot end before its event is acknowledged. */
struct cm_event {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id, *listener;
	uint8_t bytes[256];
	size_t n;
	uint8_t responder_resources, initiator_depth;
	uint32_t qpn;                 /* of the other side */
	uint8_t gid[FRAME_GID_BYTES]; /* of the other side */
};

enum { PROOF_WHY_BYTES = 200 };

/* ---- of this rank ---- */
struct proofs;
int proofs_open(int rank, const struct verbs_device *device, struct proofs **out);
/* Sets the rdma_cm event channel and the path for connection requests, and the number of
 * outstanding READs that a request asks for. */
void proofs_use(struct proofs *p, struct rdma_event_channel *channel,
		const struct path_choice *path, uint32_t reads);
/* Sets the keys of the peers. */
void proofs_admit(struct proofs *p, const struct peer_keys *keys);
int proofs_admitted(const struct proofs *p);
void proofs_close(struct proofs **p);

/* Answers to a request, which end its id. */
void proofs_refuse(const struct proofs *p, struct rdma_cm_id *id, enum frame_reason reason);
/* Tells a server that this process lives. Returns 0, or -1 if it cannot; the caller then keeps the
 * id. */
int proofs_reply(const struct proofs *p, struct rdma_cm_id *id, const struct frame *hello);
/* Returns NULL if the sender of the request holds the key of the pair, else the reason to refuse
 * the request. Completes the frame from the event. */
const char *proofs_judge(const struct proofs *p, const struct cm_event *event,
			 struct frame *request);

/* ---- of one peer: at most one id at a time ---- */
struct proof;
/* owner: the context of its ids. */
int proof_open(const struct proofs *proofs, int peer, const struct sockaddr_storage *address,
	       void *owner, struct proof **out);
void proof_close(struct proof **p);
/* NULL: there is none. */
struct rdma_cm_id *proof_id(const struct proof *p);
void proof_end_id(struct proof *p);

/* The functions below return 0, or -1 and why. */
/* Makes a new id and resolves the peer's address. */
int proof_start(struct proof *p, int timeout_ms, char why[PROOF_WHY_BYTES]);
int proof_route(struct proof *p, int timeout_ms, char why[PROOF_WHY_BYTES]);
/* Sends a hello, once the route is known. If a request has the queue pair number of an older
 * connection of this node, the connection manager assumes that the older queue pair is gone, and
 * ends its connection (cm_match_req() in drivers/infiniband/core/cm.c). So even a hello names a
 * queue pair that exists. */
int proof_send_hello(struct proof *p, uint32_t qpn, char why[PROOF_WHY_BYTES]);
/* Sends the proof for a queue pair. received: number of notifies received from the peer. */
int proof_request(struct proof *p, uint32_t qpn, uint64_t received, char why[PROOF_WHY_BYTES]);
/* Confirms the peer's acceptance: the queue pair has joined. */
int proof_confirm(struct proof *p, char why[PROOF_WHY_BYTES]);

/* Returns 1 if neither this attempt of the peer nor a later one was accepted. */
int proof_is_new(const struct proof *p, const struct frame *request);
/* Takes over the id of a request, or gives it back. */
void proof_take_id(struct proof *p, struct rdma_cm_id *id);
void proof_yield_id(struct proof *p);
/* The properties of a joined queue pair that an acceptance contains besides its tag. */
struct proof_offer {
	uint32_t qpn;
	unsigned mtu;
	uint64_t received;
	struct slot_address slot;
	uint8_t control[REGION_HEAD_BYTES];
};
/* Accepts the request whose id was taken. On -1, *answered is set if the request was answered
 * nevertheless, so its id cannot be given back. */
int proof_accept(struct proof *p, const struct cm_event *event, const struct frame *request,
		 const struct proof_offer *offer, int *answered, char why[PROOF_WHY_BYTES]);

/* The meaning of a reject, or of a response. */
enum proof_answer {
	ANSWER_ALIVE,
	ANSWER_ACCEPT, /* the frame has the details */
	ANSWER_LATER,
	ANSWER_MISTRUST, /* one side rejects the other's proof */
	ANSWER_NOBODY,   /* nobody listens there */
	ANSWER_GONE      /* the peer has given this rank up */
};
enum proof_answer proof_judge_reject(struct proof *p, const struct cm_event *event, int asked,
				     char why[PROOF_WHY_BYTES]);
enum proof_answer proof_judge_accept(struct proof *p, const struct cm_event *event,
				     struct frame *frame_out, char why[PROOF_WHY_BYTES]);
#endif
