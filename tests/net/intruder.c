/* SPDX-License-Identifier: BSD-3-Clause
 * A process that is no rank, for test_intruder.sh. It reaches ranks through libfabric as a peer
 * does: it says again what was heard of their handshakes, and puts to keys that it guesses, with
 * notices.
 *
 *     intruder INTERFACE MESSAGES PUTS ADDRESS:PORT...
 *     intruder frame
 *
 * MESSAGES is a file of messages. Prints how many puts were refused and accepted, how many messages
 * were sent, and how many answers came. It puts to memory of its own first, with the right key and
 * with a wrong one, so that what it takes for accepted and for refused was seen. An operation that
 * nobody answers is neither: the program says so and ends. "frame" prints the first four bytes of a
 * message, in hexadecimal, and its length. */
#include "base/bytes.h"
#include "base/clock.h"
#include "rdma/auth.h"
#include "rdma/ofi_fabric.h"
#include "rdma/ofi_proof.h"
#include "sluice.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES_MAX = 256, PUT_BYTES = 64, RECEIVES = 16, NAME_BYTES = 64, LIMIT_MS = 10000 };

struct operation {
	struct fi_context2 context; /* libfabric's, first */
	uint8_t bytes[OFI_FRAME_BYTES];
};

static struct ofi_fabric *fabric;
static struct operation receives[RECEIVES], current;
static unsigned refused, accepted, sent, answers;

static _Noreturn void give_up(const char *what, const char *why)
{
	fprintf(stderr, "intruder: %s: %s; before that %u puts were refused, %u accepted\n", what,
		why, refused, accepted);
	exit(2);
}

static int is_receive(const void *context)
{
	const struct operation *o = context;

	return o >= receives && o < receives + RECEIVES;
}

/* Advances pending operations. Returns 1 if the current operation has ended, with its result in
 * *out. */
static int current_ended(struct ofi_completion *out)
{
	if (!ofi_fabric_poll(fabric, out, 1) || !out->context)
		return 0;
	answers += is_receive(out->context) && !out->notice && !out->error;
	return out->context == &current;
}

/* Posts until libfabric accepts it (the first post connects), and waits for its end. *out receives
 * the result. An operation that does not end would delay the next one. */
static void perform(ssize_t (*post)(struct ofi_fabric *f, const struct ofi_piece *piece),
		    const struct ofi_piece *piece, const char *what, struct ofi_completion *out)
{
	const uint64_t until = now_ns() + (uint64_t)LIMIT_MS * 1000000;
	char late[64];
	ssize_t rc;

	snprintf(late, sizeof(late), "nobody answered it within %d ms", LIMIT_MS);
	while ((rc = post(fabric, piece)) == -FI_EAGAIN && now_ns() < until)
		current_ended(out);
	if (rc)
		give_up(what, rc == -FI_EAGAIN ? late : ofi_fabric_error(fabric, rc));
	while (!current_ended(out))
		if (now_ns() >= until)
			give_up(what, late);
}

static void say(fi_addr_t to, const uint8_t *message)
{
	const struct ofi_piece piece = { .local = current.bytes,
					 .bytes = OFI_FRAME_BYTES,
					 .to = to,
					 .context = &current.context };
	struct ofi_completion c;

	memcpy(current.bytes, message, OFI_FRAME_BYTES);
	perform(ofi_fabric_send, &piece, "a message", &c);
	if (c.error)
		give_up("a message", c.text);
	sent++;
}

/* 1: accepted. */
static int put(fi_addr_t to, uint64_t key, uint64_t address, uint64_t data)
{
	const struct ofi_piece piece = { .local = current.bytes,
					 .bytes = PUT_BYTES,
					 .to = to,
					 .key = key,
					 .address = address,
					 .data = data,
					 .announce = 1,
					 .placed = 1,
					 .context = &current.context };
	struct ofi_completion c;

	perform(ofi_fabric_put, &piece, "a put", &c);
	return !c.error;
}

/* The last message is sent after the puts, to test whether a rank that refused them still
 * listens. */
static void visit(fi_addr_t to, const uint8_t *messages, size_t n_messages, int puts)
{
	for (size_t i = 0; i + 1 < n_messages; i++)
		say(to, messages + i * OFI_FRAME_BYTES);
	for (int i = 0; i < puts; i++) {
		uint64_t guess[3];

		if (auth_random(guess, sizeof(guess)))
			give_up("a guess", sluice_last_error());
		*(put(to, i % 2 ? guess[0] : (uint64_t)i / 2, /* keys are guessed as providers
								 number them */
		      guess[1] >> (i % 64), guess[2]) ?
			  &accepted :
			  &refused) += 1;
	}
	say(to, messages + (n_messages - 1) * OFI_FRAME_BYTES);
}

/* Puts to memory of this process, which only the right key can reach. */
static void try_at_home(void)
{
	static uint8_t memory[PUT_BYTES];
	uint8_t name[NAME_BYTES];
	struct fid_mr *mr;
	fi_addr_t home;
	size_t n;

	if (ofi_fabric_name(fabric, name, sizeof(name), &n) ||
	    ofi_fabric_insert(fabric, name, &home) ||
	    ofi_fabric_register(fabric, memory, sizeof(memory), FI_REMOTE_WRITE, "home", &mr))
		give_up("memory of its own", sluice_last_error());
	memset(current.bytes, 1, PUT_BYTES);
	if (!put(home, fi_mr_key(mr), ofi_fabric_origin(fabric, memory), 0) || !memory[0])
		give_up("a put with the right key", "it was refused");
	memset(current.bytes, 2, PUT_BYTES);
	if (put(home, ~fi_mr_key(mr), ofi_fabric_origin(fabric, memory), 0) || memory[0] != 1)
		give_up("a put with a wrong key", "it was accepted");
	ofi_fabric_unregister(&mr);
}

static int complain(const char *what)
{
	fprintf(stderr, "intruder: %s: %s\n", what, sluice_last_error());
	return 2;
}

static int print_frame(void)
{
	uint8_t magic[4];

	put_le32(magic, OFI_FRAME_MAGIC);
	printf("%02x%02x%02x%02x %d\n", magic[0], magic[1], magic[2], magic[3], OFI_FRAME_BYTES);
	return 0;
}

int main(int argc, char **argv)
{
	static uint8_t messages[MESSAGES_MAX * OFI_FRAME_BYTES];
	FILE *file = argc > 4 ? fopen(argv[2], "rb") : NULL;
	const size_t n = file ? fread(messages, OFI_FRAME_BYTES, MESSAGES_MAX, file) : 0;

	if (argc == 2 && !strcmp(argv[1], "frame"))
		return print_frame();
	if (!n)
		return complain("INTERFACE MESSAGES PUTS ADDRESS:PORT... are needed");
	fclose(file);
	if (ofi_fabric_open(NULL, argv[1], NULL, &fabric))
		return complain("no libfabric");
	for (int i = 0; i < RECEIVES; i++)
		ofi_fabric_receive(fabric, &(struct ofi_piece){ .local = receives[i].bytes,
								.bytes = OFI_FRAME_BYTES,
								.context = &receives[i].context });
	try_at_home();
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
