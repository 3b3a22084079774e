/* SPDX-License-Identifier: BSD-3-Clause
 * The path attributes that rdma/path.c sets on the queue pairs of both ranks, over a connection
 * manager that proposes the kernel's values (fake_cm.c). The test replaces the files in which an
 * administrator sets a port's traffic class. */
#include "base/log.h"
#include "rdma/path.h"
#include "rdma/retry.h"
#include "sluice.h"
#include "verbs_two.h"
#include "cases.h"
#include <stdio.h>
#include <string.h>

FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__real_fopen(const char *path, const char *mode);

/* Contents of two files; NULL: the file does not exist. */
static char *of_mlx5, *of_rdma_cm;

static FILE *opened(char *text)
{
	return text ? fmemopen(text, strlen(text), "r") : NULL;
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
	if (!strcmp(path, "/sys/class/infiniband/fake0/tc/1/traffic_class"))
		return opened(of_mlx5);
	if (!strcmp(path, "/sys/kernel/config/rdma_cm/fake0/ports/1/default_roce_tos"))
		return opened(of_rdma_cm);
	return __real_fopen(path, mode);
}

static int setup(void **state)
{
	pair_traffic_class = pair_service_level = NULL;
	of_mlx5 = of_rdma_cm = NULL;
	pair_mtu[0] = pair_mtu[1] = 0;
	return fabric_setup(state);
}
#define CASE(name) TEST_WITH(name, setup, NULL)

/* Checks the two queue pairs of the connection. */
static void check_pairs(unsigned traffic_class, unsigned service_level, enum ibv_mtu mtu)
{
	int n = 0;

	for (const struct fake_qp *q = fake_qps; q; q = q->next) {
		if (q->qp.state != IBV_QPS_RTS || !q->port_mtu)
			continue;
		n++;
		assert_int_equal(q->attr.ah_attr.grh.traffic_class, traffic_class);
		assert_int_equal(q->attr.ah_attr.sl, service_level);
		assert_int_equal(q->attr.path_mtu, mtu);
		assert_int_equal(q->attr.min_rnr_timer, PATH_RNR_TIMER);
		assert_int_equal(q->attr.timeout, RETRY_ACK_TIMEOUT);
		assert_in_range(q->attr.retry_cnt, 1, 6); /* some cards treat 7 as infinite */
		assert_in_range(q->attr.rnr_retry, 1, 6);
		assert_int_equal(q->attr.max_dest_rd_atomic, q->max_reads);
	}
	assert_int_equal(n, 2);
}

static void check_connected(unsigned traffic_class, unsigned service_level, enum ibv_mtu mtu)
{
	open_pair(64);
	check_pairs(traffic_class, service_level, mtu);
	close_pair();
}

CASE(connected__queue_pairs_of_both_sides_have_short_rnr_timer_one_timeout_and_class_106)
{
	check_connected(106, 0, IBV_MTU_4096);
}

CASE(connected_again__new_queue_pairs_have_the_same)
{
	open_pair(64);
	fake_cm_cut(1);
	for (int i = 0; i < 200; i++)
		pair_poll(&pair);
	while (!strstr(logged, "connected again to rank 0") ||
	       !strstr(logged, "connected again to rank 1"))
		pair_poll(&pair);
	check_pairs(106, 0, IBV_MTU_4096);
	close_pair();
}

CASE(class_and_level_of_the_user__are_set)
{
	pair_traffic_class = "184";
	pair_service_level = "5";
	check_connected(184, 5, IBV_MTU_4096);
	pair_traffic_class = "0";
	check_connected(0, 5, IBV_MTU_4096);
}

CASE(class_that_an_administrator_gave_to_the_port__is_taken)
{
	char mlx5[] = "Global tclass=160\ndst_ip=10.3.0.1 tclass=96\n", none[] = "",
	     rdma_cm[] = "96\n", unset[] = "0\n";

	of_mlx5 = mlx5;
	of_rdma_cm = rdma_cm;
	check_connected(160, 0, IBV_MTU_4096);
	of_mlx5 = none;
	check_connected(96, 0, IBV_MTU_4096);
	of_rdma_cm = unset;
	check_connected(106, 0, IBV_MTU_4096);
	pair_traffic_class = "8";
	of_mlx5 = mlx5;
	check_connected(8, 0, IBV_MTU_4096);
}

CASE(class_or_level_that_is_no_number_in_range__is_refused_by_name)
{
	static const char *const wrong[] = { "256", "-1", "dscp26", "1 ", "999999999999999999999" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		pair_traffic_class = wrong[i];
		assert_int_equal(pair_open(&pair, 64), SLUICE_EINVAL);
		assert_non_null(strstr(sluice_last_error(), "SLUICE_TRAFFIC_CLASS"));
		close_pair();
	}
	pair_traffic_class = "auto";
	pair_service_level = "16";
	assert_int_equal(pair_open(&pair, 64), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "SLUICE_SERVICE_LEVEL"));
	close_pair();
}

CASE(infiniband__keeps_the_resolved_class)
{
	struct verbs_device device = {
		.name = "fake0", .port = 1, .infiniband = 1, .address = { .ss_family = AF_INET }
	};
	struct path_choice path;

	assert_int_equal(path_choose(&device, "auto", "", &path), 0);
	assert_int_equal(path.traffic_class, PATH_AS_RESOLVED);
	assert_int_equal(path.service_level, PATH_AS_RESOLVED);
	device.address.ss_family = AF_UNSPEC; /* without IP, nothing is resolved */
	assert_int_equal(path_choose(&device, "auto", "", &path), 0);
	assert_int_equal(path.traffic_class, 0);
	assert_int_equal(path.service_level, 0);
	assert_int_equal(path_choose(&device, "32", "3", &path), 0);
	assert_int_equal(path.traffic_class, 32);
	assert_int_equal(path.service_level, 3);
}

/* Moves more bytes than fit into a packet in both directions and back. */
static void check_bytes_arrive(void)
{
	struct two x = share_two();

	fill(x.near->base, BYTES, 3);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, x.to_inbox, x.near, 0, BYTES, 0), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
	assert_memory_equal(x.inbox->base, x.near->base, BYTES);
	fill(x.log->base, BYTES, 5);
	assert_int_equal(post(0, TRANSFER_GET, x.to_log, x.near, 0, BYTES, 1), 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_DONE, 1), 0);
	assert_memory_equal(x.log->base, x.near->base, BYTES);
	close_two(&x);
}

CASE(ports_of_different_mtu__the_smaller_one_on_both_sides_and_all_bytes_arrive)
{
	static const uint8_t mtus[][2] = { { IBV_MTU_4096, IBV_MTU_1024 },
					   { IBV_MTU_1024, IBV_MTU_4096 },
					   { IBV_MTU_512, IBV_MTU_256 } };

	for (size_t i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		const uint8_t *mtu = mtus[i];

		memcpy(pair_mtu, mtu, 2);
		open_pair(64);
		check_pairs(106, 0, mtu[0] < mtu[1] ? mtu[0] : mtu[1]);
		check_bytes_arrive();
		close_pair();
	}
}
