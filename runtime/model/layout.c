/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic of layout.h. Called by model_open.c; worker.c and shard.c only read the result. */
#include "model/layout.h"
#include "model/home.h"
#include "base/error.h"
#include "model/census.h"
#include "compress/dense.h"
#include "compress/message.h"
#include "model/snapshot.h"
#include <math.h>
#include <stdlib.h>

enum { COUNT_PER_SHARD = 65536, DENSE_SHARDS_OF_WORKER = 32, SLOT_MARGIN = 4 };

static uint64_t least_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int add_span(struct layout *l, uint64_t begin, uint64_t end, int exempt, int apart)
{
	if (begin == end)
		return 0;
	if (!apart && l->n_spans && l->spans[l->n_spans - 1].exempt == exempt) {
		l->spans[l->n_spans - 1].end = end;
		return 0;
	}
	l->spans[l->n_spans++] = (struct span){ begin, end, exempt };
	return 0;
}

static int make_spans(struct layout *l, const sluice_model_attr *attr, const struct recipe *recipe)
{
	l->spans = calloc(attr->n_tensors + 1, sizeof *l->spans);
	if (!l->spans)
		return fail(SLUICE_ENOMEM, "no memory for %zu tensors", attr->n_tensors);
	const int by_tensor = selection_kinds[recipe->up.select].by_tensor ||
			      selection_kinds[recipe->down.select].by_tensor;
	uint64_t at = 0;
	for (size_t t = 0; t < attr->n_tensors; t++) {
		const sluice_tensor *tensor = &attr->tensors[t];
		if (!tensor->name || tensor->count > attr->count - at)
			return fail(
				SLUICE_EINVAL,
				"tensor %zu (%s): its %llu elements end beyond the model's %llu", t,
				tensor->name ? tensor->name : "no name",
				(unsigned long long)tensor->count, (unsigned long long)attr->count);
		add_span(l, at, at + tensor->count, recipe_sends_whole(recipe, tensor->name),
			 by_tensor);
		at += tensor->count;
	}
	if (attr->n_tensors && at != attr->count)
		return fail(SLUICE_EINVAL,
			    "the tensors have %llu elements together, but the model has %llu",
			    (unsigned long long)at, (unsigned long long)attr->count);
	add_span(l, at, attr->count, 0, by_tensor);
	for (size_t i = 0; i < l->n_spans; i++)
		if (l->spans[i].exempt)
			l->exempt += l->spans[i].end - l->spans[i].begin;
	return 0;
}

size_t layout_spans(const struct layout *l, uint64_t begin, uint64_t end, struct span *out)
{
	size_t n = 0;
	for (size_t i = 0; i < l->n_spans; i++) {
		uint64_t b = l->spans[i].begin > begin ? l->spans[i].begin : begin;
		uint64_t e = least_of(l->spans[i].end, end);
		if (b < e)
			out[n++] = (struct span){ b, e, l->spans[i].exempt };
	}
	return n;
}

size_t layout_shard_spans(const struct layout *l, const struct shard_layout *shard,
			  struct span *out)
{
	size_t n = layout_spans(l, shard->begin, shard->begin + shard->span, out);
	for (size_t i = 0; i < n; i++) {
		out[i].begin -= shard->begin;
		out[i].end -= shard->begin;
	}
	return n;
}

/* Returns the most coordinates that block-topk selects from this number of blocks. */
static uint64_t of_blocks(const struct direction *d, const struct schedule *schedule,
			  uint64_t blocks)
{
	return blocks * density_count(schedule_largest_density(schedule, d), d->block);
}

static uint64_t count_blocks(const struct direction *d, uint64_t count)
{
	return (count + d->block - 1) / d->block;
}

/* Returns the most coordinates that block-topk selects of a push from begin to end. cut: the first
 * and the last block may begin and end elsewhere. */
static uint64_t of_range(const struct layout *l, const struct recipe *recipe,
			 const struct schedule *schedule, uint64_t begin, uint64_t end, int cut)
{
	const struct direction *up = &recipe->up;

	if (l->transform)
		return transform_selected(l->transform, begin, end, of_blocks(up, schedule, 1));
	return of_blocks(up, schedule, count_blocks(up, end - begin) + (uint64_t)cut);
}

/* Returns how many coordinates a shard publishes from a sketch, at the largest density. */
static uint64_t sketched(const struct shard_layout *s, const struct schedule *schedule,
			 const struct recipe *recipe)
{
	return schedule_count(schedule_largest_density(schedule, &recipe->up), s->span - s->exempt);
}

/* Returns the most coordinates that a push to this shard can hold. With a residual, four times the
 * mean is enough, because the other coordinates wait in the residual. Without a residual,
 * everything must fit. */
static uint32_t up_capacity(const struct layout *l, const struct shard_layout *s,
			    const struct recipe *recipe, const struct schedule *schedule)
{
	const struct selection_kind *kind = &selection_kinds[recipe->up.select];
	double density = schedule_largest_density(schedule, &recipe->up);
	if (recipe->up.select == SELECT_ALL || (recipe->automatic && !recipe->budget))
		return s->span;
	if (kind->exchange == EXCHANGE_SKETCH)
		return (uint32_t)least_of(s->span,
					  recipe->up.sketch_pool * sketched(s, schedule, recipe) +
						  s->exempt);
	if (kind->seeded)
		return (uint32_t)schedule_count(density, s->span);
	if (kind->varies && recipe->memory.kind == MEMORY_NONE)
		return s->span;
	/* The number of values above the level is not known in advance. The message has room for a
	 * quarter of the shard, or for all of a small shard. */
	if (kind->argument == ARGUMENT_LEVEL)
		return (uint32_t)least_of(s->span,
					  (s->span / 4 > 64 ? s->span / 4 : 64) + s->exempt);
	if (kind->by_block)
		return (uint32_t)least_of(
			s->span,
			of_range(l, recipe, schedule, s->begin, s->begin + s->span, 1) + s->exempt);
	uint64_t k = schedule_count(density, l->count - l->exempt);
	uint64_t mean = (k * s->span + l->count - 1) / l->count;
	uint64_t pairs = recipe->memory.kind != MEMORY_NONE ? SLOT_MARGIN * mean : k;
	if (kind->by_tensor) /* the count of each tensor is rounded up */
		pairs += l->n_spans;
	return (uint32_t)least_of(s->span, pairs + s->exempt);
}

/* Returns 1 if a step publishes exactly the coordinates in the workers' messages. No other
 * coordinate changes, unless the update rule changes more or an earlier step left a residual. */
static int publishes_union(const struct recipe *recipe, const struct schedule *schedule)
{
	return recipe->down.select == SELECT_ALL && recipe->down.values.type == VALUE_F32 &&
	       recipe->up.select != SELECT_ALL &&
	       selection_kinds[recipe->up.select].exchange == EXCHANGE_OWN &&
	       recipe->when != WHEN_ASYNC && recipe->signal.kind != SIGNAL_INNOVATION &&
	       !recipe->automatic && !recipe->reset && !recipe->signal.svrg_steps &&
	       !recipe->warmup.dense && !recipe->transform && !schedule->moves_all &&
	       (recipe_pulls_mean(recipe) || recipe->update == UPDATE_SGD ||
		recipe->update == UPDATE_SIGN);
}

/* Returns 1 if a step publishes exactly the coordinates that workers and shards agreed on. */
static int publishes_support(const struct recipe *recipe, const struct schedule *schedule)
{
	return selection_kinds[recipe->up.select].exchange == EXCHANGE_LEADER &&
	       schedule->phases[schedule->n_phases - 1].payload == PAYLOAD_AGREED;
}

static uint32_t down_capacity(const struct layout *l, const struct shard_layout *s,
			      const struct recipe *recipe, const struct schedule *schedule)
{
	double density = schedule_largest_density(schedule, &recipe->down);
	if (selection_kinds[recipe->up.select].exchange == EXCHANGE_SKETCH)
		return (uint32_t)least_of(s->span, sketched(s, schedule, recipe) + s->exempt);
	if (publishes_union(recipe, schedule))
		return (uint32_t)least_of(s->span, (uint64_t)l->workers * s->up_capacity);
	if (publishes_support(recipe, schedule))
		return s->up_capacity;
	if (recipe->down.select == SELECT_ALL || selection_kinds[recipe->down.select].varies)
		return s->span;
	uint64_t k = schedule_count(density, s->span - s->exempt);
	if (selection_kinds[recipe->down.select].by_block)
		k = of_blocks(&recipe->down, schedule, count_blocks(&recipe->down, s->span));
	if (selection_kinds[recipe->down.select].by_tensor)
		k += l->n_spans;
	return (uint32_t)least_of(s->span, k + s->exempt);
}

/* Rounds up to whole cache lines, so that all messages have the alignment of the first one. Dense
 * messages are written past the caches, which takes longer if lines are written in parts. */
static size_t in_lines(size_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

/* Sets the space for the messages of all phases, each with a note after it. */
static void size_messages(struct shard_layout *s, const struct recipe *recipe, size_t note)
{
	const enum exchange exchange = selection_kinds[recipe->up.select].exchange;
	const size_t everything = message_bound(s->span, s->span,
						(struct value_coding){ VALUE_F32, 0, 0, 0 });
	size_t slot = message_bound(s->span, s->up_capacity, recipe->up.values), other;
	size_t delta = message_bound(s->span, s->down_capacity, recipe->down.values);
	if (exchange == EXCHANGE_LEADER &&
	    slot < (other = message_support_bound(s->span, s->up_capacity)))
		slot = other;
	if (exchange == EXCHANGE_SKETCH &&
	    slot < (other = message_bound(s->sketch_cells, s->sketch_cells, recipe->up.values)))
		slot = other;
	if (s->support_capacity &&
	    delta < (other = message_support_bound(s->span, s->support_capacity)))
		delta = other;
	/* The capacities do not cover steps with reset= and anchors, in which all coordinates must
	 * fit. */
	const int whole = recipe->reset || recipe->signal.svrg_steps;

	/* In a dense warm-up, all coordinates must fit in 8 bits. */
	other = recipe->warmup.dense ? message_bound(s->span, s->span, WARMUP_VALUES) : 0;
	slot = slot < other ? other : slot;
	delta = delta < other ? other : delta;
	s->slot_bytes = whole && slot < everything ? everything : slot;
	s->slot_bytes += note;
	s->delta_bytes = whole && delta < everything ? everything : delta;
	s->delta_bytes += note;
	s->snapshot_bytes = in_lines(snapshot_bytes(s->span));
	/* A late worker also reads a part of a snapshot to where it reads deltas. */
	if (recipe->quorum.workers && s->delta_bytes < snapshot_part_bytes(s->span))
		s->delta_bytes = snapshot_part_bytes(s->span);
	s->slot_bytes = in_lines(s->slot_bytes);
	s->delta_bytes = in_lines(s->delta_bytes);
}

/* Returns 1 if a message with at most `count` coordinates is always shorter than a dense one. */
static int stays_sparse(uint32_t span, uint32_t count, struct value_coding values)
{
	if (value_few_bits(values.type))
		return count < span;
	return message_bound(span, count, values) < message_bound(span, span, values);
}

/* Returns how many coordinates a shard needs space for. These are all of its coordinates, unless
 * every message in both directions stays within the number that the recipe's densities give. */
static uint32_t shard_room(const struct layout *l, const struct shard_layout *s,
			   const struct recipe *recipe, const struct schedule *schedule)
{
	const struct selection_kind *up = &selection_kinds[recipe->up.select];
	const struct selection_kind *down = &selection_kinds[recipe->down.select];
	uint32_t most = s->sketch_cells > s->span ? s->sketch_cells : s->span;
	uint32_t selected = (uint32_t)least_of(
		l->selected_most, s->span); /* before they are reduced to fit into a slot */
	const int settled = publishes_union(recipe, schedule) ||
			    publishes_support(recipe, schedule) || up->exchange == EXCHANGE_SKETCH;

	if (recipe->up.select == SELECT_ALL || (recipe->down.select == SELECT_ALL && !settled) ||
	    recipe->automatic || recipe->reset || recipe->signal.svrg_steps ||
	    recipe->warmup.dense || recipe->when == WHEN_ASYNC || up->varies || down->varies)
		return most;
	if (!stays_sparse(s->span, s->up_capacity, recipe->up.values) ||
	    !stays_sparse(s->span, s->down_capacity, recipe->down.values))
		return most;
	selected = selected > s->up_capacity ? selected : s->up_capacity;
	selected = selected > s->sketch_cells ? selected : s->sketch_cells;
	return selected > s->down_capacity ? selected : s->down_capacity;
}

/* The number of columns follows the recipe's final density, so that a warm-up does not change the
 * sketch. */
static void shape_sketch(struct shard_layout *s, const struct recipe *recipe)
{
	double columns = ceil((double)recipe->up.sketch_width *
			      (double)schedule_count(recipe->up.density, s->span - s->exempt));
	uint64_t most = s->span > 0 ? s->span : 1;
	s->sketch_columns = columns < 1            ? 1 :
			    columns > (double)most ? (uint32_t)most :
						     (uint32_t)columns;
	s->sketch_cells = s->sketch_columns * recipe->up.sketch_rows;
}

/* Returns the first coordinate of a shard. With a transform, this is also the first coordinate of a
 * unit. `before` is the first coordinate of the previous shard. */
static uint64_t cut_at(const struct layout *l, uint64_t shards, uint64_t i, uint64_t before)
{
	const uint64_t even = l->count * i / shards;

	if (!l->transform || !i || i == shards)
		return even;

	const struct transform_unit unit = transform_unit_at(l->transform,
							     even > before ? even : before);

	return unit.begin > before ? unit.begin : unit.end;
}

/* Returns 1 if each of these shards has a unit of the transform. */
static int cuts_fit(const struct layout *l, uint64_t shards)
{
	uint64_t begin = 0;

	for (uint64_t i = 1; l->transform && i < shards && begin < l->count; i++)
		begin = cut_at(l, shards, i, begin);
	return begin < l->count;
}

/* Reduces the default number of shards until it fits, and refuses any other that does not fit. */
static int fit_shards(struct layout *l, uint32_t asked)
{
	if (asked && !cuts_fit(l, asked))
		return fail(
			SLUICE_EINVAL,
			"shards=%u do not fit the recipe's transform=: a shard has whole blocks, "
			"and all blocks of the same rows of a tensor; set fewer shards, or 0",
			asked);
	while (!cuts_fit(l, l->n_shards))
		l->n_shards--;
	return 0;
}

/* Shards must be added in ascending order. */
static void add_to_fragment(struct fragment *f, const struct shard_layout *s, uint32_t shard)
{
	if (!f->end)
		*f = (struct fragment){ .first = shard, .begin = s->begin };
	f->end = shard + 1;
	f->count += s->span;
	f->exempt += s->exempt;
}

static int make_shards(struct layout *l, const struct recipe *recipe,
		       const struct schedule *schedule)
{
	l->shards = calloc(l->n_shards, sizeof *l->shards);
	l->fragments = calloc(l->n_fragments, sizeof *l->fragments);
	struct span *spans = calloc(l->n_spans, sizeof *spans);
	if (!l->shards || !l->fragments || !spans) {
		free(spans);
		return fail(SLUICE_ENOMEM, "no memory for %u shards", l->n_shards);
	}
	for (uint32_t i = 0; i < l->n_shards; i++) {
		struct shard_layout *s = &l->shards[i];
		s->fragment = i / (l->n_shards / l->n_fragments);
		s->begin = cut_at(l, l->n_shards, i, i ? s[-1].begin : 0);
		const uint64_t span = cut_at(l, l->n_shards, i + 1, s->begin) - s->begin;
		if (recipe->transform && span > SHARD_ELEMENTS_MAX) {
			free(spans);
			return fail(SLUICE_EINVAL,
				    "shard %u of %u would have %llu elements, but a shard has at "
				    "most %d, and the blocks of transform=dct(%u) allow no other "
				    "border: split the tensor, or write a smaller transform",
				    i, l->n_shards, (unsigned long long)span, SHARD_ELEMENTS_MAX,
				    recipe->transform);
		}
		s->span = (uint32_t)span;
		s->past_caches = dense_large(l->count);
		size_t n = layout_shard_spans(l, s, spans);
		for (size_t j = 0; j < n; j++)
			if (spans[j].exempt)
				s->exempt += (uint32_t)(spans[j].end - spans[j].begin);
		add_to_fragment(&l->fragments[s->fragment], s, i);
		s->up_capacity = up_capacity(l, s, recipe, schedule);
		s->down_capacity = down_capacity(l, s, recipe, schedule);
		if (selection_kinds[recipe->up.select].exchange != EXCHANGE_OWN)
			s->support_capacity = s->up_capacity;
		l->support_most += s->support_capacity;
		if (selection_kinds[recipe->up.select].exchange == EXCHANGE_SKETCH)
			shape_sketch(s, recipe);
		s->slot_depth = recipe->when == WHEN_ASYNC || recipe->quorum.workers ?
					ASYNC_SLOT_DEPTH :
					SLOT_DEPTH;
		size_messages(s, recipe, census_room(recipe, i));
		if (s->slot_bytes > UINT32_MAX || s->delta_bytes > UINT32_MAX) {
			free(spans);
			return fail(SLUICE_EINVAL,
				    "a message of shard %u would need %zu bytes, 4 GiB or more: "
				    "open more shards than %u, or a smaller sketch",
				    i,
				    s->slot_bytes > s->delta_bytes ? s->slot_bytes : s->delta_bytes,
				    l->n_shards);
		}
		s->room = shard_room(l, s, recipe, schedule);
		/* With async, a shard writes one publication for each worker. */
		s->log_places = recipe->quorum.workers ? QUORUM_LOG_ENTRIES + 1 : 0;
		s->log_bytes = (recipe->when == WHEN_ASYNC ? (size_t)l->workers :
				s->log_places              ? s->log_places :
							     LOG_ENTRIES + 1) *
			       s->delta_bytes;
	}
	free(spans);
	return 0;
}

/* Returns the default number of shards of a fragment. In a dense step, a rank sums and publishes
 * one shard while the messages of the next ones travel, so each worker has several shards, if they
 * are not too short. */
static uint64_t usual_shards(const struct recipe *recipe, uint64_t workers, uint64_t count)
{
	const uint64_t most = (count + COUNT_PER_SHARD - 1) / COUNT_PER_SHARD;
	uint64_t each = 1;

	if (recipe->when == WHEN_ALWAYS && recipe_is_dense(recipe) && workers > 1)
		each = least_of(count / COUNT_PER_SHARD / workers, DENSE_SHARDS_OF_WORKER);
	if (!each)
		each = 1;
	return least_of(each * workers, most);
}

int layout_make(const sluice_model_attr *attr, struct recipe *recipe,
		const struct schedule *schedule, int size, int workers, struct layout *out)
{
	const uint32_t parts = recipe->every.fragments;
	*out = (struct layout){ .count = attr->count,
				.size = size,
				.workers = workers,
				.n_fragments = parts,
				.narrow_params = attr->param_type != SLUICE_F32 };
	uint64_t shards = attr->shards;
	/* Each fragment has shards at all owners, so that all of them share its bytes. */
	if (!shards)
		shards = parts * usual_shards(recipe, (uint64_t)workers, attr->count / parts);
	if (shards % parts || attr->count < parts)
		return fail(SLUICE_EINVAL,
			    "the recipe has fragments(%u), but the model has %llu parameters in "
			    "%llu shards: all fragments have the same number of shards, at least "
			    "one; set shards to a multiple of %u, or to 0",
			    parts, (unsigned long long)attr->count, (unsigned long long)shards,
			    parts);
	if (shards > attr->count || shards > SHARDS_MAX)
		return fail(SLUICE_EINVAL,
			    "shards=%llu for a model of %llu parameters: at most one per parameter",
			    (unsigned long long)shards, (unsigned long long)attr->count);
	while (!attr->shards && attr->count / shards >= SHARD_ELEMENTS_MAX)
		shards *= 2;
	if (attr->count / shards >= SHARD_ELEMENTS_MAX)
		return fail(SLUICE_EINVAL,
			    "shards=%llu gives shards of %llu elements, but a shard has at most "
			    "%d: ask for more shards",
			    (unsigned long long)shards, (unsigned long long)(attr->count / shards),
			    SHARD_ELEMENTS_MAX);
	out->n_shards = (uint32_t)shards;
	int rc = make_spans(out, attr, recipe);
	if (!rc)
		rc = transform_open(attr, recipe, &out->transform);
	if (!rc)
		rc = fit_shards(out, attr->shards);
	if (!rc)
		rc = recipe_count(recipe, out->count - out->exempt);
	const struct selection_kind *kind = &selection_kinds[recipe->up.select];
	if (kind->varies)
		out->selected_most = out->count;
	else if (kind->exchange == EXCHANGE_SKETCH)
		out->selected_most = 0;
	else if (recipe->up.select == SELECT_CYCLIC && recipe->up.chunks)
		/* The last chunk of each span may be short. */
		out->selected_most = least_of(
			out->count, out->exempt + out->n_spans +
					    out->count / chunk_length(schedule_largest_density(
								 schedule, &recipe->up)));
	else if (recipe->up.select != SELECT_ALL)
		out->selected_most = out->exempt +
				     schedule_count(schedule_largest_density(schedule, &recipe->up),
						    out->count - out->exempt);
	if (kind->by_block && !rc)
		out->selected_most = least_of(
			out->count,
			out->exempt + of_range(out, recipe, schedule, 0, out->count, 0));
	if (kind->by_tensor)
		out->selected_most = least_of(out->count, out->selected_most + out->n_spans);
	if (kind->seeded) /* the count of each shard is rounded up */
		out->selected_most = least_of(out->count, out->selected_most + out->n_shards);
	if (!rc)
		rc = make_shards(out, recipe, schedule);
	if (rc)
		layout_free(out);
	return rc;
}

void layout_free(struct layout *l)
{
	free(l->shards);
	free(l->fragments);
	free(l->spans);
	holdings_free(&l->holdings);
	transform_close(&l->transform);
	l->shards = NULL;
	l->fragments = NULL;
	l->spans = NULL;
}

size_t layout_part_bytes(const struct layout *l)
{
	size_t most = 0;
	for (uint32_t i = 0; i < l->n_shards; i++)
		if (snapshot_part_bytes(l->shards[i].span) > most)
			most = snapshot_part_bytes(l->shards[i].span);
	return most;
}

struct layout_largest layout_largest(const struct layout *l, int rank_or_any)
{
	struct layout_largest most = { 0 };
	for (uint32_t i = 0; i < l->n_shards; i++) {
		const struct shard_layout *s = &l->shards[i];
		if (rank_or_any >= 0 && !holdings_has(l->holdings, i, rank_or_any))
			continue;
		most.span = s->span > most.span ? s->span : most.span;
		most.room = s->room > most.room ? s->room : most.room;
		most.slot_bytes = s->slot_bytes > most.slot_bytes ? s->slot_bytes : most.slot_bytes;
		most.up_capacity = s->up_capacity > most.up_capacity ? s->up_capacity :
								       most.up_capacity;
	}
	return most;
}
