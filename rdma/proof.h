/* SPDX-License-Identifier: BSD-3-Clause
 * The exchange through rdma_cm in which both sides of a connection prove that they hold the job's
 * key, before a queue pair or a key of memory exists for the other; link.h draws it. The frames
 * travel in the private data of requests, rejects and accepts. The server can recognise its
 * challenge without having kept it, so that strangers cost no memory. Called by link.c for its
 * peer, and by connect.c, which answers whoever asks. */
#ifndef RDMA_PROOF_H
#define RDMA_PROOF_H
#include "rdma/auth.h"
#include "rdma/frame.h"
#include "rdma/verbs_device.h"
#include <rdma/rdma_cma.h>

/* An event of rdma_cm, copied, as an id cannot end before its event is acknowledged. */
struct cm_event {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id, *listener;
	uint8_t bytes[256];
	size_t n;
	uint8_t responder_resources, initiator_depth;
};

enum { PROOF_WHY_BYTES = 200 };

/* ---- of this rank ---- */
struct proofs;
int proofs_open(int rank, const struct verbs_device *device, struct proofs **out);
/* Where requests go out, their acknowledgement timeout (4.096 us * 2^this), and how many READs at
 * once they ask for. */
void proofs_use(struct proofs *p, struct rdma_event_channel *channel, uint8_t ack_timeout,
		uint32_t reads);
/* The job's key is known from here on. */
void proofs_admit(struct proofs *p, const struct job_secret *secret);
int proofs_admitted(const struct proofs *p);
void proofs_close(struct proofs **p);

/* Answers to whoever asks. The id ends with them. */
void proofs_refuse(const struct proofs *p, struct rdma_cm_id *id, enum frame_reason reason);
/* 0, or -1: no challenge could be made, and the id is the caller's. */
int proofs_challenge(const struct proofs *p, struct rdma_cm_id *id, const struct frame *hello,
		     uint64_t now_ns);
/* NULL: the request's sender holds the job's key and answers a challenge of this rank, made_ms_out
 * says of when. Else why it is refused. */
const char *proofs_judge(const struct proofs *p, const struct frame *request, uint64_t now_ns,
			 uint64_t *made_ms_out);

/* ---- of one peer: at most one id at a time ---- */
struct proof;
/* owner: the context of its ids. */
int proof_open(const struct proofs *proofs, int peer, const struct sockaddr_storage *address,
	       void *owner, struct proof **out);
void proof_close(struct proof **p);
/* NULL: there is none. */
struct rdma_cm_id *proof_id(const struct proof *p);
void proof_end_id(struct proof *p);

/* All that follow return 0, or -1 and why. */
/* A new id, on its way to the peer's listener. */
int proof_start(struct proof *p, int timeout_ms, char why[PROOF_WHY_BYTES]);
int proof_route(struct proof *p, int timeout_ms, char why[PROOF_WHY_BYTES]);
/* When the route is known. */
int proof_send_hello(struct proof *p, char why[PROOF_WHY_BYTES]);
/* With a queue pair. received: notifies that came from the peer so far. */
int proof_request(struct proof *p, uint64_t received, char why[PROOF_WHY_BYTES]);

/* Whether no request with a challenge of that time, or of a later one, was accepted. */
int proof_is_new(const struct proof *p, uint64_t made_ms);
/* Takes the id of a request, or gives it back. */
void proof_take_id(struct proof *p, struct rdma_cm_id *id);
void proof_yield_id(struct proof *p);
/* Accepts the request whose id was taken. After -1, *answered says whether it was answered all the
 * same, so that the id cannot be given back. */
int proof_accept(struct proof *p, const struct cm_event *event, const struct frame *request,
		 uint64_t now_ns, uint64_t received, const struct slot_address *slot,
		 const uint8_t control[REGION_DESCRIPTOR_BYTES], int *answered,
		 char why[PROOF_WHY_BYTES]);

/* What a reject, or an established connection, says. */
enum proof_answer {
	ANSWER_CHALLENGE,
	ANSWER_ACCEPT, /* its frame says the rest */
	ANSWER_LATER,
	ANSWER_MISTRUST, /* one of the two does not accept the other's proof */
	ANSWER_NOBODY,   /* nobody listens there */
	ANSWER_GONE      /* the peer has given this rank up */
};
enum proof_answer proof_judge_reject(struct proof *p, const struct cm_event *event, int asked,
				     char why[PROOF_WHY_BYTES]);
enum proof_answer proof_judge_accept(struct proof *p, const struct cm_event *event,
				     struct frame *frame_out, char why[PROOF_WHY_BYTES]);
#endif
