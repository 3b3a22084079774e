/* SPDX-License-Identifier: BSD-3-Clause
 * A pass in tiles. Threads fetch tiles in order and list each into a stage of their own. The number
 * of coordinates found so far is passed from tile to tile, so that each thread learns where its
 * lists belong. The answer is therefore the same for any number of threads, and the scratch memory
 * does not grow with k. A single thread lists coordinates directly into place. If the bounds turn
 * out to be wrong, the pass ends early, or, if it adds a gradient, continues to add but lists
 * nothing more. */
#include "select_sweep.h"
#include <sched.h>

struct tile {
	size_t begin, end;
	uint64_t number;
	int exempt;
};

static int take_tile(struct sweep *w, struct tile *t)
{
	const struct select_call *call = w->call;
	int found = 0;

	if (w->s->pool)
		pthread_mutex_lock(&w->s->lock);
	for (; w->span < call->n_spans; w->span++, w->at = 0) {
		const struct span *span = &call->spans[w->span];

		if (w->at < span->begin)
			w->at = span->begin;
		if (w->at >= span->end)
			continue;
		t->begin = w->at;
		t->end = span->end - w->at < w->s->tile ? span->end : w->at + w->s->tile;
		t->exempt = span->exempt;
		t->number = w->next_tile++;
		w->at = t->end;
		found = 1;
		break;
	}
	if (w->s->pool)
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

/* Restores what add_take cleared. */
static void undo(const struct sweep *w, const uint32_t *index, const float *value, size_t n)
{
	if (w->adding && w->call->clear)
		for (size_t i = 0; i < n; i++)
			w->call->residual[index[i]] = value[i];
}

/* add_list stores no values, so they are read again while the tile is in the cache. */
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

/* When all threads are done, what earlier tiles listed is undone. */
static void end_early(struct sweep *w, enum sweep_end why)
{
	__atomic_store_n(&w->end, why, __ATOMIC_RELAXED);
}

/* Where the lists of a tile go. */
struct place {
	size_t at, n, near_at, n_near;
};

/* Called in the tile's turn: determines where its lists go, or ends the pass because they cannot go
 * there. */
static struct place reserve(struct sweep *w, const struct tile *t, const struct select_lists *l)
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

/* Copies the lists to their place. This needs no turn, because no other thread writes there. The
 * lists may be there already. */
static void put(const struct sweep *w, const struct place *p, const struct select_lists *l)
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

/* The lists of a tile go directly to their place if there certainly is room, else to the stage. */
static struct select_lists lists_for(const struct sweep *w, const struct select_stage *stage,
				     size_t length)
{
	struct select_lists l = { .index = stage->index,
				  .value = stage->value,
				  .near_index = stage->near_index,
				  .near_value = stage->near_value };
	const struct select_call *call = w->call;

	if (w->s->pool || w->merge_ties)
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

/* The wait is short, because the earlier tiles are under way, unless their thread has lost its
 * core. Therefore the thread yields. */
static void await_turn(struct sweep *w, uint64_t number)
{
	enum { SPINS = 1000 };

	for (unsigned i = 0; __atomic_load_n(&w->turn, __ATOMIC_ACQUIRE) != number; i++)
		if (i >= SPINS)
			sched_yield();
}

static void work(void *context, unsigned worker)
{
	struct sweep *w = context;
	struct tile t;

	while ((w->adding || end_so_far(w) == SWEEP_COMPLETE) && take_tile(w, &t)) {
		struct select_lists l = lists_for(w, &w->s->stages[worker], t.end - t.begin);
		struct select_bounds b = t.exempt ? BOUNDS_NONZERO : w->bounds;

		if (w->adding && end_so_far(w) != SWEEP_COMPLETE)
			b = BOUNDS_NOTHING;
		else if (!t.exempt && __atomic_load_n(&w->ties_found, __ATOMIC_RELAXED))
			b.below = b.above;
		list_tile(w, &t, b, &l);
		fetch_values(w, &l);
		if (w->s->pool)
			await_turn(w, t.number);
		struct place p = reserve(w, &t, &l);
		if (w->s->pool)
			__atomic_store_n(&w->turn, t.number + 1, __ATOMIC_RELEASE);
		put(w, &p, &l);
	}
}

void sweep_run(struct sweep *w)
{
	if (w->s->pool)
		select_pool_run(w->s->pool, work, w);
	else
		work(w, 0);
	if (w->end != SWEEP_COMPLETE)
		undo(w, w->call->index, w->call->value, w->n);
}
