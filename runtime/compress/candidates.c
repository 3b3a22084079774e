/* SPDX-License-Identifier: BSD-3-Clause
 * See candidates.h. Selection orders coordinates by magnitude, and equal magnitudes by index. The
 * list is the beginning of that order, without zeros: every coordinate that is not listed comes
 * after all listed ones. So if the list has at least k entries, its k largest are the k largest of
 * the residual. */
#include "candidates.h"
#include "base/bytes.h"
#include "base/error.h"
#include "sparse.h"
#include "sluice.h"
#include <stdlib.h>
#include <string.h>

/* A new list has three times as many coordinates as one step publishes, so that one pass is enough
 * for several steps. The list may double, or grow by the coordinates that the workers of a step
 * send. A step that changes more than one in FOLLOWED coordinates is not followed (reduce.c). */
enum { TIMES = 3, LEAST = 64, SPARSE = 256, FOLLOWED = 64 };
/* The number of coordinates that are merged into the list in one go. */
enum { WORD = 64, WINDOW = 4 * WORD * VECTOR_LINE };
/* The entry after the end of a list, which is larger than every coordinate. */
#define NOWHERE UINT32_MAX

struct candidates_size candidates_size(uint32_t of, uint64_t k, uint64_t arriving, uint32_t exempt)
{
	const uint64_t wanted = k * TIMES < LEAST ? LEAST : k * TIMES;
	const uint64_t followed = arriving < of / FOLLOWED ? arriving : of / FOLLOWED;

	if (!k || k > of / SPARSE || wanted > of / 4)
		return (struct candidates_size){ 0 };
	return (struct candidates_size){
		(uint32_t)wanted,
		(uint32_t)(wanted + (followed > wanted ? followed : wanted)) + exempt
	};
}

/* The memory is laid out in order of alignment: first spans, then numbers. */
uint64_t candidates_bytes(struct candidates_size size, size_t n_spans)
{
	return size.room ? n_spans * sizeof(struct span) +
				   ((uint64_t)size.room * 3 + 2) * sizeof(uint32_t) :
			   0;
}

int candidates_open(struct candidates *c, struct candidates_size size, const struct span *spans,
		    size_t n_spans)
{
	const uint32_t room = size.room;

	*c = (struct candidates){
		.room = room, .wanted = size.wanted, .spans = spans, .n_spans = n_spans
	};
	if (!room)
		return 0;
	c->places = malloc(candidates_bytes(size, n_spans));
	if (!c->places)
		return fail(SLUICE_ENOMEM, "no memory for a list of %u candidates", room);
	c->index = (void *)(c->places + n_spans);
	c->chosen = c->index + room + 1;
	c->value = (void *)(c->chosen + room);
	c->index[room] = NOWHERE;
	c->value[room] = 0;
	return 0;
}

void candidates_close(struct candidates *c)
{
	free(c->places);
	*c = (struct candidates){ 0 };
}

int candidates_serve(const struct candidates *c, size_t k)
{
	return c->room && 2 * k <= c->wanted;
}

void candidates_forget(struct candidates *c)
{
	c->known = 0;
	c->n = c->n_chosen = 0;
}

/* ---- changes --------------------------------------------------------------- */

static int reaches(const struct candidates *c, uint32_t index, uint32_t key)
{
	return key > c->floor || (key == c->floor && index < c->ties_end);
}

void candidates_begin(struct candidates *c)
{
	c->span = 0;
	c->from = c->room - c->n;
	if (!c->n)
		return; /* there is no list to update */
	memmove(c->index + c->from, c->index, c->n * sizeof *c->index);
	memmove(c->value + c->from, c->value, c->n * sizeof *c->value);
	c->n = 0;
}

/* Moves old entries before coordinate `end` to the new list, except those that have become zero. */
static void pass(struct candidates *c, uint32_t end)
{
	for (; c->from < c->room && c->index[c->from] < end; c->from++) {
		c->index[c->n] = c->index[c->from];
		c->value[c->n] = c->value[c->from];
		c->n += key_of(c->value[c->n]) != 0;
	}
}

/* The entries that the changed lines of a window add to the list. */
struct fresh {
	uint32_t n, index[WINDOW + 1];
	float value[WINDOW + 1];
};

static void append(const struct candidates *c, struct fresh *fresh, uint32_t at, float value,
		   int exempt)
{
	const uint32_t key = key_of(value);

	fresh->index[fresh->n] = at;
	fresh->value[fresh->n] = value;
	fresh->n += exempt ? key > 0 : (uint32_t)reaches(c, at, key);
}

/* Returns a bit for each value whose key is `least` or more. Four values are compared at a time. */
static uint32_t those_from(const float value[VECTOR_LINE], uint32_t least)
{
	const uint64_t gather =
		0x0102040810204080; /* the low bits of eight bytes, into the highest byte */
	uint8_t marks[VECTOR_LINE];

	for (uint32_t i = 0; i < VECTOR_LINE; i++)
		marks[i] = (int32_t)key_of(value[i]) >= (int32_t)least;
	return (uint32_t)(get_le64(marks) * gather >> 56 | get_le64(marks + 8) * gather >> 56 << 8);
}

/* Returns the span of coordinate `at`. Calls must be in ascending order of `at`. */
static const struct span *span_of(struct candidates *c, uint32_t at)
{
	while (c->spans[c->span].end <= at)
		c->span++;
	return &c->spans[c->span];
}

static void list_line(struct candidates *c, struct fresh *fresh, uint32_t at, const float *value,
		      uint32_t n)
{
	const struct span *span = span_of(c, at);

	if (n < VECTOR_LINE || span->end < at + n) {
		for (uint32_t i = 0; i < n; i++)
			append(c, fresh, at + i, value[i], span_of(c, at + i)->exempt);
		return;
	}
	for (uint32_t mask = those_from(value, span->exempt || !c->floor ? 1 : c->floor); mask;
	     mask &= mask - 1) {
		const uint32_t i = (uint32_t)__builtin_ctz(mask);

		append(c, fresh, at + i, value[i], span->exempt);
	}
}

/* Merges the next n old and fresh entries in ascending order. Leaves out zeros, and old entries in
 * changed lines. No branch depends on which of the two comes next, because no processor could
 * predict that. */
static void merge(struct candidates *c, const struct fresh *fresh, uint32_t n, uint32_t begin,
		  const uint64_t *lines)
{
	uint32_t *index = c->index, from = c->from, to = c->n, f = 0;
	float *value = c->value;

	for (; n; n--) {
		const uint32_t old = index[from], new = fresh->index[f], is_old = old < new;
		const uint32_t at = is_old ? old : new, line = (at - begin) / VECTOR_LINE;
		const uint32_t changed = lines[line / WORD] >> line % WORD & 1;
		const uint32_t old_bits = float_bits(value[from]),
			       new_bits = float_bits(fresh->value[f]);
		const float taken = bits_float(new_bits ^ ((new_bits ^ old_bits) & -is_old));

		index[to] = at;
		value[to] = taken;
		to += (is_old ^ changed) & (key_of(taken) != 0);
		from += is_old;
		f += !is_old;
	}
	c->from = from;
	c->n = to;
}

static void follow_window(struct candidates *c, uint32_t begin, const uint64_t *lines,
			  const float *value, uint32_t n)
{
	struct fresh fresh;
	uint32_t end = c->from;

	fresh.n = 0;
	for (uint32_t word = 0; word * WORD * VECTOR_LINE < n; word++)
		for (uint64_t bits = lines[word]; bits; bits &= bits - 1) {
			const uint32_t at = (word * WORD + (uint32_t)__builtin_ctzll(bits)) *
					    VECTOR_LINE;

			list_line(c, &fresh, begin + at, value + at,
				  n - at < VECTOR_LINE ? n - at : VECTOR_LINE);
		}
	fresh.index[fresh.n] = NOWHERE;
	fresh.value[fresh.n] = 0;
	if (c->from - c->n < fresh.n) {
		candidates_forget(c);
		return;
	}
	while (c->index[end] < begin + n)
		end++;
	merge(c, &fresh, end - c->from + fresh.n, begin, lines);
}

void candidates_follow(struct candidates *c, uint32_t begin, const uint64_t *lines,
		       const float *value, uint32_t n)
{
	if (c->known)
		pass(c, begin);
	for (uint32_t at = 0; c->known && at < n; at += WINDOW)
		follow_window(c, begin + at, lines + at / (WORD * VECTOR_LINE), value + at,
			      n - at < WINDOW ? n - at : WINDOW);
}

void candidates_end(struct candidates *c)
{
	if (c->known)
		pass(c, NOWHERE);
}

/* Merges the changed coordinates before coordinate `end`, from number *done on, with the old
 * entries between them. Like merge(), it has no branch that depends on their order. floor and
 * ties_end are those of c, or zeros, which admit all values but zero. */
static void take_changed(struct candidates *c, const uint32_t *changed, const float *value,
			 uint32_t n, uint64_t end, uint32_t floor, uint32_t ties_end,
			 uint32_t *done)
{
	uint32_t *index = c->index, from = c->from, to = c->n, i = *done;

	while (i < n && changed[i] < end) {
		const uint32_t old = index[from], new = changed[i], is_old = old < new,
			       is_both = old == new;

		if (to == from && old > new) { /* there is no room before the old entries */
			candidates_forget(c);
			return;
		}
		const uint32_t at = is_old ? old : new;
		const uint32_t old_bits = float_bits(c->value[from]),
			       new_bits = float_bits(value[i]);
		const float taken = bits_float(new_bits ^ ((new_bits ^ old_bits) & -is_old));
		const uint32_t key = key_of(taken);
		const uint32_t in = is_old | (key > floor) | ((key == floor) & (at < ties_end));

		index[to] = at;
		c->value[to] = taken;
		to += in & (key != 0);
		from += is_old | is_both;
		i += !is_old;
	}
	c->from = from;
	c->n = to;
	*done = i;
}

void candidates_changed(struct candidates *c, const uint32_t *index, const float *value, uint32_t n)
{
	uint32_t done = 0;

	candidates_begin(c);
	for (size_t j = 0; j < c->n_spans && c->known; j++) {
		const struct span *span = &c->spans[j];
		const int exempt = span->exempt;

		take_changed(c, index, value, n, span->end, exempt ? 0 : c->floor,
			     exempt ? 0 : c->ties_end, &done);
		if (c->known)
			pass(c, (uint32_t)span->end);
	}
}

/* ---- selection ------------------------------------------------------------- */

static uint32_t count_below(const struct candidates *c, uint64_t coordinate)
{
	uint32_t low = 0, high = c->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (c->index[middle] < coordinate)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Returns the number of entries that are not exempt. */
static uint32_t find_places(struct candidates *c)
{
	uint32_t counted = 0;

	for (size_t j = 0; j < c->n_spans; j++) {
		const struct span *span = &c->spans[j];

		c->places[j] = (struct span){ count_below(c, span->begin),
					      count_below(c, span->end), span->exempt };
		counted += span->exempt ? 0 : (uint32_t)(c->places[j].end - c->places[j].begin);
	}
	return counted;
}

/* Records that the list has the `wanted` largest coordinates, or all non-zeros if there are
 * fewer. */
static void set_floor(struct candidates *c, uint32_t wanted)
{
	const uint32_t counted = find_places(c);

	c->known = 1;
	c->floor = counted < wanted ? 0 : KEY_MASK;
	c->ties_end = 0;
	for (size_t j = 0; j < c->n_spans && c->floor; j++)
		for (uint64_t i = c->places[j].begin; i < c->places[j].end && !c->places[j].exempt;
		     i++) {
			const uint32_t key = key_of(c->value[i]);

			if (key > c->floor)
				continue;
			c->floor = key;
			c->ties_end = c->index[i] + 1;
		}
}

/* Makes a new list by a pass over the whole residual. */
static void list_anew(struct candidates *c, struct selector *s, const float *residual, int *nan)
{
	const struct select_call call = { .x = residual,
					  .spans = c->spans,
					  .n_spans = c->n_spans,
					  .k = c->wanted,
					  .index = c->index,
					  .value = c->value };

	candidates_forget(c);
	c->n = (uint32_t)select_run(s, &call, nan);
	if (!*nan)
		set_floor(c, c->wanted);
}

/* Shortens a list that has become too long. It keeps fewer of the largest coordinates than a pass
 * would list, because more will be added. */
static void shorten(struct candidates *c, struct selector *s, int *nan)
{
	const uint32_t kept = c->wanted - c->wanted / TIMES;
	const struct select_call call = { .x = c->value,
					  .spans = c->places,
					  .n_spans = c->n_spans,
					  .k = kept,
					  .index = c->chosen };
	const uint32_t n = (uint32_t)select_run(s, &call, nan);

	for (uint32_t i = 0; i < n; i++) {
		c->index[i] = c->index[c->chosen[i]];
		c->value[i] = c->value[c->chosen[i]];
	}
	c->n = n;
	if (!*nan)
		set_floor(c, kept);
}

size_t candidates_select(struct candidates *c, struct selector *s, const struct select_call *call)
{
	const uint32_t counted = c->known ? find_places(c) : 0;
	int nan = 0;

	if (!c->known || (c->floor && counted < call->k))
		list_anew(c, s, call->x, &nan);
	else if (counted > c->wanted)
		shorten(c, s, &nan);

	struct select_call from_list = *call;

	from_list.x = c->value;
	from_list.spans = c->places;
	from_list.n_spans = c->n_spans;
	from_list.index = c->chosen;
	c->n_chosen = nan ? 0 : (uint32_t)select_run(s, &from_list, &nan);
	if (nan)
		candidates_forget(c);
	for (uint32_t i = 0; i < c->n_chosen; i++)
		call->index[i] = c->index[c->chosen[i]];
	return c->n_chosen;
}

void candidates_published(struct candidates *c, const float *decoded)
{
	const struct span *place = c->places;

	for (uint32_t i = 0; i < c->n_chosen; i++) {
		const uint32_t at = c->chosen[i];
		const float left = c->value[at] - decoded[i];

		while (place->end <= at)
			place++;
		/* Values below the floor count as zeros in the list. */
		c->value[at] = place->exempt || reaches(c, c->index[at], key_of(left)) ? left : 0;
	}
	c->n_chosen = 0;
}
