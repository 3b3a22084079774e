/* SPDX-License-Identifier: BSD-3-Clause
 * Device memory through the verbs transport: which rung of the ladder (dma-buf, peer memory,
 * staging) is taken when some are refused or only pretend to work, and that the bytes move on each.
 * The device's memory is a memory file; the fake card reaches it by dma-buf, by address, or not. */
#include "base/error.h"
#include "base/log.h"
#include "rdma/ladder.h"
#include "sluice.h"
#include "verbs_pair.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

enum { BYTES = 65536, OFFSET = 8192 };

static struct verbs_pair pair;
static struct memory memory;
static int copies;

static int copy(void *to, const void *from, size_t n)
{
	copies++;
	memcpy(to, from, n);
	return 0;
}

static void swallow(int level, const char *line, void *context)
{
	(void)level;
	(void)line;
	(void)context;
}

static int setup(void **state)
{
	(void)state;
	log_set_sink(swallow, NULL);
	fake_reset();
	copies = 0;
	memory = (struct memory){
		.place = MEMORY_DEVICE, .bytes = BYTES, .fd_offset = OFFSET, .copy = copy
	};
	memory.fd = memfd_create("device", MFD_CLOEXEC);
	assert_true(memory.fd >= 0);
	assert_int_equal(ftruncate(memory.fd, OFFSET + BYTES), 0);
	memory.address = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd, OFFSET);
	assert_true(memory.address != MAP_FAILED);
	fake_device_memory(memory.address, BYTES);
	for (size_t i = 0; i < BYTES; i++)
		((uint8_t *)memory.address)[i] = (uint8_t)(i * 7 + 3);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	munmap(memory.address, BYTES);
	close(memory.fd);
	return 0;
}

struct rung_case {
	int no_dmabuf, no_peermem, dead_dmabuf, dead_peermem, exported;
	enum ladder_rung rung;
	const char *says;
};

static const struct rung_case cases[] = {
	{ .exported = 1, .rung = LADDER_DMABUF, .says = "" },
	{ .exported = 0, .rung = LADDER_PEERMEM, .says = "not exported" },
	{ .exported = 1, .no_dmabuf = 1, .rung = LADDER_PEERMEM, .says = "EOPNOTSUPP" },
	{ .exported = 1, .dead_dmabuf = 1, .rung = LADDER_PEERMEM, .says = "reads back" },
	{ .exported = 1,
	  .no_dmabuf = 1,
	  .no_peermem = 1,
	  .rung = LADDER_STAGING,
	  .says = "EFAULT" },
	{ .exported = 1,
	  .dead_dmabuf = 1,
	  .dead_peermem = 1,
	  .rung = LADDER_STAGING,
	  .says = "reads back" },
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static struct memory take_case(const struct rung_case *c)
{
	struct memory m = memory;

	fake.no_dmabuf = c->no_dmabuf;
	fake.no_peermem = c->no_peermem;
	fake.dead_dmabuf = c->dead_dmabuf;
	fake.dead_peermem = c->dead_peermem;
	if (!c->exported)
		m.fd = -1;
	return m;
}

static void ladder__rungs_refused_or_dead__takes_the_first_that_moves_bytes(void **state)
{
	struct verbs_device device;
	uint8_t before[BYTES];

	(void)state;
	assert_int_equal(verbs_device_choose(NULL, NULL, &device), 0);
	memcpy(before, memory.address, BYTES);
	for (int i = 0; i < CASES; i++) {
		struct memory m = take_case(&cases[i]);
		struct ibv_pd *pd = ibv_alloc_pd(fake_context());
		struct ladder_memory got = { 0 };

		assert_int_equal(ladder_register(pd, &device, &m, 0, &got), 0);
		assert_int_equal(got.rung, cases[i].rung);
		assert_non_null(strstr(got.reason, cases[i].says));
		assert_memory_equal(before, memory.address, BYTES); /* put back after the proof */
		ladder_end(&got);
		ibv_dealloc_pd(pd);
		assert_null(fake_leak());
	}
}

static struct remote *open_two(struct region **inbox, struct region **near, const struct memory *m)
{
	struct remote *remote;

	assert_int_equal(pair_open(&pair, 16), 0);
	assert_int_equal(region_open(BYTES, REGION_READ | REGION_WRITE, "far", inbox), 0);
	assert_int_equal(region_open_device(m, 0, near), 0);
	assert_int_equal(pair_share(&pair, 1, *inbox, &remote), 0);
	return remote;
}

static void close_all(struct remote **remote, struct region **inbox, struct region **near)
{
	verbs_transport.remote_close(remote);
	region_close(inbox);
	region_close(near);
	pair_close(&pair);
	assert_null(fake_leak());
}

static void put_and_get__device_memory_on_each_rung__bytes_move(void **state)
{
	(void)state;
	for (int i = 0; i < CASES; i++) {
		struct memory m;
		struct region *far, *near;
		struct remote *remote;

		teardown(NULL);
		setup(NULL);
		m = take_case(&cases[i]);
		remote = open_two(&far, &near, &m);
		assert_int_equal(verbs_transport.in_place(pair.e[0], near),
				 cases[i].rung != LADDER_STAGING);
		for (int n = 0; n < 2;
		     n++) { /* a long one, and one that host memory would inline */
			size_t bytes = n == 0 ? 30000 : 40;

			memset(far->base, 0, BYTES);
			assert_int_equal(
				verbs_transport.post(
					pair.e[0],
					&(struct transfer){ .kind = TRANSFER_PUT_NOTIFY,
							    .remote = remote,
							    .local_region = near,
							    .local = (uint8_t *)near->base + 1000,
							    .offset = 500,
							    .bytes = bytes }),
				0);
			assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, n + 1), 0);
			assert_memory_equal((uint8_t *)far->base + 500,
					    (uint8_t *)memory.address + 1000, bytes);
		}
		memset(far->base, 0xa5, BYTES);
		assert_int_equal(verbs_transport.post(
					 pair.e[0],
					 &(struct transfer){ .kind = TRANSFER_GET,
							     .remote = remote,
							     .local_region = near,
							     .local = (uint8_t *)near->base + 2000,
							     .bytes = 30000 }),
				 0);
		assert_int_equal(pair_wait(&pair, 0, EVENT_DONE, 1), 0);
		assert_int_equal(pair.events[0][pair.n_events[0] - 1].status, 0);
		assert_memory_equal((uint8_t *)memory.address + 2000, far->base, 30000);
		assert_int_equal(copies, cases[i].rung == LADDER_STAGING ? 3 : 0);
		close_all(&remote, &far, &near);
	}
}

static void describe__device_memory__only_where_the_card_reaches_it(void **state)
{
	(void)state;
	for (int i = 0; i < CASES; i++) {
		struct memory m;
		uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
		struct region *region;
		struct remote *remote = NULL;

		teardown(NULL);
		setup(NULL);
		m = take_case(&cases[i]);
		assert_int_equal(pair_open(&pair, 16), 0);
		assert_int_equal(region_open_device(&m, REGION_WRITE, &region), 0);
		if (cases[i].rung == LADDER_STAGING) {
			assert_int_equal(verbs_transport.describe(pair.e[1], region, descriptor),
					 SLUICE_ENOSUPP);
			assert_non_null(strstr(sluice_last_error(), cases[i].says));
		} else {
			uint8_t bytes[64];

			memset(bytes, i + 1, sizeof(bytes));
			assert_int_equal(pair_share(&pair, 1, region, &remote), 0);
			assert_int_equal(
				verbs_transport.post(
					pair.e[0], &(struct transfer){ .kind = TRANSFER_PUT_NOTIFY,
								       .remote = remote,
								       .local = bytes,
								       .bytes = 64,
								       .offset = 4096 }),
				0);
			assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
			assert_memory_equal((uint8_t *)memory.address + 4096, bytes, sizeof(bytes));
		}
		close_all(&remote, &region, &region);
	}
}

static void describe__same_bytes_readable_and_writable__refused(void **state)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	struct region *model, *inbox;
	struct remote *none = NULL;

	(void)state;
	assert_int_equal(pair_open(&pair, 16), 0);
	assert_int_equal(region_open_device(&memory, REGION_READ, &model), 0);
	assert_int_equal(region_open_device(&memory, REGION_WRITE, &inbox), 0);
	assert_int_equal(verbs_transport.describe(pair.e[1], model, descriptor), 0);
	assert_int_equal(verbs_transport.describe(pair.e[1], inbox, descriptor), SLUICE_EINVAL);
	assert_int_equal(fake_remote_writable(memory.address, BYTES), 0);
	close_all(&none, &model, &inbox);
}

static void staging__allocator_cannot_copy__refused_with_the_reasons(void **state)
{
	struct region *far, *near;
	struct remote *remote;

	(void)state;
	fake.no_dmabuf = fake.no_peermem = 1;
	memory.copy = NULL;
	remote = open_two(&far, &near, &memory);
	assert_int_equal(verbs_transport.post(pair.e[0], &(struct transfer){ .kind = TRANSFER_PUT,
									     .remote = remote,
									     .local_region = near,
									     .local = near->base,
									     .bytes = 1000 }),
			 SLUICE_ENOSUPP);
	assert_non_null(strstr(sluice_last_error(), "EOPNOTSUPP"));
	close_all(&remote, &far, &near);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			ladder__rungs_refused_or_dead__takes_the_first_that_moves_bytes, setup,
			teardown),
		cmocka_unit_test_setup_teardown(put_and_get__device_memory_on_each_rung__bytes_move,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			describe__device_memory__only_where_the_card_reaches_it, setup, teardown),
		cmocka_unit_test_setup_teardown(describe__same_bytes_readable_and_writable__refused,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			staging__allocator_cannot_copy__refused_with_the_reasons, setup, teardown),
	};

	return cmocka_run_group_tests_name("verbs ladder", tests, NULL, NULL);
}
