/* SPDX-License-Identifier: BSD-3-Clause
 * The transport over libibverbs, and librdmacm where there are IP addresses. A peer is a link
 * (link.h: the connection), a log (sendlog.h: transfers and notifies) and rights (rights.h: access
 * to memory). All peers share the queues of one card (queues.h) and one listener (connect.h). This
 * file opens, polls and closes these parts. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "rdma/card_facts.h"
#include "rdma/connect.h"
#include "rdma/event_queue.h"
#include "rdma/peer_memory.h"
#include "rdma/queues.h"
#include "rdma/retry.h"
#include "rdma/rights.h"
#include "rdma/sendlog.h"
#include "rdma/transfer.h"
#include "rdma/verbs_device.h"
#include "rdma/verbs_route.h"
#include "rdma/verbs_record.h"
#include "rdma/wakeup.h"
#include "sluice.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_PEERS = 65535,
	PAGE_BYTES = 4096,
	POLLS_PER_LOOK = 16,
	LOOK_NS = 2000000,
	LOOK_CONNECTING_NS = 200000,
	TICK_NS = 10000000,
	CLOSE_MS = 1000
};

struct verbs_endpoint {
	struct endpoint endpoint;
	struct link *link;        /* closed by connect.c */
	struct queue_sizes sizes; /* with the credits of this peer */
	struct sendlog *log;
	struct rights_peer *rights;
	struct queue_pair *pair;
	int waits; /* 1: in verbs.gathered.peers, because transfers are held back */
};

struct verbs {
	struct transport transport;
	int rank, size, lost_after_ms, link_lost_after_ms;
	int most_peers, expected; /* peers that may connect; that connect at the start */
	const struct region *control;
	size_t control_line_bytes;
	struct verbs_device device;
	struct verbs_device found[VERBS_DEVICES_MOST]; /* belongs to the transport of the first
							  card */
	int n_found;
	struct path_choice path;
	struct queue_sizes sizes;
	struct connect *connect;
	struct rights *rights;
	struct queues *queues;
	struct event_queue events;
	/* Whole pages for each peer keep the memory apart that the peers may write. */
	struct peer_memory slots, copies;
	struct wakeup wakeup;
	unsigned wants; /* LINK_* */
	/* on: 1 between the calls verbs_gather(t, 1) and verbs_gather(t, 0). n peers have transfers
	 * that are held back. */
	struct gathered {
		int on, n;
		struct verbs_endpoint **peers;
	} gathered;
	int ticking;           /* 1: the timer of some link runs */
	uint64_t next_look_ns; /* the time of the next check of rdma_cm, the device and the
				  timers */
	uint32_t polls;

	int n_peers;
	struct verbs_endpoint **peers, **by_rank;
};

static struct verbs *verbs_of(struct transport *t)
{
	/* valid because t is the first member of struct verbs; also used below */
	return (struct verbs *)(void *)t;
}

static struct verbs_endpoint *verbs_endpoint_of(struct endpoint *e)
{
	return (struct verbs_endpoint *)(void *)e;
}

static int fail_link_gone(const struct verbs_endpoint *ep)
{
	return fail_quietly(SLUICE_EPEER, "rank %d is gone: %s", ep->endpoint.peer,
			    link_why(ep->link));
}

/* ---- room for peers --------------------------------------------------------------- */

static size_t whole_pages(size_t bytes)
{
	return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static size_t copies_bytes(const struct verbs *v)
{
	return whole_pages(sendlog_memory(&v->sizes));
}

/* Checks that the memory of connections may be pinned: each peer's slot, copies, control line and
 * queue pair; the queue pairs of peers that have none yet; and the completion queue, if it grows
 * before. The queues that are open count among the pinned bytes. The size of a queue pair is known
 * once they are. */
static int check_memlock(const struct verbs *v, int peers, struct queues_growth queue,
			 const char *what)
{
	const size_t line = v->control_line_bytes;
	const size_t peer = PAGE_BYTES + copies_bytes(v) + whole_pages(line) + v->sizes.pair_pinned;
	size_t bytes = (size_t)peers * peer + queue.after;

	if (v->control && !line && !v->n_peers)
		bytes += whole_pages(v->control->bytes);
	for (int i = 0; i < v->n_peers; i++)
		bytes += qp_of(v->peers[i]->pair) ? 0 : v->sizes.pair_pinned;
	return verbs_memlock_check(bytes > queue.meanwhile ? bytes : queue.meanwhile, what);
}

static int check_memlock_of_all(const struct verbs *v)
{
	return check_memlock(v, (int)v->sizes.peers, (struct queues_growth){ 0, 0 },
			     "connecting this job's ranks");
}

/* Makes room for more peers, except in the queues of the card. */
static int open_room(struct verbs *v, int more)
{
	const int peers = peer_memory_peers(&v->copies) + more;
	int rc = event_queue_grow(&v->events, v->sizes.receives_most +
						      3 * v->sizes.log_entries * (uint32_t)peers +
						      1024);

	if (!rc)
		rc = peer_memory_grow(&v->slots, peers);
	return rc ? rc : peer_memory_grow(&v->copies, peers);
}

static int check_memlock_of_more(const struct verbs *v, int more)
{
	return check_memlock(
		v, more, queues_growth(v->queues, (uint32_t)(peer_memory_peers(&v->copies) + more)),
		"connecting one more of this job's ranks");
}

/* Makes room for the next peer, and for others that may follow. */
static int grow_room(struct verbs *v)
{
	const int peers = peer_memory_peers(&v->copies);
	int more = peer_memory_more(&v->copies, v->most_peers), rc;

	if (v->n_peers < peers)
		return SLUICE_OK;
	rc = check_memlock_of_more(v, more);
	if (rc && more > 1)
		rc = check_memlock_of_more(v, more = 1);
	if (rc)
		return fail(rc, "verbs: %s", sluice_last_error());
	rc = queues_grow(v->queues, (uint32_t)(peers + more));
	return rc ? rc : open_room(v, more);
}

/* ---- meeting peers ---------------------------------------------------------------- */

/* Lists the cards of this node, unless another transport of this rank lists them. */
static int verbs_record(struct transport *t, uint8_t *bytes, size_t *len_out)
{
	struct verbs *v = verbs_of(t);
	struct verbs_record record = { .rank = v->rank,
				       .n_cards = 1,
				       .cards = { verbs_card_of(&v->device) } };

	for (; record.n_cards < v->n_found; record.n_cards++)
		record.cards[record.n_cards] = verbs_card_of(&v->found[record.n_cards]);
	connect_record(v->connect, &record);
	*len_out = verbs_record_encode(&record, bytes);
	return SLUICE_OK;
}

static void verbs_try_routes(struct transport *t, struct route *routes, int n, int timeout_ms,
			     char *why, size_t cap)
{
	verbs_routes_try(&verbs_of(t)->device, routes, n, timeout_ms, why, cap);
}

static int verbs_admit(struct transport *t, const struct peer_keys *keys)
{
	connect_admit(verbs_of(t)->connect, keys);
	return SLUICE_OK;
}

/* Returns the memory that the next peer may always use: its slot and its line of the control
 * region. */
static struct rights_memory memory_of(const struct verbs *v, int rank)
{
	const size_t line = v->control_line_bytes;
	struct rights_memory m = {
		.slot = peer_memory_at(&v->slots, v->n_peers, NULL),
		.copies = peer_memory_at(&v->copies, v->n_peers, NULL),
		.copies_bytes = copies_bytes(v),
		.control = v->control,
	};

	_Static_assert((int)SLOT_BYTES <= (int)PAGE_BYTES, "a slot is larger than its page");
	if (v->control) {
		m.control_from = (size_t)rank * line;
		m.control_bytes = line ? line : v->control->bytes;
	}
	return m;
}

static int open_peer_parts(struct verbs *v, struct verbs_endpoint *ep, struct link_config *config)
{
	const struct rights_memory memory = memory_of(v, config->peer);
	struct sendlog_config log = { .peer = config->peer,
				      .sizes = &ep->sizes,
				      .events = &v->events,
				      .memory = memory.copies,
				      .slot = memory.slot };
	int rc = rights_peer_open(v->rights, config->peer, &memory, &ep->rights);

	if (rc)
		return rc;
	log.lkey = rights_copies_key(ep->rights);
	rc = sendlog_open(&log, &ep->log);
	if (rc)
		return rc;
	rc = qp_open(&(struct queue_pair_config){ .queues = v->queues,
						  .sizes = &ep->sizes,
						  .path = &v->path,
						  .log = ep->log,
						  .rights = ep->rights,
						  .slot = memory.slot,
						  .client = config->client,
						  .peer = config->peer },
		     &ep->pair);
	if (rc)
		return rc;
	config->log = ep->log;
	config->rights = ep->rights;
	config->pair = ep->pair;
	return connect_add(v->connect, config, &ep->link);
}

static void close_parts(struct verbs_endpoint *ep)
{
	rights_peer_close(&ep->rights);
	sendlog_close(&ep->log);
	qp_close(&ep->pair);
	free(ep);
}

/* Ranks compare their records first, so this happens only if a record is wrong. */
static int refuse_card(int rank, const struct verbs_card *own, const struct verbs_card *its)
{
	char of_own[VERBS_CARD_TEXT], of_peer[VERBS_CARD_TEXT];

	return fail_quietly(SLUICE_EWIRE, "verbs: %s of this rank cannot connect to %s of rank %d",
			    verbs_card_text(own, of_own), verbs_card_text(its, of_peer), rank);
}

static int verbs_connect(struct transport *t, int rank, const uint8_t *record, size_t len,
			 struct endpoint **out)
{
	struct verbs *v = verbs_of(t);
	struct link_config config = { .peer = rank, .client = v->rank < rank };
	const int admitted = connect_admitted(v->connect);
	const struct verbs_card card = verbs_card_of(&v->device);
	struct verbs_record its;
	struct verbs_endpoint *ep;
	int rc;

	if (rank < 0 || rank >= v->size || rank == v->rank || v->by_rank[rank] || !admitted ||
	    v->n_peers == v->most_peers)
		return fail(SLUICE_EINVAL, "verbs: rank %d cannot connect to rank %d of %d%s",
			    v->rank, rank, v->size,
			    !admitted ? ": it has no keys of its peers yet" : "");
	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*ep));
	ep->endpoint = (struct endpoint){ .transport = t, .peer = rank };
	ep->sizes = v->sizes;
	if (v->n_peers >= (int)v->sizes.peers)
		ep->sizes.credits = v->sizes.later_credits;
	rc = verbs_record_decode(record, len, rank, &its);
	if (!rc && carrier_between(&card, &its.cards[0]) != carrier_of(&v->device))
		rc = refuse_card(rank, &card, &its.cards[0]);
	if (!rc)
		rc = grow_room(v);
	if (!rc) {
		config.its = &its;
		memcpy(config.device, its.cards[0].device, sizeof(config.device));
		rc = open_peer_parts(v, ep, &config);
	} else {
		rc = fail(rc, "%s", sluice_last_error());
	}
	if (rc) {
		close_parts(ep);
		return rc;
	}
	v->by_rank[rank] = ep;
	v->peers[v->n_peers++] = ep;
	v->ticking = 1; /* the next poll checks it first */
	v->next_look_ns = 0;
	*out = &ep->endpoint;
	return SLUICE_OK;
}

static int verbs_ready(struct endpoint *e)
{
	const struct verbs_endpoint *ep = verbs_endpoint_of(e);

	return link_is_gone(ep->link) ? fail_link_gone(ep) : link_was_up(ep->link);
}

struct verbs_parts verbs_parts_of(struct endpoint *e)
{
	const struct verbs *v = verbs_of(e->transport);

	return (struct verbs_parts){ &v->device, &v->sizes, qp_of(verbs_endpoint_of(e)->pair) };
}

/* The connection stays up for the last messages to the peer, which inform the peer that it was
 * dropped. */
static void verbs_revoke(struct endpoint *e)
{
	link_expel(verbs_endpoint_of(e)->link);
}

/* ---- regions and transfers -------------------------------------------------------- */

static int verbs_describe(struct endpoint *e, const struct region *region,
			  uint8_t descriptor[REGION_DESCRIPTOR_BYTES])
{
	struct verbs_endpoint *ep = verbs_endpoint_of(e);
	int rc;

	if (!region->access)
		return fail(SLUICE_EINVAL, "a region for local use cannot be described to rank %d",
			    e->peer);
	if (!link_was_up(ep->link) && !link_is_gone(ep->link))
		return fail(SLUICE_EINVAL, "verbs: rank %d is not connected yet", e->peer);
	if (link_is_gone(ep->link))
		return fail_link_gone(ep);
	if (!link_is_up(ep->link))
		return SLUICE_EAGAIN;
	rc = rights_offer(ep->rights, region, 0, region->bytes, 1);
	if (rc)
		return rc;
	rc = rights_bind(ep->rights, ep->log);
	if (rc == SLUICE_EPEER) /* the connection broke, and the next poll decides what follows */
		return SLUICE_EAGAIN;
	if (rc == SLUICE_EDEVICE)
		rights_withdraw(ep->rights, region);
	return rc ? rc : rights_describe(ep->rights, region, descriptor);
}

static int verbs_remote_open(struct endpoint *e, const uint8_t descriptor[REGION_DESCRIPTOR_BYTES],
			     struct remote **out)
{
	struct verbs_endpoint *ep = verbs_endpoint_of(e);

	if (link_is_gone(ep->link))
		return fail_link_gone(ep);
	return rights_remote_open(ep->rights, e, descriptor, out);
}

static int verbs_control(struct endpoint *e, struct remote **out)
{
	struct verbs_endpoint *ep = verbs_endpoint_of(e);

	if (!link_was_up(ep->link))
		return fail(SLUICE_EINVAL, "verbs: rank %d is not connected yet", e->peer);
	if (link_is_gone(ep->link))
		return fail_link_gone(ep);
	return rights_remote_open(ep->rights, e, NULL, out);
}

static int verbs_prepare(struct endpoint *e, const struct region *region, const void *at, size_t n)
{
	int rc = region ? rights_prepare(verbs_endpoint_of(e)->rights, region, at, n) : 0;

	return rc == SLUICE_ENOSUPP ? 0 : rc < 0 ? rc : 1;
}

static int verbs_post(struct endpoint *e, const struct transfer *x)
{
	struct verbs_endpoint *ep = verbs_endpoint_of(e);
	struct verbs *v = verbs_of(e->transport);
	struct sendlog_target target;
	uint64_t entries;
	uint32_t lkey = 0;
	int rc;

	if (link_is_gone(ep->link))
		return fail_link_gone(ep);
	rc = transfer_check(e, x);
	if (rc)
		return rc;
	target = rights_target(x->remote);
	entries = sendlog_entries(x, &target);
	if (entries > v->sizes.log_entries)
		return fail(SLUICE_ENOSUPP,
			    "verbs: %zu bytes to or from rank %d touch %llu memory windows, but a "
			    "queue holds only %u requests; transfer them in parts",
			    x->bytes, e->peer, (unsigned long long)entries, v->sizes.log_entries);
	if (!sendlog_room(ep->log, x, entries))
		return SLUICE_EAGAIN;
	if (x->bytes > 0 && !sendlog_copies(x)) {
		rc = rights_local_key(ep->rights, x, &lkey);
		if (rc)
			return rc;
	}
	sendlog_append(ep->log, x, lkey, &target, v->gathered.on);
	if (v->gathered.on && !ep->waits) {
		ep->waits = 1;
		v->gathered.peers[v->gathered.n++] = ep;
	}
	transfer_count(e, x);
	return SLUICE_OK;
}

static uint64_t verbs_moved(struct endpoint *e)
{
	return sendlog_moved(verbs_endpoint_of(e)->log);
}

static void verbs_renew(struct endpoint *e, const char *why)
{
	link_renew(verbs_endpoint_of(e)->link, why);
}

static int verbs_away(struct endpoint *e)
{
	return link_is_cut(verbs_endpoint_of(e)->link);
}

static void verbs_gather(struct transport *t, int on)
{
	struct verbs *v = verbs_of(t);

	v->gathered.on = on;
	for (int i = 0; !on && i < v->gathered.n; i++) {
		v->gathered.peers[i]->waits = 0;
		sendlog_post(v->gathered.peers[i]->log);
	}
	v->gathered.n = on ? v->gathered.n : 0;
}

/* ---- polling ---------------------------------------------------------------------- */

/* Posts receives before it returns credit to the peers, so that a peer with credit finds a receive.
 * This happens seldom, because a peer gets credit only when it has used half of it. */
static void give_back(struct verbs *v)
{
	const int owed = v->wants & LINK_OWES_CREDIT;

	if (queues_refill(v->queues, owed) || !owed)
		return;
	v->wants &= ~(unsigned)LINK_OWES_CREDIT;
	for (int i = 0; i < v->n_peers; i++) {
		struct verbs_endpoint *ep = v->peers[i];

		if (link_is_up(ep->link) && sendlog_credit_due(ep->log) &&
		    sendlog_give_credit(ep->log))
			v->wants |= LINK_OWES_CREDIT; /* tries again at the next poll */
	}
}

/* Links change state only here, while no completions are being taken. */
static void settle_links(struct verbs *v)
{
	v->wants &= ~(unsigned)LINK_SETTLES;
	connect_settle(v->connect);
	v->ticking = 1;
	v->next_look_ns = 0;
}

static void verbs_look(struct verbs *v, uint64_t now)
{
	if (!connect_admitted(v->connect))
		return; /* peers cannot be recognised yet */
	v->ticking = connect_look(v->connect, now);
	v->next_look_ns = connect_is_behind(v->connect) ?
				  0 :
				  now + (v->ticking ? LOOK_CONNECTING_NS : LOOK_NS);
}

static int verbs_poll(struct transport *t, struct event *events, int n)
{
	struct verbs *v = verbs_of(t);
	int taken;

	/* This is checked seldom, because reading the clock costs more than the rest of a poll that
	 * finds nothing. */
	if (v->ticking || !v->next_look_ns || ++v->polls % POLLS_PER_LOOK == 0) {
		uint64_t now = now_ns();

		if (now >= v->next_look_ns)
			verbs_look(v, now);
	}
	taken = event_queue_take(&v->events, events, n);
	for (int more = 1; more && taken < n;) {
		more = queues_poll(v->queues) == QUEUES_AT_ONCE; /* if it takes fewer, the queue
								    is empty */
		taken += event_queue_take(&v->events, events + taken, n - taken);
	}
	give_back(v);
	if (v->wants & LINK_SETTLES) {
		settle_links(v);
		taken += event_queue_take(&v->events, events + taken, n - taken);
	}
	return taken;
}

/* ---- sleeping until a completion, an event of rdma_cm or of the device, or a timer ---- */

static int verbs_arm(struct transport *t)
{
	struct verbs *v = verbs_of(t);

	if (!event_queue_empty(&v->events) || connect_is_behind(v->connect) ||
	    queues_arm(v->queues))
		return 1;
	/* Looks once more, because completions that came before the request make no event. */
	if (queues_poll(v->queues) > 0 || !event_queue_empty(&v->events) || v->wants & LINK_SETTLES)
		return 1;
	wakeup_arm(&v->wakeup, v->ticking ? TICK_NS : 0);
	return 0;
}

static void verbs_disarm(struct transport *t)
{
	struct verbs *v = verbs_of(t);

	queues_disarm(v->queues);
	wakeup_disarm(&v->wakeup);
	v->next_look_ns = 0; /* rdma_cm may have woken this rank */
}

static void verbs_cancel(struct transport *t)
{
	/* The next sleeper drains an event that was not needed. */
	wakeup_cancel(&verbs_of(t)->wakeup);
}

static int verbs_fd(struct transport *t)
{
	return wakeup_fd(&verbs_of(t)->wakeup);
}

static void verbs_wake(struct transport *t)
{
	wakeup_wake(&verbs_of(t)->wakeup);
}

/* ---- opening ---------------------------------------------------------------------- */

/* Makes a descriptor of rdma_cm or libibverbs non-blocking. */
static int unblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static int open_watched(struct verbs *v)
{
	const int theirs[] = { connect_fd(v->connect), queues_fd(v->queues),
			       connect_context(v->connect)->async_fd };

	int rc = wakeup_open(&v->wakeup, WAKEUP_EVENT, "verbs");

	if (!rc)
		rc = wakeup_open_timer(&v->wakeup);
	for (size_t i = 0; !rc && i < sizeof(theirs) / sizeof(theirs[0]); i++) {
		if (unblock(theirs[i]))
			return verbs_failed("fcntl");
		rc = wakeup_watch(&v->wakeup, theirs[i], WAKEUP_NO_ID, 0);
	}
	return rc;
}

static int open_tables(struct verbs *v)
{
	const size_t peers = (size_t)v->most_peers;

	v->peers = calloc(peers, sizeof(*v->peers));
	v->by_rank = calloc((size_t)v->size, sizeof(*v->by_rank));
	v->gathered.peers = calloc(peers, sizeof(*v->gathered.peers));
	if (!v->peers || !v->by_rank || !v->gathered.peers)
		return fail(SLUICE_ENOMEM, "verbs: no memory for a table of %d peers", v->size);
	v->slots = peer_memory_new("slots", REGION_WRITE, PAGE_BYTES);
	v->copies = peer_memory_new("copies", 0, copies_bytes(v));
	return open_room(v, (int)v->sizes.peers);
}

/* Finds the devices of this node. A second transport of the rank takes another one of the devices
 * that were found. */
static int find_device(struct verbs *v, const struct transport_config *config)
{
	const struct verbs *first = config->beside ? verbs_of(config->beside) : NULL;
	const struct verbs_wanted wanted = { config->device, config->interface, config->gid_index,
					     config->gid_net };
	int rc = SLUICE_OK;

	if (first && (config->card < 0 || config->card >= first->n_found))
		return fail(SLUICE_EINVAL, "verbs: this node has no card %d", config->card);
	if (!first)
		rc = verbs_devices_find(&wanted, v->found, &v->n_found);
	v->device = first ? first->found[config->card] : v->found[0];
	return rc;
}

/* Makes all checks that can fail before any object is created. */
static int choose_device(struct verbs *v, const struct transport_config *config)
{
	int rc = find_device(v, config);

	if (!rc)
		rc = path_choose(&v->device, config->traffic_class, config->service_level,
				 &v->path);
	if (!rc)
		rc = queue_sizes_choose(&v->device, (uint32_t)v->most_peers, (uint32_t)v->expected,
					config->queue_depth, &v->sizes);
	return rc ? rc : check_memlock_of_all(v);
}

static int open_parts_of_all(struct verbs *v, const struct transport_config *config)
{
	int rc = connect_open(&v->device, v->rank, v->size, v->lost_after_ms, v->link_lost_after_ms,
			      &v->connect);

	if (!rc)
		rc = rights_open(connect_context(v->connect), &v->device, v->rank, v->size,
				 config->memory_windows, config->relaxed_ordering, &v->rights);
	if (!rc)
		rc = open_tables(v);
	if (!rc)
		rc = queues_open(rights_domain(v->rights), v->device.name, v->size,
				 (uint32_t)v->most_peers, &v->sizes, &v->events, link_completed,
				 &v->queues);
	if (!rc)
		rc = check_memlock_of_all(v);
	if (rc)
		return rc;
	connect_use(v->connect, v->queues, &v->sizes, &v->path, &v->events, &v->wants);
	return open_watched(v);
}

static void log_opened(const struct verbs *v)
{
	const struct verbs_device *d = &v->device;
	char text[CARRIER_TEXT], class[16], level[16];

	connect_text(v->connect, text);

	log_line(LOG_INFO, "rdma",
		 "verbs: %s port %d (%s, %s), %s: traffic class %s, service level %s, MTU %u, "
		 "queue of %u transfers a peer, %u receives (%u a peer), %u completions, "
		 "%u READs at once, %u bytes inline, messages of %llu "
		 "bytes; an unanswered request fails after %.2f s, a lost connection must be "
		 "restored within %.2f s",
		 d->name, d->port, d->infiniband ? "InfiniBand" : "Ethernet", d->reason, text,
		 path_text(v->path.traffic_class, class), path_text(v->path.service_level, level),
		 128u << v->path.mtu, v->sizes.log_entries, v->sizes.receives, v->sizes.credits,
		 v->sizes.completions, v->sizes.reads, v->sizes.inline_bytes,
		 (unsigned long long)v->sizes.max_message,
		 4.096e-6 * (1 << RETRY_ACK_TIMEOUT) * (QUEUES_RETRIES + 1),
		 v->link_lost_after_ms / 1000.0);
}

static void verbs_close(struct transport **t);

static int verbs_open(const struct transport_config *config, struct transport **out)
{
	struct transport *t;
	struct verbs *v;
	int rc;

	if (config->size < 1 || config->size > MAX_PEERS || config->rank < 0 ||
	    config->rank >= config->size || !config->queue_depth)
		return fail(SLUICE_EINVAL,
			    "verbs: rank %d of %d and a queue of %u transfers are not valid",
			    config->rank, config->size, config->queue_depth);
	v = calloc(1, sizeof(*v));
	if (!v)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*v));
	t = &v->transport;
	t->ops = &verbs_transport;
	t->device = v->device.name;
	v->rank = config->rank;
	v->size = config->size;
	v->most_peers = config->beside ? config->peers : config->size - 1;
	if (v->most_peers < 1)
		v->most_peers = 1;
	v->expected = config->expected > 0 && config->expected < v->most_peers ? config->expected :
										 v->most_peers;
	v->lost_after_ms = config->lost_after_ms > 0 ? config->lost_after_ms : 5000;
	v->link_lost_after_ms = config->link_lost_after_ms > 0 ? config->link_lost_after_ms :
								 v->lost_after_ms;
	v->control = config->control;
	v->control_line_bytes = config->control_line_bytes;
	v->wakeup = WAKEUP_NONE;
	rc = choose_device(v, config);
	if (!rc)
		rc = open_parts_of_all(v, config);
	if (rc) {
		verbs_close(&t);
		return rc;
	}
	log_opened(v);
	*out = t;
	return SLUICE_OK;
}

/* ---- closing ---------------------------------------------------------------------- */

/* Waits for about a second until the last messages are sent, because the process may end next. */
static void flush_logs(struct verbs *v)
{
	struct poll_limit limit = poll_limit_after_ms(CLOSE_MS);
	int waiting, i;

	for (i = 0; i < v->n_peers; i++)
		if (link_is_up(v->peers[i]->link))
			sendlog_flush(v->peers[i]->log);
	do {
		waiting = 0;
		queues_poll(v->queues);
		event_queue_forget(&v->events); /* no caller takes these events any more */
		for (i = 0; i < v->n_peers; i++)
			waiting |= link_is_up(v->peers[i]->link) &&
				   !sendlog_flushed(v->peers[i]->log);
	} while (waiting && !poll_limit_reached(&limit));
}

static void verbs_close(struct transport **t)
{
	struct verbs *v;

	if (!t || !*t)
		return;
	v = verbs_of(*t);
	if (v->queues)
		flush_logs(v);
	if (v->connect)
		connect_down(v->connect);
	for (int i = 0; i < v->n_peers; i++)
		close_parts(v->peers[i]);
	queues_close(&v->queues);
	rights_close(&v->rights);
	connect_close(&v->connect);
	wakeup_close(&v->wakeup);
	peer_memory_close(&v->slots);
	peer_memory_close(&v->copies);
	event_queue_close(&v->events);
	free(v->peers);
	free(v->by_rank);
	free(v->gathered.peers);
	free(v);
	*t = NULL;
}

const struct transport_ops verbs_transport = {
	.name = "verbs",
	.farthest = DISTANCE_NETWORK,
	.open = verbs_open,
	.close = verbs_close,
	.record = verbs_record,
	.networks = verbs_record_read_networks,
	.card = verbs_record_read_card,
	.try_routes = verbs_try_routes,
	.admit = verbs_admit,
	.connect = verbs_connect,
	.ready = verbs_ready,
	.control = verbs_control,
	.describe = verbs_describe,
	.remote_open = verbs_remote_open,
	.remote_close = rights_remote_close,
	.revoke = verbs_revoke,
	.post = verbs_post,
	.gather = verbs_gather,
	.prepare = verbs_prepare,
	.moved = verbs_moved,
	.renew = verbs_renew,
	.away = verbs_away,
	.poll = verbs_poll,
	.sleep.arm = verbs_arm,
	.sleep.disarm = verbs_disarm,
	.sleep.cancel = verbs_cancel,
	.sleep.fd = verbs_fd,
	.sleep.wake = verbs_wake,
};
