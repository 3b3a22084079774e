/* SPDX-License-Identifier: BSD-3-Clause
 * See bits.h. Called by worker_bits.c and shard_bits.c. */
#include "model/bits.h"
#include "base/error.h"
#include "compress/choose.h"
#include "compress/message.h"
#include "model/measure.h"
#include "sluice.h"
#include <stdlib.h>

/* A sample is made of pieces at equal distances, because tensors differ. It is long enough that
 * even at the sparsest budget the selected values fill a block of twomeans. */
enum { SAMPLE = 131072, PIECE = 1024 };

/* Two codes count as equal if what they keep of the norm, or the bytes that they take, differ by at
 * most this factor. Without this rule, two similar codes would alternate. */
static const double about_equal = 1.05;

struct bits {
	struct selector *selector;
	size_t n, cap; /* coordinates of the sample; bytes of the message */
	float *sample, *value, *decoded;
	uint32_t *index;
	uint8_t *message;
};

static size_t sampled_count(uint64_t count)
{
	return count < SAMPLE ? (size_t)count : SAMPLE;
}

/* Returns the bytes of the longest message about n coordinates. If n is small, a message in few
 * bits that lacks a coordinate can be longer than one with all of them in f32. */
static size_t message_room(size_t n)
{
	size_t most = message_bound((uint32_t)n, (uint32_t)n, code_kinds[CODE_F32].values);

	for (int code = 0; code < AUTO_CODES; code++) {
		const size_t room = message_bound((uint32_t)n, n > 0 ? (uint32_t)n - 1 : 0,
						  code_kinds[code].values);

		most = room > most ? room : most;
	}
	return most;
}

uint64_t bits_memory(uint64_t count)
{
	const size_t n = sampled_count(count);

	return sizeof(struct bits) + selector_bytes(n) +
	       n * (3 * sizeof(float) + sizeof(uint32_t)) + message_room(n);
}

int bits_open(uint64_t count, struct bits **out)
{
	struct bits *b = *out = calloc(1, sizeof(*b));

	if (!b)
		return fail(SLUICE_ENOMEM, "no memory for the measurements of recipe=auto");
	b->n = sampled_count(count);
	b->cap = message_room(b->n);
	b->sample = malloc(b->n * sizeof(*b->sample));
	b->value = malloc(b->n * sizeof(*b->value));
	b->decoded = malloc(b->n * sizeof(*b->decoded));
	b->index = malloc(b->n * sizeof(*b->index));
	b->message = malloc(b->cap);
	if (!b->sample || !b->value || !b->decoded || !b->index || !b->message)
		return fail(SLUICE_ENOMEM,
			    "no memory to measure %zu coordinates, which recipe=auto needs", b->n);
	return selector_open(b->n, &b->selector);
}

void bits_close(struct bits **bits)
{
	struct bits *b = *bits;

	if (!b)
		return;
	selector_close(&b->selector);
	free(b->sample);
	free(b->value);
	free(b->decoded);
	free(b->index);
	free(b->message);
	free(b);
	*bits = NULL;
}

static void take_sample(struct bits *b, const struct bits_vector *v)
{
	const size_t pieces = (b->n + PIECE - 1) / PIECE;

	for (size_t p = 0; p < pieces; p++) {
		const size_t at = p * PIECE, n = b->n - at < PIECE ? b->n - at : PIECE;
		/* A vector that is not longer than a sample is taken whole. */
		const uint64_t from = v->count == b->n ? at : v->count / pieces * p;

		for (size_t i = 0; i < n; i++)
			b->sample[at + i] = (v->x ? v->x[from + i] : 0) +
					    (v->addend ? v->scale * v->addend[from + i] : 0);
	}
}

/* The message of one code. */
struct kept {
	size_t bytes;
	double squares; /* by how much it reduces the squared norm */
};

static struct kept measure_code(struct bits *b, double density, const struct value_coding *values,
				int small)
{
	const struct span whole = { 0, b->n, 0 };
	struct message m = { .kind = MESSAGE_PUSH,
			     .values = *values,
			     .densest = small,
			     .parts = 1,
			     .span = (uint32_t)b->n };
	const uint32_t *index = NULL;
	const float *value = b->sample;

	m.count = m.span;
	if (density < 1) {
		m.count = (uint32_t)select_topk(b->selector, b->sample, &whole, 1,
						density_count(density, b->n), b->index);
		for (uint32_t i = 0; i < m.count; i++)
			b->value[i] = b->sample[b->index[i]];
		index = b->index;
		value = b->value;
	}

	const uint32_t n = m.count; /* a dense message counts zeros as well */
	const size_t bytes = message_encode(NULL, &m, index, value, b->decoded, b->message, b->cap);

	return (struct kept){ bytes, loss_spared(b->sample, index, b->decoded, n) };
}

/* Returns 1 if the code keeps about as much as the best one, and is not worse than f32. */
static int keeps(const struct kept of[AUTO_CODES], enum code c, double most)
{
	return of[c].bytes && of[c].bytes <= of[CODE_F32].bytes &&
	       of[c].squares >= of[CODE_F32].squares && of[c].squares * about_equal >= most;
}

enum code bits_choose(struct bits *b, const struct bits_vector *v, unsigned budget,
		      enum budget_way way, int small, enum code in_use)
{
	struct kept of[AUTO_CODES];
	enum code best = AUTO_CODES;
	double most = 0;

	take_sample(b, v);
	if (first_nonfinite(b->sample, b->n) < b->n)
		return in_use; /* the push or the publication will report it */
	for (enum code c = 0; c < AUTO_CODES; c++) {
		of[c] = measure_code(b, budget_density(budget, way, c), &code_kinds[c].values,
				     small);
		if (of[c].bytes <= of[CODE_F32].bytes && of[c].squares > most)
			most = of[c].squares;
	}
	for (enum code c = 0; c < AUTO_CODES; c++)
		if (keeps(of, c, most) && (best == AUTO_CODES || of[c].bytes < of[best].bytes))
			best = c;
	if (!(most > 0) || (keeps(of, in_use, most) &&
			    (double)of[in_use].bytes <= about_equal * (double)of[best].bytes))
		return in_use;
	return best;
}
