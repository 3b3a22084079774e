/* SPDX-License-Identifier: BSD-3-Clause
 * The slot ring's arithmetic, alone and against a model under random schedules. */
#include "base/log.h"
#include "rdma/ring.h"
#include "sluice.h"
#include "cases.h"
#include <string.h>

static void swallow(int level, const char *line, void *context)
{
}

static int silence(void **state)
{
	log_set_sink(swallow, NULL);
	return 0;
}

TEST(init__impossible_shape__is_refused)
{
	struct ring_writer w;
	struct ring_reader r;

	assert_int_equal(ring_writer_init(&w, 0, 8), SLUICE_EINVAL);
	assert_int_equal(ring_writer_init(&w, 8, 0), SLUICE_EINVAL);
	assert_int_equal(ring_writer_init(&w, 3, SIZE_MAX / 2), SLUICE_EINVAL);
	assert_int_equal(ring_reader_init(&r, 0, 8), SLUICE_EINVAL);
	assert_int_equal(ring_reader_init(&r, 8, 0), SLUICE_EINVAL);
}

TEST(offset__any_sequence__is_its_slot)
{
	assert_int_equal(ring_offset(4, 100, 1), 100);
	assert_int_equal(ring_offset(4, 100, 4), 0);
	assert_int_equal(ring_offset(4, 100, 7), 300);
	assert_int_equal(ring_offset(1, 100, 7), 0);
	/* All 64 bits count. */
	assert_true(ring_offset(4, (size_t)1 << 40, UINT64_MAX) == (uint64_t)3 << 40);
}

TEST(writer__all_slots_unread__is_full_until_acknowledged)
{
	struct ring_writer w;
	uint64_t i;

	assert_int_equal(ring_writer_init(&w, 3, 64), 0);
	for (i = 1; i <= 3; i++) {
		assert_true(ring_writer_free(&w));
		assert_int_equal(ring_writer_advance(&w), i);
	}
	assert_false(ring_writer_free(&w));
	assert_int_equal(ring_writer_acknowledge(&w, 1, 1), 0);
	assert_true(ring_writer_free(&w));
	assert_int_equal(ring_writer_advance(&w), 4);
	assert_false(ring_writer_free(&w));
}

TEST(acknowledge__beyond_written_or_back__is_refused_unchanged)
{
	struct ring_writer w, before;

	assert_int_equal(ring_writer_init(&w, 4, 64), 0);
	assert_int_equal(ring_writer_acknowledge(&w, 7, 0), 0);
	assert_int_equal(ring_writer_acknowledge(&w, 7, 1), SLUICE_EWIRE);
	ring_writer_advance(&w);
	ring_writer_advance(&w);
	assert_int_equal(ring_writer_acknowledge(&w, 7, 2), 0);
	before = w;
	assert_int_equal(ring_writer_acknowledge(&w, 7, 3), SLUICE_EWIRE);
	assert_non_null(strstr(sluice_last_error(), "rank 7"));
	assert_int_equal(ring_writer_acknowledge(&w, 7, UINT64_MAX), SLUICE_EWIRE);
	assert_int_equal(ring_writer_acknowledge(&w, 7, 1), SLUICE_EWIRE);
	assert_int_equal(ring_writer_acknowledge(&w, 7, 0), SLUICE_EWIRE);
	assert_memory_equal(&w, &before, sizeof(w));
	assert_int_equal(ring_writer_acknowledge(&w, 7, 2), 0);
}

TEST(accept__any_but_the_next__is_refused_unchanged)
{
	struct ring_reader r;

	assert_int_equal(ring_reader_init(&r, 4, 64), 0);
	assert_int_equal(ring_reader_consumed(&r), 0);
	assert_int_equal(ring_reader_accept(&r, 5, 0), SLUICE_EWIRE);
	assert_int_equal(ring_reader_accept(&r, 5, 2), SLUICE_EWIRE);
	assert_non_null(strstr(sluice_last_error(), "missing"));
	assert_int_equal(ring_reader_accept(&r, 5, 1), 0);
	assert_int_equal(ring_reader_accept(&r, 5, 1), SLUICE_EWIRE);
	assert_non_null(strstr(sluice_last_error(), "repeated"));
	assert_int_equal(ring_reader_accept(&r, 5, UINT64_MAX), SLUICE_EWIRE);
	assert_int_equal(ring_reader_consumed(&r), 1);
	assert_int_equal(ring_reader_accept(&r, 5, 2), 0);
}

/* ---- against a model ------------------------------------------------------- */

enum { SCHEDULES = 10000, MOVES = 100, MAX_DEPTH = 9, MAX_NOTICES = 128 };

static uint64_t random_state;
static uint64_t draw(uint64_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (random_state >> 33) % below;
}

/* The model keeps the content of each slot, whether it was read, and the notices in flight. */
struct model {
	uint64_t slot[MAX_DEPTH]; /* sequence number in it; 0 none */
	int unread[MAX_DEPTH];
	uint64_t written, read, acknowledged;
	uint64_t notices[MAX_NOTICES]; /* sent but not yet arrived */
	unsigned n_notices;
};

static void step_writer(struct model *m, struct ring_writer *w)
{
	uint64_t seq = m->written + 1;
	uint64_t at = ring_offset(w->depth, w->slot_bytes, seq) / w->slot_bytes;
	int model_free = m->written - m->acknowledged < w->depth;

	assert_int_equal(ring_writer_free(w) != 0, model_free);
	if (!model_free)
		return;
	assert_false(m->unread[at]); /* never overwrites an unread message */
	assert_int_equal(ring_writer_advance(w), seq);
	m->slot[at] = seq;
	m->unread[at] = 1;
	m->written = seq;
}

static void step_reader(struct model *m, struct ring_reader *r)
{
	uint64_t at = ring_offset(r->depth, r->slot_bytes, r->next_seq) / r->slot_bytes;
	uint64_t found = m->slot[at];
	int there = m->read < m->written;

	assert_int_equal(ring_reader_accept(r, 0, found) == 0, there);
	if (!there)
		return;
	m->unread[at] = 0;
	m->read++;
	assert_int_equal(ring_reader_consumed(r), m->read);
}

static void step_notice(struct model *m, struct ring_writer *w)
{
	if (m->n_notices == 0)
		return;
	m->acknowledged = m->notices[0];
	m->n_notices--;
	memmove(m->notices, m->notices + 1, m->n_notices * sizeof(m->notices[0]));
	assert_int_equal(ring_writer_acknowledge(w, 0, m->acknowledged), 0);
}

static void step_hostile_notice(struct model *m, struct ring_writer *w)
{
	struct ring_writer before = *w;
	uint64_t lie = draw(2) ? m->written + 1 + draw(1000) : m->acknowledged - 1 - draw(5);

	if (lie >= m->acknowledged && lie <= m->written)
		return;
	assert_int_equal(ring_writer_acknowledge(w, 0, lie), SLUICE_EWIRE);
	assert_memory_equal(w, &before, sizeof(before));
}

TEST(ring__a_million_random_moves__agree_with_the_model)
{
	uint64_t messages = 0;
	int schedule, move;

	random_state = 1;
	for (schedule = 0; schedule < SCHEDULES; schedule++) {
		uint32_t depth = 1 + (uint32_t)draw(MAX_DEPTH);
		struct model m = { .written = 0 };
		struct ring_writer w;
		struct ring_reader r;

		assert_int_equal(ring_writer_init(&w, depth, 48), 0);
		assert_int_equal(ring_reader_init(&r, depth, 48), 0);
		for (move = 0; move < MOVES; move++) {
			switch (draw(9)) {
			case 0:
			case 1:
			case 2: step_writer(&m, &w); break;
			case 3:
			case 4:
			case 5: step_reader(&m, &r); break;
			case 6:
				if (m.n_notices < MAX_NOTICES)
					m.notices[m.n_notices++] = ring_reader_consumed(&r);
				break;
			case 7: step_notice(&m, &w); break;
			default:
				if (draw(64) == 0)
					step_hostile_notice(&m, &w);
				break;
			}
		}
		messages += m.read;
	}
	assert_true(messages > SCHEDULES); /* the schedules have moved messages */
}

int main(void)
{
	return run_cases(silence, NULL);
}
