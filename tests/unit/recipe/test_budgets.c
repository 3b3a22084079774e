/* SPDX-License-Identifier: BSD-3-Clause
 * The choices of recipe=auto: their bytes, and their numbers in messages. */
#include "cases.h"
#include "compress/choose.h"
#include "compress/message.h"
#include "random.h"
#include "recipe/budgets.h"
#include <stdlib.h>

enum { SPAN = 1 << 18 };

/* Returns the length of a message of random values at random positions. */
static size_t bytes_of(struct random *r, double density, struct value_coding values, int small)
{
	const size_t cap = message_bound(SPAN, SPAN, (struct value_coding){ VALUE_F32, 0, 0, 0 });
	struct message m = {
		.kind = MESSAGE_PUSH, .values = values, .densest = small, .parts = 1, .span = SPAN
	};
	uint32_t *index = malloc(SPAN * sizeof(*index));
	float *value = malloc(SPAN * sizeof(*value));
	uint8_t *out = malloc(cap);
	uint64_t left = density_count(density, SPAN);
	size_t bytes;

	for (uint32_t i = 0; i < SPAN; i++)
		if (random_unit(r) * (SPAN - i) < (double)left) {
			index[m.count] = i;
			value[m.count++] = random_normal(r);
			left--;
		}
	bytes = message_encode(NULL, &m, density < 1 ? index : NULL, value, value, out, cap);
	free(index);
	free(value);
	free(out);
	return bytes;
}

TEST(density__each_code_at_random_positions__takes_at_most_the_bytes_of_f32)
{
	struct random r = { 1 };

	for (unsigned budget = 1; budget < BUDGETS; budget++)
		for (enum budget_way way = 0; way < BUDGET_WAYS; way++)
			for (int small = 0; small < 2; small++) {
				const size_t most = bytes_of(&r,
							     budget_density(budget, way, CODE_F32),
							     code_kinds[CODE_F32].values, small);

				for (enum code c = 1; c < AUTO_CODES; c++) {
					const double density = budget_density(budget, way, c);
					const size_t bytes = bytes_of(
						&r, density, budget_values(budget, c), small);

					assert_true(bytes <= most);
					/* Nor does it leave out what it could send. */
					assert_true(density == 1 || 3 * bytes > 2 * most);
				}
			}
}

TEST(density__budget__largest_and_by_name)
{
	assert_true(budget_largest(2, BUDGET_UP) == 0.042);
	assert_true(budget_largest(BUDGET_DENSE, BUDGET_DOWN) == 1);
	assert_int_equal(budget_of_density(0.1), 1);
	assert_int_equal(budget_of_density(0.001), 3);
	assert_int_equal(budget_of_density(1), 0);
	assert_int_equal(budget_of_density(0.02), 0);
	assert_int_equal(budget_values(BUDGET_DENSE, CODE_TWOMEANS).type, VALUE_F32);
}

TEST(choice__packed__is_unpacked_and_changed_in_one_part)
{
	for (unsigned packed = 0; packed < AUTO_CHOICES; packed++) {
		const struct auto_choice c = choice_unpack(packed);
		struct auto_choice other;

		assert_true(c.budget <= BUDGETS && c.code[0] < AUTO_CODES &&
			    c.code[1] < AUTO_CODES);
		assert_int_equal(choice_pack(&c), packed);
		other = choice_unpack(choice_with_code(packed, BUDGET_DOWN, CODE_E3M0));
		assert_int_equal(other.budget, c.budget);
		assert_int_equal(other.code[BUDGET_UP], c.code[BUDGET_UP]);
		assert_int_equal(other.code[BUDGET_DOWN], CODE_E3M0);
		other = choice_unpack(choice_with_budget(packed, 3));
		assert_int_equal(other.budget, 3);
		assert_memory_equal(other.code, c.code, sizeof(c.code));
	}
	assert_true(AUTO_CHOICES <= UINT8_MAX + 1); /* a message has a byte for it */
}
