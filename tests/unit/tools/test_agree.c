/* SPDX-License-Identifier: BSD-3-Clause
 * Agreement of the workers: complaints are printed once with their ranks, and replicas that differ
 * are named. The job is a fake: sluice_gather() returns what the test prepared. */
#include "tools/train/agree.h"
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORKERS = 200 };

struct sluice_job {
	int rank, workers, gather_result;
	const char *text[MOST_WORKERS]; /* complaint of each worker; "": none */
	uint64_t digest[MOST_WORKERS];
};

int sluice_rank(const sluice_job *job)
{
	return job->rank;
}
int sluice_workers(const sluice_job *job)
{
	return job->workers;
}

int sluice_gather(sluice_job *job, const void *mine, size_t bytes, void *all)
{
	assert_true(bytes <= SLUICE_GATHER_MAX);
	for (int rank = 0; rank < job->workers; rank++) {
		char *row = (char *)all + (size_t)rank * bytes;

		memset(row, 0, bytes);
		if (bytes == 2 * sizeof(job->digest[0])) { /* a vote: digest, here */
			const uint64_t vote[2] = { job->digest[rank], 1 };

			memcpy(row, vote, sizeof(vote));
		} else
			snprintf(row, bytes, "%s", job->text[rank]);
	}
	return job->gather_result;
}

static struct sluice_job job;
static char *printed;
static size_t printed_bytes;
static FILE *kept_stderr;

static int setup(void **state)
{
	job = (struct sluice_job){ .workers = 4 };
	for (int i = 0; i < MOST_WORKERS; i++) {
		job.text[i] = "";
		job.digest[i] = 7;
	}
	kept_stderr = stderr;
	stderr = open_memstream(&printed, &printed_bytes);
	return !stderr;
}

static int teardown(void **state)
{
	if (stderr != kept_stderr)
		fclose(stderr);
	stderr = kept_stderr;
	free(printed);
	printed = NULL;
	return 0;
}

/* Returns the text that went to stderr. Ends the capture, so that a failing assertion is
 * visible. */
static const char *output(void)
{
	fclose(stderr);
	stderr = kept_stderr;
	return printed;
}

static int complaints(void)
{
	struct complaint mine;

	snprintf(mine.text, sizeof(mine.text), "%s",
		 job.rank < job.workers ? job.text[job.rank] : "");
	return agree_on_complaints(&job, &mine);
}

#define CASE(name) TEST_WITH(name, setup, teardown)

CASE(complaints__none_is_agreement)
{
	assert_int_equal(complaints(), 0);
	assert_string_equal(output(), "");
}

CASE(complaints__the_same_of_all_is_one_line)
{
	for (int i = 0; i < 4; i++)
		job.text[i] = "no data";
	assert_int_equal(complaints(), -1);
	assert_string_equal(output(), "sluice-train: no data\n");
}

CASE(complaints__different_ones_name_their_ranks)
{
	job.text[0] = job.text[2] = job.text[3] = "no data";
	job.text[1] = "out of memory";
	assert_int_equal(complaints(), -1);
	assert_string_equal(output(), "sluice-train: ranks 0,2-3: no data\n"
				      "sluice-train: rank 1: out of memory\n");
}

CASE(complaints__other_ranks_fail_in_silence)
{
	job.rank = 2;
	job.text[1] = "no data";
	assert_int_equal(complaints(), -1);
	assert_string_equal(output(), "");
}

CASE(complaints__of_a_server_is_printed_by_itself)
{
	struct complaint mine = { "no data" };

	job.rank = 5;
	assert_int_equal(agree_on_complaints(&job, &mine), -1);
	assert_string_equal(output(), "sluice-train: rank 5: no data\n");
}

CASE(complaints__of_a_server_that_workers_share_is_not_repeated)
{
	struct complaint mine = { "no data" };

	job.rank = 5;
	job.text[2] = "no data";
	assert_int_equal(agree_on_complaints(&job, &mine), -1);
	assert_string_equal(output(), "");
}

CASE(complaints__failed_gathering_fails)
{
	job.gather_result = SLUICE_EPEER;
	assert_int_equal(complaints(), -1);
	assert_string_equal(output(), "");
}

CASE(digest__equal_everywhere_is_agreement)
{
	assert_int_equal(agree_on_digest(&job, 7, 3), 0);
	assert_string_equal(output(), "");
}

CASE(digest__minority_is_named_even_when_it_holds_rank_0)
{
	job.digest[0] = 9;
	assert_int_equal(agree_on_digest(&job, 9, 12), -1);
	assert_string_equal(
		output(), "sluice-train: replicas differ after step 12: rank 0 without the digest "
			  "0000000000000007 that 3 of 4 workers have\n");
}

CASE(digest__long_lists_of_ranks_are_cut)
{
	const char *text;

	job.workers = MOST_WORKERS;
	for (int i = 1; i < MOST_WORKERS; i += 2)
		job.digest[i] = (uint64_t)i + 100;
	assert_int_equal(agree_on_digest(&job, 7, 1), -1);
	text = output();
	assert_non_null(strstr(text, "ranks 1,3,5,7,"));
	assert_non_null(strstr(text, ",... without"));
}
