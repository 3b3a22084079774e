/* SPDX-License-Identifier: BSD-3-Clause
 * The threads of a rank: how many there are, that models which select with them at the same time do
 * not disturb each other, and that a job has the same bits with any number of them and with any
 * kernels. */
#include "compress/kernels.h"
#include "compress/select.h"
#include "base/team.h"
#include "job/threads.h"
#include "ranks.h"
#include "cases.h"
#include "random.h"
#include "thinned.h"
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(threads__own_processors__as_many_but_four_at_most)
{
	assert_int_equal(threads_of_rank(1, 1, 1), 1);
	assert_int_equal(threads_of_rank(3, 3, 1), 3);
	assert_int_equal(threads_of_rank(64, 64, 1), 4);
	assert_int_equal(threads_of_rank(8, 64, 8), 4); /* srun gives each rank its own 8 */
	assert_int_equal(threads_of_rank(2, 16, 8), 2);
}

TEST(threads__shared_processors__the_rank_takes_its_part)
{
	assert_int_equal(threads_of_rank(2, 2, 2), 1);
	assert_int_equal(threads_of_rank(2, 2, 4), 1);
	assert_int_equal(threads_of_rank(64, 64, 32), 2);
	assert_int_equal(threads_of_rank(16, 16, 2), 4);
}

/* ---- a job ------------------------------------------------------------------- */

enum { RANKS = 2, COUNT = 2 * SELECT_SHARED_LEAST + 4321, STEPS = 3 };

static const struct {
	const char *threads, *kernels;
} numbers[] = { { "1", "auto" }, { "2", "portable" }, { "3", "avx2" }, { "8", "auto" } };
enum { NUMBERS = sizeof(numbers) / sizeof(*numbers) };

static int usable(const char *kernels)
{
	return strcmp(kernels, "avx2") || kernels_avx2();
}

/* The parameters of rank 0 after each step of each job. */
static float (*seen)[STEPS][COUNT];

struct way {
	size_t number;
	const char *recipe;
};

static int count_threads_of_process(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	int n = -1;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Threads: %d", &n) == 1)
			break;
	if (f)
		fclose(f);
	return n;
}

static int train(int rank, void *argument)
{
	const struct way *way = argument;
	float *params = calloc(COUNT, sizeof(*params)), *grad = calloc(COUNT, sizeof(*grad));

	CHECK(params && grad);
	setenv("SLUICE_THREADS", numbers[way->number].threads, 1);
	setenv("SLUICE_KERNELS", numbers[way->number].kernels, 1);

	sluice_job *job = rank_join(&(sluice_job_attr){ .size = sizeof(sluice_job_attr) });
	const int before = count_threads_of_process();
	sluice_model *model = OPEN(job, params, .count = COUNT, .recipe = way->recipe, .lr = 0.1f);

	CHECK(count_threads_of_process() - before == atoi(numbers[way->number].threads) - 1);
	for (uint64_t step = 0; step < STEPS; step++) {
		for (uint64_t i = 0; i < COUNT; i++)
			grad[i] = 0.1f * params[i] + noise(41, step, (uint64_t)rank, i);
		CHECK_STEP(model, grad, params);
		if (rank == 0)
			memcpy(seen[way->number][step], params, sizeof(seen[0][0]));
	}
	sluice_model_close(&model);
	sluice_finalize(&job);
	free(params);
	free(grad);
	return 0;
}

static void expect_the_same_bits(const char *recipe)
{
	seen = mmap(NULL, NUMBERS * sizeof(*seen), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(seen != MAP_FAILED);
	/* One thread alone has no races. */
	const size_t first = UNDER_THREAD_SANITIZER ? NUMBERS - 1 : 0;

	for (size_t n = first; n < NUMBERS; n++) {
		struct way way = { n, recipe };

		if (thinned(n, NUMBERS - 1) || !usable(numbers[n].kernels))
			continue;
		run_ranks(RANKS, train, &way);
		assert_memory_equal(seen[n], seen[first], sizeof(*seen));
	}
	munmap(seen, NUMBERS * sizeof(*seen));
}

TEST(job__1_to_8_threads__the_same_bits)
{
	expect_the_same_bits("up=topk(0.01) down=topk(0.02)");
}

TEST(job__1_to_8_threads_and_dense_steps__the_same_bits)
{
	expect_the_same_bits("up=all down=all update=momentum(0.9) decay=0.001");
}

TEST(job__1_to_8_threads_and_all_coordinates_in_few_bits__the_same_bits)
{
	expect_the_same_bits(
		"up=all,uniform(4) down=all,bf16 memory=lowpass(0.5) clip=100 nonfinite=skip "
		"signal=gradient,noise(0.01)");
}

TEST(job__1_to_8_threads_and_adam_at_the_shards__the_same_bits)
{
	expect_the_same_bits("up=topk(0.06),twomeans down=topk(0.06),e3m0 "
			     "update=adamw(0.2,0.99,1e-8,0.01) reduce=senders");
}

TEST(job__1_to_8_threads_and_selection_by_blocks__the_same_bits)
{
	expect_the_same_bits("up=block-topk(64,4096) down=block-topk(64,4096)");
}

TEST(job__1_to_8_threads_and_selection_at_random__the_same_bits)
{
	expect_the_same_bits("up=random(0.01) down=variance(3) memory=none update=sgd");
}

TEST(job__1_to_8_threads_and_selection_by_level__the_same_bits)
{
	expect_the_same_bits("up=gaussiank(0.01) down=threshold(0.01)");
}

/* ---- values that are not finite ---------------------------------------------- */

enum { FIRST_BAD = COUNT / 2 + 77 };

static int push_spoilt(int rank, void *recipe)
{
	float *params = calloc(COUNT, sizeof(*params)), *grad = calloc(COUNT, sizeof(*grad));
	char place[32];

	CHECK(params && grad);
	setenv("SLUICE_THREADS", "3", 1);
	sluice_job *job = rank_join(&(sluice_job_attr){ .size = sizeof(sluice_job_attr) });
	sluice_model *model = OPEN(job, params, .count = COUNT, .recipe = recipe, .lr = 0.1f);

	grad[COUNT - 1] = -INFINITY;
	grad[FIRST_BAD] = NAN;
	snprintf(place, sizeof(place), "index %d", (int)FIRST_BAD);
	CHECK(sluice_push(model, grad) == SLUICE_ENUMERIC);
	CHECK(strstr(sluice_last_error(), place));
	sluice_model_close(&model);
	sluice_finalize(&job);
	free(params);
	free(grad);
	return 0;
}

TEST(job__three_threads_and_two_values_not_finite__names_the_first)
{
	run_ranks(1, push_spoilt, "up=all down=all");
	run_ranks(1, push_spoilt, "up=topk(0.01) down=topk(0.01) signal=momentum(0.9)");
	run_ranks(1, push_spoilt, "up=topk(0.01) down=topk(0.01) clip=1");
}

TEST(job__1_to_8_threads_and_many_selected__the_same_bits)
{
	expect_the_same_bits("up=topk(0.3),uniform(4) down=topk(0.3) signal=momentum(0.9)");
}

/* ---- two selectors, one team ------------------------------------------------- */

enum { LONG = 300000, KEPT = 3000, ROUNDS = 20 };

struct user {
	struct selector *selector;
	float x[LONG];
	uint32_t expected[KEPT];
	int differing;
};

static size_t pick(struct user *u, uint32_t *index)
{
	const struct span all = { 0, LONG, 0 };

	return select_topk(u->selector, u->x, &all, 1, KEPT, index);
}

static void *select_often(void *argument)
{
	struct user *u = argument;
	uint32_t index[KEPT];

	for (int i = 0; i < ROUNDS; i++)
		u->differing += pick(u, index) != KEPT ||
				memcmp(index, u->expected, sizeof(index)) != 0;
	return NULL;
}

TEST(team__two_threads_select_at_once__each_gets_what_it_gets_alone)
{
	struct team *team = NULL;
	struct user *user = calloc(2, sizeof(*user));
	pthread_t other;

	assert_non_null(user);
	assert_int_equal(team_open(3, selector_team_memory(), &team), 0);
	for (int u = 0; u < 2; u++) {
		struct random r = { (uint64_t)u + 1 };

		for (size_t i = 0; i < LONG; i++)
			user[u].x[i] = random_normal(&r);
		assert_int_equal(selector_open(LONG, &user[u].selector), 0);
		assert_int_equal(pick(&user[u], user[u].expected), KEPT);
		selector_share(user[u].selector, team);
	}
	assert_int_equal(pthread_create(&other, NULL, select_often, &user[1]), 0);
	select_often(&user[0]);
	pthread_join(other, NULL);
	assert_int_equal(user[0].differing, 0);
	assert_int_equal(user[1].differing, 0);
	for (int u = 0; u < 2; u++)
		selector_close(&user[u].selector);
	team_close(&team);
	free(user);
}

TEST(team__taken_by_another__the_selector_works_alone)
{
	struct team *team = NULL;
	struct user *user = calloc(1, sizeof(*user));
	uint32_t index[KEPT];

	assert_non_null(user);
	assert_int_equal(team_open(2, selector_team_memory(), &team), 0);
	for (size_t i = 0; i < LONG; i++)
		user->x[i] = (float)(i * 7919 % LONG);
	assert_int_equal(selector_open(LONG, &user->selector), 0);
	assert_int_equal(pick(user, user->expected), KEPT);
	selector_share(user->selector, team);
	assert_int_equal(team_take(team), 1);
	assert_int_equal(team_take(team), 0);
	assert_int_equal(pick(user, index), KEPT);
	assert_memory_equal(index, user->expected, sizeof(index));
	team_give_back(team);
	assert_int_equal(team_take(team), 1);
	selector_close(&user->selector);
	team_close(&team);
	free(user);
}

TEST(team__in_a_forked_child__the_selector_works_alone_and_can_be_closed)
{
	struct user *user = calloc(1, sizeof(*user));
	uint32_t index[KEPT];
	int status = -1;

	assert_non_null(user);
	assert_int_equal(selector_open_for(LONG, KEPT, 3, &user->selector), 0);
	for (size_t i = 0; i < LONG; i++)
		user->x[i] = (float)(i * 7919 % LONG);
	assert_int_equal(pick(user, user->expected), KEPT);

	const pid_t child = fork();

	if (child == 0) {
		int same = pick(user, index) == KEPT &&
			   !memcmp(index, user->expected, sizeof(index));

		selector_close(&user->selector);
		free(user);
		_exit(same ? 0 : 1);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(pick(user, index), KEPT);
	selector_close(&user->selector);
	free(user);
}
