/* SPDX-License-Identifier: BSD-3-Clause
 * A pass in tiles. Threads take tiles in order, and each lists a tile into its own stage. The
 * number of coordinates found so far is passed from tile to tile, so each thread knows the place of
 * its lists. The result is therefore the same for any number of threads, and the scratch memory
 * does not grow with k. A single thread lists coordinates directly into place. If the bounds turn
 * out to be wrong, the pass ends early, or, if it adds a gradient, continues to add but lists
 * nothing more. After a good pass, the largest near coordinates are found exactly and merged with
 * the sure ones, in place and from the back; several threads merge one share each. */
#include "select_sweep.h"
#include "compress/sparse.h"
#include <assert.h>
#include <sched.h>

struct tile {
	size_t begin, end;
	uint64_t number;
	int exempt;
};

static int take_tile(struct sweep *w, struct tile *t)
{
	const struct select_call *call = w->call;
	const size_t tile = w->team ? w->s->shared_tile : w->s->tile;
	int found = 0;

	if (w->team)
		pthread_mutex_lock(&w->s->lock);
	for (; w->span < call->n_spans; w->span++, w->at = 0) {
		const struct span *span = &call->spans[w->span];

		if (w->at < span->begin)
			w->at = span->begin;
		if (w->at >= span->end)
			continue;
		t->begin = w->at;
		t->end = span->end - w->at < tile ? span->end : w->at + tile;
		t->exempt = span->exempt;
		t->number = w->next_tile++;
		w->at = t->end;
		found = 1;
		break;
	}
	if (w->team)
		pthread_mutex_unlock(&w->s->lock);
	return found;
}

static void list_tile(const struct sweep *w, const struct tile *t, struct select_bounds b,
		      struct select_lists *l)
{
	const struct select_kernels *kernels = w->s->kernels;
	const struct select_call *call = w->call;

	if (w->adding)
		(call->clear ? kernels->add_take : kernels->add_list)(
			call->residual, call->grad, call->scale, t->begin, t->end, b, l);
	else
		(call->value ? kernels->list_values : kernels->list)(
			call->x ? call->x : call->residual, t->begin, t->end, b, l);
}

/* Restores the values that add_take has cleared. */
static void undo(const struct sweep *w, const uint32_t *index, const float *value, size_t n)
{
	if (w->adding && w->call->clear)
		for (size_t i = 0; i < n; i++)
			w->call->residual[index[i]] = value[i];
}

/* Reads the values again while the tile is in the cache, because add_list does not store them. */
static void fetch_values(const struct sweep *w, struct select_lists *l)
{
	if (w->adding && w->call->value && !w->call->clear)
		for (size_t i = 0; i < l->n; i++)
			l->value[i] = w->call->residual[l->index[i]];
}

/* Merges both lists of a tile into one ascending list. */
static void put_merged(struct sweep *w, const struct select_lists *l)
{
	const struct select_call *call = w->call;
	size_t a = 0, b = 0, near = l->n_near < w->ties ? l->n_near : w->ties;

	w->ties -= near;
	if (!w->ties)
		__atomic_store_n(&w->ties_found, 1, __ATOMIC_RELAXED);
	while (a < l->n || b < near) {
		int from_near = a == l->n || (b < near && l->near_index[b] < l->index[a]);

		call->index[w->n] = from_near ? l->near_index[b] : l->index[a];
		if (call->value)
			call->value[w->n] = from_near ? l->near_value[b] : l->value[a];
		a += !from_near;
		b += from_near;
		w->n++;
	}
}

static enum sweep_end end_so_far(const struct sweep *w)
{
	return __atomic_load_n(&w->end, __ATOMIC_RELAXED);
}

/* Ends the pass early. The lists of earlier tiles are undone later, when all threads are done. */
static void end_early(struct sweep *w, enum sweep_end why)
{
	__atomic_store_n(&w->end, why, __ATOMIC_RELAXED);
}

/* The place at which the lists of a tile are stored. */
struct place {
	size_t at, n, near_at, n_near;
};

/* Called in the tile's turn. Determines where its lists go, or ends the pass if they do not fit. */
static struct place reserve_place(struct sweep *w, const struct tile *t,
				  const struct select_lists *l)
{
	struct place p = { w->n, l->n, w->near_stored, l->n_near };
	const size_t room = w->s->near_room - w->near_stored;

	if (l->largest > w->largest)
		w->largest = l->largest;
	if (end_so_far(w) == SWEEP_COMPLETE && w->merge_ties && !t->exempt) {
		put_merged(w, l);
		return (struct place){ 0 };
	}
	if (p.n_near > room)
		p.n_near = room;
	if (end_so_far(w) == SWEEP_COMPLETE && !t->exempt && l->n > w->budget - w->counted)
		end_early(w, SWEEP_TOO_MANY);
	else if (end_so_far(w) == SWEEP_COMPLETE && p.n_near < l->n_near && !w->one_key)
		end_early(w, SWEEP_OVERFULL);
	if (end_so_far(w) != SWEEP_COMPLETE) {
		undo(w, l->index, l->value, l->n);
		return (struct place){ 0 };
	}
	w->n += p.n;
	w->counted += t->exempt ? 0 : p.n;
	w->n_near += l->n_near;
	w->near_stored += p.n_near;
	if (w->one_key && w->near_stored >= w->budget - w->counted)
		__atomic_store_n(&w->ties_found, 1, __ATOMIC_RELAXED);
	return p;
}

/* Copies the lists to their final place, unless they are already there. This need not wait for a
 * turn, because no other thread writes there. */
static void put_lists(const struct sweep *w, const struct place *p, const struct select_lists *l)
{
	const struct select_call *call = w->call;
	const struct selector *s = w->s;

	if (p->n && l->index != call->index + p->at) {
		memcpy(call->index + p->at, l->index, p->n * sizeof(*l->index));
		if (call->value)
			memcpy(call->value + p->at, l->value, p->n * sizeof(*l->value));
	}
	if (p->n_near && l->near_index != s->near_index + p->near_at) {
		memcpy(s->near_index + p->near_at, l->near_index,
		       p->n_near * sizeof(*l->near_index));
		memcpy(s->near_value + p->near_at, l->near_value,
		       p->n_near * sizeof(*l->near_value));
	}
}

/* Returns the tile's final place for its lists if there is certainly room, otherwise the stage. */
static struct select_lists lists_for(const struct sweep *w, const struct select_stage *stage,
				     size_t length)
{
	struct select_lists l = { .index = stage->index,
				  .value = stage->value,
				  .near_index = stage->near_index,
				  .near_value = stage->near_value };
	const struct select_call *call = w->call;

	if (w->team || w->merge_ties)
		return l;
	if (w->room - w->n >= length + LISTS_SLACK) {
		l.index = call->index + w->n;
		l.value = call->value ? call->value + w->n : NULL;
	}
	if (w->s->near_room - w->near_stored >= length + LISTS_SLACK) {
		l.near_index = w->s->near_index + w->near_stored;
		l.near_value = w->s->near_value + w->near_stored;
	}
	return l;
}

/* Waits for the earlier tiles. The wait is short unless one of their threads has lost its core,
 * so a thread that has waited for long yields. */
static void await_tile(struct sweep *w, uint64_t number)
{
	enum { SPINS = 1000 };

	for (unsigned i = 0; __atomic_load_n(&w->turn, __ATOMIC_ACQUIRE) != number; i++)
		if (i >= SPINS)
			sched_yield();
}

static void work(void *context, unsigned worker)
{
	struct sweep *w = context;
	const struct select_stage stage = w->team ? stage_in(team_memory(w->team, worker),
							     w->s->shared_tile) :
						    w->s->stage;
	struct tile t;

	while ((w->adding || end_so_far(w) == SWEEP_COMPLETE) && take_tile(w, &t)) {
		struct select_lists l = lists_for(w, &stage, t.end - t.begin);
		struct select_bounds b = t.exempt ? BOUNDS_NONZERO : w->bounds;

		if (w->adding && end_so_far(w) != SWEEP_COMPLETE)
			b = BOUNDS_NOTHING;
		else if (!t.exempt && __atomic_load_n(&w->ties_found, __ATOMIC_RELAXED))
			b.below = b.above;
		list_tile(w, &t, b, &l);
		fetch_values(w, &l);
		if (w->team)
			await_tile(w, t.number);
		struct place p = reserve_place(w, &t, &l);
		if (w->team)
			__atomic_store_n(&w->turn, t.number + 1, __ATOMIC_RELEASE);
		put_lists(w, &p, &l);
	}
}

void sweep_run(struct sweep *w)
{
	w->team = w->s->team && team_take(w->s->team) ? w->s->team : NULL;
	if (w->team) {
		team_run(w->team, work, w);
		team_give_back(w->team);
	} else {
		work(w, 0);
	}
	if (w->end != SWEEP_COMPLETE)
		undo(w, w->call->index, w->call->value, w->n);
}

/* ---- the near coordinates ---- */

struct cut cut_of(const float *v, size_t n, size_t need, uint32_t low, uint32_t high,
		  uint32_t counts[BINS])
{
	for (;;) {
		const struct known known = { low, high };
		unsigned shift = known_shift(known);
		uint32_t bin, width = high - low;

		memset(counts, 0, BINS * sizeof(*counts));
		for (size_t i = 0; i < n; i++) {
			uint32_t above_low = key_of(v[i]) - low;

			if (above_low <= width)
				counts[above_low >> shift]++;
		}
		for (bin = width >> shift; counts[bin] < need; bin--)
			need -= counts[bin];
		if (shift == 0)
			return (struct cut){ .floor = low + bin, .ties = need };
		low = known_bin(known, shift, bin).low;
		high = known_bin(known, shift, bin).high;
	}
}

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

/* A thread's share of the work. It merges the sure entries begin ... end - 1 with the near ones
 * between them, near_begin ... near_end - 1, into the places begin + near_begin ... end + near_end
 * - 1. The first `saved` of the sure entries were copied before the previous share overwrote
 * them. */
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

/* Merges the sure entries `from` ... n - 1 with those near ones, up to `near`, that belong between
 * them. index[] and value[] begin with entry `from`. Returns how many near ones are left. */
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
			p->near_begin = sparse_below(s->near_index, near, m->call->index[p->begin]);
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
	struct merge m = { .s = s, .call = call, .shares = shares };

	if (s->team && n >= s->merge_least && near && team_take(s->team)) {
		m.n_shares = team_threads(s->team);
		assert(m.n_shares <= SELECT_THREADS_MAX);

		const int shared = n >= m.n_shares && cut_shares(&m, n, near);

		if (shared) {
			team_run(s->team, save_work, &m);
			team_run(s->team, merge_work, &m);
		}
		team_give_back(s->team);
		if (shared)
			return;
	}
	m.n_shares = 1;
	shares[0] = (struct share){ .end = n, .near_end = near };
	merge_work(&m, 0);
}

/* ---- the end of a good pass ---- */

/* Completes a good pass. Returns the number of selected coordinates and the k-th largest key. */
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
