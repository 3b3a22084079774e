/* SPDX-License-Identifier: BSD-3-Clause
 * Groups: jobs of some of a job's ranks. A group has its own numbering of ranks, control lines,
 * messages, models, regions and failure. It shares everything that reaches the peers with its root,
 * the job of sluice_init(): connections, progress token and thread, heartbeat, timers. So a group
 * costs memory, but no thread, and no connection that the root already has. A group of more than
 * SLUICE_MESH ranks has its own hubs (hubs.h).
 *
 * A root numbers its groups from 1, and all ranks of a group use the same number, which
 * sluice_split() agrees on. Notifies and GETs of a group carry it (job_imm(), job_cookie()).
 * progress.c finds the group by the number, and translates the peer, whom the transports know by
 * its rank in the root. peers.c informs every group that contains a lost rank. A failure of a group
 * does not affect its root or other groups.
 *
 * group.c owns struct group, struct group_place and struct groups. split.c makes and ends groups.
 */
#ifndef RUNTIME_GROUP_H
#define RUNTIME_GROUP_H
#include "job/lines.h"
#include "sluice.h"
#include <stdint.h>

struct group;

/* The data of a group in its job. The bits distinguish its notifies and GETs from those of other
 * groups. */
struct group_place {
	struct group *ranks;
	uint32_t imm;
	uint64_t cookie;
};

struct groups {
	sluice_job *at[GROUPS_MAX]; /* groups by number; at[0] is not used */
	uint32_t end;               /* one more than the highest number in use; 0: none is in use */
};

/* Records the ranks of a group. roots[] has the rank in the root for each of the group's n ranks.
 * Returns 0 or SLUICE_ENOMEM. */
int group_open(sluice_job *group, sluice_job *root, uint32_t number, int color, const int *roots,
	       int n);
void group_close(sluice_job *group);
/* Returns the rank in the group (or in the root itself) of a rank of the root, or -1 if the group
 * does not contain it. */
int group_rank_of(const sluice_job *group, int root_rank);
/* Returns the rank in the root of a rank of the group (or of the root itself). */
int group_root_rank(const sluice_job *group, int rank);
int group_color(const sluice_job *group);
/* Called when the program has finalized this group. A peer may still write to the group's
 * memory. */
void group_leave(sluice_job *group);

/* ---- functions of a root (except groups_open(), the token must be held) ---- */
/* Returns the group of this number, or NULL if this rank has none. */
sluice_job *groups_at(const sluice_job *root, uint32_t number);
/* Iterates over the root itself and then each of its groups; returns NULL after the last. *at must
 * be 0 before the first call. */
sluice_job *groups_next(sluice_job *root, uint32_t *at);
/* Sets a bit for each number that is free on this rank. */
enum { GROUPS_BYTES = GROUPS_MAX / 8 };
void groups_free_numbers(const sluice_job *root, uint8_t bits[GROUPS_BYTES]);
/* From this call on, events reach the group. */
void groups_add(sluice_job *group);
void groups_drop(const sluice_job *group);
/* Removes one group from a root that is being freed. Returns the group, or NULL if none is left.
 * Token not held. */
sluice_job *groups_take(sluice_job *root);
/* Returns the number of groups that the program has not finalized. */
int groups_open(const sluice_job *root);
#endif
