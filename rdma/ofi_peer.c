/* SPDX-License-Identifier: BSD-3-Clause
 * See ofi_peer.h. */
#include "rdma/ofi_peer.h"
#include "base/clock.h"
#include "base/error.h"
#include "rdma/ofi_count.h"
#include "rdma/transfer.h"
#include "sluice.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A peer is lost if more than REFUSED_LOOKS looks find transfers refused for REFUSED_MS. At the end
 * of a job, a peer has ended if CLOSED_ATTEMPTS attempts after CLOSED_MS were refused. */
enum { REFUSED_MS = 900, REFUSED_LOOKS = 5, CLOSED_MS = 5, CLOSED_ATTEMPTS = 5 };

enum state {
	JOINING, /* its proof is not complete */
	UP,
	LOST, /* EVENT_GONE was not delivered yet */
	GONE
};

struct ofi_peer {
	struct endpoint endpoint;
	struct ofi_peers *all;
	enum state state;
	fi_addr_t address;
	uint32_t token; /* the token that the peer's notices must carry */
	struct ofi_flow *flow;
	struct arrivals *arrivals; /* NULL: the peer's puts carry no numbers */
	struct remote *control;    /* the peer's control region; NULL: none */
	int refused_looks;         /* number of looks that found transfers refused for too long */
	uint64_t closed_from;      /* number of refused attempts at CLOSED_MS; 0: not yet */
	char why[OFI_WHY_BYTES];   /* why the peer is lost */
};

struct ofi_peer *ofi_peer_of(struct endpoint *e)
{
	return (struct ofi_peer *)(void *)e; /* its first member */
}

struct endpoint *ofi_peer_endpoint(struct ofi_peer *p)
{
	return &p->endpoint;
}

/* ---- opening and closing ---------------------------------------------------------- */

/* The memory is registered now, so that the first put need not do it. */
int ofi_peers_grow(struct ofi_peers *all, int peers)
{
	const struct region *region;
	void *desc;
	int rc = peer_memory_grow(&all->copies, peers);

	if (rc || !peers)
		return rc;
	peer_memory_at(&all->copies, peers - 1, &region);
	return ofi_memory_local(all->memory, region, &desc);
}

/* Makes the greeting for the peer, which is sent after this rank's proof. */
static int make_greeting(struct ofi_peer *p, struct ofi_greeting *out)
{
	const struct ofi_peers *all = p->all;
	const int rank = p->endpoint.peer;
	const size_t line = all->control_line_bytes;
	int rc = auth_random(&p->token, sizeof(p->token));

	*out = (struct ofi_greeting){ 0 };
	if (rc)
		return rc;
	p->token = (p->token & ~all->token_mask) | (uint32_t)rank;
	out->token = p->token;
	if (!all->control)
		return SLUICE_OK;
	return ofi_memory_describe(all->memory, rank, all->control, (size_t)rank * line,
				   line ? line : all->control->bytes, out->control);
}

static int open_peer(struct ofi_peer *p, int number, const uint8_t *name, enum ofi_notice notice)
{
	struct ofi_peers *all = p->all;
	const int rank = p->endpoint.peer;
	struct ofi_flow_config flow = { .peer = rank,
					.lost_after_ms = all->lost_after_ms,
					.fabric = all->fabric,
					.memory = all->memory,
					.events = all->events,
					.promised = &all->promised,
					.by_message = notice == OFI_NOTICE_MESSAGE };
	struct ofi_greeting greeting;
	int rc = ofi_fabric_insert(all->fabric, name, &p->address);

	flow.address = p->address;
	flow.copy = peer_memory_at(&all->copies, number, &flow.copies);
	if (!rc)
		rc = ofi_flow_open(&flow, &p->flow);
	if (!rc && ofi_fabric_is_narrow(all->fabric))
		rc = arrivals_open(&p->arrivals);
	if (!rc)
		rc = make_greeting(p, &greeting);
	if (!rc)
		ofi_proof_begin(all->proofs, rank, &greeting);
	return rc;
}

int ofi_peer_open(struct ofi_peers *all, int rank, int number, const uint8_t *name,
		  enum ofi_notice notice, struct ofi_peer **out)
{
	const int room = peer_memory_peers(&all->copies),
		  more = number < room ? 0 : peer_memory_more(&all->copies, all->size - 1);
	int rc = more ? ofi_peers_grow(all, room + more) : SLUICE_OK;

	if (rc)
		return rc;
	struct ofi_peer *p = calloc(1, sizeof(*p));
	if (!p)
		return fail(SLUICE_ENOMEM, "ofi: no memory for %zu bytes", sizeof(*p));
	p->all = all;
	p->endpoint = (struct endpoint){ .transport = all->transport, .peer = rank };
	rc = open_peer(p, number, name, notice);
	if (rc) {
		ofi_peer_close(&p);
		return rc;
	}
	all->joining++;
	*out = p;
	return SLUICE_OK;
}

void ofi_peer_close(struct ofi_peer **peer)
{
	struct ofi_peer *p = *peer;

	ofi_memory_leave(&p->control);
	ofi_flow_close(&p->flow);
	arrivals_close(&p->arrivals);
	free(p);
	*peer = NULL;
}

/* ---- losing it -------------------------------------------------------------------- */

static int is_lost(const struct ofi_peer *p)
{
	return p->state >= LOST;
}

static int fail_peer_gone(const struct ofi_peer *p)
{
	return fail_quietly(SLUICE_EPEER, "rank %d is gone: %s", p->endpoint.peer, p->why);
}

int ofi_peer_ready(const struct ofi_peer *p)
{
	return is_lost(p) ? fail_peer_gone(p) : p->state == UP;
}

int ofi_peer_check(const struct ofi_peer *p)
{
	if (is_lost(p))
		return fail_peer_gone(p);
	if (p->state == JOINING)
		return fail(SLUICE_EINVAL, "ofi: rank %d is not connected yet", p->endpoint.peer);
	return SLUICE_OK;
}

static void lose_peer(struct ofi_peer *p, const char *why)
{
	if (is_lost(p))
		return;
	p->all->joining -= p->state == JOINING;
	p->all->unreported++;
	p->state = LOST;
	snprintf(p->why, sizeof(p->why), "%s", why);
	ofi_flow_abandon(p->flow);
}

int ofi_peer_report(struct ofi_peer *p, struct event *out)
{
	if (p->state != LOST)
		return 0;
	p->state = GONE;
	p->all->unreported--;
	*out = (struct event){
		.kind = EVENT_GONE, .peer = p->endpoint.peer, .status = SLUICE_EPEER, .text = p->why
	};
	return 1;
}

/* Returns how long libfabric may refuse transfers before the peer counts as lost. This is short
 * even if lost_after is long, because connecting takes only milliseconds. */
static uint64_t refused_for(uint64_t lost_after)
{
	const uint64_t most = (uint64_t)REFUSED_MS * NS_PER_MS;

	return lost_after / 4 < most ? lost_after / 4 : most;
}

static void look_for_silence(struct ofi_peer *p, uint64_t now)
{
	const uint64_t silent = ofi_flow_silent_ns(p->flow, now);
	const uint64_t lost_after = (uint64_t)p->all->lost_after_ms * NS_PER_MS;
	const uint64_t link_lost_after = (uint64_t)p->all->link_lost_after_ms * NS_PER_MS;
	char why[OFI_WHY_BYTES];

	/* Nothing is under way, and libfabric still refuses transfers: the connection worked during
	 * the proof, but broke and was not restored. One look does not prove that, because this
	 * process may not have run since the last attempt. */
	if (!ofi_flow_is_refused(p->flow) || silent <= refused_for(lost_after)) {
		p->refused_looks = 0;
	} else if (++p->refused_looks > REFUSED_LOOKS) {
		lose_peer(p, "its process ended, or the connection to it broke for good");
		return;
	}
	if (silent <= link_lost_after)
		return;
	snprintf(why, sizeof(why),
		 "no byte has moved in either direction for %.1f s, which is longer than "
		 "SLUICE_LINK_LOST_AFTER: the network is down",
		 (double)silent / 1e9);
	lose_peer(p, why);
}

/* ---- the proof -------------------------------------------------------------------- */

static void begin_use(struct ofi_peer *p, const struct ofi_greeting *greeting)
{
	static const uint8_t none[REGION_HEAD_BYTES];

	p->state = UP;
	p->all->joining--;
	ofi_flow_use_token(p->flow, greeting->token);
	if (memcmp(greeting->control, none, sizeof(none)) &&
	    ofi_memory_reach(p->all->memory, &p->endpoint, greeting->control, &p->control))
		lose_peer(p, "its description of the control region is invalid");
}

static void join(struct ofi_peer *p, uint64_t now)
{
	const int rank = p->endpoint.peer;
	const struct ofi_greeting *greeting = ofi_proof_greeting(p->all->proofs, rank);
	uint8_t hello[OFI_FRAME_BYTES];

	if (greeting)
		begin_use(p, greeting);
	else if (!ofi_messages_pending(p->all->messages, rank) &&
		 ofi_proof_hello(p->all->proofs, rank, now, hello))
		ofi_messages_write(p->all->messages, rank, hello);
}

void ofi_peer_look(struct ofi_peer *p, int was_stopped, uint64_t now_ns)
{
	if (was_stopped)
		ofi_flow_moved(p->flow, now_ns);
	if (p->state == JOINING)
		join(p, now_ns);
	else if (p->state == UP)
		look_for_silence(p, now_ns);
	ofi_peer_send(p);
}

void ofi_peer_send(struct ofi_peer *p)
{
	ofi_messages_send(p->all->messages, p->endpoint.peer, p->address);
}

void ofi_peer_send_failed(struct ofi_peer *p, const char *why)
{
	char text[OFI_WHY_BYTES];

	if (p->state != UP)
		return; /* the message is repeated when it is due */
	snprintf(text, sizeof(text), "the last message of the proof failed: %.100s", why);
	lose_peer(p, text);
}

int ofi_peer_control(struct ofi_peer *p, struct remote **out)
{
	int rc = ofi_peer_check(p);

	if (rc)
		return rc;
	if (!p->control)
		return fail(SLUICE_EINVAL, "ofi: rank %d was opened without a control region",
			    p->endpoint.peer);
	return ofi_memory_reach(p->all->memory, &p->endpoint,
				ofi_proof_greeting(p->all->proofs, p->endpoint.peer)->control, out);
}

/* ---- transfers -------------------------------------------------------------------- */

static const char strangely[] = "its puts carry numbers that are out of sequence";

static void put_notice(struct ofi_peer *p, uint32_t imm)
{
	event_queue_put(p->all->events,
			&(struct event){ .kind = EVENT_IMM, .peer = p->endpoint.peer, .imm = imm });
}

int ofi_peer_noticed(struct ofi_peer *p, uint32_t token, uint32_t imm, uint64_t now_ns)
{
	if (p->token != ofi_flow_mix(token, imm))
		return 0;
	if (is_lost(p))
		return 1;
	ofi_flow_moved(p->flow, now_ns);
	put_notice(p, imm);
	return 1;
}

/* Delivers the notices for which all earlier puts have arrived. Leaves room for the events of one
 * poll of libfabric. */
static void deliver_notices(struct ofi_peer *p)
{
	uint32_t imm;
	int rc = 0;

	while (!is_lost(p) &&
	       event_queue_room(p->all->events) > p->all->promised + OFI_POLL_EVENTS &&
	       (rc = arrivals_next(p->arrivals, &imm)) == 1)
		put_notice(p, imm);
	if (rc < 0)
		lose_peer(p, strangely);
}

void ofi_peer_arrived(struct ofi_peer *p, uint32_t word, uint64_t now_ns)
{
	if (is_lost(p))
		return;
	ofi_flow_moved(p->flow, now_ns);
	if (arrivals_take(p->arrivals, word))
		lose_peer(p, strangely);
	else
		deliver_notices(p);
}

fi_addr_t ofi_peer_address(const struct ofi_peer *p)
{
	return p->address;
}

uint64_t ofi_peer_moved(const struct ofi_peer *p)
{
	return ofi_flow_moves(p->flow);
}

void ofi_peer_push(struct ofi_peer *p, uint64_t now_ns)
{
	char why[OFI_WHY_BYTES];

	if (p->arrivals)
		deliver_notices(p);
	if (!ofi_flow_waits(p->flow))
		return;
	if (ofi_flow_push(p->flow, now_ns, why))
		lose_peer(p, why); /* also ends all its transfers with an error */
}

int ofi_peer_post(struct ofi_peer *p, const struct transfer *x)
{
	uint64_t now;
	int rc = is_lost(p) ? fail_peer_gone(p) : transfer_check(&p->endpoint, x);

	if (rc)
		return rc;
	if (!ofi_flow_room(p->flow, x))
		return SLUICE_EAGAIN;
	now = now_ns();
	rc = ofi_flow_append(p->flow, x, now);
	if (rc)
		return rc;
	transfer_count(&p->endpoint, x);
	ofi_peer_push(p, now);
	return SLUICE_OK;
}

void ofi_peer_completed(struct ofi_peer *p, const struct ofi_completion *c, uint64_t now_ns)
{
	char why[OFI_WHY_BYTES];

	if (ofi_flow_completed(p->flow, c, now_ns, why))
		lose_peer(p, why);
}

void ofi_peer_flush(struct ofi_peer *p)
{
	const struct transfer last = { .kind = TRANSFER_PUT, .remote = p->control, .report = 1 };

	if (p->state == UP && p->control && ofi_flow_room(p->flow, &last))
		ofi_flow_append(p->flow, &last, now_ns());
}

/* Each attempt to reach a closed peer would open a connection that the peer refuses. */
static int is_closed(struct ofi_peer *p, uint64_t now_ns)
{
	const uint64_t refused = ofi_flow_refusals(p->flow);

	if (!refused || ofi_flow_silent_ns(p->flow, now_ns) <= (uint64_t)CLOSED_MS * NS_PER_MS) {
		p->closed_from = 0;
		return 0;
	}
	if (!p->closed_from)
		p->closed_from = refused;
	return refused >= p->closed_from + CLOSED_ATTEMPTS;
}

int ofi_peer_is_busy(struct ofi_peer *p, uint64_t now_ns)
{
	return !is_lost(p) && !ofi_flow_is_idle(p->flow) && !is_closed(p, now_ns);
}
