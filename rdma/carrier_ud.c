/* SPDX-License-Identifier: BSD-3-Clause
 * The row ud of carrier.h: frames travel in datagrams (datagrams.h), and both ranks know the ends
 * of a connection from each other's records and frames. This needs no IP address, no connection
 * manager and no path record of the subnet manager.
 *
 * A frame goes to the address in the record of its receiver, and never to the address from which a
 * datagram came, so nobody can make a rank send to a third party. A client repeats its request, and
 * a server then repeats its acceptance. */
#include "base/clock.h"
#include "base/error.h"
#include "rdma/auth.h"
#include "rdma/carrier.h"
#include "rdma/datagrams.h"
#include "sluice.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	REPEAT_MS = 200,
	/* A server repeats its acceptance only after this time, even if the request is repeated
	 * more often. */
	AGAIN_MS = REPEAT_MS / 2,
	NUMBER_MOST = 0xffffff
};
_Static_assert((int)FRAME_MAX <= (int)DATAGRAM_BYTES, "a frame does not fit into a datagram");
_Static_assert((int)FRAME_MAX <= (int)sizeof(((struct carrier_event *)0)->bytes),
	       "a frame does not fit into an event");

struct ud {
	struct carrier carrier;
	const struct verbs_device *device;
	struct ibv_context *context;
	struct datagrams *datagrams;
	const struct path_choice *path;
	uint32_t reads;
	int size;
	struct ud_peer **by_rank; /* [size] */
};

struct ud_peer {
	struct ud *ud;
	int rank;
	void *owner;
	struct path_end end; /* the peer's end, from its record; the queue pair is not set */
	uint32_t qpn, qkey;  /* for datagrams */
	struct ibv_ah *ah;   /* NULL: not made yet */
	/* the exchange of frames that is under way */
	uint32_t psn, reads;     /* the first packet number and the READs of this side */
	uint8_t kept[FRAME_MAX]; /* the last frame that was sent */
	size_t n_kept;           /* 0: nothing */
	int repeats;             /* 1: the frame is sent again until the peer answers */
	uint64_t sent_ns;
};

static struct ud *ud_of(const struct carrier *c)
{
	/* the first member; casts away const as strchr() does */
	return (struct ud *)(uintptr_t)c;
}

static struct ud_peer *ud_peer_of(const struct carrier_peer *p)
{
	return (struct ud_peer *)(uintptr_t)p;
}

/* ---- of this rank ------------------------------------------------------------------ */

static void ud_stop(struct carrier *c)
{
	(void)c; /* there is no listener to stop, and unknown senders get no answer anyway */
}

static void ud_close(struct carrier *carrier)
{
	struct ud *c = ud_of(carrier);

	datagrams_close(&c->datagrams);
	if (c->context)
		ibv_close_device(c->context);
	free(c->by_rank);
	free(c);
}

static int open_device(struct ud *c)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int rc;

	if (list)
		errno = ENODEV; /* stays unless ibv_open_device() sets another reason */
	for (int i = 0; list && list[i] && !c->context; i++)
		if (!strcmp(ibv_get_device_name(list[i]), c->device->name))
			c->context = ibv_open_device(list[i]);
	rc = c->context ? SLUICE_OK : verbs_device_failed(c->device, "ibv_open_device");
	if (list)
		ibv_free_device_list(list);
	return rc;
}

static int ud_open(const struct verbs_device *device, int size, struct carrier **out)
{
	struct ud *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*c));
	c->carrier.ops = &carrier_ud;
	c->device = device;
	c->size = size;
	c->by_rank = calloc((size_t)size, sizeof(*c->by_rank));
	rc = c->by_rank ? open_device(c) :
			  fail(SLUICE_ENOMEM, "verbs: no memory for a table of %d peers", size);
	if (!rc)
		rc = datagrams_open(c->context, device, &c->datagrams);
	if (rc)
		ud_close(&c->carrier);
	else
		*out = &c->carrier;
	return rc;
}

static void ud_use(struct carrier *c, const struct path_choice *path, uint32_t reads)
{
	ud_of(c)->path = path;
	ud_of(c)->reads = reads;
}

static struct ibv_context *ud_context(const struct carrier *c)
{
	return ud_of(c)->context;
}

static int ud_fd(const struct carrier *c)
{
	return datagrams_fd(ud_of(c)->datagrams);
}

static void ud_record(const struct carrier *c, struct verbs_record *out)
{
	out->qpn = datagrams_qpn(ud_of(c)->datagrams);
	out->qkey = datagrams_qkey(ud_of(c)->datagrams);
}

static void gid_text(const union ibv_gid *gid, uint32_t qpn, char text[CARRIER_TEXT])
{
	char name[INET6_ADDRSTRLEN] = "?";

	inet_ntop(AF_INET6, gid->raw, name, sizeof(name));
	snprintf(text, CARRIER_TEXT, "GID %s QP 0x%06x", name, qpn);
}

static void ud_text(const struct carrier *c, char text[CARRIER_TEXT])
{
	gid_text(&ud_of(c)->device->gid, datagrams_qpn(ud_of(c)->datagrams), text);
}

static void ud_sender(const struct carrier_event *request, char text[CARRIER_TEXT])
{
	const struct ud_peer *p = ud_peer_of(request->at);

	gid_text(&p->end.gid, p->qpn, text);
}

static enum rdma_cm_event_type type_of(enum frame_kind kind)
{
	switch (kind) {
	case FRAME_HELLO:
	case FRAME_PROOF: return RDMA_CM_EVENT_CONNECT_REQUEST;
	case FRAME_ACCEPT: return RDMA_CM_EVENT_CONNECT_RESPONSE;
	case FRAME_END: return RDMA_CM_EVENT_DISCONNECTED;
	default: return RDMA_CM_EVENT_REJECTED;
	}
}

/* Returns the peer from which a frame claims to come, or NULL if the claim is false. The sender's
 * card writes the number of the sending queue pair into the datagram, so this number is
 * reliable. */
static struct ud_peer *sender_of(const struct ud *c, const struct datagram *d,
				 const struct frame *frame)
{
	struct ud_peer *p = frame->rank < (uint32_t)c->size ? c->by_rank[frame->rank] : NULL;

	return p && d->qpn == p->qpn ? p : NULL;
}

/* A PROOF or an ACCEPT must describe the end of its queue pair. Without that, nothing can be
 * connected. */
static int has_card(const struct frame *frame)
{
	return frame->ends || (frame->kind != FRAME_PROOF && frame->kind != FRAME_ACCEPT);
}

static int ud_next(struct carrier *carrier, struct carrier_event *out)
{
	struct ud *c = ud_of(carrier);
	struct ud_peer *p = NULL;
	struct datagram d;
	struct frame frame;
	const char *why;

	if (!datagrams_next(c->datagrams, &d))
		return 0;
	if (!frame_decode(d.bytes, d.n, &frame, &why) && has_card(&frame))
		p = sender_of(c, &d, &frame);
	*out = (struct carrier_event){ .type = RDMA_CM_EVENT_REJECTED }; /* for no peer */
	if (!p)
		return 1;
	out->type = type_of(frame.kind);
	out->at = (struct carrier_peer *)(void *)p;
	out->n = d.n < sizeof(out->bytes) ? d.n : sizeof(out->bytes);
	out->qpn = frame.qpn;
	if (out->type != RDMA_CM_EVENT_CONNECT_REQUEST)
		out->owner = p->owner;
	memcpy(out->bytes, d.bytes, out->n);
	memcpy(out->gid, p->end.gid.raw, sizeof(out->gid));
	return 1;
}

/* ---- of one peer ------------------------------------------------------------------- */

static int ud_meet(struct carrier *carrier, const struct verbs_record *its, void *owner,
		   struct carrier_peer **out)
{
	const struct verbs_card *card = &its->cards[0];
	struct ud *c = ud_of(carrier);
	struct ud_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*p));
	p->ud = c;
	p->rank = its->rank;
	p->owner = owner;
	p->end = (struct path_end){
		.lid = card->lid, .global = card->global, .gid = card->gid, .mtu = card->mtu
	};
	p->qpn = its->qpn;
	p->qkey = its->qkey;
	c->by_rank[p->rank] = p;
	*out = (struct carrier_peer *)(void *)p;
	return SLUICE_OK;
}

static void ud_part(struct carrier_peer *peer)
{
	struct ud_peer *p = ud_peer_of(peer);

	if (p->ah)
		datagrams_forget(p->ud->datagrams, p->ah);
	p->ud->by_rank[p->rank] = NULL;
	free(p);
}

/* On Ethernet, making an address handle looks up the peer's hardware address, which can fail. */
static int find_address(struct ud_peer *p, char why[CARRIER_WHY_BYTES])
{
	struct ibv_ah_attr to;

	if (p->ah)
		return 0;
	to = path_address(p->ud->path, p->ud->device, &p->end);
	p->ah = datagrams_address(p->ud->datagrams, &to);
	if (!p->ah)
		snprintf(why, CARRIER_WHY_BYTES, "ibv_create_ah: %s", errno_text(errno));
	return p->ah ? 0 : -1;
}

static int send_bytes(struct ud_peer *p, const uint8_t *bytes, size_t n,
		      char why[CARRIER_WHY_BYTES])
{
	_Static_assert((int)DATAGRAM_WHY_BYTES <= (int)CARRIER_WHY_BYTES, "a reason is too long");
	return find_address(p, why) || datagrams_send(p->ud->datagrams, p->ah, p->qpn, p->qkey,
						      bytes, n, why) ?
		       -1 :
		       0;
}

static int send_kept(struct ud_peer *p, uint64_t now, char why[CARRIER_WHY_BYTES])
{
	p->sent_ns = now;
	return send_bytes(p, p->kept, p->n_kept, why);
}

static int keep_and_send(struct ud_peer *p, const struct frame *frame, int repeats,
			 char why[CARRIER_WHY_BYTES])
{
	p->n_kept = frame_encode(frame, p->kept);
	p->repeats = repeats;
	return send_kept(p, now_ns(), why);
}

/* Begins an exchange, with the first packet number of this side. */
static int begin_pair(struct ud_peer *p, uint32_t reads, char why[CARRIER_WHY_BYTES])
{
	p->n_kept = 0;
	p->reads = reads;
	if (auth_random(&p->psn, sizeof(p->psn))) {
		snprintf(why, CARRIER_WHY_BYTES, "%s", sluice_last_error());
		return -1;
	}
	p->psn &= NUMBER_MOST;
	return 0;
}

static int ud_start(struct carrier_peer *peer, int timeout_ms, char why[CARRIER_WHY_BYTES])
{
	struct ud_peer *p = ud_peer_of(peer);

	(void)timeout_ms;
	return begin_pair(p, p->ud->reads, why) ? -1 : find_address(p, why);
}

static int ud_request(struct carrier_peer *p, const struct frame *frame,
		      char why[CARRIER_WHY_BYTES])
{
	return keep_and_send(ud_peer_of(p), frame, 1, why);
}

static int ud_take(struct carrier_peer *peer, const struct carrier_event *request,
		   const struct frame *frame, char why[CARRIER_WHY_BYTES])
{
	struct ud_peer *p = ud_peer_of(peer);

	(void)request;
	return begin_pair(p, lesser(p->ud->reads, frame->reads), why);
}

static void ud_yield(struct carrier_peer *p)
{
	ud_peer_of(p)->n_kept = 0;
}

static int ud_accept(struct carrier_peer *p, const struct carrier_event *request,
		     const struct frame *frame, char why[CARRIER_WHY_BYTES])
{
	(void)request;
	return keep_and_send(ud_peer_of(p), frame, 0, why);
}

/* If the refusal is lost, the peer sends its request again. */
static void ud_refuse(const struct carrier_event *request, const struct frame *frame)
{
	char why[CARRIER_WHY_BYTES];
	uint8_t bytes[FRAME_MAX];

	send_bytes(ud_peer_of(request->at), bytes, frame_encode(frame, bytes), why);
}

static int ud_confirm(struct carrier_peer *p, char why[CARRIER_WHY_BYTES])
{
	(void)why; /* the first message over the queue pair confirms the acceptance */
	ud_peer_of(p)->n_kept = 0;
	return 0;
}

/* If the frame is lost, the peer finds out because the queue pair does not answer. */
static void ud_end(struct carrier_peer *peer, const struct frame *frame)
{
	struct ud_peer *p = ud_peer_of(peer);
	char why[CARRIER_WHY_BYTES];
	uint8_t bytes[FRAME_MAX];

	p->n_kept = 0;
	if (frame)
		send_bytes(p, bytes, frame_encode(frame, bytes), why);
}

static struct ibv_context *ud_leads_to(const struct carrier_peer *p)
{
	return ud_peer_of(p)->ud->context;
}

static void ud_complete(struct carrier_peer *peer, struct frame *frame)
{
	const struct ud_peer *p = ud_peer_of(peer);

	frame->ends = 1;
	frame->psn = p->psn;
	frame->reads = p->reads;
	if (frame->kind == FRAME_PROOF)
		memcpy(frame->gid, p->ud->device->gid.raw, FRAME_GID_BYTES);
}

static struct path_ends ud_ends(const struct carrier_peer *peer, const struct frame *frame)
{
	const struct ud_peer *p = ud_peer_of(peer);
	struct path_ends ends = { .device = p->ud->device, .psn = p->psn, .peer = p->end };

	ends.peer.qpn = frame->qpn;
	ends.peer.psn = frame->psn;
	ends.peer.reads = lesser(p->reads, frame->reads);
	return ends;
}

static void send_after(struct ud_peer *p, uint64_t now, uint64_t ms)
{
	char why[CARRIER_WHY_BYTES];

	if (p->n_kept && now >= p->sent_ns + ms * NS_PER_MS)
		send_kept(p, now, why);
}

static void ud_tick(struct carrier_peer *p, uint64_t now)
{
	if (ud_peer_of(p)->repeats)
		send_after(ud_peer_of(p), now, REPEAT_MS);
}

static void ud_again(struct carrier_peer *p, uint64_t now)
{
	send_after(ud_peer_of(p), now, AGAIN_MS);
}

const struct carrier_ops carrier_ud = {
	.name = "ud",
	.open_to_all = 1,
	.open = ud_open,
	.use = ud_use,
	.stop = ud_stop,
	.close = ud_close,
	.context = ud_context,
	.fd = ud_fd,
	.record = ud_record,
	.text = ud_text,
	.next = ud_next,
	.sender = ud_sender,
	.meet = ud_meet,
	.part = ud_part,
	.start = ud_start,
	.request = ud_request,
	.take = ud_take,
	.yield = ud_yield,
	.accept = ud_accept,
	.refuse = ud_refuse,
	.confirm = ud_confirm,
	.end = ud_end,
	.leads_to = ud_leads_to,
	.complete = ud_complete,
	.ends = ud_ends,
	.tick = ud_tick,
	.again = ud_again,
};
