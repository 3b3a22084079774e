/* SPDX-License-Identifier: BSD-3-Clause
 * Three ranks of the shm transport that share this process (its calls cannot tell): rank 0 has an
 * inbox that ranks 1 and 2 write and a log that they read. For the tests test_shm.c,
 * test_shm_hostile.c, test_shm_sleep.c. */
#ifndef TESTS_SHM_TRIO_H
#define TESTS_SHM_TRIO_H
#include "rdma/mailbox.h"
#include "rdma_pair.h"
#include "cases.h"

enum { RANKS = 3, DEPTH = 5, CAPACITY = 8, BYTES = 5000 };

/* Ranks 1 and 2 notify rank 0. All three are in this process. */
struct trio {
	struct transport *t[RANKS];
	struct endpoint *to_0[RANKS];       /* of ranks 1 and 2 */
	struct endpoint *from_0[RANKS];     /* rank 0's endpoints to them */
	struct region *inbox, *log, *local; /* rank 0's inbox and log, and staging memory of all */
	struct remote *to_inbox[RANKS], *to_log[RANKS];
};

static const struct transport_ops *const ops = &shm_transport;

/* A test's setup and teardown: *state is the trio. */
int trio_open(void **state);
int trio_close(void **state);
#define FRESH(test) TEST_OF(test, struct trio *trio, trio_open, trio_close)

/* Returns the endpoint of t for the transport `to`, which has this rank. */
struct endpoint *connect_to(struct transport *t, struct transport *to, int rank);
/* Returns transfers of rank `from`: into the inbox, a word to rank 0, from the log. */
struct transfer put(struct trio *trio, int from, uint64_t offset, size_t bytes);
struct transfer notify(struct trio *trio, int from, uint32_t imm);
struct transfer get(struct trio *trio, int from, uint64_t offset, size_t bytes);
#endif
