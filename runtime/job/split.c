/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_split(): makes groups of a job's ranks, and ends them; see group.h. All ranks of the
 * parent agree on the members of each group and on one number for all groups of the call. The ranks
 * of a group then exchange the descriptors of their control lines through the parent's messages,
 * and do not need the parent any more. */
#include "base/bytes.h"
#include "base/log.h"
#include "job/collective.h"
#include "job/connect.h"
#include "job/describe.h"
#include "job/hubs.h"
#include "job/members.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "job/split.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The row of a rank: color i32, key i32, and a bit for each number that is free on the rank. */
enum { AT_COLOR = 0, AT_KEY = 4, AT_FREE = 8, ROW = AT_FREE + GROUPS_BYTES };

static int color_of(const uint8_t *rows, int rank)
{
	return (int)get_le32(rows + (size_t)rank * ROW + AT_COLOR);
}

static int sort_key_of(const uint8_t *rows, int rank)
{
	return (int)get_le32(rows + (size_t)rank * ROW + AT_KEY);
}

/* Returns 1 if rank a of the parent precedes rank b in the group. Servers come last. */
static int is_before(const sluice_job *parent, const uint8_t *rows, int a, int b)
{
	const int a_serves = a >= parent->workers, b_serves = b >= parent->workers;

	if (a_serves != b_serves)
		return b_serves;
	if (sort_key_of(rows, a) != sort_key_of(rows, b))
		return sort_key_of(rows, a) < sort_key_of(rows, b);
	return a < b;
}

/* The groups to be made: for each rank of the parent, its rank in its group, and the size and the
 * servers of that group. */
struct plan {
	const uint8_t *rows;
	int mesh;
	struct planned {
		int rank, size, servers;
	} at[];
};

static struct plan *plan_groups(const sluice_job *parent, const uint8_t *rows)
{
	const int n = parent->size;
	struct plan *plan = calloc(1, sizeof(*plan) + (size_t)n * sizeof(plan->at[0]));

	if (!plan)
		return NULL;
	plan->rows = rows;
	plan->mesh = parent->settings.mesh;
	for (int r = 0; r < n; r++)
		for (int other = 0; other < n; other++) {
			if (color_of(rows, other) != color_of(rows, r))
				continue;
			plan->at[r].rank += is_before(parent, rows, other, r);
			plan->at[r].size++;
			plan->at[r].servers += other >= parent->workers;
		}
	return plan;
}

/* Returns 1 if both ranks get into the same group, and connect when it is made. */
static int begin_connected(const void *context, int a, int b)
{
	const struct plan *plan = context;
	const struct planned *x = &plan->at[a], *y = &plan->at[b];

	return color_of(plan->rows, a) >= 0 && color_of(plan->rows, a) == color_of(plan->rows, b) &&
	       hubs_would_connect(x->size, x->servers, plan->mesh, x->rank, y->rank);
}

/* Returns the lowest number that is free on all ranks of the parent, or 0. */
static uint32_t agreed_number(const sluice_job *parent, const uint8_t *rows)
{
	for (uint32_t g = 1; g < GROUPS_MAX; g++) {
		int is_free = 1;

		for (int r = 0; r < parent->size; r++)
			is_free &= rows[(size_t)r * ROW + AT_FREE + g / 8] >> g % 8 & 1;
		if (is_free)
			return g;
	}
	return 0;
}

static void group_free(sluice_job *group)
{
	for (int p = 0; group->peers && p < group->size; p++)
		if (group->peers[p].control)
			group->peers[p].endpoint->transport->ops->remote_close(
				&group->peers[p].control);
	hubs_close(group);
	lines_close(&group->lines);
	messages_close(&group->messages);
	members_close(group);
	clients_close(&group->clients);
	free(group->peers);
	free(group->records);
	group_close(group);
	free(group);
}

/* Copies the peers of the group from the parent. members: the ranks of the group in the parent. */
static int fill(sluice_job *group, const sluice_job *parent, const int *members)
{
	group->process = parent->process;
	group->sim_rank = parent->sim_rank;
	group->settings = parent->settings;
	group->budget = parent->budget;
	group->transports = parent->transports;
	group->membership_epoch = 1;
	clients_init(&group->clients);
	group->peers = calloc((size_t)group->size, sizeof(*group->peers));
	group->records = calloc((size_t)group->size, sizeof(*group->records));
	if (!group->peers || !group->records)
		return fail(SLUICE_ENOMEM, "no memory for a group of %d ranks", group->size);
	for (int r = 0; r < group->size; r++) {
		if (messages_meet(parent, members[r]))
			group->peers[r].endpoint = parent->peers[members[r]].endpoint;
		group->peers[r].state = parent->peers[members[r]].state;
		group->records[r] = parent->records[members[r]];
		group->workers += members[r] < parent->workers;
		if (members[r] == parent->rank)
			group->rank = r;
	}
	group->servers = group->size - group->workers;
	if (!group->workers)
		return fail(SLUICE_EINVAL,
			    "sluice_split: the group of color %d has dedicated servers only: give "
			    "at least one worker that color",
			    group_color(group));
	int rc = members_open(group);
	if (!rc)
		rc = hubs_open(group);
	if (!rc)
		rc = messages_open(group);
	if (!rc)
		rc = lines_open(group);
	return rc ? rc : lines_open_outbox(group);
}

/* From this call on, events reach the group. It must precede the exchange of the descriptors of the
 * lines, because peers may write to the lines as soon as they have the descriptors. */
static void expose(sluice_job *group)
{
	progress_take(group);
	for (int r = 0; r < group->size; r++)
		if (group->peers[r].endpoint)
			messages_connect(group, r, 1);
	groups_add(group);
	progress_release(group);
}

/* Sends the descriptors of this rank's lines to the members, and opens the members' lines. Every
 * rank of the parent takes part, and passes group NULL if it gets no group. members are ranks of
 * the parent. */
static int exchange_lines(sluice_job *parent, sluice_job *group, const int *members, int rc)
{
	const size_t bytes = (size_t)parent->size * REGION_DESCRIPTOR_BYTES;
	uint8_t *mine = calloc(1, bytes), *theirs = calloc(1, bytes);

	if (!rc && (!mine || !theirs))
		rc = fail(SLUICE_ENOMEM, "sluice_split: no memory for %d ranks", parent->size);
	for (int r = 0; group && r < group->size && !rc; r++)
		if (group->peers[r].endpoint)
			rc = describe_to_peer(group, r, group->lines.own,
					      mine + (size_t)members[r] * REGION_DESCRIPTOR_BYTES);
	rc = collective_agree(parent, rc, "split the job");
	if (rc) {
		free(mine);
		free(theirs);
		return rc;
	}
	if (group)
		expose(group);
	rc = collective_run(parent, COLLECTIVE_SPLIT, mine, REGION_DESCRIPTOR_BYTES,
			    REGION_DESCRIPTOR_BYTES, theirs);
	progress_take(parent);
	for (int r = 0; group && r < group->size && !rc; r++)
		if (group->peers[r].endpoint)
			rc = connect_lines(group, r,
					   theirs + (size_t)members[r] * REGION_DESCRIPTOR_BYTES);
	progress_release(parent);
	free(mine);
	free(theirs);
	return collective_agree(parent, rc, "split the job");
}

/* Ends a group that could not be made. The peers may have completed the last round of the parent,
 * although this rank has not, and then have the group and wait for this rank, so they must learn
 * that it does not take part. They may write to the lines until the root is finalized. */
static void abandon_group(sluice_job *root, sluice_job *group, uint32_t number, int rc)
{
	char why[ERROR_TEXT_BYTES];

	progress_take(root);
	const int exposed = groups_at(root, number) == group;
	if (exposed && !group->failure.code) {
		snprintf(why, sizeof(why), "%s", sluice_last_error());
		job_fail(group, rc, group->rank, "%s cannot take part in the group: %s",
			 rank_text(group, group->rank), why);
	}
	if (exposed)
		group_leave(group);
	progress_release(root);
	if (!exposed)
		group_free(group);
}

/* Makes the group of this rank, without connecting it to its peers. */
static int make(sluice_job *parent, const uint8_t *rows, uint32_t number, int *members,
		sluice_job **out)
{
	const int color = color_of(rows, parent->rank);
	sluice_job *group = calloc(1, sizeof(*group)), *root = parent->root;
	int *roots = calloc((size_t)parent->size, sizeof(*roots));
	int n = 0, rc = 0;

	for (int r = 0; r < parent->size; r++) { /* insertion sort */
		int at = n;

		if (color_of(rows, r) != color)
			continue;
		for (; at > 0 && is_before(parent, rows, r, members[at - 1]); at--)
			members[at] = members[at - 1];
		members[at] = r;
		n++;
	}
	if (!group || !roots)
		rc = fail(SLUICE_ENOMEM, "sluice_split: no memory for a group of %d ranks", n);
	for (int r = 0; r < n && !rc; r++)
		roots[r] = group_root_rank(parent, members[r]);
	if (!rc) {
		group->size = n;
		rc = group_open(group, root, number, color, roots, n);
	}
	if (!rc)
		rc = fill(group, parent, members);
	free(roots);
	*out = group;
	return rc;
}

static int check_split(const sluice_job *job, const sluice_job *const *sub)
{
	int rc = job_check(job, "sluice_split");

	if (!rc && !sub)
		rc = fail(SLUICE_EINVAL, "sluice_split: sub is NULL");
	if (!rc && job_elastic(job))
		rc = fail(SLUICE_ENOSUPP,
			  "sluice_split: a job with on_failure=continue cannot be split, because a "
			  "group cannot continue without a lost rank; use on_failure=abort");
	return rc;
}

static int split_job(sluice_job *parent, int color, int key, sluice_job **sub)
{
	int rc = check_split(parent, (const sluice_job *const *)sub);
	if (rc)
		return rc;
	uint8_t mine[ROW], *rows = malloc((size_t)parent->size * ROW);
	int *members = calloc((size_t)parent->size, sizeof(*members));
	sluice_job *group = NULL;
	uint32_t number = 0;

	error_hold(); /* held until collective_agree() shows which other ranks have this error */
	if (!rows || !members)
		rc = fail(SLUICE_ENOMEM, "sluice_split: no memory to gather from %d ranks",
			  parent->size);
	put_le32(mine + AT_COLOR, color < 0 ? UINT32_MAX : (uint32_t)color);
	put_le32(mine + AT_KEY, (uint32_t)key);
	progress_take(parent);
	groups_free_numbers(parent->root, mine + AT_FREE);
	progress_release(parent);
	rc = collective_agree(parent, rc, "split the job");
	if (!rc)
		rc = collective_run(parent, COLLECTIVE_SPLIT, mine, 0, ROW, rows);
	if (!rc) {
		struct plan *plan = plan_groups(parent, rows);

		number = agreed_number(parent, rows);
		if (!plan)
			rc = fail(SLUICE_ENOMEM, "sluice_split: no memory for a plan");
		rc = collective_agree(parent, rc, "split the job");
		if (!rc)
			rc = connect_pairs(parent, begin_connected, plan, "the group");
		free(plan);
		error_hold();
		if (!rc && !number)
			rc = fail(SLUICE_EINVAL,
				  "sluice_split: the ranks are already in %d groups: finalize some "
				  "first",
				  GROUPS_MAX - 1);
		if (!rc && color >= 0)
			rc = make(parent, rows, number, members, &group);
		rc = exchange_lines(parent, rc ? NULL : group, members, rc);
	}
	free(rows);
	free(members);
	if (!rc && group && group->hubs)
		rc = connect_rows(group);
	if (rc) {
		if (group)
			abandon_group(parent->root, group, number, rc);
		return rc;
	}
	if (group)
		log_line(LOG_INFO, "runtime", "group %d: rank %d of %d, %d workers", color,
			 group->rank, group->size, group->workers);
	*sub = group;
	return 0;
}

int sluice_split(sluice_job *job, int color, int key, sluice_job **sub)
{
	struct error_scope scope;

	error_begin(&scope);
	return error_end(&scope, split_job(job, color, key, sub));
}

/* Peers may write into the lines of the group until all its ranks have called this function. After
 * a failure, they may do so until the root is finalized. */
void group_finalize(sluice_job *group)
{
	const int open = clients_have_models(&group->clients);
	struct error_scope scope;

	error_begin(&scope);
	progress_take(group);
	if (open && !group->failure.code)
		job_fail(group, SLUICE_EINVAL, group->rank,
			 "sluice_finalize of a group with a model still open: call "
			 "sluice_model_close first");
	const int finalizing = failure_finalize(group);
	progress_release(group);
	int rc = finalizing ? collective_run(group, COLLECTIVE_FINALIZE, NULL, 0, 0, NULL) :
			      SLUICE_EPEER;
	if (!rc && group->hubs) {
		progress_take(group);
		messages_stop(group);
		progress_release(group);
		rc = collective_run(group, COLLECTIVE_FINALIZE, NULL, 1, 0, NULL);
	}
	progress_take(group);
	group_leave(group);
	if (!rc)
		groups_drop(group);
	sluice_job *root = group->root;
	progress_release(root);
	if (!rc)
		group_free(group);
	error_end(&scope, rc);
}

void groups_free(sluice_job *root)
{
	for (sluice_job *group; (group = groups_take(root));)
		group_free(group);
}
