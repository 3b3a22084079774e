/* SPDX-License-Identifier: BSD-3-Clause
 * Messages that a card reads from GPU memory: over a transport that, as a network does, reads local
 * memory some time after post() returned, whole or not at all when its queue is full. The bits are
 * those of host memory, with all payloads in place, with a card that cannot read them, and with
 * some owners of each kind. Some READs bring an entry that is half written. */
#include "base/error.h"
#include "base/device.h"
#include "gpu_rank.h"
#include "ranks.h"
#include "rdma/transport.h"
#include "worker/device_push.h"
#include "worker/state.h"
#include "cases.h"
#include <string.h>

enum {
	QUEUE = 4,
	POLLS_OF_DELAY = 3,
	INLINE_BYTES = 64,
	COUNT = 6000,
	STEPS = 8,
	RANKS = 3,
	SHARDS = 6,
	TORN_EVERY = 7,
	TORN_HEADER = 10
};

/* ---- shm with delays, which can read the device's memory -------------------- */

struct waiting {
	struct endpoint *endpoint;
	struct transfer transfer;
	uint8_t inlined[INLINE_BYTES];
	int polls;
};
static struct waiting queue[QUEUE];
static unsigned head, tail, from_device, full, gets, torn;
static int steps; /* steps of the models; before them, snapshots are READ */
static struct transport_ops card;
static const struct device_ops *ops;
static int reads; /* whether the card can read device memory; -1: on even ranks only */

static int card_open(const struct transport_config *config, struct transport **out)
{
	int rc = shm_transport.open(config, out);
	if (!rc)
		(*out)->ops = &card;
	return rc;
}

static int card_prepare(struct endpoint *e, const struct region *device, const void *at, size_t n)
{
	if (!device)
		return 1;
	if (!device->device)
		return 1;
	CHECK(device->base == device->device->address);
	CHECK((const uint8_t *)at >= (const uint8_t *)device->base);
	CHECK((const uint8_t *)at + n <= (const uint8_t *)device->base + device->bytes);
	return reads < 0 ? e->peer % 2 == 0 : reads;
}

static int card_post(struct endpoint *e, const struct transfer *x)
{
	if (tail - head == QUEUE) {
		full++;
		return SLUICE_EAGAIN;
	}
	struct waiting *w = &queue[tail++ % QUEUE];
	*w = (struct waiting){ .endpoint = e, .transfer = *x };
	if (x->bytes && !x->local_region) {
		memcpy(w->inlined, x->local, x->bytes);
		w->transfer.local = w->inlined;
	}
	return 0;
}

/* Moves bytes like shm, whose processor cannot itself read a device's memory. */
static int move(const struct waiting *w)
{
	static uint8_t bytes[8 * COUNT];
	struct transfer x = w->transfer;
	struct region here = { .base = bytes, .bytes = sizeof bytes };
	if (x.local_region && x.local_region->device) {
		const uint8_t *base = x.local_region->base;
		CHECK((uint8_t *)x.local >= base && x.bytes <= sizeof bytes);
		CHECK((uint8_t *)x.local + x.bytes <= base + x.local_region->bytes);
		CHECK_OK(ops->copy(bytes, x.local, x.bytes, NULL));
		CHECK_OK(ops->wait(NULL));
		x.local = bytes;
		x.local_region = &here;
		from_device++;
	}
	const int rc = shm_transport.post(w->endpoint, &x);
	if (!rc && x.kind == TRANSFER_GET && steps &&
	    gets++ % TORN_EVERY == 0) /* the reader then reads it again */
		((uint8_t *)x.local)[torn++ % 2 ? x.bytes - 1 : TORN_HEADER] ^= 1;
	return rc;
}

static int card_poll(struct transport *t, struct event *events, int n)
{
	while (head != tail && queue[head % QUEUE].polls++ >= POLLS_OF_DELAY) {
		if (move(&queue[head % QUEUE]) == SLUICE_EAGAIN)
			break;
		head++;
	}
	return shm_transport.poll(t, events, n);
}

static int card_arm(struct transport *t)
{
	return head != tail ? 1 : shm_transport.sleep.arm(t);
}

const struct transport_ops *const transports[] = { &self_transport, &card, NULL };

static void use_card(void)
{
	card = shm_transport;
	card.open = card_open;
	card.post = card_post;
	card.poll = card_poll;
	card.sleep.arm = card_arm;
	card.address = NULL;
	card.readable = NULL;
	card.prepare = card_prepare;
	card.copies_at_post = 0;
}

/* ---- tests ----------------------------------------------------------------- */

static enum payload_way way_to(int owner, int rank)
{
	if (owner == rank)
		return PAYLOAD_PLACED; /* self */
	return (reads < 0 ? owner % 2 == 0 : reads) ? PAYLOAD_IN_PLACE : PAYLOAD_STAGED;
}

static void begin(struct side *s)
{
	steps = 1;
}

/* Checks at the end which payloads went which way. */
static void check_ways(struct side *host, struct side *there)
{
	unsigned in_place = 0;

	if (there->step < STEPS)
		return;
	for (uint32_t s = 0; s < SHARDS; s++) {
		const enum payload_way way = way_to(home_rank(there->model->home, s), there->rank);

		CHECK(on_device_way(there->model->worker, s) == way);
		in_place += way == PAYLOAD_IN_PLACE;
	}
	CHECK(from_device == STEPS * in_place);
	/* a header waited for its queue, and its payload was not sent twice */
	CHECK(full > 0);
	CHECK(torn > 1);
}

static void train(sluice_job *job, int rank, void *argument)
{
	static const struct way here = { 0 }, there = { COMPARED_THERE, .open = there_open,
							.push = there_push, .pull = there_pull };

	ops = device();
	log_capture(); /* a rank's last messages stay in its queue for ever */
	same_bits(job,
		  &(struct training){
			  .attr = { .count = COUNT, .shards = SHARDS, .recipe = argument },
			  .steps = STEPS,
			  .before = begin,
			  .after = check_ways },
		  &here, &there);
}

TEST(push__card_that_reads_gpu_memory_late_sends_the_bits_of_host_memory)
{
	use_card();
	for (reads = -1; reads <= 1; reads++) {
		run_in_job(RANKS, train, "up=topk(0.05) down=topk(0.1) memory=residual");
		run_in_job(RANKS, train, "up=topk(0.2),bf16 down=all memory=residual");
		run_in_job(RANKS, train, "up=all,f16 down=all memory=residual");
	}
}
