/* SPDX-License-Identifier: BSD-3-Clause
 * The command line of sluice-bench, and its percentiles. */
#include "tools/bench/axes.h"
#include "tools/bench/options.h"
#include "tools/bench/rivals.h"
#include "tools/bench/samples.h"
#include "cases.h"
#include <math.h>
#include <string.h>

TEST(sizes__lists_ranges_and_units__become_bytes)
{
	size_t sizes[SIZES_MAX], n = 0;

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

TEST(sizes__malformed__are_refused)
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

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (!sizes_parse(bad[i], sizes, &n))
			fail_msg("\"%s\" was taken", bad[i]);
	assert_int_equal(n, 77);
}

static int parse(struct options *o, char *complaint, const char *const *words)
{
	static char copies[16][64]; /* the options point to these */
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

TEST(options__good__are_taken)
{
	char complaint[COMPLAINT_BYTES] = "";
	struct options o;

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

TEST(options__bad__are_named)
{
	char complaint[COMPLAINT_BYTES] = "";
	struct options o;

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

TEST(options__of_another_test__are_refused)
{
	static const struct {
		const char *option, *argument, *tests; /* accepted only by these tests */
	} own[] = {
		{ "--sizes", "64", "put get notify" },
		{ "--with", "1", "put get notify" },
		{ "--limit", NULL, "put get notify step" },
		{ "--count", "100", "step" },
		{ "--recipe", "up=all", "step" },
		{ "--gradient", "laplace", "step" },
		{ "--accumulate", NULL, "step" },
		{ "--timeline", NULL, "step" },
		{ "--seed", "3", "step select codec reduce" },
		{ "--n", "100", "select codec reduce" },
		{ "--k", "10", "select codec reduce" },
		{ "--density", "0.5", "select codec reduce" },
		{ "--distribution", "sorted", "select codec reduce" },
		{ "--threads", "2", "select" },
		{ "--device", "cuda", "step select" },
		{ "--messages", "2", "reduce" },
		{ "--axes", NULL, "step select" },
		{ "--rivals", "file.so", "select" },
		{ "--torch", "python3", "select" },
		{ "--steps", "2", "put get notify step select codec reduce" },
		{ "--repeat", "2", "put get notify step select codec reduce" },
		{ "--seconds", "2", "put get notify step select codec reduce" },
		{ "--warmup", "2", "put get notify step select codec reduce" },
		{ "--json", NULL, "put get notify step select codec reduce" },
	};

	for (enum test test = TEST_PUT; test <= TEST_REDUCE; test++)
		for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
			char complaint[COMPLAINT_BYTES] = "";
			const int on_gpu = (test == TEST_STEP || test == TEST_SELECT) &&
					   strstr("--axes --rivals --torch", own[i].option);
			const char *words[] = { own[i].option,
						own[i].argument ? own[i].argument : test_name(test),
						own[i].argument ? test_name(test) :
						on_gpu          ? "--device=cuda" :
								  NULL,
						own[i].argument && on_gpu ? "--device=cuda" : NULL,
						NULL };
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

TEST(options__misspelt__is_answered_with_the_nearest)
{
	char complaint[COMPLAINT_BYTES] = "";
	struct options o;

	assert_int_equal(PARSE(&o, complaint, "put", "--sizse", "64"), -1);
	assert_non_null(strstr(complaint,
			       "option --sizse, did you mean --sizes?; see sluice-bench --help"));
	assert_int_equal(PARSE(&o, complaint, "put", "--sizes"), -1);
	assert_non_null(strstr(complaint, "an argument is missing for \"--sizes\""));
}

TEST(options__contradictions__are_refused)
{
	char complaint[COMPLAINT_BYTES] = "";
	struct options o;

	assert_int_equal(PARSE(&o, complaint, "select", "--k", "3", "--density", "0.1"), -1);
	assert_non_null(strstr(complaint, "--density"));
	assert_int_equal(PARSE(&o, complaint, "codec", "--k", "101", "--n", "100"), -1);
	assert_non_null(strstr(complaint, "--n"));
	assert_int_equal(PARSE(&o, complaint, "codec", "--k", "100", "--n", "100"), 0);
	assert_int_equal(PARSE(&o, complaint, "reduce", "--distribution", "hintwrong"), -1);
	assert_non_null(strstr(complaint, "hintwrong"));
	assert_int_equal(PARSE(&o, complaint, "select", "--distribution", "hintwrong"), 0);
}

TEST(options__of_axes__need_a_gpu_and_vary_the_vectors)
{
	char complaint[COMPLAINT_BYTES] = "";
	struct options o;

	assert_int_equal(PARSE(&o, complaint, "select", "--device", "cuda", "--axes"), 0);
	assert_true(o.axes && o.n == AXES_ELEMENTS_MOST && o.k == 0 && o.seconds < 1);
	assert_int_equal(PARSE(&o, complaint, "select", "--device", "cuda", "--axes", "--n", "1M",
			       "--k", "300", "--rivals", "r.so", "--torch", "python3 t.py"),
			 0);
	assert_int_equal(o.n, 1 << 20);
	assert_int_equal(o.k, 300);
	assert_string_equal(o.rivals, "r.so");
	assert_string_equal(o.torch, "python3 t.py");
	assert_int_equal(PARSE(&o, complaint, "step", "--device", "cuda", "--axes"), 0);
	assert_int_equal(o.count, AXES_ELEMENTS_MOST);
	assert_int_equal(
		PARSE(&o, complaint, "step", "--device", "cuda", "--axes", "--count", "2M"), 0);
	assert_int_equal(o.count, 2 << 20);
	assert_int_equal(PARSE(&o, complaint, "select", "--axes"), -1);
	assert_non_null(strstr(complaint, "--axes needs --device \"cuda\""));
	assert_int_equal(PARSE(&o, complaint, "select", "--rivals", "r.so"), -1);
	assert_non_null(strstr(complaint, "--rivals needs"));
	assert_int_equal(PARSE(&o, complaint, "select", "--torch", "python3"), -1);
	assert_non_null(strstr(complaint, "--torch needs"));
	assert_int_equal(
		PARSE(&o, complaint, "select", "--device", "cuda", "--axes", "--density", "0.1"),
		-1);
	assert_non_null(strstr(complaint, "so it excludes \"density\""));
	assert_int_equal(
		PARSE(&o, complaint, "step", "--device", "cuda", "--axes", "--gradient", "laplace"),
		-1);
	assert_non_null(strstr(complaint, "so it excludes \"gradient\""));
	assert_int_equal(PARSE(&o, complaint, "step", "--device", "cuda", "--axes", "--limit"), -1);
	assert_non_null(strstr(complaint, "so it excludes \"limit\""));
	assert_int_equal(
		PARSE(&o, complaint, "select", "--device", "cuda", "--axes", "--n", "65535"), -1);
	assert_non_null(strstr(complaint, "raise \"--n\""));
	assert_int_equal(
		PARSE(&o, complaint, "step", "--device", "cuda", "--axes", "--count", "65535"), -1);
	assert_non_null(strstr(complaint, "raise \"--count\""));
}

/* ---- axes --------------------------------------------------------------------- */

struct seen {
	size_t points, longest, most;
	struct axes_point last;
	size_t ends_at; /* 0: never */
};

static int see_point(void *context, const struct axes_point *point)
{
	struct seen *seen = context;

	assert_true(point->k < point->n);
	assert_true(point->n != seen->last.n || point->k > seen->last.k ||
		    point->ands != seen->last.ands);
	seen->points++;
	seen->longest = point->n > seen->longest ? point->n : seen->longest;
	seen->most = point->k > seen->most ? point->k : seen->most;
	seen->last = *point;
	return seen->points == seen->ends_at ? 7 : 0;
}

TEST(axes__points__reach_from_the_least_to_the_most)
{
	struct seen all = { 0 }, some = { 0 }, ended = { .ends_at = 4 };

	assert_int_equal(axes_run(AXES_ELEMENTS_MOST, AXES_COORDINATES_MOST, see_point, &all), 0);
	assert_int_equal(all.longest, 1 << 28);
	assert_int_equal(all.most, 1 << 23);
	assert_int_equal(all.points, 3 * (3 + 4 + 5 + 5));
	assert_int_equal(axes_run(AXES_ELEMENTS_LEAST, AXES_COORDINATES_LEAST, see_point, &some),
			 0);
	assert_int_equal(some.points, 3);
	assert_int_equal(some.last.n, 1 << 16);
	assert_int_equal(some.last.k, 8);
	assert_int_equal(axes_run(AXES_ELEMENTS_MOST, AXES_COORDINATES_MOST, see_point, &ended), 7);
	assert_int_equal(ended.points, 4);
}

/* The share of ones is 2^-(ands + 1). */
TEST(axes__bits_of_keys__have_the_entropy_of_their_point)
{
	enum { N = 20000, BITS = 30 };
	static float x[N], again[N];

	for (int ands = 0; ands <= 4; ands += 2) {
		const double share = pow(0.5, ands + 1);
		size_t ones = 0;

		axes_fill(ands, 5, x, N);
		axes_fill(ands, 5, again, N);
		assert_memory_equal(x, again, sizeof x);
		for (size_t i = 0; i < N; i++) {
			uint32_t bits;

			memcpy(&bits, &x[i], sizeof bits);
			assert_true(isfinite(x[i]) && !(bits >> BITS));
			ones += (size_t)__builtin_popcount(bits);
		}
		assert_true(fabs((double)ones / (N * BITS) - share) < 0.01);
	}
}

/* ---- --torch -------------------------------------------------------------------- */

TEST(torch__command_answers__each_point_has_its_time)
{
	struct torch_times t = { NULL, 0, 0 };

	for (size_t k = 1; k <= 40; k++)
		assert_int_equal(torch_ask(&t, 1000, k, -1), 0);
	assert_int_equal(torch_ask(&t, 1000, 5, 2), 0);
	assert_int_equal(torch_run(&t, "sh -c 'for p; do IFS=:; set -- $p; "
				       "echo $1 $2 $3 $2.5; done' torch"),
			 0);
	assert_true(torch_ms(&t, 1000, 1, -1) == 1.5 && torch_ms(&t, 1000, 40, -1) == 40.5);
	assert_true(torch_ms(&t, 1000, 5, 2) == 5.5 && isnan(torch_ms(&t, 1000, 5, 3)));
	torch_close(&t);
	assert_null(t.of);
}

TEST(torch__command_fails_or_leaves_points_out__is_refused)
{
	struct torch_times t = { NULL, 0, 0 };

	assert_int_equal(torch_ask(&t, 1000, 5, -1), 0);
	assert_int_equal(torch_ask(&t, 1000, 6, -1), 0);
	assert_int_equal(torch_run(&t, "echo 1000 5 -1 2 #"), -1);
	assert_int_equal(torch_run(&t, "false"), -1);
	torch_close(&t);
	assert_int_equal(torch_ask(&t, 1000, 5, -1), 0);
	assert_int_equal(torch_run(&t, "echo 1000 5 -1 2; exit 3;"), -1);
	assert_int_equal(torch_run(&t, "echo 1000 5 -1 0 #"), -1);
	torch_close(&t);
}

TEST(percentiles__known_samples__are_by_nearest_rank)
{
	struct samples s;
	struct summary m;

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
