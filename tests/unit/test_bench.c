/* SPDX-License-Identifier: BSD-3-Clause
 * The command line of sluice-bench, and its percentiles. */
#include "tools/bench/options.h"
#include "tools/bench/samples.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void sizes__lists_ranges_and_units__become_bytes(void **state)
{
	size_t sizes[SIZES_MAX], n = 0;

	(void)state;
	assert_int_equal(sizes_parse("8,64,4K,1M", sizes, &n), 0);
	assert_int_equal(n, 4);
	assert_int_equal(sizes[2], 4096);
	assert_int_equal(sizes[3], 1 << 20);
	assert_int_equal(sizes_parse("8..1K", sizes, &n), 0);
	assert_int_equal(n, 8);
	assert_int_equal(sizes[7], 1024);
	assert_int_equal(sizes_parse("1,3..20,7", sizes, &n), 0); /* 1 3 6 12 7 */
	assert_int_equal(n, 5);
	assert_int_equal(sizes[3], 12);
	assert_int_equal(sizes[4], 7);
	assert_int_equal(sizes_parse("1..1G", sizes, &n), 0);
	assert_int_equal(n, 31);
}

static void sizes__malformed__are_refused(void **state)
{
	static const char *const bad[] = { "",
					   ",",
					   "8,",
					   "8,,9",
					   "0",
					   "-1",
					   "8x",
					   "8KK",
					   "4..",
					   "..4",
					   "9..4",
					   "2G",
					   "1..2..3",
					   "1..1G,1..1G,1..1G",
					   "99999999999999999999",
					   " 8",
					   "0x8",
					   "1.5K" };
	size_t sizes[SIZES_MAX], n = 77;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (!sizes_parse(bad[i], sizes, &n))
			fail_msg("\"%s\" was taken", bad[i]);
	assert_int_equal(n, 77);
}

static int parse(struct options *o, char *complaint, const char *const *words)
{
	static char copies[16][64]; /* the options point into them */
	char *argv[18];
	int argc = 0;

	argv[argc++] = (char[]){ "sluice-bench" };
	for (int i = 0; words[i]; i++) {
		strcpy(copies[i], words[i]);
		argv[argc++] = copies[i];
	}
	argv[argc] = NULL;
	return options_parse(argc, argv, o, complaint);
}
#define PARSE(o, complaint, ...) parse(o, complaint, (const char *const[]){ __VA_ARGS__, NULL })

static void options__good__are_taken(void **state)
{
	char complaint[COMPLAINT_BYTES] = "";
	struct options o;

	(void)state;
	assert_int_equal(PARSE(&o, complaint, "put"), 0);
	assert_int_equal(o.test, TEST_PUT);
	assert_int_equal(o.with, -1);
	assert_int_equal(o.sizes[0], 8);
	assert_int_equal(o.sizes[o.n_sizes - 1], 4 << 20);
	assert_true(o.warmup > 0 && o.seconds > 0 && !o.repeat && !o.json && !o.limit);
	assert_int_equal(PARSE(&o, complaint, "--sizes", "64", "get", "--with", "3", "--repeat=5",
			       "--json", "--limit", "--warmup", "0", "--seconds", "0.5"),
			 0);
	assert_int_equal(o.test, TEST_GET);
	assert_int_equal(o.n_sizes, 1);
	assert_int_equal(o.with, 3);
	assert_int_equal(o.repeat, 5);
	assert_int_equal(o.warmup, 0);
	assert_true(o.json && o.limit && o.seconds == 0.5);
	assert_int_equal(PARSE(&o, complaint, "step", "--count", "3M", "--gradient", "laplace",
			       "--steps", "7", "--recipe", "up=all"),
			 0);
	assert_int_equal(o.test, TEST_STEP);
	assert_int_equal(o.count, 3 << 20);
	assert_int_equal(o.gradient, DISTRIBUTION_LAPLACE);
	assert_int_equal(o.repeat, 7);
	assert_string_equal(o.recipe, "up=all");
	assert_int_equal(PARSE(&o, complaint, "--help"), 0);
	assert_int_equal(o.action, ACTION_HELP);
}

static void options__bad__are_named(void **state)
{
	char complaint[COMPLAINT_BYTES] = "";
	struct options o;

	(void)state;
	assert_int_equal(PARSE(&o, complaint, "--json"), -1);
	assert_non_null(strstr(complaint, "put, get, notify, step, select, codec or reduce"));
	assert_int_equal(PARSE(&o, complaint, "pull"), -1);
	assert_non_null(strstr(complaint, "\"pull\""));
	assert_int_equal(PARSE(&o, complaint, "put", "get"), -1);
	assert_non_null(strstr(complaint, "\"get\""));
	assert_int_equal(PARSE(&o, complaint, "put", "--sizes", "1T"), -1);
	assert_non_null(strstr(complaint, "--sizes cannot take \"1T\""));
	assert_int_equal(PARSE(&o, complaint, "put", "--with", "0"), -1);
	assert_int_equal(PARSE(&o, complaint, "put", "--repeat", "0"), -1);
	assert_int_equal(PARSE(&o, complaint, "put", "--seconds", "nan"), -1);
	assert_int_equal(PARSE(&o, complaint, "step", "--gradient", "cauchy"), -1);
	assert_non_null(strstr(complaint, "\"cauchy\""));
	assert_int_equal(PARSE(&o, complaint, "step", "--device", "rocm"), -1);
	assert_non_null(strstr(complaint, "--device cannot take \"rocm\""));
	assert_int_equal(PARSE(&o, complaint, "step", "--accumulate", "--device", "cuda"), -1);
	assert_non_null(strstr(complaint, "host memory"));
	assert_int_equal(PARSE(&o, complaint, "step", "--count"), -1);
	assert_non_null(strstr(complaint, "--count"));
	assert_int_equal(PARSE(&o, complaint, "step", "--coutn", "3"), -1);
}

static void options__of_another_test__are_refused(void **state)
{
	static const struct {
		const char *option, *argument, *tests; /* of those alone */
	} own[] = {
		{ "--sizes", "64", "put get notify" },
		{ "--with", "1", "put get notify" },
		{ "--limit", NULL, "put get notify step" },
		{ "--count", "100", "step" },
		{ "--recipe", "up=all", "step" },
		{ "--gradient", "laplace", "step" },
		{ "--accumulate", NULL, "step" },
		{ "--seed", "3", "step select codec reduce" },
		{ "--n", "100", "select codec reduce" },
		{ "--k", "10", "select codec reduce" },
		{ "--density", "0.5", "select codec reduce" },
		{ "--distribution", "sorted", "select codec reduce" },
		{ "--threads", "2", "select" },
		{ "--device", "cuda", "step select" },
		{ "--messages", "2", "reduce" },
		{ "--steps", "2", "put get notify step select codec reduce" },
		{ "--repeat", "2", "put get notify step select codec reduce" },
		{ "--seconds", "2", "put get notify step select codec reduce" },
		{ "--warmup", "2", "put get notify step select codec reduce" },
		{ "--json", NULL, "put get notify step select codec reduce" },
	};

	(void)state;
	for (enum test test = TEST_PUT; test <= TEST_REDUCE; test++)
		for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
			char complaint[COMPLAINT_BYTES] = "";
			const char *words[] = { own[i].option,
						own[i].argument ? own[i].argument : test_name(test),
						own[i].argument ? test_name(test) : NULL, NULL };
			int taken = strstr(own[i].tests, test_name(test)) != NULL;
			struct options o;

			if (parse(&o, complaint, words) != (taken ? 0 : -1))
				fail_msg("%s %s: %s", test_name(test), own[i].option, complaint);
			if (!taken && (!strstr(complaint, own[i].option + 2) ||
				       !strstr(complaint, test_name(test))))
				fail_msg("%s %s: \"%s\" does not say so", test_name(test),
					 own[i].option, complaint);
		}
}

static void options__misspelt__is_answered_with_the_nearest(void **state)
{
	char complaint[COMPLAINT_BYTES] = "";
	struct options o;

	(void)state;
	assert_int_equal(PARSE(&o, complaint, "put", "--sizse", "64"), -1);
	assert_non_null(strstr(complaint,
			       "option --sizse, did you mean --sizes?; see sluice-bench --help"));
	assert_int_equal(PARSE(&o, complaint, "put", "--sizes"), -1);
	assert_non_null(strstr(complaint, "an argument is missing for \"--sizes\""));
}

static void options__contradictions__are_refused(void **state)
{
	char complaint[COMPLAINT_BYTES] = "";
	struct options o;

	(void)state;
	assert_int_equal(PARSE(&o, complaint, "select", "--k", "3", "--density", "0.1"), -1);
	assert_non_null(strstr(complaint, "--density"));
	assert_int_equal(PARSE(&o, complaint, "codec", "--k", "101", "--n", "100"), -1);
	assert_non_null(strstr(complaint, "--n"));
	assert_int_equal(PARSE(&o, complaint, "codec", "--k", "100", "--n", "100"), 0);
	assert_int_equal(PARSE(&o, complaint, "reduce", "--distribution", "hintwrong"), -1);
	assert_non_null(strstr(complaint, "hintwrong"));
	assert_int_equal(PARSE(&o, complaint, "select", "--distribution", "hintwrong"), 0);
}

static void percentiles__known_samples__are_by_nearest_rank(void **state)
{
	struct samples s;
	struct summary m;

	(void)state;
	assert_int_equal(samples_open(&s, 100), 0);
	m = samples_summary(&s);
	assert_true(isnan(m.p50) && isnan(m.p99) && isnan(m.max));
	samples_add(&s, 7);
	m = samples_summary(&s);
	assert_true(m.p50 == 7 && m.p99 == 7 && m.max == 7 && m.n == 1);
	samples_close(&s);
	assert_int_equal(samples_open(&s, 100), 0);
	for (int i = 0; i < 100; i++)
		samples_add(&s, (i * 37) % 100 + 1); /* 1 .. 100, shuffled */
	samples_add(&s, 1e9);                        /* full: dropped */
	m = samples_summary(&s);
	assert_true(m.p50 == 50 && m.p99 == 99 && m.max == 100 && m.n == 100);
	samples_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes__lists_ranges_and_units__become_bytes),
		cmocka_unit_test(sizes__malformed__are_refused),
		cmocka_unit_test(options__good__are_taken),
		cmocka_unit_test(options__bad__are_named),
		cmocka_unit_test(options__of_another_test__are_refused),
		cmocka_unit_test(options__misspelt__is_answered_with_the_nearest),
		cmocka_unit_test(options__contradictions__are_refused),
		cmocka_unit_test(percentiles__known_samples__are_by_nearest_rank),
	};

	return cmocka_run_group_tests_name("sluice-bench", tests, NULL, NULL);
}
