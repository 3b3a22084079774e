/* SPDX-License-Identifier: BSD-3-Clause
 * Calls of all ranks during which one rank finds no memory: for each allocation of the call, all
 * ranks learn of it, and none waits for another. */
#include "base/error.h"
#include "ranks.h"
#include "cases.h"
#include "job/state.h"
#include "rdma/region.h"
#include "sluice_region.h"
#include "thinned.h"
#include <stdatomic.h>
#include <string.h>

enum { ALLOCATIONS_MOST = 1000, ALLOWED_MS = 10000 };

static _Thread_local int left = -1; /* allocations until one fails; -1: none fails */
static int refused;                 /* 1: an allocation has failed */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
int __real_region_open(size_t bytes, unsigned access, const char *name, struct region **out);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
int __wrap_region_open(size_t bytes, unsigned access, const char *name, struct region **out);

static int is_refused(void)
{
	const int now = left == 0;

	refused |= now;
	left -= left >= 0;
	return now;
}

void *__wrap_malloc(size_t bytes)
{
	return is_refused() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return is_refused() ? NULL : __real_calloc(n, bytes);
}

int __wrap_region_open(size_t bytes, unsigned access, const char *name, struct region **out)
{
	return is_refused() ? (fail)(SLUICE_ENOMEM, "no memory for region %s", name) :
			      __real_region_open(bytes, access, name, out);
}

/* In shared memory. */
struct shortage {
	int (*call)(sluice_job *job);
	const char *mesh; /* SLUICE_MESH */
	int poor;         /* rank */
	int at;           /* the number of the allocation that fails on the poor rank, from 0 */
	int refused;      /* 1: the call made this allocation */
	int rc[RANKS_MAX];
	atomic_int returned; /* ranks that have returned from the call */
};

static int run_short(int rank, void *argument)
{
	struct shortage *s = argument;

	setenv("SLUICE_MESH", s->mesh, 1);
	log_capture();
	sluice_job *job = rank_join(NULL);
	be_impatient(job, ALLOWED_MS);
	if (rank == s->poor)
		left = s->at;
	s->rc[rank] = s->call(job);
	if (rank == s->poor)
		s->refused = refused;
	/* Otherwise the others learn of the failure when this rank leaves the job. */
	atomic_fetch_add(&s->returned, 1);
	while (atomic_load(&s->returned) < sluice_size(job))
		sleep_ms(1);
	CHECK(s->rc[rank] != SLUICE_ETIMEDOUT);
	CHECK(!s->rc[rank] || *sluice_last_error());
	sluice_finalize(&job);
	return 0;
}

static void refuse_each(int ranks, const char *mesh, int poor, int (*call)(sluice_job *job))
{
	struct shortage *s = shared_memory(sizeof(*s));
	int met = 0;

	*s = (struct shortage){ .call = call, .mesh = mesh, .poor = poor, .refused = 1 };
	for (; s->refused; s->at++) {
		if (repeated((size_t)s->at, 5) || thinned((size_t)s->at, 10))
			continue;
		s->refused = 0;
		atomic_store(&s->returned, 0);
		run_ranks(ranks, run_short, s);
		for (int r = 0; r < ranks; r++)
			if (!s->rc[r] != !s->rc[poor] || (!s->refused && s->rc[r]))
				fail_msg("allocation %d: rank %d returned %d, but rank %d %d",
					 s->at, r, s->rc[r], poor, s->rc[poor]);
		met += s->rc[poor] != 0;
		assert_in_range(s->at, 0, ALLOCATIONS_MOST);
	}
	print_message("%d of %d allocations are needed\n", met, s->at - 1);
	assert_true(met > 0);
}

static int open_region(sluice_job *job)
{
	sluice_region *region = NULL;
	const int rc = sluice_region_open(job, 5000, &region);

	left = -1;
	sluice_region_close(&region);
	return rc;
}

TEST(region__one_rank_without_memory__all_ranks_refuse_it)
{
	refuse_each(2, "64", 1, open_region);
}

TEST(region_of_ranks_that_connect_for_it__one_without_memory__all_ranks_refuse_it)
{
	refuse_each(4, "2", 1, open_region);
}

/* Ranks that need nothing from the poor one may get the group before it fails. */
static int make_group(sluice_job *job)
{
	sluice_job *group = NULL;
	int rc = sluice_split(job, 0, 0, &group);

	left = -1;
	if (!rc)
		rc = sluice_barrier(group);
	sluice_finalize(&group);
	return rc;
}

TEST(group__one_rank_without_memory__all_ranks_refuse_it)
{
	refuse_each(2, "64", 1, make_group);
}

TEST(group_with_hubs__one_member_without_memory__all_ranks_refuse_it)
{
	refuse_each(4, "2", 1, make_group);
}

TEST(group_with_hubs__a_hub_without_memory__all_ranks_refuse_it)
{
	refuse_each(4, "2", 0, make_group);
}
