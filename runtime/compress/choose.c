/* SPDX-License-Identifier: BSD-3-Clause
 * The table of selectors (choose.h). */
#include "choose.h"

const struct selection_kind selection_kinds[SELECTIONS] = {
	[SELECT_ALL] = { .argument = ARGUMENT_NONE, .by_coordinate = 1 },
	[SELECT_TOPK] = { .argument = ARGUMENT_DENSITY, .adds = 1, .run = choose_topk },
	[SELECT_THRESHOLD] = { .argument = ARGUMENT_LEVEL, .varies = 1, .by_coordinate = 1,
			       .run = choose_threshold },
	[SELECT_GAUSSIANK] = { .argument = ARGUMENT_DENSITY, .varies = 1, .run = choose_gaussiank },
	[SELECT_RANDOM] = { .argument = ARGUMENT_DENSITY, .unbiased = 1, .varies = 1,
			    .run = choose_random },
	[SELECT_VARIANCE] = { .argument = ARGUMENT_LEVEL, .unbiased = 1, .varies = 1,
			      .run = choose_variance },
	[SELECT_CYCLIC] = { .argument = ARGUMENT_CYCLIC, .exchange = EXCHANGE_LEADER, .run = choose_cyclic },
	[SELECT_SKETCH] = { .argument = ARGUMENT_SKETCH, .exchange = EXCHANGE_SKETCH },
	[SELECT_BLOCK] = { .argument = ARGUMENT_DENSITY, .seeded = 1, .contiguous = 1, .run = choose_block },
	[SELECT_RANDK] = { .argument = ARGUMENT_DENSITY, .seeded = 1, .run = choose_randk },
	[SELECT_TENSOR_TOPK] = { .argument = ARGUMENT_DENSITY, .by_tensor = 1, .run = choose_tensor_topk },
	[SELECT_GLOBAL] = { .argument = ARGUMENT_GLOBAL, .varies = 1, .global = 1, .adds = 1,
			    .run = choose_topk },
};
