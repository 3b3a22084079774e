/* SPDX-License-Identifier: BSD-3-Clause
 * The card of fake_fabric.h: packets of WRITEs on their way to memory. */
#include "fake_fabric.h"
#include <stdlib.h>
#include <string.h>

struct packet {
	struct packet *next;
	uint64_t number; /* in the order in which packets are sent */
	uint8_t *to;
	uint32_t n, qpn;
	uint8_t bytes[];
};

static struct packet *packets; /* the newest first */
static uint32_t on_their_way;
static uint64_t last_number, dice = 88172645463325252;

static uint32_t roll(uint32_t sides)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (uint32_t)(dice >> 32) % sides;
}

void fake_move_bytes(uint8_t *to, const uint8_t *from, uint32_t n)
{
	uint32_t i = 0;

	if (((uintptr_t)to | (uintptr_t)from) % sizeof(uint64_t) == 0)
		for (; n - i >= sizeof(uint64_t); i += (uint32_t)sizeof(uint64_t))
			__atomic_store_n((uint64_t *)(void *)(to + i),
					 __atomic_load_n((const uint64_t *)(const void *)(from + i),
							 __ATOMIC_RELAXED),
					 __ATOMIC_RELAXED);
	memcpy(to + i, from + i, n - i);
}

static void send_packet(const struct fake_qp *qp, uint8_t *to, const uint8_t *from, uint32_t n)
{
	struct packet *p = fake_new(sizeof(*p) + n);

	*p = (struct packet){
		.next = packets, .number = ++last_number, .to = to, .n = n, .qpn = qp->qp.qp_num
	};
	memcpy(p->bytes, from, n);
	packets = p;
	on_their_way++;
}

void fake_send_packets(const struct fake_qp *qp, uint8_t *to, const uint8_t *from, uint32_t n,
		       uint32_t most)
{
	for (uint32_t at = 0; at < n; at += most)
		send_packet(qp, to + at, from + at, n - at < most ? n - at : most);
}

uint64_t fake_last_packet(void)
{
	return last_number;
}

/* Returns 1 if a packet of the queue pair up to this number is on its way. */
static int is_awaited(uint32_t qpn, uint64_t number)
{
	for (const struct packet *p = packets; p != NULL; p = p->next)
		if (p->qpn == qpn && p->number <= number)
			return 1;
	return 0;
}

int fake_waits(const struct fake_cqe *e)
{
	return fake.placing == FAKE_IN_ANY_ORDER && is_awaited(e->wc.qp_num, e->after);
}

static void place(struct packet **at)
{
	struct packet *p = *at;

	*at = p->next;
	on_their_way--;
	fake_counts.overtakers += (uint64_t)is_awaited(p->qpn, p->number);
	fake_move_bytes(p->to, p->bytes, p->n);
	free(p);
}

void fake_place_some(void)
{
	for (uint32_t n = on_their_way ? roll(2 + on_their_way / 8) : 0; n > 0; n--) {
		struct packet **at = &packets;

		for (uint32_t i = roll(on_their_way); i > 0; i--)
			at = &(*at)->next;
		place(at);
	}
}

void fake_place_all(const struct fake_qp *qp)
{
	for (struct packet **at = &packets; *at != NULL;)
		if (qp == NULL || (*at)->qpn == qp->qp.qp_num)
			place(at);
		else
			at = &(*at)->next;
}
