/* SPDX-License-Identifier: BSD-3-Clause
 * The keys that a peer gets: memory windows if the card has them and they pass the test, otherwise
 * registrations in the peer's own domain; and the new keys after a reconnect. */
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "rdma/frame.h"
#include "sluice.h"
#include "verbs_two.h"
#include "cases.h"
#include <stdio.h>
#include <string.h>

enum { SMALL = 4096, DEPTH = 16 };

static int setup(void **state)
{
	fabric_setup(state);
	log_configure("rdma+info");
	pair_memory_windows = "auto";
	return 0;
}

static struct region *new_region(unsigned access)
{
	struct region *region = NULL;

	assert_int_equal(region_open(SMALL, access, "keys", &region), 0);
	return region;
}

static int put(struct remote *to, const struct region *from, size_t n, uint32_t imm)
{
	return verbs_transport.post(pair.e[0], &(struct transfer){ .kind = TRANSFER_PUT_NOTIFY,
								   .remote = to,
								   .local_region = from,
								   .local = from->base,
								   .bytes = n,
								   .imm = imm });
}

/* Requires that no notify was received before. */
static void check_put(struct remote *to_inbox, const struct region *inbox,
		      const struct region *near)
{
	memset(near->base, 7, SMALL);
	assert_int_equal(put(to_inbox, near, SMALL, 0), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
	assert_memory_equal(inbox->base, near->base, SMALL);
}

static int connections_made_again(void)
{
	int n = 0;

	for (const char *at = logged; (at = strstr(at, "connected again to")); at++)
		n++;
	return n;
}

/* Breaks the connection and waits until both sides use the new one. */
static void flap(void)
{
	const int before = connections_made_again();

	fake_cm_cut(1);
	while (connections_made_again() < before + 2)
		pair_poll(&pair);
}

/* ---- windows or domains ---------------------------------------------------- */

#define CASE(name) TEST_WITH(name, setup, NULL)

CASE(open__card_with_windows__one_domain_for_all_peers)
{
	open_pair(DEPTH);
	assert_int_equal(fake_counts.pds, 2);
	assert_true(fake_counts.mws > 0);
	assert_non_null(strstr(logged, "memory windows of type 2B, bound to its queue pair"));
	close_pair();
}

CASE(open__windows_missing_dead_or_unwanted__a_domain_for_each_peer_and_the_reason)
{
	static const char *const reasons[] = { "no windows of type 2B", "binding a window",
					       "SLUICE_MEMORY_WINDOWS=no" };

	for (int i = 0; i < 3; i++) {
		setup(state);
		if (i == 0)
			fake.attr.device_cap_flags &= ~(unsigned)IBV_DEVICE_MEM_WINDOW_TYPE_2B;
		fake.no_bind = i == 1;
		pair_memory_windows = i == 2 ? "no" : "auto";
		open_pair(DEPTH);
		assert_int_equal(fake_counts.pds, 4);
		assert_int_equal(fake_counts.mws, 0);
		if (strstr(logged, reasons[i]) == NULL)
			fail_msg("%s is not in: %s", reasons[i], logged);
		close_pair();
	}
}

CASE(open__windows_demanded_and_dead__refused_saying_why)
{
	pair_memory_windows = "yes";
	fake.no_bind = 1;
	assert_int_equal(pair_open(&pair, DEPTH), SLUICE_ENOSUPP);
	assert_non_null(strstr(sluice_last_error(), "binding a window"));
	assert_non_null(strstr(sluice_last_error(), "fake0"));
	close_pair();
}

/* Returns the only registration of these bytes. */
static struct fake_mr *registration_of(const struct region *region)
{
	struct fake_mr *found = NULL;

	for (struct fake_mr *m = fake_mrs; m; m = m->next)
		if (m->mr.addr == region->base) {
			assert_null(found);
			found = m;
		}
	assert_non_null(found);
	return found;
}

CASE(window__of_a_region_for_reading__cannot_be_bound_for_writing)
{
	struct region *log = new_region(REGION_READ);
	struct remote *to_log;
	struct fake_mr *mr;
	struct fake_qp *qp;
	struct ibv_mw *window;
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };

	open_pair(DEPTH);
	assert_int_equal(pair_share(&pair, 1, log, &to_log), 0);
	mr = registration_of(log);
	for (qp = fake_qps; qp && qp->qp.pd != mr->mr.pd; qp = qp->next)
		;
	assert_non_null(qp);
	window = ibv_alloc_mw(mr->mr.pd, IBV_MW_TYPE_2);
	wr.bind_mw.mw = window;
	wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = &mr->mr,
		.addr = (uintptr_t)log->base,
		.length = SMALL,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE
	};
	assert_int_equal(ibv_post_send(&qp->qp, &wr, &bad), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_GONE, 1), 0); /* the card refuses it */
	assert_int_equal(fake_remote_writable(log->base, SMALL), 0);
	ibv_dealloc_mw(window);
	verbs_transport.remote_close(&to_log);
	region_close(&log);
	close_pair();
}

/* ---- a new connection ------------------------------------------------------ */

CASE(flap__open_remotes__go_on_with_new_keys_and_the_old_ones_are_dead)
{
	for (int windows = 0; windows < 2; windows++) {
		struct region *inbox, *near;
		struct remote *to_inbox;
		struct verbs_region old, now;

		setup(state);
		pair_memory_windows = windows ? "yes" : "no";
		inbox = new_region(REGION_WRITE);
		near = new_region(0);
		open_pair(DEPTH);
		assert_int_equal(pair_share(&pair, 1, inbox, &to_inbox), 0);
		old = described(&pair, inbox);
		flap();
		memset(near->base, 1, SMALL);
		assert_int_equal(put(to_inbox, near, SMALL, 0), 0);
		assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
		assert_memory_equal(inbox->base, near->base, SMALL);
		now = described(&pair, inbox);
		assert_int_equal(old.rkey[0] != now.rkey[0], windows);
		if (windows) {
			uint8_t forged[REGION_DESCRIPTOR_BYTES];

			verbs_transport.remote_close(&to_inbox);
			now.rkey[0] = old.rkey[0];
			verbs_region_encode(&now, forged);
			assert_int_equal(verbs_transport.remote_open(pair.e[0], forged, &to_inbox),
					 0);
			memset(near->base, 2, SMALL);
			assert_int_equal(put(to_inbox, near, SMALL, 1), 0);
			assert_int_equal(pair_wait(&pair, 0, EVENT_GONE, 1), 0);
			assert_int_equal(fake_counts.access_errors, 1);
			assert_int_equal(((uint8_t *)inbox->base)[0], 1);
		}
		verbs_transport.remote_close(&to_inbox);
		region_close(&inbox);
		region_close(&near);
		close_pair();
	}
}

CASE(flap__between_description_and_use__the_present_key_is_used)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	struct region *inbox = new_region(REGION_WRITE), *near = new_region(0);
	struct remote *to_inbox;

	open_pair(DEPTH);
	assert_int_equal(verbs_transport.describe(pair.e[1], inbox, descriptor), 0);
	flap();
	flap();
	assert_int_equal(verbs_transport.remote_open(pair.e[0], descriptor, &to_inbox), 0);
	check_put(to_inbox, inbox, near);
	verbs_transport.remote_close(&to_inbox);

	region_close(&inbox); /* the region no longer exists */
	flap();
	assert_int_equal(verbs_transport.remote_open(pair.e[0], descriptor, &to_inbox),
			 SLUICE_EWIRE);
	assert_non_null(strstr(sluice_last_error(), "has no such region"));
	region_close(&near);
	close_pair();
}

CASE(describe__while_the_connection_is_broken__asks_to_be_called_again)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	struct region *inbox = new_region(REGION_WRITE), *near = new_region(0);
	struct remote *to_inbox;

	open_pair(DEPTH);
	fake_cm_cut(1);
	while (verbs_transport.describe(pair.e[1], inbox, descriptor) != SLUICE_EAGAIN)
		pair_poll(&pair); /* until the break was noticed */
	assert_int_equal(connections_made_again(), 0);
	assert_int_equal(pair_describe(&pair, 1, inbox, descriptor), 0);
	while (connections_made_again() < 2)
		pair_poll(&pair);
	assert_int_equal(verbs_transport.remote_open(pair.e[0], descriptor, &to_inbox), 0);
	check_put(to_inbox, inbox, near);
	verbs_transport.remote_close(&to_inbox);
	region_close(&inbox);
	region_close(&near);
	close_pair();
}

/* There are more windows than requests in the send queue. */
CASE(flap__forty_regions_and_a_queue_of_sixteen__all_go_on)
{
	enum { N = 40 };
	struct region *inbox[N], *near = new_region(0);
	struct remote *to_inbox[N];

	fake.attr.max_qp_wr = 16;
	open_pair(DEPTH);
	for (int i = 0; i < N; i++) {
		inbox[i] = new_region(REGION_WRITE);
		assert_int_equal(pair_share(&pair, 1, inbox[i], &to_inbox[i]), 0);
	}
	flap();
	for (int i = 0; i < N; i++) {
		memset(near->base, i + 1, SMALL);
		assert_int_equal(put(to_inbox[i], near, SMALL, 0), 0);
		assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, i + 1), 0);
		assert_memory_equal(inbox[i]->base, near->base, SMALL);
	}
	assert_int_equal(fake_counts.overflows, 0);
	for (int i = 0; i < N; i++) {
		verbs_transport.remote_close(&to_inbox[i]);
		region_close(&inbox[i]);
	}
	region_close(&near);
	close_pair();
}

CASE(describe__more_regions_than_a_table_holds__refused)
{
	static struct region *region[KEYS_MAX + 1];
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	int n = 0, rc = 0;

	open_pair(DEPTH);
	for (; n <= KEYS_MAX && rc == 0; n++) {
		region[n] = new_region(REGION_WRITE);
		rc = verbs_transport.describe(pair.e[1], region[n], descriptor);
	}
	assert_int_equal(rc, SLUICE_ENOSUPP);
	assert_int_equal(n, KEYS_MAX); /* the control region is the first */
	assert_non_null(strstr(sluice_last_error(), "a rank can have only 448"));
	flap(); /* with a full table */
	while (n-- > 0)
		region_close(&region[n]);
	close_pair();
}

/* ---- hostile --------------------------------------------------------------- */

CASE(table__longer_than_possible__refused_and_nothing_taken_over)
{
	static const uint32_t too_many[] = { KEYS_MAX + 1, UINT32_MAX };
	static struct key_table table, before;
	uint8_t bytes[KEY_TABLE_BYTES] = { 0 };
	char why[80];

	for (int i = 0; i < KEYS_MAX; i++) {
		table.key[i].id = (uint32_t)i + 1;
		table.key[i].rkey = (uint32_t)i * 7;
	}
	table.link = 3;
	table.n = KEYS_MAX;
	assert_int_equal(key_table_encode(&table, bytes), KEY_TABLE_BYTES);
	assert_int_equal(key_table_decode(bytes, &before, why), 0);
	assert_memory_equal(&before, &table, sizeof(table));
	for (int i = 0; i < 2; i++) {
		put_le32(bytes, 4);
		put_le32(bytes + 4, too_many[i]);
		assert_int_equal(key_table_decode(bytes, &table, why), -1);
		assert_non_null(strstr(why, i == 0 ? "449 entries" : "4294967295 entries"));
		assert_memory_equal(&before, &table, sizeof(table));
	}
}

CASE(greeting__of_the_wrong_kind__peer_is_given_up)
{
	open_pair(DEPTH);
	fake.next_imm = GREETING_KEYS; /* instead of READY */
	fake_cm_cut(1);
	assert_int_equal(pair_wait(&pair, 1, EVENT_GONE, 1), 0);
	assert_non_null(strstr(pair.events[1][0].text, "greeting is 0x2 instead of 1"));
	assert_int_equal(pair_wait(&pair, 0, EVENT_GONE, 1), 0);
	close_pair();
}
