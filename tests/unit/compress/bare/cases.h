/* SPDX-License-Identifier: BSD-3-Clause
 * Stands in for tests/unit/cases.h in programs for a processor that has no cmocka: cases run before
 * main(), and the first failure ends the program. */
#ifndef TESTS_BARE_CASES_H
#define TESTS_BARE_CASES_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEST(name)                      __attribute__((constructor)) static void name(void)
#define fail_msg(...)                   (printf(__VA_ARGS__), printf("\n"), exit(1))
#define assert_true(x)                  ((x) ? (void)0 : (void)fail_msg("line %d: %s", __LINE__, #x))
#define assert_false(x)                 assert_true(!(x))
#define assert_non_null(x)              assert_true((x) != NULL)
#define assert_int_equal(a, b)          assert_true((a) == (b))
#define assert_memory_equal(a, b, size) assert_true(!memcmp(a, b, size))
#define print_message                   printf

int main(void)
{
	return 0;
}
#endif
