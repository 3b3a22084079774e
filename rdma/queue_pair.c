/* SPDX-License-Identifier: BSD-3-Clause
 * See queue_pair.h. */
#include "rdma/queue_pair.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "sluice.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_MS = 1000 };

struct queue_pair {
	struct queue_pair_config config;
	struct ibv_qp *qp; /* NULL: there is none */
	unsigned mtu;
};

/* Copies the text of the last error to why. */
static int qp_failed(char why[QP_WHY_BYTES])
{
	snprintf(why, QP_WHY_BYTES, "%s", sluice_last_error());
	return -1;
}

int qp_make(struct queue_pair *p, void *owner, char why[QP_WHY_BYTES])
{
	const struct queue_pair_config *c = &p->config;

	p->qp = queues_pair_make(c->queues, rights_peer_domain(c->rights), owner,
				 c->sizes->credits);
	if (!p->qp) {
		snprintf(why, QP_WHY_BYTES, "this rank could not make a queue pair: %s",
			 errno_text(errno));
		return -1;
	}
	return 0;
}

int qp_equip(struct queue_pair *p, char why[QP_WHY_BYTES])
{
	sendlog_attach(p->config.log, p->qp);
	return rights_connect(p->config.rights) ? qp_failed(why) : 0;
}

uint32_t qp_number(const struct queue_pair *p)
{
	return p->qp->qp_num;
}

/* The first packet number of each connection is drawn at random. */
int qp_join(struct queue_pair *p, const struct path_ends *ends, unsigned peer_mtu,
	    char why[QP_WHY_BYTES])
{
	const int mtu = path_join(p->config.path, p->qp, ends, peer_mtu, p->config.sizes->reads,
				  why);

	_Static_assert((int)PATH_WHY_BYTES <= (int)QP_WHY_BYTES, "a reason is too long");
	if (mtu < 0)
		return -1;
	p->mtu = (unsigned)mtu;
	return queues_pair_start(p->config.queues, p->qp) ? qp_failed(why) : 0;
}

unsigned qp_mtu(const struct queue_pair *p)
{
	return p->mtu;
}

void qp_end(struct queue_pair *p)
{
	const struct queue_pair_config *c = &p->config;

	if (!p->qp)
		return;
	sendlog_detach(c->log);
	queues_pair_stop(c->queues, p->qp);
	rights_disconnect(c->rights);
	queues_pair_end(c->queues, p->qp);
	p->qp = NULL;
}

uint64_t qp_received(struct queue_pair *p)
{
	return sendlog_report_received(p->config.log);
}

int qp_greeting(struct queue_pair *p, struct slot_address *slot, uint8_t control[REGION_HEAD_BYTES],
		char why[QP_WHY_BYTES])
{
	return rights_greeting(p->config.rights, p->config.sizes->credits, slot, control) ?
		       qp_failed(why) :
		       0;
}

int qp_replay(struct queue_pair *p, uint64_t received, char why[QP_WHY_BYTES])
{
	return sendlog_replay(p->config.log, received, why);
}

static int take_peer_slot(struct queue_pair *p, const struct slot_address *slot,
			  const uint8_t control[REGION_HEAD_BYTES], const char *trouble,
			  char why[QP_WHY_BYTES])
{
	if (sendlog_peer_slot(p->config.log, slot)) {
		snprintf(why, QP_WHY_BYTES, "%s", trouble);
		return -1;
	}
	rights_take_control(p->config.rights, control);
	return 0;
}

int qp_take_accept(struct queue_pair *p, const struct frame *accept, char why[QP_WHY_BYTES])
{
	if (take_peer_slot(p, &accept->slot, accept->control, "it offers an invalid slot", why))
		return -1;
	return qp_replay(p, accept->received, why);
}

/* Posts the bindings that make the keys given to the peer valid. If the queue is full, polls
 * until it has room, and gives up after a second without progress. Returns 0 or SLUICE_E*. */
static int bind_keys(struct queue_pair *p)
{
	const struct queue_pair_config *c = &p->config;
	uint64_t until = 0, now;
	int rc;

	while ((rc = rights_bind(c->rights, c->log)) == SLUICE_EAGAIN) {
		now = now_ns();
		if (queues_poll(c->queues) || !until)
			until = now + (uint64_t)ROOM_MS * NS_PER_MS;
		else if (now > until)
			return fail(SLUICE_EDEVICE,
				    "verbs: memory windows for rank %d could not be bound: its "
				    "queue of %u requests stayed full for %d ms",
				    c->peer, c->sizes->log_entries, ROOM_MS);
	}
	return rc;
}

int qp_send_ready(struct queue_pair *p, char why[QP_WHY_BYTES])
{
	return bind_keys(p) || sendlog_greet(p->config.log, GREETING_READY, NULL, 0) ?
		       qp_failed(why) :
		       0;
}

int qp_send_keys(struct queue_pair *p, char why[QP_WHY_BYTES])
{
	uint8_t table[KEY_TABLE_BYTES], greeting[GREETING_BYTES], control[REGION_HEAD_BYTES];
	size_t n = rights_table(p->config.rights, table);
	struct slot_address slot;

	if (qp_greeting(p, &slot, control, why))
		return -1;
	greeting_encode(&slot, control, greeting);
	if (sendlog_write_slot(p->config.log, SLOT_KEYS, table, n) ||
	    sendlog_greet(p->config.log, GREETING_KEYS, greeting, sizeof(greeting)))
		return qp_failed(why);
	return 0;
}

/* The client sends its slot in this greeting. The server has sent its slot in the acceptance. */
int qp_take_keys(struct queue_pair *p, char why[QP_WHY_BYTES])
{
	uint8_t greeting[GREETING_BYTES], control[REGION_HEAD_BYTES];
	struct slot_address slot;

	if (!p->config.client) {
		memcpy(greeting, p->config.slot + SLOT_GREETING, sizeof(greeting));
		greeting_decode(greeting, &slot, control);
		if (take_peer_slot(p, &slot, control, "its greeting is invalid", why))
			return -1;
	}
	if (rights_take_table(p->config.rights, p->config.slot + SLOT_KEYS, why))
		return -1;
	sendlog_renew_keys(p->config.log, rights_key_of, p->config.rights);
	return 0;
}

void qp_start(struct queue_pair *p, int again)
{
	const uint32_t reads = queues_pair_reads(p->config.queues, p->qp);

	log_line(again ? LOG_WARN : LOG_DEBUG, "rdma",
		 "verbs: %s rank %d, QP 0x%06x, path MTU %u, %u READs, %llu transfers to post "
		 "again",
		 again ? "connected again to" : "connected to", p->config.peer, p->qp->qp_num,
		 128u << p->mtu, reads, (unsigned long long)sendlog_waiting(p->config.log));
	sendlog_start(p->config.log, reads);
}

int qp_open(const struct queue_pair_config *config, struct queue_pair **out)
{
	struct queue_pair *p = calloc(1, sizeof(*p));

	if (!p)
		return fail(SLUICE_ENOMEM, "verbs: no memory for %zu bytes", sizeof(*p));
	p->config = *config;
	*out = p;
	return SLUICE_OK;
}

void qp_close(struct queue_pair **p)
{
	free(*p);
	*p = NULL;
}

struct ibv_qp *qp_of(const struct queue_pair *p)
{
	return p->qp;
}
