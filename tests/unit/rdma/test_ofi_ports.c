/* SPDX-License-Identifier: BSD-3-Clause
 * SLUICE_PORTS with the real libfabric over this machine's loopback: the ports where ranks listen,
 * and the message if they cannot. libfabric reads the range once in a process, so the cases build
 * on each other. */
#include "rdma/transport.h"
#include "rdma_pair.h"
#include "sluice.h"
#include "cases.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS = 3, BASE = 20000, SPAN = 30000 };

static const struct transport_ops *const ops = &ofi_transport;
static struct transport *t[RANKS + 1];
static char ports[16];
static int first;

/* Returns 1 if a socket listens on the port, so that it cannot be bound. */
static int is_taken(int port)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons((uint16_t)port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int taken = bind(s, (const struct sockaddr *)&at, sizeof(at)) != 0;

	close(s);
	return taken;
}

static int open_rank(int rank, const char *range)
{
	const struct transport_config config = { .rank = rank,
						 .size = RANKS + 1,
						 .queue_depth = 4,
						 .interface = "127.0.0.1",
						 .ports = range,
						 .lost_after_ms = 1000 };

	return ops->open(&config, &t[rank]);
}

static void find_free_ports(void)
{
	int n = 0;

	for (first = BASE + getpid() % SPAN; n < RANKS; n++)
		if (is_taken(first + n)) {
			first += n + 1;
			n = -1;
		}
	snprintf(ports, sizeof(ports), "%d-%d", first, first + RANKS - 1);
}

TEST(ranks__as_many_as_ports__listen_on_these)
{
	find_free_ports();
	for (int i = 0; i < RANKS; i++)
		CHECK(open_rank(i, ports) == 0);
	for (int i = 0; i < RANKS; i++)
		CHECK(is_taken(first + i));
}

TEST(rank__without_a_free_port__is_refused_with_the_reason)
{
	quiet_log();
	CHECK(open_rank(RANKS, ports) != 0);
	CHECK(strstr(sluice_last_error(), "may have no free port on this node") != NULL);
	CHECK(strstr(sluice_last_error(), ports) != NULL);
	for (int i = 0; i < RANKS; i++)
		ops->close(&t[i]);
}

TEST(rank__with_another_range_in_the_process__is_refused_with_the_reason)
{
	CHECK(open_rank(0, "1000-1001") != 0);
	CHECK(strstr(sluice_last_error(), "had read another range") != NULL);
	CHECK(open_rank(0, "20000") == SLUICE_EINVAL);
	CHECK(open_rank(0, NULL) == 0);
	ops->close(&t[0]);
}
