/* SPDX-License-Identifier: BSD-3-Clause
 * See compressor.h. Called by the two loops, worker/worker.c and shard/shard.c, and by the methods
 * that do not exchange a selection. */
#include "model/compressor.h"
#include "base/error.h"
#include "compress/sparse.h"
#include "sluice.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory for one message -------------------------------------------------- */

struct scratch {
	uint8_t *copy;
	struct entries entries;
	struct selector *selector;
	struct team *team;
};

int scratch_open(size_t copy, size_t entries, uint64_t span, struct team *team,
		 struct scratch **out)
{
	struct scratch *s = *out = calloc(1, sizeof(*s));

	if (s) {
		s->copy = copy ? malloc(copy) : NULL;
		s->entries.index = malloc(entries * sizeof(*s->entries.index));
		s->entries.value = malloc(entries * sizeof(*s->entries.value));
	}
	if (!s || (copy && !s->copy) || !s->entries.index || !s->entries.value)
		return fail(SLUICE_ENOMEM, "no memory for a message of %zu coordinates", entries);
	s->team = team;
	int rc = span ? selector_open(span, &s->selector) : 0;

	if (span >= SELECT_SHARED_LEAST && !rc)
		selector_share(s->selector, team);
	return rc;
}

void scratch_close(struct scratch **scratch)
{
	struct scratch *s = *scratch;

	if (!s)
		return;
	free(s->copy);
	free(s->entries.index);
	free(s->entries.value);
	selector_close(&s->selector);
	free(s);
	*scratch = NULL;
}

uint64_t scratch_bytes(size_t copy, size_t entries, uint64_t span)
{
	return copy + entries * (sizeof(uint32_t) + sizeof(float)) +
	       (span ? selector_bytes(span) : 0);
}

uint8_t *scratch_copy(const struct scratch *scratch)
{
	return scratch->copy;
}

struct entries scratch_entries(const struct scratch *scratch)
{
	return scratch->entries;
}

struct selector *scratch_selector(const struct scratch *scratch)
{
	return scratch->selector;
}

struct team *scratch_team(const struct scratch *scratch)
{
	return scratch->team;
}

/* ---- opening ---------------------------------------------------------------- */

struct compressor {
	struct compressor_attr is;
	struct entries picked;   /* memory for a pick; value is NULL if its values are not copied */
	struct entries own;      /* the same memory, if it is not part of the scratch */
	uint32_t *fitted;        /* the entries that fit, if a message has too many */
	struct select_hint hint; /* result of the last selection */
	struct candidates candidates;
};

int compressor_open(const struct compressor_attr *attr, struct compressor **out)
{
	struct compressor *c = *out = calloc(1, sizeof(*c));
	const size_t beside = attr->beside ? attr->picked : 0;

	if (!c)
		return fail(SLUICE_ENOMEM, "no memory for a compressor");
	c->is = *attr;
	c->own.index = attr->picked ? malloc(attr->picked * sizeof(*c->own.index)) : NULL;
	c->own.value = beside ? malloc(beside * sizeof(*c->own.value)) : NULL;
	c->fitted = attr->fitted ? malloc(attr->fitted * sizeof(*c->fitted)) : NULL;
	if ((attr->picked && !c->own.index) || (beside && !c->own.value) ||
	    (attr->fitted && !c->fitted))
		return fail(SLUICE_ENOMEM, "no memory for a selection of %zu coordinates",
			    attr->picked);
	c->picked = attr->picked ? c->own : scratch_entries(attr->scratch);
	return candidates_open(&c->candidates, attr->candidates, attr->spans, attr->n_spans);
}

void compressor_close(struct compressor **compressor)
{
	struct compressor *c = *compressor;

	if (!c)
		return;
	free(c->own.index);
	free(c->own.value);
	free(c->fitted);
	candidates_close(&c->candidates);
	free(c);
	*compressor = NULL;
}

uint64_t compressor_bytes(const struct compressor_attr *attr)
{
	return attr->picked * (sizeof(uint32_t) + (attr->beside ? sizeof(float) : 0)) +
	       attr->fitted * sizeof(uint32_t) + candidates_bytes(attr->candidates, attr->n_spans);
}

float *compressor_residual(const struct compressor *c)
{
	return c->is.residual;
}

const struct span *compressor_spans(const struct compressor *c, size_t *n)
{
	*n = c->is.n_spans;
	return c->is.spans;
}

float *compressor_velocity(const struct compressor *c)
{
	return c->is.velocity;
}

struct entries compressor_entries(const struct compressor *c)
{
	return scratch_entries(c->is.scratch);
}

const struct select_hint *compressor_hint(const struct compressor *c)
{
	return &c->hint;
}

struct candidates *compressor_candidates(struct compressor *c)
{
	return &c->candidates;
}

/* ---- pick ------------------------------------------------------------------- */

/* Selects by magnitude. Such a selection can add the gradient and detect NaN in its own pass over
 * the vector. */
static struct pick pick_largest(struct compressor *c, const struct pick_call *call)
{
	const struct select_call select = { .x = call->vector,
					    .residual = c->is.residual,
					    .grad = call->grad,
					    .scale = call->scale,
					    .clear = call->take && c->picked.value,
					    .spans = call->spans ? call->spans : c->is.spans,
					    .n_spans = call->spans ? call->n_spans : c->is.n_spans,
					    .k = call->k,
					    .index = c->picked.index,
					    .value = c->picked.value,
					    .hint = &c->hint };
	struct selector *selector = scratch_selector(c->is.scratch);
	struct pick p = { .index = c->picked.index,
			  .value = c->picked.value,
			  .vector = call->vector ? call->vector : c->is.residual,
			  .from = !c->picked.value ? PICK_FROM_VECTOR :
				  select.clear     ? PICK_TAKEN :
						     PICK_BESIDE };

	if (call->vector && candidates_serve(&c->candidates, call->k)) {
		p.n = candidates_select(&c->candidates, selector, &select);
		return p;
	}
	candidates_forget(&c->candidates);
	p.n = select_run(selector, &select, &p.nan);
	return p;
}

static struct random_stream stream_of(const struct compressor *c, uint64_t step)
{
	const int seeded = selection_kinds[c->is.direction->select].seeded;
	const enum random_purpose support = c->is.down ? RANDOM_SUPPORT_DOWN : RANDOM_SUPPORT_UP;

	return (struct random_stream){ seeded ? support : RANDOM_KEEP, c->is.number, step,
				       c->is.seed };
}

struct pick compressor_pick(struct compressor *c, const struct pick_call *call)
{
	const struct selection_kind *kind = &selection_kinds[c->is.direction->select];
	const struct span *spans = call->spans ? call->spans : c->is.spans;
	const size_t n_spans = call->spans ? call->n_spans : c->is.n_spans;

	if (kind->adds)
		return pick_largest(c, call);
	candidates_forget(&c->candidates);
	const struct choice choice = { .x = call->vector,
				       .spans = kind->seeded ? c->is.shards : spans,
				       .n_spans = kind->seeded ? c->is.n_shards : n_spans,
				       .density = call->density,
				       .k = call->k,
				       .level = c->is.direction->level,
				       .block = c->is.direction->block,
				       .ends = c->is.ends,
				       .chunks = c->is.direction->chunks,
				       .scale = !c->is.remembers,
				       .stream = stream_of(c, call->step),
				       .first_shard = c->is.first_shard,
				       .selector = scratch_selector(c->is.scratch),
				       .team = scratch_team(c->is.scratch),
				       .hint = &c->hint,
				       .index = c->picked.index };
	return (struct pick){ .index = c->picked.index,
			      .vector = call->vector,
			      .n = kind->run(&choice) };
}

struct pick pick_all(float *vector, size_t n)
{
	return (struct pick){ .vector = vector, .n = n };
}

struct pick pick_none(float *vector)
{
	static const uint32_t nothing;

	return (struct pick){ .index = &nothing, .vector = vector };
}

struct pick pick_part(const struct pick *p, uint64_t end, size_t *from)
{
	struct pick part = *p;
	const size_t to = *from + sparse_below(p->index + *from, p->n - *from, end);

	part.index = p->index + *from;
	part.value = p->value ? p->value + *from : NULL;
	part.n = to - *from;
	*from = to;
	return part;
}

void pick_put_back(struct pick *p)
{
	if (p->from == PICK_TAKEN)
		sparse_set(p->vector, p->index, p->value, (uint32_t)p->n);
	p->from = PICK_FROM_VECTOR;
}

static float norm_of(double squares)
{
	const double norm = sqrt(squares);

	return !isfinite(norm) ? 0 : norm > (double)FLT_MAX ? FLT_MAX : (float)norm;
}

float values_norm(const float *value, size_t n)
{
	double squares = 0;

	for (size_t i = 0; i < n; i++)
		squares += (double)value[i] * (double)value[i];
	return norm_of(squares);
}

float pick_norm(const struct pick *p)
{
	double squares = 0;

	if (p->from != PICK_FROM_VECTOR)
		return values_norm(p->value, p->n);
	for (size_t i = 0; i < p->n; i++) {
		const double x = (double)p->vector[p->index[i]];

		squares += x * x;
	}
	return norm_of(squares);
}

int pick_finite(const struct pick *p)
{
	int finite = !p->nan;

	/* A selection puts infinite values before all others, so it is enough to check the picked
	 * values. */
	if (p->from != PICK_FROM_VECTOR)
		return finite && first_nonfinite(p->value, p->n) == p->n;
	for (size_t i = 0; i < p->n && finite; i++)
		finite = isfinite(p->vector[p->index[i]]) != 0;
	return finite;
}

const uint32_t *compressor_support(struct compressor *c, double density, uint64_t step, size_t *n)
{
	const struct choice choice = { .spans = c->is.shards,
				       .n_spans = c->is.n_shards,
				       .density = density,
				       .stream = stream_of(c, step),
				       .first_shard = c->is.first_shard,
				       .index = c->picked.index };

	*n = selection_kinds[c->is.direction->select].run(&choice);
	return c->picked.index;
}

/* ---- emit ------------------------------------------------------------------- */

/* If there are more entries than the message can hold, keeps only the largest. */
static size_t fit(struct compressor *c, struct entries at, size_t n, size_t most)
{
	const struct span all = { 0, n, 0 };
	const size_t kept = select_topk(scratch_selector(c->is.scratch), at.value, &all, 1, most,
					c->fitted);

	for (size_t i = 0; i < kept; i++) {
		at.index[i] = at.index[c->fitted[i]];
		at.value[i] = at.value[c->fitted[i]];
	}
	return kept;
}

/* Copies a pick to the entries: its values, and its positions relative to begin. If there are more
 * than `most` coordinates, keeps only the largest. */
static void gather_entries(struct compressor *c, struct pick *p, uint64_t begin, size_t most)
{
	const struct entries at = compressor_entries(c);

	if (p->n > most)
		pick_put_back(p);
	for (size_t i = 0; i < p->n && p->index != at.index; i++)
		at.index[i] = p->index[i] - (uint32_t)begin;
	p->index = at.index;
	if (p->from != PICK_FROM_VECTOR)
		return;
	sparse_fetch(scratch_team(c->is.scratch), p->vector + begin, at.index, at.value,
		     (uint32_t)p->n);
	if (p->n > most)
		p->n = fit(c, at, p->n, most);
	p->value = at.value;
}

size_t compressor_emit(struct compressor *c, struct message *m, struct pick *p, uint64_t begin,
		       size_t most, uint8_t *out, size_t cap)
{
	float *decoded = compressor_entries(c).value;

	if (p->index)
		gather_entries(c, p, begin, most);
	else
		p->value = p->vector + begin;
	m->count = (uint32_t)p->n;
	const size_t bytes = message_encode(scratch_team(c->is.scratch), m, p->index, p->value,
					    decoded, out, cap);
	if (!bytes && p->index)
		m->bad = p->index[m->bad];
	p->value = decoded;
	return bytes;
}

/* ---- settle ----------------------------------------------------------------- */

/* Momentum factor masking: clears the momentum of the selected coordinates. Exempt tensors keep
 * their momentum, because they are sent whole in every step, so none of their values is delayed. */
static void mask_momentum(const struct compressor *c, const struct pick *emitted, uint64_t begin)
{
	const struct span *span = c->is.spans;

	for (size_t i = 0; i < emitted->n; i++) {
		const uint64_t j = begin + emitted->index[i];

		while (span->end <= j)
			span++;
		if (!span->exempt)
			c->is.velocity[j] = 0.0f;
	}
}

void compressor_settle(struct compressor *c, const struct pick *emitted, uint64_t begin, int mask)
{
	if (c->is.residual && c->is.remembers && emitted->from != PICK_TAKEN)
		sparse_change(scratch_team(c->is.scratch), SPARSE_SUBTRACT, c->is.residual + begin,
			      emitted->index, emitted->value, (uint32_t)emitted->n);
	candidates_published(&c->candidates, emitted->value);
	if (c->is.velocity && mask && emitted->index)
		mask_momentum(c, emitted, begin);
}
