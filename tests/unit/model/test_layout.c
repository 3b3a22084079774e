/* SPDX-License-Identifier: BSD-3-Clause
 * The memory layout of a model: shards tile the vector, nothing overlaps, and slots are large
 * enough. Announced and allocated memory: test_open_memory.c. */
#include "compress/message.h"
#include "layout_recipes.h"
#include "model/home.h"
#include "model/layout.h"
#include "cases.h"
#include "model/tensors.h"
#include <stdlib.h>
#include <string.h>

static int make(const sluice_model_attr *attr, const char *text, int size, int workers,
		struct recipe *recipe, struct layout *out)
{
	struct schedule schedule;
	assert_int_equal(recipe_parse(text, recipe), 0);
	assert_int_equal(
		schedule_compile(recipe, attr->steps_per_epoch, tensors_decay(attr), &schedule), 0);
	int rc = layout_make(attr, recipe, &schedule, size, workers, out);
	return rc ? rc : holdings_make(out, 1, &out->holdings);
}

struct piece {
	uint64_t begin, end;
};

static int by_begin(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Checks that the sorted pieces fill 0..total without a gap or an overlap. */
static void check_tiles(struct piece *pieces, size_t n, uint64_t total)
{
	uint64_t at = 0;
	qsort(pieces, n, sizeof *pieces, by_begin);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(pieces[i].begin, at);
		assert_true(pieces[i].end > at);
		at = pieces[i].end;
	}
	assert_int_equal(at, total);
}

static void check_shards(const struct layout *l, int servers)
{
	uint64_t at = 0;
	uint32_t least = UINT32_MAX, most = 0;
	const int owners = servers ? servers : l->size;
	for (uint32_t i = 0; i < l->n_shards; i++) {
		const struct shard_layout *s = &l->shards[i];
		assert_int_equal(s->begin, at);
		at += s->span;
		least = s->span < least ? s->span : least;
		most = s->span > most ? s->span : most;
		const int rank = holdings_at(l->holdings, i, 0)->rank;
		assert_in_range(rank, l->size - owners, l->size - 1);
		const int each = (int)(l->n_shards / l->n_fragments), k = (int)i % each;
		assert_int_equal(rank, l->size - owners +
					       (each < owners ? k * owners / each : k % owners));
		if (l->n_fragments == 1 && each >= owners)
			assert_int_equal(holdings_at(l->holdings, i, 0)->notice_index, k / owners);
		assert_true(s->up_capacity >= 1 && s->up_capacity <= s->span);
		assert_true(s->down_capacity >= 1 && s->down_capacity <= s->span);
		assert_true(s->exempt <= s->up_capacity && s->exempt <= s->down_capacity);
		assert_true(s->slot_bytes % 8 == 0 && s->delta_bytes % 8 == 0);
		assert_true(s->log_bytes % 8 == 0 && s->log_bytes >= 3 * s->delta_bytes);
	}
	assert_int_equal(at, l->count);
	assert_true(most - least <= 1);
}

/* Checks the memory to which peer may write on rank: the slots of rank's shards and the notices of
 * peer's. */
static void check_window(const struct layout *l, uint32_t holders, int rank, int peer)
{
	struct piece *pieces = calloc(2 * l->n_shards * (ASYNC_SLOT_DEPTH + 1), sizeof *pieces);
	size_t n = 0, total = holdings_window_bytes(l->holdings, rank, peer);
	assert_non_null(pieces);
	for (uint32_t i = 0; i < holders * l->n_shards; i++) {
		const struct shard_layout *s = &l->shards[i / holders];
		const struct holding *at = holdings_at(l->holdings, i / holders, i % holders);
		for (uint64_t slot = 0; slot < s->slot_depth && at->rank == rank; slot++) {
			uint64_t begin = at->slots_offset + slot * s->slot_bytes;
			pieces[n++] = (struct piece){ begin, begin + s->slot_bytes };
		}
		if (at->rank == peer) {
			uint64_t begin = holdings_notice_offset(l->holdings, rank, at);
			pieces[n++] = (struct piece){ begin, begin + NOTICE_BYTES };
		}
	}
	check_tiles(pieces, n, total);
	free(pieces);
}

static void check_log(const struct layout *l, uint32_t holders, int rank)
{
	struct piece *pieces = calloc(2 * l->n_shards * 2, sizeof *pieces);
	size_t n = 0;
	assert_non_null(pieces);
	for (uint32_t i = 0; i < holders * l->n_shards; i++) {
		const struct shard_layout *s = &l->shards[i / holders];
		const struct holding *at = holdings_at(l->holdings, i / holders, i % holders);
		if (at->rank != rank)
			continue;
		pieces[n++] = (struct piece){ at->log_offset, at->log_offset + s->log_bytes };
		pieces[n++] = (struct piece){ at->snapshot_offset,
					      at->snapshot_offset + s->snapshot_bytes };
	}
	check_tiles(pieces, n, holdings_log_bytes(l->holdings, rank));
	free(pieces);
}

/* Checks shards that have `holders` holders each. */
static void check_regions(const struct layout *l, uint32_t holders)
{
	for (int rank = 0; rank < l->size; rank++) {
		check_log(l, holders, rank);
		for (int peer = 0; peer < l->size; peer++)
			check_window(l, holders, rank, peer);
	}
	for (uint32_t i = 0; i < l->n_shards && holders > 1; i++)
		assert_int_not_equal(holdings_at(l->holdings, i, 0)->rank,
				     holdings_at(l->holdings, i, 1)->rank);
}

TEST(make__any_shape__tiles_vector_windows_and_logs)
{
	static const uint64_t counts[] = { 1, 2, 7, 64, 1000, 65536, 65537, 1000003 };
	static const uint32_t shards[] = { 0, 1, 2, 3, 5, 16, 64 };
	for (size_t c = 0; c < 8; c++)
		for (int workers = 1; workers <= 5; workers++)
			for (int servers = 0; servers <= 2; servers++)
				for (size_t s = 0; s < 7; s++) {
					sluice_model_attr attr = { .size = sizeof attr,
								   .count = counts[c],
								   .shards = shards[s] };
					struct recipe recipe;
					struct layout l;
					if (shards[s] > counts[c])
						continue;
					assert_int_equal(make(&attr, recipes[(c + s) % RECIPES],
							      workers + servers, workers, &recipe,
							      &l),
							 0);
					if (shards[s])
						assert_int_equal(l.n_shards, shards[s]);
					check_shards(&l, servers);
					check_regions(&l, 1);
					if (servers != 1 && workers + servers > 1) {
						holdings_free(&l.holdings);
						assert_int_equal(holdings_make(&l, 2, &l.holdings),
								 0);
						check_regions(&l, 2);
					}
					layout_free(&l);
				}
}

TEST(make__default_shards__are_one_per_65536_up_to_the_workers)
{
	static const struct {
		uint64_t count;
		int workers;
		uint32_t shards;
	} cases[] = {
		{ 1, 4, 1 },         { 65536, 4, 1 },       { 65537, 4, 2 }, { 1000000, 4, 4 },
		{ 1000000, 32, 16 }, { 1ull << 31, 4, 16 }, /* no shard has 2^28 coordinates or
							       more */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		sluice_model_attr attr = { .size = sizeof attr, .count = cases[i].count };
		struct recipe recipe;
		struct layout l;
		assert_int_equal(
			make(&attr, recipes[1], cases[i].workers, cases[i].workers, &recipe, &l),
			0);
		assert_int_equal(l.n_shards, cases[i].shards);
		layout_free(&l);
	}
}

TEST(make__default_shards_of_a_dense_recipe__are_up_to_32_for_each_worker)
{
	static const struct {
		const char *recipe;
		uint64_t count;
		int workers;
		uint32_t shards;
	} cases[] = {
		{ "up=all down=all", 10000000, 4, 128 },
		{ "up=all down=all update=adam(0.9,0.99,1e-8)", 10000000, 4, 128 },
		{ "up=all down=all", 1863690, 4, 28 }, /* of 65536 coordinates or more */
		{ "up=all down=all", 460000, 4, 4 },
		{ "up=all down=all", 100000, 4, 2 },
		{ "up=all down=all", 10000000, 1, 1 }, /* nobody to overlap with */
		{ "up=all,uniform(8) down=all,uniform(8)", 10000000, 4, 4 },
		{ "up=all down=topk(0.01)", 10000000, 4, 4 },
		{ "up=topk(0.01) down=all", 10000000, 4, 4 },
		{ "up=all down=all signal=drift when=every(10)", 10000000, 4, 4 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		sluice_model_attr attr = { .size = sizeof attr, .count = cases[i].count };
		struct recipe recipe;
		struct layout l;
		assert_int_equal(make(&attr, cases[i].recipe, cases[i].workers, cases[i].workers,
				      &recipe, &l),
				 0);
		assert_int_equal(l.n_shards, cases[i].shards);
		layout_free(&l);
	}
}

TEST(make__more_owners_than_shards__spreads_them)
{
	sluice_model_attr attr = { .size = sizeof attr, .count = 100, .shards = 2 };
	struct recipe recipe;
	struct layout l;
	assert_int_equal(make(&attr, recipes[0], 4, 4, &recipe, &l), 0);
	assert_int_equal(holdings_at(l.holdings, 0, 0)->rank, 0);
	assert_int_equal(holdings_at(l.holdings, 1, 0)->rank, 2);
	assert_int_equal(holdings_log_bytes(l.holdings, 1), 0);
	assert_int_equal(holdings_window_bytes(l.holdings, 1, 3), 0);
	layout_free(&l);
}

TEST(make__impossible_shards_or_tensors__fails_EINVAL)
{
	const sluice_tensor too_long[] = { { "a", 5 }, { "b", 6 } },
			    too_short[] = { { "a", 5 }, { "b", 4 } };
	const sluice_tensor nameless[] = { { NULL, 10 } },
			    overflowing[] = { { "a", 5 }, { "b", UINT64_MAX } };
	const struct {
		sluice_model_attr attr;
		const char *says;
	} cases[] = {
		{ { .count = 10, .shards = 11 }, "shards=11" },
		{ { .count = 1ull << 31, .shards = 4 }, "shards=4" },
		{ { .count = UINT32_MAX, .shards = 1 << 24 }, "shards=16777216" },
		{ { .count = 10, .tensors = too_long, .n_tensors = 2 }, "tensor 1 (b)" },
		{ { .count = 10, .tensors = too_short, .n_tensors = 2 }, "9 elements together" },
		{ { .count = 10, .tensors = nameless, .n_tensors = 1 }, "tensor 0" },
		{ { .count = 10, .tensors = overflowing, .n_tensors = 2 }, "tensor 1 (b)" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct recipe recipe;
		struct layout l;
		assert_int_equal(make(&cases[i].attr, recipes[1], 2, 2, &recipe, &l),
				 SLUICE_EINVAL);
		assert_non_null(strstr(sluice_last_error(), cases[i].says));
	}
}

TEST(make__sketch_whose_message_has_4_gib__fails_EINVAL)
{
	sluice_model_attr attr = { .size = sizeof attr, .count = 1ull << 30, .shards = 5 };
	struct recipe recipe;
	struct layout l;
	assert_int_equal(make(&attr, "up=sketch(0.5,15,2,1)", 5, 5, &recipe, &l), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "shard 0"));
	attr.shards = 20;
	assert_int_equal(make(&attr, "up=sketch(0.5,15,2,1)", 5, 5, &recipe, &l), 0);
	layout_free(&l);
}

TEST(make__exempt_tensors__are_spans_counted_outside_of_the_density)
{
	const sluice_tensor tensors[] = { { "w1", 500 }, { "w1.bias", 10 }, { "bias2", 0 },
					  { "w2", 480 }, { "b.bias", 6 },   { "c.bias", 4 } };
	sluice_model_attr attr = {
		.size = sizeof attr, .count = 1000, .tensors = tensors, .n_tensors = 6, .shards = 3
	};
	struct recipe recipe;
	struct layout l;
	struct span spans[8];
	assert_int_equal(make(&attr, "up=topk(0.01) down=topk(0.01)", 3, 3, &recipe, &l), 0);
	assert_int_equal(l.n_spans, 4); /* the last two biases are merged */
	assert_int_equal(l.exempt, 20);
	assert_true(l.spans[1].begin == 500 && l.spans[1].end == 510 && l.spans[1].exempt);
	assert_true(l.spans[3].begin == 990 && l.spans[3].end == 1000 && l.spans[3].exempt);
	uint64_t exempt = 0;
	for (uint32_t s = 0; s < 3; s++) {
		size_t n = layout_shard_spans(&l, &l.shards[s], spans);
		uint64_t at = 0;
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(spans[i].begin, at);
			at = spans[i].end;
			for (uint64_t j = spans[i].begin; j < spans[i].end; j++) {
				uint64_t whole = l.shards[s].begin + j;
				int want = (whole >= 500 && whole < 510) || whole >= 990;
				assert_int_equal(spans[i].exempt, want);
			}
			exempt += spans[i].exempt ? spans[i].end - spans[i].begin : 0;
		}
		assert_int_equal(at, l.shards[s].span);
		/* one in a hundred of the other coordinates, and all exempt ones */
		assert_int_equal(l.shards[s].down_capacity,
				 (l.shards[s].span - l.shards[s].exempt + 99) / 100 +
					 l.shards[s].exempt);
	}
	assert_int_equal(exempt, 20);
	layout_free(&l);
}

TEST(make__residual_or_none__slots_hold_four_means_or_everything)
{
	sluice_model_attr attr = { .size = sizeof attr, .count = 8000, .shards = 8 };
	struct recipe recipe;
	struct layout l;
	assert_int_equal(make(&attr, "up=topk(0.01)", 4, 4, &recipe, &l), 0);
	assert_int_equal(l.shards[0].up_capacity, 4 * 10);
	layout_free(&l);
	assert_int_equal(make(&attr, "up=topk(0.01) memory=none", 4, 4, &recipe, &l), 0);
	assert_int_equal(l.shards[0].up_capacity, 80);
	layout_free(&l);
	assert_int_equal(make(&attr, "up=topk(0.01) warmup=5", 4, 4, &recipe, &l), 0);
	assert_int_equal(l.shards[0].up_capacity, 1000); /* 4 * 250 is the whole shard */
	layout_free(&l);
}

/* The update of the shards changes no other coordinates. */
TEST(make__agreed_support__is_all_that_is_published_and_decoded)
{
	sluice_model_attr attr = { .size = sizeof attr, .count = 8000, .shards = 8 };
	struct recipe recipe;
	struct layout l;
	const struct shard_layout *at;
	assert_int_equal(make(&attr, "up=cyclic(0.01) down=all", 4, 4, &recipe, &l), 0);
	assert_int_equal(l.shards[0].down_capacity, 4 * 10);
	assert_int_equal(l.shards[0].room, 80); /* all coordinates of a leader's selection may be
						   in one shard */
	layout_free(&l);
	assert_int_equal(
		make(&attr, "up=cyclic(0.01) down=all update=momentum(0.9)", 4, 4, &recipe, &l), 0);
	assert_int_equal(l.shards[0].down_capacity, 1000);
	assert_int_equal(l.shards[0].room, 1000);
	layout_free(&l);
	assert_int_equal(make(&attr, "up=sketch(0.01,1,2,8) down=all", 4, 4, &recipe, &l), 0);
	at = &l.shards[0];
	assert_int_equal(at->down_capacity, 10);
	assert_int_equal(at->up_capacity, 80);
	assert_int_equal(at->sketch_cells, 20);
	assert_int_equal(at->room, 80);
	layout_free(&l);
	assert_int_equal(make(&attr, "up=sketch(0.01,3,20) down=all", 4, 4, &recipe, &l), 0);
	assert_int_equal(l.shards[0].room, 600);
	assert_int_equal(l.shards[0].sketch_cells, 600);
	layout_free(&l);
}

/* Equal numbers of shards in each fragment, and of each fragment a shard at every owner. */
TEST(make__fragments__spread_over_all_owners)
{
	static const struct {
		int size, workers, shards;
		uint32_t each;
	} jobs[] = { { 4, 4, 0, 4 }, { 4, 3, 0, 3 }, { 4, 4, 24, 8 }, { 1, 1, 0, 1 } };

	for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs); i++) {
		sluice_model_attr attr = { .size = sizeof attr,
					   .count = 1000003,
					   .shards = (uint32_t)jobs[i].shards };
		const int first = jobs[i].workers < jobs[i].size ? jobs[i].workers : 0;
		const uint32_t owners = (uint32_t)(jobs[i].size - first);
		uint64_t begin = 0;
		struct recipe recipe;
		struct layout l;

		assert_int_equal(make(&attr, "signal=drift when=every(6),fragments(3)",
				      jobs[i].size, jobs[i].workers, &recipe, &l),
				 0);
		assert_int_equal(l.n_shards, 3 * jobs[i].each);
		for (uint32_t f = 0; f < 3; f++) {
			const struct fragment part = layout_fragment(&l, f);
			uint32_t at[4] = { 0 };

			assert_int_equal(part.end - part.first, jobs[i].each);
			assert_int_equal(part.begin, begin);
			begin += part.count;
			for (uint32_t s = part.first; s < part.end; s++) {
				assert_int_equal(l.shards[s].fragment, f);
				at[holdings_at(l.holdings, s, 0)->rank]++;
			}
			for (uint32_t r = (uint32_t)first; r < (uint32_t)jobs[i].size; r++)
				assert_int_equal(at[r], jobs[i].each / owners);
		}
		assert_int_equal(begin, attr.count);
		layout_free(&l);
	}
}

TEST(make__capacities__bound_what_messages_need)
{
	sluice_model_attr attr = { .size = sizeof attr, .count = 3001, .shards = 7 };
	for (size_t i = 0; i < RECIPES; i++) {
		struct recipe recipe;
		struct layout l;
		assert_int_equal(make(&attr, recipes[i], 3, 3, &recipe, &l), 0);
		for (uint32_t s = 0; s < 7; s++) {
			const struct shard_layout *at = &l.shards[s];
			for (uint32_t n = 0; n <= at->span; n++) {
				if (n <= at->up_capacity)
					assert_true(message_bound(at->span, n, recipe.up.values) <=
						    at->slot_bytes);
				if (n <= at->down_capacity)
					assert_true(
						message_bound(at->span, n, recipe.down.values) <=
						at->delta_bytes);
			}
		}
		layout_free(&l);
	}
}
