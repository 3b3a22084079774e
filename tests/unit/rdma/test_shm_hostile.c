/* SPDX-License-Identifier: BSD-3-Clause
 * The shm transport against a hostile peer: damaged and forged records and descriptors, and a
 * mailbox with false positions. */
#include "base/bytes.h"
#include "rdma/shm_record.h"
#include "shm_trio.h"
#include "sluice.h"
#include "cases.h"
#include <string.h>
#include <unistd.h>

/* ---- records and descriptors ------------------------------------------------- */

FRESH(connect__own_rank_outside_or_twice__is_EINVAL)
{
	uint8_t record[TRANSPORT_RECORD_BYTES];
	struct endpoint *e = NULL;
	size_t len;

	assert_int_equal(ops->record(trio->t[1], record, &len), 0);
	assert_int_equal(ops->connect(trio->t[0], 1, record, len, &e), SLUICE_EINVAL);
	assert_int_equal(ops->connect(trio->t[1], 1, record, len, &e), SLUICE_EINVAL);
	assert_int_equal(ops->connect(trio->t[0], -1, record, len, &e), SLUICE_EINVAL);
	assert_int_equal(ops->connect(trio->t[0], RANKS, record, len, &e), SLUICE_EINVAL);
	assert_null(e);
}

/* Rank 1 tries to connect to rank 2 with a changed or shortened record of rank 2. */
static int connect_by(struct trio *trio, const uint8_t *record, size_t len)
{
	struct endpoint *e = NULL;
	int files = open_files();
	int rc = ops->connect(trio->t[1], 2, record, len, &e);

	assert_true(rc < 0);
	assert_null(e);
	assert_int_equal(open_files(), files);
	return rc;
}

FRESH(connect__damaged_or_short_card__is_EWIRE)
{
	uint8_t record[TRANSPORT_RECORD_BYTES], bad[TRANSPORT_RECORD_BYTES];
	size_t len, i;

	assert_int_equal(ops->record(trio->t[2], record, &len), 0);
	for (i = 0; i < len; i++)
		assert_int_equal(connect_by(trio, record, i), SLUICE_EWIRE);
	for (i = 0; i < len * 8; i++) {
		memcpy(bad, record, sizeof(bad));
		bad[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_equal(connect_by(trio, bad, len), SLUICE_EWIRE);
	}
	connect_to(trio->t[1], trio->t[2], 2); /* the unchanged record still works */
}

/* Changes one field and makes the CRCs match. */
static int connect_forged(struct trio *trio, size_t at, uint32_t value)
{
	uint8_t record[TRANSPORT_RECORD_BYTES];
	size_t len;

	assert_int_equal(ops->record(trio->t[2], record, &len), 0);
	put_le32(record + at, value);
	put_le32(record + 48 + 60, crc32c(0, record + 48, 60));
	put_le32(record + len - 4, crc32c(0, record, len - 4));
	return connect_by(trio, record, len);
}

FRESH(connect__forged_card__is_refused)
{
	uint32_t pid = (uint32_t)getpid();

	assert_int_equal(connect_forged(trio, 4, 1), SLUICE_EWIRE);         /* rank */
	assert_int_equal(connect_forged(trio, 8, RANKS + 1), SLUICE_EWIRE); /* size */
	assert_int_equal(connect_forged(trio, 12, pid + 1), SLUICE_EWIRE); /* the pid is not that of
									      the mailbox */
	assert_int_equal(connect_forged(trio, 20, 0), SLUICE_EWIRE);       /* capacity */
	assert_int_equal(connect_forged(trio, 20, 7), SLUICE_EWIRE);
	assert_int_equal(connect_forged(trio, 20, CAPACITY * 4), SLUICE_EWIRE);
	assert_int_equal(connect_forged(trio, 20, 1u << 31), SLUICE_EWIRE);
	assert_int_equal(connect_forged(trio, 24, 0x80000000u), SLUICE_EWIRE); /* pipe */
	assert_int_equal(connect_forged(trio, 24, 0x7fffffff), SLUICE_EPEER);
	assert_int_equal(connect_forged(trio, 24, (uint32_t)trio->log->fd), SLUICE_EPEER);
	assert_int_equal(connect_forged(trio, 32, 1), SLUICE_EPEER); /* start time */
	assert_non_null(strstr(sluice_last_error(), "belongs to another"));
	assert_int_equal(connect_forged(trio, 40, 1), SLUICE_ENOSUPP); /* pid namespace */
	assert_non_null(strstr(sluice_last_error(), "container"));
	assert_int_equal(connect_forged(trio, 48 + 4, REGION_READ),
			 SLUICE_EWIRE); /* mailbox access */
	assert_int_equal(connect_forged(trio, 48 + 12, (uint32_t)trio->inbox->fd), SLUICE_EPEER);
	assert_int_equal(connect_forged(trio, 48 + 16, 4096), SLUICE_EWIRE); /* its bytes */
	assert_int_equal(connect_forged(trio, 48 + 24, 1), SLUICE_EPEER);    /* its nonce */
	assert_non_null(strstr(sluice_last_error(), "nonce"));
}

static int open_forged(struct trio *trio, size_t at, uint32_t value)
{
	uint8_t bytes[REGION_DESCRIPTOR_BYTES];
	struct remote *remote = NULL;
	int files = open_files(), rc;

	assert_int_equal(ops->describe(trio->from_0[1], trio->log, bytes), 0);
	put_le32(bytes + at, value);
	put_le32(bytes + 60, crc32c(0, bytes, 60));
	rc = ops->remote_open(trio->to_0[1], bytes, &remote);
	assert_null(remote);
	assert_int_equal(open_files(), files);
	return rc;
}

FRESH(remote_open__forged_descriptor__is_refused)
{
	assert_int_equal(open_forged(trio, 0, 0), SLUICE_EWIRE);
	assert_int_equal(open_forged(trio, 4, REGION_WRITE), SLUICE_EPEER);
	assert_int_equal(open_forged(trio, 4, REGION_READ | REGION_WRITE), SLUICE_EPEER);
	assert_int_equal(open_forged(trio, 8, (uint32_t)getppid()), SLUICE_EWIRE);
	assert_int_equal(open_forged(trio, 12, 0x7fffffff), SLUICE_EPEER);
	assert_int_equal(open_forged(trio, 12, (uint32_t)trio->inbox->fd), SLUICE_EPEER);
	assert_int_equal(open_forged(trio, 12, (uint32_t)ops->sleep.fd(trio->t[0])),
			 SLUICE_EDEVICE);
	assert_int_equal(open_forged(trio, 16, BYTES - 1), SLUICE_EPEER);
	assert_int_equal(open_forged(trio, 20, 1), SLUICE_EPEER); /* 4 GiB longer */
	assert_int_equal(open_forged(trio, 24, 1), SLUICE_EPEER);
	assert_non_null(strstr(sluice_last_error(), "nonce"));
}

FRESH(describe__local_region__is_EINVAL)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];

	assert_int_equal(ops->describe(trio->from_0[1], trio->local, descriptor), SLUICE_EINVAL);
}

FRESH(control__of_a_peer__is_reached_by_the_card_alone)
{
	struct remote *control = NULL;
	struct transfer x = put(trio, 1, 30, 8);

	assert_int_equal(ops->control(trio->to_0[1], &control), 0);
	assert_int_equal(control->bytes, BYTES);
	assert_int_equal(control->access, REGION_WRITE);
	x.remote = control;
	fill(trio->local->base, 8, 4);
	post_now(trio->to_0[1], x);
	assert_true(filled((uint8_t *)trio->inbox->base + 30, 8, 4));
	ops->remote_close(&control);
	/* Rank 1 has no control region. */
	assert_int_equal(ops->control(trio->from_0[1], &control), SLUICE_EWIRE);
	assert_null(control);
}

/* ---- a hostile mailbox ----------------------------------------------------- */

/* Returns the ring in rank 0's mailbox that rank 1 writes, as mapped by rank 1. */
static struct mailbox_ring *ring_of_rank_1(struct trio *trio)
{
	uint8_t bytes[TRANSPORT_RECORD_BYTES];
	struct descriptor mailbox;
	struct shm_record record;
	struct mapping there;
	size_t n;

	assert_int_equal(ops->record(trio->t[0], bytes, &n), 0);
	assert_int_equal(shm_record_decode(bytes, n, 0, RANKS, &record, &mailbox), 0);
	assert_int_equal(mapping_open(mailbox.fd, 0, &mailbox, &there), 0);
	return mailbox_ring(there.base, 1, record.capacity);
}

/* The head has its own cache line before the entries: see mailbox.c. */
static uint64_t *head_of(struct mailbox_ring *ring)
{
	return (uint64_t *)(void *)ring;
}

static uint64_t *entry_of(struct mailbox_ring *ring, uint32_t i)
{
	return (uint64_t *)(void *)((char *)ring + 64) + i;
}

FRESH(poll__entry_of_an_impossible_round__sender_is_gone_once)
{
	static const uint32_t lies[] = { 2, 3, 0x80000000u, UINT32_MAX };
	void *state = trio;

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct event events[4 * CAPACITY];
		struct transfer x;

		post_now(trio->to_0[1], notify(trio, 1, 11));
		assert_int_equal(ops->poll(trio->t[0], events, 4 * CAPACITY), 1);
		*entry_of(ring_of_rank_1(trio), 1) = (uint64_t)lies[i] << 32;
		post_now(trio->to_0[2], notify(trio, 2, 22));
		assert_int_equal(ops->poll(trio->t[0], events, 4 * CAPACITY), 2);
		assert_int_equal(events[0].kind + events[1].kind, EVENT_GONE + EVENT_IMM);
		if (events[0].kind == EVENT_IMM)
			events[0] = events[1];
		assert_int_equal(events[0].peer, 1);
		assert_non_null(strstr(events[0].text, "invalid position"));
		x = notify(trio, 1, 12);
		ops->post(trio->to_0[1], &x);
		assert_int_equal(ops->sleep.arm(trio->t[0]), 0);
		assert_false(readable(ops->sleep.fd(trio->t[0]), 0));
		ops->sleep.disarm(trio->t[0]);
		assert_int_equal(ops->poll(trio->t[0], events, 4), 0);
		x.remote = NULL;
		assert_int_equal(ops->post(trio->from_0[1], &x), SLUICE_EPEER);
		trio_close(&state);
		trio_open(&state);
	}
}

FRESH(poll__sender_fills_the_ring_at_once__gives_no_more_than_its_capacity)
{
	struct event events[4 * CAPACITY];

	for (uint32_t i = 0; i < CAPACITY; i++)
		*entry_of(ring_of_rank_1(trio), i) = 1ull << 32 | i;
	assert_int_equal(ops->poll(trio->t[0], events, 4 * CAPACITY), CAPACITY);
	assert_int_equal(ops->poll(trio->t[0], events, 4 * CAPACITY), 0);
}

FRESH(notify__receiver_position_impossible__is_EWIRE)
{
	struct transfer x = notify(trio, 1, 0);
	uint32_t i;

	for (i = 0; i < CAPACITY; i++)
		post_now(trio->to_0[1], x);
	*head_of(ring_of_rank_1(trio)) = 1000;
	assert_int_equal(ops->post(trio->to_0[1], &x), SLUICE_EWIRE);
	assert_int_equal(ops->post(trio->to_0[1], &x), SLUICE_EWIRE);
}

/* The round numbers of the entries wrap after 2^32 rounds. */
TEST(mailbox__rounds_wrap__keeps_order)
{
	static uint8_t memory[4096] __attribute__((aligned(64)));
	struct mailbox_ring *ring = mailbox_ring(memory, 1, 4);
	struct mailbox_writer w;
	struct mailbox_reader r;
	uint32_t i, word;

	assert_int_equal(mailbox_capacity(3), 4);
	assert_true(mailbox_bytes(2, 4) <= sizeof(memory));
	mailbox_writer_init(&w, ring, 4);
	mailbox_reader_init(&r, ring, 4);
	w.head_seen = *head_of(ring) = 4 * (uint64_t)(UINT32_MAX - 3);
	mailbox_move(&w.at, w.head_seen);
	mailbox_move(&r.at, w.head_seen);
	for (i = 0; i < 4; i++) /* from the previous round */
		*entry_of(ring, i) = (uint64_t)(UINT32_MAX - 3) << 32;
	for (i = 0; i < 100; i++) {
		assert_int_equal(mailbox_waiting(&r), i > 0);
		while (mailbox_room(&w) == 1)
			mailbox_write(&w, (uint32_t)w.at.position * 3);
		assert_int_equal(mailbox_room(&w), 0);
		assert_int_equal(mailbox_waiting(&r), 1);
		assert_int_equal(mailbox_take(&r, &word), 1);
		assert_int_equal(word, (uint32_t)(r.at.position - 1) * 3);
	}
	while (i++ < 103)
		assert_int_equal(mailbox_take(&r, &word), 1);
	assert_int_equal(mailbox_take(&r, &word), 0);
	assert_int_equal(mailbox_waiting(&r), 0);
}
