/* SPDX-License-Identifier: BSD-3-Clause
 * A rank that cannot take part in the job tells the others, who need not wait for it until their
 * time-out. */
#include "ranks.h"
#include "base/log.h"
#include "job/peers.h"
#include "thinned.h"
#include "cases.h"
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Calls sluice_init() as if the process had no file descriptors left. */
static int init_without_a_free_file(sluice_job **job)
{
	struct rlimit limit, none_left;
	int next = dup(0);
	CHECK(next >= 0);
	close(next);
	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	none_left = limit;
	none_left.rlim_cur = (rlim_t)next;
	CHECK(!setrlimit(RLIMIT_NOFILE, &none_left));
	int rc = sluice_init(NULL, job);
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit)); /* leak checkers open files at the end */
	return rc;
}

static int join_where_one_fails(int rank, void *argument)
{
	sluice_job *job = NULL;
	int culprit = *(int *)argument;
	log_capture();
	int rc = rank == culprit ? init_without_a_free_file(&job) : sluice_init(NULL, &job);
	CHECK(!job);
	if (rank == culprit)
		return !(rc == SLUICE_ENOMEM && !error_says("cannot take part", NULL));
	char who[32];
	snprintf(who, sizeof who, "rank %d (node n%d)", culprit, culprit / 2 + 1);
	CHECK(rc == SLUICE_EPEER);
	CHECK(error_says(who, "cannot take part"));
	CHECK(error_says("Too many open files", NULL));
	return 0;
}

TEST(init__one_rank_cannot_open_files__all_others_name_it_and_why)
{
	for (int culprit = 0; culprit < 3; culprit++)
		run_ranks(3, join_where_one_fails, &culprit);
}

TEST_IN_RANKS(init__one_rank_asks_for_impossible_servers__all_others_name_it, 3)
{
	sluice_job_attr attr = { .size = sizeof attr, .servers = rank == 2 ? 7 : 1 };
	sluice_job *job = NULL;
	log_capture();
	int rc = sluice_init(&attr, &job);
	CHECK(!job && rc == (rank == 2 ? SLUICE_EINVAL : SLUICE_EPEER));
	CHECK(error_says("servers=7", NULL));
	CHECK(rank == 2 || error_says("rank 2 (node n2) cannot take part", NULL));
	return 0;
}

enum { COUNT = 200, STEPS = 5 };

static float gradient_of(int job, int rank, int step, int i)
{
	return noise((uint64_t)job, (uint64_t)step, (uint64_t)rank, (uint64_t)i);
}

/* Makes one step of each job's model in turn. */
static void steps_of(sluice_model *model[2], float params[2][COUNT], int rank, int n)
{
	float grad[COUNT];

	for (int step = 0; step < STEPS; step++)
		for (int j = 0; j < n; j++) {
			for (int i = 0; i < COUNT; i++)
				grad[i] = gradient_of(j, rank, step, i);
			CHECK_STEP(model[j], grad, params[j]);
		}
}

TEST_IN_RANKS(init__while_a_job_is_open__a_second_job_of_the_same_ranks, 3)
{
	static float params[2][COUNT];
	sluice_model_attr attr = ATTR(.count = COUNT, .lr = 1, .recipe = "up=all down=all");
	sluice_job *job[2];
	sluice_model *model[2];
	double sum[2];

	for (int j = 0; j < 2; j++)
		job[j] = rank_join(NULL);
	CHECK(job[0] != job[1] && sluice_rank(job[0]) == rank && sluice_rank(job[1]) == rank);
	for (int j = 0; j < 2; j++)
		CHECK_OK(sluice_model_open(job[j], &attr, params[j], &model[j]));
	steps_of(model, params, rank, 2);
	for (int j = 0; j < 2; j++) {
		float want = 0;

		check_same(job[j], params[j], sizeof(params[j]));
		for (int step = 0; step < STEPS; step++)
			want -= (gradient_of(j, 0, step, 7) + gradient_of(j, 1, step, 7) +
				 gradient_of(j, 2, step, 7)) *
				(1.0f / 3);
		CHECK(params[j][7] == want);
		sum[j] = rank + 10 * j;
		CHECK_OK(sluice_sum(job[j], &sum[j], 1));
		CHECK(sum[j] == 3 + 30 * j);
	}
	/* One job continues after the other has ended. */
	sluice_model_close(&model[1]);
	sluice_finalize(&job[1]);
	steps_of(model, params, rank, 1);
	check_same(job[0], params[0], sizeof(params[0]));
	sluice_model_close(&model[0]);
	sluice_finalize(&job[0]);
	return 0;
}

static int join_again(sluice_job *job, void *context)
{
	sluice_job *second = NULL;

	CHECK(sluice_init(NULL, &second) == SLUICE_EINVAL && !second);
	CHECK(error_says("already has a job", NULL));
	return sluice_barrier(job);
}

TEST(init__in_a_simulated_rank__EINVAL_and_its_job_goes_on)
{
	assert_int_equal(sluice_simulate(NULL, 3, join_again, NULL), 0);
}

/* Otherwise servers=1 would be ignored silently. */
TEST(init__attributes_without_their_size__EINVAL)
{
	sluice_job_attr attr = { .servers = 1 };
	sluice_job *job = NULL;
	assert_int_equal(sluice_init(&attr, &job), SLUICE_EINVAL);
	assert_null(job);
	assert_non_null(strstr(sluice_last_error(), "size of sluice_job_attr is set to 0"));
	attr = (sluice_job_attr){ .size = sizeof attr, .warn_after_ms = -1 };
	assert_int_equal(sluice_init(&attr, &job), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "negative"));
}

/* ---- equal messages of many ranks ----------------------------------------------- */

/* The lines about settings, and the last of them. Other warnings depend on the machine. */
static int lines_of_settings;
static char last_line[1024], *times_seen; /* times_seen[i]: of SLUICE_UNHEARD_OF_i, or NULL */

static void note_line(int level, const char *line, void *context)
{
	const char *number = strstr(line, "SLUICE_UNHEARD_OF_");

	if (!strstr(line, "SLUICE_"))
		return;
	if (times_seen && number)
		times_seen[atoi(number + strlen("SLUICE_UNHEARD_OF_"))]++;
	lines_of_settings++;
	snprintf(last_line, sizeof(last_line), "%s", line);
}

static int leave_at_once(sluice_job *job, void *context)
{
	return 0;
}

static int simulate_with(const char *variable, const char *value, int ranks)
{
	lines_of_settings = 0;
	sluice_set_log(note_line, NULL);
	assert_int_equal(setenv(variable, value, 1), 0);
	const int rc = sluice_simulate(NULL, ranks, leave_at_once, NULL);
	assert_int_equal(unsetenv(variable), 0);
	sluice_set_log(NULL, NULL);
	return rc;
}

TEST(init__of_1000_ranks_with_a_wrong_setting__is_one_line)
{
	const int few = under_valgrind() || UNDER_THREAD_SANITIZER; /* which limit threads */

	assert_int_equal(simulate_with("SLUICE_LOST_AFTER", "soon", few ? 40 : 1000),
			 SLUICE_EINVAL);
	assert_int_equal(lines_of_settings, 1);
	assert_non_null(strstr(last_line, "environment variable SLUICE_LOST_AFTER=\"soon\""));
	assert_non_null(
		strstr(last_line, few ? " (on 40 ranks: 0-39)" : " (on 1000 ranks: 0-999)"));
	assert_non_null(strstr(sluice_last_error(), "SLUICE_LOST_AFTER"));
}

TEST(init__of_40_ranks_with_an_unknown_variable__is_one_line)
{
	assert_int_equal(simulate_with("SLUICE_LOST_AFTR", "5s", 40), 0);
	assert_int_equal(lines_of_settings, 1);
	assert_non_null(strstr(last_line, "SLUICE_LOST_AFTR is unknown"));
	assert_non_null(strstr(last_line, " (on 40 ranks: 0-39)"));
}

enum { UNHEARD_OF = 40 };

static void expect_each_once(int variables)
{
	char name[32], seen[UNHEARD_OF] = { 0 };

	for (int i = 0; i < variables; i++) {
		snprintf(name, sizeof(name), "SLUICE_UNHEARD_OF_%02d", i);
		assert_int_equal(setenv(name, "1", 1), 0);
	}
	times_seen = seen;
	assert_int_equal(simulate_with("SLUICE_LOST_AFTER", "5s", 1), 0);
	times_seen = NULL;
	for (int i = 0; i < variables; i++) {
		snprintf(name, sizeof(name), "SLUICE_UNHEARD_OF_%02d", i);
		assert_int_equal(unsetenv(name), 0);
		assert_int_equal(seen[i], 1);
	}
}

/* The first number has more bytes than a finding, the second has more than a rank gathers. */
TEST(init__with_many_unknown_variables__logs_each_once)
{
	expect_each_once(12);
	expect_each_once(UNHEARD_OF);
}

TEST_IN_RANKS(init__wrong_settings_of_two_ranks__rank_0_names_each_once, 4)
{
	sluice_job *job = NULL;

	if (rank == 1 || rank == 2)
		setenv("SLUICE_WARN_AFTER", rank == 1 ? "soon" : "late", 1);
	log_capture();
	const int rc = sluice_init(NULL, &job);
	CHECK(!job && rc == (rank == 1 || rank == 2 ? SLUICE_EINVAL : SLUICE_EPEER));
	CHECK(error_says("SLUICE_WARN_AFTER", NULL));
	CHECK(log_saw("rank 1 (node n1) cannot take part", "\"soon\"", NULL, NULL) == !rank);
	CHECK(log_saw("rank 2 (node n2) cannot take part", "\"late\"", NULL, NULL) == !rank);
	CHECK(!rank || !log_saw("SLUICE_WARN_AFTER", NULL, NULL, NULL));
	return 0;
}

TEST(reports__more_than_ten_in_a_minute__are_counted)
{
	struct report_limit limit = { 0 };
	const uint64_t second = 1000000000;
	unsigned suppressed;

	for (unsigned i = 0; i < 14; i++) {
		assert_int_equal(reports_pass(&limit, (1 + i) * second, &suppressed), i < 10);
		assert_int_equal(suppressed, 0);
	}
	assert_int_equal(reports_pass(&limit, 61 * second, &suppressed), 1);
	assert_int_equal(suppressed, 4);
	assert_int_equal(reports_pass(&limit, 62 * second, &suppressed), 1);
	assert_int_equal(suppressed, 0);
}
