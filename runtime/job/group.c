/* SPDX-License-Identifier: BSD-3-Clause
 * The groups of a root, and the ranks of the root in each of them; see group.h. */
#include "job/group.h"
#include "job/state.h"
#include <stdlib.h>
#include <string.h>

struct group {
	uint32_t number;
	int color;
	int left;     /* 1 if the program has finalized the group */
	int *root_of; /* [rank of the group]: its rank in the root */
	/* [rank of the root]: its rank in the group, or -1 if it is not in the group */
	int *rank_of;
};

int group_open(sluice_job *job, sluice_job *root, uint32_t number, int color, const int *roots,
	       int n)
{
	struct group *group = calloc(1, sizeof(*group));

	if (group) {
		group->root_of = malloc((size_t)n * sizeof(*group->root_of));
		group->rank_of = malloc((size_t)root->size * sizeof(*group->rank_of));
	}
	job->root = root;
	job->group.ranks = group;
	if (!group || !group->root_of || !group->rank_of)
		return fail(SLUICE_ENOMEM, "no memory for a group of %d ranks", n);
	group->number = number;
	group->color = color;
	for (int r = 0; r < root->size; r++)
		group->rank_of[r] = -1;
	for (int r = 0; r < n; r++) {
		group->root_of[r] = roots[r];
		group->rank_of[roots[r]] = r;
	}
	job->group.imm = imm_of_group(number);
	job->group.cookie = cookie_of_group(number);
	return 0;
}

void group_close(sluice_job *job)
{
	if (!job->group.ranks)
		return;
	free(job->group.ranks->root_of);
	free(job->group.ranks->rank_of);
	free(job->group.ranks);
	job->group.ranks = NULL;
}

int group_rank_of(const sluice_job *job, int root_rank)
{
	return job->group.ranks ? job->group.ranks->rank_of[root_rank] : root_rank;
}

int group_root_rank(const sluice_job *job, int rank)
{
	return job->group.ranks ? job->group.ranks->root_of[rank] : rank;
}

int group_color(const sluice_job *job)
{
	return job->group.ranks->color;
}

void group_leave(sluice_job *job)
{
	job->group.ranks->left = 1;
}

/* ---- all groups of a root -------------------------------------------------- */

sluice_job *groups_at(const sluice_job *root, uint32_t number)
{
	return number < GROUPS_MAX ? root->groups.at[number] : NULL;
}

sluice_job *groups_next(sluice_job *root, uint32_t *at)
{
	uint32_t g = *at;

	if (!g) {
		*at = 1;
		return root;
	}
	while (g < root->groups.end && !root->groups.at[g])
		g++;
	*at = g + 1;
	return g < root->groups.end ? root->groups.at[g] : NULL;
}

void groups_free_numbers(const sluice_job *root, uint8_t bits[GROUPS_BYTES])
{
	memset(bits, 0, GROUPS_BYTES);
	for (uint32_t g = 1; g < GROUPS_MAX; g++)
		if (!root->groups.at[g])
			bits[g / 8] |= (uint8_t)(1 << g % 8);
}

void groups_add(sluice_job *job)
{
	struct groups *groups = &job->root->groups;
	const uint32_t number = job->group.ranks->number;

	TOKEN_HELD(job);
	groups->at[number] = job;
	if (groups->end <= number)
		groups->end = number + 1;
}

static void drop_group(struct groups *groups, uint32_t number)
{
	groups->at[number] = NULL;
	while (groups->end > 1 && !groups->at[groups->end - 1])
		groups->end--;
}

void groups_drop(const sluice_job *job)
{
	TOKEN_HELD(job);
	drop_group(&job->root->groups, job->group.ranks->number);
}

sluice_job *groups_take(sluice_job *root)
{
	struct groups *groups = &root->groups;
	sluice_job *group = groups->end > 1 ? groups->at[groups->end - 1] : NULL;

	if (group)
		drop_group(groups, groups->end - 1);
	return group;
}

int groups_open(const sluice_job *root)
{
	int n = 0;

	for (uint32_t g = 1; g < root->groups.end; g++)
		n += root->groups.at[g] && !root->groups.at[g]->group.ranks->left;
	return n;
}
