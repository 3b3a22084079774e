/* SPDX-License-Identifier: BSD-3-Clause
 * See link.h for the exchange, and the table `rules` below. */
#include "rdma/link.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "rdma/queue_pair.h"
#include "rdma/retry.h"
#include "sluice.h"
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum link_state {
	IDLE,     /* no try runs; a timer will start a try, or the server's check of a silent
		     client */
	ASKING,   /* server: finds the route, sends a hello and waits for the reply */
	ROUTING,  /* client: finds the route for its proof */
	PROVING,  /* client: has a queue pair, and sent the proof */
	ACCEPTED, /* server: has a queue pair, and waits for the client's READY */
	GREETING, /* client: has sent READY and waits for the server's READY */
	TRADING,  /* both sides are READY; waits for the peer's KEYS */
	UP,
	EXPELLED, /* the peer was dropped from the job; up only for the last messages to it */
	CUT,      /* broken while this rank's port is down; sends nothing until the port is up */
	GONE,
	STATES
};

enum link_event {
	NOTHING,
	TIMER,   /* the state's timer expired */
	LATE,    /* the time to reconnect is over */
	ROUTE,   /* the route to the peer is known */
	CONNECT, /* client: a try may begin */
	PROBE,   /* server: the client has not connected for a while */
	ALIVE,   /* the hello was answered: the client's process lives and will connect */
	ACCEPT,  /* the proof is answered */
	PROOF,   /* the peer asks to connect, with a valid proof */
	/* replaces PROOF while an older try or connection exists, to end that one */
	NEWER,
	READY,    /* a greeting: the peer's keys work */
	KEYS,     /* a greeting: the peer's table of keys is written */
	FAILURE,  /* this try failed */
	MISTRUST, /* one side rejects the other's proof */
	NOBODY,   /* nobody listens at the peer's address */
	LOSS,     /* the queue pair is broken */
	CUT_OFF,  /* LOSS of a link that was up, while this rank's port is down */
	EXPEL,    /* this rank drops the peer */
	END,      /* the peer is lost for good */
	EVENTS
};

struct link {
	const struct link_shared *shared;
	struct link_config config;
	enum link_state state;
	enum link_event noted; /* recorded by completions; raised when the poll is over */
	struct proof *proof;
	struct retry retry;
	char why[200];   /* the reason of the last failure */
	char broke[200]; /* the reason why the connection was lost; set while reconnecting */
	char gone[256];
};

struct cue {
	uint64_t now;
	const struct carrier_event *event;
	const struct frame *frame;
	enum frame_reason refusal; /* PROOF: why the request is refused, or 0 */
};

/* ---- the exchange and its queue pair --------------------------------------------- */

static void set_why(struct link *l, const char *why)
{
	if (why != l->why)
		snprintf(l->why, sizeof(l->why), "%s", why);
}

static int port_active(const struct link *l)
{
	return verbs_port_active(l->shared->context, l->shared->device);
}

static void end_pair(struct link *l)
{
	l->noted = LOSS;
	qp_end(l->config.pair);
	l->noted = NOTHING;
}

/* Ends the exchange and its queue pair, if there is one. Delivers everything that arrived before.
 */
static void drop_exchange(struct link *l)
{
	if (!proof_is_active(l->proof))
		return;
	end_pair(l);
	proof_end(l->proof);
	retry_rest(&l->retry);
}

static int make_pair(struct link *l)
{
	const struct ibv_context *context = proof_leads_to(l->proof);

	if (context != l->shared->context) {
		snprintf(l->why, sizeof(l->why),
			 "the route to it leads through %s, and not through %s (are they a bond of "
			 "two cards?)",
			 ibv_get_device_name(context->device), l->shared->device->name);
		return -1;
	}
	return qp_make(l->config.pair, l, l->why);
}

/* ---- connecting ------------------------------------------------------------------ */

static enum link_event begin_try(struct link *l, struct cue *cue)
{
	if (proof_start(l->proof, retry_try_ms(&l->retry), l->why))
		return FAILURE;
	retry_await(&l->retry, cue->now);
	return NOTHING;
}

static enum link_event choose_try(struct link *l, struct cue *cue)
{
	(void)cue;
	return l->config.client ? CONNECT : PROBE;
}

static enum link_event send_hello(struct link *l, struct cue *cue)
{
	(void)cue;
	if (proof_is_open_to_all(l->proof))
		return proof_send_hello(l->proof, 0, l->why) ? FAILURE : NOTHING;
	return make_pair(l) || proof_send_hello(l->proof, qp_number(l->config.pair), l->why) ?
		       FAILURE :
		       NOTHING;
}

static enum link_event wait_for_client(struct link *l, struct cue *cue)
{
	drop_exchange(l);
	retry_sleep(&l->retry, cue->now, RETRY_PROBE_MS);
	return NOTHING;
}

static enum link_event send_proof(struct link *l, struct cue *cue)
{
	(void)cue;
	if (make_pair(l) || qp_equip(l->config.pair, l->why) ||
	    proof_request(l->proof, qp_number(l->config.pair), qp_received(l->config.pair), l->why))
		return FAILURE;
	return NOTHING;
}

/* If the peer reconnects, it has detected the loss first. This rank yields, but the peer may never
 * finish reconnecting. */
static enum link_event yield_to_peer(struct link *l, struct cue *cue)
{
	log_line(LOG_DEBUG, "rdma", "verbs: rank %d reconnects", l->config.peer);
	drop_exchange(l);
	if (retry_hurry(&l->retry, cue->now))
		snprintf(l->broke, sizeof(l->broke), "it gave the connection up");
	return NOTHING;
}

/* Makes a queue pair that is joined to the peer's. The slot's key becomes valid when this side
 * sends READY. */
static int join_peer(struct link *l, const struct frame *proof, struct proof_offer *offer)
{
	const struct path_ends ends = proof_ends(l->proof, proof);
	struct queue_pair *pair = l->config.pair;

	if (make_pair(l) || qp_equip(pair, l->why) || qp_join(pair, &ends, 0, l->why) ||
	    qp_greeting(pair, &offer->slot, offer->control, l->why))
		return -1;
	offer->qpn = qp_number(pair);
	offer->mtu = qp_mtu(pair);
	offer->received = qp_received(pair);
	return 0;
}

static enum link_event accept_peer(struct link *l, struct cue *cue)
{
	struct proof_offer offer;
	int answered = 0;

	cue->refusal = REFUSAL_GONE;
	if (qp_replay(l->config.pair, cue->frame->received, l->why))
		return END;
	cue->refusal = REFUSAL_FAILED;
	if (!proof_take(l->proof, cue->event, cue->frame, l->why) &&
	    !join_peer(l, cue->frame, &offer) &&
	    !proof_accept(l->proof, cue->event, cue->frame, &offer, &answered, l->why)) {
		cue->refusal = 0;
		retry_await(&l->retry, cue->now);
		return NOTHING;
	}
	if (answered) {
		cue->refusal = 0;
		return FAILURE;
	}
	end_pair(l);
	proof_yield(l->proof);
	return FAILURE;
}

static enum link_event send_ready(struct link *l, struct cue *cue)
{
	(void)cue;
	return qp_send_ready(l->config.pair, l->why) ? FAILURE : NOTHING;
}

static enum link_event take_accept(struct link *l, struct cue *cue)
{
	const struct path_ends ends = proof_ends(l->proof, cue->frame);
	struct queue_pair *pair = l->config.pair;

	/* The timer starts again here, because the peer may have answered other ranks first. */
	retry_await(&l->retry, cue->now);
	if (qp_take_accept(pair, cue->frame, l->why))
		return END;
	if (qp_join(pair, &ends, cue->frame->mtu, l->why) || proof_confirm(l->proof, l->why))
		return FAILURE;
	return send_ready(l, cue);
}

static enum link_event send_keys(struct link *l, struct cue *cue)
{
	(void)cue;
	return qp_send_keys(l->config.pair, l->why) ? FAILURE : NOTHING;
}

static enum link_event take_keys(struct link *l, struct cue *cue)
{
	(void)cue;
	if (qp_take_keys(l->config.pair, l->why))
		return END;
	if (!l->config.client && qp_send_keys(l->config.pair, l->why))
		return FAILURE;
	/* Notifies that came directly after the greeting were counted before the link was up. If
	 * they have used half of the credit, this returns it now. */
	if (sendlog_credit_due(l->config.log))
		*l->shared->wants |= LINK_OWES_CREDIT;
	qp_start(l->config.pair, retry_was_up(&l->retry));
	retry_succeeded(&l->retry);
	return NOTHING;
}

/* ---- failing ---------------------------------------------------------------------- */

static enum link_event try_later(struct link *l, struct cue *cue)
{
	(void)cue;
	drop_exchange(l);
	log_line(LOG_DEBUG, "rdma", "verbs: rank %d: try %u: %s", l->config.peer,
		 retry_failed(&l->retry, now_ns()), l->why);
	return NOTHING;
}

static enum link_event overdue(struct link *l, struct cue *cue)
{
	static const char *const missing[STATES] = {
		[ASKING] = "no answer to a hello",
		[ROUTING] = "no route to it in time",
		[PROVING] = "no answer to the proof",
	};

	set_why(l, missing[l->state] ? missing[l->state] : "no greeting over the new connection");
	return try_later(l, cue);
}

static enum link_event mistrusted(struct link *l, struct cue *cue)
{
	return retry_refused(&l->retry) ? END : try_later(l, cue);
}

static enum link_event nobody(struct link *l, struct cue *cue)
{
	if (retry_alone(&l->retry)) {
		set_why(l, "its process ended: nobody listens at its address");
		return END;
	}
	return try_later(l, cue);
}

static void log_lost(struct link *l)
{
	log_line(LOG_INFO, "rdma",
		 "verbs: lost the connection to rank %d: %s; trying to reconnect for %.1f s",
		 l->config.peer, l->why, l->shared->link_lost_after_ms / 1000.0);
	snprintf(l->broke, sizeof(l->broke), "%s", l->why);
}

static enum link_event reconnect_later(struct link *l)
{
	if (!retry_lost(&l->retry, now_ns(), sendlog_moved(l->config.log)))
		return NOTHING;
	set_why(l, "its connection keeps breaking");
	return END;
}

static enum link_event lose(struct link *l, struct cue *cue)
{
	if (!retry_was_up(&l->retry))
		return try_later(l, cue);
	log_lost(l);
	drop_exchange(l);
	return reconnect_later(l);
}

/* Taking a link down sends a message. On soft-RoCE, if a message of the connection manager cannot
 * leave, it breaks the device's connection manager for good. The link therefore waits for the port
 * to come up, but not longer than the time to reconnect. */
static enum link_event hold(struct link *l, struct cue *cue)
{
	(void)cue;
	log_lost(l);
	sendlog_detach(l->config.log);
	snprintf(l->broke, sizeof(l->broke), "port %d of this rank's %s went down",
		 l->shared->device->port, l->shared->device->name);
	set_why(l, "the port stays down");
	return reconnect_later(l);
}

static enum link_event leave_cut(struct link *l, struct cue *cue)
{
	drop_exchange(l);
	retry_sleep(&l->retry, cue->now, 0);
	return NOTHING;
}

static void end_for_good(struct link *l, const char *text)
{
	snprintf(l->gone, sizeof(l->gone), "%s", text);
	drop_exchange(l);
	rights_peer_end(l->config.rights);
	log_line(LOG_INFO, "rdma", "verbs: rank %d is gone: %s; its keys are revoked",
		 l->config.peer, text);
	if (!event_queue_full(l->shared->events))
		event_queue_put(l->shared->events, &(struct event){ .kind = EVENT_GONE,
								    .peer = l->config.peer,
								    .status = SLUICE_EPEER,
								    .text = l->gone });
	sendlog_abandon(l->config.log);
}

static enum link_event end_link(struct link *l, struct cue *cue)
{
	(void)cue;
	end_for_good(l, l->why);
	return NOTHING;
}

static enum link_event give_peer_up(struct link *l, struct cue *cue)
{
	char text[sizeof(l->gone)];

	(void)cue;
	snprintf(text, sizeof(text), "%.110s; reconnecting failed for %.1f s: %.90s", l->broke,
		 l->shared->link_lost_after_ms / 1000.0, l->why);
	end_for_good(l, text);
	return NOTHING;
}

static enum link_event revoke(struct link *l, struct cue *cue)
{
	(void)cue;
	rights_revoke(l->config.rights);
	return NOTHING;
}

static enum link_event leave_expelled(struct link *l, struct cue *cue)
{
	(void)cue;
	end_for_good(l, "it was dropped from the job");
	return NOTHING;
}

/* ---- the table -------------------------------------------------------------------- */

/* An action returns NOTHING, and the link then enters the next state. Otherwise it returns another
 * event, which is raised in the current state. An event without a rule changes nothing. */
struct rule {
	enum link_event (*act)(struct link *l, struct cue *cue);
	enum link_state next;
};

#define ENDS                                                                                       \
	[LATE] = { give_peer_up, GONE }, [END] = { end_link, GONE },                               \
	[EXPEL] = { leave_expelled, GONE }
#define FAILS                                                                                      \
	[TIMER] = { overdue, IDLE }, [FAILURE] = { try_later, IDLE },                              \
	[MISTRUST] = { mistrusted, IDLE }, [NOBODY] = { nobody, IDLE }
#define HAS_PAIR                                                                                   \
	[LOSS] = { lose, IDLE }, [CUT_OFF] = { hold, CUT }, [NEWER] = { yield_to_peer, IDLE }

/* clang-format off */
static const struct rule rules[STATES][EVENTS] = {
	[IDLE] = {
		[TIMER]     = { choose_try,      IDLE },
		[CONNECT]   = { begin_try,       ROUTING },
		[PROBE]     = { begin_try,       ASKING },
		[PROOF]     = { accept_peer,     ACCEPTED },
		[FAILURE]   = { try_later,       IDLE },
		ENDS,
	},
	[ASKING] = {
		[ROUTE]     = { send_hello,      ASKING },
		[ALIVE]     = { wait_for_client, IDLE },
		HAS_PAIR, FAILS, ENDS,
	},
	[ROUTING] = {
		[ROUTE]     = { send_proof,      PROVING },
		HAS_PAIR, FAILS, ENDS,
	},
	[PROVING] = {
		[ACCEPT]    = { take_accept,     GREETING },
		HAS_PAIR, FAILS, ENDS,
	},
	[ACCEPTED] = {
		[READY]     = { send_ready,       TRADING },
		HAS_PAIR, FAILS, ENDS,
	},
	[GREETING] = {
		[READY]     = { send_keys,       TRADING },
		HAS_PAIR, FAILS, ENDS,
	},
	[TRADING] = {
		[KEYS]      = { take_keys,       UP },
		HAS_PAIR, FAILS, ENDS,
	},
	[UP] = {
		[FAILURE]   = { lose,            IDLE },
		[END]       = { end_link,        GONE },
		[EXPEL]     = { revoke,          EXPELLED },
		HAS_PAIR,
	},
	[EXPELLED] = {
		[FAILURE]   = { leave_expelled,  GONE },
		[LOSS]      = { leave_expelled,  GONE },
		[CUT_OFF]   = { leave_expelled,  GONE },
		[END]       = { end_link,        GONE },
	},
	[CUT] = {
		[TIMER]     = { leave_cut,       IDLE },
		[NEWER]     = { yield_to_peer,        IDLE },
		ENDS,
	},
};
/* clang-format on */

static int tries(const struct link *l)
{
	switch (l->state) {
	case ASKING:
	case ROUTING:
	case PROVING:
	case GREETING: return 1;
	case TRADING: return l->config.client;
	default: return 0;
	}
}

static void raise_event(struct link *l, enum link_event event, struct cue *cue)
{
	const int tried = tries(l);

	while (event) {
		const struct rule *rule = &rules[l->state][event];

		if (!rule->act)
			break;
		event = rule->act(l, cue);
		if (!event)
			l->state = rule->next;
	}
	*l->shared->trying += tries(l) - tried;
}

/* ---- events of the carrier --------------------------------------------------------- */

static enum link_event loss_event(struct link *l, const char *why)
{
	set_why(l, why);
	return retry_was_up(&l->retry) && !port_active(l) ? CUT_OFF : LOSS;
}

static enum link_event event_of_answer(struct link *l, enum proof_answer answer)
{
	switch (answer) {
	case ANSWER_NONE: return NOTHING;
	case ANSWER_ALIVE: return ALIVE;
	case ANSWER_ACCEPT: return ACCEPT;
	case ANSWER_MISTRUST: return MISTRUST;
	case ANSWER_NOBODY: return NOBODY;
	case ANSWER_GONE: return END;
	case ANSWER_END: return loss_event(l, "it was disconnected by the other side");
	default: return FAILURE;
	}
}

/* Datagrams may arrive late or twice. Returns 1 if an answer belongs to no running exchange. */
static int is_late(const struct link *l, const struct carrier_event *event)
{
	return proof_is_open_to_all(l->proof) && event->type != RDMA_CM_EVENT_DISCONNECTED &&
	       l->state != PROVING && l->state != ASKING;
}

static enum link_event event_of(struct link *l, const struct carrier_event *event,
				struct frame *frame)
{
	if (is_late(l, event))
		return NOTHING;
	switch (event->type) {
	case RDMA_CM_EVENT_ROUTE_RESOLVED: return ROUTE;
	case RDMA_CM_EVENT_REJECTED:
		if (link_is_up(l))
			return loss_event(
				l, "the connection was rejected after it had been established");
		return event_of_answer(
			l, proof_judge_reject(l->proof, event, l->state == ASKING, l->why));
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (l->state == PROVING)
			return event_of_answer(l,
					       proof_judge_accept(l->proof, event, frame, l->why));
		if (proof_is_open_to_all(l->proof))
			return NOTHING;
		break; /* a listener that does not belong to Sluice accepted a hello */
	case RDMA_CM_EVENT_ESTABLISHED: return NOTHING; /* the server waits for the greeting */
	case RDMA_CM_EVENT_DISCONNECTED:
		return event_of_answer(l, proof_judge_end(l->proof, event));
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE: break;
	default:
		log_line(LOG_DEBUG, "rdma", "verbs: rank %d: %s", l->config.peer,
			 rdma_event_str(event->type));
		return NOTHING;
	}
	if (link_is_up(l))
		return loss_event(l, rdma_event_str(event->type));
	snprintf(l->why, sizeof(l->why), "%s (status %d)", rdma_event_str(event->type),
		 event->status);
	return FAILURE;
}

void link_answer(struct link *l, const struct carrier_event *event, uint64_t now)
{
	struct frame frame;
	struct cue cue = { .now = now, .event = event, .frame = &frame };

	if (proof_is_active(l->proof) && l->state != CUT)
		raise_event(l, event_of(l, event, &frame), &cue);
}

int link_accept(struct link *l, const struct carrier_event *request, const struct frame *proof,
		uint64_t now, const char **why_out)
{
	struct cue cue = { .now = now, .event = request, .frame = proof };

	*why_out = "its proof was used before";
	if (!proof_is_new(l->proof, proof))
		return proof_is_repeated(l->proof, proof, now) ? 0 : REFUSAL_PROOF;
	raise_event(l, NEWER, &cue);
	raise_event(l, PROOF, &cue);
	*why_out = l->why;
	return (int)cue.refusal;
}

/* ---- completions ------------------------------------------------------------------ */

static int noted_failure(const struct link *l)
{
	return l->noted == LOSS || l->noted == END;
}

/* Only the first failure gives the reason. Later requests fail only because the queue is
 * flushed. */
static void note_event(struct link *l, enum link_event event, const char *why)
{
	if (noted_failure(l))
		return;
	if (why)
		set_why(l, why);
	l->noted = event;
	if (noted_failure(l))
		sendlog_detach(l->config.log);
	*l->shared->wants |= LINK_SETTLES;
}

static void broken(void *link, const char *why)
{
	note_event(link, LOSS, why);
}

static void note_status(struct link *l, const struct ibv_wc *wc)
{
	int survives;
	const char *text = queues_explain(wc->status, &survives);

	if (noted_failure(l) || l->state == CUT)
		return;
	if (wc->status != IBV_WC_WR_FLUSH_ERR &&
	    rights_explain(l->config.rights, wc->wr_id, l->why)) {
		text = l->why;
		survives = 0;
	}
	log_line(LOG_INFO, "rdma", "verbs: rank %d (%s): %s: %s, vendor 0x%x, QP 0x%06x of %s",
		 l->config.peer, l->config.device, text, ibv_wc_status_str(wc->status),
		 wc->vendor_err, wc->qp_num, l->shared->device->name);
	note_event(l, survives ? LOSS : END, text);
}

/* Returns the greeting that the peer must send next. If it has sent all of them, returns 0, and the
 * next immediate is a notify. Notifies may directly follow the last greeting. */
static uint32_t greeting_due(const struct link *l)
{
	switch (l->state) {
	case PROVING:
	case ACCEPTED:
	case GREETING: return GREETING_READY;
	case TRADING: return l->noted == KEYS ? 0 : GREETING_KEYS;
	default: return 0;
	}
}

static void note_immediate(struct link *l, uint32_t imm)
{
	const uint32_t due = greeting_due(l);
	char why[80];

	if (!due) {
		if (sendlog_received(l->config.log, imm))
			*l->shared->wants |= LINK_OWES_CREDIT;
	} else if (imm == due && !l->noted) {
		note_event(l, due == GREETING_READY ? READY : KEYS, NULL);
	} else {
		snprintf(why, sizeof(why), "its greeting is 0x%x instead of %u", imm, due);
		note_event(l, END, why);
	}
}

void link_completed(void *link, const struct ibv_wc *wc)
{
	struct link *l = link;

	if (wc->status != IBV_WC_SUCCESS)
		note_status(l, wc);
	else if (wc->wr_id != QUEUES_RECEIVE)
		sendlog_completed(l->config.log, wc->wr_id);
	else if (wc->wc_flags & IBV_WC_WITH_IMM)
		note_immediate(l, be32toh(wc->imm_data));
	else
		note_event(l, END, "it sent a message without an immediate");
}

void link_settle(struct link *l)
{
	const enum link_event noted = l->noted;
	struct cue cue = { .now = now_ns() };

	l->noted = NOTHING;
	raise_event(l, noted == LOSS ? loss_event(l, l->why) : noted, &cue);
}

static int has_timers(const struct link *l)
{
	return l->state != UP && l->state != EXPELLED && l->state != GONE;
}

int link_tick(struct link *l, uint64_t now)
{
	const int idle = l->state == IDLE;
	struct cue cue = { .now = now };

	if (!has_timers(l))
		return 0;
	if (retry_is_over(&l->retry, now))
		raise_event(l, LATE, &cue);
	else if (retry_is_due(&l->retry, now) && (!idle || *l->shared->trying < LINK_TRIES_MOST) &&
		 ((!idle && l->state != CUT) || port_active(l)))
		raise_event(l, TIMER, &cue);
	/* This is a try that has just begun and needs no route. */
	if (idle && l->state != IDLE && proof_is_open_to_all(l->proof))
		raise_event(l, ROUTE, &cue);
	proof_tick(l->proof, now);
	return has_timers(l);
}

int link_is_up(const struct link *l)
{
	return l->state == UP || l->state == EXPELLED;
}

int link_is_cut(const struct link *l)
{
	return l->state == CUT;
}

int link_is_gone(const struct link *l)
{
	return l->state == GONE;
}

int link_refuses(const struct link *l)
{
	return l->state == GONE || l->state == EXPELLED;
}

int link_was_up(const struct link *l)
{
	return retry_was_up(&l->retry);
}

const char *link_why(const struct link *l)
{
	return l->gone;
}

void link_expel(struct link *l)
{
	struct cue cue = { .now = now_ns() };

	raise_event(l, EXPEL, &cue);
}

void link_renew(struct link *l, const char *why)
{
	if (l->state == UP)
		note_event(l, LOSS, why);
}

void link_end(struct link *l, const char *why)
{
	struct cue cue = { .now = now_ns() };

	set_why(l, why);
	raise_event(l, END, &cue);
}

int link_open(const struct link_shared *shared, const struct link_config *config, struct link **out)
{
	struct link *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*l));
	l->shared = shared;
	l->config = *config;
	l->retry = retry_begin(shared->lost_after_ms, shared->link_lost_after_ms, config->client,
			       now_ns());
	rc = proof_open(shared->proofs, config->its, l, &l->proof);
	l->config.its = NULL;
	if (rc) {
		link_close(&l);
		return rc;
	}
	sendlog_watch(config->log, broken, l);
	*out = l;
	return SLUICE_OK;
}

void link_down(struct link *l)
{
	drop_exchange(l);
	l->state = GONE;
}

void link_close(struct link **l)
{
	proof_close(&(*l)->proof);
	free(*l);
	*l = NULL;
}
