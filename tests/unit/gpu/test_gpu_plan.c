/* SPDX-License-Identifier: BSD-3-Clause
 * Sizes and launch parameters of the kernels. */

#include "gpu/plan.h"
#include "cases.h"

enum { STATE = 50000, PACKING = 20, GRANULE = 256 };

struct array {
	size_t at, bytes;
};

static void expect_apart(const struct select_plan *p, size_t n_exempt)
{
	const struct array arrays[] = {
		{ p->state, STATE },
		{ p->exempt, n_exempt * 8 },
		{ p->packing, PACKING },
		{ p->widths, (p->room + 127) / 128 },
		{ p->block_sums, GRID_MOST * 16 },
		{ p->tile_sums, (size_t)p->tiles * 16 },
		{ p->group_sums, ((size_t)p->tiles + 1023) / 1024 * 16 },
		{ p->first, (size_t)p->tiles * 4 },
		{ p->counts, (size_t)p->tiles * 4 },
		{ p->candidate_index, (size_t)p->room * 4 },
		{ p->candidate_value, (size_t)p->room * 4 },
		{ p->index, (size_t)p->room * 4 },
		{ p->value, (size_t)p->room * 4 },
	};
	const size_t n = sizeof(arrays) / sizeof(arrays[0]);

	for (size_t i = 0; i < n; i++) {
		assert_int_equal(arrays[i].at % GRANULE, 0);
		assert_true(arrays[i].at + arrays[i].bytes <= p->bytes);
		for (size_t j = 0; j < i; j++)
			assert_true(arrays[j].at + arrays[j].bytes <= arrays[i].at ||
				    arrays[i].at + arrays[i].bytes <= arrays[j].at);
	}
}

TEST(select_plan__arrays_lie_apart_and_within)
{
	static const size_t sizes[] = { 0,    1,    31,      32,        1023,
					1024, 1025, 1000007, 250000000, 4294967295u };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t k = 0; k <= sizes[i]; k = k ? 100 * k : 1) {
			struct select_plan p = select_plan(sizes[i], k, 0, 0, STATE, PACKING);
			struct select_plan q = select_plan(sizes[i], k, sizes[i] / 10, 7, STATE,
							   PACKING);

			expect_apart(&p, 0);
			expect_apart(&q, 7);
			assert_true((uint64_t)p.tiles * TILE_COORDINATES >= sizes[i]);
			assert_true(p.tiles == 0 ||
				    (uint64_t)(p.tiles - 1) * TILE_COORDINATES < sizes[i]);
			assert_true(p.room >= k && p.room <= sizes[i]);
			assert_true(q.room >= p.room);
		}
}

TEST(select_plan__more_asked_for_than_there_is)
{
	struct select_plan p = select_plan(100, 1000, 0, 0, STATE, PACKING);

	assert_int_equal(p.k, 100);
	assert_int_equal(p.room, 100);
}

TEST(select_plan__scratch_is_a_thirtieth_of_the_vector_and_the_selection)
{
	const size_t n = 250000000, k = n / 1000;
	struct select_plan p = select_plan(n, k, 0, 0, STATE, PACKING);

	assert_true(p.bytes < 4 * n / 12 + 16 * k);
}

TEST(select_grid__is_resident_and_has_work)
{
	assert_int_equal(select_grid(0, 8, 132, 4), 1);
	assert_int_equal(select_grid(1, 8, 132, 4), 1);
	assert_int_equal(select_grid(8, 8, 132, 4), 1);
	assert_int_equal(select_grid(9, 8, 132, 4), 2);
	assert_int_equal(select_grid(244141, 8, 132, 4), 528);
	assert_int_equal(select_grid(UINT32_MAX, 8, 2000, 4), GRID_MOST);
	assert_int_equal(select_grid(1000, 8, 132, 0), 1);
}

TEST(pack_grid__a_warp_takes_a_block_of_gaps)
{
	assert_int_equal(pack_grid(0, 128, 8, 132, 5), 1);
	assert_int_equal(pack_grid(1024, 128, 8, 132, 5), 1);
	assert_int_equal(pack_grid(1025, 128, 8, 132, 5), 2);
	assert_int_equal(pack_grid(UINT32_MAX, 128, 8, 132, 5), 660);
}

TEST(list_grid__one_thread_an_entry_in_turns_if_many)
{
	assert_int_equal(list_grid(0, 256, 132, 8), 1);
	assert_int_equal(list_grid(256, 256, 132, 8), 1);
	assert_int_equal(list_grid(257, 256, 132, 8), 2);
	assert_int_equal(list_grid(UINT32_MAX, 256, 132, 8), 1056);
}

TEST(quantize_grid__eight_values_a_thread)
{
	assert_int_equal(quantize_grid(0, 132, 4), 1);
	assert_int_equal(quantize_grid(2048, 132, 4), 1);
	assert_int_equal(quantize_grid(2049, 132, 4), 2);
	assert_int_equal(quantize_grid(UINT32_MAX, 132, 4), 528);
}

TEST(sketch_plan__arrays_lie_apart_and_within)
{
	for (uint32_t n = 0; n < 4000000000u; n = 3 * n + 1) {
		const uint32_t columns = n / 3 + 1;
		struct sketch_plan p = sketch_plan(n, columns, 100);

		assert_true(p.barrier + 4 <= p.parts && p.parts + 100 <= p.begin &&
			    p.begin + 4 * (size_t)columns <= p.end);
		assert_true(p.end + 4 * (size_t)columns <= p.list &&
			    p.list + 4 * (size_t)n <= p.block_sums);
		assert_true(p.block_sums + 8 * (size_t)GRID_MOST <= p.bytes &&
			    p.block_sums % 8 == 0);
		if (n > UINT32_MAX / 3)
			break;
	}
}
