/* SPDX-License-Identifier: BSD-3-Clause
 * See link.h, which draws the exchange, and the table `rules` below. */
#include "rdma/link.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "sluice.h"
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PROBE_EVERY_MS = 500,
	ROOM_MS = 1000,
	REFUSALS_MAX = 5, /* wrong proofs before a peer is given up */
	NOBODY_MAX = 3,   /* the same for "nobody listens" before it was ever connected */
	BREAKS_MAX = 8    /* in a row, without one transfer between */
};

enum link_state {
	IDLE,     /* no try is under way; the timer begins one, or a server's look for the client */
	ASKING,   /* a hello is on its way; a challenge is to come */
	ROUTING,  /* client, challenged: on its way to send the proof */
	PROVING,  /* client: there is a queue pair, the proof is out */
	ACCEPTED, /* server: there is a queue pair, the client's READY is to come */
	GREETING, /* client: READY is out, the server's is to come */
	TRADING,  /* both sides are READY, the peer's KEYS are to come */
	UP,
	EXPELLED, /* up for the last messages to a peer that was dropped from the job */
	CUT,      /* broken while the own port is down: nothing is sent before that is up */
	GONE,
	STATES
};

enum link_event {
	NOTHING,
	TIMER,     /* the state's timer has run out */
	LATE,      /* the time to make a lost connection again is over */
	ADDRESS,   /* rdma_cm knows the peer's address */
	ROUTE,     /* ... and the route to it */
	CHALLENGE, /* the client's hello is answered */
	ALIVE,     /* the server's hello is answered: the client lives, and will come */
	ACCEPT,    /* the proof is answered */
	PROOF,     /* the peer asks to be connected, and has proved who it is */
	NEWER,     /* ... while there is something of an older try or connection */
	READY,     /* a greeting */
	KEYS,      /* a greeting */
	FAILURE,   /* this try came to nothing */
	MISTRUST,  /* one of the two does not accept the other's proof */
	NOBODY,    /* nobody listens at the peer's address */
	LOSS,      /* the queue pair does not work any more */
	CUT_OFF,   /* ... as the own port is down, after the link was up */
	EXPEL,     /* this rank drops the peer */
	END,       /* the peer is lost for good */
	EVENTS
};

struct link {
	const struct link_shared *shared;
	struct link_config config;
	enum link_state state;
	enum link_event noted; /* by completions, to be raised when the poll is over */
	struct proof *proof; /* ASKING: its id asks for a challenge; later it has the queue pair */
	uint64_t timer_ns, give_up_ns; /* 0: not running */
	unsigned tries, refusals, breaks;
	uint64_t moved; /* of the log, when the link broke last */
	int was_up;
	char why[200];   /* the last trouble */
	char broke[200]; /* why the connection was lost, while it is being made again */
	char gone[256];
};

/* What comes with an event. */
struct cue {
	uint64_t now;
	const struct cm_event *cm;
	const struct frame *frame;
	enum frame_reason refusal; /* PROOF: why the request is refused, 0 if it is not */
};

/* ---- helpers ---------------------------------------------------------------------- */

static uint64_t ms_to_ns(uint64_t ms)
{
	return ms * 1000000;
}

static void set_why(struct link *l, const char *why)
{
	if (why != l->why)
		snprintf(l->why, sizeof(l->why), "%s", why);
}

/* The link's trouble is the last error's. */
static enum link_event failure(struct link *l)
{
	set_why(l, sluice_last_error());
	return FAILURE;
}

static int port_active(const struct link *l)
{
	struct ibv_port_attr attr;

	return ibv_query_port(l->shared->context, l->shared->device->port, &attr) ||
	       attr.state == IBV_PORT_ACTIVE;
}

/* How long one try may take: longer each time, as a busy peer answers late. But when a connection
 * is made again, time is short, and a request that was lost is sent again by nobody for seconds. */
static uint64_t try_ns(const struct link *l)
{
	int longest = l->shared->lost_after_ms / 2;
	int ms = l->shared->lost_after_ms / 10;

	if (!l->give_up_ns)
		ms <<= l->tries < 4 ? l->tries : 4;
	if (ms < 200)
		ms = 200;
	return ms_to_ns((uint64_t)(ms < longest ? ms : longest));
}

static int try_ms(const struct link *l)
{
	return (int)(try_ns(l) / 1000000);
}

/* From here on the completions of the old queue pair say nothing new. */
static void end_pair(struct link *l)
{
	struct rdma_cm_id *id = proof_id(l->proof);

	if (!id || !id->qp)
		return;
	l->noted = LOSS;
	sendlog_detach(l->config.log);
	queues_pair_stop(l->shared->queues, id);
	rights_disconnect(l->config.rights);
	queues_pair_end(l->shared->queues, id);
	l->noted = NOTHING;
}

/* Ends the id, and the queue pair if there is one; hands out everything that arrived before. */
static void drop(struct link *l)
{
	if (!proof_id(l->proof))
		return;
	end_pair(l);
	proof_end_id(l->proof);
	l->timer_ns = 0;
}

/* rdma_cm draws the first packet number of each queue pair at random. */
static enum link_event make_pair(struct link *l)
{
	struct rdma_cm_id *id = proof_id(l->proof);

	if (id->verbs != l->shared->context) {
		snprintf(l->why, sizeof(l->why), "the route to it does not go through %s",
			 l->shared->device->name);
		return FAILURE;
	}
	if (queues_pair_make(l->shared->queues, id, rights_peer_domain(l->config.rights), l)) {
		snprintf(l->why, sizeof(l->why), "no queue pair: %s", errno_text(errno));
		return FAILURE;
	}
	sendlog_attach(l->config.log, id->qp);
	l->noted = NOTHING;
	return rights_connect(l->config.rights) ? failure(l) : NOTHING;
}

/* ---- asking ----------------------------------------------------------------------- */

static enum link_event start(struct link *l, struct cue *cue)
{
	if (proof_start(l->proof, try_ms(l), l->why))
		return FAILURE;
	l->timer_ns = cue->now + try_ns(l);
	return NOTHING;
}

static enum link_event find_route(struct link *l, struct cue *cue)
{
	(void)cue;
	return proof_route(l->proof, try_ms(l), l->why) ? FAILURE : NOTHING;
}

static enum link_event send_hello(struct link *l, struct cue *cue)
{
	(void)cue;
	return proof_say_hello(l->proof, l->why) ? FAILURE : NOTHING;
}

static enum link_event start_proof(struct link *l, struct cue *cue)
{
	drop(l);
	return start(l, cue);
}

static enum link_event wait_for_client(struct link *l, struct cue *cue)
{
	drop(l);
	l->timer_ns = cue->now + ms_to_ns(PROBE_EVERY_MS);
	return NOTHING;
}

static enum link_event send_proof(struct link *l, struct cue *cue)
{
	enum link_event event = make_pair(l);

	(void)cue;
	if (event)
		return event;
	return proof_request(l->proof, sendlog_tell_received(l->config.log), l->why) ? FAILURE :
										       NOTHING;
}

/* ---- accepting -------------------------------------------------------------------- */

static enum link_event make_way(struct link *l, struct cue *cue)
{
	(void)cue;
	log_line(LOG_DEBUG, "rdma", "verbs: rank %d connects again", l->config.peer);
	drop(l); /* it noticed first that the connection is broken */
	return NOTHING;
}

static enum link_event accept_peer(struct link *l, struct cue *cue)
{
	uint8_t control[REGION_DESCRIPTOR_BYTES];
	struct slot_address slot; /* its key works when this side says READY */
	int answered = 0;
	enum link_event event;

	cue->refusal = REFUSAL_GONE;
	if (sendlog_replay(l->config.log, cue->frame->received, l->why))
		return END;
	cue->refusal = REFUSAL_FAILED;
	proof_take_id(l->proof, cue->cm->id);
	event = make_pair(l);
	if (!event && rights_greeting(l->config.rights, l->shared->sizes->credits, &slot, control))
		event = failure(l);
	if (!event &&
	    proof_accept(l->proof, cue->cm, cue->frame, cue->now,
			 sendlog_tell_received(l->config.log), &slot, control, &answered, l->why))
		event = FAILURE;
	if (answered) {
		cue->refusal = 0;
		l->timer_ns = cue->now + try_ns(l);
	} else {
		end_pair(l);
		proof_yield_id(l->proof);
	}
	return event;
}

/* ---- the first words over a new queue pair ---------------------------------------- */

int link_bind(struct link *l)
{
	uint64_t until = now_ns() + ms_to_ns(ROOM_MS);
	int rc;

	while ((rc = rights_bind(l->config.rights, l->config.log)) == SLUICE_EAGAIN) {
		if (l->noted == LOSS || l->noted == END)
			return fail_quietly(SLUICE_EPEER, "%s", l->why);
		if (queues_poll(l->shared->queues))
			until = now_ns() + ms_to_ns(ROOM_MS);
		else if (now_ns() > until)
			return fail(SLUICE_EDEVICE,
				    "verbs: no window for rank %d could be bound for %d ms: its "
				    "queue of %u requests stays full",
				    l->config.peer, ROOM_MS, l->shared->sizes->log_entries);
	}
	return rc;
}

/* What the peer says of its slot and control region. */
static int take_slot(struct link *l, const struct slot_address *slot,
		     const uint8_t control[REGION_DESCRIPTOR_BYTES])
{
	if (sendlog_peer_slot(l->config.log, slot))
		return -1;
	rights_take_control(l->config.rights, control);
	return 0;
}

/* The client's first words, when its queue pair works. */
static enum link_event greet(struct link *l, struct cue *cue)
{
	const struct frame *accept = cue->frame;

	if (take_slot(l, &accept->slot, accept->control)) {
		set_why(l, "it offers an impossible slot");
		return END;
	}
	if (sendlog_replay(l->config.log, accept->received, l->why))
		return END;
	if (link_bind(l) || sendlog_greet(l->config.log, GREETING_READY, NULL, 0))
		return failure(l);
	return NOTHING;
}

static enum link_event answer_ready(struct link *l, struct cue *cue)
{
	(void)cue;
	if (link_bind(l) || sendlog_greet(l->config.log, GREETING_READY, NULL, 0))
		return failure(l);
	return NOTHING;
}

static enum link_event send_keys(struct link *l, struct cue *cue)
{
	uint8_t table[KEY_TABLE_BYTES], greeting[GREETING_BYTES], control[REGION_DESCRIPTOR_BYTES];
	size_t n = rights_table(l->config.rights, table);
	struct slot_address slot;

	(void)cue;
	if (rights_greeting(l->config.rights, l->shared->sizes->credits, &slot, control))
		return failure(l);
	greeting_encode(&slot, control, greeting);
	if (sendlog_write_slot(l->config.log, SLOT_KEYS, table, n) ||
	    sendlog_greet(l->config.log, GREETING_KEYS, greeting, sizeof(greeting)))
		return failure(l);
	return NOTHING;
}

static void go_up(struct link *l)
{
	const struct rdma_cm_id *id = proof_id(l->proof);
	const uint32_t reads = queues_pair_reads(l->shared->queues, id);

	log_line(l->was_up ? LOG_WARN : LOG_DEBUG, "rdma",
		 "verbs: %s rank %d, QP 0x%06x, %u READs, %llu transfers to post again",
		 l->was_up ? "connected again to" : "connected to", l->config.peer, id->qp->qp_num,
		 reads, (unsigned long long)sendlog_waiting(l->config.log));
	l->was_up = 1;
	l->tries = l->refusals = 0;
	l->timer_ns = l->give_up_ns = 0;
	if (sendlog_credit_due(l->config.log)) /* for what came right behind its greeting */
		*l->shared->wants |= LINK_OWES_CREDIT;
	sendlog_start(l->config.log, reads);
}

/* The client says in its greeting where its slot is; the server said it when it accepted. */
static enum link_event take_keys(struct link *l, struct cue *cue)
{
	uint8_t greeting[GREETING_BYTES], control[REGION_DESCRIPTOR_BYTES];
	struct slot_address slot;
	enum link_event event = NOTHING;

	if (!l->config.client) {
		memcpy(greeting, l->config.slot + SLOT_GREETING, sizeof(greeting));
		greeting_decode(greeting, &slot, control);
		if (take_slot(l, &slot, control)) {
			set_why(l, "its greeting is impossible");
			return END;
		}
	}
	if (rights_take_table(l->config.rights, l->config.slot + SLOT_KEYS, l->why))
		return END;
	sendlog_renew_keys(l->config.log, rights_key_of, l->config.rights);
	if (!l->config.client)
		event = send_keys(l, cue);
	if (!event)
		go_up(l);
	return event;
}

/* ---- failing ---------------------------------------------------------------------- */

static enum link_event try_later(struct link *l, struct cue *cue)
{
	uint64_t wait_ms = l->config.client ? 20u << (l->tries < 4 ? l->tries : 4) : PROBE_EVERY_MS;

	(void)cue;
	log_line(LOG_DEBUG, "rdma", "verbs: rank %d: try %u: %s", l->config.peer, l->tries, l->why);
	drop(l);
	l->tries++;
	l->timer_ns = now_ns() + ms_to_ns(wait_ms);
	return NOTHING;
}

static enum link_event overdue(struct link *l, struct cue *cue)
{
	static const char *const missing[STATES] = {
		[ASKING] = "no answer to a hello",
		[ROUTING] = "no route to it in time",
		[PROVING] = "no answer to the proof",
		[ACCEPTED] = "no greeting over the new connection",
		[GREETING] = "no greeting over the new connection",
		[TRADING] = "no greeting over the new connection",
	};

	set_why(l, missing[l->state]);
	return try_later(l, cue);
}

static enum link_event mistrusted(struct link *l, struct cue *cue)
{
	return ++l->refusals >= REFUSALS_MAX ? END : try_later(l, cue);
}

static enum link_event nobody(struct link *l, struct cue *cue)
{
	if (l->was_up || l->tries >= NOBODY_MAX) {
		set_why(l, "its process ended: nobody listens at its address");
		return END;
	}
	return try_later(l, cue);
}

static void say_lost(struct link *l)
{
	log_line(LOG_INFO, "rdma",
		 "verbs: lost the connection to rank %d: %s; trying for %.1f s to make it again",
		 l->config.peer, l->why, l->shared->lost_after_ms / 2000.0);
	snprintf(l->broke, sizeof(l->broke), "%s", l->why);
}

static enum link_event begin_again(struct link *l)
{
	const uint64_t moved = sendlog_moved(l->config.log);

	if (moved != l->moved)
		l->breaks = 0;
	l->moved = moved;
	if (++l->breaks > BREAKS_MAX) {
		set_why(l, "its connection breaks again and again");
		return END;
	}
	l->timer_ns = now_ns();
	if (!l->give_up_ns)
		l->give_up_ns = l->timer_ns + ms_to_ns((uint64_t)l->shared->lost_after_ms / 2);
	return NOTHING;
}

static enum link_event lose(struct link *l, struct cue *cue)
{
	if (!l->was_up)
		return try_later(l, cue);
	say_lost(l);
	drop(l);
	return begin_again(l);
}

/* Taking a link down says goodbye. On soft-RoCE a connection manager's message that cannot leave
 * ends the device's connection manager for good, so the link waits for the port, within the same
 * time. */
static enum link_event hold(struct link *l, struct cue *cue)
{
	(void)cue;
	say_lost(l);
	sendlog_detach(l->config.log);
	snprintf(l->broke, sizeof(l->broke), "port %d of this rank's %s went down",
		 l->shared->device->port, l->shared->device->name);
	set_why(l, "the port stays down");
	return begin_again(l);
}

static enum link_event resume(struct link *l, struct cue *cue)
{
	drop(l);
	l->timer_ns = cue->now;
	return NOTHING;
}

static void end_for_good(struct link *l, const char *text)
{
	snprintf(l->gone, sizeof(l->gone), "%s", text);
	drop(l);
	l->timer_ns = l->give_up_ns = 0;
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

static enum link_event leave(struct link *l, struct cue *cue)
{
	(void)cue;
	end_for_good(l, l->why);
	return NOTHING;
}

static enum link_event give_up(struct link *l, struct cue *cue)
{
	char text[sizeof(l->gone)];

	(void)cue;
	snprintf(text, sizeof(text), "%.110s; it could not be connected again in %.1f s: %.90s",
		 l->broke, l->shared->lost_after_ms / 2000.0, l->why);
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

/* An action returns NOTHING, and the link goes to the next state, or an event that is raised
 * instead, in the state as it is. An event that has no rule in a state changes nothing. */
struct rule {
	enum link_event (*act)(struct link *l, struct cue *cue);
	enum link_state next;
};

#define ENDS [LATE] = { give_up, GONE }, [END] = { leave, GONE }, [EXPEL] = { leave_expelled, GONE }
#define FAILS                                                                                      \
	[FAILURE] = { try_later, IDLE }, [MISTRUST] = { mistrusted, IDLE },                        \
	[NOBODY] = { nobody, IDLE }
#define HAS_PAIR [LOSS] = { lose, IDLE }, [CUT_OFF] = { hold, CUT }, [NEWER] = { make_way, IDLE }

/* clang-format off */
static const struct rule rules[STATES][EVENTS] = {
	[IDLE] = {
		[TIMER]     = { start,           ASKING },
		[PROOF]     = { accept_peer,     ACCEPTED },
		FAILS, ENDS,
	},
	[ASKING] = {
		[ADDRESS]   = { find_route,      ASKING },
		[ROUTE]     = { send_hello,      ASKING },
		[CHALLENGE] = { start_proof,     ROUTING },
		[ALIVE]     = { wait_for_client, IDLE },
		[NEWER]     = { make_way,        IDLE },
		[TIMER]     = { overdue,         IDLE },
		FAILS, ENDS,
	},
	[ROUTING] = {
		[ADDRESS]   = { find_route,      ROUTING },
		[ROUTE]     = { send_proof,      PROVING },
		[TIMER]     = { overdue,         IDLE },
		HAS_PAIR, FAILS, ENDS,
	},
	[PROVING] = {
		[ACCEPT]    = { greet,           GREETING },
		[TIMER]     = { overdue,         IDLE },
		HAS_PAIR, FAILS, ENDS,
	},
	[ACCEPTED] = {
		[READY]     = { answer_ready,    TRADING },
		[TIMER]     = { overdue,         IDLE },
		HAS_PAIR, FAILS, ENDS,
	},
	[GREETING] = {
		[READY]     = { send_keys,       TRADING },
		[TIMER]     = { overdue,         IDLE },
		HAS_PAIR, FAILS, ENDS,
	},
	[TRADING] = {
		[KEYS]      = { take_keys,       UP },
		[TIMER]     = { overdue,         IDLE },
		HAS_PAIR, FAILS, ENDS,
	},
	[UP] = {
		[FAILURE]   = { lose,            IDLE },
		[END]       = { leave,           GONE },
		[EXPEL]     = { revoke,          EXPELLED },
		HAS_PAIR,
	},
	[EXPELLED] = {
		[FAILURE]   = { leave_expelled,  GONE },
		[LOSS]      = { leave_expelled,  GONE },
		[CUT_OFF]   = { leave_expelled,  GONE },
		[END]       = { leave,           GONE },
	},
	[CUT] = {
		[TIMER]     = { resume,          IDLE },
		[NEWER]     = { make_way,        IDLE },
		ENDS,
	},
};
/* clang-format on */

static void raise_event(struct link *l, enum link_event event, struct cue *cue)
{
	while (event) {
		const struct rule *rule = &rules[l->state][event];

		if (!rule->act)
			return;
		event = rule->act(l, cue);
		if (!event)
			l->state = rule->next;
	}
}

/* ---- what rdma_cm says ------------------------------------------------------------ */

static enum link_event loss(struct link *l, const char *why)
{
	set_why(l, why);
	return l->was_up && !port_active(l) ? CUT_OFF : LOSS;
}

static enum link_event of_answer(const struct link *l, enum proof_answer answer)
{
	switch (answer) {
	case ANSWER_CHALLENGE: return l->config.client ? CHALLENGE : ALIVE;
	case ANSWER_ACCEPT: return ACCEPT;
	case ANSWER_MISTRUST: return MISTRUST;
	case ANSWER_NOBODY: return NOBODY;
	case ANSWER_GONE: return END;
	default: return FAILURE;
	}
}

static enum link_event judge(struct link *l, const struct cm_event *cm, struct frame *frame)
{
	switch (cm->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED: return ADDRESS;
	case RDMA_CM_EVENT_ROUTE_RESOLVED: return ROUTE;
	case RDMA_CM_EVENT_REJECTED:
		if (link_is_up(l))
			return loss(l, "it was rejected after it was made");
		return of_answer(l, proof_judge_reject(l->proof, cm, l->state == ASKING, l->why));
	case RDMA_CM_EVENT_ESTABLISHED:
		if (l->state != PROVING)
			return NOTHING; /* the server waits for the greeting */
		return of_answer(l, proof_judge_accept(l->proof, cm, frame, l->why));
	case RDMA_CM_EVENT_DISCONNECTED: return loss(l, "it was disconnected by the other side");
	case RDMA_CM_EVENT_CONNECT_RESPONSE: /* somebody accepts a hello: no server of ours */
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		if (link_is_up(l))
			return loss(l, rdma_event_str(cm->type));
		snprintf(l->why, sizeof(l->why), "%s (status %d)", rdma_event_str(cm->type),
			 cm->status);
		return FAILURE;
	default:
		log_line(LOG_DEBUG, "rdma", "verbs: rank %d: %s", l->config.peer,
			 rdma_event_str(cm->type));
		return NOTHING;
	}
}

void link_cm_event(struct link *l, const struct cm_event *event, uint64_t now)
{
	struct frame frame;
	struct cue cue = { .now = now, .cm = event, .frame = &frame };

	if (event->id == proof_id(l->proof) && l->state != GONE)
		raise_event(l, judge(l, event, &frame), &cue);
}

int link_accept(struct link *l, const struct cm_event *request, const struct frame *proof,
		uint64_t made_ms, uint64_t now, const char **why_out)
{
	struct cue cue = { .now = now, .cm = request, .frame = proof };

	*why_out = "a proof that was used before";
	if (!proof_is_new(l->proof, made_ms))
		return REFUSAL_PROOF;
	raise_event(l, NEWER, &cue);
	raise_event(l, PROOF, &cue);
	*why_out = l->why;
	return (int)cue.refusal;
}

/* ---- completions ------------------------------------------------------------------ */

static int has_failed(const struct link *l)
{
	return l->noted == LOSS || l->noted == END;
}

/* The first failure tells why; those after it are flushed. */
static void note(struct link *l, enum link_event event, const char *why)
{
	if (has_failed(l))
		return;
	if (why)
		set_why(l, why);
	l->noted = event;
	*l->shared->wants |= LINK_SETTLES;
}

static void broken(void *link, const char *why)
{
	note(link, LOSS, why);
}

static void note_status(struct link *l, const struct ibv_wc *wc)
{
	int survives;
	const char *text = queues_explain(wc->status, &survives);

	if (has_failed(l) || l->state == CUT)
		return;
	log_line(LOG_INFO, "rdma", "verbs: rank %d (%s): %s: %s, vendor 0x%x, QP 0x%06x of %s",
		 l->config.peer, l->config.device, text, ibv_wc_status_str(wc->status),
		 wc->vendor_err, wc->qp_num, l->shared->device->name);
	note(l, survives ? LOSS : END, text);
}

/* Which greeting the peer owes; 0: none, an immediate is a notify. Right behind its last greeting
 * there may be notifies. */
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
		note(l, due == GREETING_READY ? READY : KEYS, NULL);
	} else {
		snprintf(why, sizeof(why), "it greets with 0x%x instead of %u", imm, due);
		note(l, END, why);
	}
}

void link_completed(void *link, const struct ibv_wc *wc)
{
	struct link *l = link;

	if (wc->status != IBV_WC_SUCCESS)
		note_status(l, wc);
	else if (wc->wr_id != QUEUES_RECEIVE)
		sendlog_completed(l->config.log, wc->wr_id);
	else
		note_immediate(l, be32toh(wc->imm_data));
}

void link_settle(struct link *l)
{
	const enum link_event noted = l->noted;
	struct cue cue = { .now = now_ns() };

	l->noted = NOTHING;
	raise_event(l, noted == LOSS ? loss(l, l->why) : noted, &cue);
}

/* ---- timers --------------------------------------------------------- */

static int has_timers(const struct link *l)
{
	return l->state != UP && l->state != EXPELLED && l->state != GONE;
}

int link_tick(struct link *l, uint64_t now)
{
	struct cue cue = { .now = now };

	if (!has_timers(l))
		return 0;
	if (l->give_up_ns && now >= l->give_up_ns)
		raise_event(l, LATE, &cue);
	else if (l->timer_ns && now >= l->timer_ns &&
		 ((l->state != IDLE && l->state != CUT) || port_active(l)))
		raise_event(l, TIMER, &cue);
	return has_timers(l);
}

int link_is_up(const struct link *l)
{
	return l->state == UP || l->state == EXPELLED;
}

int link_works(const struct link *l)
{
	return link_is_up(l) && !has_failed(l);
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
	return l->was_up;
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

void link_end(struct link *l, const char *why)
{
	struct cue cue = { .now = now_ns() };

	set_why(l, why);
	raise_event(l, END, &cue);
}

/* ---- opening and closing ---------------------------------------------------------- */

/* The client begins at once. The server looks for a client that does not come. */
int link_open(const struct link_shared *shared, const struct link_config *config, struct link **out)
{
	struct link *l = calloc(1, sizeof(*l));

	if (!l)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*l));
	l->shared = shared;
	l->config = *config;
	if (proof_open(shared->proofs, config->peer, &config->address, l, &l->proof)) {
		free(l);
		return SLUICE_ENOMEM;
	}
	l->timer_ns = now_ns() + (config->client ? 0 : 2 * ms_to_ns(PROBE_EVERY_MS));
	sendlog_watch(config->log, broken, l);
	*out = l;
	return SLUICE_OK;
}

void link_down(struct link *l)
{
	drop(l);
	l->state = GONE;
}

void link_close(struct link **l)
{
	if (!*l)
		return;
	proof_close(&(*l)->proof);
	free(*l);
	*l = NULL;
}
