/* SPDX-License-Identifier: BSD-3-Clause
 * Counts the RoCE v2 packets that pass a network interface, by their traffic class (test_path.sh;
 * Debian's tcpdump is not everywhere). Until it gets SIGTERM:
 *
 *   classes INTERFACE
 *
 * Then prints "CLASS PACKETS LONGEST" for each class, LONGEST being the bytes of the longest IP
 * packet. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROCE_PORT = 4791, BUFFER_BYTES = 64 << 20 };

static volatile sig_atomic_t over;

static void end(int signal)
{
	(void)signal;
	over = 1;
}

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "classes: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* Opens a socket for all protocols, because a bridge takes the packets of its ports before a socket
 * of one protocol gets them. */
static int open_interface(const char *name)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_ALL),
				  .sll_ifindex = (int)if_nametoindex(name) };
	const int fd = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_ALL)), bytes = BUFFER_BYTES;

	if (fd < 0 || !at.sll_ifindex || bind(fd, (struct sockaddr *)&at, sizeof(at)))
		give_up(name);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	return fd;
}

int main(int argc, char **argv)
{
	static unsigned long packets[256], longest[256];
	struct sigaction action = { .sa_handler = end }; /* without SA_RESTART, so that recv()
							    ends */
	uint8_t bytes[128];
	int fd;

	if (argc != 2)
		return 2;
	sigaction(SIGTERM, &action, NULL);
	fd = open_interface(argv[1]);
	while (!over) {
		const ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
		struct iphdr ip;
		struct udphdr udp;

		if (n < (ssize_t)(sizeof(ip) + sizeof(udp)))
			continue;
		memcpy(&ip, bytes, sizeof(ip));
		memcpy(&udp, bytes + sizeof(ip), sizeof(udp));
		if (ip.ihl != 5 || ip.protocol != IPPROTO_UDP || udp.dest != htons(ROCE_PORT))
			continue;
		packets[ip.tos]++;
		if (ntohs(ip.tot_len) > longest[ip.tos])
			longest[ip.tos] = ntohs(ip.tot_len);
	}
	close(fd);
	for (int i = 0; i < 256; i++)
		if (packets[i])
			printf("%d %lu %lu\n", i, packets[i], longest[i]);
	return 0;
}
