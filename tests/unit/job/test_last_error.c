/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_last_error(): the message of the last failed call. Failures inside a successful call leave
 * no trace in it. Also tests which rank logs an error that several ranks have found. */
#include "ranks.h"
#include "base/bytes.h"
#include "base/error.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "cases.h"
#include <math.h>
#include <string.h>

enum { COUNT = 1200, IN_TIME = 30000 };

/* Makes successful calls of a job on a node without the device. None of them may change the last
 * error. */
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
	sluice_model_attr shape = ATTR(.count = COUNT, .shards = 2);
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
	SAYS_THE_SAME(sluice_region_get(region, !rank, 0, bytes, sizeof bytes, 0));
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

TEST(last_error__calls_that_succeed__leave_it_as_it_was)
{
	run_ranks(2, go_well, "");
	run_ranks(2, go_well, "sluice_barrier: the job is NULL");
}

static const struct job_client *whole_client;

static void advance_and_fail(sluice_job *job)
{
	whole_client->advance(job);
	job_fail(job, SLUICE_EDEVICE, job->rank, "a device failed while a call succeeded");
}

/* The parts of the call before the wait succeed. The next call must report that the job has
 * ended. */
static int at_once(void *context)
{
	return 1;
}

static void describe_nothing(void *context, char *text, size_t cap)
{
	snprintf(text, cap, "nothing");
}

TEST_IN_RANKS(last_error__job_fails_while_a_call_succeeds__the_next_call_says_it, 1)
{
	static struct job_client client;
	sluice_job *job = rank_join(NULL);
	log_capture();
	progress_take(job);
	whole_client = clients_handler(&job->clients);
	client = *whole_client;
	client.advance = advance_and_fail;
	clients_set_handler(&job->clients, &client);
	CHECK(!*sluice_last_error());
	CHECK_OK(progress_until(job, at_once, describe_nothing, NULL));
	CHECK(!*sluice_last_error());
	progress_release(job);
	CHECK(sluice_barrier(job) == SLUICE_EDEVICE);
	CHECK(error_says("a device failed while a call succeeded", NULL));
	sluice_finalize(&job);
	return 0;
}

/* ---- failures that peers report ---------------------------------------------- */

/* Rank 2 reads in rank 1's line that rank 0 is lost. */
static void hear_of_a_loss(sluice_job *job, int rank, void *argument)
{
	const char *said = argument;
	uint32_t length = (uint32_t)strlen(said);
	log_capture();
	CHECK_OK(sluice_barrier(job));
	if (rank == 2) {
		char mine[256];
		progress_take(job);
		uint8_t *status = line_of(job, 1) + LINE_STATUS;
		put_le32(status, LINE_GAVE_UP);
		put_le32(status + 4, 0);
		put_le32(status + 12, length);
		memcpy(status + 16, said, length);
		put_le32(status + 8, crc32c(crc32c(0, status, 8), status + 12, 4 + length));
		peers_status(job, 1);
		const uint8_t *told_others = outbox_at(job, LINE_STATUS);
		CHECK(get_le32(told_others + 12) == length);
		CHECK(!memcmp(told_others + 16, said, length));
		progress_release(job);
		snprintf(mine, sizeof mine, "%s (reported by rank 1)", said);
		CHECK(sluice_barrier(job) == SLUICE_EPEER);
		CHECK(!strcmp(sluice_last_error(), mine));
	} else {
		CHECK(sluice_barrier(job) == SLUICE_EPEER);
		const char *reporter = strstr(sluice_last_error(), "(reported by");
		CHECK(!reporter || !strstr(reporter + 1, "(reported by"));
	}
}

TEST(last_error__peer_reports_a_loss__is_told_to_others_without_the_reporter)
{
	run_in_job(3, hear_of_a_loss, "rank 0 (node n0) is lost: its process ended");
}

/* ---- scopes ---------------------------------------------------------------- */

TEST(scope__ends_well__takes_back_what_failed_in_it)
{
	struct error_scope outer, inner;
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

TEST(scope__ends_with_an_error__keeps_its_sentence_and_the_one_around_takes_it_back)
{
	struct error_scope outer, inner;
	fail_quietly(SLUICE_EIO, "before");
	error_begin(&outer);
	error_begin(&inner);
	fail_quietly(SLUICE_ENOMEM, "within");
	assert_int_equal(error_end(&inner, SLUICE_ENOMEM), SLUICE_ENOMEM);
	assert_string_equal(sluice_last_error(), "within");
	assert_int_equal(error_end(&outer, 0), 0);
	assert_string_equal(sluice_last_error(), "before");
}

/* ---- the rank that logs an error ---------------------------------------------- */

static int said_error, said_info;
static _Atomic int *told; /* shared by the ranks: rank 0 has logged its error */

static void count_lines(int level, const char *line, void *what)
{
	if (!strstr(line, what))
		return;
	said_error += level == 0;
	said_info += level == 2;
	if (told && level == 0)
		*told = 1;
}

static void listen_for(char *what)
{
	said_error = said_info = 0;
	sluice_set_log(count_lines, what);
}

static void open_wrongly(sluice_job *job, int rank, void *argument)
{
	float params[COUNT] = { 0 };
	sluice_model *model = NULL;
	sluice_model_attr attr = ATTR(.count = COUNT, .recipe = "up=topk(31)");
	sluice_region *region = NULL;
	/* All ranks have the same error: the first logs it, and all return it. */
	listen_for("topk(k=31)");
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
	CHECK(said_error == (rank == 0) && said_info == (rank != 0));
	CHECK(error_says("topk(k=31)", NULL));
	/* Two of four ranks have an error: the lower one logs it, and so does the first rank that
	 * receives it. */
	listen_for("topk(k=31)");
	attr.recipe = rank % 2 ? "up=topk(31)" : NULL;
	CHECK(sluice_model_open(job, &attr, params, &model) ==
	      (rank % 2 ? SLUICE_EINVAL : SLUICE_EPEER));
	CHECK(said_error == (rank < 2) && said_info == (rank >= 2));
	CHECK(error_says("topk(k=31)", rank % 2 ? NULL : "rank 1 (node n1) could not open"));
	/* Each rank has a different error and logs it. */
	char recipe[32], own[32];
	snprintf(recipe, sizeof recipe, "up=topk(%d)", 31 + rank);
	snprintf(own, sizeof own, "topk(k=%d)", 31 + rank);
	listen_for(own);
	attr.recipe = recipe;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
	CHECK(said_error == 1 && said_info == 0);
	/* The errors differ only after the part of the text that the other ranks receive. */
	char name[400];
	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	sluice_tensor tensor = { name, COUNT + 1 + (rank == 2) };
	attr.recipe = NULL;
	attr.tensors = &tensor;
	attr.n_tensors = 1;
	listen_for("elements end beyond the model's");
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
	CHECK(said_error == (rank % 2 == 0) && said_info == (rank % 2));
	attr.n_tensors = 0;
	listen_for("different models");
	attr.recipe = rank == 3 ? "up=topk(0.1)" : "up=topk(0.2)";
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EPEER);
	CHECK(said_error == (rank == 0) && said_info == (rank != 0));
	/* Later errors are logged as usual. */
	listen_for("region_out is NULL");
	CHECK(sluice_region_open(job, 0, &region) == SLUICE_EINVAL);
	CHECK(said_error == 1);
}

TEST(open__an_error_of_several_ranks__is_said_by_the_lowest_of_them)
{
	setenv("SLUICE_LOG", "info", 1);
	run_in_job(4, open_wrongly, NULL);
	unsetenv("SLUICE_LOG");
}

static int open_late(int rank, void *argument)
{
	float params[COUNT] = { 0 };
	sluice_job_attr quick = { .size = sizeof quick, .warn_after_ms = 200 };
	sluice_job *job = rank_join(&quick);
	sluice_model *model = NULL;
	sluice_model_attr attr = ATTR(.count = COUNT, .recipe = "up=topk(31)");
	told = argument;
	listen_for("topk(k=31)");
	for (int i = 0; rank && !*told && i < 3000 * slowness(); i++)
		sleep_ms(10);
	CHECK(*told == rank); /* rank 0 has logged it although rank 1 has not joined */
	told = rank ? NULL : told;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
	sluice_finalize(&job);
	return 0;
}

TEST(open__the_others_do_not_come__an_error_is_said_all_the_same)
{
	run_ranks(2, open_late, shared_memory(sizeof(int)));
}

TEST_IN_JOB(push__nan_in_a_model_without_tensors__is_named_by_its_index, 1)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 1, 1, 1, NAN };
	log_capture();
	sluice_model *model = OPEN(job, params, .count = COUNT);
	CHECK(sluice_push(model, grad) == SLUICE_ENUMERIC);
	CHECK(error_says("at step 1 is NaN at index 3: lower the learning rate", NULL));
	sluice_model_close(&model);
}
