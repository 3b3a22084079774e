/* SPDX-License-Identifier: BSD-3-Clause
 * Exact top-k of each block of a vector, in one pass over memory. The kernels of select_kernels.h
 * list the coordinates of a block above a level that the previous blocks suggest; among these few
 * candidates, in the first-level cache, the k-th largest is found by counting. If the level was too
 * high, a sample of the block, which is in the cache by then, gives a lower one. Called by
 * choose.c. */
#include "select_sweep.h"
#include "base/bytes.h"
#include "compress/sparse.h"
#include <assert.h>
#include <math.h>

/* Estimates for the next block, which come from the previous blocks. */
struct level {
	uint32_t below;  /* the keys above this one are listed; 0: all non-zeros are listed */
	uint32_t middle; /* the k-th largest key was near this one; 0: there was no block yet */
};

/* A block from which coordinates are selected. The candidates are in the stage. */
struct block {
	const struct select_kernels *kernels;
	struct select_stage stage;
	const float *x;
	const struct span *spans;
	size_t n_spans;
	uint64_t begin, end;
	uint32_t plain, exempt; /* numbers of coordinates */
};

/* Finds the spans of the block that begins at `begin`. *span is the first span that can overlap it,
 * and advances. */
static void find_spans(struct block *b, const struct span *spans, size_t n_spans, size_t *span)
{
	while (*span < n_spans && spans[*span].end <= b->begin)
		++*span;
	b->spans = spans + *span;
	b->n_spans = b->plain = b->exempt = 0;
	for (size_t j = *span; j < n_spans && spans[j].begin < b->end; j++, b->n_spans++) {
		const uint64_t from = spans[j].begin > b->begin ? spans[j].begin : b->begin;
		const uint64_t to = spans[j].end < b->end ? spans[j].end : b->end;

		*(spans[j].exempt ? &b->exempt : &b->plain) += (uint32_t)(to - from);
	}
}

/* ---- candidates -------------------------------------------------------------- */

/* Lists the coordinates of the block whose keys are above `below`, in ascending order. Also lists
 * the non-zeros of its exempt spans; their keys become KEY_MASK. Returns the number of listed
 * coordinates. Sets *exempt to the number of those that are exempt, and *largest to an upper bound
 * of the keys. */
static size_t list_block(const struct block *b, uint32_t below, size_t *exempt, uint32_t *largest)
{
	const struct select_stage *stage = &b->stage;
	float no_value[LISTS_SLACK];
	/* All candidates are listed as sure ones, because one walk lists these. */
	struct select_lists l = { .near_index = stage->index, .near_value = no_value };
	size_t n = 0;

	*exempt = 0;
	for (size_t j = 0; j < b->n_spans; j++) {
		const struct span *span = b->spans + j;
		const uint64_t from = span->begin > b->begin ? span->begin : b->begin;
		const uint64_t to = span->end < b->end ? span->end : b->end;
		const int32_t level = span->exempt ? 0 : (int32_t)below;

		l.index = stage->near_index + n;
		l.value = stage->near_value + n;
		b->kernels->list_values(b->x, from, to, (struct select_bounds){ level, level }, &l);
		for (size_t i = 0; i < l.n && span->exempt; i++)
			l.value[i] = bits_float(KEY_MASK);
		*exempt += span->exempt ? l.n : 0;
		n += l.n;
	}
	*largest = *exempt ? (uint32_t)KEY_MASK : (uint32_t)l.largest;
	return n;
}

/* ---- the cut of a list ------------------------------------------------------- */

/* Four keys at once, in registers that every current machine has. */
typedef int32_t lanes __attribute__((vector_size(16), aligned(4), may_alias));
enum { LANES = 4, UNROLLED = 4 * LANES };
_Static_assert((int)UNROLLED <= (int)LISTS_SLACK, "a list is padded to a multiple of this length");

/* Counts the keys above `key`. After v[n], up to the next multiple of UNROLLED, there must be
 * zeros. Meanwhile it prefetches memory from `soon` on, because the memory bus would otherwise be
 * idle. */
static size_t count_above(const float *v, size_t n, uint32_t key, const float *soon)
{
	const int32_t k = (int32_t)key;
	const lanes bound = { k, k, k, k }, mask = { KEY_MASK, KEY_MASK, KEY_MASK, KEY_MASK };
	lanes a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };

	for (size_t i = 0; i < n; i += UNROLLED) {
		const lanes *at = (const lanes *)(v + i);

		__builtin_prefetch(soon + i); /* UNROLLED values are one cache line */
		a += (at[0] & mask) > bound;
		b += (at[1] & mask) > bound;
		c += (at[2] & mask) > bound;
		d += (at[3] & mask) > bound;
	}
	a += b + c + d;
	return (size_t) - (a[0] + a[1] + a[2] + a[3]);
}

/* Returns the cut that selects the `need` largest of v[0..n), whose keys are above `low` and at
 * most `high`. 0 < need < n. middle: a key near the need-th largest. v is padded as for
 * count_above(). Prefetches memory from *soon on, and advances *soon. */
static struct cut cut_near(const float *v, size_t n, size_t need, uint32_t low, uint32_t high,
			   uint32_t middle, const float **soon)
{
	/* Invariant: more than `need` keys are above low, and fewer than `need` are above high. */
	size_t above_low = n, above_high = 0;

	for (unsigned turn = 0;; turn++) {
		if (high - low == 1)
			return (struct cut){ .floor = high, .ties = need - above_high };
		middle = middle <= low ? low + 1 : middle >= high ? high - 1 : middle;

		const size_t above = count_above(v, n, middle, *soon);

		*soon += n;

		if (above == need)
			return (struct cut){ .floor = middle, .ties = 0 };
		if (above > need) {
			low = middle;
			above_low = above;
		} else {
			high = middle;
			above_high = above;
		}
		/* Interpolates, because keys between close bounds are spread about evenly. Every
		 * third turn halves the interval instead, in case they are not. */
		middle = turn % 3 == 2 ? low + (high - low) / 2 :
					 low + (uint32_t)((uint64_t)(high - low) *
							  (2 * (above_low - need) - 1) /
							  (2 * (above_low - above_high)));
	}
}

static void pad(float *v, size_t n)
{
	for (size_t i = n; i < n + UNROLLED; i++)
		v[i] = 0;
}

/* ---- levels ------------------------------------------------------------------ */

/* Returns how many candidates a level should list, so that it hardly ever lists too few. The counts
 * of similar blocks differ by about the square root of the count. */
static size_t wanted(uint32_t quota)
{
	return quota + 3 * (size_t)sqrtf((float)quota) + 2;
}

/* Returns a level that probably lists enough candidates. It comes from a sample of the block's
 * values. The wanted number doubles with each attempt. */
static uint32_t sampled_level(const struct block *b, uint32_t quota, unsigned attempt)
{
	enum { MOST = 512 };
	float value[MOST + UNROLLED];
	size_t n = 0;
	const uint32_t stride = b->plain / MOST + 1;
	const float *soon = b->x + b->end;
	uint32_t skip = stride / 2;

	if (!b->plain)
		return 0;
	for (size_t j = 0; j < b->n_spans; j++) {
		const struct span *span = b->spans + j;
		const uint64_t from = span->begin > b->begin ? span->begin : b->begin;
		const uint64_t to = span->end < b->end ? span->end : b->end;
		uint64_t i = from + skip;

		if (span->exempt)
			continue;
		for (; i < to && n < MOST; i += stride)
			value[n++] = b->x[i];
		skip = (uint32_t)(i - to);
	}
	pad(value, n);

	const float rank = (float)quota * (float)n / (float)b->plain;
	const size_t need = (size_t)(rank + 3 * sqrtf(rank) + 1) << attempt;

	if (need >= n || count_above(value, n, 0, soon) <= need)
		return 0;
	/* Subtracts 1, so that keys equal to the sample's cut are candidates too. */
	return cut_near(value, n, need, 0, KEY_MASK, KEY_INFINITY / 2, &soon).floor - 1;
}

/* Moves the level towards the one that would have listed the wanted number of candidates. floor:
 * the k-th largest key of the block. */
static void learn(struct level *level, const float *v, size_t n, uint32_t quota, uint32_t floor,
		  const float **soon)
{
	const size_t want = wanted(quota);

	level->middle = level->middle ? level->middle + (int32_t)(floor - level->middle) / 4 :
					floor;
	if (n > 3 * want) {
		level->below = cut_near(v, n, want, level->below, floor, floor, soon).floor - 1;
		return;
	}
	/* n - quota candidates lie between the level and the floor. */
	const int64_t each = (int64_t)(floor - level->below) / (int64_t)(n - quota + 1);
	const int64_t next = (int64_t)level->below + ((int64_t)n - (int64_t)want) * each / 4;

	level->below = next < 0 ? 0 : next >= floor ? floor - 1 : (uint32_t)next;
}

/* ---- all blocks --------------------------------------------------------------- */

/* Keeps the candidates that the cut selects. Returns their number. */
static size_t keep(const struct select_kernels *kernels, const float *v, uint32_t *index, size_t n,
		   struct cut cut)
{
	size_t kept = 0;

	if (!cut.ties)
		return kernels->keep_above(v, index, n, (int32_t)cut.floor);
	for (size_t i = 0; i < n; i++) {
		const uint32_t key = key_of(v[i]);
		const size_t tie = (key == cut.floor) & (cut.ties > 0);

		index[kept] = index[i];
		kept += tie | (key > cut.floor);
		cut.ties -= tie;
	}
	return kept;
}

static size_t select_block(const struct block *b, uint32_t quota, struct level *level,
			   uint32_t *index)
{
	const struct select_stage *stage = &b->stage;
	const int first = !level->middle;
	uint32_t below = first ? sampled_level(b, quota, 0) : level->below, largest;
	size_t exempt, n = list_block(b, below, &exempt, &largest);

	for (unsigned attempt = (unsigned)first; n - exempt < quota && below; attempt++) {
		const uint32_t lower = sampled_level(b, quota, attempt);

		below = lower < below ? lower : below / 2;
		n = list_block(b, below, &exempt, &largest);
	}
	level->below = below;
	if (n - exempt > quota) {
		/* The kernel has prefetched about a line for each two candidates. */
		const float *soon = b->x + b->end + UNROLLED * (n / 2);

		pad(stage->near_value, n);

		const struct cut cut = cut_near(stage->near_value, n, quota + exempt, below,
						largest, first ? below : level->middle, &soon);

		if (!exempt)
			learn(level, stage->near_value, n, quota, cut.floor, &soon);
		n = keep(b->kernels, stage->near_value, stage->near_index, n, cut);
	} else if (level->middle > below) {
		const uint32_t lower = (level->middle - below) / 4;

		level->below = lower < below ? below - lower : 0;
	}
	if (!level->below)
		level->middle = 0;
	memcpy(index, stage->near_index, n * sizeof(*index));
	return n;
}

/* Consecutive blocks from which one thread selects, and their coordinates. */
struct part {
	uint64_t begin, end;
};

struct each {
	struct selector *s;
	const float *x;
	const struct span *spans;
	size_t n_spans;
	uint32_t k, length;
	const uint32_t *ends; /* NULL, or those of all blocks */
	unsigned parts;
	struct part part[TEAM_PARTS];
	struct sparse_list list[TEAM_PARTS]; /* each has room for all that its part may select */
};

static uint32_t quota_of(const struct each *e, const struct block *b)
{
	return !e->ends        ? block_quota(e->k, e->length, b->plain) :
	       b->plain < e->k ? b->plain :
				 e->k;
}

static void select_part(struct each *e, unsigned part, struct select_stage stage)
{
	const struct part *p = &e->part[part];
	struct sparse_list *list = &e->list[part];
	struct level level = { 0 };
	struct block b = { .kernels = e->s->kernels, .stage = stage, .x = e->x, .begin = p->begin };
	const uint32_t *ends = e->ends;
	size_t span = 0;

	for (; b.begin < p->end; b.begin = b.end) {
		b.end = ends                         ? *ends++ :
			p->end - b.begin < e->length ? p->end :
						       b.begin + e->length;
		find_spans(&b, e->spans, e->n_spans, &span);
		list->n += select_block(&b, quota_of(e, &b), &level, list->index + list->n);
	}
}

static void select_share(void *context, unsigned part)
{
	struct each *e = context;

	if (part < e->parts)
		select_part(e, part, stage_in(team_memory(e->s->team, part), e->s->shared_tile));
}

/* Cuts the blocks into equal parts. A part's place in index[] follows what the earlier blocks may
 * select. */
static void cut_parts(struct each *e, uint64_t begin, uint64_t end, uint32_t *index)
{
	const uint64_t blocks = (end - begin + e->length - 1) / e->length;
	struct block b = { .begin = begin };
	size_t span = 0;

	for (unsigned p = 0; p < e->parts; p++) {
		const uint64_t after = begin + blocks * (p + 1) / e->parts * e->length;

		e->part[p] = (struct part){ .begin = b.begin, .end = after < end ? after : end };
		e->list[p] = (struct sparse_list){ .index = index };
		for (; b.begin < e->part[p].end; b.begin = b.end) {
			b.end = b.begin + e->length;
			find_spans(&b, e->spans, e->n_spans, &span);
			index += quota_of(e, &b) + b.exempt;
		}
		b.begin = e->part[p].end;
	}
}

size_t select_each_block(struct selector *s, const float *x, const struct span *spans,
			 size_t n_spans, uint32_t k, uint32_t length, const uint32_t *ends,
			 uint32_t *index)
{
	const uint64_t all = n_spans ? spans[n_spans - 1].end : 0;
	const uint64_t begin = n_spans && !ends ? spans[0].begin / length * length : 0;
	struct each e = { .s = s,
			  .x = x,
			  .spans = spans,
			  .n_spans = n_spans,
			  .k = k,
			  .length = length,
			  .ends = ends,
			  .parts = 1,
			  .part = { { .begin = begin, .end = all } },
			  .list = { { .index = index } } };

	assert(all <= s->n && length <= SELECT_BLOCK_MOST);
	if (s->team && !ends && team_take(s->team)) {
		e.parts = team_parts(s->team);
		cut_parts(&e, begin, all, index);
		team_run(s->team, select_share, &e);
		team_give_back(s->team);
	} else {
		select_part(&e, 0, s->stage);
	}
	return sparse_join(e.list, e.parts);
}
