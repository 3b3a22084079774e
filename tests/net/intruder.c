/* SPDX-License-Identifier: BSD-3-Clause
 * A process that is no rank, for test_intruder.sh. It reaches ranks through libfabric as a peer
 * does: it says again what was heard of their handshakes, and puts to keys that it guesses, with
 * notices.
 *
 *     intruder INTERFACE MESSAGES PUTS ADDRESS:PORT...
 *
 * MESSAGES is a file of messages of OFI_FRAME_BYTES each. Prints how many puts were refused and
 * accepted, how many messages were sent, and how many answers came. */
#include "base/clock.h"
#include "rdma/auth.h"
#include "rdma/ofi_fabric.h"
#include "rdma/ofi_proof.h"
#include "sluice.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES_MAX = 256, PUT_BYTES = 64, RECEIVES = 16, LIMIT_MS = 3000 };

struct operation {
	struct fi_context2 context; /* libfabric's, first */
	uint8_t bytes[OFI_FRAME_BYTES];
};

static struct ofi_fabric *fabric;
static struct operation receives[RECEIVES], current;
static unsigned refused, accepted, sent, answers;

static int is_receive(const void *context)
{
	const struct operation *o = context;

	return o >= receives && o < receives + RECEIVES;
}

/* 0: the current operation has succeeded. Else an error of libfabric, or -1: it was given up. */
static int end_current(uint64_t until)
{
	while (now_ns() < until) {
		struct ofi_completion c;

		if (!ofi_fabric_poll(fabric, &c, 1) || !c.context)
			continue;
		if (c.context == &current)
			return c.error;
		answers += is_receive(c.context) && !c.error;
	}
	return -1;
}

/* Posts until libfabric takes it: the first one connects. */
static int perform(ssize_t (*post)(struct ofi_fabric *f, const struct ofi_piece *piece),
		   const struct ofi_piece *piece)
{
	const uint64_t until = now_ns() + (uint64_t)LIMIT_MS * 1000000;
	struct ofi_completion c;
	ssize_t rc;

	while ((rc = post(fabric, piece)) == -FI_EAGAIN && now_ns() < until)
		if (ofi_fabric_poll(fabric, &c, 1))
			answers += is_receive(c.context) && !c.error;
	return rc ? (int)-rc : end_current(until);
}

static void visit(fi_addr_t to, const uint8_t *messages, size_t n_messages, int puts)
{
	struct ofi_piece piece = { .local = current.bytes,
				   .bytes = OFI_FRAME_BYTES,
				   .to = to,
				   .context = &current.context };

	for (size_t i = 0; i < n_messages; i++) {
		memcpy(current.bytes, messages + i * OFI_FRAME_BYTES, OFI_FRAME_BYTES);
		sent += !perform(ofi_fabric_send, &piece);
	}
	piece.bytes = PUT_BYTES;
	piece.announce = piece.placed = 1;
	for (int i = 0; i < puts; i++) {
		uint64_t guess[3];

		if (auth_random(guess, sizeof(guess)))
			exit(2);
		piece.key = i % 2 ? guess[0] : (uint64_t)i / 2; /* as providers number them */
		piece.address = guess[1] >> (i % 64);
		piece.data = guess[2];
		*(perform(ofi_fabric_put, &piece) ? &refused : &accepted) += 1;
	}
}

static int complain(const char *what)
{
	fprintf(stderr, "intruder: %s: %s\n", what, sluice_last_error());
	return 2;
}

int main(int argc, char **argv)
{
	static uint8_t messages[MESSAGES_MAX * OFI_FRAME_BYTES];
	FILE *file = argc > 4 ? fopen(argv[2], "rb") : NULL;
	const size_t n = file ? fread(messages, OFI_FRAME_BYTES, MESSAGES_MAX, file) : 0;

	if (!n)
		return complain("INTERFACE MESSAGES PUTS ADDRESS:PORT... are needed");
	fclose(file);
	if (ofi_fabric_open(NULL, argv[1], &fabric))
		return complain("no libfabric");
	for (int i = 0; i < RECEIVES; i++)
		ofi_fabric_receive(fabric, &(struct ofi_piece){ .local = receives[i].bytes,
								.bytes = OFI_FRAME_BYTES,
								.context = &receives[i].context });
	for (int i = 4; i < argc; i++) {
		struct sockaddr_in name = { .sin_family = AF_INET };
		char *colon = strrchr(argv[i], ':');
		fi_addr_t to;

		if (!colon)
			return complain(argv[i]);
		*colon = '\0';
		name.sin_port = htons((uint16_t)atoi(colon + 1));
		if (inet_pton(AF_INET, argv[i], &name.sin_addr) != 1 ||
		    ofi_fabric_name_bytes(fabric) != sizeof(name) ||
		    ofi_fabric_insert(fabric, &name, &to))
			return complain(argv[i]);
		visit(to, messages, n, atoi(argv[3]));
	}
	printf("%u %u %u %u\n", refused, accepted, sent, answers);
	ofi_fabric_close(&fabric);
	return 0;
}
