/* SPDX-License-Identifier: BSD-3-Clause
 * Log lines as stderr and as a sink see them, SLUICE_LOG, and the last error of a thread.
 * (fail)(...) is the function of base/error.h; fail() would be the macro of cmocka.h. */
#include "base/error.h"
#include "base/log.h"
#include "sluice.h"
#include "cases.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct record {
	int calls, level;
	char line[2048];
};

static void record_line(int level, const char *line, void *context)
{
	struct record *record = context;

	record->calls++;
	record->level = level;
	snprintf(record->line, sizeof(record->line), "%s", line);
}

static struct record record;

static int use_record(void **state)
{
	memset(&record, 0, sizeof(record));
	sluice_set_log(record_line, &record);
	return log_configure("warn");
}

static int use_stderr(void **state)
{
	sluice_set_log(NULL, NULL);
	log_identify(-1, NULL);
	return log_configure("warn");
}

/* Between these two functions, stderr is a file. */
static FILE *capture;
static int real_stderr;

static void capture_begin(void)
{
	capture = tmpfile();
	assert_non_null(capture);
	real_stderr = dup(STDERR_FILENO);
	dup2(fileno(capture), STDERR_FILENO);
}

static void capture_end(char *text, size_t cap)
{
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	rewind(capture);
	text[fread(text, 1, cap - 1, capture)] = '\0';
	fclose(capture);
}

TEST_WITH(log_line__before_identify_has_plain_prefix, use_stderr, NULL)
{
	char text[256];

	capture_begin();
	log_line(LOG_WARN, "rdma", "queue is %d%% full", 90);
	capture_end(text, sizeof(text));
	assert_string_equal(text, "sluice: warn: queue is 90% full\n");
}

TEST_WITH(log_line__after_identify_has_rank_and_node, use_stderr, NULL)
{
	char text[256];

	log_identify(3, "n2");
	capture_begin();
	log_line(LOG_ERROR, "runtime", "rank 1 is lost");
	capture_end(text, sizeof(text));
	assert_string_equal(text, "sluice[3 n2]: error: rank 1 is lost\n");
}

TEST_WITH(log_line__sink_gets_level_and_text_without_prefix, use_record, NULL)
{
	log_identify(3, "n2");
	log_line(LOG_WARN, "runtime", "slow");
	assert_int_equal(record.calls, 1);
	assert_int_equal(record.level, 1);
	assert_string_equal(record.line, "slow");
}

TEST_WITH(log_line__control_bytes_stay_on_one_line, use_record, NULL)
{
	log_line(LOG_WARN, "runtime", "node \"a\nsluice: error: forged\x1b[31m\"");
	assert_string_equal(record.line, "node \"a sluice: error: forged [31m\"");
}

TEST_WITH(log_line__too_long_text_is_cut_and_marked, use_record, NULL)
{
	char text[2000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_line(LOG_WARN, "runtime", "%s", text);
	size_t n = strlen(record.line);

	assert_in_range(n, 900, 1100);
	assert_string_equal(record.line + n - 4, "x...");
}

TEST_WITH(log_line__errno_survives, use_record, NULL)
{
	errno = ENOSPC;
	log_line(LOG_WARN, "runtime", "text");
	assert_int_equal(errno, ENOSPC);
}

TEST_WITH(log_line__below_level_is_silent, use_record, NULL)
{
	log_line(LOG_INFO, "runtime", "text");
	log_line(LOG_DEBUG, "rdma", "text");
	assert_int_equal(record.calls, 0);
}

TEST_WITH(log_configure__one_level_holds_for_all_modules, use_record, NULL)
{
	assert_int_equal(log_configure("info"), 0);
	assert_true(log_enabled(LOG_INFO, "compress"));
	assert_false(log_enabled(LOG_DEBUG, "compress"));
	assert_int_equal(log_configure("error"), 0);
	assert_false(log_enabled(LOG_WARN, "runtime"));
}

TEST_WITH(log_configure__modules_differ_and_others_stay_at_warn, use_record, NULL)
{
	assert_int_equal(log_configure("rdma+debug,slurm+error"), 0);
	assert_true(log_enabled(LOG_DEBUG, "rdma"));
	assert_false(log_enabled(LOG_WARN, "slurm"));
	assert_true(log_enabled(LOG_WARN, "runtime"));
	assert_false(log_enabled(LOG_INFO, "runtime"));
	assert_int_equal(log_configure("all+info,rdma+debug"), 0);
	assert_true(log_enabled(LOG_INFO, "slurm"));
	assert_true(log_enabled(LOG_DEBUG, "rdma"));
	assert_false(log_enabled(LOG_DEBUG, "slurm"));
}

static void expect_refused(const char *text, const char *phrase)
{
	assert_int_equal(log_configure(text), SLUICE_EINVAL);
	if (!strstr(sluice_last_error(), phrase))
		fail_msg("\"%s\" lacks \"%s\"", sluice_last_error(), phrase);
}

TEST_WITH(log_configure__typos_are_refused_and_nothing_changes, use_record, NULL)
{
	assert_int_equal(log_configure("rdma+debug"), 0);
	expect_refused("wran", "unknown level \"wran\", did you mean \"warn\"?");
	expect_refused("all+loud", "levels are error, warn, info and debug");
	expect_refused("rmda+debug", "unknown module \"rmda\", did you mean \"rdma\"?");
	expect_refused("warn,", "unknown level \"\"");
	expect_refused("", "unknown level \"\"");
	expect_refused("rdma+debug+info", "unknown level \"debug+info\"");
	expect_refused("all+warn,all+warn,all+warn,all+warn,all+warn,all+warn,all+warn,all+warn,"
		       "all+warn,all+warn,all+warn,all+warn,all+warn,all+warn,all+warn",
		       "longer than");
	assert_true(log_enabled(LOG_DEBUG, "rdma"));
}

TEST_WITH(fail__sets_sentence_logs_once_and_returns_code, use_record, NULL)
{
	errno = EBADF;
	assert_int_equal((fail)(SLUICE_EPEER, "rank %d on %s is lost", 2, "n1"), SLUICE_EPEER);
	assert_int_equal(errno, EBADF);
	assert_string_equal(sluice_last_error(), "rank 2 on n1 is lost");
	assert_int_equal(record.calls, 1);
	assert_int_equal(record.level, 0);
	assert_string_equal(record.line, "rank 2 on n1 is lost");
}

TEST_WITH(fail_quietly__sets_sentence_without_line, use_record, NULL)
{
	assert_int_equal(fail_quietly(SLUICE_EIO, "file"), SLUICE_EIO);
	assert_string_equal(sluice_last_error(), "file");
	assert_int_equal(record.calls, 0);
}

TEST_WITH(error_hold__error_is_logged_at_the_level_of_its_release, use_record, NULL)
{
	error_hold();
	assert_int_equal((fail)(SLUICE_EIO, "held"), SLUICE_EIO);
	assert_string_equal(sluice_last_error(), "held");
	assert_int_equal(record.calls, 0);
	error_release(LOG_WARN);
	assert_int_equal(record.calls, 1);
	assert_int_equal(record.level, LOG_WARN);
	assert_string_equal(record.line, "held");
	error_release(LOG_ERROR); /* nothing is held back */
	assert_int_equal(record.calls, 1);
	(fail)(SLUICE_EIO, "free");
	assert_int_equal(record.calls, 2);
	assert_int_equal(record.level, LOG_ERROR);
	error_hold();
	error_release(LOG_ERROR); /* the error was already logged */
	assert_int_equal(record.calls, 2);
	error_hold();
	fail_quietly(SLUICE_EIO, "said elsewhere");
	(fail)(SLUICE_EIO, "free again");
	assert_int_equal(record.calls, 3);
}

TEST_WITH(error_hold__later_errors_are_logged_at_once_and_the_first_one_comes_back, use_record,
	  NULL)
{
	error_hold();
	(fail)(SLUICE_EIO, "first");
	(fail)(SLUICE_EIO, "second");
	assert_int_equal(record.calls, 1);
	assert_int_equal(record.level, LOG_ERROR);
	assert_string_equal(record.line, "second");
	assert_string_equal(sluice_last_error(), "second");
	fail_quietly(SLUICE_EIO, "third");
	assert_int_equal(record.calls, 1);
	error_release(LOG_INFO); /* only warnings and errors are logged */
	assert_int_equal(record.calls, 1);
	assert_string_equal(sluice_last_error(), "first");
}

TEST_WITH(fail__may_quote_the_previous_sentence, use_record, NULL)
{
	(fail)(SLUICE_EIO, "inner");
	(fail)(SLUICE_EIO, "outer: %s", sluice_last_error());
	assert_string_equal(sluice_last_error(), "outer: inner");
}

TEST_WITH(fail__too_long_sentence_is_cut_and_marked, use_record, NULL)
{
	char text[3000];

	memset(text, 'y', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	(fail)(SLUICE_EIO, "%s", text);
	assert_int_equal(strlen(sluice_last_error()), ERROR_TEXT_BYTES - 1);
	assert_string_equal(sluice_last_error() + ERROR_TEXT_BYTES - 5, "y...");
}

static void *fail_elsewhere(void *seen_first)
{
	snprintf(seen_first, 64, "%s", sluice_last_error());
	fail_quietly(SLUICE_EIO, "other thread");
	return NULL;
}

TEST_WITH(last_error__belongs_to_its_thread, use_record, NULL)
{
	char seen_first[64];
	pthread_t thread;

	fail_quietly(SLUICE_EIO, "this thread");
	assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, seen_first), 0);
	pthread_join(thread, NULL);
	assert_string_equal(seen_first, "");
	assert_string_equal(sluice_last_error(), "this thread");
}

static void *log_many(void *unused)
{
	for (int i = 0; i < 200; i++)
		log_line(LOG_WARN, "runtime", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
	return unused;
}

TEST_WITH(log_line__lines_of_threads_do_not_mix, use_stderr, NULL)
{
	static char text[200000];
	pthread_t threads[4];
	int lines = 0;

	capture_begin();
	for (int t = 0; t < 4; t++)
		pthread_create(&threads[t], NULL, log_many, NULL);
	for (int t = 0; t < 4; t++)
		pthread_join(threads[t], NULL);
	capture_end(text, sizeof(text));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++)
		assert_string_equal(
			line, "sluice: warn: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
	assert_int_equal(lines, 800);
}

TEST_WITH(strerror__every_code_has_its_own_text, use_record, NULL)
{
	for (int code = SLUICE_EIO; code <= SLUICE_OK; code++) {
		assert_memory_equal(sluice_strerror(code), "SLUICE_", 7);
		for (int other = SLUICE_EIO; other < code; other++)
			assert_string_not_equal(sluice_strerror(code), sluice_strerror(other));
	}
	assert_string_equal(sluice_strerror(SLUICE_EIO - 1), "not a Sluice error code");
	assert_string_equal(sluice_strerror(7), "not a Sluice error code");
}

TEST_WITH(version__names_package_and_wire, use_record, NULL)
{
	assert_memory_equal(sluice_version(NULL), PACKAGE_VERSION " (wire ",
			    strlen(PACKAGE_VERSION " (wire "));
	int wire = atoi(sluice_version(NULL) + strlen(PACKAGE_VERSION " (wire "));

	assert_true(wire >= 1);
}

TEST_WITH(errno_text__names_the_error, use_record, NULL)
{
	assert_non_null(strstr(errno_text(ENOENT), "No such file"));
	assert_non_null(strstr(errno_text(123456), "123456"));
}
