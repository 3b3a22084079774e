/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_last_error(): the sentence of the last call that failed. What fails on the way of a call
 * that succeeds leaves no trace in it. */
#include "ranks.h"
#include "base/error.h"
#include "job/job.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { COUNT = 1200, IN_TIME = 30000 };

/* One after the other, the calls of a job that goes well, on a node whose device is not there. Each
 * leaves the sentence as it was. */
static int go_well(int rank, void *argument)
{
	static float params[COUNT], grad[COUNT] = { 1 };
	const char *said = argument;
	uint8_t bytes[4096] = { 0 };
	double value = rank;
	size_t n;
	sluice_job *job = NULL;
	sluice_region *region = NULL;
	sluice_model_stats stats = { .size = sizeof stats };
	sluice_job_attr attr = { .size = sizeof attr, .lost_after_ms = IN_TIME };
	sluice_model_attr shape = { .size = sizeof shape, .count = COUNT, .shards = 2 };
	setenv("SLUICE_DEVICE", "no_such_device", 1);
	log_capture();
	if (*said)
		CHECK(sluice_barrier(NULL) == SLUICE_EINVAL);
#define SAYS_THE_SAME(call)                                                                        \
	do {                                                                                       \
		CHECK_OK(call);                                                                    \
		CHECK(!strcmp(sluice_last_error(), said));                                         \
	} while (0)
	SAYS_THE_SAME(sluice_init(&attr, &job));
	SAYS_THE_SAME(sluice_barrier(job));
	SAYS_THE_SAME(sluice_sum(job, &value, 1));
	SAYS_THE_SAME(sluice_transports(job, NULL, 0, &n));
	SAYS_THE_SAME(sluice_region_open(job, sizeof bytes, &region));
	SAYS_THE_SAME(sluice_region_put(region, !rank, 0, bytes, sizeof bytes, 1));
	SAYS_THE_SAME(sluice_region_wait(region, !rank, 1));
	SAYS_THE_SAME(sluice_region_get(region, !rank, 0, bytes, sizeof bytes));
	SAYS_THE_SAME((sluice_region_close(&region), 0));
	sluice_model *model = NULL;
	SAYS_THE_SAME(sluice_model_open(job, &shape, params, &model));
	for (int step = 1; step <= 3; step++) {
		SAYS_THE_SAME(sluice_push(model, grad));
		SAYS_THE_SAME(sluice_pull(model, params));
	}
	SAYS_THE_SAME(sluice_stats(model, &stats));
	SAYS_THE_SAME((sluice_model_close(&model), 0));
	SAYS_THE_SAME((sluice_finalize(&job), 0));
	return 0;
}

static void last_error__calls_that_succeed__leave_it_as_it_was(void **state)
{
	(void)state;
	run_ranks(2, go_well, "");
	run_ranks(2, go_well, "sluice_barrier: the job is NULL");
}

static const struct job_client *whole_client;

static void advance_and_fail(sluice_job *job)
{
	whole_client->advance(job);
	job_fail(job, SLUICE_EDEVICE, job->rank, "a device failed while a call succeeded");
}

/* What else the call does before it looks succeeds; the next one has to say that the job is over.
 */
static int at_once(void *context)
{
	(void)context;
	return 1;
}

static void describe_nothing(void *context, char *text, size_t cap)
{
	(void)context;
	snprintf(text, cap, "nothing");
}

static int fail_meanwhile(int rank, void *argument)
{
	static struct job_client client;
	sluice_job *job = rank_join(NULL);
	(void)rank;
	(void)argument;
	log_capture();
	progress_take(job);
	whole_client = job->client;
	client = *whole_client;
	client.advance = advance_and_fail;
	job->client = &client;
	CHECK(!*sluice_last_error());
	CHECK_OK(progress_until(job, at_once, describe_nothing, NULL));
	CHECK(!*sluice_last_error());
	progress_release(job);
	CHECK(sluice_barrier(job) == SLUICE_EDEVICE);
	CHECK(error_says("a device failed while a call succeeded", NULL));
	sluice_finalize(&job);
	return 0;
}

static void last_error__job_fails_while_a_call_succeeds__the_next_call_says_it(void **state)
{
	(void)state;
	run_ranks(1, fail_meanwhile, NULL);
}

/* ---- scopes ---------------------------------------------------------------- */

static void scope__ends_well__takes_back_what_failed_in_it(void **state)
{
	struct error_scope outer, inner;
	(void)state;
	fail_quietly(SLUICE_EIO, "before");
	error_begin(&outer);
	fail_quietly(SLUICE_EIO, "first");
	fail_quietly(SLUICE_EIO, "second");
	error_begin(&inner);
	fail_quietly(SLUICE_EIO, "third");
	assert_int_equal(error_end(&inner, 0), 0);
	assert_string_equal(sluice_last_error(), "second");
	assert_int_equal(error_end(&outer, 0), 0);
	assert_string_equal(sluice_last_error(), "before");
}

static void scope__ends_with_an_error__keeps_its_sentence_and_the_one_around_takes_it_back(
	void **state)
{
	struct error_scope outer, inner;
	(void)state;
	fail_quietly(SLUICE_EIO, "before");
	error_begin(&outer);
	error_begin(&inner);
	fail_quietly(SLUICE_ENOMEM, "within");
	assert_int_equal(error_end(&inner, SLUICE_ENOMEM), SLUICE_ENOMEM);
	assert_string_equal(sluice_last_error(), "within");
	assert_int_equal(error_end(&outer, 0), 0);
	assert_string_equal(sluice_last_error(), "before");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(last_error__calls_that_succeed__leave_it_as_it_was),
		cmocka_unit_test(
			last_error__job_fails_while_a_call_succeeds__the_next_call_says_it),
		cmocka_unit_test(scope__ends_well__takes_back_what_failed_in_it),
		cmocka_unit_test(
			scope__ends_with_an_error__keeps_its_sentence_and_the_one_around_takes_it_back),
	};
	return cmocka_run_group_tests_name("last error", tests, NULL, NULL);
}
