/* SPDX-License-Identifier: BSD-3-Clause
 * The transport over libfabric: TCP, and fabrics without the reliable connections of verbs. One
 * endpoint for reliable datagrams reaches all peers. A peer (ofi_peer.h) has a proof (ofi_proof.h),
 * a flow (ofi_flow.h: its transfers) and rights (ofi_memory.h: access to memory).
 *
 * Software providers serve a peer's get only while this rank calls libfabric. So the transport has
 * a thread that calls it when no other thread has done so for a while. A rank that computes can
 * therefore be reached. A peer that does not answer for link_lost_after is lost. The job decides
 * earlier whether the peer's process lives. One lock serialises both threads and region_close(),
 * because libfabric is opened for use by one thread at a time. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "rdma/event_queue.h"
#include "rdma/ofi_record.h"
#include "rdma/ofi_fabric.h"
#include "rdma/ofi_flow.h"
#include "rdma/ofi_messages.h"
#include "rdma/ofi_memory.h"
#include "rdma/ofi_peer.h"
#include "rdma/ofi_proof.h"
#include "rdma/ofi_table.h"
#include "rdma/ofi_trial.h"
#include "rdma/wakeup.h"
#include "sluice.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_PEERS = 65535,
	BATCH = OFI_POLL_EVENTS,
	LOOK_NS = 10 * NS_PER_MS,
	LOOK_JOINING_NS = NS_PER_MS,
	TICK_NS = 10 * NS_PER_MS,
	TICK_BLIND_NS = NS_PER_MS, /* used if the provider has no descriptor on which to sleep */
	SERVE_MIN_MS = 1,
	SERVE_MAX_MS = 20,
	CLOSE_MS = 1000
};

struct ofi {
	struct transport transport;
	int rank, size, lost_after_ms, link_lost_after_ms;
	pthread_mutex_t lock; /* protects all members below, and all of libfabric */
	struct ofi_fabric *fabric;
	struct ofi_memory *memory;
	struct ofi_proofs *proofs;
	struct ofi_messages *messages;
	struct event_queue events;
	struct region *buffers; /* for messages */
	struct ofi_peers all;
	struct ofi_table table;
	struct ofi_trial *trial;
	int narrow; /* 1: notices have 32 bits */
	uint64_t next_look_ns, last_look_ns, progressed_ns;
	uint64_t active_ns; /* when this rank last polled or got a completion */
	struct wakeup wakeup;

	pthread_t thread;
	pthread_cond_t ends;
	int serving, over;
};

static struct ofi *ofi_of(struct transport *t)
{
	/* valid because t is the first member of struct ofi; also used below */
	return (struct ofi *)(void *)t;
}

static void ofi_wake(struct transport *t)
{
	wakeup_wake(&ofi_of(t)->wakeup);
}

/* ---- completions ------------------------------------------------------------------ */

static void read_message(struct ofi *o, const uint8_t *bytes, size_t n)
{
	uint8_t answer[OFI_FRAME_BYTES];
	int peer;

	if (!ofi_proof_answer(o->proofs, bytes, n, now_ns(), &peer, answer))
		return;
	ofi_messages_write(o->messages, peer, answer);
	ofi_peer_send(ofi_table_of_rank(&o->table, peer));
}

/* Returns 1 if the completion belongs to a message. */
static int take_message(struct ofi *o, const struct ofi_completion *c, uint64_t now)
{
	uint8_t message[OFI_FRAME_BYTES];
	size_t n;
	int rank;

	switch (ofi_messages_take(o->messages, c, &rank, message, &n)) {
	case OFI_MESSAGE_NONE: return 0;
	case OFI_MESSAGE_CAME:
		if (n == FLOW_NOTICE_BYTES)
			ofi_table_notice(&o->table, get_le64(message), o->all.token_mask, now);
		else
			read_message(o, message, n);
		break;
	case OFI_MESSAGE_SENT:
		ofi_peer_send(ofi_table_of_rank(&o->table, rank));
		break; /* sends a message that was written in the meantime */
	case OFI_MESSAGE_FAILED:
		if (rank >= 0)
			ofi_peer_send_failed(ofi_table_of_rank(&o->table, rank), c->text);
		break;
	}
	return 1;
}

static void take_completion(struct ofi *o, const struct ofi_completion *c, uint64_t now)
{
	if (ofi_trial_is_of(o->trial, c)) {
		ofi_messages_reuse(o->messages, c->context);
	} else if (c->notice && !c->error) {
		if (o->narrow)
			ofi_table_narrow_notice(&o->table, c, now);
		else
			ofi_table_notice(&o->table, c->data, o->all.token_mask, now);
		ofi_messages_reuse(o->messages, c->context);
	} else if (c->context && !take_message(o, c, now)) {
		/* A peer has refused the operation. */
		const int rank = ofi_flow_peer(ofi_flow_of(c->context));

		ofi_peer_completed(ofi_table_of_rank(&o->table, rank), c, now);
	}
}

/* ---- progress --------------------------------------------------------------------- */

static void look_at_peers(struct ofi *o, uint64_t now)
{
	/* If this process was stopped, the silence of its peers proves nothing. */
	const int was_stopped = now - o->last_look_ns > (uint64_t)o->lost_after_ms * NS_PER_MS / 4;

	ofi_messages_receive(o->messages);
	for (int i = 0; i < ofi_table_number(&o->table); i++)
		ofi_peer_look(ofi_table_at(&o->table, i), was_stopped, now);
	o->last_look_ns = now;
	o->next_look_ns = now + (o->all.joining ? LOOK_JOINING_NS : LOOK_NS);
}

/* Requires the lock. */
static void progress(struct ofi *o)
{
	const uint64_t now = now_ns();
	struct ofi_completion c[BATCH];
	int n = BATCH;

	o->progressed_ns = now;
	if (!ofi_table_number(&o->table))
		return; /* no rank can reach this one, and polling would cost system calls */
	if (now >= o->next_look_ns)
		look_at_peers(o, now);
	/* Notices that found no room before come first. If they leave room, no peer has notices
	 * that wait. */
	for (int i = 0; o->narrow && i < ofi_table_number(&o->table); i++)
		ofi_peer_push(ofi_table_at(&o->table, i), now);
	/* Each completion makes at most one event, in addition to the promised ones. If there is no
	 * room for one more event, ofi_peer.c keeps the notices that it has read. */
	while (n == BATCH && event_queue_room(&o->events) > o->all.promised + BATCH) {
		n = ofi_fabric_poll(o->fabric, c, BATCH);
		for (int i = 0; i < n; i++)
			take_completion(o, &c[i], now);
		if (n > 0)
			o->active_ns = now;
	}
	for (int i = 0; i < ofi_table_number(&o->table); i++)
		ofi_peer_push(ofi_table_at(&o->table, i), now);
}

/* Returns 1 if a sleeper must be woken. */
static int has_news(const struct ofi *o)
{
	return !event_queue_empty(&o->events) || o->all.unreported;
}

static int report_lost(struct ofi *o, struct event *events, int n)
{
	int reported = 0;

	for (int i = 0; i < ofi_table_number(&o->table) && reported < n; i++)
		reported += ofi_peer_report(ofi_table_at(&o->table, i), &events[reported]);
	return reported;
}

static int ofi_poll(struct transport *t, struct event *events, int n)
{
	struct ofi *o = ofi_of(t);
	int taken;

	pthread_mutex_lock(&o->lock);
	taken = event_queue_take(&o->events, events, n);
	if (taken < n) {
		progress(o);
		o->active_ns = o->progressed_ns;
		taken += event_queue_take(&o->events, events + taken, n - taken);
	}
	if (o->all.unreported &&
	    taken < n) /* the loss of a peer is reported after the peer's last messages */
		taken += report_lost(o, events + taken, n - taken);
	pthread_mutex_unlock(&o->lock);
	return taken;
}

/* Serves the peers while no other thread polls. For some time after a poll it looks often, because
 * transfers stop when a socket buffer of the kernel is full or empty. */
static void *serve_peers(void *argument)
{
	struct ofi *o = argument;
	const int wanted = o->lost_after_ms / 16;
	const int ms = wanted < SERVE_MIN_MS ? SERVE_MIN_MS :
		       wanted > SERVE_MAX_MS ? SERVE_MAX_MS :
					       wanted;
	const uint64_t longest = (uint64_t)ms * NS_PER_MS;

	pthread_mutex_lock(&o->lock);
	while (!o->over) {
		const uint64_t now = now_ns();
		const uint64_t period = now - o->active_ns < longest ?
						(uint64_t)SERVE_MIN_MS * NS_PER_MS :
						longest;
		const uint64_t next = now + period;
		const struct timespec at = { (time_t)(next / 1000000000),
					     (long)(next % 1000000000) };

		pthread_cond_timedwait(&o->ends, &o->lock, &at);
		if (o->over || now_ns() - o->progressed_ns < period)
			continue;
		progress(o);
		if (has_news(o))
			wakeup_if_armed(&o->wakeup);
	}
	pthread_mutex_unlock(&o->lock);
	return NULL;
}

/* ---- meeting peers ---------------------------------------------------------------- */

static int ofi_record(struct transport *t, uint8_t *bytes, size_t *len_out)
{
	struct ofi *o = ofi_of(t);
	int rc;

	pthread_mutex_lock(&o->lock);
	rc = ofi_record_write(o->fabric, o->rank, bytes, len_out);
	pthread_mutex_unlock(&o->lock);
	return rc;
}

static int ofi_admit(struct transport *t, const struct peer_keys *keys)
{
	struct ofi *o = ofi_of(t);

	pthread_mutex_lock(&o->lock);
	ofi_proofs_admit(o->proofs, keys);
	pthread_mutex_unlock(&o->lock);
	return SLUICE_OK;
}

static int connect_locked(struct ofi *o, int rank, const uint8_t *record, size_t len,
			  struct endpoint **out)
{
	struct ofi_peer *p;
	const uint8_t *name;
	enum ofi_notice notice;
	int rc;

	if (rank < 0 || rank >= o->size || rank == o->rank || ofi_table_of_rank(&o->table, rank) ||
	    !ofi_proofs_admitted(o->proofs))
		return fail(SLUICE_EINVAL, "ofi: rank %d cannot connect to rank %d of %d%s",
			    o->rank, rank, o->size,
			    ofi_proofs_admitted(o->proofs) ? "" :
							     ": it has no keys of its peers yet");
	name = ofi_record_check(o->fabric, o->rank, rank, record, len, &notice, &rc);
	if (!name)
		return rc;
	rc = ofi_peer_open(&o->all, rank, ofi_table_number(&o->table), name, notice, &p);
	if (rc)
		return rc;
	rc = ofi_table_add(&o->table, p);
	if (rc) {
		o->all.joining--;
		ofi_peer_close(&p);
		return rc;
	}
	o->next_look_ns = 0;
	*out = ofi_peer_endpoint(p);
	return SLUICE_OK;
}

static int ofi_connect(struct transport *t, int rank, const uint8_t *record, size_t len,
		       struct endpoint **out)
{
	struct ofi *o = ofi_of(t);
	int rc;

	pthread_mutex_lock(&o->lock);
	rc = connect_locked(o, rank, record, len, out);
	pthread_mutex_unlock(&o->lock);
	return rc;
}

static int ofi_ready(struct endpoint *e)
{
	struct ofi *o = ofi_of(e->transport);
	int rc;

	pthread_mutex_lock(&o->lock);
	rc = ofi_peer_ready(ofi_peer_of(e));
	pthread_mutex_unlock(&o->lock);
	return rc;
}

static uint64_t ofi_moved(struct endpoint *e)
{
	struct ofi *o = ofi_of(e->transport);
	uint64_t moved;

	pthread_mutex_lock(&o->lock);
	moved = ofi_peer_moved(ofi_peer_of(e));
	pthread_mutex_unlock(&o->lock);
	return moved;
}

/* The peer's address stays usable for the last messages, which inform the peer that it was dropped
 * from the job. */
static void ofi_revoke(struct endpoint *e)
{
	struct ofi *o = ofi_of(e->transport);

	pthread_mutex_lock(&o->lock);
	ofi_memory_revoke(o->memory, e->peer);
	pthread_mutex_unlock(&o->lock);
}

/* ---- regions and transfers -------------------------------------------------------- */

static int ofi_describe(struct endpoint *e, const struct region *region,
			uint8_t descriptor[REGION_DESCRIPTOR_BYTES])
{
	struct ofi *o = ofi_of(e->transport);
	int rc;

	if (!region->access)
		return fail(SLUICE_EINVAL, "a region for local use cannot be described to rank %d",
			    e->peer);
	memset(descriptor, 0, REGION_DESCRIPTOR_BYTES);
	pthread_mutex_lock(&o->lock);
	rc = ofi_peer_check(ofi_peer_of(e));
	if (!rc)
		rc = ofi_memory_describe(o->memory, e->peer, region, 0, region->bytes, descriptor);
	pthread_mutex_unlock(&o->lock);
	return rc;
}

static int ofi_remote_open(struct endpoint *e, const uint8_t descriptor[REGION_DESCRIPTOR_BYTES],
			   struct remote **out)
{
	struct ofi *o = ofi_of(e->transport);
	int rc;

	pthread_mutex_lock(&o->lock);
	rc = ofi_peer_check(ofi_peer_of(e));
	if (!rc)
		rc = ofi_memory_reach(o->memory, e, descriptor, out);
	pthread_mutex_unlock(&o->lock);
	return rc;
}

static int ofi_control(struct endpoint *e, struct remote **out)
{
	struct ofi *o = ofi_of(e->transport);
	int rc;

	pthread_mutex_lock(&o->lock);
	rc = ofi_peer_control(ofi_peer_of(e), out);
	pthread_mutex_unlock(&o->lock);
	return rc;
}

static int ofi_post(struct endpoint *e, const struct transfer *x)
{
	struct ofi *o = ofi_of(e->transport);
	int rc;

	pthread_mutex_lock(&o->lock);
	rc = ofi_peer_post(ofi_peer_of(e), x);
	pthread_mutex_unlock(&o->lock);
	return rc;
}

static void drive(void *context)
{
	progress(context);
}

/* Tests whether puts can read this device memory. Each region is tested only once. */
static int try_device_memory(struct ofi *o, const struct region *region)
{
	const struct ofi_driver driver = { .progress = drive, .context = o };
	char why[OFI_TRIAL_WHY_BYTES] = "";
	struct fid_mr *mr;
	int err, works = 0;

	if (!ofi_fabric_has_device_memory(o->fabric)) {
		snprintf(why, sizeof(why), "the provider registers no device memory");
	} else {
		err = ofi_memory_try_device(o->memory, region, &mr);
		if (err)
			snprintf(why, sizeof(why), "fi_mr_regattr: %s",
				 ofi_fabric_error(o->fabric, err));
		else
			works = !ofi_trial_of_device(o->trial, mr, region->device, &driver, why);
	}
	ofi_memory_tried(o->memory, region, works);
	log_line(LOG_INFO, "rdma", "%zu bytes of device memory: %s %s%s", region->bytes,
		 ofi_fabric_text(o->fabric),
		 works ? "reads it directly" : "does not read it directly: ", why);
	return works;
}

static int ofi_prepare(struct endpoint *e, const struct region *region, const void *at, size_t n)
{
	struct ofi *o = ofi_of(e->transport);
	int rc;

	(void)at;
	(void)n;
	if (!region)
		return ofi_fabric_has_device_memory(o->fabric);
	if (!region->device)
		return 1;
	pthread_mutex_lock(&o->lock);
	rc = ofi_memory_in_place(o->memory, region);
	if (rc == OFI_UNTRIED)
		rc = try_device_memory(o, region);
	pthread_mutex_unlock(&o->lock);
	return rc;
}

/* ---- sleeping ---------------------------------------------------------------------- */

/* The period at which a sleeper must poll in addition to other wake-ups. */
static int tick_of(struct ofi *o)
{
	if (!ofi_table_number(&o->table))
		return 0;
	return ofi_fabric_fd(o->fabric) < 0 || ofi_fabric_naps(o->fabric) ? TICK_BLIND_NS : TICK_NS;
}

static int ofi_arm(struct transport *t)
{
	struct ofi *o = ofi_of(t);
	int ids[WAKEUP_BATCH], news;

	pthread_mutex_lock(&o->lock);
	/* Clears the earlier report of the completion queue's descriptor, and then looks one last
	 * time. */
	wakeup_ready(&o->wakeup, ids);
	progress(o);
	news = has_news(o) || !ofi_fabric_may_sleep(o->fabric);
	if (!news)
		wakeup_arm(&o->wakeup, tick_of(o));
	pthread_mutex_unlock(&o->lock);
	return news;
}

static void ofi_disarm(struct transport *t)
{
	struct ofi *o = ofi_of(t);

	pthread_mutex_lock(&o->lock);
	wakeup_disarm(&o->wakeup);
	pthread_mutex_unlock(&o->lock);
}

static void ofi_cancel(struct transport *t)
{
	struct ofi *o = ofi_of(t);

	pthread_mutex_lock(&o->lock);
	wakeup_cancel(&o->wakeup);
	pthread_mutex_unlock(&o->lock);
}

static int ofi_fd(struct transport *t)
{
	return wakeup_fd(&ofi_of(t)->wakeup);
}

/* ---- opening and closing ---------------------------------------------------------- */

/* Allocates libfabric's memory for messages. */
static int open_buffers(struct ofi *o, size_t receives)
{
	void *desc = NULL;
	int rc = region_open(ofi_messages_bytes(o->size, receives), 0, "ofi", &o->buffers);

	if (!rc)
		rc = ofi_memory_local(o->memory, o->buffers, &desc);
	if (!rc)
		rc = ofi_messages_open(o->fabric, o->size, receives, o->buffers->base, desc,
				       &o->messages);
	if (rc)
		return rc;
	ofi_messages_receive(o->messages);
	rc = ofi_trial_open(o->fabric, o->messages, &o->trial);
	o->narrow = ofi_fabric_is_narrow(o->fabric);
	return rc;
}

/* In some releases of libfabric, the descriptor stays readable after the first completion. The
 * wake-up therefore reacts only to changes of the descriptor, which every packet causes. */
static int open_wakeup(struct ofi *o)
{
	const int fd = ofi_fabric_fd(o->fabric);
	int rc = wakeup_open(&o->wakeup, WAKEUP_EVENT, "ofi");

	if (!rc)
		rc = wakeup_open_timer(&o->wakeup);
	return rc || fd < 0 ? rc : wakeup_watch(&o->wakeup, fd, WAKEUP_NO_ID, 1);
}

static int start_thread(struct ofi *o)
{
	int err = thread_start(&o->thread, serve_peers, o);

	if (err)
		return fail(SLUICE_ENOMEM, "ofi: cannot start a thread: %s", errno_text(err));
	o->serving = 1;
	return SLUICE_OK;
}

static uint32_t mask_for(int size)
{
	uint32_t mask = 1;

	while (mask < (uint32_t)size - 1)
		mask = mask << 1 | 1;
	return mask;
}

static int open_transport_parts(struct ofi *o, const struct transport_config *config)
{
	const uint32_t events = config->queue_depth +
				(uint32_t)(o->size < 64 ? o->size : 64) * FLOW_TRANSFERS;
	const int most = o->size - 1,
		  expected = config->expected && config->expected < most ? config->expected : most;
	int rc = ofi_fabric_open(config->provider, config->interface, config->ports, &o->fabric);

	if (!rc)
		rc = ofi_memory_open(o->fabric, o->rank, o->size, &o->lock, &o->memory);
	if (!rc)
		rc = ofi_proofs_open(o->rank, o->size, &o->proofs);
	if (!rc)
		rc = event_queue_open(&o->events, events + 2 * BATCH);
	if (!rc)
		rc = open_buffers(o, ofi_fabric_receives(o->fabric, config->queue_depth));
	if (!rc)
		rc = open_wakeup(o);
	if (rc)
		return rc;
	o->all = (struct ofi_peers){
		.transport = &o->transport,
		.size = o->size,
		.lost_after_ms = o->lost_after_ms,
		.link_lost_after_ms = o->link_lost_after_ms,
		.control = config->control,
		.control_line_bytes = config->control_line_bytes,
		.token_mask = mask_for(o->size),
		.fabric = o->fabric,
		.memory = o->memory,
		.proofs = o->proofs,
		.messages = o->messages,
		.events = &o->events,
		.copies = peer_memory_new("copies", 0, ofi_flow_copy_bytes()),
	};
	o->transport.caution = ofi_fabric_caution(o->fabric);
	rc = ofi_peers_grow(&o->all, expected);
	return rc ? rc : start_thread(o);
}

/* Returns when the last messages are in place at the living peers, or after about CLOSE_MS. */
static void flush_peers(struct ofi *o)
{
	struct poll_limit limit = poll_limit_after_ms(CLOSE_MS);
	int left = 1;

	for (int i = 0; i < ofi_table_number(&o->table); i++)
		ofi_peer_flush(ofi_table_at(&o->table, i));
	while (left && !poll_limit_reached(&limit)) {
		event_queue_forget(&o->events);
		progress(o);
		left = 0;
		for (int i = 0; i < ofi_table_number(&o->table); i++)
			left += ofi_peer_is_busy(ofi_table_at(&o->table, i), now_ns());
		sched_yield();
	}
}

static void stop_thread(struct ofi *o)
{
	if (!o->serving)
		return;
	pthread_mutex_lock(&o->lock);
	o->over = 1;
	pthread_cond_signal(&o->ends);
	pthread_mutex_unlock(&o->lock);
	pthread_join(o->thread, NULL);
}

static void ofi_close(struct transport **t)
{
	struct ofi *o;

	if (!t || !*t)
		return;
	o = ofi_of(*t);
	stop_thread(o);
	if (o->serving)
		flush_peers(o);
	if (o->fabric)
		ofi_fabric_stop(o->fabric);
	ofi_table_close(&o->table);
	ofi_trial_end(o->trial);
	ofi_memory_close(&o->memory);
	region_close(&o->buffers);
	peer_memory_close(&o->all.copies);
	ofi_messages_close(&o->messages);
	wakeup_close(&o->wakeup);
	if (o->fabric)
		ofi_fabric_close(&o->fabric);
	ofi_trial_close(&o->trial);
	ofi_proofs_close(&o->proofs);
	event_queue_close(&o->events);
	ofi_table_free(&o->table);
	pthread_cond_destroy(&o->ends);
	pthread_mutex_destroy(&o->lock);
	free(o);
	*t = NULL;
}

static int ofi_open(const struct transport_config *config, struct transport **out)
{
	pthread_condattr_t monotonic;
	struct transport *t;
	struct ofi *o;
	int rc;

	if (config->size < 1 || config->size > MAX_PEERS || config->rank < 0 ||
	    config->rank >= config->size || config->queue_depth == 0 ||
	    config->queue_depth > 1 << 20)
		return fail(SLUICE_EINVAL,
			    "ofi: rank %d of %d and a queue of %u transfers are not valid",
			    config->rank, config->size, config->queue_depth);
	o = calloc(1, sizeof(*o));
	if (!o)
		return fail(SLUICE_ENOMEM, "ofi: no memory for %zu bytes", sizeof(*o));
	t = &o->transport;
	t->ops = &ofi_transport;
	o->rank = config->rank;
	o->size = config->size;
	o->lost_after_ms = config->lost_after_ms;
	o->link_lost_after_ms = config->link_lost_after_ms > 0 ? config->link_lost_after_ms :
								 config->lost_after_ms;
	o->wakeup = WAKEUP_NONE;
	o->last_look_ns = o->progressed_ns = now_ns();
	pthread_mutex_init(&o->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&o->ends, &monotonic);
	pthread_condattr_destroy(&monotonic);
	rc = ofi_table_open(&o->table, o->size);
	if (!rc)
		rc = open_transport_parts(o, config);
	if (rc) {
		ofi_close(&t);
		return rc;
	}
	*out = t;
	return SLUICE_OK;
}

const struct transport_ops ofi_transport = {
	.name = "ofi",
	.farthest = DISTANCE_NETWORK,
	.last_resort = 1,
	.open = ofi_open,
	.close = ofi_close,
	.record = ofi_record,
	.admit = ofi_admit,
	.connect = ofi_connect,
	.ready = ofi_ready,
	.control = ofi_control,
	.describe = ofi_describe,
	.remote_open = ofi_remote_open,
	.remote_close = ofi_memory_leave,
	.revoke = ofi_revoke,
	.post = ofi_post,
	.prepare = ofi_prepare,
	.moved = ofi_moved,
	.poll = ofi_poll,
	.sleep.arm = ofi_arm,
	.sleep.disarm = ofi_disarm,
	.sleep.cancel = ofi_cancel,
	.sleep.fd = ofi_fd,
	.sleep.wake = ofi_wake,
	.moves_by_polling = 1,
};
