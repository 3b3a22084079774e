/* SPDX-License-Identifier: BSD-3-Clause
 * Device memory through the verbs transport: which method (dma-buf, peer memory, or none) is chosen
 * if some are refused or work only apparently, and that each moves the bytes of a put. The device's
 * memory is a memory file. The fake card reaches it by dma-buf, by address, or not at all. */
#include "base/error.h"
#include "base/log.h"
#include "rdma/register.h"
#include "sluice.h"
#include "verbs_pair.h"
#include "cases.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 65536, OFFSET = 8192 };

static struct verbs_pair pair;
static struct memory memory;
static char logged[4096];

static void take_line(int level, const char *line, void *context)
{
	size_t used = strlen(logged);

	snprintf(logged + used, sizeof(logged) - used, "%s\n", line);
}

static int setup(void **state)
{
	log_set_sink(take_line, NULL);
	log_configure("rdma+debug");
	fake_reset();
	logged[0] = '\0';
	memory = (struct memory){ .place = MEMORY_DEVICE, .bytes = BYTES, .fd_offset = OFFSET };
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
	munmap(memory.address, BYTES);
	close(memory.fd);
	return 0;
}

struct method_case {
	int no_dmabuf, no_peermem, dead_dmabuf, dead_peermem, exported;
	int reached;
	const char *says; /* must be in the log if the card can access the memory, otherwise in
			     the error */
};

static const struct method_case cases[] = {
	{ .exported = 1, .reached = 1, .says = "fake0 reads it through a dma-buf" },
	{ .exported = 0, .reached = 1, .says = "through peer memory, because dma-buf: it was not" },
	{ .exported = 1, .no_dmabuf = 1, .reached = 1, .says = "EOPNOTSUPP" },
	{ .exported = 1, .dead_dmabuf = 1, .reached = 1, .says = "read back bytes that differ" },
	{ .exported = 1, .no_dmabuf = 1, .no_peermem = 1, .says = "EFAULT" },
	{ .exported = 1,
	  .dead_dmabuf = 1,
	  .dead_peermem = 1,
	  .says = "read back bytes that differ" },
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static struct memory take_case(const struct method_case *c)
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

TEST_WITH(methods__refused_or_dead__takes_the_first_that_moves_bytes, setup, teardown)
{
	struct verbs_device device;
	uint8_t before[BYTES];

	assert_int_equal(verbs_device_choose(&(struct verbs_wanted){ 0 }, &device), 0);
	memcpy(before, memory.address, BYTES);
	for (int i = 0; i < CASES; i++) {
		struct memory m = take_case(&cases[i]);
		struct ibv_pd *pd = ibv_alloc_pd(fake_context());
		enum method method = METHOD_UNTRIED;
		struct ibv_mr *mr;

		logged[0] = '\0';
		assert_int_equal(register_device_memory(pd, &device, &m, &method, &mr),
				 cases[i].reached ? 0 : SLUICE_ENOSUPP);
		assert_int_equal(mr != NULL, cases[i].reached);
		assert_non_null(
			strstr(cases[i].reached ? logged : sluice_last_error(), cases[i].says));
		assert_memory_equal(before, memory.address, BYTES); /* restored after the test
								       transfers */
		if (mr)
			ibv_dereg_mr(mr);
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

static int put(struct remote *remote, const struct region *near, size_t bytes)
{
	return verbs_transport.post(pair.e[0],
				    &(struct transfer){ .kind = TRANSFER_PUT_NOTIFY,
							.remote = remote,
							.local_region = near,
							.local = (uint8_t *)near->base + 1000,
							.offset = 500,
							.bytes = bytes });
}

TEST_WITH(put__device_memory_by_each_method__bytes_move_or_it_is_refused, setup, teardown)
{
	/* A long size, and one that would be sent inline from host memory. */
	static const size_t sizes[] = { 30000, 40 };

	for (int i = 0; i < CASES; i++) {
		struct memory m;
		struct region *far, *near;
		struct remote *remote;

		teardown(NULL);
		setup(NULL);
		m = take_case(&cases[i]);
		remote = open_two(&far, &near, &m);
		assert_int_equal(verbs_transport.prepare(pair.e[0], near, near->base, near->bytes),
				 cases[i].reached);
		for (int n = 0; n < 2; n++) {
			memset(far->base, 0, BYTES);
			if (!cases[i].reached) {
				assert_int_equal(put(remote, near, sizes[n]), SLUICE_ENOSUPP);
				continue;
			}
			assert_int_equal(put(remote, near, sizes[n]), 0);
			assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, n + 1), 0);
			assert_memory_equal((uint8_t *)far->base + 500,
					    (uint8_t *)memory.address + 1000, sizes[n]);
		}
		close_all(&remote, &far, &near);
	}
}

TEST_WITH(device_memory__prepared_in_parts__tested_once_and_each_part_moves, setup, teardown)
{
	struct region *far, *near;
	struct remote *remote;
	uint64_t pinned;
	int made;

	pair_memory_windows = "no";
	remote = open_two(&far, &near, &memory);
	pinned = fake_counts.pinned;
	made = fake_counts.qps_made;
	for (int part = 0; part < 2; part++)
		assert_int_equal(verbs_transport.prepare(pair.e[0], near,
							 (uint8_t *)near->base + part * BYTES / 2,
							 BYTES / 2),
				 1);
	assert_int_equal(fake_counts.qps_made - made, 2); /* queue pairs of one test */
	assert_int_equal(fake_counts.pinned - pinned, BYTES);
	assert_int_equal(put(remote, near, BYTES / 2 - 1000), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
	assert_memory_equal((uint8_t *)far->base + 500, (uint8_t *)memory.address + 1000,
			    BYTES / 2 - 1000);
	assert_int_equal(fake_counts.pinned - pinned, BYTES);
	close_all(&remote, &far, &near);
	pair_memory_windows = "auto";
}

TEST_WITH(device_memory__filled_or_offered_to_peers__refused, setup, teardown)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	struct region *far, *near, *none = NULL;
	struct remote *remote;

	remote = open_two(&far, &near, &memory);
	assert_int_equal(verbs_transport.post(pair.e[0], &(struct transfer){ .kind = TRANSFER_GET,
									     .remote = remote,
									     .local_region = near,
									     .local = near->base,
									     .bytes = 1000 }),
			 SLUICE_ENOSUPP);
	assert_non_null(strstr(sluice_last_error(), "cannot fill device memory"));
	assert_int_equal(verbs_transport.describe(pair.e[0], near, descriptor), SLUICE_EINVAL);
	assert_int_equal(region_open_device(&memory, REGION_READ, &none), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "peers can reach only host memory"));
	assert_null(none);
	close_all(&remote, &far, &near);
}
