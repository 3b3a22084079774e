/* SPDX-License-Identifier: BSD-3-Clause
 * See proof.h. */
#include "rdma/proof.h"
#include "base/error.h"
#include "rdma/queues.h"
#include "sluice.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	REJECT_NO_SERVICE = 8 /* status of a reject: the InfiniBand "invalid service id" */
};
_Static_assert(FRAME_HEADER_BYTES + AUTH_NONCE_BYTES + AUTH_TAG_BYTES + PROOF_SENT_BYTES <=
		       FRAME_REQUEST_MAX,
	       "a proof does not fit into a request");

struct proofs {
	uint32_t rank;
	int admitted;
	struct peer_keys keys;
	const struct verbs_device *device;
	struct rdma_event_channel *channel;
	const struct path_choice *path;
	uint32_t reads;
};

struct proof {
	const struct proofs *proofs;
	uint32_t peer;
	struct sockaddr_storage address; /* of the peer's listener */
	void *owner;
	struct rdma_cm_id *id;
	struct auth_context context; /* of the running exchange */
	uint32_t attempts, accepted; /* of this rank; the peer's last one that was accepted */
};

int proofs_open(int rank, const struct verbs_device *device, struct proofs **out)
{
	struct proofs *p = *out = calloc(1, sizeof(*p));

	if (!p)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*p));
	p->rank = (uint32_t)rank;
	p->device = device;
	return SLUICE_OK;
}

void proofs_use(struct proofs *p, struct rdma_event_channel *channel,
		const struct path_choice *path, uint32_t reads)
{
	p->channel = channel;
	p->path = path;
	p->reads = reads;
}

void proofs_admit(struct proofs *p, const struct peer_keys *keys)
{
	p->keys = *keys;
	p->admitted = 1;
}

int proofs_admitted(const struct proofs *p)
{
	return p->admitted;
}

void proofs_close(struct proofs **p)
{
	if (!*p)
		return;
	explicit_bzero(*p, sizeof(**p));
	free(*p);
	*p = NULL;
}

static int tag(const struct proofs *p, enum auth_label label, const struct auth_context *context,
	       struct frame *frame)
{
	uint8_t covered[FRAME_SIGNED_MAX];

	_Static_assert((int)FRAME_SIGNED_MAX <= (int)AUTH_EXTRA_MAX, "a frame is too long");
	return auth_tag(&p->keys, label, context, covered, frame_signed(frame, covered),
			frame->tag);
}

static int tag_is_right(const struct proofs *p, enum auth_label label,
			const struct auth_context *context, const struct frame *frame)
{
	uint8_t covered[FRAME_SIGNED_MAX];

	return auth_check(&p->keys, label, context, covered, frame_signed(frame, covered),
			  frame->tag);
}

/* ---- answers to whoever asks ------------------------------------------------------- */

static void reject(struct rdma_cm_id *id, const struct frame *frame)
{
	uint8_t bytes[FRAME_MAX];
	size_t n = frame_encode(frame, bytes);

	rdma_reject(id, bytes, (uint8_t)n);
	rdma_destroy_id(id);
}

void proofs_refuse(const struct proofs *p, struct rdma_cm_id *id, enum frame_reason reason)
{
	const struct frame frame = { .kind = FRAME_REFUSAL,
				     .rank = p->rank,
				     .reason = (uint32_t)reason };

	reject(id, &frame);
}

/* A server's hello and the client's reply: the server asks, so it is the client of the context. */
static struct auth_context context_of(uint32_t asking, uint32_t asked, const struct frame *request)
{
	struct auth_context context = { .client = asking, .server = asked };

	memcpy(context.nonce_client, request->nonce, AUTH_NONCE_BYTES);
	return context;
}

int proofs_reply(const struct proofs *p, struct rdma_cm_id *id, const struct frame *hello)
{
	struct frame frame = { .kind = FRAME_ALIVE, .rank = p->rank };
	const struct auth_context context = context_of(hello->rank, p->rank, hello);

	if (auth_tag(&p->keys, AUTH_CHALLENGE, &context, NULL, 0, frame.tag))
		return -1;
	reject(id, &frame);
	return 0;
}

const char *proofs_judge(const struct proofs *p, const struct cm_event *event,
			 struct frame *request)
{
	const struct auth_context context = context_of(request->rank, p->rank, request);

	if (request->rank >= p->rank)
		return "only lower ranks connect to this one";
	request->qpn = event->qpn;
	memcpy(request->gid, event->gid, FRAME_GID_BYTES);
	if (!tag_is_right(p, AUTH_PROOF, &context, request))
		return "its proof is wrong: it does not hold a key of this job";
	return NULL;
}

/* ---- asking ------------------------------------------------------------------------ */

static int why_call_failed(const char *call, char why[PROOF_WHY_BYTES])
{
	snprintf(why, PROOF_WHY_BYTES, "%s: %s", call, errno_text(errno));
	return -1;
}

/* Copies the text of the last error to why. */
static int why_last_error(char why[PROOF_WHY_BYTES])
{
	snprintf(why, PROOF_WHY_BYTES, "%s", sluice_last_error());
	return -1;
}

int proof_start(struct proof *p, int timeout_ms, char why[PROOF_WHY_BYTES])
{
	const struct proofs *shared = p->proofs;
	/* Without this address, the route could start at another device of this machine. */
	struct sockaddr_storage own = shared->device->address;
	uint8_t traffic_class = (uint8_t)shared->path->traffic_class;
	struct rdma_cm_id *id;

	if (rdma_create_id(shared->channel, &id, p->owner, RDMA_PS_TCP))
		return why_call_failed("rdma_create_id", why);
	/* From it the kernel derives the service level, which is the priority on a VLAN, and the
	 * class of the connection manager's own messages. Set before the route, which includes it.
	 */
	if (shared->path->traffic_class != PATH_AS_RESOLVED)
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &traffic_class,
				sizeof(traffic_class));
	if (rdma_resolve_addr(id, (struct sockaddr *)&own, (struct sockaddr *)&p->address,
			      timeout_ms)) {
		why_call_failed("rdma_resolve_addr", why);
		rdma_destroy_id(id);
		return -1;
	}
	p->id = id;
	return 0;
}

int proof_route(struct proof *p, int timeout_ms, char why[PROOF_WHY_BYTES])
{
	return rdma_resolve_route(p->id, timeout_ms) ? why_call_failed("rdma_resolve_route", why) :
						       0;
}

static int send_request(struct proof *p, const struct frame *frame, uint32_t qpn,
			char why[PROOF_WHY_BYTES])
{
	uint8_t bytes[FRAME_MAX];
	struct rdma_conn_param param = {
		.private_data = bytes,
		.private_data_len = (uint8_t)frame_encode(frame, bytes),
		.responder_resources = (uint8_t)p->proofs->reads,
		.initiator_depth = (uint8_t)p->proofs->reads,
		.retry_count = QUEUES_RETRIES,
		.rnr_retry_count = QUEUES_RETRIES,
		.srq = 1,
		.qp_num = qpn,
	};

	return rdma_connect(p->id, &param) ? why_call_failed("rdma_connect", why) : 0;
}

/* Begins an exchange, with a new nonce. */
static int begin(struct proof *p, struct frame *frame, char why[PROOF_WHY_BYTES])
{
	if (auth_random(frame->nonce, AUTH_NONCE_BYTES))
		return why_last_error(why);
	p->context = context_of(p->proofs->rank, p->peer, frame);
	return 0;
}

int proof_send_hello(struct proof *p, uint32_t qpn, char why[PROOF_WHY_BYTES])
{
	struct frame frame = { .kind = FRAME_HELLO, .rank = p->proofs->rank };

	return begin(p, &frame, why) ? -1 : send_request(p, &frame, qpn, why);
}

int proof_request(struct proof *p, uint32_t qpn, uint64_t received, char why[PROOF_WHY_BYTES])
{
	struct frame frame = { .kind = FRAME_PROOF,
			       .rank = p->proofs->rank,
			       .received = received,
			       .attempt = ++p->attempts,
			       .qpn = qpn };

	memcpy(frame.gid, p->id->route.addr.addr.ibaddr.sgid.raw, FRAME_GID_BYTES);
	if (begin(p, &frame, why))
		return -1;
	if (tag(p->proofs, AUTH_PROOF, &p->context, &frame))
		return why_last_error(why);
	return send_request(p, &frame, qpn, why);
}

int proof_confirm(struct proof *p, char why[PROOF_WHY_BYTES])
{
	return rdma_establish(p->id) ? why_call_failed("rdma_establish", why) : 0;
}

/* ---- accepting --------------------------------------------------------------------- */

int proof_is_new(const struct proof *p, const struct frame *request)
{
	return request->attempt > p->accepted;
}

void proof_take_id(struct proof *p, struct rdma_cm_id *id)
{
	p->id = id;
}

void proof_yield_id(struct proof *p)
{
	p->id = NULL;
}

static uint8_t at_most(uint8_t asked, uint32_t here)
{
	return asked < here ? asked : (uint8_t)here;
}

int proof_accept(struct proof *p, const struct cm_event *event, const struct frame *request,
		 const struct proof_offer *offer, int *answered, char why[PROOF_WHY_BYTES])
{
	struct frame frame = { .kind = FRAME_ACCEPT,
			       .rank = p->proofs->rank,
			       .received = offer->received,
			       .slot = offer->slot,
			       .mtu = offer->mtu,
			       .qpn = offer->qpn };
	uint8_t bytes[FRAME_MAX];
	struct rdma_conn_param param = {
		.private_data = bytes,
		.responder_resources = at_most(event->responder_resources, p->proofs->reads),
		.initiator_depth = at_most(event->initiator_depth, p->proofs->reads),
		.rnr_retry_count = QUEUES_RETRIES,
		.srq = 1,
		.qp_num = offer->qpn,
	};

	*answered = 0;
	p->context = context_of(request->rank, p->proofs->rank, request);
	memcpy(frame.control, offer->control, REGION_HEAD_BYTES);
	if (tag(p->proofs, AUTH_ACCEPT, &p->context, &frame))
		return why_last_error(why);
	param.private_data_len = (uint8_t)frame_encode(&frame, bytes);
	p->accepted = request->attempt;
	p->id->context = p->owner;
	*answered = 1;
	return rdma_accept(p->id, &param) ? why_call_failed("rdma_accept", why) : 0;
}

/* ---- what the peer answers --------------------------------------------------------- */

static enum proof_answer answer_with(enum proof_answer a, const char *text,
				     char why[PROOF_WHY_BYTES])
{
	snprintf(why, PROOF_WHY_BYTES, "%s", text);
	return a;
}

static enum proof_answer judge_reply(const struct proof *p, const struct frame *frame,
				     char why[PROOF_WHY_BYTES])
{
	if (frame->rank == p->peer &&
	    auth_check(&p->proofs->keys, AUTH_CHALLENGE, &p->context, NULL, 0, frame->tag))
		return ANSWER_ALIVE;
	return answer_with(ANSWER_MISTRUST, "it does not hold a key of this job", why);
}

enum proof_answer proof_judge_reject(struct proof *p, const struct cm_event *event, int asked,
				     char why[PROOF_WHY_BYTES])
{
	const char *reason = "";
	struct frame frame;

	if (frame_decode(event->bytes, event->n, &frame, &reason)) {
		if (event->status == REJECT_NO_SERVICE || event->status == -ECONNREFUSED ||
		    event->status == ECONNREFUSED)
			return answer_with(ANSWER_NOBODY, "nobody listens at its address", why);
		snprintf(why, PROOF_WHY_BYTES, "it rejected the connection (status %d): %s",
			 event->status, reason);
		return ANSWER_LATER;
	}
	if (frame.kind == FRAME_ALIVE && asked)
		return judge_reply(p, &frame, why);
	if (frame.kind == FRAME_REFUSAL && frame.reason == REFUSAL_GONE)
		return answer_with(ANSWER_GONE, "it has given this rank up", why);
	if (frame.kind == FRAME_REFUSAL && frame.reason == REFUSAL_PROOF)
		return answer_with(
			ANSWER_MISTRUST,
			"it refuses this rank's proof: it does not hold the same job key", why);
	return answer_with(ANSWER_LATER, "it is not ready yet", why);
}

enum proof_answer proof_judge_accept(struct proof *p, const struct cm_event *event,
				     struct frame *frame_out, char why[PROOF_WHY_BYTES])
{
	const char *reason = "its answer is not an acceptance";

	if (frame_decode(event->bytes, event->n, frame_out, &reason) ||
	    frame_out->kind != FRAME_ACCEPT)
		return answer_with(ANSWER_MISTRUST, reason, why);
	frame_out->qpn = event->qpn;
	if (frame_out->rank != p->peer ||
	    !tag_is_right(p->proofs, AUTH_ACCEPT, &p->context, frame_out))
		return answer_with(ANSWER_MISTRUST, "it does not hold a key of this job", why);
	return ANSWER_ACCEPT;
}

/* ---- opening and closing ----------------------------------------------------------- */

int proof_open(const struct proofs *proofs, int peer, const struct sockaddr_storage *address,
	       void *owner, struct proof **out)
{
	struct proof *p = calloc(1, sizeof(*p));

	if (!p)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*p));
	p->proofs = proofs;
	p->peer = (uint32_t)peer;
	p->address = *address;
	p->owner = owner;
	*out = p;
	return SLUICE_OK;
}

struct rdma_cm_id *proof_id(const struct proof *p)
{
	return p->id;
}

void proof_end_id(struct proof *p)
{
	if (p->id)
		rdma_destroy_id(p->id);
	p->id = NULL;
}

void proof_close(struct proof **p)
{
	free(*p);
	*p = NULL;
}
