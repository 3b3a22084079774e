/* SPDX-License-Identifier: BSD-3-Clause
 * The end of a good pass. The best of the near coordinates are found exactly and merged with the
 * sure ones, in place and from the back; several threads merge a part each. Called by select.c. */
#include "select_sweep.h"
#include <assert.h>

/* Moves the near coordinates that the cut selects to the front. */
static size_t keep_near(struct selector *s, size_t n, struct cut cut)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		float v = s->near_value[i];
		uint32_t key = key_of(v);
		size_t tie = (key == cut.floor) & (cut.ties > 0);

		s->near_index[kept] = s->near_index[i];
		s->near_value[kept] = v;
		kept += tie | (key > cut.floor);
		cut.ties -= tie;
	}
	return kept;
}

/* ---- merging ---- */

/* A thread's share: the sure entries begin ... end - 1 and the near ones between them, near_begin
 * ... near_end - 1, go to the places begin + near_begin ... end + near_end - 1. The first `saved`
 * of the sure entries were copied before the previous share overwrote them. */
struct share {
	size_t begin, end, near_begin, near_end, saved;
	uint32_t *index;
	float *value;
};

struct merge {
	const struct selector *s;
	const struct select_call *call;
	size_t n_shares;
	struct share *shares;
};

/* Merges the sure entries `from` ... n - 1, which are in index[] and value[] as if `from` were the
 * first, with the near ones up to `near` that belong between them. Returns how many near ones are
 * left. */
static inline __attribute__((always_inline)) size_t merge_run(const struct merge *m,
							      const uint32_t *index,
							      const float *value, size_t from,
							      size_t n, size_t near_begin,
							      size_t near, const int values)
{
	uint32_t *to = m->call->index;
	float *to_value = m->call->value;

	while (n > from && near > near_begin) {
		const uint32_t at = m->s->near_index[near - 1];

		for (; n > from && index[n - 1 - from] > at; n--) {
			to[n - 1 + near] = index[n - 1 - from];
			if (values)
				to_value[n - 1 + near] = value[n - 1 - from];
		}
		if (n == from)
			break;
		to[n - 1 + near] = at;
		if (values)
			to_value[n - 1 + near] = m->s->near_value[near - 1];
		near--;
	}
	if (n == from || near == 0)
		return near;
	memmove(to + from + near, index, (n - from) * sizeof(*to));
	if (values)
		memmove(to_value + from + near, value, (n - from) * sizeof(*to_value));
	return near;
}

static inline __attribute__((always_inline)) void merge_share(const struct merge *m,
							      const struct share *p,
							      const int values)
{
	const size_t in_place = p->begin + p->saved;
	size_t near = p->near_end;

	near = merge_run(m, m->call->index + in_place, values ? m->call->value + in_place : NULL,
			 in_place, p->end, p->near_begin, near, values);
	near = merge_run(m, p->index, p->value, p->begin, in_place, p->near_begin, near, values);
	for (; near > p->near_begin; near--) { /* these precede all sure entries */
		m->call->index[p->begin + near - 1] = m->s->near_index[near - 1];
		if (values)
			m->call->value[p->begin + near - 1] = m->s->near_value[near - 1];
	}
}

static void merge_work(void *context, unsigned worker)
{
	const struct merge *m = context;

	if (worker >= m->n_shares)
		return;
	if (m->call->value)
		merge_share(m, &m->shares[worker], 1);
	else
		merge_share(m, &m->shares[worker], 0);
}

static void save_work(void *context, unsigned worker)
{
	const struct merge *m = context;
	const struct share *p = &m->shares[worker];

	if (worker >= m->n_shares || !p->saved)
		return;
	memcpy(p->index, m->call->index + p->begin, p->saved * sizeof(*p->index));
	if (m->call->value)
		memcpy(p->value, m->call->value + p->begin, p->saved * sizeof(*p->value));
}

/* The first near entry after this coordinate. */
static size_t near_beyond(const struct selector *s, size_t near, uint32_t coordinate)
{
	size_t low = 0;

	while (low < near) {
		const size_t middle = low + (near - low) / 2;

		if (s->near_index[middle] < coordinate)
			low = middle + 1;
		else
			near = middle;
	}
	return low;
}

/* Divides the work into shares. Returns 0 if there is no room for saved entries after the near
 * ones. */
static int cut_shares(struct merge *m, size_t n, size_t near)
{
	const struct selector *s = m->s;
	size_t used = near;

	for (size_t i = 0; i < m->n_shares; i++) {
		struct share *p = &m->shares[i];

		*p = (struct share){ .begin = n * i / m->n_shares,
				     .end = n * (i + 1) / m->n_shares,
				     .near_end = near };
		if (i) {
			p->near_begin = near_beyond(s, near, m->call->index[p->begin]);
			p[-1].near_end = p->near_begin;
			p->saved = p->near_begin < p->end - p->begin ? p->near_begin :
								       p->end - p->begin;
		}
		if (p->saved > s->near_room - used)
			return 0;
		p->index = s->near_index + used;
		p->value = s->near_value + used;
		used += p->saved;
	}
	return 1;
}

/* Merges call->index[0..n) and the first near entries into one ascending list. */
static void merge_near(const struct selector *s, const struct select_call *call, size_t n,
		       size_t near)
{
	struct share shares[SELECT_THREADS_MAX];
	struct merge m = { .s = s, .call = call, .n_shares = s->threads, .shares = shares };

	assert(s->threads <= SELECT_THREADS_MAX);
	if (s->pool && n >= s->merge_least && n >= s->threads && near && cut_shares(&m, n, near)) {
		select_pool_run(s->pool, save_work, &m);
		select_pool_run(s->pool, merge_work, &m);
		return;
	}
	m.n_shares = 1;
	shares[0] = (struct share){ .end = n, .near_end = near };
	merge_work(&m, 0);
}

/* ---- the end ---- */

/* Completes what a good pass found. Returns the number of selected coordinates and the k-th largest
 * key. */
size_t sweep_finish(struct sweep *w, struct known near, uint32_t *boundary)
{
	struct selector *s = w->s;
	size_t need = w->budget - w->counted, chosen = w->near_stored;

	*boundary = near.high;
	if (w->one_key && need > w->near_stored && w->n_near > w->near_stored) {
		struct sweep again = { .s = s,
				       .call = w->call,
				       .merge_ties = 1,
				       .ties = need,
				       .bounds = w->bounds,
				       .budget = w->budget,
				       .room = w->room };

		if (w->adding && w->call->clear) /* the pass will be repeated without adding */
			for (size_t i = 0; i < w->n; i++)
				w->call->residual[w->call->index[i]] = w->call->value[i];
		sweep_run(&again);
		if (w->adding && w->call->clear)
			for (size_t i = 0; i < again.n; i++)
				w->call->residual[w->call->index[i]] = 0;
		return again.n;
	}
	if (need == 0) {
		chosen = 0;
	} else if (w->one_key) {
		chosen = need < chosen ? need : chosen;
	} else if (need < chosen) {
		struct cut cut = cut_of(s->near_value, chosen, need, near.low, near.high,
					s->counts);

		*boundary = cut.floor;
		chosen = keep_near(s, chosen, cut);
	} else {
		*boundary = near.low;
	}
	if (w->adding && w->call->clear)
		for (size_t i = 0; i < chosen; i++)
			w->call->residual[s->near_index[i]] = 0;
	merge_near(s, w->call, w->n, chosen);
	return w->n + chosen;
}
