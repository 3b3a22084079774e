/* SPDX-License-Identifier: BSD-3-Clause
 * For tests that examine messages: decodes what a push sent, like its receivers. */
#ifndef TESTS_SENT_H
#define TESTS_SENT_H
#include "worker/lane.h"
#include "worker/state.h"
#include "ranks.h"
#include <string.h>

enum { SENT_MAX = 1000 };

static inline struct message decode_into(const uint8_t *bytes, size_t n, uint64_t begin,
					 uint32_t seed, float *dense)
{
	static uint8_t copy[1 << 16];
	static uint32_t index[SENT_MAX];
	static float value[SENT_MAX];
	struct message m;
	const char *why;
	CHECK_OK(message_copy(NULL, bytes, n, copy, sizeof copy, &m, &why));
	m.stream.seed = seed;
	CHECK_OK(message_decode(NULL, &m, copy, index, value, &why));
	for (uint32_t i = 0; i < m.count; i++)
		dense[begin + (m.coding == CODING_DENSE ? i : index[i])] = value[i];
	return m;
}

/* Decodes the last push into dense. Returns the number of its coordinates. */
static inline uint32_t last_sent(const sluice_model *model, float *dense)
{
	const struct fragment fragment = worker_fragment(model->worker);
	uint32_t n = 0;
	memset(dense, 0, model->layout.count * sizeof *dense);
	for (uint32_t s = fragment.first; s < fragment.end; s++) {
		const struct shard_layout *at = &model->layout.shards[s];
		size_t bytes;
		const uint8_t *sent = lane_sent(model->worker->lanes, s, &bytes);
		n += decode_into(sent, bytes, at->begin, model->recipe.seed, dense).count;
	}
	return n;
}
#endif
