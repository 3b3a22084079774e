/* SPDX-License-Identifier: BSD-3-Clause
 * The laps of a stopwatch, with a clock that the test sets. */
#include "model/stopwatch.h"
#include "cases.h"
#include <time.h>

static long clock_ns;
static unsigned clock_reads;

int __wrap_clock_gettime(clockid_t id, struct timespec *t);

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	assert_int_equal(id, CLOCK_MONOTONIC);
	*t = (struct timespec){ .tv_nsec = clock_ns };
	clock_reads++;
	return 0;
}

/* Adds a lap of this length to the sums. */
static void lap_of(struct stopwatch *watch, unsigned sums, long ns)
{
	const struct lap lap = stopwatch_begin();

	clock_ns += ns;
	stopwatch_end(watch, sums, &lap);
}

TEST(a_lap_adds_to_each_of_its_sums_and_to_no_other)
{
	struct stopwatch watch = { .ns = { 0 } };

	lap_of(&watch, TIME_WAIT | TIME_DEVICE, 30);
	lap_of(&watch, TIME_WAIT, 4);
	assert_int_equal(stopwatch_ns(&watch, TIME_WAIT), 34);
	assert_int_equal(stopwatch_ns(&watch, TIME_DEVICE), 30);
	assert_int_equal(stopwatch_ns(&watch, TIME_WAIT | TIME_DEVICE), 64);
	assert_int_equal(stopwatch_ns(&watch, TIME_COMPRESS | TIME_PUSH | TIME_PULL | TIME_APPLY),
			 0);
}

TEST(inner_laps_of_the_named_sums_do_not_count)
{
	struct stopwatch watch = { .ns = { 0 } };

	lap_of(&watch, TIME_PULL, 1000); /* before the outer lap */
	struct lap outer = stopwatch_begin();
	clock_ns += 1;
	stopwatch_without(&watch, &outer, TIME_PULL | TIME_APPLY);
	lap_of(&watch, TIME_PULL, 20);
	lap_of(&watch, TIME_APPLY, 300);
	lap_of(&watch, TIME_PUSH, 5);
	stopwatch_end(&watch, TIME_WAIT, &outer);
	assert_int_equal(stopwatch_ns(&watch, TIME_WAIT), 6);
	assert_int_equal(stopwatch_ns(&watch, TIME_PULL), 1020);
	assert_int_equal(stopwatch_ns(&watch, TIME_APPLY), 300);
}

TEST(a_lap_reads_the_clock_twice)
{
	struct stopwatch watch = { .ns = { 0 } };
	struct lap lap;

	clock_reads = 0;
	lap = stopwatch_begin();
	stopwatch_without(&watch, &lap, TIME_PUSH);
	stopwatch_end(&watch, TIME_COMPRESS, &lap);
	assert_int_equal(clock_reads, 2);
}
