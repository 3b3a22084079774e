/* SPDX-License-Identifier: BSD-3-Clause
 * The transport of a rank to itself and, in a simulated job, to the other ranks in its process. It
 * lets the worker half and the shard half of a rank communicate as two ranks do. Copies go through
 * a second mapping of the region. So the kernel keeps a read-only region read-only even here, and a
 * remote stays valid until it is closed. Simulated ranks reach memory by its address. */
#include "base/bytes.h"
#include "base/error.h"
#include "rdma/event_queue.h"
#include "rdma/in_process.h"
#include "rdma/mapping.h"
#include "rdma/transfer.h"
#include "rdma/transport.h"
#include "rdma/wakeup.h"
#include "sluice.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORD_MAGIC = 0x464c4553, RECORD_BYTES = 12 }; /* "SELF", rank, pid */
enum { MAX_QUEUE_DEPTH = 1 << 20 };

struct self {
	struct transport transport;
	struct endpoint *endpoints; /* [rank]; an endpoint has a transport once it is connected */
	int rank, size;
	struct neighbours *neighbours; /* NULL: there is only this rank */
	const struct region *control;  /* the job's */
	struct wakeup wakeup;          /* WAKEUP_NONE in a simulated job, where no thread sleeps */
	struct event_queue imms, dones;
};

struct self_remote {
	struct remote remote;
	void *base;
	struct common *common; /* NULL: base is in `there` */
	struct mapping there;
};

static struct self *self_of(struct transport *t)
{
	return (struct self *)(void *)t; /* its first member */
}

/* Returns the transport at the other end of an endpoint, which belongs to this rank or to another
 * rank in this process. Returns NULL if it is closed. */
static struct self *neighbour(const struct endpoint *e)
{
	struct self *self = self_of(e->transport);

	if (!self->neighbours)
		return self;
	return self->neighbours->at[e->peer] ? self_of(self->neighbours->at[e->peer]) : NULL;
}

static void self_close(struct transport **t)
{
	struct self *self;

	if (!t || !*t)
		return;
	self = self_of(*t);
	if (self->neighbours)
		self->neighbours->at[self->rank] = NULL;
	event_queue_close(&self->imms);
	event_queue_close(&self->dones);
	wakeup_close(&self->wakeup);
	free(self->endpoints);
	free(self);
	*t = NULL;
}

static int self_open(const struct transport_config *config, struct transport **out)
{
	struct transport *t;
	struct self *self;
	int rc;

	if (config->rank < 0 || config->rank >= config->size || config->queue_depth == 0 ||
	    config->queue_depth > MAX_QUEUE_DEPTH)
		return fail(SLUICE_EINVAL,
			    "self: rank %d of %d and a queue of %u transfers are not valid",
			    config->rank, config->size, config->queue_depth);
	self = calloc(1, sizeof(*self));
	if (!self)
		return fail(SLUICE_ENOMEM, "self: no memory for %zu bytes", sizeof(*self));
	t = &self->transport;
	t->ops = &self_transport;
	self->rank = config->rank;
	self->control = config->control;
	self->size = config->size;
	self->wakeup = WAKEUP_NONE;
	self->endpoints = calloc((size_t)config->size, sizeof(*self->endpoints));
	if (!self->endpoints) {
		rc = fail(SLUICE_ENOMEM, "self: no memory for %d endpoints", config->size);
		goto err_close;
	}
	rc = config->neighbours ? SLUICE_OK : wakeup_open(&self->wakeup, WAKEUP_EVENT, "self");
	if (rc)
		goto err_close;
	rc = event_queue_open(&self->imms, config->queue_depth);
	if (rc)
		goto err_close;
	rc = event_queue_open(&self->dones, config->queue_depth);
	if (rc)
		goto err_close;
	self->neighbours = config->neighbours;
	if (self->neighbours)
		self->neighbours->at[self->rank] = t;
	*out = t;
	return SLUICE_OK;

err_close:
	self_close(&t);
	return rc;
}

static void write_record(int rank, uint8_t *bytes, size_t *len_out)
{
	put_le32(bytes, RECORD_MAGIC);
	put_le32(bytes + 4, (uint32_t)rank);
	put_le32(bytes + 8, (uint32_t)getpid());
	*len_out = RECORD_BYTES;
}

static int self_record(struct transport *t, uint8_t *bytes, size_t *len_out)
{
	write_record(self_of(t)->rank, bytes, len_out);
	return SLUICE_OK;
}

static int self_connect(struct transport *t, int peer, const uint8_t *record, size_t len,
			struct endpoint **out)
{
	struct self *self = self_of(t);
	uint8_t expected[TRANSPORT_RECORD_BYTES];
	size_t expected_len;

	if (peer < 0 || peer >= self->size || (peer != self->rank && !self->neighbours))
		return fail(SLUICE_EINVAL,
			    "the transport self connects rank %d only to itself, not to rank %d",
			    self->rank, peer);
	if (self->endpoints[peer].transport)
		return fail(SLUICE_EINVAL, "self: rank %d is connected already", peer);
	write_record(peer, expected, &expected_len);
	if (len != expected_len || memcmp(record, expected, expected_len) != 0)
		return fail(SLUICE_EWIRE,
			    "self: the record of rank %d came back changed; make sure that no two "
			    "processes have the same rank",
			    peer);
	self->endpoints[peer] = (struct endpoint){ .transport = t, .peer = peer };
	*out = &self->endpoints[peer];
	return SLUICE_OK;
}

static int self_describe(struct endpoint *e, const struct region *region,
			 uint8_t descriptor[REGION_DESCRIPTOR_BYTES])
{
	if (region->access == 0)
		return fail(SLUICE_EINVAL, "a region for local use cannot be described to rank %d",
			    e->peer);
	memset(descriptor, 0, REGION_DESCRIPTOR_BYTES);
	if (region->common)
		in_process_describe(region, descriptor);
	else
		descriptor_of(region, descriptor);
	return SLUICE_OK;
}

static int reach_neighbour(struct endpoint *e, const uint8_t descriptor[REGION_DESCRIPTOR_BYTES],
			   struct remote **out)
{
	struct self_remote *remote = calloc(1, sizeof(*remote));
	int rc;

	if (!remote)
		return fail(SLUICE_ENOMEM, "self: no memory for %zu bytes", sizeof(*remote));
	remote->remote.endpoint = e;
	rc = in_process_reach(descriptor, e->peer, &remote->remote, &remote->common);
	if (rc) {
		free(remote);
		return rc;
	}
	remote->base = common_base(remote->common);
	*out = &remote->remote;
	return SLUICE_OK;
}

static int self_remote_open(struct endpoint *e, const uint8_t descriptor[REGION_DESCRIPTOR_BYTES],
			    struct remote **out)
{
	struct self_remote *remote;
	struct descriptor d;
	int rc;

	if (self_of(e->transport)->neighbours)
		return reach_neighbour(e, descriptor, out);
	rc = descriptor_decode(descriptor, e->peer, &d);
	if (rc)
		return rc;
	if (d.pid != getpid())
		return fail(SLUICE_EWIRE, "self: the region belongs to pid %d, but this is pid %d",
			    (int)d.pid, (int)getpid());
	remote = calloc(1, sizeof(*remote));
	if (!remote)
		return fail(SLUICE_ENOMEM, "self: no memory for %zu bytes", sizeof(*remote));
	remote->remote = (struct remote){ .endpoint = e, .bytes = d.bytes, .access = d.access };
	rc = mapping_open(d.fd, e->peer, &d, &remote->there);
	if (rc) {
		free(remote);
		return rc;
	}
	remote->base = remote->there.base;
	*out = &remote->remote;
	return SLUICE_OK;
}

static int self_control(struct endpoint *e, struct remote **out)
{
	const struct self *there = neighbour(e);
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	int rc;

	if (!there)
		return fail(SLUICE_EPEER, "self: simulated rank %d left before it was connected",
			    e->peer);
	if (!there->control)
		return fail(SLUICE_EINVAL, "self: rank %d was opened without a control region",
			    e->peer);
	rc = self_describe(e, there->control, descriptor);
	if (rc)
		return rc;
	return self_remote_open(e, descriptor, out);
}

static void self_remote_close(struct remote **r)
{
	struct self_remote *remote;

	if (!r || !*r)
		return;
	remote = (struct self_remote *)(void *)*r;
	if (remote->common)
		common_release(&remote->common);
	else
		mapping_close(&remote->there);
	free(remote);
	*r = NULL;
}

static void self_wake(struct transport *t)
{
	wakeup_wake(&self_of(t)->wakeup);
}

static void queue_event(struct self *self, struct event_queue *queue, const struct event *event)
{
	event_queue_put(queue, event);
	wakeup_if_armed(&self->wakeup);
}

static int self_post(struct endpoint *e, const struct transfer *x)
{
	struct self *self = self_of(e->transport), *peer = neighbour(e);
	int rc, ends = transfer_ends(x);
	char *there;

	rc = transfer_check(e, x);
	if (rc)
		return rc;
	if (!peer)
		return SLUICE_EPEER; /* a simulated rank that has left no longer reads its memory */
	if ((x->kind == TRANSFER_PUT_NOTIFY && event_queue_full(&peer->imms)) ||
	    (ends && event_queue_full(&self->dones)))
		return SLUICE_EAGAIN;
	there = (char *)((struct self_remote *)(void *)x->remote)->base + x->offset;
	if (x->bytes > 0 && x->kind == TRANSFER_GET)
		memcpy(x->local, there, x->bytes);
	else if (x->bytes > 0)
		memcpy(there, x->local, x->bytes);
	transfer_count(e, x);
	if (x->kind == TRANSFER_PUT_NOTIFY)
		queue_event(
			peer, &peer->imms,
			&(struct event){ .kind = EVENT_IMM, .peer = self->rank, .imm = x->imm });
	if (ends)
		queue_event(self, &self->dones,
			    &(struct event){
				    .kind = EVENT_DONE, .peer = e->peer, .cookie = x->cookie });
	return SLUICE_OK;
}

static int self_poll(struct transport *t, struct event *events, int n)
{
	struct self *self = self_of(t);
	int taken;

	if (event_queue_empty(&self->dones) && event_queue_empty(&self->imms))
		return 0; /* this is the usual case */
	taken = event_queue_take(&self->dones, events, n);
	return taken + event_queue_take(&self->imms, events + taken, n - taken);
}

static int self_arm(struct transport *t)
{
	struct self *self = self_of(t);

	if (!event_queue_empty(&self->dones) || !event_queue_empty(&self->imms))
		return 1;
	wakeup_arm(&self->wakeup, 0);
	return 0;
}

static void self_disarm(struct transport *t)
{
	wakeup_disarm(&self_of(t)->wakeup);
}

static void self_cancel(struct transport *t)
{
	wakeup_cancel(&self_of(t)->wakeup);
}

static int self_fd(struct transport *t)
{
	return wakeup_fd(&self_of(t)->wakeup);
}

/* Returns NULL for simulated ranks, because their regions share pages, and callers of this function
 * need whole pages. */
static void *self_address(struct remote *remote)
{
	const struct self_remote *r = (const struct self_remote *)(const void *)remote;

	return remote->access & REGION_WRITE && !r->common ? r->base : NULL;
}

static const void *self_readable(struct remote *remote)
{
	const struct self_remote *r = (const struct self_remote *)(const void *)remote;

	return remote->access & REGION_READ ? r->base : NULL;
}

const struct transport_ops self_transport = {
	.name = "self",
	.farthest = DISTANCE_PROCESS,
	.open = self_open,
	.close = self_close,
	.record = self_record,
	.connect = self_connect,
	.control = self_control,
	.describe = self_describe,
	.remote_open = self_remote_open,
	.remote_close = self_remote_close,
	.post = self_post,
	.poll = self_poll,
	.sleep.arm = self_arm,
	.sleep.disarm = self_disarm,
	.sleep.cancel = self_cancel,
	.sleep.fd = self_fd,
	.sleep.wake = self_wake,
	.address = self_address,
	.readable = self_readable,
	.copies_at_post = 1,
};
