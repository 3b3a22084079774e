/* SPDX-License-Identifier: BSD-3-Clause
 * A few threads that sleep between calls. A selector owns them. */
#ifndef COMPRESS_SELECT_POOL_H
#define COMPRESS_SELECT_POOL_H

struct select_pool;
typedef void select_work_fn(void *context, unsigned worker);

/* Starts threads - 1 threads, because the caller of select_pool_run() is also a worker. Returns 0
 * or SLUICE_ENOMEM. */
int select_pool_open(unsigned threads, struct select_pool **out);
void select_pool_close(struct select_pool **pool);
/* Calls work(context, i) for i = 0..threads - 1. Each call has its own thread, and call 0 has the
 * caller's. Returns when all calls have returned. */
void select_pool_run(struct select_pool *pool, select_work_fn *work, void *context);
#endif
