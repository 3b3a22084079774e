/* SPDX-License-Identifier: BSD-3-Clause
 * The asking side of a connection: hello, proof, and what is made of the answers; connect.c draws
 * the whole exchange. A server that lost a connection says hello too, to learn whether the peer
 * lives. */
#include "rdma/verbs.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	REFUSALS_MAX = 5,     /* wrong proofs before a peer is given up */
	NOBODY_MAX = 3,       /* the same for "nobody listens" before it was ever connected */
	REJECT_NO_SERVICE = 8 /* status of a reject: the InfiniBand "invalid service id" */
};

/* ---- the client's requests ------------------------------------------------- */

/* An id on its way to the peer's listener, from our own address: without it, the route may begin at
 * another device of this machine. */
static int start_id(struct verbs_endpoint *ep, struct rdma_cm_id **id_out)
{
	struct verbs *v = verbs_of_endpoint(ep);
	struct rdma_cm_id *id;
	uint8_t timeout = v->ack_timeout;

	if (rdma_create_id(v->channel, &id, ep, RDMA_PS_TCP) != 0) {
		snprintf(ep->why, sizeof(ep->why), "rdma_create_id: %s", errno_text(errno));
		return -1;
	}
	/* Before the route: it becomes part of it. Not all devices can; then theirs counts. */
	rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout));
	if (rdma_resolve_addr(id, (struct sockaddr *)&v->device.address,
			      (struct sockaddr *)&ep->address,
			      (int)(connect_try_ns(ep) / 1000000)) != 0) {
		snprintf(ep->why, sizeof(ep->why), "rdma_resolve_addr: %s", errno_text(errno));
		rdma_destroy_id(id);
		return -1;
	}
	*id_out = id;
	return 0;
}

void connect_start_hello(struct verbs_endpoint *ep, uint64_t now)
{
	struct verbs *v = verbs_of_endpoint(ep);

	if (!connect_port_active(v))
		return; /* asked again at the next tick */
	ep->retry_at_ns = 0;
	ep->hello_auth = (struct auth_context){ .client = (uint32_t)v->rank,
						.server = (uint32_t)ep->endpoint.peer };
	if (auth_random(ep->hello_auth.nonce_client, AUTH_NONCE_BYTES) < 0 ||
	    start_id(ep, &ep->hello) < 0) {
		connect_try_later(ep, ep->why);
		return;
	}
	ep->hello_deadline_ns = now + connect_try_ns(ep);
}

static int request(struct rdma_cm_id *id, const struct verbs *v, const struct frame *frame,
		   uint32_t qpn)
{
	uint8_t bytes[FRAME_MAX];
	struct rdma_conn_param param = {
		.private_data = bytes,
		.private_data_len = (uint8_t)frame_encode(frame, bytes),
		.responder_resources = (uint8_t)v->reads,
		.initiator_depth = (uint8_t)v->reads,
		.retry_count = VERBS_RETRIES,
		.rnr_retry_count = VERBS_RETRIES,
		.srq = 1,
		.qp_num = qpn, /* counts only where id has no queue pair */
	};

	return rdma_connect(id, &param);
}

void connect_send_hello(struct verbs_endpoint *ep)
{
	struct verbs *v = verbs_of_endpoint(ep);
	struct frame frame = { .kind = FRAME_HELLO, .rank = (uint32_t)v->rank };
	uint32_t qpn = 1;

	memcpy(frame.nonce_client, ep->hello_auth.nonce_client, AUTH_NONCE_BYTES);
	/* There is no queue pair yet, but one number from everybody would look like one stale
	 * connection. */
	auth_random(&qpn, sizeof(qpn));
	if (request(ep->hello, v, &frame, (qpn & 0xffffff) | 1) != 0) {
		snprintf(ep->why, sizeof(ep->why), "rdma_connect: %s", errno_text(errno));
		connect_try_later(ep, ep->why);
	}
}

void connect_send_proof(struct verbs_endpoint *ep)
{
	struct verbs *v = verbs_of_endpoint(ep);
	struct frame frame = { .kind = FRAME_PROOF,
			       .rank = (uint32_t)v->rank,
			       .received = ep->received };
	uint8_t covered[ACCEPT_SIGNED_BYTES];

	_Static_assert(FRAME_HEADER_BYTES + 2 * AUTH_NONCE_BYTES + AUTH_TAG_BYTES + 8 <=
			       FRAME_REQUEST_MAX,
		       "a proof does not fit into a request");
	memcpy(frame.nonce_client, ep->auth.nonce_client, AUTH_NONCE_BYTES);
	memcpy(frame.nonce_server, ep->auth.nonce_server, AUTH_NONCE_BYTES);
	if (auth_tag(&v->secret, AUTH_PROOF, &ep->auth, covered, frame_signed(&frame, covered),
		     frame.tag) < 0 ||
	    link_make(ep) < 0) {
		connect_try_later(ep, ep->why);
		return;
	}
	ep->state = LINK_PROVING;
	ep->credit_given = ep->received;
	if (request(ep->id, v, &frame, 0) != 0) {
		snprintf(ep->why, sizeof(ep->why), "rdma_connect: %s", errno_text(errno));
		connect_try_later(ep, ep->why);
	}
}

/* ---- what a peer answers --------------------------------------------------- */

static void refused(struct verbs_endpoint *ep, const char *why)
{
	if (++ep->refusals >= REFUSALS_MAX)
		link_gone(ep, why);
	else
		connect_try_later(ep, why);
}

static void nobody_listens(struct verbs_endpoint *ep)
{
	if (ep->was_up || ep->tries >= NOBODY_MAX)
		link_gone(ep, "its process ended: nobody listens at its address");
	else
		connect_try_later(ep, "nobody listens at its address");
}

/* The answer to HELLO. */
static void challenged(struct verbs_endpoint *ep, const struct frame *frame, uint64_t now)
{
	struct verbs *v = verbs_of_endpoint(ep);

	memcpy(ep->hello_auth.nonce_server, frame->nonce_server, AUTH_NONCE_BYTES);
	if (frame->rank != (uint32_t)ep->endpoint.peer ||
	    !auth_check(&v->secret, AUTH_CHALLENGE, &ep->hello_auth, NULL, 0, frame->tag)) {
		refused(ep, "it does not hold this job's key");
		return;
	}
	ep->auth = ep->hello_auth;
	connect_end_hello(ep);
	if (!ep->client) { /* it lives: it will come */
		ep->retry_at_ns = now + connect_ms_to_ns(CONNECT_PROBE_EVERY_MS);
		return;
	}
	if (start_id(ep, &ep->id) < 0) {
		ep->id = NULL;
		connect_try_later(ep, ep->why);
		return;
	}
	ep->link_deadline_ns = now + connect_try_ns(ep);
}

void connect_rejected(struct verbs_endpoint *ep, const struct cm_event *event, int of_hello,
		      uint64_t now)
{
	const char *why = "";
	struct frame frame;

	if (frame_decode(event->bytes, event->n, &frame, &why) < 0) {
		if (event->status == REJECT_NO_SERVICE || event->status == -ECONNREFUSED ||
		    event->status == ECONNREFUSED) {
			nobody_listens(ep);
			return;
		}
		snprintf(ep->why, sizeof(ep->why), "it rejected the connection (status %d): %s",
			 event->status, why);
		connect_try_later(ep, ep->why);
		return;
	}
	if (frame.kind == FRAME_CHALLENGE && of_hello)
		challenged(ep, &frame, now);
	else if (frame.kind == FRAME_REFUSAL && frame.reason == REFUSAL_GONE)
		link_gone(ep, "it has given this rank up");
	else if (frame.kind == FRAME_REFUSAL && frame.reason == REFUSAL_PROOF)
		refused(ep, "it refuses this rank's proof: it does not hold the same job key");
	else
		connect_try_later(ep, "it is not ready yet");
}

/* The answer to PROOF. */
void connect_accepted(struct verbs_endpoint *ep, const struct cm_event *event)
{
	struct verbs *v = verbs_of_endpoint(ep);
	uint8_t covered[ACCEPT_SIGNED_BYTES];
	const char *why = "its answer is of another kind";
	struct frame frame;

	if (frame_decode(event->bytes, event->n, &frame, &why) < 0 || frame.kind != FRAME_ACCEPT) {
		refused(ep, why);
		return;
	}
	if (frame.rank != (uint32_t)ep->endpoint.peer ||
	    !auth_check(&v->secret, AUTH_ACCEPT, &ep->auth, covered, frame_signed(&frame, covered),
			frame.tag)) {
		refused(ep, "it does not hold this job's key");
		return;
	}
	if (connect_take_slot(ep, &frame.slot, frame.control) < 0 ||
	    link_replay(ep, frame.received) < 0) {
		link_gone(ep, ep->why[0] != '\0' ? ep->why : "it offers an impossible slot");
		return;
	}
	greet_begin(ep);
}
