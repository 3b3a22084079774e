/* SPDX-License-Identifier: BSD-3-Clause
 * The announced memory of a model compared with the resident memory, which is never more and not
 * much less. */
#include "model/snapshot.h"
#include "ranks.h"
#include "scratch.h"
#include "tools/bench/resident.h"
#include "cases.h"
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* The shards have several snapshot parts. SMALL: memory that is not announced, for names and the
 * allocator. */
enum { COUNT = 3000000, STEPS = 3, SMALL = 512 << 10 };

static float params[COUNT], grad[COUNT];
static char scratch[SCRATCH_PATH];

struct model_case {
	const char *recipe;
	double least; /* share of the announced memory that is resident after the steps */
};
static const struct model_case cases[] = {
	{ "up=topk(0.001) down=topk(0.001)", 0.9 },
	{ "up=topk(0.01),f16 down=topk(0.01),f16 signal=momentum(0.9) update=momentum(0.9)", 0.9 },
	{ "up=topk(0.01),uniform(4) down=topk(0.02),bf16", 0.9 },
	{ "up=all down=all",
	  0.65 }, /* if messages are mapped, nothing is staged, but measuring a step would be */
	{ "up=topk(0.01) down=all", 0.9 }, /* a publication has as many coordinates as two
					      messages */
	{ "up=topk(0.001) down=all", 0.9 },
	{ "up=cyclic(0.01) down=all", 0.9 }, /* this also holds for an agreed support */
	{ "up=cyclic(0.01),f16 down=all,bf16 memory=lowpass(0.3)", 0.9 },
	{ "up=sketch(0.001) down=all", 0.9 },
};

static uint64_t resident_bytes(void)
{
	struct resident now;

	CHECK(!resident_now(&now));
	return now.anonymous + now.regions;
}

/* ---- the most resident memory during an operation --------------------------- */

static atomic_int watching;
static uint64_t most;

/* The two counts of a reading are not taken at the same moment: one kind of memory may be freed and
 * the other allocated in between. The smaller counts of two readings therefore hold for the time
 * between them. */
static void *watch(void *unused)
{
	struct resident last, now;

	CHECK(!resident_now(&last));
	while (atomic_load(&watching)) {
		CHECK(!resident_now(&now));
		const uint64_t anonymous = now.anonymous < last.anonymous ? now.anonymous :
									    last.anonymous;
		const uint64_t regions = now.regions < last.regions ? now.regions : last.regions;

		most = anonymous + regions > most ? anonymous + regions : most;
		last = now;
	}
	return unused;
}

static void stays_within(sluice_job *job, int rank, void *argument)
{
	const struct model_case *c = argument;
	static float first[COUNT];
	sluice_model *model = NULL;
	sluice_model_attr attr = ATTR(.count = COUNT, .recipe = c->recipe);
	sluice_model_stats stats = { .size = sizeof stats };
	pthread_t watcher;

	for (size_t i = 0; i < COUNT; i++) {
		first[i] = noise(31, 0, 0, i);
		params[i] = rank ? -1 : first[i];
		grad[i] = noise(31, 1, (uint64_t)rank, i);
	}
	CHECK(!sluice_barrier(job)); /* the barrier allocates memory at its first call */
	atomic_store(&watching, 1);
	const uint64_t before = resident_bytes();
	CHECK(!pthread_create(&watcher, NULL, watch, NULL));
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK(!memcmp(params, first, sizeof params));
	for (int step = 0; step < STEPS; step++) {
		CHECK_STEP(model, grad, params);
	}
	const uint64_t after = resident_bytes() - before;
	CHECK_OK(sluice_checkpoint(model, scratch));
	sluice_model_close(&model);
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK_OK(sluice_restore(model, scratch, params, NULL));
	atomic_store(&watching, 0);
	CHECK(!pthread_join(watcher, NULL));
	CHECK_OK(sluice_stats(model, &stats));
	if (most - before > stats.memory_bytes + SMALL ||
	    (double)after < c->least * (double)stats.memory_bytes)
		printf("%s: announced %llu, resident %llu, at most %llu\n", c->recipe,
		       (unsigned long long)stats.memory_bytes, (unsigned long long)after,
		       (unsigned long long)(most - before));
	CHECK(most - before <= stats.memory_bytes + SMALL);
	CHECK((double)after >= c->least * (double)stats.memory_bytes);
	check_same(job, params, sizeof params);
	sluice_model_close(&model);
}

TEST(memory__announced__is_never_exceeded_and_nearly_used)
{
	if (slowness() > 1) /* the shadow memory of sanitizers is also resident */
		skip();
	/* Freed memory of any size must return to the system, of which the allocator would
	 * otherwise keep a part. */
	assert_true(mallopt(M_MMAP_THRESHOLD, 64 << 10));
	setenv("SLUICE_THREADS", "1", 1); /* the buffers of threads are not announced */
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct model_case one = cases[i];

		assert_int_equal(scratch_make(scratch), 0);
		run_in_job(2, stays_within, &one);
		scratch_remove(scratch);
	}
}

/* ---- the largest publication ----------------------------------------------- */

enum { SHORT = 30000, SHORT_SHARDS = 10, PUSHERS = 3, FULL_SLOT = 4 * SHORT / SHORT_SHARDS / 100 };

/* Every rank selects different coordinates of one shard, more than fit into its slot there. */
static void fill_one_shard(sluice_job *job, int rank, void *argument)
{
	uint32_t moved = 0;

	for (size_t i = 0; i < SHORT; i++) {
		params[i] = 0;
		grad[i] = i < SHORT / SHORT_SHARDS && i % PUSHERS == (size_t)rank ?
				  2 + noise(5, 0, 0, i) :
				  0;
	}
	sluice_model *model = OPEN(job, params, .count = SHORT, .recipe = argument,
				   .shards = SHORT_SHARDS, .lr = 1);
	for (uint32_t step = 1; step <= 3; step++) {
		CHECK_STEP(model, grad, params);
		if (step == 1)
			for (size_t i = 0; i < SHORT; i++)
				moved += params[i] != 0;
	}
	CHECK(moved == PUSHERS * FULL_SLOT);
	check_same(job, params, SHORT * sizeof *params);
	sluice_model_close(&model);
}

TEST(publish__every_slot_full_and_no_coordinate_twice__fits_in_what_is_announced)
{
	static char sums[] = "up=topk(0.01) down=all",
		    mean[] = "up=topk(0.01) down=all update=sgd memory=residual(inside)";

	run_in_job(PUSHERS, fill_one_shard, sums);
	run_in_job(PUSHERS, fill_one_shard, mean);
}

/* ---- snapshots in parts ---------------------------------------------------- */

static const uint32_t spans[] = { 1, SNAPSHOT_PART - 1, SNAPSHOT_PART, SNAPSHOT_PART + 1,
				  3 * SNAPSHOT_PART + 7 };
enum { SPANS = sizeof spans / sizeof *spans };
static const struct message like = { .kind = MESSAGE_SNAPSHOT,
				     .values = { VALUE_F32, 0, 0, 0 },
				     .rank = 2,
				     .epoch = 1,
				     .shard = 3,
				     .seq = 4,
				     .step = 4,
				     .have_version = 4 };
static const struct message_expect expected = {
	.kind = MESSAGE_SNAPSHOT, .rank = 2, .epoch = 1, .shard = 3, .seq = 4, .step = 4
};

TEST(snapshot__any_span__comes_back_part_by_part)
{
	for (int s = 0; s < SPANS; s++) {
		uint32_t span = spans[s];
		size_t bytes = snapshot_bytes(span), at = 0;
		float *sent = malloc(span * sizeof *sent), *got = calloc(span, sizeof *got);
		uint8_t *snapshot = malloc(bytes), *buffer = malloc(snapshot_part_bytes(span));
		struct message_expect want = expected;
		const char *why;

		assert_true(sent && got && snapshot && buffer);
		for (uint32_t i = 0; i < span; i++)
			sent[i] = noise(32, 0, 0, i);
		snapshot_write(&like, sent, span, snapshot);
		for (uint32_t i = 0; i < snapshot_parts(span); i++) {
			struct snapshot_part part = snapshot_part(span, i);

			assert_int_equal(part.offset, at);
			assert_true(part.bytes <= snapshot_part_bytes(span));
			at += part.bytes;
			memcpy(buffer, snapshot + part.offset, part.bytes);
			assert_int_equal(snapshot_take(&want, buffer, i, got, span, &why), 0);
		}
		assert_int_equal(at, bytes);
		assert_memory_equal(got, sent, span * sizeof *sent);
		free(sent);
		free(got);
		free(snapshot);
		free(buffer);
	}
}

TEST(snapshot__part_of_another_place_or_version__is_refused)
{
	const uint32_t span = 2 * SNAPSHOT_PART + 5;
	float *vector = calloc(span, sizeof *vector);
	uint8_t *snapshot = malloc(snapshot_bytes(span));
	struct message_expect want = expected, newer = expected, any = expected;
	const char *why = NULL;

	assert_true(vector && snapshot);
	newer.seq = 5;
	any.seq = MESSAGE_ANY;
	snapshot_write(&like, vector, span, snapshot);
	/* The part has the bytes of the second part, but another number. */
	assert_int_equal(snapshot_take(&want, snapshot, 1, vector, span, &why), SLUICE_EWIRE);
	assert_non_null(strstr(why, "part of the snapshot"));
	assert_int_equal(snapshot_take(&newer, snapshot, 0, vector, span, &why), SLUICE_EWIRE);
	assert_int_equal(snapshot_take(&any, snapshot, 0, vector, span, &why), 0);
	assert_int_equal(any.seq, expected.seq);
	assert_int_equal(snapshot_take(&want, snapshot, 2, vector, span, &why), SLUICE_EWIRE);
	snapshot[MESSAGE_HEADER_BYTES + 9] ^= 1;
	assert_int_equal(snapshot_take(&want, snapshot, 0, vector, span, &why), SLUICE_EWIRE);
	assert_non_null(strstr(why, "checksum"));
	free(vector);
	free(snapshot);
}
