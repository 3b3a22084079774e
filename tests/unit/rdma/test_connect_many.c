/* SPDX-License-Identifier: BSD-3-Clause
 * All ranks of a large job connect at once: connect.c, link.c and proof.c of each rank, in one
 * process and in simulated time, over a connection manager whose calls cost time. The queue pairs
 * are numbers here, and greetings are messages.
 *
 * The connection manager follows drivers/infiniband/core/cm.c and ucma.c of Linux 6.12:
 * - a listener holds `backlog` requests that its process has not taken; the kernel rejects more
 *   (ucma_connect_event_handler());
 * - a request whose queue pair has the number of one of the same node that this node knows is
 *   rejected as stale, and if that one is connected, it is disconnected (cm_match_req()). */
#include "base/clock.h"
#include "job/hubs.h"
#include "job/state.h"
#include "rdma/connect.h"
#include "sluice.h"
#include "thinned.h"
#include "cases.h"
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* Defines the function that replaces one of the library's. */
#define NEXT(type, call)                                                                           \
	__typeof__(call) __wrap_##call;                                                            \
	type __wrap_##call

enum {
	NODE_RANKS = 64,
	RANKS_MOST = 512,
	BACKLOG = 128,
	REJECT_STALE = 10,
	REJECT_CONSUMER = 28,
	LOST_AFTER_MS = 5000
};

/* ---- costs, in ns ---- */
static const uint64_t WIRE = 20000, LOOK = 20000, LOOK_APART = 2000000, CALL = 20000,
		      PATH_QUERY = 200000,
		      /* for a queue pair, its three states and its windows */
	ACCEPT = 2000000, CLIENT_PAIR = 1000000, IDLE_LOOK = 20000000;

struct side;
struct sim_id {
	struct rdma_cm_id id;
	int rank, peer; /* peer -1: the id is a listener */
	struct sim_id *partner;
	uint32_t qpn;
	int connected, registered; /* registered: the server's node knows the client's queue pair */
};
struct sim_event {
	struct rdma_cm_event event;
	struct sim_event *next;
	uint64_t at;
	uint8_t bytes[256];
	uint32_t imm; /* not 0: the event is a greeting on the link below */
	struct side *side;
};
struct sim_rank {
	struct rdma_event_channel channel;
	struct connect *connect;
	struct sim_id *listener;
	struct sim_event *first; /* events in the order of their times */
	uint64_t free_at;        /* the time until which its processor is busy */
	int waiting, up, to_be_up, tries, tries_most;
	struct link **links; /* by peer */
};
/* Represents a queue pair and the log of its link. */
struct side {
	int rank, peer, client;
	uint32_t qpn; /* 0: none */
	void *owner;
};

static struct sim_rank ranks[RANKS_MOST];
static struct side *sides; /* [rank][peer] */
static int size, current;
static uint64_t now;
static uint32_t next_qpn[RANKS_MOST / NODE_RANKS];
static unsigned char *known[RANKS_MOST / NODE_RANKS]; /* for each node: [client's node][number] */
static long requests, stale, live_ended, overflows;
static unsigned wants;
static struct event_queue events;
static struct ibv_device device_of_all = { .name = "sim0" };
static struct ibv_context context_of_all = { .device = &device_of_all };

enum { NUMBERS = 1 << 17 };

static struct side *side_of(int rank, int peer)
{
	return &sides[rank * size + peer];
}

static void spend(uint64_t ns)
{
	now += ns;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *out);
int __wrap_clock_gettime(clockid_t id, struct timespec *out)
{
	*out = (struct timespec){ (time_t)(now / 1000000000), (long)(now % 1000000000) };
	return 0;
}

/* ---- messages --------------------------------------------------------------------- */

static struct sim_event *arrive(int rank, uint64_t at)
{
	struct sim_rank *r = &ranks[rank];
	struct sim_event *e = calloc(1, sizeof(*e)), **place = &r->first;

	if (!e)
		abort();
	e->at = at;
	while (*place && (*place)->at <= at)
		place = &(*place)->next;
	e->next = *place;
	*place = e;
	return e;
}

static struct sim_event *tell(struct sim_id *id, enum rdma_cm_event_type type, int status,
			      const void *bytes, size_t n, uint64_t after)
{
	struct sim_event *e = arrive(id->rank, now + after);

	e->event = (struct rdma_cm_event){ .id = &id->id, .event = type, .status = status };
	if (bytes) {
		memcpy(e->bytes, bytes, n);
		e->event.param.conn.private_data = e->bytes;
		e->event.param.conn.private_data_len = (uint8_t)n;
	}
	if (id->partner)
		e->event.param.conn.qp_num = id->partner->qpn;
	return e;
}

/* ---- the connection manager --------------------------------------------------------- */

static struct sim_id *sim_id_of(struct rdma_cm_id *id)
{
	return (struct sim_id *)(void *)id;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	return &ranks[current].channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
		   enum rdma_port_space ps)
{
	struct sim_id *id = calloc(1, sizeof(*id));

	if (!id)
		return -1;
	spend(CALL);
	id->id.context = context;
	id->id.channel = channel;
	id->id.verbs = &context_of_all;
	id->rank = current;
	id->peer = -1;
	*out = &id->id;
	return 0;
}

static unsigned char *known_at(const struct sim_id *client)
{
	return &known[client->peer / NODE_RANKS]
		     [(size_t)(client->rank / NODE_RANKS) * NUMBERS + client->qpn % NUMBERS];
}

static void forget(struct sim_id *id)
{
	if (id->registered)
		*known_at(id) = 0;
	id->registered = 0;
}

static void part(struct sim_id *id)
{
	struct sim_id *partner = id->partner;

	if (!partner)
		return;
	forget(id->peer >= 0 ? id : partner);
	if (id->connected || partner->connected)
		tell(partner, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0, WIRE);
	partner->partner = id->partner = NULL;
	partner->connected = id->connected = 0;
}

static void forget_events(struct sim_rank *r, const struct sim_id *id)
{
	struct sim_event **at = &r->first;

	while (*at) {
		struct sim_event *e = *at;

		if (!e->imm && e->event.id == &id->id) {
			*at = e->next;
			free(e);
		} else {
			at = &e->next;
		}
	}
}

int rdma_destroy_id(struct rdma_cm_id *ibv_id)
{
	struct sim_id *id = sim_id_of(ibv_id);

	spend(CALL);
	part(id);
	forget_events(&ranks[id->rank], id);
	free(id);
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t n)
{
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	assert_int_equal(backlog, BACKLOG);
	ranks[current].listener = sim_id_of(id);
	return 0;
}

/* The port number is the rank. */
__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return htobe16((uint16_t)(sim_id_of(id)->rank + 1));
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
	spend(CALL);
	sim_id_of(id)->peer = be16toh(((struct sockaddr_in *)(void *)to)->sin_port) - 1;
	tell(sim_id_of(id), RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0, CALL);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
	spend(CALL);
	tell(sim_id_of(id), RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0, PATH_QUERY);
	return 0;
}

int rdma_connect(struct rdma_cm_id *ibv_id, struct rdma_conn_param *param)
{
	struct sim_id *id = sim_id_of(ibv_id), *child;
	struct sim_rank *server = &ranks[id->peer];
	struct rdma_cm_id *made = NULL;

	spend(CALL);
	requests++;
	id->qpn = param->qp_num;
	if (*known_at(id)) {
		stale++;
		live_ended += *known_at(id) == 2;
		tell(id, RDMA_CM_EVENT_REJECTED, REJECT_STALE, NULL, 0, 2 * WIRE);
		return 0;
	}
	if (server->waiting == BACKLOG) {
		overflows++;
		tell(id, RDMA_CM_EVENT_REJECTED, REJECT_CONSUMER, NULL, 0, 2 * WIRE);
		return 0;
	}
	if (rdma_create_id(&server->channel, &made, NULL, RDMA_PS_TCP))
		abort();
	child = sim_id_of(made);
	child->rank = id->peer;
	child->partner = id;
	id->partner = child;
	id->registered = *known_at(id) = 1;
	server->waiting++;
	tell(child, RDMA_CM_EVENT_CONNECT_REQUEST, 0, param->private_data, param->private_data_len,
	     WIRE)
		->event.listen_id = &server->listener->id;
	return 0;
}

int rdma_reject(struct rdma_cm_id *ibv_id, const void *bytes, uint8_t n)
{
	struct sim_id *id = sim_id_of(ibv_id);

	spend(CALL);
	if (id->partner) {
		tell(id->partner, RDMA_CM_EVENT_REJECTED, REJECT_CONSUMER, bytes, n, WIRE);
		part(id);
	}
	return 0;
}

int rdma_accept(struct rdma_cm_id *ibv_id, struct rdma_conn_param *param)
{
	struct sim_id *id = sim_id_of(ibv_id);

	spend(ACCEPT);
	id->qpn = param->qp_num;
	if (id->partner)
		tell(id->partner, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, param->private_data,
		     param->private_data_len, WIRE);
	return 0;
}

int rdma_establish(struct rdma_cm_id *ibv_id)
{
	struct sim_id *id = sim_id_of(ibv_id);

	spend(CLIENT_PAIR);
	if (!id->partner) {
		errno = EINVAL;
		return -1;
	}
	id->connected = id->partner->connected = 1;
	*known_at(id) = 2;
	tell(id->partner, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0, WIRE);
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	part(sim_id_of(id));
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **out)
{
	struct sim_rank *r = &ranks[current];
	struct sim_event *e = r->first;

	if (!e || e->at > now || e->imm) {
		errno = EAGAIN;
		return -1;
	}
	r->first = e->next;
	r->waiting -= e->event.event == RDMA_CM_EVENT_CONNECT_REQUEST;
	*out = &e->event;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	free(event); /* the first member of its sim_event */
	return 0;
}

/* ---- queue pairs, in place of queue_pair.c, sendlog.c and rights.c -------------------- */

static struct side *side_of_pair(const struct queue_pair *p)
{
	return (struct side *)(void *)(uintptr_t)p;
}

NEXT(int, qp_make)(struct queue_pair *p, void *owner, char *why)
{
	struct side *s = side_of_pair(p);

	s->qpn = ++next_qpn[s->rank / NODE_RANKS];
	s->owner = owner;
	if (s->client && ++ranks[s->rank].tries > ranks[s->rank].tries_most)
		ranks[s->rank].tries_most = ranks[s->rank].tries;
	return 0;
}

NEXT(int, qp_equip)(struct queue_pair *p, char *why)
{
	return 0;
}

static void try_is_over(struct side *s)
{
	ranks[s->rank].tries -= s->client;
}

NEXT(void, qp_end)(struct queue_pair *p)
{
	struct side *s = side_of_pair(p);

	if (!s->qpn)
		return;
	try_is_over(s);
	s->qpn = 0;
}

NEXT(uint32_t, qp_number)(const struct queue_pair *p)
{
	return side_of_pair(p)->qpn;
}

NEXT(int, qp_join)
(struct queue_pair *p, const struct path_ends *ends, unsigned mtu, char *why)
{
	return 0;
}

NEXT(unsigned, qp_mtu)(const struct queue_pair *p)
{
	return IBV_MTU_4096;
}

NEXT(uint64_t, qp_received)(struct queue_pair *p)
{
	return 0;
}

NEXT(int, qp_greeting)
(struct queue_pair *p, struct slot_address *slot, uint8_t *control, char *why)
{
	memset(slot, 0, sizeof(*slot));
	memset(control, 0, REGION_HEAD_BYTES);
	return 0;
}

NEXT(int, qp_replay)(struct queue_pair *p, uint64_t received, char *why)
{
	return 0;
}

NEXT(int, qp_take_accept)(struct queue_pair *p, const struct frame *accept, char *why)
{
	return 0;
}

static void greet(const struct side *s, enum greeting greeting)
{
	struct side *peer = side_of(s->peer, s->rank);
	struct sim_event *e = arrive(s->peer, now + WIRE);

	e->imm = greeting;
	e->side = peer;
	e->event.param.conn.qp_num = peer->qpn;
}

NEXT(int, qp_send_ready)(struct queue_pair *p, char *why)
{
	greet(side_of_pair(p), GREETING_READY);
	return 0;
}

NEXT(int, qp_send_keys)(struct queue_pair *p, char *why)
{
	greet(side_of_pair(p), GREETING_KEYS);
	return 0;
}

NEXT(int, qp_take_keys)(struct queue_pair *p, char *why)
{
	return 0;
}

NEXT(void, qp_start)(struct queue_pair *p, int again)
{
	assert_int_equal(again, 0);
	try_is_over(side_of_pair(p));
	ranks[side_of_pair(p)->rank].up++;
}

NEXT(void, sendlog_watch)(struct sendlog *l, void (*f)(void *, const char *), void *owner)
{
}
NEXT(void, sendlog_detach)(struct sendlog *l)
{
}
NEXT(uint64_t, sendlog_moved)(const struct sendlog *l)
{
	return 0;
}
NEXT(int, sendlog_credit_due)(const struct sendlog *l)
{
	return 0;
}
NEXT(void, sendlog_abandon)(struct sendlog *l)
{
}
NEXT(void, rights_peer_end)(struct rights_peer *p)
{
}
NEXT(int, verbs_port_active)(struct ibv_context *c, const struct verbs_device *d)
{
	return 1;
}
NEXT(const char *, queues_look)(struct queues *q)
{
	return NULL;
}

/* ---- the job ------------------------------------------------------------------------ */

static struct verbs_device card = { .name = "sim0",
				    .port = 1,
				    .address = { .ss_family = AF_INET } };
static struct path_choice path;
static struct queue_sizes sizes = { .reads = 16, .log_entries = 16 };
static uint8_t keys[RANKS_MOST][32]; /* the same for all, because the keys do not matter here */

static sluice_job plan; /* its size, and no servers: one rank in 64 is a hub */
static int with_hubs;

/* Returns 1 if two ranks connect now over the network. */
static int meet(int a, int b)
{
	return a / NODE_RANKS != b / NODE_RANKS && (!with_hubs || hubs_connect(&plan, a, b));
}

static int meetings(int rank)
{
	int n = 0;

	for (int peer = 0; peer < size; peer++)
		n += meet(rank, peer);
	return n;
}

/* Begins the connections that the rank does not have yet. */
static void begin_links(int rank)
{
	struct sim_rank *r = &ranks[rank];

	current = rank;
	for (int peer = 0; peer < size; peer++) {
		struct side *s = side_of(rank, peer);
		const struct verbs_record its = {
			.rank = peer,
			.port = (uint16_t)(peer + 1),
			.n_cards = 1,
			.cards = { { .address = { .ss_family = AF_INET } } }
		};
		struct link_config config = { .peer = peer,
					      .its = &its,
					      .client = rank < peer,
					      .log = (struct sendlog *)(void *)s,
					      .rights = (struct rights_peer *)(void *)s,
					      .pair = (struct queue_pair *)(void *)s };

		if (!meet(rank, peer) || r->links[peer])
			continue;
		*s = (struct side){ .rank = rank, .peer = peer, .client = rank < peer };
		assert_int_equal(connect_add(r->connect, &config, &r->links[peer]), 0);
	}
	r->to_be_up = meetings(rank);
}

static void open_rank(int rank)
{
	struct sim_rank *r = &ranks[rank];
	const struct peer_keys own = { .rank = rank, .size = size, .wire_version = 1, .key = keys };

	current = rank;
	r->links = calloc((size_t)size, sizeof(*r->links));
	assert_int_equal(connect_open(&card, rank, size, LOST_AFTER_MS, 60000, &r->connect), 0);
	connect_use(r->connect, NULL, &sizes, &path, &events, &wants);
	connect_admit(r->connect, &own);
	begin_links(rank);
}

/* Delivers greetings to their links, as completions do. */
static void take_greetings(struct sim_rank *r)
{
	while (r->first && r->first->at <= now && r->first->imm) {
		struct sim_event *e = r->first;
		const struct ibv_wc wc = { .wr_id = QUEUES_RECEIVE,
					   .imm_data = htobe32(e->imm),
					   .wc_flags = IBV_WC_WITH_IMM };

		r->first = e->next;
		if (e->side->qpn && e->side->qpn == e->event.param.conn.qp_num) {
			link_completed(e->side->owner, &wc);
			link_settle(e->side->owner);
		}
		free(e);
	}
}

/* The rank polls, and is busy until its calls are done. */
static void run_rank(int rank, uint64_t at)
{
	struct sim_rank *r = &ranks[rank];

	current = rank;
	now = at;
	spend(LOOK);
	for (int i = 0; i < 64 && r->first && r->first->at <= now && r->first->imm; i++)
		take_greetings(r);
	connect_look(r->connect, now);
	r->free_at = now;
}

/* Returns the time of the rank's next poll: when something has arrived, or else after a delay. */
static uint64_t next_look(const struct sim_rank *r)
{
	const uint64_t soon = r->free_at + LOOK_APART, idle = r->free_at + IDLE_LOOK;

	if (!r->first || r->first->at > idle)
		return idle;
	return r->first->at > soon ? r->first->at : soon;
}

static int all_up(void)
{
	for (int r = 0; r < size; r++)
		if (ranks[r].up < ranks[r].to_be_up)
			return 0;
	return 1;
}

/* Connects all ranks. Returns the time that it took, in ms. */
static uint64_t connect_all(uint64_t skew_ms)
{
	const uint64_t most = (uint64_t)60 * 1000000000;

	const uint64_t begin = now;

	for (int r = 0; r < size; r++)
		ranks[r].free_at = begin +
				   (uint64_t)(r * 7919 % size) * skew_ms * 1000000 / (uint64_t)size;
	for (unsigned turn = 1;; turn++) {
		int first = 0;

		for (int r = 1; r < size; r++)
			if (next_look(&ranks[r]) < next_look(&ranks[first]))
				first = r;
		run_rank(first, next_look(&ranks[first]));
		if (now - begin > most || (turn % 64 == 0 && all_up()))
			return (now - begin) / 1000000;
	}
}

static void close_all(void)
{
	for (current = 0; current < size; current++) {
		struct sim_rank *r = &ranks[current];

		connect_down(r->connect);
		for (struct sim_event *e; (e = r->first);) {
			struct rdma_cm_event *event = &e->event;

			r->first = e->next;
			if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST && !e->imm)
				free(event->id);
			free(e);
		}
		connect_close(&r->connect);
		free(r->links);
	}
	for (int n = 0; n < size / NODE_RANKS; n++)
		free(known[n]);
	free(sides);
	event_queue_close(&events);
}

static void open_all(int n)
{
	size = n;
	now = 0;
	plan = (sluice_job){ .size = n, .workers = n };
	memset(ranks, 0, sizeof(ranks));
	requests = stale = live_ended = overflows = 0;
	sides = calloc((size_t)n * (size_t)n, sizeof(*sides));
	assert_non_null(sides);
	assert_int_equal(event_queue_open(&events, 1024), 0);
	for (int i = 0; i < n / NODE_RANKS; i++) {
		known[i] = calloc((size_t)(n / NODE_RANKS) * NUMBERS, 1);
		assert_non_null(known[i]);
		next_qpn[i] = (uint32_t)i * 1000;
	}
	for (int r = 0; r < n; r++)
		open_rank(r);
}

/* Connects the ranks that have begun to, which are `pairs` pairs of ranks. */
static void check_connect(const char *what, long pairs, uint64_t skew_ms, uint64_t most_ms)
{
	const long before = requests;
	long meet_now = 0;
	int tries = 0;
	const uint64_t ms = connect_all(skew_ms);

	for (int r = 0; r < size; r++) {
		meet_now += ranks[r].up;
		if (ranks[r].tries_most > tries)
			tries = ranks[r].tries_most;
	}
	print_message("%d ranks, %s, begun within %d ms: connected after %d ms, %ld requests for "
		      "%ld pairs, %ld stale, %ld beyond the backlog, at most %d tries at once\n",
		      size, what, (int)skew_ms, (int)ms, requests - before, pairs, stale, overflows,
		      tries);
	assert_true(all_up());
	assert_int_equal(meet_now / 2, before ? (long)size * (size - NODE_RANKS) / 2 : pairs);
	assert_in_range(ms, 1, most_ms);
	assert_int_equal(live_ended, 0);
	assert_in_range(tries, 1, LINK_TRIES_MOST);
	assert_in_range(requests - before, pairs, pairs + pairs / 5);
}

static long pairs_of_all(int n)
{
	return (long)n * (n - NODE_RANKS) / 2;
}

static void check_job(int n, uint64_t skew_ms, uint64_t most_ms)
{
	with_hubs = 0;
	open_all(n);
	check_connect("all pairs", pairs_of_all(n), skew_ms, most_ms);
	close_all();
}

/* Every rank connects with the hub of each other node. */
static void open_hubs(int n, uint64_t skew_ms, uint64_t most_ms)
{
	const long nodes = n / NODE_RANKS;

	with_hubs = 1;
	open_all(n);
	check_connect("hubs", nodes * (nodes - 1) * (NODE_RANKS - 1) + nodes * (nodes - 1) / 2,
		      skew_ms, most_ms);
}

static void connect_the_others(uint64_t most_ms)
{
	const long by_hubs = requests;

	with_hubs = 0;
	for (int r = 0; r < size; r++)
		begin_links(r);
	check_connect("the others", pairs_of_all(size) - by_hubs, 0, most_ms);
}

/* Returns 1 under sanitizers and valgrind, which run only the smaller job. */
static int slow_here(void)
{
#ifdef __SANITIZE_ADDRESS__
	return 1;
#else
	return under_valgrind() || UNDER_THREAD_SANITIZER;
#endif
}

TEST(ranks_of_8_nodes__all_connect_at_once__within_20_s_and_no_live_connection_ends)
{
	check_job(2 * NODE_RANKS, 0, 20000);
	if (!slow_here())
		check_job(RANKS_MOST, 1000, 20000);
}

TEST(ranks_with_hubs__connect_with_these__and_with_the_others_later)
{
	open_hubs(2 * NODE_RANKS, 0, 5000);
	assert_int_equal(requests, 2 * (NODE_RANKS - 1) + 1);
	connect_the_others(20000);
	close_all();
	if (slow_here())
		return;
	open_hubs(RANKS_MOST, 1000, 5000);
	close_all();
}
