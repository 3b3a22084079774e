/* SPDX-License-Identifier: BSD-3-Clause
 * The pair of verbs_pair.h for most tests: these functions fail the test if it cannot be opened or
 * leaks something, keep its log, and offer rank 1's memory to rank 0. */
#ifndef TESTS_VERBS_TWO_H
#define TESTS_VERBS_TWO_H
#include "verbs_pair.h"
#include "cases.h"

enum { BYTES = 65536, LARGE = (24 << 20) + 5000 };

extern struct verbs_pair pair;
extern char logged[65536];

/* Setup function of a test: makes a new card and an empty log. */
int fabric_setup(void **state);
#define FRESH(test) TEST_WITH(test, fabric_setup, NULL)
void open_pair(uint32_t queue_depth);
void close_pair(void);
void fill(void *bytes, size_t n, unsigned seed);
/* Posts a transfer from offset `at` in one region to the same offset in the other. */
int post(int side, enum transfer_kind kind, struct remote *to, const struct region *from, size_t at,
	 size_t n, uint32_t imm);
/* Checks that side got n notices, numbered from 0 and in order. */
void check_numbers(int side, int n);

struct two {
	struct region *inbox, *log, *near;
	struct remote *to_inbox, *to_log;
};

/* Rank 1 offers an inbox and a log to rank 0, which has its own memory. */
struct two share_two(void);
void close_two(struct two *x);
/* As share_two() and close_two(), but also open and close the pair. */
struct two open_two(uint32_t queue_depth);
void close_all(struct two *x);

/* A region of rank 1 that is longer than any piece, and one of rank 0, both filled with different
 * bytes. */
struct large {
	struct region *far, *near;
	struct remote *to;
};
struct large open_large(uint32_t queue_depth);
void close_large(struct large *x);
#endif
