/* SPDX-License-Identifier: BSD-3-Clause
 * Teams of threads: every call is made once, and parts of a loop cover each element once. */
#include "base/team.h"
#include "cases.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG = 40 * TEAM_LEAST + 77, UNIT = 48 };

static struct team *team_of(unsigned threads)
{
	struct team *team = NULL;

	assert_int_equal(team_open(threads, 64, &team), 0);
	return team;
}

/* ---- calls ------------------------------------------------------------------- */

struct calls {
	atomic_int of[8];
};

static void count_call(void *context, unsigned worker)
{
	struct calls *c = context;

	atomic_fetch_add(&c->of[worker], 1);
}

TEST(run__many_times__makes_each_call_once)
{
	enum { RUNS = 2000, THREADS = 3 };
	struct team *team = team_of(THREADS);
	struct calls calls = { .of = { 0 } };

	assert_int_equal(team_take(team), 1);
	for (int i = 1; i <= RUNS; i++) {
		team_run(team, count_call, &calls);
		for (int c = 0; c < THREADS; c++)
			assert_int_equal(calls.of[c], i);
	}
	team_give_back(team);
	team_close(&team);
}

TEST(run__after_the_threads_have_gone_to_sleep__makes_each_call_once)
{
	struct team *team = team_of(2);
	struct calls calls = { .of = { 0 } };

	assert_int_equal(team_take(team), 1);
	for (int i = 1; i <= 20; i++) {
		usleep(1000); /* longer than they poll */
		team_run(team, count_call, &calls);
		assert_int_equal(calls.of[0], i);
		assert_int_equal(calls.of[1], i);
	}
	team_give_back(team);
	team_close(&team);
}

static void meet(void *context, unsigned worker)
{
	struct calls *c = context;

	/* Call 0 ends only when another thread makes call 1. */
	count_call(c, worker);
	for (int i = 0; i < 30000 && worker == 0 && !c->of[1]; i++)
		usleep(1000);
}

TEST(run__a_call_takes_long__another_thread_makes_the_next)
{
	struct team *team = team_of(2);
	struct calls calls = { .of = { 0 } };

	assert_int_equal(team_take(team), 1);
	team_run(team, meet, &calls);
	assert_int_equal(calls.of[1], 1);
	team_give_back(team);
	team_close(&team);
}

/* ---- parts ------------------------------------------------------------------- */

struct cover {
	uint64_t begin[TEAM_PARTS], end[TEAM_PARTS];
	struct team *inner; /* taken by the loop around this one */
	atomic_int inner_parts;
	unsigned char *seen;
};

static void nothing(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	(void)context;
	(void)part;
	(void)begin;
	(void)end;
}

static void cover_part(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct cover *c = context;

	c->begin[part] = begin;
	c->end[part] = end;
	memset(c->seen + begin, 1, end - begin);
	if (c->inner)
		atomic_fetch_add(&c->inner_parts,
				 (int)team_split(c->inner, LONG, 1, nothing, NULL));
}

/* Cuts n elements, checks the parts, and returns their number. */
static unsigned parts_of(struct team *team, uint64_t n, uint64_t unit)
{
	struct cover c = { .seen = calloc(n + 1, 1) };

	assert_non_null(c.seen);
	const unsigned parts = team_split(team, n, unit, cover_part, &c);

	assert_true(parts >= 1 && parts <= team_parts(team));
	assert_int_equal(c.begin[0], 0);
	assert_int_equal(c.end[parts - 1], n);
	for (unsigned i = 1; i < parts; i++) {
		assert_int_equal(c.begin[i], c.end[i - 1]);
		assert_int_equal(c.begin[i] % unit, 0);
		assert_true(c.end[i] > c.begin[i]);
	}
	assert_null(memchr(c.seen, 0, n));
	free(c.seen);
	return parts;
}

TEST(split__long_loop__a_part_for_each_thread)
{
	for (unsigned threads = 1; threads <= 8; threads++) {
		struct team *team = team_of(threads);

		assert_int_equal(parts_of(team, LONG, UNIT), threads);
		assert_int_equal(parts_of(team, LONG, 1), threads);
		team_close(&team);
	}
}

TEST(split__more_threads_than_parts__TEAM_PARTS_parts)
{
	struct team *team = team_of(TEAM_PARTS + 5);

	assert_int_equal(team_parts(team), TEAM_PARTS);
	assert_int_equal(parts_of(team, LONG, UNIT), TEAM_PARTS);
	team_close(&team);
}

TEST(split__short_loop_or_no_team__one_part)
{
	struct team *team = team_of(4);

	assert_int_equal(parts_of(team, 0, UNIT), 1);
	assert_int_equal(parts_of(team, 2 * TEAM_LEAST - 1, UNIT), 1);
	assert_int_equal(parts_of(team, 2 * TEAM_LEAST, UNIT), 2);
	assert_int_equal(parts_of(team, LONG, LONG), 1);
	assert_int_equal(parts_of(team, LONG, LONG / 2), 2);
	assert_int_equal(team_parts(NULL), 1);
	assert_int_equal(parts_of(NULL, LONG, UNIT), 1);
	team_close(&team);
}

TEST(split__inside_of_a_part__works_alone)
{
	struct team *team = team_of(3);
	struct cover c = { .seen = calloc(LONG, 1), .inner = team };

	assert_non_null(c.seen);
	assert_int_equal(team_split(team, LONG, UNIT, cover_part, &c), 3);
	assert_int_equal(c.inner_parts, 3);
	free(c.seen);
	team_close(&team);
}

TEST(split__in_a_forked_child__works_alone)
{
	struct team *team = team_of(3);
	int status = -1;
	const pid_t child = fork();

	if (child == 0)
		_exit(team_split(team, LONG, UNIT, nothing, NULL) == 1 ? 0 : 1);
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(parts_of(team, LONG, UNIT), 3);
	team_close(&team);
}

static void *split_often(void *argument)
{
	for (int i = 0; i < 50; i++)
		parts_of(argument, LONG / 8, UNIT);
	return NULL;
}

TEST(split__two_threads_at_once__both_cover_everything)
{
	struct team *team = team_of(3);
	pthread_t other;

	assert_int_equal(pthread_create(&other, NULL, split_often, team), 0);
	split_often(team);
	pthread_join(other, NULL);
	team_close(&team);
}
