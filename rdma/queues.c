/* SPDX-License-Identifier: BSD-3-Clause
 * See queues.h. */
#include "rdma/queues.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/local_rank.h"
#include "rdma/transfer.h"
#include "sluice.h"
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
	LOG_MOST = 512,
	LOG_LEAST = 16,
	CREDITS_LEAST = 8,
	READS_MOST = 16,
	INLINE_WISH = 96, /* enough for the greeting */
	RECEIVE_BATCH = 64,
	SPARE_COMPLETIONS = 64,
	LAST_WQE_MS = 50,   /* cards report the end of a queue pair within this time */
	LAST_WQE_MISSED = 3 /* after this number of missing reports, this rank does not wait for
			       them any more */
};

/* The address of this variable marks the receive queues of this library. Other users of the device
 * in this process may share its context, and the events of their queue pairs arrive here too. */
static char ours;

/* A queue pair. The device's events point to it, and any transport of the process may read them. */
struct owned {
	uint32_t qpn, credits;
	struct ibv_qp *qp;
	uint32_t missing;      /* receives of this pair that are not posted */
	void *owner;           /* NULL: free */
	atomic_int last_taken; /* 1: the device has reported that the pair takes no more receives */
};

struct queues {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq; /* NULL: each queue pair has its own receives */
	const char *device;
	struct queue_sizes sizes;
	struct event_queue *events;
	void (*completed)(void *owner, const struct ibv_wc *wc);
	const char *failed; /* why the queues no longer work, or NULL */
	uint32_t receives_missing;
	uint32_t receives;          /* posted, or completed and not yet posted again */
	uint32_t most;              /* peers that may connect */
	uint32_t room;              /* peers for which the completion queue has room */
	uint32_t places;            /* the most receives that the shared queue holds */
	uint32_t kept;              /* receives that ended queue pairs may have kept */
	uint32_t replaced;          /* receives posted in place of kept ones */
	int ends_seen, ends_missed; /* ends_seen: 1 if the device has reported the end of a queue
				       pair; ends_missed: number of ends that it did not report */
	/* refused: 1 if the card has refused a receive. cramped: 1 if the completion queue had no
	 * room to replace kept receives. Each is logged once. */
	int refused, cramped;
	int denied;     /* 1: the card has refused to resize the completion queue since a queue pair
			   ended */
	uint32_t asked; /* the number of completions that was last requested from the card */
	struct {
		uint32_t asked;
		uint64_t pinned;
	} first; /* of the first completion queue: the size requested and the bytes pinned */
	struct owned *pairs; /* [ranks] */
	uint32_t ranks, n_pairs;
	uint32_t mask;         /* size of by_qpn minus 1; at most a quarter of by_qpn is in use */
	struct owned **by_qpn; /* open addressing */
};

/* ---- sizes ------------------------------------------------------------------------ */

static uint32_t power_of_two_within(uint32_t n)
{
	uint32_t p = 1;

	while (p <= n / 2)
		p *= 2;
	return p;
}

static uint64_t power_of_two_from(uint64_t n)
{
	uint64_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

static uint32_t credits_of(uint64_t receives, uint32_t peers)
{
	return receives / peers > QUEUES_GREETINGS ?
		       (uint32_t)(receives / peers) - QUEUES_GREETINGS :
		       0;
}

/* Returns the most completions that can wait if this number of peers is connected. */
static uint32_t completions_of(const struct queue_sizes *s, uint32_t peers)
{
	const uint32_t later = peers > s->peers ? peers - s->peers : 0;

	return s->receives + later * (s->later_credits + QUEUES_GREETINGS) +
	       s->log_entries * peers + SPARE_COMPLETIONS;
}

/* Returns the most receives that are replaced at once, which is more than any peer's credit. */
static uint32_t receives_at_once(const struct queue_sizes *s)
{
	return s->credits + s->later_credits + QUEUES_GREETINGS;
}

/* The peers that connect at the start share half of the receives, as most of the others never
 * connect. */
static void share_receives(struct queue_sizes *s, uint32_t most, uint32_t expected, uint32_t depth)
{
	struct queue_sizes part = *s;

	s->peers = s->apart ? expected : most;
	s->credits = s->later_credits = credits_of(s->receives, most);
	if (s->apart)
		s->receives = expected * (s->credits + QUEUES_GREETINGS);
	if (s->apart || expected >= most)
		return;
	part.peers = expected;
	part.credits = lesser(depth, credits_of(s->receives / 2, expected));
	part.receives = expected * (part.credits + QUEUES_GREETINGS);
	part.later_credits = lesser(depth,
				    credits_of(s->receives - part.receives, most - expected));
	if (part.later_credits >= lesser(CREDITS_LEAST, depth))
		*s = part;
}

int queue_sizes_choose(const struct verbs_device *device, uint32_t peers, uint32_t expected,
		       uint32_t queue_depth, struct queue_sizes *out)
{
	const struct ibv_device_attr *a = &device->attr;
	const uint32_t cqe = counted(a->max_cqe);
	const uint64_t wish = ((uint64_t)queue_depth + QUEUES_GREETINGS) * peers;
	struct queue_sizes s = { 0 };

	/* When a connection breaks, every work request completes, even if it was not signalled. The
	 * completion queue therefore has a place for each of them. */
	s.log_entries = lesser(LOG_MOST, counted(a->max_qp_wr));
	s.log_entries = lesser(s.log_entries, cqe / 2 / peers);
	s.apart = !a->max_srq;
	s.receives = s.apart ? lesser(counted(a->max_qp_wr), LOG_MOST) * peers :
			       counted(a->max_srq_wr);
	s.receives = lesser(s.receives, cqe > SPARE_COMPLETIONS ? cqe - SPARE_COMPLETIONS : 0);
	if (s.log_entries >= LOG_LEAST) {
		s.log_entries = power_of_two_within(s.log_entries);
		s.receives = lesser(s.receives, cqe - SPARE_COMPLETIONS - s.log_entries * peers);
	}
	if (wish < s.receives)
		s.receives = (uint32_t)wish;
	s.receives_most = s.receives;
	share_receives(&s, peers, expected, queue_depth);
	if (s.log_entries < LOG_LEAST || s.credits < lesser(CREDITS_LEAST, queue_depth) ||
	    peers >= (uint32_t)a->max_qp)
		return fail_quietly(SLUICE_ENOSUPP,
				    "%s is too small for %u peers: it has %d work requests, %d "
				    "receives, %d completions and %d queue pairs",
				    device->name, peers, a->max_qp_wr,
				    s.apart ? a->max_qp_wr : a->max_srq_wr, a->max_cqe, a->max_qp);
	s.completions = completions_of(&s, s.peers);
	s.completions_most = cqe;
	s.max_message = device->port_attr.max_msg_sz;
	if (!s.max_message || s.max_message > 1u << 30)
		s.max_message = 1u << 30;
	s.reads = lesser(READS_MOST,
			 lesser((uint32_t)a->max_qp_rd_atom, (uint32_t)a->max_qp_init_rd_atom));
	if (!s.reads)
		return fail_quietly(SLUICE_ENOSUPP, "%s cannot read remote memory", device->name);
	*out = s;
	return SLUICE_OK;
}

/* Returns the most completions that can wait if the shared receive queue is full. */
static uint32_t completions_of_places(const struct queues *q, uint32_t peers)
{
	return q->places + q->sizes.log_entries * peers + SPARE_COMPLETIONS;
}

/* Returns the size at which the completion queue never overruns with these peers. It suffices for a
 * full shared receive queue, and for the receives that a peer uses while the queue is being filled.
 * If the card's queues are too small, returns the largest size that still leaves room for the logs
 * of all other peers. */
static uint32_t completions_of_full(const struct queues *q, uint32_t peers)
{
	const struct queue_sizes *s = &q->sizes;
	const uint32_t credited = completions_of(s, peers),
		       full = completions_of_places(q, peers) + receives_at_once(s);

	return q->srq && full > credited ?
		       lesser(full, s->completions_most - s->log_entries * (q->most - peers)) :
		       credited;
}

/* Returns the number of completions to request. The queue then has room for these peers and for
 * `beyond` receives that do not belong to them. */
static uint32_t completions_with(const struct queues *q, uint32_t peers, uint32_t beyond)
{
	return lesser(completions_of(&q->sizes, peers) + beyond, completions_of_full(q, peers));
}

/* The size of the completion queue never decreases. Returns 0 or the error of the card. */
static int resize_completions(struct queues *q, uint32_t peers, uint32_t beyond)
{
	const uint32_t n = completions_with(q, peers, beyond);
	const int err = n > counted(q->cq->cqe) ? ibv_resize_cq(q->cq, (int)n) : 0;

	if (!err && n > q->asked)
		q->asked = n;
	return err;
}

/* Estimates the bytes that the driver pins for a completion queue with n places, from those that it
 * pinned for the first queue. In rdma-core, the drivers mlx5, mlx4 and bnxt_re add a place and
 * round the number of places up to a power of two, and the driver irdma does not round. Some
 * drivers pin a page or two more. */
static uint64_t pinned_by_completions(const struct queues *q, uint32_t n)
{
	enum { PAGE = 4096 };
	const uint64_t places = power_of_two_from(q->first.asked + 1),
		       place = q->first.pinned / places;

	if (place && !(place & (place - 1)) && q->first.pinned - place * places <= 2 * PAGE)
		return place * power_of_two_from(n + 1);
	return (q->first.pinned * n / q->first.asked + PAGE - 1) / PAGE * PAGE;
}

struct queues_growth queues_growth(const struct queues *q, uint32_t peers)
{
	const uint32_t n = completions_with(q, peers, q->replaced);
	const uint64_t larger = pinned_by_completions(q, n > q->asked ? n : q->asked),
		       now = pinned_by_completions(q, q->asked);

	return larger > now ? (struct queues_growth){ larger, larger - now } :
			      (struct queues_growth){ 0, 0 };
}

/* Returns 1 if completions may be taken. Each may end every entry of one log, so there must be room
 * for all these events. */
static int has_room(const struct queues *q)
{
	return event_queue_room(q->events) >= QUEUES_AT_ONCE + q->n_pairs * q->sizes.log_entries;
}

/* ---- whose queue pair is it ------------------------------------------------------- */

static uint32_t place_of_qpn(const struct queues *q, uint32_t qpn)
{
	uint32_t at = qpn * 2654435761u & q->mask;

	while (q->by_qpn[at] && q->by_qpn[at]->qpn != qpn)
		at = (at + 1) & q->mask;
	return at;
}

/* Queue pairs change rarely, and the table has few pointers, so it is rebuilt each time. */
static void index_pairs(struct queues *q)
{
	memset(q->by_qpn, 0, (q->mask + 1) * sizeof(*q->by_qpn));
	for (struct owned *pair = q->pairs; pair < q->pairs + q->ranks; pair++)
		if (pair->owner)
			q->by_qpn[place_of_qpn(q, pair->qpn)] = pair;
}

/* Returns the attributes for a new queue pair. If pair is NULL, the queue pair only probes the
 * device, and has the credits of the first peers. */
static struct ibv_qp_init_attr attributes(const struct queues *q, uint32_t inline_bytes,
					  struct owned *pair)
{
	const uint32_t receives = (pair ? pair->credits : q->sizes.credits) + QUEUES_GREETINGS;

	return (struct ibv_qp_init_attr){ .qp_context = pair,
					  .send_cq = q->cq,
					  .recv_cq = q->cq,
					  .srq = q->srq,
					  .qp_type = IBV_QPT_RC,
					  .cap = { .max_send_wr = q->sizes.log_entries,
						   .max_recv_wr = q->srq ? 0 : receives,
						   .max_send_sge = 1,
						   .max_recv_sge = 1,
						   .max_inline_data = inline_bytes } };
}

struct ibv_qp *queues_pair_make(struct queues *q, struct ibv_pd *pd, void *owner, uint32_t credits)
{
	struct owned *pair = q->pairs;
	struct ibv_qp_init_attr attr;
	struct ibv_qp *qp;

	while (pair->owner)
		pair++; /* each rank has at most one queue pair */
	pair->credits = credits;
	attr = attributes(q, q->sizes.inline_bytes, pair);
	atomic_store(&pair->last_taken, 0);
	qp = ibv_create_qp(pd, &attr);
	if (!qp)
		return NULL;
	pair->qpn = qp->qp_num;
	pair->qp = qp;
	pair->missing = 0;
	pair->owner = owner;
	q->n_pairs++;
	index_pairs(q);
	return qp;
}

static void drain(struct queues *q)
{
	while (queues_poll(q) > 0)
		;
}

/* Waits until the device reports that the queue pair takes no more receives. If the queue pair
 * ended before that report, it would keep the receives that it has taken (InfiniBand Architecture
 * Specification, 10.3.1). Soft-RoCE of Linux 6.1 reports nothing. */
static void await_last_receive(struct queues *q, struct owned *pair)
{
	struct poll_limit limit = poll_limit_after_ms(LAST_WQE_MS);

	if (!q->ends_seen && q->ends_missed >= LAST_WQE_MISSED)
		return;
	for (;;) {
		queues_look(q);
		drain(q);
		if (atomic_load(&pair->last_taken)) {
			q->ends_seen = 1;
			return;
		}
		if (q->failed || poll_limit_reached(&limit))
			break;
		sched_yield();
	}
	if (!q->failed && ++q->ends_missed == LAST_WQE_MISSED && !q->ends_seen)
		log_line(LOG_INFO, "rdma",
			 "verbs: %s does not report when a queue pair has taken its last receive",
			 q->device);
}

void queues_pair_stop(struct queues *q, struct ibv_qp *qp)
{
	const int connected = qp->state != IBV_QPS_RESET && qp->state != IBV_QPS_INIT;
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct owned *pair = q->by_qpn[place_of_qpn(q, qp->qp_num)];

	ibv_modify_qp(qp, &error, IBV_QP_STATE);
	if (connected && q->srq)
		await_last_receive(q, pair);
	else
		atomic_store(&pair->last_taken, 1);
	drain(q);
}

/* The peer learns how many notifies have arrived. A software device may have been in the middle of
 * a packet, so this drains the queue once more after the queue pair has ended. */
void queues_pair_end(struct queues *q, struct ibv_qp *qp)
{
	struct owned *pair = q->by_qpn[place_of_qpn(q, qp->qp_num)];
	const int complete = atomic_load(&pair->last_taken) && has_room(q);

	ibv_destroy_qp(qp);
	drain(q);
	pair->owner = NULL;
	q->n_pairs--;
	q->receives_missing -= pair->missing;
	pair->missing = 0;
	index_pairs(q);
	/* The next connection begins with all credits. */
	if (q->srq && !complete)
		q->kept = lesser(q->kept + pair->credits + QUEUES_GREETINGS, q->places);
	q->denied = 0;
	if (q->srq)
		queues_refill(q, 1);
}

uint32_t queues_pair_reads(const struct queues *q, struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC, &init) ||
	    attr.max_rd_atomic >= q->sizes.reads)
		return q->sizes.reads;
	return attr.max_rd_atomic > 0 ? attr.max_rd_atomic : 1;
}

static const char *failure_of(const struct queues *q, const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return event->element.cq == q->cq ?
			       "the completion queue of this rank's RDMA device failed (CQ_ERR)" :
			       NULL;
	case IBV_EVENT_SRQ_ERR:
		return event->element.srq == q->srq ?
			       "the receive queue of this rank's RDMA device failed (SRQ_ERR)" :
			       NULL;
	case IBV_EVENT_DEVICE_FATAL: return "this rank's RDMA device failed (DEVICE_FATAL)";
	default: return NULL;
	}
}

/* Returns 1 for events that a user should see even if this rank's connections survive them, such as
 * an event of the queues for datagrams. */
static int is_warning(enum ibv_event_type type)
{
	return type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_CQ_ERR ||
	       type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_QP_FATAL;
}

const char *queues_look(struct queues *q)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(q->channel->context, &event)) {
		const enum ibv_event_type type = event.event_type;
		const char *why = failure_of(q, &event);

		/* This must be set before the event is acknowledged, because the end of the queue
		 * pair waits for the acknowledgement. */
		if (type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp->srq &&
		    event.element.qp->srq->srq_context == &ours && event.element.qp->qp_context)
			atomic_store(&((struct owned *)event.element.qp->qp_context)->last_taken,
				     1);
		ibv_ack_async_event(&event);
		if (why)
			q->failed = why;
		log_line(why || is_warning(type) ? LOG_WARN : LOG_DEBUG, "rdma",
			 "verbs: %s reports: %s", q->device, ibv_event_type_str(type));
	}
	return q->failed;
}

const char *queues_explain(enum ibv_wc_status status, int *survives_out)
{
	*survives_out = 0;
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		*survives_out = 1;
		return "no answer after all retries: a link, a switch or the node is down, or it "
		       "hangs";
	case IBV_WC_RNR_RETRY_EXC_ERR:
		*survives_out = 1;
		return "it had no receive ready, after all retries";
	case IBV_WC_WR_FLUSH_ERR:
		*survives_out = 1;
		return "the connection was closed during a transfer";
	case IBV_WC_LOC_QP_OP_ERR: /* from soft-RoCE, when this rank's interface is down */
	case IBV_WC_RESP_TIMEOUT_ERR:
	case IBV_WC_GENERAL_ERR:
	case IBV_WC_FATAL_ERR:
	case IBV_WC_REM_ABORT_ERR:
		*survives_out = 1;
		return "the device reports that the connection failed";
	case IBV_WC_REM_ACCESS_ERR:
		return "it refused an access of this rank (key, bounds or rights): a remote access "
		       "error";
	case IBV_WC_REM_INV_REQ_ERR: return "it refused a request of this rank as invalid";
	case IBV_WC_REM_OP_ERR: return "it could not carry out a request of this rank";
	case IBV_WC_MW_BIND_ERR:
		return "this rank's card could not bind a memory window for it; set "
		       "SLUICE_MEMORY_WINDOWS=no on this rank's node";
	case IBV_WC_LOC_PROT_ERR: return "a local buffer is not registered for it";
	case IBV_WC_LOC_LEN_ERR: return "a message had an invalid length";
	default: return "the device reports an error";
	}
}

/* ---- completions and receives ----------------------------------------------------- */

int queues_poll(struct queues *q)
{
	struct ibv_wc wc[QUEUES_AT_ONCE];
	int n;

	if (!has_room(q))
		return 0;
	n = ibv_poll_cq(q->cq, QUEUES_AT_ONCE, wc);
	if (n < 0) {
		/* The driver may have removed completions from the queue before, which are lost. */
		if (!q->failed) {
			q->failed =
				"the completion queue of this rank's RDMA device cannot be read "
				"(ibv_poll_cq)";
			log_line(LOG_ERROR, "rdma", "verbs: ibv_poll_cq failed on %s", q->device);
		}
		return 0;
	}
	for (int i = 0; i < n; i++) {
		struct owned *pair = q->by_qpn[place_of_qpn(q, wc[i].qp_num)];

		if (wc[i].wr_id == QUEUES_RECEIVE && (q->srq || pair)) {
			q->receives_missing++;
			if (!q->srq)
				pair->missing++;
		}
		if (pair) /* without one, the queue pair has ended */
			q->completed(pair->owner, &wc[i]);
	}
	return n;
}

/* Posts *n receives, and subtracts the posted ones from *n. A full queue (ENOMEM) is no error if
 * replace_kept() has posted receives: some of the receives that it replaced have completed after
 * all, so none is missing. */
static int post_receives(struct queues *q, struct ibv_qp *qp, uint32_t *n)
{
	struct ibv_recv_wr chain[RECEIVE_BATCH], *bad;

	while (*n > 0) {
		uint32_t batch = lesser(*n, RECEIVE_BATCH);
		int err;

		for (uint32_t i = 0; i < batch; i++)
			chain[i] = (struct ibv_recv_wr){ .wr_id = QUEUES_RECEIVE,
							 .next = i + 1 < batch ? &chain[i + 1] :
										 NULL };
		bad = chain;
		err = qp ? ibv_post_recv(qp, chain, &bad) : ibv_post_srq_recv(q->srq, chain, &bad);
		*n -= err ? (uint32_t)(bad - chain) : batch;
		if (err == ENOMEM && q->replaced)
			*n = 0;
		else if (err)
			return fail_quietly(SLUICE_EDEVICE, "verbs: %s refuses a receive: %s",
					    q->device, errno_text(err));
	}
	return SLUICE_OK;
}

/* Logs the first refusal only, because the next poll tries again. */
static int refill(struct queues *q, struct ibv_qp *qp, uint32_t *missing)
{
	int rc = post_receives(q, qp, missing);

	if (rc && !q->refused)
		log_line(LOG_ERROR, "rdma", "%s", sluice_last_error());
	q->refused |= rc != 0;
	return rc;
}

static uint32_t less(uint32_t a, uint32_t b)
{
	return a > b ? a - b : 0;
}

/* Returns how many more receives may replace kept ones before the completion queue could overrun.
 * There is no limit if the completion queue has a place for each receive that the shared queue can
 * hold, because the driver refuses to overfill the shared queue. If the completion queue can never
 * become that large, some places are reserved for peers that connect later. */
static uint32_t room_to_replace(const struct queues *q)
{
	const struct queue_sizes *s = &q->sizes;
	const uint32_t cqe = lesser(counted(q->cq->cqe), completions_of_full(q, q->room)),
		       largest = completions_of_full(q, q->most),
		       now = less(cqe, completions_of(s, q->room) + q->replaced);

	if (cqe >= completions_of_places(q, q->room))
		return UINT32_MAX;
	return largest >= completions_of_places(q, q->most) ?
		       now :
		       lesser(now, less(largest, completions_of(s, q->most) + q->replaced));
}

/* Replaces receives that ended queue pairs may have kept. q->kept counts the receives for which
 * their peers had credit, so it may be too high. Completions must be taken first, because a
 * software device frees the place of a receive before its completion is taken. */
static void replace_kept(struct queues *q)
{
	uint32_t n = lesser(q->kept, receives_at_once(&q->sizes)), left;

	if (n > room_to_replace(q) && !q->denied)
		q->denied = resize_completions(q, q->room, q->replaced + q->kept) != 0;
	if (n > room_to_replace(q) && !q->cramped) {
		q->cramped = 1;
		log_line(LOG_WARN, "rdma",
			 "verbs: %s has too few completions (%d) to replace more of the receives "
			 "that lost connections may have kept; after many more losses, peers may "
			 "wait for receives",
			 q->device, q->cq->cqe);
	}
	n = left = lesser(n, room_to_replace(q));
	if (n)
		drain(q);
	if (!n || !has_room(q))
		return; /* later */
	q->replaced += n;
	refill(q, NULL, &left);
	q->replaced = lesser(q->replaced - left, q->places);
	q->kept -= n - left;
}

/* Posts the missing receives of each queue pair. If the card refuses them for one pair, that pair
 * loses its connection and makes a new one; the other pairs are not affected. */
static void refill_pairs(struct queues *q)
{
	const struct ibv_wc refused = { .wr_id = QUEUES_RECEIVE, .status = IBV_WC_GENERAL_ERR };

	q->receives_missing = 0;
	for (struct owned *pair = q->pairs; pair < q->pairs + q->ranks; pair++) {
		if (pair->missing && refill(q, pair->qp, &pair->missing))
			q->completed(pair->owner, &refused);
		q->receives_missing += pair->missing;
	}
}

int queues_refill(struct queues *q, int at_once)
{
	if (q->receives_missing < RECEIVE_BATCH && !at_once)
		return SLUICE_OK;
	if (q->srq) {
		if (q->kept)
			replace_kept(q);
		return refill(q, NULL, &q->receives_missing);
	}
	refill_pairs(q);
	return SLUICE_OK;
}

int queues_pair_start(struct queues *q, struct ibv_qp *qp)
{
	uint32_t n = q->by_qpn[place_of_qpn(q, qp->qp_num)]->credits + QUEUES_GREETINGS;

	return q->srq ? SLUICE_OK : refill(q, qp, &n);
}

/* ---- sleeping --------------------------------------------------------------------- */

int queues_fd(const struct queues *q)
{
	return q->channel->fd;
}

int queues_arm(struct queues *q)
{
	int err = ibv_req_notify_cq(q->cq, 0);

	if (err)
		log_line(LOG_ERROR, "rdma", "verbs: ibv_req_notify_cq: %s", errno_text(err));
	return err;
}

void queues_disarm(struct queues *q)
{
	struct ibv_cq *cq;
	void *context;
	unsigned n = 0;

	while (!ibv_get_cq_event(q->channel, &cq, &context))
		n++;
	if (n > 0)
		ibv_ack_cq_events(q->cq, n);
}

/* ---- opening and closing ---------------------------------------------------------- */

/* Finds how many bytes fit inline into a work request, and how many bytes the driver pins for a
 * queue pair. Both are known only once a queue pair is open. */
static int probe_pair(struct queues *q, struct ibv_pd *pd)
{
	static const uint32_t wishes[] = { INLINE_WISH, TRANSFER_INLINE_BYTES, 32, 0 };
	uint64_t after;

	for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
		struct ibv_qp_init_attr attr = attributes(q, wishes[i], NULL);
		const uint64_t before = verbs_pinned();
		struct ibv_qp *qp = ibv_create_qp(pd, &attr);

		if (!qp)
			continue;
		after = verbs_pinned();
		q->sizes.pair_pinned = after > before ? after - before : 0;
		q->sizes.inline_bytes = lesser(attr.cap.max_inline_data, INLINE_WISH);
		ibv_destroy_qp(qp);
		return SLUICE_OK;
	}
	return verbs_failed("ibv_create_qp");
}

/* Spreads the ranks of a node over the card's interrupts, which different processors serve. */
static int completion_vector(const struct ibv_context *context)
{
	return context->num_comp_vectors > 1 ? local_rank_find().rank % context->num_comp_vectors :
					       0;
}

static int make_completions(struct queues *q, struct ibv_context *context, uint32_t n)
{
	const uint64_t before = verbs_pinned();
	uint64_t after;

	q->cq = ibv_create_cq(context, (int)n, NULL, q->channel, completion_vector(context));
	if (!q->cq)
		return verbs_failed("ibv_create_cq");
	after = verbs_pinned();
	q->asked = q->first.asked = n;
	q->first.pinned = after > before ? after - before : 0;
	return SLUICE_OK;
}

/* Opens the completion queue, and resizes it to its present size to test whether the driver can
 * resize it at all. In rdma-core 65 the drivers hns, qedr and erdma cannot, nor can irdma for its
 * oldest cards. */
static int open_completions(struct queues *q, struct ibv_context *context)
{
	int rc = make_completions(q, context, q->sizes.completions);

	q->room = q->sizes.peers;
	if (rc || q->room >= q->most || !ibv_resize_cq(q->cq, (int)q->sizes.completions))
		return rc;
	q->room = q->most;
	ibv_destroy_cq(q->cq);
	return make_completions(q, context, completions_of_full(q, q->room));
}

/* A driver may make a queue larger than requested. Some drivers report the larger size only to
 * ibv_query_srq(). */
static int open_receives(struct queues *q, struct ibv_pd *pd)
{
	struct ibv_srq_init_attr attr = {
		.srq_context = &ours, .attr = { .max_wr = q->sizes.receives_most, .max_sge = 1 }
	};
	struct ibv_srq_attr found;

	q->srq = ibv_create_srq(pd, &attr);
	if (!q->srq)
		return verbs_failed("ibv_create_srq");
	q->places = attr.attr.max_wr;
	if (!ibv_query_srq(q->srq, &found) && found.max_wr > q->places)
		q->places = found.max_wr;
	return SLUICE_OK;
}

int queues_grow(struct queues *q, uint32_t peers)
{
	const struct queue_sizes *s = &q->sizes;
	const uint32_t completions = completions_of(s, peers),
		       receives = completions - s->log_entries * peers - SPARE_COMPLETIONS;
	int rc, err = resize_completions(q, peers, q->replaced);
	uint32_t missing;

	if (err)
		return fail(err == ENOMEM ? SLUICE_ENOMEM : SLUICE_EDEVICE,
			    "verbs: %s cannot give its completion queue room for %u peers (%u "
			    "completions): %s",
			    q->device, peers, completions, errno_text(err));
	if (peers > q->room)
		q->room = peers;
	if (!q->srq || receives <= q->receives)
		return SLUICE_OK;
	missing = receives - q->receives;
	rc = post_receives(q, NULL, &missing);
	q->receives = receives - missing;
	return rc ? fail(rc, "%s", sluice_last_error()) : SLUICE_OK;
}

static int make_queues(struct queues *q, struct ibv_pd *pd, int ranks)
{
	uint32_t places = 16, missing;
	int rc;

	while (places < 4 * (uint32_t)ranks)
		places *= 2;
	q->mask = places - 1;
	q->ranks = (uint32_t)ranks;
	q->by_qpn = calloc(places, sizeof(*q->by_qpn));
	q->pairs = calloc((size_t)ranks, sizeof(*q->pairs));
	if (!q->by_qpn || !q->pairs)
		return fail(SLUICE_ENOMEM, "verbs: no memory for a table of %d peers", ranks);
	q->channel = ibv_create_comp_channel(pd->context);
	if (!q->channel)
		return verbs_failed("ibv_create_comp_channel");
	rc = q->sizes.apart ? SLUICE_OK : open_receives(q, pd);
	if (!rc)
		rc = open_completions(q, pd->context);
	if (rc)
		return rc;
	if (q->srq) {
		q->receives = missing = q->sizes.receives;
		if (post_receives(q, NULL, &missing))
			return fail(SLUICE_EDEVICE, "%s", sluice_last_error());
	}
	return probe_pair(q, pd);
}

int queues_open(struct ibv_pd *pd, const char *device, int ranks, uint32_t most,
		struct queue_sizes *sizes, struct event_queue *events,
		void (*completed)(void *owner, const struct ibv_wc *wc), struct queues **out)
{
	struct queues *q = calloc(1, sizeof(*q));
	int rc;

	if (!q)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*q));
	q->device = device;
	q->sizes = *sizes;
	q->events = events;
	q->completed = completed;
	q->most = most;
	rc = make_queues(q, pd, ranks);
	if (rc) {
		queues_close(&q);
		return rc;
	}
	sizes->inline_bytes = q->sizes.inline_bytes;
	sizes->pair_pinned = q->sizes.pair_pinned;
	*out = q;
	return SLUICE_OK;
}

void queues_close(struct queues **queues)
{
	struct queues *q = *queues;

	if (!q)
		return;
	if (q->srq)
		ibv_destroy_srq(q->srq);
	if (q->cq)
		ibv_destroy_cq(q->cq);
	if (q->channel)
		ibv_destroy_comp_channel(q->channel);
	free(q->by_qpn);
	free(q->pairs);
	free(q);
	*queues = NULL;
}
