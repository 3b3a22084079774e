/* SPDX-License-Identifier: BSD-3-Clause
 * The transport to the own rank. */
#include "base/bytes.h"
#include "rdma/transport.h"
#include "rdma_pair.h"
#include "sluice.h"
#include "cases.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { DEPTH = 4, BYTES = 10000 };

struct own {
	struct transport *t;
	struct endpoint *e;
	struct region *inbox, *log, *local; /* peers write, peers read, staging memory */
	struct remote *to_inbox, *to_log;
};

static const struct transport_ops *const ops = &self_transport;

static struct remote *reach(struct own *own, const struct region *region)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	struct remote *remote = NULL;

	assert_int_equal(ops->describe(own->e, region, descriptor), 0);
	assert_int_equal(ops->remote_open(own->e, descriptor, &remote), 0);
	return remote;
}

static int set_up(void **state)
{
	static struct own own;
	struct transport_config config = { .rank = 2, .size = 4, .queue_depth = DEPTH };
	uint8_t record[TRANSPORT_RECORD_BYTES];
	size_t len;

	quiet_log();
	assert_int_equal(region_open(BYTES, REGION_WRITE, "inbox", &own.inbox), 0);
	config.control = own.inbox;
	assert_int_equal(ops->open(&config, &own.t), 0);
	assert_int_equal(ops->record(own.t, record, &len), 0);
	assert_int_equal(ops->connect(own.t, 2, record, len, &own.e), 0);
	assert_int_equal(region_open(BYTES, REGION_READ, "log", &own.log), 0);
	assert_int_equal(region_open(BYTES, 0, "staging", &own.local), 0);
	own.to_inbox = reach(&own, own.inbox);
	own.to_log = reach(&own, own.log);
	*state = &own;
	return 0;
}

static int tear_down(void **state)
{
	struct own *own = *state;

	ops->remote_close(&own->to_inbox);
	ops->remote_close(&own->to_log);
	region_close(&own->inbox);
	region_close(&own->log);
	region_close(&own->local);
	ops->close(&own->t);
	return 0;
}

static struct transfer put(struct own *own, uint64_t offset, size_t bytes)
{
	return (struct transfer){ .kind = TRANSFER_PUT,
				  .remote = own->to_inbox,
				  .offset = offset,
				  .local_region = own->local,
				  .local = own->local->base,
				  .bytes = bytes };
}

static struct transfer get(struct own *own, uint64_t offset, size_t bytes, uint64_t cookie)
{
	return (struct transfer){ .kind = TRANSFER_GET,
				  .remote = own->to_log,
				  .offset = offset,
				  .local_region = own->local,
				  .local = own->local->base,
				  .bytes = bytes,
				  .cookie = cookie };
}

#define CASE(name) TEST_OF(name, struct own *own, set_up, tear_down)

CASE(put__then_notify__bytes_are_there_with_the_imm)
{
	struct transfer x = put(own, 7, 1000);
	struct event events[4];

	fill(own->local->base, BYTES, 1);
	post_now(own->e, x);
	assert_int_equal(ops->poll(own->t, events, 4), 0);
	assert_true(filled((uint8_t *)own->inbox->base + 7, 1000, 1));
	x.kind = TRANSFER_PUT_NOTIFY;
	x.offset = 2000;
	x.imm = 77;
	post_now(own->e, x);
	x.bytes = 0;
	x.imm = 78;
	post_now(own->e, x);
	assert_int_equal(ops->poll(own->t, events, 4), 2);
	assert_int_equal(events[0].kind, EVENT_IMM);
	assert_int_equal(events[0].peer, 2);
	assert_int_equal(events[0].imm, 77);
	assert_int_equal(events[1].imm, 78);
	assert_true(filled((uint8_t *)own->inbox->base + 2000, 1000, 1));
}

CASE(get__whole_region__fills_and_reports_cookie)
{
	struct event event;

	fill(own->log->base, BYTES, 2);
	post_now(own->e, get(own, 0, BYTES, 0x1234567890u));
	assert_int_equal(ops->poll(own->t, &event, 1), 1);
	assert_int_equal(event.kind, EVENT_DONE);
	assert_true(event.cookie == 0x1234567890u);
	assert_int_equal(event.status, 0);
	assert_true(filled(own->local->base, BYTES, 2));
	assert_int_equal(ops->poll(own->t, &event, 1), 0);
}

CASE(post__queue_full__is_EAGAIN_until_polled)
{
	struct transfer notify = put(own, 0, 0), read = get(own, 0, 8, 5);
	struct event events[2 * DEPTH];
	int i;

	notify.kind = TRANSFER_PUT_NOTIFY;
	for (i = 0; i < DEPTH; i++) {
		notify.imm = (uint32_t)i;
		post_now(own->e, notify);
		post_now(own->e, read);
	}
	assert_int_equal(ops->post(own->e, &notify), SLUICE_EAGAIN);
	assert_int_equal(ops->post(own->e, &read), SLUICE_EAGAIN);
	assert_int_equal(ops->poll(own->t, events, 2 * DEPTH), 2 * DEPTH);
	post_now(own->e, notify);
	post_now(own->e, read);
	assert_int_equal(ops->poll(own->t, events, 1), 1);
	assert_int_equal(ops->poll(own->t, events, 2 * DEPTH), 1);
}

CASE(post__out_of_bounds_or_not_permitted__is_EINVAL)
{
	struct transfer x;

	x = put(own, BYTES, 1);
	assert_int_equal(ops->post(own->e, &x), SLUICE_EINVAL);
	x = put(own, UINT64_MAX, 2);
	assert_int_equal(ops->post(own->e, &x), SLUICE_EINVAL);
	x = get(own, 1, BYTES, 0);
	assert_int_equal(ops->post(own->e, &x), SLUICE_EINVAL);
	x = put(own, 0, 8);
	x.remote = own->to_log;
	assert_int_equal(ops->post(own->e, &x), SLUICE_EINVAL);
	x = get(own, 0, 8, 0);
	x.remote = own->to_inbox;
	assert_int_equal(ops->post(own->e, &x), SLUICE_EINVAL);
	x = put(own, 0, 8);
	x.local = (uint8_t *)own->local->base + BYTES - 7;
	assert_int_equal(ops->post(own->e, &x), SLUICE_EINVAL);
	x = put(own, 0, 8);
	x.kind = (enum transfer_kind)9;
	assert_int_equal(ops->post(own->e, &x), SLUICE_EINVAL);
	x = put(own, BYTES, 0);
	assert_int_equal(ops->post(own->e, &x), 0);
}

CASE(put__no_local_region__only_up_to_64_bytes)
{
	uint8_t small[65] = { 1 };
	struct transfer x = put(own, 0, 64);

	x.local_region = NULL;
	x.local = small;
	assert_int_equal(ops->post(own->e, &x), 0);
	x.bytes = 65;
	assert_int_equal(ops->post(own->e, &x), SLUICE_EINVAL);
	x.kind = TRANSFER_GET;
	x.remote = own->to_log;
	x.bytes = 8;
	assert_int_equal(ops->post(own->e, &x), SLUICE_EINVAL);
}

CASE(arm__event_there_or_posted_or_woken__fd_readable)
{
	struct transfer x = put(own, 0, 0);
	struct event event;
	int fd = ops->sleep.fd(own->t);

	x.kind = TRANSFER_PUT_NOTIFY;
	post_now(own->e, x);
	assert_int_equal(ops->sleep.arm(own->t), 1);
	ops->sleep.disarm(own->t);
	assert_int_equal(ops->poll(own->t, &event, 1), 1);
	assert_int_equal(ops->sleep.arm(own->t), 0);
	assert_false(readable(fd, 0));
	post_now(own->e, x);
	assert_true(readable(fd, 0));
	ops->sleep.disarm(own->t);
	assert_false(readable(fd, 0));
	assert_int_equal(ops->poll(own->t, &event, 1), 1);
	assert_int_equal(ops->sleep.arm(own->t), 0);
	ops->sleep.wake(own->t);
	ops->sleep.wake(own->t);
	assert_true(readable(fd, 0));
	ops->sleep.disarm(own->t);
	assert_false(readable(fd, 0));
}

CASE(remote_open__damaged_descriptor__is_EWIRE)
{
	uint8_t good[REGION_DESCRIPTOR_BYTES], bad[REGION_DESCRIPTOR_BYTES];
	struct remote *remote = NULL;
	size_t i;

	assert_int_equal(ops->describe(own->e, own->log, good), 0);
	for (i = 0; i < REGION_HEAD_BYTES * 8; i++) {
		memcpy(bad, good, sizeof(bad));
		bad[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_equal(ops->remote_open(own->e, bad, &remote), SLUICE_EWIRE);
		assert_null(remote);
	}
}

/* Makes the CRC match, so that the later checks are reached. */
static int open_forged(struct own *own, size_t at, uint32_t value)
{
	uint8_t bytes[REGION_DESCRIPTOR_BYTES];
	struct remote *remote = NULL;
	int rc;

	assert_int_equal(ops->describe(own->e, own->log, bytes), 0);
	put_le32(bytes + at, value);
	put_le32(bytes + 60, crc32c(0, bytes, 60));
	rc = ops->remote_open(own->e, bytes, &remote);
	assert_null(remote);
	return rc;
}

CASE(remote_open__forged_descriptor__is_refused)
{
	assert_int_equal(open_forged(own, 4, REGION_READ | REGION_WRITE), SLUICE_EPEER);
	assert_int_equal(open_forged(own, 4, 0), SLUICE_EWIRE);
	assert_int_equal(open_forged(own, 4, 8), SLUICE_EWIRE);
	assert_int_equal(open_forged(own, 8, 1), SLUICE_EWIRE);           /* pid */
	assert_int_equal(open_forged(own, 12, 0x7fffffff), SLUICE_EPEER); /* no file has this
									     number */
	assert_int_equal(open_forged(own, 12, 0), SLUICE_EPEER);          /* stdin is not a
									     region */
	assert_int_equal(open_forged(own, 12, (uint32_t)own->inbox->fd), SLUICE_EPEER);
	assert_int_equal(open_forged(own, 16, BYTES + 1),
			 SLUICE_EPEER); /* bytes, in the last page */
	assert_int_equal(open_forged(own, 16, 100 * BYTES), SLUICE_EPEER);
	assert_int_equal(open_forged(own, 16, 0), SLUICE_EWIRE);
	assert_int_equal(open_forged(own, 20, 0xffffffff), SLUICE_EWIRE); /* has 2^64 bytes */
	assert_int_equal(open_forged(own, 24, 99), SLUICE_EPEER);         /* nonce */
	assert_int_equal(open_forged(own, 40, 1), SLUICE_EWIRE);          /* must be zero */
}

CASE(remote_open__region_closed_since__is_EPEER)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	struct region *old = NULL, *young = NULL;
	struct remote *remote = NULL;

	assert_int_equal(region_open(BYTES, REGION_READ, "old", &old), 0);
	assert_int_equal(ops->describe(own->e, old, descriptor), 0);
	region_close(&old);
	/* the next file gets the same number */
	assert_int_equal(region_open(BYTES, REGION_READ, "young", &young), 0);
	assert_int_equal(ops->remote_open(own->e, descriptor, &remote), SLUICE_EPEER);
	assert_null(remote);
	region_close(&young);
}

/* The descriptor is right, but the owner could truncate the file while it is mapped, so it is not a
 * region of ours. */
CASE(remote_open__file_without_seals__is_EPEER)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct region fake = { .bytes = 100, .access = REGION_WRITE, .nonce = 5 };
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	struct remote *remote = NULL;

	fake.fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(fake.fd >= 0);
	assert_int_equal(ftruncate(fake.fd, (off_t)(2 * page)), 0);
	assert_int_equal(ops->describe(own->e, &fake, descriptor), 0);
	assert_int_equal(pwrite(fake.fd, descriptor, sizeof(descriptor), 0), sizeof(descriptor));
	assert_int_equal(ops->remote_open(own->e, descriptor, &remote), SLUICE_EPEER);
	assert_null(remote);
	assert_int_equal(fcntl(fake.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	assert_int_equal(ops->remote_open(own->e, descriptor, &remote), 0); /* the change was the
									       only reason */
	ops->remote_close(&remote);
	close(fake.fd);
}

CASE(describe__local_region__is_EINVAL)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];

	assert_int_equal(ops->describe(own->e, own->local, descriptor), SLUICE_EINVAL);
}

CASE(control__own_rank__is_its_control_region)
{
	struct remote *control = NULL;
	struct transfer x = put(own, 9, 8);

	assert_int_equal(ops->control(own->e, &control), 0);
	assert_int_equal(control->bytes, BYTES);
	x.remote = control;
	fill(own->local->base, 8, 4);
	post_now(own->e, x);
	assert_true(filled((uint8_t *)own->inbox->base + 9, 8, 4));
	ops->remote_close(&control);
}

TEST(connect__other_rank_or_changed_card__is_refused)
{
	struct transport_config config = { .rank = 1, .size = 2, .queue_depth = 1 };
	struct transport *t = NULL;
	struct endpoint *e = NULL;
	struct remote *control = NULL;
	uint8_t record[TRANSPORT_RECORD_BYTES];
	size_t len, i;

	assert_int_equal(ops->open(&config, &t), 0);
	assert_int_equal(ops->record(t, record, &len), 0);
	assert_int_equal(ops->connect(t, 0, record, len, &e), SLUICE_EINVAL);
	for (i = 0; i < len; i++) {
		assert_int_equal(ops->connect(t, 1, record, i, &e), SLUICE_EWIRE);
		record[i] ^= 1;
		assert_int_equal(ops->connect(t, 1, record, len, &e), SLUICE_EWIRE);
		record[i] ^= 1;
	}
	assert_null(e);
	assert_int_equal(ops->connect(t, 1, record, len, &e), 0);
	assert_int_equal(ops->connect(t, 1, record, len, &e), SLUICE_EINVAL);
	assert_int_equal(ops->control(e, &control), SLUICE_EINVAL); /* the transport was opened
								       without one */
	assert_null(control);
	ops->close(&t);
	assert_null(t);
}

TEST(open__impossible_configuration__is_EINVAL)
{
	static const struct transport_config bad[] = {
		{ .rank = -1, .size = 2, .queue_depth = 1 },
		{ .rank = 2, .size = 2, .queue_depth = 1 },
		{ .rank = 0, .size = 0, .queue_depth = 1 },
		{ .rank = 0, .size = 1, .queue_depth = 0 },
		{ .rank = 0, .size = 1, .queue_depth = UINT32_MAX },
	};
	struct transport *t = NULL;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(ops->open(&bad[i], &t), SLUICE_EINVAL);
	assert_null(t);
}

TEST(close__after_use__leaves_no_file_and_no_mapping)
{
	void *own = NULL;
	int files = open_files();

	set_up(&own);
	assert_true(open_files() > files);
	tear_down(&own);
	assert_int_equal(open_files(), files);
	assert_int_equal(mappings_of("memfd:sluice-"), 0);
}
