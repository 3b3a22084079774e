/* SPDX-License-Identifier: BSD-3-Clause
 * Comparing complaints and digests of all workers, and naming ranks in a sentence. */
#include "tools/train/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_TEXT_BYTES = 128 };

/* Writes "rank 3" or "ranks 0-2,5": the ranks whose row in `all` equals `one` or, with unequal,
 * differs from it. Returns their number. */
static int name_ranks(const char *all, size_t bytes, int workers, const void *one, int unequal,
		      char *text)
{
	char list[RANKS_TEXT_BYTES] = "";
	size_t at = 0;
	int named = 0, first = -1;

	for (int rank = 0; rank <= workers; rank++) {
		int taken = rank < workers &&
			    !memcmp(all + (size_t)rank * bytes, one, bytes) == !unequal;

		if (taken && first < 0)
			first = rank;
		if (taken || first < 0)
			continue;
		named += rank - first;
		if (at + 32 > sizeof(list)) {
			strcpy(list + at, ",..."); /* at stays the same from now on */
		} else {
			at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%d", at ? "," : "",
					       first);
			if (rank - first > 1)
				at += (size_t)snprintf(list + at, sizeof(list) - at, "-%d",
						       rank - 1);
		}
		first = -1;
	}
	snprintf(text, RANKS_TEXT_BYTES + 8, named == 1 ? "rank %s" : "ranks %s", list);
	return named;
}

/* Returns the rows of all workers, or NULL if gathering failed, for which the library has reported
 * the reason. */
static char *gather(sluice_job *job, const void *mine, size_t bytes)
{
	char *all = calloc((size_t)sluice_workers(job), bytes);

	if (!all)
		fprintf(stderr, "sluice-train: rank %d: out of memory for gathering\n",
			sluice_rank(job));
	else if (sluice_gather(job, mine, bytes, all) == 0)
		return all;
	free(all);
	return NULL;
}

/* Returns 1 if this is the first rank with its row. */
static int is_first(const char *all, size_t bytes, int rank)
{
	for (int other = 0; other < rank; other++)
		if (!memcmp(all + (size_t)other * bytes, all + (size_t)rank * bytes, bytes))
			return 0;
	return 1;
}

int agree_on_complaints(sluice_job *job, const struct complaint *complaint)
{
	char mine[COMPLAINT_BYTES] = "", ranks[RANKS_TEXT_BYTES + 8];
	int workers = sluice_workers(job), result = 0;
	int said = 0; /* 1 if a worker has the same complaint */
	char *all;

	snprintf(mine, sizeof(mine), "%s", complaint->text);
	all = gather(job, mine, sizeof(mine));
	if (!all)
		return -1;
	for (int rank = 0; rank < workers; rank++) {
		const char *text = all + (size_t)rank * sizeof(mine);

		if (!*text)
			continue;
		result = -1;
		said |= !strcmp(text, mine);
		if (sluice_rank(job) != 0 || !is_first(all, sizeof(mine), rank))
			continue;
		if (name_ranks(all, sizeof(mine), workers, text, 0, ranks) == workers)
			fprintf(stderr, "sluice-train: %s\n", text);
		else
			fprintf(stderr, "sluice-train: %s: %s\n", ranks, text);
	}
	if (!sluice_is_worker(job) && *mine) {
		/* Rank 0 does not receive the complaints of a dedicated server. */
		if (!said)
			fprintf(stderr, "sluice-train: rank %d: %s\n", sluice_rank(job), mine);
		result = -1;
	}
	free(all);
	return result;
}

int agree_on_leader(sluice_job *job, int *leader_out, int *living_out)
{
	const char here = 1;
	int workers = sluice_workers(job), leader = -1, living = 0;
	char *all = gather(job, &here, sizeof(here));

	if (!all)
		return -1;
	for (int rank = workers - 1; rank >= 0; rank--)
		if (all[rank]) { /* the row of a lost worker is zero */
			leader = rank;
			living++;
		}
	free(all);
	*leader_out = leader;
	*living_out = living;
	return 0;
}

/* A row of agree_on_digest(). The row of a lost worker is zero. */
struct vote {
	uint64_t digest, here;
};

int agree_on_digest(sluice_job *job, uint64_t digest, uint64_t step)
{
	char ranks[RANKS_TEXT_BYTES + 8];
	struct vote mine = { digest, 1 }, expected = { 0, 0 };
	int workers = sluice_workers(job), most = 0, living = 0, leader = -1;
	struct vote *all = (struct vote *)(void *)gather(job, &mine, sizeof(mine));

	if (!all)
		return -1;
	for (int rank = workers - 1; rank >= 0; rank--) {
		int same = 0;

		if (!all[rank].here)
			continue;
		leader = rank;
		living++;
		for (int other = 0; other < workers; other++)
			same += all[other].here && all[other].digest == all[rank].digest;
		if (same >= most) {
			most = same;
			expected = all[rank];
		}
	}
	if (most < living && sluice_rank(job) == leader) {
		for (int rank = 0; rank < workers; rank++) /* marks lost workers, which are not
							      to be named */
			if (!all[rank].here)
				all[rank] = expected;
		name_ranks((const char *)all, sizeof(mine), workers, &expected, 1, ranks);
		fprintf(stderr,
			"sluice-train: replicas differ after step %llu: %s without the digest "
			"%016llx that %d of %d workers have\n",
			(unsigned long long)step, ranks, (unsigned long long)expected.digest, most,
			living);
	}
	free(all);
	return most < living ? -1 : 0;
}
