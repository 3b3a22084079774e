/* SPDX-License-Identifier: BSD-3-Clause
 * The guard against divergence by error feedback: the criterion on made-up steps, and jobs that
 * diverge or converge. The warning comes once, from one rank, before values overflow, and changes
 * no bit of the training. */
#include "base/error.h"
#include "model/growth.h"
#include "ranks.h"
#include "thinned.h"
#include "cases.h"
#include "random.h"
#include <math.h>
#include <string.h>

/* ---- the criterion ----------------------------------------------------------- */

enum { COORDINATES = 400, SENT = 4, DELAY = COORDINATES / SENT, LONG = 40 * DELAY };

struct course {
	double (*norm)(double delays); /* norm of the sent values */
	double (*lr)(double delays);
	int turns; /* how many of 10 values are sent again with the other sign */
	enum { QUIET, GROWS, CIRCLES } seen;
};

static double constant(double t)
{
	return 0.1;
}
static double geometric(double t)
{
	return pow(1.3, t);
}
static double threefold(double t)
{
	return pow(3.1, t < 4 ? floor(t) : 4);
}
static double explosive(double t)
{
	return pow(10, 10 * t);
}
static double filling(double t)
{
	return sqrt(t + 0.01);
}
static double adding(double t)
{
	return t + 0.01;
}
static double falling(double t)
{
	return pow(0.9, t);
}
static double noisy(double t)
{
	return 1 + 0.5 * sin(7 * t) + 0.02 * t;
}
static double stepped(double t)
{
	return t < 15 ? 1 : 10;
}
static double ramp(double t)
{
	return 0.01 * (t + 0.01);
}
static double cosine(double t)
{
	return 0.05 * (1 + cos(M_PI * t * DELAY / LONG));
}

/* Returns the step at which growth is detected, or 0. */
static uint64_t seen_at(const struct course *c)
{
	static struct growth g;
	struct growth_verdict v;

	growth_open(&g, COORDINATES, 0);
	for (uint64_t step = 1; step <= LONG; step++) {
		const double t = (double)(step - 1) / DELAY, size = c->norm(t) / 2;

		for (uint32_t i = 0; i < SENT; i++) {
			const uint32_t at = (uint32_t)((step - 1) % DELAY) * SENT + i;
			const uint64_t times = (step - 1) / DELAY;
			const int turned = (int)(at % 10) < c->turns && times % 2;
			const float value = (float)(turned ? -size : size);

			growth_add(&g, growth_see(&g, 0, &at, &value, 1));
		}
		if (growth_step(&g, step, c->lr(t), step % DELAY == 0, &v)) {
			assert_true(v.now > (c->seen == GROWS ? 3 : 0.9) * v.then);
			assert_int_equal(v.circles, v.now < 3 * v.then);
			assert_true(v.to == step && v.from < v.to);
			return step;
		}
	}
	return 0;
}

TEST(growth__of_any_course__is_seen_where_signs_turn_and_norms_do_not_fall)
{
	static const struct course courses[] = {
		{ geometric, constant, 10, GROWS },
		{ geometric, constant, 5, GROWS },
		{ geometric, constant, 1, QUIET }, /* leaving a saddle: the signs stay the same */
		{ geometric, constant, 0, QUIET },
		{ threefold, constant, 5, GROWS },
		{ threefold, constant, 1, QUIET },
		{ filling, constant, 5, QUIET },
		{ filling, constant, 8, QUIET },
		{ adding, constant, 8, QUIET },
		{ falling, constant, 10, QUIET },
		{ constant, constant, 10, QUIET }, /* not larger than at first */
		{ noisy, constant, 5, QUIET },
		{ stepped, constant, 8, QUIET },
		{ stepped, constant, 10, CIRCLES },
		{ adding, constant, 10, CIRCLES },
		{ ramp, ramp, 8, QUIET },
		{ cosine, cosine, 10, QUIET },
		{ constant, cosine, 10, QUIET },
	};

	for (size_t i = 0; i < sizeof(courses) / sizeof(*courses); i++)
		if ((courses[i].seen != QUIET) != (seen_at(&courses[i]) != 0))
			fail_msg("course %zu: %s", i, courses[i].seen ? "not seen" : "seen");
}

TEST(growth__within_the_first_delays__is_seen_before_floats_overflow)
{
	const struct course c = { explosive, constant, 10, GROWS };

	/* The signs change from the second delay on, where the norms are 1e10. */
	assert_in_range(seen_at(&c), DELAY, 2 * DELAY);
}

/* ---- checkpoints ------------------------------------------------------------------- */

/* Makes a step that sends four coordinates, some with another sign than before. In the second half
 * of the steps all signs change. */
static int send_step(struct growth *g, uint64_t step, struct growth_verdict *out)
{
	for (uint32_t i = 0; i < SENT; i++) {
		const uint32_t at = (uint32_t)(step % DELAY) * SENT + i;
		const uint64_t window = step / DELAY;
		const int some = (window * 3 + at) % 5 < 2, all = window % 2 == 1;
		const float sign = (step < LONG / 2 ? some : all) ? -1 : 1;
		const float value = sign * (float)pow(1.2, (double)step / DELAY);

		growth_add(g, growth_see(g, 0, &at, &value, 1));
	}
	return growth_step(g, step, 0.1, step % DELAY == 0, out);
}

static void check_equal(const struct growth *a, const struct growth *b)
{
	static uint64_t of_a[GROWTH_NUMBERS], of_b[GROWTH_NUMBERS];

	growth_save(a, of_a);
	growth_save(b, of_b);
	assert_memory_equal(of_a, of_b, sizeof(of_a));
}

/* One of two objects is saved and restored into new memory between any two steps. Some of the steps
 * follow a doubling after a step that had already sent values. */
TEST(growth__restored_between_any_two_steps__goes_on_as_the_one_that_was_not)
{
	static struct growth whole, resumed;
	static uint64_t numbers[GROWTH_NUMBERS];
	unsigned seen = 0;

	growth_open(&whole, COORDINATES, 1);
	growth_open(&resumed, COORDINATES, 1);
	for (uint64_t step = 1; step <= LONG; step++) {
		struct growth_verdict a, b;

		if (step % (7 * DELAY) == 0) {
			const uint32_t at = 1;
			const float value = 1e6f;

			growth_add(&whole, growth_see(&whole, 0, &at, &value, 1));
			growth_treated(&whole, step);
			growth_add(&resumed, growth_see(&resumed, 0, &at, &value, 1));
			growth_treated(&resumed, step);
		} else {
			const int of_whole = send_step(&whole, step, &a);

			assert_int_equal(of_whole, send_step(&resumed, step, &b));
			assert_true(!of_whole || (a.then == b.then && a.now == b.now));
			seen += (unsigned)of_whole;
		}
		growth_save(&resumed, numbers);
		assert_null(growth_judge(numbers, step));
		growth_open(&resumed, COORDINATES, 1);
		growth_restore(&resumed, numbers);
		check_equal(&whole, &resumed);
	}
	assert_true(seen > 0);
}

/* Lists whose samples have no, a few or many entries between them, and which begin anywhere. */
TEST(growth__lists_of_any_density__count_the_signs_of_their_entries_one_by_one)
{
	enum { MOST = 3000, LENGTH = 16 * GROWTH_SAMPLES };
	static struct growth whole, single, fresh;
	static uint64_t seen[GROWTH_NUMBERS], nothing[GROWTH_NUMBERS];
	static uint32_t index[MOST];
	static float value[MOST];
	const uint32_t strides[] = { 1, 3, 17, 61, 1024 };
	struct random r = { 4 };

	growth_open(&whole, LENGTH, 0);
	growth_open(&single, LENGTH, 0);
	growth_open(&fresh, LENGTH, 0);
	for (int list = 0; list < 60; list++) {
		const uint32_t stride =
			strides[(size_t)list % (sizeof(strides) / sizeof(*strides))];
		const uint32_t n = random_bits(&r) % (list < 30 ? 5 : MOST);
		const uint64_t first = random_bits(&r) % 100000;
		uint32_t at = random_bits(&r) % 3000;

		for (uint32_t i = 0; i < n; i++, at += 1 + random_bits(&r) % stride) {
			index[i] = at;
			value[i] = random_bits(&r) % 8 ? random_normal(&r) : 0;
			(void)growth_see(&single, first, index + i, value + i, 1);
		}
		(void)growth_see(&whole, first, index, value, n);
		check_equal(&whole, &single);
	}
	growth_save(&whole, seen);
	growth_save(&fresh, nothing);
	assert_memory_not_equal(seen, nothing, sizeof(seen));
}

/* ---- jobs ------------------------------------------------------------------------ */

enum { COUNT = 600, STEPS = 2000, WORKERS = 2 };

struct trial {
	const char *recipe, *without;
	float lr;
	int warns;
};

/* Minimises |x - t|^2 / 2, which is the same on all workers except for a little noise. */
static uint64_t descend(sluice_job *job, const char *recipe, float lr)
{
	static float params[COUNT], grad[COUNT];
	const uint64_t rank = (uint64_t)sluice_rank(job);

	memset(params, 0, sizeof(params));
	sluice_model *model = OPEN(job, params, .count = COUNT, .recipe = recipe, .lr = lr);
	for (uint64_t step = 1; step <= STEPS; step++) {
		for (uint64_t i = 0; i < COUNT; i++)
			grad[i] = params[i] - noise(1, 0, 0, i) + 0.1f * noise(2, step, rank, i);
		CHECK_STEP(model, grad, params);
	}
	const uint64_t digest = check_same(job, params, sizeof(params));
	sluice_model_close(&model);
	return digest;
}

static void watch(sluice_job *job, int rank, void *argument)
{
	const struct trial *trial = argument;

	check_of = trial->recipe;
	log_capture();
	const uint64_t without = descend(job, trial->without, trial->lr);
	CHECK(!log_saw("the training ", NULL, NULL, NULL));
	const uint64_t with = descend(job, trial->recipe, trial->lr);
	CHECK(log_saw("the training ", "learning rate", "density", "warmup=") ==
	      (trial->warns && rank == 0));
	CHECK(with == without);
}

TEST(guard__of_a_job__warns_on_rank_0_where_error_feedback_diverges)
{
#define SPARSE "up=topk(0.01) down=topk(0.05)"
#define UP     "up=topk(0.05) down=all signal=momentum(0.5)"
#define DOWN   "up=all down=topk(0.02) memory=residual(outside)"
	static const struct trial trials[] = {
		{ SPARSE, SPARSE " guard=none", 0.1f, 1 },
		{ SPARSE " guard=warn", SPARSE " guard=none", 0.002f, 0 },
		{ UP, UP " guard=none", 0.3f, 1 },
		{ UP, UP " guard=none", 0.005f, 0 },
		{ DOWN, DOWN " guard=none", 0.2f, 1 },
		{ DOWN, DOWN " guard=none", 0.005f, 0 },
		{ "scalecom", "scalecom guard=none", 0.1f, 1 },
		{ "up=all down=all", "up=all down=all guard=none", 0.1f, 0 },
	};

	for (size_t i = 0; i < sizeof(trials) / sizeof(*trials); i++)
		if (!thinned(i, 4))
			run_in_job(WORKERS, watch, (void *)(uintptr_t)&trials[i]);
}
