/* SPDX-License-Identifier: BSD-3-Clause
 * Numbered puts (ofi_count.h) as the receiver takes them: any order, late ones, and senders that
 * break the rules. */
#include "rdma/ofi_count.h"
#include "cases.h"
#include <stdlib.h>
#include <string.h>

static struct arrivals *a;

static int setup(void **state)
{
	arrivals_close(&a);
	return arrivals_open(&a);
}

static int teardown(void **state)
{
	arrivals_close(&a);
	return 0;
}

#define CASE(name) TEST_WITH(name, setup, teardown)

static void take(enum count_kind kind, uint32_t number, unsigned half)
{
	assert_int_equal(arrivals_take(a, count_word(kind, number, (uint16_t)half)), 0);
}

static void expect(uint32_t wanted)
{
	uint32_t imm;

	assert_int_equal(arrivals_next(a, &imm), 1);
	assert_int_equal(imm, wanted);
}

static void expect_none(void)
{
	uint32_t imm;

	assert_int_equal(arrivals_next(a, &imm), 0);
}

CASE(notice__before_bytes_of_an_earlier_put__waits_for_them)
{
	take(COUNT_SAME, 2, 7);
	take(COUNT_BYTES, 1, 0);
	expect_none();
	take(COUNT_BYTES, 0, 0);
	expect(7);
	expect_none();
}

CASE(notice__of_32_bits__halves_arrive_in_any_order)
{
	take(COUNT_SAME, 3, 0x9999); /* its upper half is sent with number 2 */
	take(COUNT_HIGH, 2, 0xabcd);
	take(COUNT_BYTES, 1, 0);
	expect_none();
	take(COUNT_LOW, 0, 0x1234);
	expect(0xabcd1234);
	expect(0xabcd9999);
	expect_none();
}

/* Shuffles the numbers in blocks, and lets the 14 bits wrap several times. */
CASE(notices__of_100000_shuffled_puts__come_in_their_order)
{
	enum { BLOCK = COUNT_PLACES };
	static uint32_t order[BLOCK];
	uint32_t number = 0;

	srand(1);
	for (int block = 0; block < 100; block++, number += BLOCK) {
		for (uint32_t i = 0; i < BLOCK; i++)
			order[i] = number + i;
		for (uint32_t i = BLOCK - 1; i > 0; i--) {
			const uint32_t k = (uint32_t)rand() % (i + 1), swapped = order[i];

			order[i] = order[k];
			order[k] = swapped;
		}
		for (int i = 0; i < BLOCK; i++)
			take(order[i] % 3 ? COUNT_BYTES : COUNT_SAME, order[i], order[i] & 0xffff);
		for (uint32_t i = number; i < number + BLOCK; i++)
			if (i % 3 == 0)
				expect(i & 0xffff);
		expect_none();
	}
}

CASE(number__taken_twice_or_out_of_reach__is_refused)
{
	take(COUNT_BYTES, 1, 0);
	assert_int_equal(arrivals_take(a, count_word(COUNT_SAME, 1, 3)), -1);
	assert_int_equal(arrivals_take(a, count_word(COUNT_BYTES, COUNT_PLACES, 0)), -1);
	take(COUNT_BYTES, COUNT_PLACES - 1, 0);
	take(COUNT_BYTES, 0, 0);
	expect_none();
	assert_int_equal(arrivals_take(a, count_word(COUNT_BYTES, 0, 0)), -1);
	assert_int_equal(arrivals_take(a, count_word(COUNT_BYTES, 1, 0)), -1);
	assert_int_equal(arrivals_take(a, 0xffffffffu), -1);
}

CASE(halves__that_do_not_fit__are_refused)
{
	static const enum count_kind kinds[][2] = { { COUNT_HIGH, COUNT_BYTES },
						    { COUNT_LOW, COUNT_LOW },
						    { COUNT_LOW, COUNT_SAME } };
	uint32_t imm;

	for (int i = 0; i < 3; i++) {
		setup(NULL);
		take(kinds[i][0], 0, 1);
		take(kinds[i][1], 1, 2);
		assert_int_equal(arrivals_next(a, &imm), -1);
	}
}

/* A peer may send any 32-bit word. */
CASE(words__at_random__are_taken_or_refused_without_harm)
{
	uint32_t imm, dice = 1;
	int refused = 0;

	for (int i = 0; i < 1000000; i++) {
		dice = dice * 1664525 + 1013904223;
		refused += arrivals_take(a, dice) != 0;
		refused += arrivals_next(a, &imm) < 0;
	}
	assert_true(refused > 0);
}
