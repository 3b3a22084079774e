/* SPDX-License-Identifier: BSD-3-Clause
 * The messages by which two ranks prove over libfabric that they hold the key of the pair: without
 * libfabric, as the exchange is a function of messages. */
#include "base/bytes.h"
#include "rdma/auth.h"
#include "rdma/ofi_proof.h"
#include "rdma_pair.h"
#include "cases.h"
#include <string.h>

enum { RANKS = 3, CLIENT = 0, SERVER = 1, SECOND_NS = 1000000000 };

static const uint8_t right[RANKS][AUTH_KEY_BYTES] = { { 7 }, { 7 }, { 7 } };

struct exchange {
	struct ofi_proofs *side[2];
	struct ofi_greeting own[2];
	uint64_t now_ns;
};

static void open_exchange(struct exchange *x, const uint8_t (*of_server)[AUTH_KEY_BYTES])
{
	*x = (struct exchange){ .now_ns = 1000ULL * SECOND_NS };
	for (int i = 0; i < 2; i++) {
		const struct peer_keys keys = { .rank = i,
						.size = RANKS,
						.wire_version = 3,
						.key = i == SERVER ? of_server : right };

		assert_int_equal(ofi_proofs_open(i, RANKS, &x->side[i]), 0);
		ofi_proofs_admit(x->side[i], &keys);
		x->own[i].token = 0x1000u + (unsigned)i;
		memset(x->own[i].control, 0x50 + i, REGION_HEAD_BYTES);
		ofi_proof_begin(x->side[i], 1 - i, &x->own[i]);
	}
}

static void close_exchange(struct exchange *x)
{
	ofi_proofs_close(&x->side[0]);
	ofi_proofs_close(&x->side[1]);
}

static int hand(struct exchange *x, int to, const uint8_t *message, uint8_t *answer)
{
	int peer = -1;
	const int rc = ofi_proof_answer(x->side[to], message, OFI_FRAME_BYTES, x->now_ns, &peer,
					answer);

	if (rc)
		assert_int_equal(peer, 1 - to);
	return rc;
}

/* Exchanges messages up to number n: 1 HELLO, 2 CHALLENGE, 3 PROOF, 4 ACCEPT, 5 GREETING. */
static void exchange_up_to(struct exchange *x, int n, uint8_t message[OFI_FRAME_BYTES])
{
	uint8_t next[OFI_FRAME_BYTES];

	assert_int_equal(ofi_proof_hello(x->side[CLIENT], SERVER, x->now_ns, message), 1);
	for (int i = 2; i <= n; i++) {
		assert_int_equal(hand(x, i % 2 ? CLIENT : SERVER, message, next), 1);
		memcpy(message, next, sizeof(next));
	}
}

static int is_up(const struct exchange *x, int side)
{
	return ofi_proof_greeting(x->side[side], 1 - side) != NULL;
}

TEST(exchange__same_key__both_learn_the_greeting_of_the_other)
{
	uint8_t message[OFI_FRAME_BYTES], none[OFI_FRAME_BYTES];
	struct exchange x;

	open_exchange(&x, right);
	exchange_up_to(&x, 5, message);
	assert_true(is_up(&x, CLIENT) && !is_up(&x, SERVER));
	assert_int_equal(hand(&x, SERVER, message, none), 0);
	for (int i = 0; i < 2; i++) {
		const struct ofi_greeting *got = ofi_proof_greeting(x.side[i], 1 - i);

		assert_non_null(got);
		assert_memory_equal(got, &x.own[1 - i], sizeof(*got));
		assert_int_equal(ofi_proofs_refused(x.side[i]), 0);
	}
	/* A completed exchange cannot start again. */
	assert_int_equal(ofi_proof_hello(x.side[CLIENT], SERVER, x.now_ns + SECOND_NS, none), 0);
	close_exchange(&x);
}

static int holds(const uint8_t *message, const void *what, size_t n)
{
	for (size_t at = 0; at + n <= OFI_FRAME_BYTES; at++)
		if (!memcmp(message + at, what, n))
			return 1;
	return 0;
}

TEST(greeting__before_the_peer_has_proved_itself__is_in_no_message)
{
	uint8_t message[OFI_FRAME_BYTES];

	for (int n = 1; n <= 5; n++) {
		struct exchange x;

		open_exchange(&x, right);
		exchange_up_to(&x, n, message);
		assert_int_equal(holds(message, x.own[SERVER].control, 16), n == 4);
		assert_int_equal(holds(message, x.own[CLIENT].control, 16), n == 5);
		close_exchange(&x);
	}
}

TEST(exchange__other_key__neither_side_comes_up)
{
	uint8_t other[RANKS][AUTH_KEY_BYTES];
	uint8_t message[OFI_FRAME_BYTES], answer[OFI_FRAME_BYTES];
	struct exchange x;

	quiet_log();
	memcpy(other, right, sizeof(other));
	other[CLIENT][31] ^= 1;
	open_exchange(&x, (const uint8_t(*)[AUTH_KEY_BYTES])other);
	exchange_up_to(&x, 2, message);
	assert_int_equal(hand(&x, CLIENT, message, answer), 0);
	assert_int_equal(ofi_proofs_refused(x.side[CLIENT]), 1);
	assert_true(!is_up(&x, CLIENT) && !is_up(&x, SERVER));
	close_exchange(&x);
}

/* Every bit of every message matters, except those that the receiver does not use, such as the tag
 * of a HELLO, whose content is not trusted. */
TEST(message__any_bit_changed__nobody_comes_up_by_it)
{
	quiet_log();
	for (int n = 2; n <= 5; n++)
		for (int bit = 0; bit < OFI_FRAME_BYTES * 8; bit++) {
			uint8_t message[OFI_FRAME_BYTES], answer[OFI_FRAME_BYTES];
			const int to = n % 2 ? SERVER : CLIENT;
			struct exchange x;

			open_exchange(&x, right);
			exchange_up_to(&x, n, message);
			message[bit / 8] ^= (uint8_t)(1 << bit % 8);
			/* With another kind or sender it may become a HELLO. The answer is a
			 * challenge, with which nothing is gained. */
			if (hand(&x, to, message, answer))
				assert_int_equal(get_le32(answer + 4), 2);
			assert_false(is_up(&x, to));
			close_exchange(&x);
		}
}

TEST(message__of_any_other_length__is_refused)
{
	uint8_t message[OFI_FRAME_BYTES + 8] = { 0 }, answer[OFI_FRAME_BYTES];
	struct exchange x;
	int peer;

	quiet_log();
	open_exchange(&x, right);
	exchange_up_to(&x, 3, message);
	for (size_t n = 0; n < sizeof(message); n++)
		if (n != OFI_FRAME_BYTES)
			assert_int_equal(ofi_proof_answer(x.side[SERVER], message, n, x.now_ns,
							  &peer, answer),
					 0);
	assert_int_equal(ofi_proofs_refused(x.side[SERVER]), sizeof(message) - 1);
	close_exchange(&x);
}

TEST(proof__replayed_to_another_run_of_the_server__is_refused)
{
	uint8_t message[OFI_FRAME_BYTES], answer[OFI_FRAME_BYTES];
	struct exchange x, later;

	quiet_log();
	open_exchange(&x, right);
	open_exchange(&later, right);
	exchange_up_to(&x, 3, message);
	assert_int_equal(hand(&later, SERVER, message, answer), 0);
	assert_int_equal(ofi_proofs_refused(later.side[SERVER]), 1);
	/* It is also worthless to the same client after a minute. */
	x.now_ns += 61ULL * SECOND_NS;
	assert_int_equal(hand(&x, SERVER, message, answer), 0);
	close_exchange(&x);
	close_exchange(&later);
}

TEST(hello__unanswered__is_said_again_with_another_nonce)
{
	uint8_t first[OFI_FRAME_BYTES], second[OFI_FRAME_BYTES], answer[OFI_FRAME_BYTES];
	struct exchange x;

	open_exchange(&x, right);
	exchange_up_to(&x, 1, first);
	assert_int_equal(ofi_proof_hello(x.side[CLIENT], SERVER, x.now_ns, second), 0);
	x.now_ns += SECOND_NS;
	assert_int_equal(ofi_proof_hello(x.side[CLIENT], SERVER, x.now_ns, second), 1);
	assert_memory_not_equal(first, second, OFI_FRAME_BYTES);
	/* The answer to the first hello comes late, and no longer matches the client's request. */
	assert_int_equal(hand(&x, SERVER, first, answer), 1);
	assert_int_equal(hand(&x, CLIENT, answer, first), 0);
	assert_int_equal(hand(&x, SERVER, second, answer), 1);
	assert_int_equal(hand(&x, CLIENT, answer, first), 1);
	assert_int_equal(ofi_proof_hello(x.side[SERVER], CLIENT, x.now_ns, first), 0);
	close_exchange(&x);
}
