/* SPDX-License-Identifier: BSD-3-Clause
 * See proof.h. */
#include "rdma/proof.h"
#include "base/bytes.h"
#include "base/error.h"
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
	struct carrier *carrier;
};

struct proof {
	const struct proofs *proofs;
	const struct carrier_ops *ops; /* of the carrier */
	struct carrier_peer *at;
	uint32_t peer;
	int active, connects;        /* active: there is an exchange; connects: its proof was
					found valid */
	struct auth_context context; /* the context of the running exchange */
	uint32_t attempts, accepted; /* number of this rank's attempts; the peer's last accepted
					attempt */
};

int proofs_open(int rank, struct carrier *carrier, struct proofs **out)
{
	struct proofs *p = *out = calloc(1, sizeof(*p));

	if (!p)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*p));
	p->rank = (uint32_t)rank;
	p->carrier = carrier;
	return SLUICE_OK;
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

/* ---- answers to requests ----------------------------------------------------------- */

/* Makes the context of a server's hello and the client's reply. The server asks, so in this context
 * it has the role of the client. */
static struct auth_context context_of(uint32_t asking, uint32_t asked, const struct frame *request)
{
	struct auth_context context = { .client = asking, .server = asked };

	memcpy(context.nonce_client, request->nonce, AUTH_NONCE_BYTES);
	return context;
}

/* Makes the tag of a refusal or of an end. The tag covers a number in addition to the exchange. */
static int tag_number(const struct proofs *p, enum auth_label label,
		      const struct auth_context *context, uint32_t number,
		      uint8_t out[AUTH_TAG_BYTES])
{
	uint8_t bytes[4];

	put_le32(bytes, number);
	return auth_tag(&p->keys, label, context, bytes, sizeof(bytes), out);
}

static int number_is_right(const struct proofs *p, enum auth_label label,
			   const struct auth_context *context, uint32_t number,
			   const struct frame *frame)
{
	uint8_t bytes[4];

	put_le32(bytes, number);
	return auth_check(&p->keys, label, context, bytes, sizeof(bytes), frame->tag);
}

/* The refusal of a wrong proof has no tag. Its sender may have copied a peer's nonce, and could
 * then pass the tag on to that peer. */
void proofs_refuse(const struct proofs *p, const struct carrier_event *event,
		   const struct frame *request, enum frame_reason reason)
{
	struct frame frame = { .kind = FRAME_REFUSAL, .rank = p->rank, .reason = (uint32_t)reason };
	struct auth_context context;

	if (p->carrier->ops->open_to_all) {
		if (reason == REFUSAL_PROOF || !request)
			return;
		context = context_of(request->rank, p->rank, request);
		if (tag_number(p, AUTH_REFUSAL, &context, frame.reason, frame.tag))
			return;
	}
	p->carrier->ops->refuse(event, &frame);
}

int proofs_reply(const struct proofs *p, const struct carrier_event *event,
		 const struct frame *hello)
{
	struct frame frame = { .kind = FRAME_ALIVE, .rank = p->rank };
	const struct auth_context context = context_of(hello->rank, p->rank, hello);

	if (auth_tag(&p->keys, AUTH_CHALLENGE, &context, NULL, 0, frame.tag))
		return -1;
	p->carrier->ops->refuse(event, &frame);
	return 0;
}

const char *proofs_judge(const struct proofs *p, const struct carrier_event *event,
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

/* Copies the text of the last error to why. */
static int why_last_error(char why[PROOF_WHY_BYTES])
{
	snprintf(why, PROOF_WHY_BYTES, "%s", sluice_last_error());
	return -1;
}

int proof_start(struct proof *p, int timeout_ms, char why[PROOF_WHY_BYTES])
{
	p->connects = 0;
	p->active = !p->ops->start(p->at, timeout_ms, why);
	return p->active ? 0 : -1;
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
	struct frame frame = { .kind = FRAME_HELLO, .rank = p->proofs->rank, .qpn = qpn };

	return begin(p, &frame, why) ? -1 : p->ops->request(p->at, &frame, why);
}

int proof_request(struct proof *p, uint32_t qpn, uint64_t received, char why[PROOF_WHY_BYTES])
{
	struct frame frame = { .kind = FRAME_PROOF,
			       .rank = p->proofs->rank,
			       .received = received,
			       .attempt = ++p->attempts,
			       .qpn = qpn };

	p->ops->complete(p->at, &frame);
	if (begin(p, &frame, why))
		return -1;
	if (tag(p->proofs, AUTH_PROOF, &p->context, &frame))
		return why_last_error(why);
	return p->ops->request(p->at, &frame, why);
}

int proof_confirm(struct proof *p, char why[PROOF_WHY_BYTES])
{
	p->connects = 1;
	return p->ops->confirm(p->at, why);
}

void proof_tick(struct proof *p, uint64_t now)
{
	if (p->active && p->ops->tick)
		p->ops->tick(p->at, now);
}

/* ---- accepting --------------------------------------------------------------------- */

int proof_is_new(const struct proof *p, const struct frame *request)
{
	return request->attempt > p->accepted;
}

static int is_accepted(const struct proof *p, const struct frame *request)
{
	return p->active && request->attempt == p->accepted &&
	       !memcmp(p->context.nonce_client, request->nonce, AUTH_NONCE_BYTES);
}

int proof_is_repeated(struct proof *p, const struct frame *request, uint64_t now)
{
	if (p->ops->again && is_accepted(p, request))
		p->ops->again(p->at, now);
	return p->ops->open_to_all;
}

int proof_take(struct proof *p, const struct carrier_event *event, const struct frame *request,
	       char why[PROOF_WHY_BYTES])
{
	p->active = 1;
	p->connects = 0;
	return p->ops->take(p->at, event, request, why);
}

void proof_yield(struct proof *p)
{
	p->ops->yield(p->at);
	p->active = 0;
}

int proof_accept(struct proof *p, const struct carrier_event *event, const struct frame *request,
		 const struct proof_offer *offer, int *answered, char why[PROOF_WHY_BYTES])
{
	struct frame frame = { .kind = FRAME_ACCEPT,
			       .rank = p->proofs->rank,
			       .received = offer->received,
			       .slot = offer->slot,
			       .mtu = offer->mtu,
			       .qpn = offer->qpn };

	*answered = 0;
	p->context = context_of(request->rank, p->proofs->rank, request);
	memcpy(frame.control, offer->control, REGION_HEAD_BYTES);
	p->ops->complete(p->at, &frame);
	if (tag(p->proofs, AUTH_ACCEPT, &p->context, &frame))
		return why_last_error(why);
	p->accepted = request->attempt;
	p->connects = 1;
	*answered = 1;
	return p->ops->accept(p->at, event, &frame, why);
}

/* ---- answers of the peer ----------------------------------------------------------- */

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
	return p->ops->open_to_all ?
		       ANSWER_NONE :
		       answer_with(ANSWER_MISTRUST, "it does not hold a key of this job", why);
}

static int is_refusal(const struct proof *p, const struct frame *frame)
{
	return frame->kind == FRAME_REFUSAL && frame->rank == p->peer &&
	       number_is_right(p->proofs, AUTH_REFUSAL, &p->context, frame->reason, frame);
}

enum proof_answer proof_judge_reject(struct proof *p, const struct carrier_event *event, int asked,
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
	if (p->ops->open_to_all && !is_refusal(p, &frame))
		return ANSWER_NONE;
	if (frame.kind == FRAME_REFUSAL && frame.reason == REFUSAL_GONE)
		return answer_with(ANSWER_GONE, "it has given this rank up", why);
	if (frame.kind == FRAME_REFUSAL && frame.reason == REFUSAL_PROOF)
		return answer_with(
			ANSWER_MISTRUST,
			"it refuses this rank's proof: it does not hold the same job key", why);
	return answer_with(ANSWER_LATER, "it is not ready yet", why);
}

enum proof_answer proof_judge_accept(struct proof *p, const struct carrier_event *event,
				     struct frame *frame_out, char why[PROOF_WHY_BYTES])
{
	const char *reason = "its answer is not an acceptance";
	const enum proof_answer otherwise = p->ops->open_to_all ? ANSWER_NONE : ANSWER_MISTRUST;

	if (frame_decode(event->bytes, event->n, frame_out, &reason) ||
	    frame_out->kind != FRAME_ACCEPT)
		return answer_with(otherwise, reason, why);
	frame_out->qpn = event->qpn;
	if (frame_out->rank != p->peer ||
	    !tag_is_right(p->proofs, AUTH_ACCEPT, &p->context, frame_out))
		return answer_with(otherwise, "it does not hold a key of this job", why);
	return ANSWER_ACCEPT;
}

enum proof_answer proof_judge_end(const struct proof *p, const struct carrier_event *event)
{
	const char *why;
	struct frame frame;

	if (!p->ops->open_to_all)
		return ANSWER_END; /* rdma_cm itself knows which connection has ended */
	return p->connects && !frame_decode(event->bytes, event->n, &frame, &why) &&
			       frame.kind == FRAME_END && frame.rank == p->peer &&
			       number_is_right(p->proofs, AUTH_END, &p->context, frame.rank,
					       &frame) ?
		       ANSWER_END :
		       ANSWER_NONE;
}

/* ---- opening and closing ----------------------------------------------------------- */

int proof_open(const struct proofs *proofs, const struct verbs_record *its, void *owner,
	       struct proof **out)
{
	struct proof *p = *out = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*p));
	p->proofs = proofs;
	p->ops = proofs->carrier->ops;
	p->peer = (uint32_t)its->rank;
	rc = p->ops->meet(proofs->carrier, its, owner, &p->at);
	if (rc)
		proof_close(out);
	return rc;
}

int proof_is_active(const struct proof *p)
{
	return p->active;
}

int proof_is_open_to_all(const struct proof *p)
{
	return p->ops->open_to_all;
}

struct ibv_context *proof_leads_to(const struct proof *p)
{
	return p->ops->leads_to(p->at);
}

struct path_ends proof_ends(const struct proof *p, const struct frame *frame)
{
	return p->ops->ends(p->at, frame);
}

void proof_end(struct proof *p)
{
	struct frame frame = { .kind = FRAME_END, .rank = p->proofs->rank };
	int tells = p->connects && p->ops->open_to_all &&
		    !tag_number(p->proofs, AUTH_END, &p->context, frame.rank, frame.tag);

	if (p->active)
		p->ops->end(p->at, tells ? &frame : NULL);
	p->active = p->connects = 0;
}

void proof_close(struct proof **p)
{
	if (*p && (*p)->at)
		(*p)->ops->part((*p)->at);
	free(*p);
	*p = NULL;
}
