/* SPDX-License-Identifier: BSD-3-Clause
 * A process that is not in the job tries to be taken for a rank of it (test_attack.sh). Speaks
 * plain rdma_cm to a rank's listener; knows the frames of rdma/frame.h, as an attacker would, but
 * not the keys that the ranks share.
 *
 *   attack SOURCE TARGET PORT lengths           private data of no, odd, wrong and the largest
 *                                               length
 *   attack SOURCE TARGET PORT key RANK          the whole exchange as that rank, with another key
 *   attack SOURCE TARGET PORT replay FILE       what an honest rank sent before
 *                                               (record_connect.c), again
 *   attack SOURCE TARGET PORT flood N           keeps N exchanges begun and never ended, until
 *                                               SIGTERM
 *
 * Prints what became of each try. Status: 0 if nobody accepted anything, 1 if somebody did, 2: no
 * result. */
#include "base/bytes.h"
#include "base/wire_version.h"
#include "rdma/frame.h"
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REQUEST_MAX = 56, ANSWER_MS = 3000, QPN = 0x4711 };

static struct sockaddr_in source, target;
static struct rdma_event_channel *channel;
static int accepted, answered;
static volatile sig_atomic_t asked_to_end;

struct answer {
	int event;         /* event of rdma_cm; -1: none came */
	uint8_t data[256]; /* private data of a reject */
	size_t n;
};

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "attack: %s: %s\n", what, strerror(errno));
	exit(2);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Counts events that no unknown process may get. */
static void look_for_acceptance(enum rdma_cm_event_type event)
{
	if (event == RDMA_CM_EVENT_ESTABLISHED || event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
		printf("ACCEPTED\n");
		accepted++;
	}
}

/* Returns the next event of this connection within the time, with the private data of a reject.
 * Late events of other connections are ignored. */
static struct answer next_answer(const struct rdma_cm_id *id, int timeout_ms)
{
	double end = seconds() + timeout_ms / 1000.0;
	struct pollfd readable = { .fd = channel->fd, .events = POLLIN };
	struct answer answer = { .event = -1 };
	struct rdma_cm_event *event;

	while (answer.event < 0 && seconds() < end) {
		if (poll(&readable, 1, 1 + (int)(1000 * (end - seconds()))) != 1)
			continue;
		if (rdma_get_cm_event(channel, &event))
			give_up("rdma_get_cm_event");
		look_for_acceptance(event->event);
		if (event->id == id)
			answer.event = (int)event->event;
		if (event->id == id && event->event == RDMA_CM_EVENT_REJECTED &&
		    event->param.conn.private_data) {
			answer.n = event->param.conn.private_data_len;
			if (answer.n > sizeof(answer.data))
				answer.n = sizeof(answer.data);
			memcpy(answer.data, event->param.conn.private_data, answer.n);
		}
		rdma_ack_cm_event(event);
	}
	return answer;
}

static struct rdma_cm_id *prepare(void)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		give_up("rdma_create_id");
	if (rdma_resolve_addr(id, (struct sockaddr *)&source, (struct sockaddr *)&target,
			      ANSWER_MS) ||
	    next_answer(id, 2 * ANSWER_MS).event != RDMA_CM_EVENT_ADDR_RESOLVED ||
	    rdma_resolve_route(id, ANSWER_MS) ||
	    next_answer(id, 2 * ANSWER_MS).event != RDMA_CM_EVENT_ROUTE_RESOLVED)
		give_up("the target cannot be resolved");
	return id;
}

static void request(struct rdma_cm_id *id, const void *bytes, size_t n)
{
	/* a request needs no queue pair, only a number */
	struct rdma_conn_param param = {
		.private_data = bytes,
		.private_data_len = (uint8_t)n,
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 3,
		.rnr_retry_count = 3,
		.qp_num = QPN,
	};

	if (rdma_connect(id, &param))
		give_up("rdma_connect");
}

/* Sends one request and returns its answer. */
static struct answer try(const char *what, const void *bytes, size_t n)
{
	struct rdma_cm_id *id = prepare();
	struct answer answer;
	struct frame frame;
	const char *why = "not a frame";

	request(id, bytes, n);
	answer = next_answer(id, ANSWER_MS);
	printf("%s (%zu bytes): %s", what, n,
	       answer.event < 0 ? "no answer" :
				  rdma_event_str((enum rdma_cm_event_type)answer.event));
	if (answer.event == RDMA_CM_EVENT_REJECTED &&
	    frame_decode(answer.data, answer.n, &frame, &why) == 0)
		printf(", frame of kind %d", (int)frame.kind);
	printf("\n");
	answered += answer.event == RDMA_CM_EVENT_REJECTED;
	rdma_destroy_id(id);
	return answer;
}

static void lengths(void)
{
	static const size_t sizes[] = { 0, 1, 3, 7, 8, 9, 19, 20, 21, 47, 48, 55, REQUEST_MAX };
	uint8_t bytes[FRAME_MAX] = { 0 };
	struct frame hello = { .kind = FRAME_HELLO, .rank = 0 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(bytes, 0, sizeof(bytes));
		try("zeros", bytes, sizes[i]);
		auth_random(bytes, sizeof(bytes));
		try("random", bytes, sizes[i]);
	}
	/* a valid header with each kind and a false length */
	for (unsigned kind = 0; kind < 8; kind++) {
		frame_encode(&hello, bytes);
		bytes[2] = (uint8_t)kind;
		bytes[3] = 255;
		try("length 255", bytes, REQUEST_MAX);
		bytes[3] = 0;
		try("length 0", bytes, REQUEST_MAX);
	}
	for (unsigned i = 0; i < 4; i++) {
		static const uint32_t ranks[] = { 0, 4, 0x7fffffff, 0xffffffff };

		hello.rank = ranks[i];
		try("hello of a rank that cannot be", bytes, frame_encode(&hello, bytes));
	}
}

static void other_key(uint32_t rank)
{
	enum { RANKS = 4 };
	uint8_t key[RANKS][AUTH_KEY_BYTES];
	const struct peer_keys keys = { .rank = (int)rank,
					.size = RANKS,
					.wire_version = SLUICE_WIRE_VERSION,
					.key = (const uint8_t(*)[AUTH_KEY_BYTES])key };
	uint8_t bytes[FRAME_MAX], extra[FRAME_SIGNED_MAX];
	struct auth_context context = { .client = rank, .server = rank + 1 };
	struct frame hello = { .kind = FRAME_HELLO, .rank = rank }, alive, proof;
	struct answer answer;
	const char *why;

	auth_random(key, sizeof(key));
	auth_random(hello.nonce, sizeof(hello.nonce));
	answer = try("hello", bytes, frame_encode(&hello, bytes));
	proof = hello;
	proof.kind = FRAME_PROOF;
	proof.attempt = 0x7fffffff;
	proof.qpn = QPN;
	memset(proof.gid + 10, 0xff, 2);
	memcpy(proof.gid + 12, &source.sin_addr, 4);
	memcpy(context.nonce_client, proof.nonce, sizeof(context.nonce_client));
	auth_tag(&keys, AUTH_PROOF, &context, extra, frame_signed(&proof, extra), proof.tag);
	try("proof with another key", bytes, frame_encode(&proof, bytes));
	memset(proof.tag, 0, sizeof(proof.tag));
	try("proof of zeros", bytes, frame_encode(&proof, bytes));
	/* the rank's own tag, sent back to it */
	if (frame_decode(answer.data, answer.n, &alive, &why) == 0 && alive.kind == FRAME_ALIVE) {
		memcpy(proof.tag, alive.tag, sizeof(proof.tag));
		try("proof that is the tag of a reply", bytes, frame_encode(&proof, bytes));
	}
}

/* Sends the lines "ADDRESS PORT HEX" of the file that are for the target. */
static void replay(const char *path)
{
	char address[64], hex[2 * 256 + 1];
	unsigned port;
	int lines = 0;
	FILE *in = fopen(path, "r");

	if (!in)
		give_up(path);
	while (fscanf(in, "%63s %u %512s", address, &port, hex) == 3) {
		uint8_t bytes[256];
		size_t n = strlen(hex) / 2;

		for (size_t i = 0; i < n; i++)
			bytes[i] = (uint8_t)strtoul((char[]){ hex[2 * i], hex[2 * i + 1], 0 }, NULL,
						    16);
		if (port != ntohs(target.sin_port) || inet_addr(address) != target.sin_addr.s_addr)
			continue;
		lines++;
		try("replayed", bytes, n < REQUEST_MAX ? n : REQUEST_MAX);
	}
	fclose(in);
	if (lines == 0) {
		fprintf(stderr, "attack: %s holds nothing that was sent to the target\n", path);
		exit(2);
	}
}

static void end_flood(int signal)
{
	(void)signal;
	asked_to_end = 1;
}

/* Makes N connections at different stages: some wait for the answer, others end before it. */
static void flood(int n)
{
	struct rdma_cm_id **ids = calloc((size_t)n, sizeof(*ids));
	long begun = 0, rejected = 0, silent = 0;

	if (!ids)
		give_up("memory");
	/* a system call that the signal interrupts is begun again */
	signal(SIGTERM, end_flood);
	for (int at = 0; !asked_to_end; at = (at + 1) % n) {
		uint8_t bytes[FRAME_MAX];
		struct frame hello = { .kind = FRAME_HELLO, .rank = (uint32_t)at % 4 };
		struct answer answer;

		if (ids[at])
			rdma_destroy_id(ids[at]);
		auth_random(hello.nonce, sizeof(hello.nonce));
		ids[at] = prepare();
		request(ids[at], bytes, frame_encode(&hello, bytes));
		begun++;
		if (at % 2)
			continue; /* the answer is read later, or never */
		answer = next_answer(ids[at], 200);
		rejected += answer.event == RDMA_CM_EVENT_REJECTED;
		silent += answer.event < 0;
		if (begun == n)
			printf("%ld begun\n", begun), fflush(stdout);
	}
	printf("flood: %ld exchanges begun and not ended, %d of them held at a time; of the "
	       "answers waited for %ld refused, %ld none\n",
	       begun, n, rejected, silent);
	answered += begun >= n;
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	source = (struct sockaddr_in){ .sin_family = AF_INET };
	target = (struct sockaddr_in){ .sin_family = AF_INET,
				       .sin_port = htons((uint16_t)atoi(argv[3])) };
	if (inet_pton(AF_INET, argv[1], &source.sin_addr) != 1 ||
	    inet_pton(AF_INET, argv[2], &target.sin_addr) != 1)
		return 2;
	channel = rdma_create_event_channel();
	if (!channel)
		give_up("rdma_create_event_channel");
	if (!strcmp(argv[4], "lengths"))
		lengths();
	else if (!strcmp(argv[4], "key") && argc > 5)
		other_key((uint32_t)strtoul(argv[5], NULL, 10));
	else if (!strcmp(argv[4], "replay") && argc > 5)
		replay(argv[5]);
	else if (!strcmp(argv[4], "flood") && argc > 5)
		flood(atoi(argv[5]));
	else
		return 2;
	printf("%d accepted, %d refused\n", accepted, answered);
	fflush(stdout);
	if (accepted)
		return 1;
	return answered ? 0 : 2;
}
