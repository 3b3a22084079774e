/* SPDX-License-Identifier: BSD-3-Clause
 * A few threads that sleep between runs, each with some memory. A selector of
 * sluice_selector_open() owns a team. All models of a job share the job's. */
#ifndef BASE_TEAM_H
#define BASE_TEAM_H
#include <stddef.h>

struct team;
typedef void team_work_fn(void *context, unsigned worker);

/* Starts threads - 1 threads, because the caller of team_run() is also a worker. Each worker has
 * this number of bytes of memory, which must be a multiple of 16. Returns 0 or SLUICE_ENOMEM. */
int team_open(unsigned threads, size_t memory, struct team **out);
/* Frees the threads. Nobody may have taken the team. */
void team_close(struct team **team);
unsigned team_threads(const struct team *team);
void *team_memory(const struct team *team, unsigned worker);
/* Returns 1 if the team is the caller's until team_give_back(). Returns 0 if another thread has it,
 * and in a forked child, which has no threads of the team. The caller then works alone. */
int team_take(struct team *team);
void team_give_back(struct team *team);
/* Calls work(context, i) for i = 0..threads - 1. Each call has its own thread, and call 0 has the
 * caller's. Returns when all calls have returned. The caller has taken the team. */
void team_run(struct team *team, team_work_fn *work, void *context);
#endif
