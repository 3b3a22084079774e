/* SPDX-License-Identifier: BSD-3-Clause
 * The progress token, passed between threads that do nothing else. */
#include "job/token.h"
#include "cases.h"
#include <pthread.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 5000 };

struct shared {
	struct token token;
	int rounds;     /* rounds of each thread */
	unsigned count; /* counted by the holder of the token */
};

TEST(try__token_that_is_held__is_refused)
{
	struct token token = { 0 };

	assert_true(token_try(&token));
	assert_false(token_try(&token));
	token_leave(&token);
	assert_true(token_try(&token));
}

static void *count(void *argument)
{
	struct shared *s = argument;

	for (int i = 0; i < s->rounds; i++) {
		token_take(&s->token);
		s->count++;
		token_leave(&s->token);
	}
	return NULL;
}

static void start(pthread_t threads[THREADS], struct shared *s)
{
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count, s), 0);
}

static void join(const pthread_t threads[THREADS])
{
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

TEST(take__threads_that_count__lose_no_count)
{
	pthread_t threads[THREADS];
	struct shared s = { .rounds = ROUNDS };

	start(threads, &s);
	join(threads);
	assert_int_equal(s.count, THREADS * ROUNDS);
}

/* The token is held until all of them sleep. */
TEST(take__several_sleepers__each_has_it_once)
{
	const struct timespec rest = { 0, 35000000 };
	pthread_t threads[THREADS];
	struct shared s = { .rounds = 1 };

	token_take(&s.token);
	start(threads, &s);
	nanosleep(&rest, NULL);
	assert_int_equal(s.count, 0);
	token_leave(&s.token);
	join(threads);
	assert_int_equal(s.count, THREADS);
}
