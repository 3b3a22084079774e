/* SPDX-License-Identifier: BSD-3-Clause
 * The shm transport between two ranks that share this process (its calls cannot tell): limits, bad
 * cards and descriptors, a hostile mailbox, sleeping. Real processes: test_shm_processes.c. */
#include "base/bytes.h"
#include "rdma/shm.h"
#include "rdma/shm_card.h"
#include "rdma_pair.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { RANKS = 3, DEPTH = 5, CAPACITY = 8, BYTES = 5000 };

/* Rank 0 is told by ranks 1 and 2; all three in this process. */
struct trio {
	struct transport *t[RANKS];
	struct endpoint *to_0[RANKS];          /* of ranks 1 and 2 */
	struct endpoint *from_0[RANKS];        /* rank 0's towards them */
	struct region *inbox, *log, *local;    /* of rank 0, of rank 0, anyone's staging */
	struct remote *to_inbox[RANKS], *to_log[RANKS];
};

static const struct transport_ops *const ops = &shm_transport;

static struct endpoint *connect_to(struct transport *t, struct transport *to, int rank)
{
	uint8_t card[TRANSPORT_CARD_BYTES];
	struct endpoint *e = NULL;
	size_t len;

	assert_int_equal(ops->card(to, card, &len), 0);
	assert_int_equal(len, SHM_CARD_BYTES);
	assert_int_equal(ops->connect(t, rank, card, len, &e), 0);
	assert_int_equal(e->peer, rank);
	return e;
}

static struct remote *reach(struct endpoint *owner, const struct region *region, struct endpoint *e)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	struct remote *remote = NULL;

	assert_int_equal(ops->describe(owner, region, descriptor), 0);
	assert_int_equal(ops->remote_open(e, descriptor, &remote), 0);
	return remote;
}

static int set_up(void **state)
{
	static struct trio trio;
	int r;

	quiet_log();
	memset(&trio, 0, sizeof(trio));
	assert_int_equal(region_open(BYTES, REGION_WRITE, "inbox", &trio.inbox), 0);
	for (r = 0; r < RANKS; r++) {
		struct transport_config config = {.rank = r, .size = RANKS, .queue_depth = DEPTH,
						  .control = r == 0 ? trio.inbox : NULL};

		assert_int_equal(ops->open(&config, &trio.t[r]), 0);
	}
	assert_int_equal(region_open(BYTES, REGION_READ, "log", &trio.log), 0);
	assert_int_equal(region_open(BYTES, 0, "staging", &trio.local), 0);
	for (r = 1; r < RANKS; r++) {
		trio.to_0[r] = connect_to(trio.t[r], trio.t[0], 0);
		trio.from_0[r] = connect_to(trio.t[0], trio.t[r], r);
		trio.to_inbox[r] = reach(trio.from_0[r], trio.inbox, trio.to_0[r]);
		trio.to_log[r] = reach(trio.from_0[r], trio.log, trio.to_0[r]);
	}
	*state = &trio;
	return 0;
}

static int tear_down(void **state)
{
	struct trio *trio = *state;
	int r;

	for (r = 1; r < RANKS; r++) {
		ops->remote_close(&trio->to_inbox[r]);
		ops->remote_close(&trio->to_log[r]);
	}
	for (r = 0; r < RANKS; r++)
		ops->close(&trio->t[r]);
	region_close(&trio->inbox);
	region_close(&trio->log);
	region_close(&trio->local);
	return 0;
}

static struct transfer put(struct trio *trio, int from, uint64_t offset, size_t bytes)
{
	return (struct transfer){.kind = TRANSFER_PUT, .remote = trio->to_inbox[from],
				 .offset = offset, .local_region = trio->local,
				 .local = trio->local->base, .bytes = bytes};
}

static struct transfer notify(struct trio *trio, int from, uint32_t imm)
{
	struct transfer x = put(trio, from, 0, 0);

	x.kind = TRANSFER_PUT_NOTIFY;
	x.imm = imm;
	return x;
}

static struct transfer get(struct trio *trio, int from, uint64_t offset, size_t bytes)
{
	return (struct transfer){.kind = TRANSFER_GET, .remote = trio->to_log[from],
				 .offset = offset, .local_region = trio->local,
				 .local = trio->local->base, .bytes = bytes, .cookie = offset};
}

/* ---- limits --------------------------------------------------------------------------------- */

static void open__impossible_configuration__is_EINVAL(void **state)
{
	static const struct transport_config bad[] = {
		{.rank = -1, .size = 2, .queue_depth = 1}, {.rank = 2, .size = 2, .queue_depth = 1},
		{.rank = 0, .size = 0, .queue_depth = 1}, {.rank = 0, .size = 1, .queue_depth = 0},
		{.rank = 0, .size = 1, .queue_depth = UINT32_MAX},
		{.rank = 0, .size = 1 << 30, .queue_depth = 1},
	};
	struct transport *t = NULL;
	size_t i;

	(void)state;
	quiet_log();
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(ops->open(&bad[i], &t), SLUICE_EINVAL);
	assert_null(t);
}

static void reaches__same_machine_and_other_rank__only(void **state)
{
	struct trio *trio = *state;
	const char *why = NULL;

	assert_int_equal(ops->reaches(trio->t[0], 1, 1, &why), 1);
	assert_null(why);
	assert_int_equal(ops->reaches(trio->t[0], 1, 0, &why), 0);
	assert_non_null(strstr(why, "machine"));
	assert_int_equal(ops->reaches(trio->t[0], 0, 1, &why), 0);
	assert_non_null(strstr(why, "self"));
}

static void post__out_of_bounds_or_not_permitted__is_EINVAL(void **state)
{
	struct trio *trio = *state;
	struct endpoint *e = trio->to_0[1];
	struct transfer x;

	x = put(trio, 1, BYTES - 7, 8);
	assert_int_equal(ops->post(e, &x), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "rank 0"));
	x = put(trio, 1, UINT64_MAX - 3, 8);
	assert_int_equal(ops->post(e, &x), SLUICE_EINVAL);
	x = get(trio, 1, BYTES, 1);
	assert_int_equal(ops->post(e, &x), SLUICE_EINVAL);
	x = put(trio, 1, 0, 8);
	x.remote = trio->to_log[1]; /* readable only */
	assert_int_equal(ops->post(e, &x), SLUICE_EINVAL);
	x = get(trio, 1, 0, 8);
	x.remote = trio->to_inbox[1]; /* writable only */
	assert_int_equal(ops->post(e, &x), SLUICE_EINVAL);
	x = put(trio, 2, 0, 8); /* another endpoint's */
	assert_int_equal(ops->post(e, &x), SLUICE_EINVAL);
	x = put(trio, 1, BYTES - 8, 8);
	assert_int_equal(ops->post(e, &x), 0);
}

static void notify__ring_full__is_EAGAIN_and_nothing_is_copied(void **state)
{
	struct trio *trio = *state;
	struct event event;
	uint32_t i;
	struct transfer x = put(trio, 1, 100, 1);

	for (i = 0; i < CAPACITY; i++)
		post_now(trio->to_0[1], notify(trio, 1, i));
	x.kind = TRANSFER_PUT_NOTIFY;
	*(uint8_t *)trio->local->base = 9;
	assert_int_equal(ops->post(trio->to_0[1], &x), SLUICE_EAGAIN);
	assert_int_equal(((uint8_t *)trio->inbox->base)[100], 0);
	post_now(trio->to_0[2], notify(trio, 2, 5)); /* the other sender's ring is its own */
	for (i = 0; i < CAPACITY; i++) {
		do
			assert_int_equal(ops->poll(trio->t[0], &event, 1), 1);
		while (event.peer == 2);
		assert_int_equal(event.kind, EVENT_IMM);
		assert_int_equal(event.imm, i);
		assert_int_equal(ops->post(trio->to_0[1], &x), 0);
	}
	assert_int_equal(ops->post(trio->to_0[1], &x), SLUICE_EAGAIN);
	assert_int_equal(((uint8_t *)trio->inbox->base)[100], 9);
}

static void poll__one_peer_never_silent__other_is_heard(void **state)
{
	struct trio *trio = *state;
	struct event event;
	int i, heard = 0;

	post_now(trio->to_0[2], notify(trio, 2, 1));
	for (i = 0; i < 4; i++) {
		post_now(trio->to_0[1], notify(trio, 1, 0));
		assert_int_equal(ops->poll(trio->t[0], &event, 1), 1);
		heard += event.peer == 2;
	}
	assert_int_equal(heard, 1);
}

static void get__done_queue_full__is_EAGAIN_until_polled(void **state)
{
	struct trio *trio = *state;
	struct transfer x = get(trio, 1, 8, 8);
	struct event events[16];
	int n = 0, taken = 0, got;

	while (ops->post(trio->to_0[1], &x) == 0)
		n++;
	assert_int_equal(ops->post(trio->to_0[1], &x), SLUICE_EAGAIN);
	assert_true(n >= CAPACITY);
	while ((got = ops->poll(trio->t[1], events, 16)) > 0)
		taken += got;
	assert_int_equal(taken, n);
	assert_int_equal(events[0].kind, EVENT_DONE);
	assert_int_equal(events[0].status, 0);
	assert_int_equal(events[0].cookie, 8);
	post_now(trio->to_0[1], x);
}

/* ---- cards and descriptors ------------------------------------------------------------------ */

static void connect__own_rank_outside_or_twice__is_EINVAL(void **state)
{
	struct trio *trio = *state;
	uint8_t card[TRANSPORT_CARD_BYTES];
	struct endpoint *e = NULL;
	size_t len;

	assert_int_equal(ops->card(trio->t[1], card, &len), 0);
	assert_int_equal(ops->connect(trio->t[0], 1, card, len, &e), SLUICE_EINVAL);
	assert_int_equal(ops->connect(trio->t[1], 1, card, len, &e), SLUICE_EINVAL);
	assert_int_equal(ops->connect(trio->t[0], -1, card, len, &e), SLUICE_EINVAL);
	assert_int_equal(ops->connect(trio->t[0], RANKS, card, len, &e), SLUICE_EINVAL);
	assert_null(e);
}

/* Rank 1 tries to connect to rank 2 by what is left of rank 2's card after a change. */
static int connect_by(struct trio *trio, const uint8_t *card, size_t len)
{
	struct endpoint *e = NULL;
	int files = open_files();
	int rc = ops->connect(trio->t[1], 2, card, len, &e);

	assert_true(rc < 0);
	assert_null(e);
	assert_int_equal(open_files(), files);
	return rc;
}

static void connect__damaged_or_short_card__is_EWIRE(void **state)
{
	struct trio *trio = *state;
	uint8_t card[TRANSPORT_CARD_BYTES], bad[TRANSPORT_CARD_BYTES];
	size_t len, i;

	assert_int_equal(ops->card(trio->t[2], card, &len), 0);
	for (i = 0; i < len; i++)
		assert_int_equal(connect_by(trio, card, i), SLUICE_EWIRE);
	for (i = 0; i < len * 8; i++) {
		memcpy(bad, card, sizeof(bad));
		bad[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_equal(connect_by(trio, bad, len), SLUICE_EWIRE);
	}
	connect_to(trio->t[1], trio->t[2], 2); /* and the good one still does */
}

/* One field changed and the CRCs made to agree. */
static int connect_forged(struct trio *trio, size_t at, uint32_t value)
{
	uint8_t card[TRANSPORT_CARD_BYTES];
	size_t len;

	assert_int_equal(ops->card(trio->t[2], card, &len), 0);
	put_le32(card + at, value);
	put_le32(card + 48 + 60, crc32c(0, card + 48, 60));
	put_le32(card + len - 4, crc32c(0, card, len - 4));
	return connect_by(trio, card, len);
}

static void connect__forged_card__is_refused(void **state)
{
	struct trio *trio = *state;
	uint32_t pid = (uint32_t)getpid();

	assert_int_equal(connect_forged(trio, 4, 1), SLUICE_EWIRE);           /* rank */
	assert_int_equal(connect_forged(trio, 8, RANKS + 1), SLUICE_EWIRE);   /* size */
	assert_int_equal(connect_forged(trio, 12, pid + 1), SLUICE_EWIRE);    /* pid, not the mailbox's */
	assert_int_equal(connect_forged(trio, 20, 0), SLUICE_EWIRE);          /* capacity */
	assert_int_equal(connect_forged(trio, 20, 7), SLUICE_EWIRE);
	assert_int_equal(connect_forged(trio, 20, CAPACITY * 4), SLUICE_EWIRE);
	assert_int_equal(connect_forged(trio, 20, 1u << 31), SLUICE_EWIRE);
	assert_int_equal(connect_forged(trio, 24, 0x80000000u), SLUICE_EWIRE); /* pipe */
	assert_int_equal(connect_forged(trio, 24, 0x7fffffff), SLUICE_EPEER);
	assert_int_equal(connect_forged(trio, 24, (uint32_t)trio->log->fd), SLUICE_EPEER);
	assert_int_equal(connect_forged(trio, 32, 1), SLUICE_EPEER);          /* start time */
	assert_non_null(strstr(sluice_last_error(), "belongs to another"));
	assert_int_equal(connect_forged(trio, 40, 1), SLUICE_ENOSUPP);        /* pid namespace */
	assert_non_null(strstr(sluice_last_error(), "container"));
	assert_int_equal(connect_forged(trio, 48 + 4, REGION_READ), SLUICE_EWIRE); /* mailbox access */
	assert_int_equal(connect_forged(trio, 48 + 12, (uint32_t)trio->inbox->fd), SLUICE_EPEER);
	assert_int_equal(connect_forged(trio, 48 + 16, 4096), SLUICE_EWIRE);  /* its bytes */
	assert_int_equal(connect_forged(trio, 48 + 24, 1), SLUICE_EPEER);     /* its nonce */
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

static void remote_open__forged_descriptor__is_refused(void **state)
{
	struct trio *trio = *state;

	assert_int_equal(open_forged(trio, 0, 0), SLUICE_EWIRE);
	assert_int_equal(open_forged(trio, 4, REGION_WRITE), SLUICE_EPEER);
	assert_int_equal(open_forged(trio, 4, REGION_READ | REGION_WRITE), SLUICE_EPEER);
	assert_int_equal(open_forged(trio, 8, (uint32_t)getppid()), SLUICE_EWIRE);
	assert_int_equal(open_forged(trio, 12, 0x7fffffff), SLUICE_EPEER);
	assert_int_equal(open_forged(trio, 12, (uint32_t)trio->inbox->fd), SLUICE_EPEER);
	assert_int_equal(open_forged(trio, 12, (uint32_t)ops->fd(trio->t[0])), SLUICE_EDEVICE);
	assert_int_equal(open_forged(trio, 16, BYTES - 1), SLUICE_EPEER);
	assert_int_equal(open_forged(trio, 20, 1), SLUICE_EPEER); /* 4 GiB more */
	assert_int_equal(open_forged(trio, 24, 1), SLUICE_EPEER);
	assert_non_null(strstr(sluice_last_error(), "nonce"));
}

static void describe__local_region__is_EINVAL(void **state)
{
	struct trio *trio = *state;
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];

	assert_int_equal(ops->describe(trio->from_0[1], trio->local, descriptor), SLUICE_EINVAL);
}

static void control__of_a_peer__is_reached_by_the_card_alone(void **state)
{
	struct trio *trio = *state;
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
	/* rank 1 has none */
	assert_int_equal(ops->control(trio->from_0[1], &control), SLUICE_EWIRE);
	assert_null(control);
}

/* ---- a hostile mailbox ---------------------------------------------------------------------- */

/* The first words of the cache lines of a ring: see mailbox.c. */
static uint32_t *tail_of(struct mailbox_ring *ring)
{
	return (uint32_t *)(void *)ring;
}

static uint32_t *head_of(struct mailbox_ring *ring)
{
	return (uint32_t *)(void *)((char *)ring + 64);
}

static void poll__sender_claims_too_much__sender_is_gone_once(void **state)
{
	static const uint32_t lies[] = {CAPACITY + 2, 0, 0x80000000u, UINT32_MAX};
	size_t i;

	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct trio *trio = *state;
		struct event events[4 * CAPACITY];
		struct transfer x;

		post_now(trio->to_0[1], notify(trio, 1, 11));
		assert_int_equal(ops->poll(trio->t[0], events, 4 * CAPACITY), 1);
		*tail_of(peer_of(trio->to_0[1])->out.ring) = lies[i];
		post_now(trio->to_0[2], notify(trio, 2, 22));
		assert_int_equal(ops->poll(trio->t[0], events, 4 * CAPACITY), 2);
		assert_int_equal(events[0].kind + events[1].kind, EVENT_GONE + EVENT_IMM);
		if (events[0].kind == EVENT_IMM)
			events[0] = events[1];
		assert_int_equal(events[0].peer, 1);
		assert_non_null(strstr(events[0].text, "impossible"));
		x = notify(trio, 1, 12);
		ops->post(trio->to_0[1], &x);
		assert_int_equal(ops->arm(trio->t[0]), 0);
		assert_false(readable(ops->fd(trio->t[0]), 0));
		ops->disarm(trio->t[0]);
		assert_int_equal(ops->poll(trio->t[0], events, 4), 0);
		x.remote = NULL;
		assert_int_equal(ops->post(trio->from_0[1], &x), SLUICE_EPEER);
		tear_down(state);
		set_up(state);
	}
}

static void poll__sender_claims_a_full_ring__gives_no_more_than_its_capacity(void **state)
{
	struct trio *trio = *state;
	struct event events[4 * CAPACITY];

	*tail_of(peer_of(trio->to_0[1])->out.ring) = CAPACITY;
	assert_int_equal(ops->poll(trio->t[0], events, 4 * CAPACITY), CAPACITY);
	assert_int_equal(ops->poll(trio->t[0], events, 4 * CAPACITY), 0);
}

static void notify__receiver_position_impossible__is_EWIRE(void **state)
{
	struct trio *trio = *state;
	struct transfer x = notify(trio, 1, 0);
	uint32_t i;

	for (i = 0; i < CAPACITY; i++)
		post_now(trio->to_0[1], x);
	*head_of(peer_of(trio->to_0[1])->out.ring) = 1000;
	assert_int_equal(ops->post(trio->to_0[1], &x), SLUICE_EWIRE);
	assert_int_equal(ops->post(trio->to_0[1], &x), SLUICE_EWIRE);
}

/* 2^32 words later the positions wrap. */
static void mailbox__positions_wrap__keeps_order(void **state)
{
	static uint8_t memory[4096] __attribute__((aligned(64)));
	struct mailbox_ring *ring = mailbox_ring(memory, 1, 4);
	struct mailbox_writer w;
	struct mailbox_reader r;
	uint32_t i, word;

	(void)state;
	assert_int_equal(mailbox_capacity(3), 4);
	assert_true(mailbox_bytes(2, 4) <= sizeof(memory));
	mailbox_writer_init(&w, ring, 4);
	mailbox_reader_init(&r, ring, 4);
	w.tail = w.head_seen = r.head = r.tail_seen = *tail_of(ring) = *head_of(ring) = UINT32_MAX - 5;
	for (i = 0; i < 100; i++) {
		while (mailbox_room(&w) == 1)
			mailbox_write(&w, w.tail * 3);
		assert_int_equal(mailbox_room(&w), 0);
		assert_int_equal(mailbox_take(&r, &word), 1);
		assert_int_equal(word, (r.head - 1) * 3);
	}
}

/* ---- sleeping ------------------------------------------------------------------------------- */

static void arm__imm_or_done_there__does_not_sleep(void **state)
{
	struct trio *trio = *state;
	struct event event;

	assert_int_equal(ops->arm(trio->t[0]), 0);
	ops->disarm(trio->t[0]);
	post_now(trio->to_0[1], notify(trio, 1, 1));
	assert_int_equal(ops->arm(trio->t[0]), 1);
	assert_false(readable(ops->fd(trio->t[0]), 0)); /* nobody slept: no byte was written */
	assert_int_equal(ops->poll(trio->t[0], &event, 1), 1);
	assert_int_equal(ops->arm(trio->t[0]), 0);
	ops->disarm(trio->t[0]);
	post_now(trio->to_0[1], get(trio, 1, 0, 8));
	assert_int_equal(ops->arm(trio->t[1]), 1);
}

static void arm__imm_or_done_comes__wakes(void **state)
{
	struct trio *trio = *state;
	struct event events[4];
	int fd = ops->fd(trio->t[0]), i;

	for (i = 0; i < 1000; i++) {
		assert_int_equal(ops->arm(trio->t[0]), 0);
		assert_false(readable(fd, 0));
		post_now(trio->to_0[1], notify(trio, 1, 1));
		post_now(trio->to_0[2], notify(trio, 2, 1));
		assert_true(readable(fd, 0));
		ops->disarm(trio->t[0]);
		assert_false(readable(fd, 0));
		assert_int_equal(ops->poll(trio->t[0], events, 4), 2);
	}
	assert_int_equal(ops->arm(trio->t[1]), 0);
	post_now(trio->to_0[1], get(trio, 1, 0, 8));
	assert_true(readable(ops->fd(trio->t[1]), 0));
}

static void cancel__nobody_slept__the_next_word_writes_no_byte(void **state)
{
	struct trio *trio = *state;
	struct event event;
	int fd = ops->fd(trio->t[0]);

	assert_int_equal(ops->arm(trio->t[0]), 0);
	ops->cancel(trio->t[0]);
	post_now(trio->to_0[1], notify(trio, 1, 1));
	assert_false(readable(fd, 0));
	assert_int_equal(ops->poll(trio->t[0], &event, 1), 1);
}

static void cancel__word_came_while_armed__the_next_sleeper_wakes_and_drains(void **state)
{
	struct trio *trio = *state;
	struct event event;
	int fd = ops->fd(trio->t[0]);

	assert_int_equal(ops->arm(trio->t[0]), 0);
	post_now(trio->to_0[1], notify(trio, 1, 1));
	ops->cancel(trio->t[0]);
	assert_int_equal(ops->poll(trio->t[0], &event, 1), 1);
	assert_int_equal(ops->arm(trio->t[0]), 0);
	assert_true(readable(fd, 0));
	ops->disarm(trio->t[0]);
	assert_int_equal(ops->arm(trio->t[0]), 0);
	assert_false(readable(fd, 0));
	ops->disarm(trio->t[0]);
}

static void get__quiet__is_filled_without_an_event(void **state)
{
	struct trio *trio = *state;
	struct transfer x = get(trio, 1, 0, 8);
	struct event event;

	x.quiet = 1;
	memset(x.local, 0, 8);
	fill((uint8_t *)trio->log->base, 8, 77);
	post_now(trio->to_0[1], x);
	assert_true(filled(x.local, 8, 77));
	assert_int_equal(ops->poll(trio->t[1], &event, 1), 0);
	assert_int_equal(trio->t[1]->counters.gets, 1);
}

static void wake__armed_or_not_and_often__fd_readable_until_disarm(void **state)
{
	struct trio *trio = *state;
	int fd = ops->fd(trio->t[0]), i;

	for (i = 0; i < 100000; i++) /* more than a pipe holds: must not block */
		ops->wake(trio->t[0]);
	assert_int_equal(ops->arm(trio->t[0]), 0);
	assert_true(readable(fd, 0));
	for (i = 0; i < 4 && readable(fd, 0); i++)
		ops->disarm(trio->t[0]);
	assert_false(readable(fd, 0));
}

static void *wake_soon(void *t)
{
	usleep(20000);
	ops->wake(t);
	return NULL;
}

static void wake__from_another_thread__ends_the_sleep(void **state)
{
	struct trio *trio = *state;
	pthread_t thread;

	assert_int_equal(ops->arm(trio->t[0]), 0);
	assert_int_equal(pthread_create(&thread, NULL, wake_soon, trio->t[0]), 0);
	assert_true(readable(ops->fd(trio->t[0]), DEADLINE_MS));
	pthread_join(thread, NULL);
	ops->disarm(trio->t[0]);
}

/* ---- what is left behind -------------------------------------------------------------------- */

static void close__after_use__leaves_no_file_and_no_mapping(void **state)
{
	void *trio = NULL;
	int files = open_files();

	(void)state;
	set_up(&trio);
	assert_true(open_files() > files);
	tear_down(&trio);
	assert_int_equal(open_files(), files);
	assert_int_equal(mappings_of("memfd:sluice-"), 0);
	ops->close(&((struct trio *)trio)->t[0]); /* NULL by now */
}

/* Opens two ranks and connects them with at most so many more files; 1 if all of it worked, 0 if
 * one step failed properly, -1 if not. */
static int connect_with_files(int more)
{
	struct transport *t[2] = {NULL, NULL};
	struct endpoint *e = NULL;
	uint8_t card[TRANSPORT_CARD_BYTES];
	int files = open_files(), rc = 0, r;
	struct rlimit old, low;
	size_t len;

	if (getrlimit(RLIMIT_NOFILE, &old) < 0)
		return -1;
	low = old;
	low.rlim_cur = (rlim_t)(dup(0) + more); /* dup: the lowest free number */
	close((int)low.rlim_cur - more);
	setrlimit(RLIMIT_NOFILE, &low);
	for (r = 0; r < 2 && rc == 0; r++) {
		struct transport_config config = {.rank = r, .size = 2, .queue_depth = 1};

		rc = ops->open(&config, &t[r]);
	}
	if (rc == 0)
		rc = ops->card(t[1], card, &len);
	if (rc == 0)
		rc = ops->connect(t[0], 1, card, len, &e);
	setrlimit(RLIMIT_NOFILE, &old);
	ops->close(&t[0]);
	ops->close(&t[1]);
	if (open_files() != files || mappings_of("memfd:sluice-mailbox") != 0)
		return -1;
	if (rc == 0)
		return 1;
	return rc == SLUICE_ENOMEM || rc == SLUICE_ENOSUPP || rc == SLUICE_EDEVICE ? 0 : -1;
}

static void open__every_file_limit__fails_clean_or_works(void **state)
{
	int more, rc = 0;
	pid_t child;

	(void)state;
	child = fork();
	if (child == 0) {
		for (more = 0; more < 20 && rc == 0; more++)
			rc = connect_with_files(more);
		_exit(rc == 1 && more > 5 ? 0 : 1);
	}
	assert_int_equal(child_status(child), 0);
}

#define FRESH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open__impossible_configuration__is_EINVAL),
		FRESH(reaches__same_machine_and_other_rank__only),
		FRESH(post__out_of_bounds_or_not_permitted__is_EINVAL),
		FRESH(notify__ring_full__is_EAGAIN_and_nothing_is_copied),
		FRESH(poll__one_peer_never_silent__other_is_heard),
		FRESH(get__done_queue_full__is_EAGAIN_until_polled),
		FRESH(connect__own_rank_outside_or_twice__is_EINVAL),
		FRESH(connect__damaged_or_short_card__is_EWIRE),
		FRESH(connect__forged_card__is_refused),
		FRESH(remote_open__forged_descriptor__is_refused),
		FRESH(describe__local_region__is_EINVAL),
		FRESH(control__of_a_peer__is_reached_by_the_card_alone),
		FRESH(poll__sender_claims_too_much__sender_is_gone_once),
		FRESH(poll__sender_claims_a_full_ring__gives_no_more_than_its_capacity),
		FRESH(notify__receiver_position_impossible__is_EWIRE),
		cmocka_unit_test(mailbox__positions_wrap__keeps_order),
		FRESH(arm__imm_or_done_there__does_not_sleep),
		FRESH(arm__imm_or_done_comes__wakes),
		FRESH(cancel__nobody_slept__the_next_word_writes_no_byte),
		FRESH(cancel__word_came_while_armed__the_next_sleeper_wakes_and_drains),
		FRESH(get__quiet__is_filled_without_an_event),
		FRESH(wake__armed_or_not_and_often__fd_readable_until_disarm),
		FRESH(wake__from_another_thread__ends_the_sleep),
		cmocka_unit_test(close__after_use__leaves_no_file_and_no_mapping),
		cmocka_unit_test(open__every_file_limit__fails_clean_or_works),
	};

	return cmocka_run_group_tests_name("shm", tests, NULL, NULL);
}
