/* SPDX-License-Identifier: BSD-3-Clause
 * The support that belongs to a step and a shard. choose_seeded.c selects it, and message.c
 * computes it again when it reads a message. */
#include "choose.h"

/* Selection sampling: coordinate i is selected with probability wanted / left. Only integers are
 * used, so the result is the same everywhere. */
void seeded_support(int down, uint32_t seed, uint64_t step, uint32_t shard, uint32_t span,
		    uint32_t count, uint32_t *index)
{
	const struct random_stream stream = { .purpose = down ? RANDOM_SUPPORT_DOWN :
								RANDOM_SUPPORT_UP,
					      .rank = shard,
					      .step = step,
					      .seed = seed };
	uint32_t four[4], n = 0;

	for (uint32_t i = 0; n < count; i++) {
		if (i % 4 == 0)
			random_quad(&stream, i / 4, four);
		if ((uint64_t)four[i % 4] * (span - i) < (uint64_t)(count - n) << 32)
			index[n++] = i;
	}
}
