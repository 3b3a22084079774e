/* SPDX-License-Identifier: BSD-3-Clause
 * The exchange in which both sides prove that they hold the key of the pair, before either gives
 * the other a memory key; see link.h. A carrier (carrier.h) transports the frames. A server makes
 * no object for a request before it has checked the proof, so strangers cost no memory. Called
 * by link.c for its peer, and by connect.c, which answers requests.
 *
 * A client's first message is its proof, without a challenge by the server. That is safe because
 * - the two processes have made the key of the pair for this job (auth.h), so a proof from another
 *   job, another pair or an earlier process is wrong;
 * - a server accepts each attempt of a client once, and no attempt older than one that it has
 *   accepted, so an eavesdropper can repeat only a proof that the server has never accepted;
 * - the proof covers the number and GID of the queue pair that the server will connect to, so a
 *   repeated proof connects the server only to that client, which has ended the attempt. InfiniBand
 *   addresses without a GRH have no GID to compare; for these the subnet manager's paths decide;
 * - a connection that is up belongs to the newest attempt of the client, so no repeated proof ends
 *   it.
 * The client draws a nonce for each attempt, and the acceptance covers it.
 *
 * Anybody on the fabric can send a datagram. So over a carrier that is open to all, an answer
 * counts only if its tag shows that the peer made it for the running attempt. Over such a carrier a
 * server does not answer a wrong proof, because it could not prove the answer to the sender. */
#ifndef RDMA_PROOF_H
#define RDMA_PROOF_H
#include "rdma/auth.h"
#include "rdma/carrier.h"
#include "rdma/frame.h"

enum { PROOF_WHY_BYTES = 200 };

/* ---- of this rank ---- */
struct proofs;
int proofs_open(int rank, struct carrier *carrier, struct proofs **out);
/* Sets the keys by which peers are recognised. */
void proofs_admit(struct proofs *p, const struct peer_keys *keys);
int proofs_admitted(const struct proofs *p);
void proofs_close(struct proofs **p);

/* Answers to a request, which end it. request: the decoded frame, or NULL. */
void proofs_refuse(const struct proofs *p, const struct carrier_event *event,
		   const struct frame *request, enum frame_reason reason);
/* Informs a server that this process lives. Returns 0, or -1 if that is not possible; the caller
 * must then refuse the request. */
int proofs_reply(const struct proofs *p, const struct carrier_event *event,
		 const struct frame *hello);
/* Returns NULL if the sender of the request holds the pair's key, otherwise the reason to refuse
 * the request. Completes the frame from the event. */
const char *proofs_judge(const struct proofs *p, const struct carrier_event *event,
			 struct frame *request);

/* ---- of one peer, which has at most one exchange at a time ---- */
struct proof;
/* Opens the exchanges with a peer. `its` is the peer's record. `owner` is stored in the peer's
 * events. */
int proof_open(const struct proofs *proofs, const struct verbs_record *its, void *owner,
	       struct proof **out);
void proof_close(struct proof **p);
/* Returns 1 while there is an exchange or a connection. */
int proof_is_active(const struct proof *p);
/* Ends the exchange or the connection. Informs the peer of the end of a connection. */
void proof_end(struct proof *p);
/* Returns 1 if anybody can send what seems to be the peer's answer. In that case no route need be
 * found, and a hello names no queue pair. */
int proof_is_open_to_all(const struct proof *p);
/* Returns the device to which the route leads. */
struct ibv_context *proof_leads_to(const struct proof *p);
/* Returns the data that join the queue pair to the peer's. frame is the peer's proof or
 * acceptance. */
struct path_ends proof_ends(const struct proof *p, const struct frame *frame);

/* The functions below return 0, or -1 with the reason in why. */
/* Begins an exchange. Unless the carrier is open to all, the event ROUTE_RESOLVED follows. */
int proof_start(struct proof *p, int timeout_ms, char why[PROOF_WHY_BYTES]);
/* Sends a hello when the route is known. If a request has the queue pair number of an older
 * connection of this node, the connection manager assumes that the older queue pair no longer
 * exists, and ends its connection (cm_match_req() in drivers/infiniband/core/cm.c). Even a hello
 * must therefore name a queue pair that exists. */
int proof_send_hello(struct proof *p, uint32_t qpn, char why[PROOF_WHY_BYTES]);
/* Sends the proof for a queue pair. received: number of notifies received from the peer. */
int proof_request(struct proof *p, uint32_t qpn, uint64_t received, char why[PROOF_WHY_BYTES]);
/* Confirms the peer's acceptance. Called when the queue pair has joined. */
int proof_confirm(struct proof *p, char why[PROOF_WHY_BYTES]);
/* Repeats the last frame if the peer has not answered it and the carrier may lose frames. */
void proof_tick(struct proof *p, uint64_t now);

/* Returns 1 if neither this attempt of the peer nor a later one was accepted. */
int proof_is_new(const struct proof *p, const struct frame *request);
/* Returns 1 if a request that is not new needs no refusal, because the carrier may repeat requests.
 * If it is the accepted request, sends the acceptance again. */
int proof_is_repeated(struct proof *p, const struct frame *request, uint64_t now);
/* Takes over a request. proof_yield() gives it back, even after proof_take() has failed. */
int proof_take(struct proof *p, const struct carrier_event *event, const struct frame *request,
	       char why[PROOF_WHY_BYTES]);
void proof_yield(struct proof *p);
/* The properties of a joined queue pair that an acceptance contains in addition to its tag. */
struct proof_offer {
	uint32_t qpn;
	unsigned mtu;
	uint64_t received;
	struct slot_address slot;
	uint8_t control[REGION_HEAD_BYTES];
};
/* Accepts the request that was taken. If it returns -1, *answered is set if the request was
 * answered nevertheless, so that it cannot be given back. */
int proof_accept(struct proof *p, const struct carrier_event *event, const struct frame *request,
		 const struct proof_offer *offer, int *answered, char why[PROOF_WHY_BYTES]);

/* The meaning of a frame that rejects, accepts or ends a connection. */
enum proof_answer {
	ANSWER_NONE, /* the frame is not the peer's */
	ANSWER_ALIVE,
	ANSWER_ACCEPT, /* the frame has the details */
	ANSWER_LATER,
	ANSWER_MISTRUST, /* one side rejects the other's proof */
	ANSWER_NOBODY,   /* nobody listens at the peer's address */
	ANSWER_GONE,     /* the peer has given this rank up */
	ANSWER_END       /* the peer has ended the connection */
};
enum proof_answer proof_judge_reject(struct proof *p, const struct carrier_event *event, int asked,
				     char why[PROOF_WHY_BYTES]);
enum proof_answer proof_judge_accept(struct proof *p, const struct carrier_event *event,
				     struct frame *frame_out, char why[PROOF_WHY_BYTES]);
enum proof_answer proof_judge_end(const struct proof *p, const struct carrier_event *event);
#endif
