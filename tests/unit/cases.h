/* SPDX-License-Identifier: BSD-3-Clause
 * Cases register themselves: TEST(name) { ... } is a case of its program. They run in the order in
 * which they stand in the file. A program that needs no other main() gets the one of cases_main.c.
 */
#ifndef TESTS_CASES_H
#define TESTS_CASES_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Callbacks and replaced functions need few of their parameters. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* Called before main(). */
void add_case(int line, const char *name, CMUnitTestFunction run, CMFixtureFunction set_up,
	      CMFixtureFunction tear_down);

/* Runs all cases, with the fixtures of the group or NULL. Returns how many failed. If there are no
 * cases, or two with one name, runs none and returns 1. */
int run_cases(CMFixtureFunction set_up, CMFixtureFunction tear_down);

#define TEST_WITH(name, set_up, tear_down)                                                         \
	static void name(void **state);                                                            \
	__attribute__((constructor)) static void add_##name(void)                                  \
	{                                                                                          \
		add_case(__LINE__, #name, name, set_up, tear_down);                                \
	}                                                                                          \
	static void name(__attribute__((unused)) void **state)

/* A case with a parameter, which set_up stores in *state. */
#define TEST_OF(name, parameter, set_up, tear_down)                                                \
	static void name##_of(parameter);                                                          \
	TEST_WITH(name, set_up, tear_down)                                                         \
	{                                                                                          \
		name##_of(*state);                                                                 \
	}                                                                                          \
	static void name##_of(parameter)

#define TEST(name) TEST_WITH(name, NULL, NULL)
#endif
