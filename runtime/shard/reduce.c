/* SPDX-License-Identifier: BSD-3-Clause
 * See reduce.h. While the messages of a step have few coordinates in all, they are kept as lists.
 * When the last message has arrived, the lists are merged, the values of each coordinate are added
 * up, and the change of that coordinate is added to the residual.
 *
 * If the lists would become too long, the messages are added to a sum of the whole shard instead.
 * If they touch few lines of the sum, the change is made only for these lines. If they touch many,
 * the selection adds the change to the residual in its own pass. */
#include "shard/reduce.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/team.h"
#include "sluice.h"
#include <stdlib.h>
#include <string.h>

/* AHEAD: the distance of prefetches, in lines. SPARSE: if more than one line in this many is
 * marked, one pass over all lines takes no longer than visiting the marked ones. */
enum { LINE = VECTOR_LINE, CHUNK = 1024, WORD = 64, AHEAD = 24, SPARSE = 4 };
static uint32_t lines_of(uint32_t span)
{
	return span / LINE + (span % LINE != 0);
}

static size_t words_of(uint32_t span)
{
	return lines_of(span) / WORD + (lines_of(span) % WORD != 0);
}

static void unmark(struct reduction *r)
{
	memset(r->lines, 0, words_of(r->span) * sizeof *r->lines);
	r->added = 0;
}

/* Lists are worthwhile only up to the number of lines that change_lines() may visit. */
static uint32_t room_of(uint32_t span)
{
	return lines_of(span) / SPARSE;
}

/* Lists neither count senders nor are they transformed. */
static int is_plain(const struct reduction_attr *attr)
{
	return !attr->senders && !attr->transform;
}

static uint64_t length_of_unit(uint32_t span, const struct reduction_attr *attr)
{
	return attr->transform ?
		       transform_longest_unit(attr->transform, attr->first, attr->first + span) :
		       0;
}

uint64_t reduction_bytes(uint32_t span, const struct reduction_attr *attr)
{
	return span * (sizeof(float) + (attr->senders ? sizeof(uint16_t) : 0)) +
	       length_of_unit(span, attr) * sizeof(float) + words_of(span) * sizeof(uint64_t) +
	       (is_plain(attr) ? room_of(span) : 0) * (sizeof(uint32_t) + sizeof(float));
}

int reduction_open(struct reduction *r, uint32_t span, const struct reduction_attr *attr)
{
	const uint32_t room = is_plain(attr) ? room_of(span) : 0;

	*r = (struct reduction){ .span = span,
				 .room = room,
				 .transform = attr->transform,
				 .first = attr->first,
				 .team = attr->team };
	r->sum = vector_open(span);
	r->lines = calloc(words_of(span), sizeof *r->lines);
	r->index = malloc(room * (sizeof *r->index + sizeof *r->value) + 1);
	r->senders = attr->senders ? calloc(span, sizeof *r->senders) : NULL;
	r->room_of_unit = malloc(length_of_unit(span, attr) * sizeof *r->room_of_unit + 1);
	if (r->sum && r->lines && r->index && !r->senders == !attr->senders && r->room_of_unit) {
		r->value = (void *)(r->index + room);
		return 0;
	}
	reduction_close(r);
	return fail(SLUICE_ENOMEM, "no memory for the sum of a shard of %u elements", span);
}

void reduction_close(struct reduction *r)
{
	vector_close(r->sum, r->span);
	free(r->lines);
	free(r->index);
	free(r->senders);
	free(r->room_of_unit);
	*r = (struct reduction){ 0 };
}

static uint32_t listed(const struct reduction *r)
{
	return r->n_lists ? r->ends[r->n_lists - 1] : 0;
}

/* Arguments of add_range(). */
struct addition {
	const struct reduction *r;
	const uint32_t *index;
	const float *value;
	uint32_t count;
};

/* Returns the first entry at this coordinate or beyond. */
static uint32_t first_entry(const struct addition *a, uint64_t coordinate)
{
	return (uint32_t)(a->index ? sparse_below(a->index, a->count, coordinate) : coordinate);
}

/* No other part marks lines in the same word. */
static void add_range(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	const struct addition *a = context;
	const struct reduction *r = a->r;
	const uint32_t from = first_entry(a, begin), n = first_entry(a, end) - from;
	const uint32_t *index = a->index ? a->index + from : NULL;
	const float *value = a->value + from;

	(void)part;
	for (uint32_t i = 0; index && i < n; i++)
		r->lines[index[i] / (LINE * WORD)] |= 1ull << index[i] / LINE % WORD;
	for (uint32_t i = 0; r->senders && i < n; i++)
		if (value[i] < 0 || value[i] > 0)
			r->senders[index ? index[i] : from + i]++;
	sparse_add(r->sum + (index ? 0 : from), index, value, n);
}

static void add_to_sum(struct reduction *r, const uint32_t *index, const float *value,
		       uint32_t count)
{
	struct addition a = { r, index, value, count };

	if (!index)
		r->whole = 1;
	r->added += index ? count : 0;
	team_split(count < TEAM_LEAST ? NULL : r->team, r->span, LINE * WORD, add_range, &a);
}

float *reduction_sum(struct reduction *r)
{
	for (uint32_t l = 0, at = 0; l < r->n_lists; at = r->ends[l++])
		add_to_sum(r, r->index + at, r->value + at, r->ends[l] - at);
	r->n_lists = 0;
	return r->sum;
}

void reduction_add(struct reduction *r, const uint32_t *index, const float *value, uint32_t count)
{
	const uint32_t at = listed(r);

	if (!index || r->whole || r->added || r->n_lists == REDUCTION_LISTS ||
	    count > r->room - at) {
		reduction_sum(r);
		add_to_sum(r, index, value, count);
		return;
	}
	memcpy(r->index + at, index, count * sizeof *index);
	memcpy(r->value + at, value, count * sizeof *value);
	r->ends[r->n_lists++] = at + count;
}

/* ---- line by line ---------------------------------------------------------- */

static int is_sparse(const struct reduction *r)
{
	const uint64_t most = lines_of(r->span) / SPARSE;
	uint64_t marked = 0;

	if (r->whole)
		return 0;
	if (r->added > most)
		for (size_t w = 0; w < words_of(r->span); w++)
			marked += (unsigned)__builtin_popcountll(r->lines[w]);
	return marked <= most;
}

/* Lists up to CHUNK marked lines from word *word on, and advances *word, at most to `end`. */
static uint32_t marked_lines(const struct reduction *r, size_t *word, size_t end,
			     uint32_t found[CHUNK])
{
	uint32_t listed = 0;

	for (; *word < end && listed + WORD <= CHUNK; ++*word)
		for (uint64_t bits = r->lines[*word]; bits; bits &= bits - 1)
			found[listed++] = (uint32_t)*word * WORD + (uint32_t)__builtin_ctzll(bits);
	return listed;
}

static uint32_t length_of(const struct reduction *r, uint32_t line)
{
	return r->span - line * LINE < LINE ? r->span - line * LINE : LINE;
}

/* Computes the same change as update_apply(), adds it to the residual, and clears the sum. */
static inline void move_line(float *restrict sum, float *restrict residual, uint32_t n, float share,
			     float by)
{
	for (uint32_t i = 0; i < n; i++) {
		residual[i] += by * (sum[i] * share);
		sum[i] = 0;
	}
}

static inline void scale_line(float *sum, uint32_t n, float share, float by)
{
	for (uint32_t i = 0; i < n; i++)
		sum[i] = by * (sum[i] * share);
}

static inline void ask_for(const struct reduction *r, const float *residual, uint32_t line)
{
	__builtin_prefetch(r->sum + (size_t)line * LINE, 1);
	if (residual)
		__builtin_prefetch(residual + (size_t)line * LINE, 1);
}

/* Arguments of change_words(). */
struct line_change {
	const struct reduction *r;
	float *residual, share, by;
	struct candidates *candidates; /* must see the lines in order, so that one thread makes the
					  pass; or NULL */
};

static void change_words(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	const struct line_change *c = context;
	const struct reduction *r = c->r;
	const float share = c->share, by = c->by;
	float *residual = c->residual;
	const size_t last = words_of((uint32_t)end);
	uint32_t found[CHUNK], n;

	(void)part;
	for (size_t word = begin / (LINE * WORD), before; word < last;) {
		before = word;
		n = marked_lines(r, &word, last, found);
		for (uint32_t i = 0; i < n && i < AHEAD; i++)
			ask_for(r, residual, found[i]);
		for (uint32_t i = 0; i < n; i++) {
			size_t at = (size_t)found[i] * LINE;
			uint32_t length = length_of(r, found[i]);

			if (i + AHEAD < n)
				ask_for(r, residual, found[i + AHEAD]);
			if (!residual)
				scale_line(r->sum + at, length, share, by);
			else if (length == LINE) /* the compiler knows this length */
				move_line(r->sum + at, residual + at, LINE, share, by);
			else
				move_line(r->sum + at, residual + at, length, share, by);
		}
		if (c->candidates) {
			const size_t at = before * LINE * WORD, to = word * LINE * WORD;

			candidates_follow(c->candidates, (uint32_t)at, r->lines + before,
					  residual + at,
					  (uint32_t)((to < r->span ? to : r->span) - at));
		}
	}
}

static void change_lines(struct reduction *r, float *residual, float share, float by,
			 struct candidates *candidates)
{
	struct line_change c = { r, residual, share, by, residual ? candidates : NULL };

	if (c.candidates)
		candidates_begin(candidates);
	team_split(c.candidates || r->added < TEAM_LEAST ? NULL : r->team, r->span, LINE * WORD,
		   change_words, &c);
	if (c.candidates)
		candidates_end(candidates);
	if (residual)
		unmark(r);
}

/* ---- list by list ---------------------------------------------------------- */

/* A list of coordinates in ascending order, and the value of each. */
struct listing {
	uint32_t *index;
	float *value;
};

static void copy_entries(const struct listing *to, uint32_t at, const struct listing *from,
			 uint32_t begin, uint32_t end)
{
	memcpy(to->index + at, from->index + begin, (end - begin) * sizeof *to->index);
	memcpy(to->value + at, from->value + begin, (end - begin) * sizeof *to->value);
}

/* Merges entries begin .. middle with entries middle .. end. Equal coordinates keep the order of
 * the lists. There is no branch on which list comes next, because that cannot be predicted. */
static void merge_two(const struct listing *from, uint32_t begin, uint32_t middle, uint32_t end,
		      const struct listing *to)
{
	uint32_t a = begin, b = middle, n = begin;

	for (; a < middle && b < end; n++) {
		const uint32_t second = from->index[b] < from->index[a],
			       next = a ^ ((a ^ b) & -second);

		to->index[n] = from->index[next];
		to->value[n] = from->value[next];
		a += !second;
		b += second;
	}
	copy_entries(to, n, from, a, middle);
	copy_entries(to, n + middle - a, from, b, end);
}

/* Merges neighbouring lists until one is left. Returns that list, which is either `at` or
 * `spare`. */
static struct listing merge_lists(struct reduction *r, struct listing at, struct listing spare)
{
	while (r->n_lists > 1) {
		const struct listing merged = spare;
		uint32_t begin = 0, lists = 0;

		for (uint32_t l = 0; l < r->n_lists; l += 2) {
			const uint32_t middle = r->ends[l],
				       end = l + 1 < r->n_lists ? r->ends[l + 1] : middle;

			merge_two(&at, begin, middle, end, &merged);
			r->ends[lists++] = begin = end;
		}
		r->n_lists = lists;
		spare = at;
		at = merged;
	}
	return at;
}

/* Adds up the values of each coordinate, starting from zero. Returns the number of coordinates. */
static uint32_t add_up(const struct listing *l, uint32_t count)
{
	uint32_t n = 0, last = UINT32_MAX; /* UINT32_MAX is not a coordinate */
	float sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		const uint32_t at = l->index[i], new = at != last;

		sum = bits_float(float_bits(sum) & (new - 1)) + l->value[i];
		n += new;
		l->index[n - 1] = last = at;
		l->value[n - 1] = sum;
	}
	return n;
}

/* Arguments of change_listed(). */
struct list_change {
	const struct listing *list;
	float *residual, share, by;
};

/* Adds the change of each listed coordinate to the residual. Replaces the listed values by the new
 * values of the residual. */
static void change_listed(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	const struct list_change *c = context;
	const uint32_t *index = c->list->index;
	float *value = c->list->value, *residual = c->residual;
	const float share = c->share, by = c->by;

	(void)part;
	for (uint64_t i = begin; i < end; i++) {
		__builtin_prefetch(residual + index[i + AHEAD < end ? i + AHEAD : i], 1);
		value[i] = residual[index[i]] += by * (value[i] * share);
	}
}

/* Uses the memory of the sum as scratch and sets it to zero again. All of it is zero here, and much
 * longer than the lists. */
static void change_lists(struct reduction *r, float *residual, float share, float by,
			 struct candidates *candidates)
{
	const uint32_t count = listed(r);
	const size_t lent = r->n_lists > 1 ? 2 * sizeof *r->sum * count : 0;
	const struct listing lists = { r->index, r->value };
	const struct listing spare = { (void *)r->sum, r->sum + count };
	const struct listing all = merge_lists(r, lists, spare);
	const uint32_t n = add_up(&all, count);

	team_split(r->team, n, LINE, change_listed,
		   &(struct list_change){ &all, residual, share, by });
	if (candidates)
		candidates_changed(candidates, all.index, all.value, n);
	memset(r->sum, 0, lent);
	r->n_lists = 0;
}

void reduction_run(struct reduction *r, float *running)
{
	reduction_sum(r);
	for (uint32_t i = 0; i < r->span; i++)
		r->sum[i] = running[i] += r->sum[i];
	r->whole = 1;
}

/* ---- senders ------------------------------------------------------------------ */

static void divide(float *restrict sum, uint16_t *restrict senders, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		sum[i] *= 1.0f / (float)(senders[i] ? senders[i] : 1);
		senders[i] = 0;
	}
}

/* Makes the sum the mean over the senders of each coordinate, and sets their numbers to zero. */
static void divide_by_senders(struct reduction *r)
{
	uint32_t found[CHUNK], n;

	if (r->whole)
		divide(r->sum, r->senders, r->span);
	for (size_t word = 0; word < words_of(r->span) && !r->whole;) {
		n = marked_lines(r, &word, words_of(r->span), found);
		for (uint32_t i = 0; i < n; i++) {
			const size_t at = (size_t)found[i] * LINE;

			divide(r->sum + at, r->senders + at, length_of(r, found[i]));
		}
	}
}

/* ---- the step -------------------------------------------------------------- */

/* Arguments of change_range(). */
struct whole_change {
	const struct reduction *r;
	const struct change *c;
	unsigned divisor;
	float *residual; /* to which the change is added; or NULL */
};

static void change_range(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	const struct whole_change *whole = context;
	const struct change *c = whole->c;
	const uint32_t n = (uint32_t)(end - begin);
	float *sum = whole->r->sum + begin;
	struct update update = *c->update;

	(void)part;
	update.first += begin;
	update_apply(&update, sum, averages_at(c->averages, begin),
		     c->params ? c->params + begin : NULL, n, whole->divisor, c->lr);
	if (whole->residual)
		sparse_add(whole->residual + begin, NULL, sum, n);
}

static void change_whole(const struct reduction *r, const struct change *c, unsigned divisor,
			 float *residual)
{
	struct whole_change whole = { r, c, divisor, residual };

	team_split(r->team, r->span, LINE, change_range, &whole);
}

void reduction_change(struct reduction *r, const struct change *c, struct pick_call *call)
{
	const unsigned divisor = r->senders ? 1 : c->divisor;
	float share = 1, by = 1;
	int scales = update_scales(c->update, divisor, c->lr, &share, &by);

	call->vector = c->residual ? c->residual : r->sum;
	call->grad = NULL;
	if (scales && !c->everywhere && c->residual && r->n_lists) {
		change_lists(r, c->residual, share, by, c->candidates);
		return;
	}
	reduction_sum(r);
	if (r->senders)
		divide_by_senders(r);
	if (r->transform)
		transform_invert(r->transform, r->first, r->sum, r->span, r->room_of_unit);
	if (scales && !c->everywhere && !r->transform && is_sparse(r)) {
		change_lines(r, c->residual, share, by, c->candidates);
		return;
	}
	if (c->candidates)
		candidates_forget(c->candidates);
	r->whole = 1;
	if (c->selects && c->residual) {
		/* If one of the two factors is 1 or -1, their product gives the same bits as both
		 * in turn. */
		int one = scales && (by == 1 || by == -1 || share == 1);

		if (!one)
			change_whole(r, c, divisor, NULL);
		call->vector = NULL;
		call->grad = r->sum;
		call->scale = one ? by * share : 1;
		return;
	}
	change_whole(r, c, divisor, c->residual);
}

static void clear_range(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	(void)part;
	memset((float *)context + begin, 0, (end - begin) * sizeof(float));
}

void reduction_clear(struct reduction *r)
{
	uint32_t found[CHUNK], n;

	r->n_lists = 0;
	if (!r->whole && !r->added)
		return;
	if (r->whole)
		team_split(r->team, r->span, LINE, clear_range, r->sum);
	if (r->whole && r->senders) /* a restored shard may have counted some messages */
		memset(r->senders, 0, r->span * sizeof *r->senders);
	for (size_t word = 0; word < words_of(r->span) && !r->whole;) {
		n = marked_lines(r, &word, words_of(r->span), found);
		for (uint32_t i = 0; i < n; i++)
			memset(r->sum + (size_t)found[i] * LINE, 0,
			       length_of(r, found[i]) * sizeof *r->sum);
	}
	unmark(r);
	r->whole = 0;
}
