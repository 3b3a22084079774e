/* SPDX-License-Identifier: BSD-3-Clause
 * The accepting side of a connection; connect.c draws the whole exchange. Nothing is kept for
 * whoever has not proved to belong to the job: a hello is answered and forgotten. */
#include "base/log.h"
#include "rdma/verbs.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CHALLENGE_AGE_MS = 10000 };

static void reject(struct rdma_cm_id *id, const struct frame *frame)
{
	uint8_t bytes[FRAME_MAX];
	size_t n = frame_encode(frame, bytes);

	rdma_reject(id, bytes, (uint8_t)n);
	rdma_destroy_id(id);
}

static void refuse(struct verbs *v, struct rdma_cm_id *id, enum frame_reason reason,
		   const char *why)
{
	struct frame frame = { .kind = FRAME_REFUSAL,
			       .rank = (uint32_t)v->rank,
			       .reason = (uint32_t)reason };
	char text[80];

	v->refused++;
	/* Whoever floods this rank must not flood its log. */
	if (v->refused <= 10 || v->refused % 1000 == 0)
		log_line(reason == REFUSAL_PROOF ? LOG_WARN : LOG_DEBUG, "rdma",
			 "verbs: refused a connection from %s: %s (%llu refused so far)",
			 verbs_address_text((void *)rdma_get_peer_addr(id), text), why,
			 (unsigned long long)v->refused);
	reject(id, &frame);
}

static void answer_hello(struct verbs *v, struct rdma_cm_id *id, const struct frame *hello,
			 uint64_t now)
{
	struct frame frame = { .kind = FRAME_CHALLENGE, .rank = (uint32_t)v->rank };
	struct auth_context context = { .client = hello->rank, .server = (uint32_t)v->rank };
	struct verbs_endpoint *ep = v->by_rank[hello->rank];

	if (ep != NULL && (ep->state == LINK_GONE || ep->revoked)) {
		refuse(v, id, REFUSAL_GONE, "a rank that was given up");
		return;
	}
	memcpy(context.nonce_client, hello->nonce_client, AUTH_NONCE_BYTES);
	if (auth_nonce_make(v->nonce_key, hello->rank, hello->nonce_client, now / 1000000,
			    context.nonce_server) < 0 ||
	    auth_tag(&v->secret, AUTH_CHALLENGE, &context, NULL, 0, frame.tag) < 0) {
		refuse(v, id, REFUSAL_FAILED, "no challenge could be made");
		return;
	}
	memcpy(frame.nonce_server, context.nonce_server, AUTH_NONCE_BYTES);
	reject(id, &frame);
}

/* The request is from the peer: a queue pair for it. Takes id over. The link before it, if any, is
 * no more. */
static void accept_peer(struct verbs_endpoint *ep, struct rdma_cm_id *id,
			const struct cm_event *event, const struct frame *proof, uint64_t now)
{
	struct verbs *v = verbs_of_endpoint(ep);
	struct frame frame = { .kind = FRAME_ACCEPT,
			       .rank = (uint32_t)v->rank,
			       .received = ep->received };
	uint8_t bytes[FRAME_MAX], covered[ACCEPT_SIGNED_BYTES];
	struct rdma_conn_param param = { .private_data = bytes,
					 .rnr_retry_count = VERBS_RETRIES,
					 .srq = 1 };

	ep->why[0] = '\0';
	if (link_replay(ep, proof->received) < 0) {
		refuse(v, id, REFUSAL_GONE, ep->why);
		link_gone(ep, ep->why);
		return;
	}
	ep->id = id;
	id->context = ep;
	memcpy(ep->auth.nonce_client, proof->nonce_client, AUTH_NONCE_BYTES);
	ep->credit_given = ep->received; /* of the link that is no more, so it will not change */
	if (link_make(ep) < 0) {
		ep->id = NULL;
		refuse(v, id, REFUSAL_FAILED, ep->why);
		connect_try_later(ep, ep->why);
		return;
	}
	/* Keys that will work when this side says READY. */
	frame.slot = connect_own_slot(ep);
	memcpy(frame.control, ep->own_control, REGION_DESCRIPTOR_BYTES);
	if (auth_tag(&v->secret, AUTH_ACCEPT, &ep->auth, covered, frame_signed(&frame, covered),
		     frame.tag) < 0) {
		link_unmake(ep);
		ep->id = NULL;
		refuse(v, id, REFUSAL_FAILED, ep->why);
		connect_try_later(ep, ep->why);
		return;
	}
	param.private_data_len = (uint8_t)frame_encode(&frame, bytes);
	param.responder_resources = event->responder_resources < v->reads ?
					    event->responder_resources :
					    (uint8_t)v->reads;
	param.initiator_depth = event->initiator_depth < v->reads ? event->initiator_depth :
								    (uint8_t)v->reads;
	ep->state = LINK_ACCEPTING;
	ep->link_deadline_ns = now + connect_try_ns(ep);
	ep->accepted_ms = now / 1000000;
	if (rdma_accept(id, &param) != 0) {
		snprintf(ep->why, sizeof(ep->why), "rdma_accept: %s", errno_text(errno));
		connect_try_later(ep, ep->why);
	}
}

static void answer_proof(struct verbs *v, struct rdma_cm_id *id, const struct cm_event *event,
			 const struct frame *proof, uint64_t now)
{
	struct auth_context context = { .client = proof->rank, .server = (uint32_t)v->rank };
	struct verbs_endpoint *ep = v->by_rank[proof->rank];
	uint8_t covered[ACCEPT_SIGNED_BYTES];
	uint64_t made_ms;

	memcpy(context.nonce_client, proof->nonce_client, AUTH_NONCE_BYTES);
	memcpy(context.nonce_server, proof->nonce_server, AUTH_NONCE_BYTES);
	if (proof->rank >= (uint32_t)v->rank) {
		refuse(v, id, REFUSAL_PROOF, "a rank that does not connect to this one");
	} else if (!auth_nonce_check(v->nonce_key, proof->rank, proof->nonce_client, now / 1000000,
				     CHALLENGE_AGE_MS, proof->nonce_server, &made_ms)) {
		refuse(v, id, REFUSAL_PROOF, "an answer to no challenge of ours, or to an old one");
	} else if (!auth_check(&v->secret, AUTH_PROOF, &context, covered,
			       frame_signed(proof, covered), proof->tag)) {
		refuse(v, id, REFUSAL_PROOF, "its proof is wrong: it does not hold this job's key");
	} else if (ep == NULL) {
		refuse(v, id, REFUSAL_NOT_YET, "this rank does not expect it yet");
	} else if (ep->state == LINK_GONE || ep->revoked) {
		refuse(v, id, REFUSAL_GONE, "a rank that was given up");
	} else if (made_ms <= ep->accepted_ms) {
		refuse(v, id, REFUSAL_PROOF, "a proof that was used before");
	} else {
		if (ep->id != NULL) {
			log_line(LOG_DEBUG, "rdma", "verbs: rank %u connects again", proof->rank);
			link_drop(ep); /* it noticed first that the link is broken */
		}
		ep->auth = context;
		accept_peer(ep, id, event, proof, now);
	}
}

void connect_requested(struct verbs *v, const struct cm_event *event, uint64_t now)
{
	struct rdma_cm_id *id = event->id;
	const char *why = "";
	struct frame frame;

	id->context = NULL;
	if (frame_decode(event->bytes, event->n, &frame, &why) < 0)
		refuse(v, id, REFUSAL_PROOF, why);
	else if (frame.rank >= (uint32_t)v->size || frame.rank == (uint32_t)v->rank)
		refuse(v, id, REFUSAL_PROOF, "it is no rank of this job");
	else if (frame.kind == FRAME_HELLO)
		answer_hello(v, id, &frame, now);
	else if (frame.kind == FRAME_PROOF)
		answer_proof(v, id, event, &frame, now);
	else
		refuse(v, id, REFUSAL_PROOF, "it does not begin with a hello");
}
