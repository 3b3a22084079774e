/* SPDX-License-Identifier: BSD-3-Clause
 * A rank that cannot take part in the job tells the others, who need not wait for it until their
 * time-out. */
#include "ranks.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

/* As if the process held as many files as it may. */
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

static void init__one_rank_cannot_open_files__all_others_name_it_and_why(void **state)
{
	(void)state;
	for (int culprit = 0; culprit < 3; culprit++)
		run_ranks(3, join_where_one_fails, &culprit);
}

static int join_with_bad_terms(int rank, void *argument)
{
	sluice_job_attr attr = { .size = sizeof attr, .servers = rank == 2 ? 7 : 1 };
	sluice_job *job = NULL;
	(void)argument;
	log_capture();
	int rc = sluice_init(&attr, &job);
	CHECK(!job && rc == (rank == 2 ? SLUICE_EINVAL : SLUICE_EPEER));
	CHECK(error_says("servers=7", NULL));
	CHECK(rank == 2 || error_says("rank 2 (node n2) cannot take part", NULL));
	return 0;
}

static void init__one_rank_asks_for_impossible_servers__all_others_name_it(void **state)
{
	(void)state;
	run_ranks(3, join_with_bad_terms, NULL);
}

/* Without it, servers=1 would be overlooked in silence. */
static void init__attributes_without_their_size__EINVAL(void **state)
{
	sluice_job_attr attr = { .servers = 1 };
	sluice_job *job = NULL;
	(void)state;
	assert_int_equal(sluice_init(&attr, &job), SLUICE_EINVAL);
	assert_null(job);
	assert_non_null(strstr(sluice_last_error(), "attr.size = sizeof attr"));
	attr = (sluice_job_attr){ .size = sizeof attr, .warn_after_ms = -1 };
	assert_int_equal(sluice_init(&attr, &job), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "negative"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(init__one_rank_cannot_open_files__all_others_name_it_and_why),
		cmocka_unit_test(init__attributes_without_their_size__EINVAL),
		cmocka_unit_test(init__one_rank_asks_for_impossible_servers__all_others_name_it),
	};
	return cmocka_run_group_tests_name("joining", tests, NULL, NULL);
}
