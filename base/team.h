/* SPDX-License-Identifier: BSD-3-Clause
 * A few threads that sleep between steps, each with some memory. A selector of
 * sluice_selector_open() owns a team. All models of a job share the job's. */
#ifndef BASE_TEAM_H
#define BASE_TEAM_H
#include <stddef.h>
#include <stdint.h>

struct team;
typedef void team_work_fn(void *context, unsigned worker);
/* A part writes only to its own elements and to its own entry of an array of results. It does not
 * call fail(), whose text belongs to the thread, nor anything that needs the progress token. */
typedef void team_part_fn(void *context, unsigned part, uint64_t begin, uint64_t end);

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
/* Calls work(context, i) for i = 0..threads - 1, in this order, and returns when all calls have
 * returned. The caller and the threads share the calls; a thread that wakes up late may get none. A
 * call must not wait for a later one, because one thread may make all of them. The caller has taken
 * the team. */
void team_run(struct team *team, team_work_fn *work, void *context);

/* TEAM_PARTS is the most parts that team_split() makes, and team_parts() the most that it makes
 * with this team, which may be NULL. */
enum { TEAM_PARTS = 16 };
/* The least number of elements in a part. Handing out a call takes about as long as reading them.
 */
enum { TEAM_LEAST = 1 << 15 };
unsigned team_parts(const struct team *team);
/* Cuts elements 0..n - 1 into consecutive parts that begin at multiples of `unit`, and calls
 * work(context, part, begin, end) for each, at the same time where possible. Takes and gives back
 * the team. Makes a single part, in the caller's thread, if n is too small for more, if the team is
 * taken, or if it is NULL. Returns the number of parts. The result of a loop must not depend on it.
 */
unsigned team_split(struct team *team, uint64_t n, uint64_t unit, team_part_fn *work,
		    void *context);
#endif
