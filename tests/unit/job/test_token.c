/* SPDX-License-Identifier: BSD-3-Clause
 * The progress token between threads that ask for nothing else. */
#include "job/token.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

enum { THREADS = 4, ROUNDS = 5000 };

struct shared {
	struct token token;
	int rounds;     /* of each thread */
	unsigned count; /* with the token */
};

static void try__token_that_is_held__is_refused(void **state)
{
	struct token token = { 0 };

	(void)state;
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

static void take__threads_that_count__lose_no_count(void **state)
{
	pthread_t threads[THREADS];
	struct shared s = { .rounds = ROUNDS };

	(void)state;
	start(threads, &s);
	join(threads);
	assert_int_equal(s.count, THREADS * ROUNDS);
}

/* Held long enough that all of them sleep. */
static void take__several_sleepers__each_has_it_once(void **state)
{
	const struct timespec rest = { 0, 35000000 };
	pthread_t threads[THREADS];
	struct shared s = { .rounds = 1 };

	(void)state;
	token_take(&s.token);
	start(threads, &s);
	nanosleep(&rest, NULL);
	assert_int_equal(s.count, 0);
	token_leave(&s.token);
	join(threads);
	assert_int_equal(s.count, THREADS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(try__token_that_is_held__is_refused),
		cmocka_unit_test(take__threads_that_count__lose_no_count),
		cmocka_unit_test(take__several_sleepers__each_has_it_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
