/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of selection: every version lists the same coordinates as a plain loop. */
#include "compress/select_kernels.h"
#include "vector_kinds.h"
#include "cases.h"
#include <stdlib.h>
#include <string.h>

/* The kernels of struct select_kernels that list, in order. */
enum { PLAIN_LIST, PLAIN_LIST_VALUES, PLAIN_ADD_LIST, PLAIN_ADD_TAKE, PLAIN_WAYS };

struct plain_case {
	size_t n, begin, end;
	float *memory, *x, *grad, scale;
	struct select_bounds bounds;
};

static void *plain_array(size_t n)
{
	void *p = calloc(n + 1, 4);

	if (!p)
		abort();
	return p;
}

static struct select_lists plain_lists_new(size_t n)
{
	return (struct select_lists){ .index = plain_array(n + LISTS_SLACK),
				      .value = plain_array(n + LISTS_SLACK),
				      .near_index = plain_array(n + LISTS_SLACK),
				      .near_value = plain_array(n + LISTS_SLACK) };
}

static void plain_lists_free(struct select_lists *l)
{
	free(l->index);
	free(l->value);
	free(l->near_index);
	free(l->near_value);
}

/* Draws a vector of one of the kinds, sometimes with NaN, at any alignment. */
static struct plain_case plain_case_new(uint64_t seed)
{
	struct random r = { seed };
	const size_t n = random_bits(&r) % (seed % 10 ? 200 : 5000), offset = random_bits(&r) % 9;
	const size_t begin = n ? random_bits(&r) % n : 0;
	struct plain_case c = { .n = n,
				.begin = begin,
				.end = begin + random_bits(&r) % (n - begin + 1),
				.memory = plain_array(n + offset),
				.grad = plain_array(n),
				.scale = seed % 3 ? 1 : 0.37f };
	int32_t some[2];

	c.x = c.memory + offset;
	for (size_t i = 0; i < n; i++) {
		c.x[i] = value_of((int)(seed % VECTOR_KINDS), &r);
		if (seed % 40 == 0 && random_bits(&r) % 50 == 0)
			c.x[i] = NAN;
		c.grad[i] = isfinite(c.x[i]) ? value_of(0, &r) : 0;
	}
	for (int j = 0; j < 2; j++) {
		some[j] = n ? (int32_t)key_of(c.x[random_bits(&r) % n]) : 0;
		some[j] = some[j] > KEY_INFINITY ? KEY_INFINITY : some[j];
	}
	if (seed % 4 == 0)
		some[1] = some[0]; /* no near coordinates */
	c.bounds.above = some[0] > some[1] ? some[0] : some[1];
	c.bounds.below = some[0] > some[1] ? some[1] : some[0];
	return c;
}

static void plain_run(const struct plain_case *c, int way, float *sum, struct select_lists *l)
{
	for (size_t i = c->begin; i < c->end; i++) {
		if (way >= PLAIN_ADD_LIST)
			sum[i] += c->scale * c->grad[i];
		const float v = sum[i];
		const int32_t key = (int32_t)key_of(v);

		l->largest = key > l->largest ? key : l->largest;
		if (key > c->bounds.above) {
			l->index[l->n] = (uint32_t)i;
			l->value[l->n++] = v;
			sum[i] = way == PLAIN_ADD_TAKE ? 0 : v;
		} else if (key > c->bounds.below) {
			l->near_index[l->n_near] = (uint32_t)i;
			l->near_value[l->n_near++] = v;
		}
	}
}

static void kernels_run(const struct select_kernels *k, const struct plain_case *c, int way,
			float *sum, struct select_lists *l)
{
	switch (way) {
	case PLAIN_LIST: k->list(sum, c->begin, c->end, c->bounds, l); break;
	case PLAIN_LIST_VALUES: k->list_values(sum, c->begin, c->end, c->bounds, l); break;
	case PLAIN_ADD_LIST:
		k->add_list(sum, c->grad, c->scale, c->begin, c->end, c->bounds, l);
		break;
	default: k->add_take(sum, c->grad, c->scale, c->begin, c->end, c->bounds, l);
	}
}

static int plain_same(const struct select_lists *a, const struct select_lists *b, int values)
{
	return a->n == b->n && a->n_near == b->n_near && !memcmp(a->index, b->index, a->n * 4) &&
	       !memcmp(a->near_index, b->near_index, a->n_near * 4) &&
	       !memcmp(a->near_value, b->near_value, a->n_near * 4) &&
	       (!values || !memcmp(a->value, b->value, a->n * 4)) &&
	       (a->largest > KEY_INFINITY) == (b->largest > KEY_INFINITY);
}

static int plain_same_way(const struct select_kernels *k, const struct plain_case *c, int way)
{
	struct select_lists plain = plain_lists_new(c->end - c->begin),
			    listed = plain_lists_new(c->end - c->begin);
	float *sum[2] = { plain_array(c->n), plain_array(c->n) };
	int same;

	memcpy(sum[0], c->x, c->n * 4);
	memcpy(sum[1], c->x, c->n * 4);
	plain_run(c, way, sum[0], &plain);
	kernels_run(k, c, way, sum[1], &listed);
	same = plain_same(&plain, &listed, way == PLAIN_LIST_VALUES || way == PLAIN_ADD_TAKE) &&
	       !memcmp(sum[0], sum[1], c->n * 4);
	plain_lists_free(&plain);
	plain_lists_free(&listed);
	free(sum[0]);
	free(sum[1]);
	return same;
}

/* Returns 1 if keep_above() keeps what a plain loop keeps, in a list of the first values. */
static int kernels_keep_plainly(const struct select_kernels *k, const struct plain_case *c)
{
	enum { MOST = 300 };
	float value[MOST + LISTS_SLACK] = { 0 };
	uint32_t index[MOST + LISTS_SLACK], plain[MOST];
	const size_t n = c->n < MOST ? c->n : MOST;
	size_t kept = 0;

	memcpy(value, c->x, n * sizeof(*value));
	for (uint32_t i = 0; i < n; i++) {
		index[i] = 3 * i;
		if ((int32_t)key_of(value[i]) > c->bounds.above)
			plain[kept++] = 3 * i;
	}
	return k->keep_above(value, index, n, c->bounds.above) == kept &&
	       !memcmp(index, plain, kept * sizeof(*index));
}

/* Returns 1 if these kernels do to the vector of this seed what plain loops do to it. */
static int kernels_list_plainly(const struct select_kernels *k, uint64_t seed)
{
	struct plain_case c = plain_case_new(seed);
	size_t first = 0;
	int same = 1;

	for (int way = 0; way < PLAIN_WAYS; way++)
		same &= plain_same_way(k, &c, way);
	while (first < c.n && key_of(c.x[first]) < KEY_INFINITY)
		first++;
	same &= k->nonfinite(c.x, c.n) == first;
	same &= kernels_keep_plainly(k, &c);
	free(c.memory);
	free(c.grad);
	return same;
}

TEST(kernels__any_version_lists_what_a_plain_loop_lists)
{
	for (size_t v = 0; select_versions[v]; v++)
		for (uint64_t seed = 1; select_versions[v]->usable() && seed <= 3000; seed++)
			if (!kernels_list_plainly(select_versions[v], seed))
				fail_msg("%s, seed %d", select_versions[v]->name, (int)seed);
}
