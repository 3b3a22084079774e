/* SPDX-License-Identifier: BSD-3-Clause
 * Transports between two real processes: data before notice, sleeping and waking, and for shm also
 * rights. Killed processes: test_shm_death.c. */
#include "rdma/ring.h"
#include "rdma/transport.h"
#include "rdma_pair.h"
#include "sluice.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

/* The functions must have the parameters of the functions that they replace. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { MAX_BYTES = 1 << 20 };

/* Through the kernel each message takes a hundred times as long. */
static uint32_t messages = 100000, rounds = 5000;

static const struct transport_ops *const ops = &shm_transport;

/* ---- every size ------------------------------------------------------------ */

static size_t nth_size(uint32_t i)
{
	static const size_t sizes[] = { 0, 1, 2, 63, 64, 65, 4095, 4096, 4097, 65536, MAX_BYTES };

	if (i < sizeof(sizes) / sizeof(sizes[0]))
		return sizes[i];
	return scramble(i) % MAX_BYTES;
}

/* Each side puts to the other, checks what arrived, and reads the other's region back. */
static int all_sizes(struct side *side)
{
	struct region *inbox = new_region(MAX_BYTES, REGION_WRITE);
	struct region *offer = new_region(MAX_BYTES, REGION_READ);
	struct region *local = new_region(MAX_BYTES, 0);
	struct remote *to = swap_regions(side, inbox), *from = swap_regions(side, offer);
	struct transfer x;
	struct event event;
	uint32_t i;

	for (i = 0; i < 24; i++) {
		size_t bytes = nth_size(i);
		uint64_t offset = (MAX_BYTES - bytes) / 3;
		uint64_t seed = i * 2u;

		fill(local->base, bytes, seed + (uint64_t)side->rank);
		fill(offer->base, bytes, seed + 100 + (uint64_t)side->rank);
		post_now(side->e, transfer_of(TRANSFER_PUT, to, offset, local, bytes / 2));
		x = transfer_of(TRANSFER_PUT_NOTIFY, to, offset + bytes / 2, local,
				bytes - bytes / 2);
		x.local = (uint8_t *)local->base + bytes / 2;
		x.imm = i;
		post_now(side->e, x);
		next_imm(side, i);
		CHECK(filled((uint8_t *)inbox->base + offset, bytes,
			     seed + 1 - (uint64_t)side->rank));
		meet(side);
		x = transfer_of(TRANSFER_GET, from, 0, local, bytes);
		x.cookie = i + 7;
		post_now(side->e, x);
		event = next_event(side->t);
		CHECK(event.kind == EVENT_DONE && event.cookie == i + 7 && event.status == 0);
		CHECK(filled(local->base, bytes, seed + 100 + 1 - (uint64_t)side->rank));
		meet(side);
	}
	pair_ops->remote_close(&to);
	pair_ops->remote_close(&from);
	region_close(&inbox);
	region_close(&offer);
	region_close(&local);
	return 0;
}

static void put_notify_get__sizes_0_to_1_MiB__arrive_intact(void **state)
{
	struct side side;
	pid_t child = pair_start(&side, 4, all_sizes);

	all_sizes(&side);
	pair_end(&side, child);
}

/* ---- stress ---------------------------------------------------------------- */

enum { SLOTS = 16, SLOT_BYTES = 256, CREDIT = 1u << 31 };

/* Message seq has a length byte and then that many bytes derived from seq. */
static size_t make_message(uint8_t *slot, uint64_t seq, int rank)
{
	size_t n = scramble(seq) % (SLOT_BYTES - 1);

	slot[0] = (uint8_t)n;
	fill(slot + 1, n, seq * 2 + (uint64_t)rank);
	return n + 1;
}

static int message_is(const uint8_t *slot, uint64_t seq, int rank)
{
	size_t n = scramble(seq) % (SLOT_BYTES - 1);

	return slot[0] == (uint8_t)n && filled(slot + 1, n, seq * 2 + (uint64_t)rank);
}

struct traffic {
	struct side *side;
	struct region *inbox, *staging;
	struct remote *to;
	struct ring_writer writer;
	struct ring_reader reader;
	uint64_t told; /* the last consumed_seq sent to the other side */
	int full;      /* the last post found no room */
};

/* Data and credits share the other side's mailbox ring, which is smaller than both together. */
static int send_more(struct traffic *f)
{
	struct transfer x;
	uint64_t seq = f->writer.next_seq, consumed = ring_reader_consumed(&f->reader);
	uint64_t at = ring_offset(SLOTS, SLOT_BYTES, seq);
	int rc, sent = 0;

	f->full = 0;
	if (seq <= messages && ring_writer_free(&f->writer)) {
		uint8_t *slot = (uint8_t *)f->staging->base + at;

		x = transfer_of(TRANSFER_PUT_NOTIFY, f->to, at, f->staging,
				make_message(slot, seq, f->side->rank));
		x.local = slot;
		x.imm = (uint32_t)seq;
		rc = pair_ops->post(f->side->e, &x);
		CHECK(rc == 0 || rc == SLUICE_EAGAIN);
		if (rc == 0)
			ring_writer_advance(&f->writer);
		sent |= rc == 0;
		f->full |= rc != 0;
	}
	if (consumed >= f->told + SLOTS / 2 || (consumed == messages && f->told < consumed)) {
		x = transfer_of(TRANSFER_PUT_NOTIFY, f->to, 0, f->staging, 0);
		x.imm = CREDIT | (uint32_t)consumed;
		rc = pair_ops->post(f->side->e, &x);
		CHECK(rc == 0 || rc == SLUICE_EAGAIN);
		if (rc == 0)
			f->told = consumed;
		sent |= rc == 0;
		f->full |= rc != 0;
	}
	return sent;
}

static int take_some(struct traffic *f)
{
	struct event events[7];
	int n = pair_ops->poll(f->side->t, events, 7), i;

	for (i = 0; i < n; i++) {
		uint64_t seq = f->reader.next_seq;

		CHECK(events[i].kind == EVENT_IMM);
		if (events[i].imm & CREDIT) {
			CHECK(ring_writer_acknowledge(&f->writer, events[i].peer,
						      events[i].imm & ~CREDIT) == 0);
			continue;
		}
		CHECK(ring_reader_accept(&f->reader, events[i].peer, events[i].imm) == 0);
		CHECK(message_is((uint8_t *)f->inbox->base + ring_offset(SLOTS, SLOT_BYTES, seq),
				 seq, 1 - f->side->rank));
	}
	return n;
}

static int stress(struct side *side)
{
	struct traffic f = { .side = side };
	int idle = 0;

	f.inbox = new_region(SLOTS * SLOT_BYTES, REGION_WRITE);
	f.staging = new_region(SLOTS * SLOT_BYTES, 0);
	f.to = swap_regions(side, f.inbox);
	CHECK(ring_writer_init(&f.writer, SLOTS, SLOT_BYTES) == 0);
	CHECK(ring_reader_init(&f.reader, SLOTS, SLOT_BYTES) == 0);
	while (f.told < messages || f.writer.consumed_seq < messages) {
		int moved = send_more(&f);

		moved += take_some(&f);
		idle = moved ? 0 : idle + 1;
		if (idle < 50)
			continue;
		/* Room in a full ring makes no event, so this must not sleep long for it. */
		if (!pair_ops->sleep.arm(side->t)) {
			int woken = readable(pair_ops->sleep.fd(side->t), f.full ? 1 : DEADLINE_MS);

			CHECK(woken || f.full);
		}
		pair_ops->sleep.disarm(side->t);
		idle = 0;
	}
	CHECK(ring_reader_consumed(&f.reader) == messages);
	meet(side);
	pair_ops->remote_close(&f.to);
	region_close(&f.inbox);
	region_close(&f.staging);
	return 0;
}

static void stress__both_directions_many_messages__in_order_and_intact(void **state)
{
	struct side side;
	pid_t child = pair_start(&side, 8, stress);

	stress(&side);
	pair_end(&side, child);
}

/* ---- sleeping -------------------------------------------------------------- */

/* Never polls twice without a sleep in between, so that a lost wake-up reaches the deadline. */
static void sleep_for(struct side *side, uint32_t imm)
{
	struct event event;

	while (pair_ops->poll(side->t, &event, 1) == 0) {
		if (!pair_ops->sleep.arm(side->t))
			CHECK(readable(pair_ops->sleep.fd(side->t), DEADLINE_MS));
		pair_ops->sleep.disarm(side->t);
	}
	CHECK(event.kind == EVENT_IMM && event.imm == imm);
}

static int ping_pong(struct side *side)
{
	struct region *inbox = new_region(64, REGION_WRITE), *local = new_region(64, 0);
	struct remote *to = swap_regions(side, inbox);
	struct transfer x = transfer_of(TRANSFER_PUT_NOTIFY, to, 0, local, 8);
	uint32_t i;

	for (i = 0; i < rounds; i++) {
		x.imm = i;
		memcpy(local->base, &i, sizeof(i));
		if (side->rank == 0)
			post_now(side->e, x);
		sleep_for(side, i);
		CHECK(memcmp(inbox->base, &i, sizeof(i)) == 0);
		if (side->rank == 1)
			post_now(side->e, x);
	}
	meet(side);
	pair_ops->remote_close(&to);
	region_close(&inbox);
	region_close(&local);
	return 0;
}

static void sleep__many_round_trips__no_wake_up_is_lost(void **state)
{
	struct side side;
	pid_t child = pair_start(&side, 4, ping_pong);

	ping_pong(&side);
	pair_end(&side, child);
}

/* ---- rights ---------------------------------------------------------------- */

static int tries_to_write(struct side *side)
{
	struct region *mine = new_region(4096, REGION_READ);
	struct remote *theirs = swap_regions(side, mine);
	struct transfer x = transfer_of(TRANSFER_PUT, theirs, 0, mine, 8);
	struct {
		int pid, fd;
	} where = { 0, 0 }, unused = { 0, 0 };
	char path[64];
	void *map;
	int fd;

	CHECK(ops->post(side->e, &x) == SLUICE_EINVAL);
	swap_bytes(side, &unused, &where, sizeof(where));
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", where.pid, where.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(map == MAP_FAILED && errno == EPERM);
	close(fd);
	meet(side);
	ops->remote_close(&theirs);
	region_close(&mine);
	return 0;
}

static void read_region__peer_process_wants_to_write__transport_and_kernel_refuse(void **state)
{
	struct region *model;
	struct remote *theirs;
	struct side side;
	pid_t child;

	quiet_log();
	child = pair_start(&side, 4, tries_to_write);
	model = new_region(4096, REGION_READ);
	theirs = swap_regions(&side, model);
	{
		struct {
			int pid, fd;
		} where = { (int)getpid(), model->fd }, unused;

		swap_bytes(&side, &where, &unused, sizeof(where));
	}
	meet(&side);
	ops->remote_close(&theirs);
	region_close(&model);
	pair_end(&side, child);
}

/* Connects as another user, with the record of a process of root. */
static int connect_as_nobody(const uint8_t *record, size_t len)
{
	struct transport_config config = { .rank = 1, .size = 2, .queue_depth = 1 };
	struct transport *t = NULL;
	struct endpoint *e = NULL;
	int rc;

	if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0 ||
	    ops->open(&config, &t) < 0)
		return 2;
	rc = ops->connect(t, 0, record, len, &e);
	ops->close(&t);
	return rc == SLUICE_EDEVICE && strstr(sluice_last_error(), "one user") != NULL ? 0 : 1;
}

static void connect__process_of_another_user__is_refused_with_the_reason(void **state)
{
	struct transport_config config = { .rank = 0, .size = 2, .queue_depth = 1 };
	struct transport *t = NULL;
	uint8_t record[TRANSPORT_RECORD_BYTES];
	size_t len;
	pid_t child;

	if (geteuid() != 0) {
		print_message("skipped: only root can become another user\n");
		skip();
	}
	quiet_log();
	CHECK(ops->open(&config, &t) == 0);
	CHECK(ops->record(t, record, &len) == 0);
	child = fork();
	if (child == 0)
		_exit(connect_as_nobody(record, len));
	CHECK(child_status(child) == 0);
	ops->close(&t);
}

static void fork__with_an_open_transport__child_exits_and_does_no_harm(void **state)
{
	struct side side;
	pid_t child, bystander;

	child = pair_start(&side, 4, ping_pong);
	bystander = fork();
	if (bystander == 0)
		_exit(0);
	CHECK(child_status(bystander) == 0);
	ping_pong(&side);
	pair_end(&side, child);
}

#ifdef HAVE_LIBFABRIC
/* Returns 0 and a reason if libfabric, which is loaded at its first use, is missing here. */
static int ofi_opens(void)
{
	struct transport_config config = {
		.rank = 0, .size = 2, .queue_depth = 4, .interface = "lo", .lost_after_ms = 1000
	};
	struct transport *t = NULL;

	if (ofi_transport.open(&config, &t)) {
		print_message("ofi between processes: skipped: %s\n", sluice_last_error());
		return 0;
	}
	ofi_transport.close(&t);
	pair_ops = &ofi_transport;
	messages = 5000;
	rounds = 500;
	return 1;
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put_notify_get__sizes_0_to_1_MiB__arrive_intact),
		cmocka_unit_test(stress__both_directions_many_messages__in_order_and_intact),
		cmocka_unit_test(sleep__many_round_trips__no_wake_up_is_lost),
		cmocka_unit_test(
			read_region__peer_process_wants_to_write__transport_and_kernel_refuse),
		cmocka_unit_test(connect__process_of_another_user__is_refused_with_the_reason),
		cmocka_unit_test(fork__with_an_open_transport__child_exits_and_does_no_harm),
	};

	int failed = cmocka_run_group_tests_name("shm between processes", tests, NULL, NULL);

#ifdef HAVE_LIBFABRIC
	const struct CMUnitTest of_ofi[] = {
		cmocka_unit_test(put_notify_get__sizes_0_to_1_MiB__arrive_intact),
		cmocka_unit_test(stress__both_directions_many_messages__in_order_and_intact),
		cmocka_unit_test(sleep__many_round_trips__no_wake_up_is_lost),
		cmocka_unit_test(fork__with_an_open_transport__child_exits_and_does_no_harm),
	};

	if (ofi_opens())
		failed += cmocka_run_group_tests_name("ofi between processes", of_ofi, NULL, NULL);
#endif
	return failed;
}
