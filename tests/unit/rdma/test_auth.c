/* SPDX-License-Identifier: BSD-3-Clause
 * The keys that two ranks derive from their public keys, and the tags made with them. */
#include "rdma/auth.h"
#include "base/log.h"
#include "sluice.h"
#include "cases.h"
#include <string.h>

enum { A, B, STRANGER, RANKS };

static struct auth_private *private_of[RANKS];
static uint8_t public_of[RANKS][AUTH_PUBLIC_BYTES];

static void open_all(void)
{
	for (int r = 0; r < RANKS; r++) {
		assert_int_equal(auth_private_make(&private_of[r]), 0);
		auth_public(private_of[r], public_of[r]);
	}
}

static void close_all(void)
{
	for (int r = 0; r < RANKS; r++)
		auth_private_free(&private_of[r]);
}

static void agree(int own, int peer, uint8_t key[AUTH_KEY_BYTES])
{
	assert_int_equal(auth_agree(private_of[own], public_of[peer], key), 0);
}

TEST(agree__two_ranks__have_a_key_that_no_other_has)
{
	uint8_t of_a[AUTH_KEY_BYTES], of_b[AUTH_KEY_BYTES], others[3][AUTH_KEY_BYTES];

	open_all();
	agree(A, B, of_a);
	agree(B, A, of_b);
	assert_memory_equal(of_a, of_b, AUTH_KEY_BYTES);
	agree(STRANGER, A, others[0]); /* a peer that has read both public keys */
	agree(STRANGER, B, others[1]);
	agree(A, A, others[2]); /* the rank's own public key, sent back to it */
	for (int i = 0; i < 3; i++)
		assert_memory_not_equal(of_a, others[i], AUTH_KEY_BYTES);
	close_all();
}

TEST(agree__another_run__has_other_keys)
{
	uint8_t first[AUTH_KEY_BYTES], second[AUTH_KEY_BYTES];

	open_all();
	agree(A, B, first);
	close_all();
	open_all();
	agree(A, B, second);
	close_all();
	assert_memory_not_equal(first, second, AUTH_KEY_BYTES);
}

static void check_refused(const uint8_t theirs[AUTH_PUBLIC_BYTES])
{
	uint8_t key[AUTH_KEY_BYTES];

	assert_int_equal(auth_agree(private_of[A], theirs, key), SLUICE_EWIRE);
	assert_non_null(strstr(sluice_last_error(), "not a point of the curve"));
}

/* With points of small order on another curve the sender would know the resulting key. */
TEST(agree__not_a_point__is_refused)
{
	uint8_t theirs[AUTH_PUBLIC_BYTES] = { 0 };

	open_all();
	check_refused(theirs); /* the point at infinity */
	theirs[0] = 4;
	check_refused(theirs); /* (0, 0) */
	memset(theirs + 1, 0xff, sizeof(theirs) - 1);
	check_refused(theirs); /* the coordinates are larger than the prime */
	for (size_t at = 0; at < AUTH_PUBLIC_BYTES; at++) {
		memcpy(theirs, public_of[B], AUTH_PUBLIC_BYTES);
		theirs[at] ^= 1;
		check_refused(theirs);
	}
	close_all();
}

TEST(tag__key_of_the_peer__is_the_one_used)
{
	static const uint8_t of_a[2][AUTH_KEY_BYTES] = { { 1 }, { 7 } };
	static const uint8_t of_b[2][AUTH_KEY_BYTES] = { { 7 }, { 2 } };
	const struct peer_keys a = { .rank = 0, .size = 2, .wire_version = 1, .key = of_a };
	const struct peer_keys b = { .rank = 1, .size = 2, .wire_version = 1, .key = of_b };
	struct auth_context context = { .client = 0, .server = 1 };
	uint8_t tag[AUTH_TAG_BYTES];

	assert_int_equal(auth_tag(&a, AUTH_PROOF, &context, "x", 1, tag), 0);
	assert_int_equal(auth_check(&b, AUTH_PROOF, &context, "x", 1, tag), 1);
	assert_int_equal(auth_check(&b, AUTH_ACCEPT, &context, "x", 1, tag), 0);
	assert_int_equal(auth_check(&b, AUTH_PROOF, &context, "y", 1, tag), 0);
	context.client = 2; /* no rank has this number */
	assert_int_equal(auth_tag(&b, AUTH_PROOF, &context, "x", 1, tag), SLUICE_EINVAL);
	assert_int_equal(auth_check(&b, AUTH_PROOF, &context, "x", 1, tag), 0);
}
