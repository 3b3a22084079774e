/* SPDX-License-Identifier: BSD-3-Clause
 * See shm_trio.h. */
#include "shm_trio.h"
#include "rdma/shm_record.h"
#include "sluice.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

struct endpoint *connect_to(struct transport *t, struct transport *to, int rank)
{
	uint8_t record[TRANSPORT_RECORD_BYTES];
	struct endpoint *e = NULL;
	size_t len;

	assert_int_equal(ops->record(to, record, &len), 0);
	assert_int_equal(len, SHM_RECORD_BYTES);
	assert_int_equal(ops->connect(t, rank, record, len, &e), 0);
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

int trio_open(void **state)
{
	static struct trio trio;
	int r;

	quiet_log();
	memset(&trio, 0, sizeof(trio));
	assert_int_equal(region_open(BYTES, REGION_WRITE, "inbox", &trio.inbox), 0);
	for (r = 0; r < RANKS; r++) {
		struct transport_config config = { .rank = r,
						   .size = RANKS,
						   .queue_depth = DEPTH,
						   .control = r == 0 ? trio.inbox : NULL };

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

int trio_close(void **state)
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

struct transfer put(struct trio *trio, int from, uint64_t offset, size_t bytes)
{
	return (struct transfer){ .kind = TRANSFER_PUT,
				  .remote = trio->to_inbox[from],
				  .offset = offset,
				  .local_region = trio->local,
				  .local = trio->local->base,
				  .bytes = bytes };
}

struct transfer notify(struct trio *trio, int from, uint32_t imm)
{
	struct transfer x = put(trio, from, 0, 0);

	x.kind = TRANSFER_PUT_NOTIFY;
	x.imm = imm;
	return x;
}

struct transfer get(struct trio *trio, int from, uint64_t offset, size_t bytes)
{
	return (struct transfer){ .kind = TRANSFER_GET,
				  .remote = trio->to_log[from],
				  .offset = offset,
				  .local_region = trio->local,
				  .local = trio->local->base,
				  .bytes = bytes,
				  .cookie = offset };
}
