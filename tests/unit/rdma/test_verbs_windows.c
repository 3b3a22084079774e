/* SPDX-License-Identifier: BSD-3-Clause
 * Regions that are longer than the longest memory window, on the cards of fake_fabric.h: how they
 * are cut, transfers across a cut, and cards that refuse a window. */
#include "base/bytes.h"
#include "rdma/frame.h"
#include "sluice.h"
#include "verbs_two.h"
#include "cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lengths are divided by SCALE: the longest window of 2 GiB has 16 KiB here, and a region of 3 GiB,
 * which must work, has 24 KiB. */
enum { SCALE = 1 << 17, MOST = 16384, DEPTH = 64 };

struct shared {
	struct region *far, *near;
	struct remote *remote;
};

static struct region *new_region(size_t bytes, unsigned access, const char *name)
{
	struct region *region = NULL;

	assert_int_equal(region_open(bytes, access, name, &region), 0);
	return region;
}

/* Rank 1 offers its region `far` to rank 0. */
static struct shared share(size_t bytes)
{
	struct shared s = { .far = new_region(bytes, REGION_READ | REGION_WRITE, "far"),
			    .near = new_region(bytes, 0, "near") };

	if (pair_share(&pair, 1, s.far, &s.remote))
		fail_msg("%s", sluice_last_error());
	return s;
}

static void end_share(struct shared *s)
{
	verbs_transport.remote_close(&s->remote);
	region_close(&s->far);
	region_close(&s->near);
}

/* Puts and gets n bytes at an offset; afterwards both regions are equal there. */
static void move_both_ways(const struct shared *s, size_t at, size_t n, unsigned seed)
{
	const int notifies = pair_count(&pair, 1, EVENT_IMM) + 1;
	const int done = pair_count(&pair, 0, EVENT_DONE) + 1;
	uint8_t *far = (uint8_t *)s->far->base + at, *near = (uint8_t *)s->near->base + at;

	fill(near, n, seed);
	memset(far, 0, n);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, s->remote, s->near, at, n, seed), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, notifies), 0);
	assert_memory_equal(far, near, n);
	fill(far, n, seed + 1);
	assert_int_equal(post(0, TRANSFER_GET, s->remote, s->near, at, n, seed), 0);
	assert_int_equal(pair_wait(&pair, 0, EVENT_DONE, done), 0);
	assert_memory_equal(far, near, n);
	assert_int_equal(pair_count(&pair, 0, EVENT_DONE), done);
	assert_int_equal(pair_count(&pair, 1, EVENT_IMM), notifies);
}

FRESH(region__longer_than_a_window_of_each_card__works)
{
	for (int card = 0; card < FAKE_CARDS; card++) {
		struct verbs_region wire;
		struct shared s;

		fabric_setup(state);
		fake_be((enum fake_card)card, SCALE);
		open_pair(DEPTH);
		s = share(MOST / 2 * 3);
		wire = described(&pair, s.far);
		assert_int_equal(wire.keys, card == FAKE_MLX5 ? 2 : 1);
		assert_int_equal(wire.window, card == FAKE_MLX5 ? MOST : 0);
		move_both_ways(&s, 0, MOST / 2 * 3, 1);
		assert_int_equal(fake_counts.access_errors, 0);
		end_share(&s);
		close_pair();
	}
}

/* Moves n bytes from the beginning of near to offset at of far, or back. */
static void move_at(const struct shared *s, enum transfer_kind kind, size_t at, size_t n)
{
	const struct transfer t = { .kind = kind,
				    .remote = s->remote,
				    .offset = at,
				    .local_region = s->near,
				    .local = s->near->base,
				    .bytes = n };

	assert_int_equal(verbs_transport.post(pair.e[0], &t), 0);
}

/* The same without scaling. It is skipped by default, because a region has real memory. */
FRESH(region__of_3_gib_on_mlx5__works_across_each_cut)
{
	enum { PART = 8192 };
	const size_t gib = (size_t)1 << 30,
		     at[] = { 0, gib - PART / 2, 2 * gib - PART / 2, 3 * gib - PART };
	struct shared s;

	if (!getenv("TEST_LARGE_REGIONS"))
		skip();
	fake_be(FAKE_MLX5, 1);
	open_pair(DEPTH);
	s.far = new_region(3 * gib, REGION_READ | REGION_WRITE, "far");
	s.near = new_region(PART, 0, "near");
	if (pair_share(&pair, 1, s.far, &s.remote))
		fail_msg("%s", sluice_last_error());
	assert_int_equal(described(&pair, s.far).keys, 3);
	assert_int_equal(described(&pair, s.far).window, gib);
	for (int i = 0; i < 4; i++) {
		fill(s.near->base, PART, (unsigned)i);
		move_at(&s, TRANSFER_PUT_NOTIFY, at[i], PART);
		assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, i + 1), 0);
		assert_memory_equal((uint8_t *)s.far->base + at[i], s.near->base, PART);
		fill((uint8_t *)s.far->base + at[i], PART, (unsigned)i + 9);
		move_at(&s, TRANSFER_GET, at[i], PART);
		assert_int_equal(pair_wait(&pair, 0, EVENT_DONE, i + 1), 0);
		assert_memory_equal((uint8_t *)s.far->base + at[i], s.near->base, PART);
	}
	assert_int_equal(fake_counts.access_errors, 0);
	end_share(&s);
	close_pair();
}

/* Tests offsets one below, at and above each cut, with sizes of one byte, inline and larger. */
FRESH(transfer__around_a_cut__moves_its_bytes_once_with_one_notify)
{
	static const size_t sizes[] = { 1, 2, 64, 65, 3000, MOST, 2 * MOST + 2 };
	struct shared s;

	fake_be(FAKE_MLX5, SCALE);
	open_pair(DEPTH);
	s = share(4 * MOST - 7);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t cut = MOST; cut < 3 * MOST; cut += MOST)
			for (size_t before = 0; before < 3; before++)
				if (cut - before + sizes[i] <= 4 * MOST - 7)
					move_both_ways(&s, cut - before, sizes[i],
						       (unsigned)(i * 9 + before));
	move_both_ways(&s, 0, 4 * MOST - 7, 5);
	assert_int_equal(fake_counts.access_errors, 0);
	end_share(&s);
	close_pair();
}

FRESH(notify__without_bytes_at_the_end_of_a_region__arrives)
{
	struct shared s;

	fake_be(FAKE_MLX5, SCALE);
	open_pair(DEPTH);
	s = share(2 * MOST);
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, s.remote, s.near, 2 * MOST, 0, 3), 0);
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
	end_share(&s);
	close_pair();
}

FRESH(get__over_four_windows_of_a_card_with_one_read_at_once__arrives)
{
	struct shared s;

	fake_be(FAKE_MLX5, SCALE);
	fake.attr.max_qp_rd_atom = fake.attr.max_qp_init_rd_atom = 1;
	open_pair(DEPTH);
	s = share(4 * MOST);
	fake_counts.reads_at_once = 0;
	move_both_ways(&s, 100, 4 * MOST - 200, 8);
	assert_int_equal(fake_counts.reads_at_once, 1);
	end_share(&s);
	close_pair();
}

FRESH(connection__broken_under_a_transfer_over_three_windows__it_arrives_once)
{
	struct verbs_region old, now;
	struct shared s;

	fake_be(FAKE_MLX5, SCALE);
	open_pair(DEPTH);
	s = share(3 * MOST);
	old = described(&pair, s.far);
	fill(s.near->base, 3 * MOST, 4);
	fake.silent = 1; /* the requests are lost with the connection */
	assert_int_equal(post(0, TRANSFER_PUT_NOTIFY, s.remote, s.near, 0, 3 * MOST, 6), 0);
	fake_cm_cut(1);
	fake.silent = 0;
	assert_int_equal(pair_wait(&pair, 1, EVENT_IMM, 1), 0);
	assert_memory_equal(s.far->base, s.near->base, 3 * MOST);
	move_both_ways(&s, 5, 3 * MOST - 9, 7);
	now = described(&pair, s.far);
	for (int i = 0; i < 3; i++)
		assert_int_not_equal(old.rkey[i], now.rkey[i]);
	assert_int_equal(fake_counts.access_errors, 0);
	end_share(&s);
	close_pair();
}

FRESH(region__of_more_windows_than_a_descriptor_holds__refused_by_name)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	struct region *region;
	struct shared s;

	fake_be(FAKE_MLX5, SCALE);
	open_pair(DEPTH);
	s = share((size_t)REGION_KEYS_MOST * MOST);
	move_both_ways(&s, MOST - 1, (REGION_KEYS_MOST / 2) * MOST, 2);
	region = new_region((size_t)REGION_KEYS_MOST * MOST + 1, REGION_READ, "endless");
	assert_int_equal(verbs_transport.describe(pair.e[1], region, descriptor), SLUICE_ENOSUPP);
	assert_non_null(strstr(sluice_last_error(), "region endless of 1048577 bytes needs 65"));
	assert_non_null(strstr(sluice_last_error(), "SLUICE_MEMORY_WINDOWS=no"));
	move_both_ways(&s, 0, 100, 3);
	region_close(&region);
	end_share(&s);
	close_pair();
}

FRESH(transfer__over_more_windows_than_the_queue_holds__refused)
{
	struct shared s;

	fake_be(FAKE_MLX5, SCALE);
	fake.attr.max_qp_wr = 16;
	open_pair(DEPTH);
	s = share((size_t)20 * MOST);
	assert_int_equal(post(0, TRANSFER_PUT, s.remote, s.near, 0, 20 * MOST, 0), SLUICE_ENOSUPP);
	assert_non_null(strstr(sluice_last_error(), "touch 20 memory windows"));
	move_both_ways(&s, 0, 16 * MOST, 3);
	assert_int_equal(fake_counts.overflows, 0);
	end_share(&s);
	close_pair();
}

/* A peer that used no more than its rights is not at fault, and stays. */
FRESH(card__refusing_a_window_later__region_and_remedy_named_and_the_peer_kept)
{
	uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
	struct region *region;
	struct shared s;

	fake_be(FAKE_MLX5, SCALE);
	open_pair(DEPTH);
	s = share(8192);
	fake.longest_window = 8192;
	region = new_region(3 * MOST, REGION_READ, "delta log");
	assert_int_equal(verbs_transport.describe(pair.e[1], region, descriptor), SLUICE_EDEVICE);
	assert_non_null(strstr(sluice_last_error(), "fake0 of this rank"));
	assert_non_null(strstr(sluice_last_error(), "region delta log of 49152 bytes"));
	assert_non_null(strstr(sluice_last_error(), "SLUICE_MEMORY_WINDOWS=no"));
	move_both_ways(&s, 0, 8192, 1);
	fake_cm_cut(1); /* the next connection does not try again */
	move_both_ways(&s, 0, 8192, 2);
	for (int side = 0; side < 2; side++)
		assert_int_equal(pair_count(&pair, side, EVENT_GONE), 0);
	region_close(&region);
	end_share(&s);
	close_pair();
}

/* The card accepts the request and fails later with any of these statuses. */
FRESH(card__failing_a_binding__region_and_remedy_named)
{
	static const enum ibv_wc_status statuses[] = { IBV_WC_MW_BIND_ERR, IBV_WC_LOC_PROT_ERR,
						       IBV_WC_LOC_QP_OP_ERR };

	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		uint8_t descriptor[REGION_DESCRIPTOR_BYTES];
		struct region *region = new_region(3 * MOST, REGION_READ, "delta log");
		const char *text;

		fabric_setup(state);
		fake_be(FAKE_MLX5, SCALE);
		open_pair(DEPTH);
		fake.fail_opcode = IBV_WR_BIND_MW;
		fake.fail_status = statuses[i];
		assert_int_equal(verbs_transport.describe(pair.e[1], region, descriptor), 0);
		assert_int_equal(pair_wait(&pair, 1, EVENT_GONE, 1), 0);
		text = pair.events[1][0].text;
		assert_non_null(strstr(text, "fake0 of this rank"));
		assert_non_null(strstr(text, "region delta log of 49152 bytes"));
		assert_non_null(strstr(text, "SLUICE_MEMORY_WINDOWS=no"));
		region_close(&region);
		close_pair();
	}
}

FRESH(card__refusing_every_window__a_domain_for_each_peer)
{
	struct shared s;

	fake.longest_window = 2048;
	open_pair(DEPTH);
	assert_int_equal(fake_counts.mws, 0);
	s = share(3 * MOST);
	move_both_ways(&s, 0, 3 * MOST, 2);
	end_share(&s);
	close_pair();
}

/* ---- hostile ---------------------------------------------------------------- */

enum { CRC_AT = REGION_HEAD_BYTES - 4, KEYS_CRC_AT = REGION_HEAD_BYTES - 8 };

static void seal(uint8_t *descriptor, uint32_t keys)
{
	put_le32(descriptor + KEYS_CRC_AT,
		 crc32c(0, descriptor + REGION_HEAD_BYTES, (keys - 1) * 4));
	put_le32(descriptor + CRC_AT, crc32c(0, descriptor, CRC_AT));
}

static const struct verbs_region three = { .address = 4096,
					   .bytes = 3 * MOST,
					   .owner = 1,
					   .access = REGION_READ,
					   .id = 1,
					   .link = 1,
					   .window = MOST,
					   .keys = 3,
					   .rkey = { 7, 8, 9 } };

TEST(descriptor__of_several_keys__keeps_them)
{
	uint8_t bytes[REGION_DESCRIPTOR_BYTES];
	struct verbs_region out;

	verbs_region_encode(&three, bytes);
	assert_int_equal(verbs_region_decode(bytes, 1, 0, &out), 0);
	assert_memory_equal(&out, &three, sizeof(out));
}

TEST(descriptor__whose_keys_do_not_cover_the_region__refused)
{
	static const struct {
		uint64_t bytes, window;
		uint32_t keys;
	} wrong[] = {
		{ 3 * MOST, MOST, 0 },
		{ 3 * MOST, MOST, 1 },
		{ 3 * MOST, MOST, 2 },
		{ 3 * MOST, MOST, 4 },
		{ 3 * MOST + 1, MOST, 3 },
		{ 2 * MOST, MOST, 3 },
		{ 3 * MOST, 0, 3 },
		{ 3 * MOST, UINT64_MAX, 3 },
		{ (REGION_KEYS_MOST + 1) * (uint64_t)MOST, MOST, REGION_KEYS_MOST + 1 },
		{ UINT32_MAX, 1, UINT32_MAX },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint8_t bytes[REGION_DESCRIPTOR_BYTES];
		struct verbs_region out = { .id = 77 };

		verbs_region_encode(&three, bytes);
		put_le64(bytes + 8, wrong[i].bytes);
		put_le64(bytes + 44, wrong[i].window);
		put_le32(bytes + 52, wrong[i].keys);
		seal(bytes, 3);
		assert_int_equal(verbs_region_decode(bytes, 1, 0, &out), SLUICE_EWIRE);
		assert_non_null(strstr(sluice_last_error(), "do not cover it"));
		assert_int_equal(out.id, 77);
	}
}

TEST(descriptor__with_a_changed_key__refused)
{
	uint8_t bytes[REGION_DESCRIPTOR_BYTES];
	struct verbs_region out;

	verbs_region_encode(&three, bytes);
	bytes[REGION_HEAD_BYTES + 5] ^= 1;
	assert_int_equal(verbs_region_decode(bytes, 1, 0, &out), SLUICE_EWIRE);
	assert_non_null(strstr(sluice_last_error(), "keys are damaged"));
}

TEST(table__keys_of_a_region_apart_or_too_many__refused_and_nothing_taken_over)
{
	static struct key_table table, out = { .link = 5 };
	uint8_t bytes[KEY_TABLE_BYTES] = { 0 };
	char why[80];
	uint32_t first;

	table.n = 4;
	for (uint32_t i = 0; i < 4; i++) {
		table.key[i].id = i == 3 ? 2 : 9; /* 9 9 9 2 */
		table.key[i].rkey = 100 + i;
	}
	key_table_encode(&table, bytes);
	assert_int_equal(key_table_decode(bytes, &out, why), 0);
	assert_int_equal(key_table_find(&out, 9, &first), 3);
	assert_int_equal(first, 0);
	assert_int_equal(key_table_find(&out, 2, &first), 1);
	assert_int_equal(first, 3);
	assert_int_equal(key_table_find(&out, 4, &first), 0);

	table.key[1].id = 2; /* 9 2 9 2 */
	key_table_encode(&table, bytes);
	assert_int_equal(key_table_decode(bytes, &out, why), -1);
	assert_non_null(strstr(why, "out of order"));
	table.n = REGION_KEYS_MOST + 1;
	for (uint32_t i = 0; i < table.n; i++)
		table.key[i].id = 9;
	key_table_encode(&table, bytes);
	assert_int_equal(key_table_decode(bytes, &out, why), -1);
	assert_int_equal(out.n, 4);
	assert_int_equal(out.key[1].id, 9);
}
