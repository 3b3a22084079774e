/* SPDX-License-Identifier: BSD-3-Clause
 * A message with different values in all fields, random coordinates, and memory, for the tests of
 * messages and index codings. */
#ifndef TESTS_MESSAGE_EXAMPLE_H
#define TESTS_MESSAGE_EXAMPLE_H
#include "base/error.h"
#include "compress/message.h"
#include "random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

static inline void *get_memory(size_t bytes)
{
	void *memory = malloc(bytes + !bytes);

	assert_non_null(memory);
	return memory;
}

static inline struct value_coding plain(enum value_type type)
{
	return (struct value_coding){ type, 0, 0, 0 };
}

static inline struct message example(uint32_t span, uint32_t count, enum value_type type)
{
	return (struct message){ .kind = MESSAGE_PUSH,
				 .values = { type, 0, 0, 0 },
				 .raised = 0x81,
				 .chosen = 3,
				 .phase = 2,
				 .part = 1,
				 .parts = 3,
				 .rank = 7,
				 .epoch = 4,
				 .model = 9,
				 .shard = 11,
				 .seq = (uint64_t)5 << 40,
				 .step = (uint64_t)6 << 40,
				 .have_version = 12,
				 .span = span,
				 .count = count,
				 .divisor = 0,
				 .anchor = 1,
				 .lr = 0.05f };
}

/* Draws increasing indices below span, each with this probability. Returns their number. */
static inline uint32_t random_support(struct random *r, uint32_t span, double density,
				      uint32_t *index)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < span; i++)
		if (random_unit(r) < density)
			index[count++] = i;
	return count;
}
#endif
