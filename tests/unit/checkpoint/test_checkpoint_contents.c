/* SPDX-License-Identifier: BSD-3-Clause
 * Checkpoints with right checksums and impossible contents: each number is checked against the
 * recipe and the step before anything is stored. A real model, alone in its job. */
#include "base/error.h"
#include "checkpoint/checkpoint_folder.h"
#include "quiet.h"
#include "recipe/budgets.h"
#include "reseal.h"
#include "scratch.h"
#include "tools/step_of.h"
#include "sluice.h"
#include "worker/guard.h"
#include "cases.h"

#define INNOVATION  "up=all down=all signal=innovation"
#define LAZY        INNOVATION " when=lazy(3,0.5)"
#define GLOBAL_UP   "up=global(0.2,2) down=all memory=residual"
#define GLOBAL_DOWN "up=topk(0.2) down=global(0.2,2) memory=residual"
#define EVERY       "up=all down=all when=every(2)"
#define QUORUM      "up=all down=all signal=drift memory=none when=every(2) quorum=1"
#define RAISE       "up=topk(0.1) down=topk(0.1) guard=raise"

enum { COUNT = 40, STEPS = 4 };
enum { LR_IS_HALF = 0x3f000000 };
#define REFRESH   (1ull << 32)
#define HALF      0x3fe0000000000000u /* of double */
#define NEGATIVE  0xbfe0000000000000u
#define INFINITE  0x7ff0000000000000u
#define NO_NUMBER 0x7ff8000000000000u

/* A case: this number in the first section of that kind is set to this value. */
struct content {
	const char *recipe;
	enum section_kind kind;
	uint32_t number;
	uint64_t value;
	const char *why; /* NULL: the file is accepted */
};

static const struct content contents[] = {
	{ INNOVATION, SECTION_WORKER, 0, REFRESH | LR_IS_HALF, NULL },
	{ "up=all down=all", SECTION_WORKER, 0, LR_IS_HALF, NULL },
	{ "up=all down=all", SECTION_WORKER, 0, REFRESH | LR_IS_HALF, "recipe has none" },
	{ "up=topk(0.2)", SECTION_WORKER, 0, REFRESH | LR_IS_HALF, "recipe has none" },
	{ INNOVATION, SECTION_WORKER, 0, 2 * REFRESH | LR_IS_HALF, "unknown bit" },
	{ "up=all down=all", SECTION_WORKER, 0, 1ull << 63 | LR_IS_HALF, "unknown bit" },
	{ "up=all down=all", SECTION_WORKER, 0, 0, NULL },
	{ INNOVATION, SECTION_WORKER, 0, 0, "learning rate is 0" },
	{ "up=all down=all", SECTION_WORKER, 0, 0x7fc00000, "learning rate" },
	{ "up=all down=all", SECTION_WORKER, 0, 0x7f800000, "learning rate" },
	{ "up=all down=all", SECTION_WORKER, 0, 0x80000000 | LR_IS_HALF, "learning rate" },
	{ "up=all down=all", SECTION_SHARD, 0, STEPS + 1, "version" },
	{ "up=all down=all", SECTION_SHARD, 0, UINT64_MAX, "version" },
	{ QUORUM, SECTION_SHARD, 0, STEPS / 2, NULL },
	{ QUORUM, SECTION_SHARD, 0, STEPS / 2 + 5, NULL },
	{ QUORUM, SECTION_SHARD, 0, STEPS / 2 - 1, "version" },
	{ QUORUM, SECTION_SHARD, 0, STEPS_MOST + 1, "version" },
	{ QUORUM, SECTION_SHARD, 0, UINT64_MAX, "version" },
	{ LAZY, SECTION_WORKER_LAZY, 0, STEPS + 1, "than there were steps" },
	{ LAZY, SECTION_WORKER_LAZY, 1, STEPS + 1, "than there were steps" },
	{ LAZY, SECTION_WORKER_LAZY, 2, 2, "neither 0 nor 1" },
	{ LAZY, SECTION_WORKER_LAZY, 3, HALF, NULL },
	{ LAZY, SECTION_WORKER_LAZY, 3, NO_NUMBER, "squared norm" },
	{ LAZY, SECTION_WORKER_LAZY, 3, NEGATIVE, "squared norm" },
	{ LAZY, SECTION_WORKER_LAZY, 6, HALF, NULL },
	{ LAZY, SECTION_WORKER_LAZY, 6, INFINITE, "squared norm" },
	{ LAZY, SECTION_WORKER_LAZY, 7, HALF, "that was not made" },
	{ LAZY, SECTION_WORKER_LAZY, 103, NO_NUMBER, "squared norm" },
	{ GLOBAL_UP, SECTION_WORKER_CENSUS, 0, HALF, NULL },
	{ GLOBAL_UP, SECTION_WORKER_CENSUS, 0, NEGATIVE, "share" },
	{ GLOBAL_UP, SECTION_WORKER_CENSUS, 0, NO_NUMBER, "share" },
	{ GLOBAL_UP, SECTION_WORKER_CENSUS, 0, INFINITE, "share" },
	{ GLOBAL_UP, SECTION_WORKER_CENSUS, 1, (uint64_t)LR_IS_HALF << 32, NULL },
	{ GLOBAL_UP, SECTION_WORKER_CENSUS, 1, 0x7fc00000ull << 32, "threshold" },
	{ GLOBAL_UP, SECTION_WORKER_CENSUS, 1, LR_IS_HALF, "threshold for a direction" },
	{ GLOBAL_UP, SECTION_SHARD_CENSUS, 0, HALF, "share" },
	{ GLOBAL_UP, SECTION_SHARD_CENSUS, 1, 1, "histogram" },
	{ GLOBAL_DOWN, SECTION_WORKER_CENSUS, 0, HALF, "share" },
	{ GLOBAL_DOWN, SECTION_WORKER_CENSUS, 1, (uint64_t)LR_IS_HALF << 32,
	  "threshold for a direction" },
	{ GLOBAL_DOWN, SECTION_SHARD_CENSUS, 0, HALF, NULL },
	{ GLOBAL_DOWN, SECTION_SHARD_CENSUS, 0, NO_NUMBER, "share" },
	{ GLOBAL_DOWN, SECTION_SHARD_CENSUS, 1, 1, "histogram" },
	{ GLOBAL_DOWN, SECTION_SHARD_CENSUS, 2, 1ull << 32, "histogram" },
	/* A density of 0.1 can double 4 times. */
	{ RAISE, SECTION_WORKER_GUARD, 0, 0x404, NULL },
	{ RAISE, SECTION_WORKER_GUARD, 0, 0x403, NULL },
	{ RAISE, SECTION_WORKER_GUARD, 0, 0x505, "more doublings of the densities" },
	{ RAISE, SECTION_WORKER_GUARD, 0, 0x402, "more doublings of the densities" },
	{ RAISE, SECTION_WORKER_GUARD, 0, 0x304, "more doublings of the densities" },
	{ RAISE, SECTION_WORKER_GUARD, 0, 1ull << 40 | 0x404, "more doublings of the densities" },
	{ RAISE, SECTION_WORKER_GUARD, 3 + 2, STEPS + 2, "counts are too large" },
	{ RAISE, SECTION_WORKER_GUARD, 3 + 3, GROWTH_WINDOWS + 2, "counts are too large" },
	{ RAISE, SECTION_WORKER_GUARD, 3 + 4, STEPS + 1, "counts are too large" },
	{ RAISE, SECTION_WORKER_GUARD, 3 + 5, STEPS + 1, "counts are too large" },
	{ RAISE, SECTION_WORKER_GUARD, 3 + 6, 2, "counts are too large" },
	{ RAISE, SECTION_WORKER_GUARD, 3 + 7, 9, "counts are too large" },
	{ RAISE, SECTION_WORKER_GUARD, 3 + 8, STEPS + 1, "counts are too large" },
	{ RAISE, SECTION_WORKER_GUARD, 3 + 9, HALF, NULL },
	{ RAISE, SECTION_WORKER_GUARD, 3 + 9, NEGATIVE, "norm of the guard" },
	{ RAISE, SECTION_WORKER_GUARD, 3 + 10, 0x4000000000000000u, "share of changed signs" },
	{ RAISE, SECTION_WORKER_GUARD, 3 + 13, NO_NUMBER, "norm of the guard" },
	{ RAISE, SECTION_WORKER_GUARD, 3 + 14, INFINITE, "norm of the guard" },
	{ RAISE, SECTION_WORKER_GUARD, GUARD_NUMBERS - 1, 0xff, NULL },
	{ RAISE, SECTION_WORKER_GUARD, GUARD_NUMBERS - 1, 2, "sign of the guard" },
	{ RAISE, SECTION_WORKER_GUARD, GUARD_NUMBERS - 1, 1ull << 63, "sign of the guard" },
	{ RAISE, SECTION_SHARD_GUARD, 0, 4, NULL },
	{ RAISE, SECTION_SHARD_GUARD, 0, 5, "more doublings of the density" },
	{ "auto(0.1)", SECTION_WORKER_BITS, 0, AUTO_CODES *AUTO_CODES - 1, NULL },
	{ "auto(0.1)", SECTION_WORKER_BITS, 0, AUTO_CODES *AUTO_CODES,
	  "a choice that does not exist" },
	{ "auto(0.1)", SECTION_SHARD_BITS, 0, AUTO_CHOICES *CODE_TWOMEANS + 1, NULL },
	{ "auto(0.1)", SECTION_SHARD_BITS, 0, AUTO_CHOICES - 1, "a choice that does not exist" },
	{ "auto(0.1)", SECTION_SHARD_BITS, 0, 1ull << 40, "a choice that does not exist" },
	{ "auto(0.1)", SECTION_SHARD_BITS, 0, AUTO_CHOICES *AUTO_CODES,
	  "a choice that does not exist" },
};

struct test {
	const struct content *content;
	uint64_t step; /* step of the checkpoint instead of STEPS; the version stays the same */
	const char *why;
	char dir[SCRATCH_PATH];
	char verdict[1024]; /* description of any other failure */
};

static int step(sluice_model *model, float *x)
{
	float grad[COUNT];

	for (int i = 0; i < COUNT; i++)
		grad[i] = x[i] - (float)i;
	int rc = sluice_push(model, grad);
	return rc ? rc : sluice_pull(model, x);
}

/* Makes a checkpoint of STEPS steps. */
static int make(sluice_job *job, const sluice_model_attr *attr, const char *dir)
{
	float x[COUNT] = { 0 };
	sluice_model *model = NULL;
	int rc = sluice_model_open(job, attr, x, &model);

	for (int i = 0; i < STEPS && !rc; i++)
		rc = step(model, x);
	if (!rc)
		rc = sluice_checkpoint(model, dir);
	sluice_model_close(&model);
	return rc;
}

/* Changes the value in the file. Checksums and LATEST are corrected, so only the meaning is
 * wrong. */
static int spoil(const struct test *test)
{
	const struct content *content = test->content;
	struct checkpoint_manifest manifest;
	struct checkpoint_place place = { 0 };
	char path[DURABLE_PATH_BYTES], folder[DURABLE_PATH_BYTES], *slash;
	uint8_t bytes[SCRATCH_FILE];

	if (checkpoint_manifest_read(test->dir, &manifest))
		return 1;
	snprintf(place.dir, sizeof place.dir, "%s", test->dir);
	place.step = manifest.step;
	place.generation = manifest.generation;
	checkpoint_path(&place, 0, path);
	long n = scratch_read(path, bytes);
	size_t at = n > 0 ? section_payload(bytes, (size_t)n, content->kind) : 0;
	if (!at)
		return 1;
	put_le64(bytes + at + 8 * content->number, content->value);
	if (test->step) {
		put_le64(bytes + 32, test->step);
		snprintf(folder, sizeof folder, "%s", path);
		place.step = manifest.step = test->step;
		checkpoint_path(&place, 0, path);
		*strrchr(folder, '/') = *(slash = strrchr(path, '/')) = '\0';
		if (rename(folder, path))
			return 1;
		*slash = '/';
	}
	manifest.sums[0].crc = reseal(bytes, (size_t)n);
	int rc = scratch_write(path, bytes, (size_t)n) ||
		 checkpoint_manifest_write(test->dir, &manifest, NULL, NULL);
	free(manifest.sums);
	return rc;
}

static int live(sluice_job *job, void *context)
{
	struct test *test = context;
	const char *why = test->why;
	float x[COUNT] = { 0 }, before[COUNT] = { 0 };
	sluice_model_attr attr = {
		.size = sizeof attr, .count = COUNT, .lr = 0.25f, .recipe = test->content->recipe
	};
	sluice_model *model = NULL;
	int rc = make(job, &attr, test->dir);

	if (!rc)
		rc = spoil(test);
	if (!rc)
		rc = sluice_model_open(job, &attr, x, &model);
	if (rc)
		return fail_quietly(rc, "no checkpoint was made: %s", sluice_last_error());
	rc = sluice_restore(model, test->dir, x, NULL);
	if (!why && rc)
		snprintf(test->verdict, sizeof test->verdict, "refused: %s", sluice_last_error());
	else if (why && (rc != SLUICE_EWIRE || !strstr(sluice_last_error(), why)))
		snprintf(test->verdict, sizeof test->verdict, "%d where \"%s\" is due: %s", rc, why,
			 rc ? sluice_last_error() : "accepted");
	else if (why && (step_of(model).steps || memcmp(x, before, sizeof x)))
		snprintf(test->verdict, sizeof test->verdict, "refused, but something was stored");
	else if (step(model, x))
		snprintf(test->verdict, sizeof test->verdict, "no step after it: %s",
			 sluice_last_error());
	sluice_model_close(&model);
	return 0;
}

static void run(struct test *test)
{
	const struct content *c = test->content;

	assert_int_equal(scratch_make(test->dir), 0);
	int rc = sluice_simulate(NULL, 1, live, test);
	scratch_remove(test->dir);
	if (rc || *test->verdict)
		fail_msg("%s, section %d, number %u = %llx, step %llu: %s", c->recipe, c->kind,
			 c->number, (unsigned long long)c->value, (unsigned long long)test->step,
			 rc ? sluice_last_error() : test->verdict);
}

TEST(restore__a_number_that_cannot_be__refused_and_nothing_stored)
{
	for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
		struct test test = { .content = &contents[i], .why = contents[i].why };

		run(&test);
	}
}

/* The versions of the shards agree with the step, rounded down. */
TEST(restore__a_step_within_a_period__refused)
{
	static const struct content content = { EVERY, SECTION_SHARD, 0, STEPS / 2, NULL };
	struct test test = { .content = &content, .step = STEPS + 1, .why = "not a multiple of 2" };

	run(&test);
}

TEST(restore__more_steps_than_a_job_can_make__refused)
{
	static const struct content content = { "up=all down=all", SECTION_SHARD, 0, 1ull << 63,
						NULL };
	struct test test = { .content = &content, .step = 1ull << 63, .why = "any job can make" };

	run(&test);
}
