/* SPDX-License-Identifier: BSD-3-Clause
 * on_failure=continue: workers are killed or stopped at any moment, and the others continue as the
 * oracle of survivors.h computes. Without a server or without workers the job fails. */
#include "survivors.h"
#include "thinned.h"
#include "cases.h"
#include <signal.h>
#include <sys/mman.h>

static void run(struct plan *p)
{
	int status[RANKS_MAX];
	run_ranks_status(RANKS, survivors_train, p, lose, 60000, status);
	survivors_judge(p, status);
	munmap(p, sizeof *p);
}

/* ---- killed ---------------------------------------------------------------- */

TEST(kill__any_worker_at_any_moment__fifty_times__others_go_on_and_equal_the_oracle)
{
	for (unsigned round = 0; round < 50; round++) {
		if (repeated(round, 11)) /* not a divisor of 2, 3 or WORKERS, so all kinds remain */
			continue;
		struct plan *p = new_plan(round % 3 == 1, 1u << round % WORKERS);
		p->kill_at = 1 + (uint64_t)(35 * (0.5f + noise(1, round, 0, 0) / 2));
		p->kill_after_us = (int)(700 * (1 + noise(1, round, 0, 1)));
		p->with_sums = round % 2;
		run(p);
	}
}

TEST(kill__two_or_three_at_once__the_others_go_on)
{
	static const unsigned sets[] = { 0x3, 0x6, 0xc, 0x9, 0x7, 0xe, 0xd };
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		if (thinned(i, 5)) /* one of each recipe, with and without sums */
			continue;
		struct plan *p = new_plan((int)i & 1, sets[i]);
		p->with_sums = i % 3 != 0;
		run(p);
	}
}

static void die_in_mails(int most)
{
	for (int worker = 0; worker < WORKERS; worker++)
		for (int mails = 1; mails <= most; mails++) {
			if (thinned((size_t)(worker * RANKS + mails), 5))
				continue;
			struct plan *p = new_plan(0, 1u << worker);
			p->with_sums = 1;
			p->dies_in_mail = mails;
			run(p);
		}
}

TEST(die__in_the_middle_of_a_collective__all_survivors_get_the_same_sums)
{
	die_in_mails(RANKS - 1);
}

/* The worker writes to the servers only, and dies after the first one or the second one. */
TEST(die__in_the_middle_of_a_collective_over_hubs__all_survivors_get_the_same_sums)
{
	setenv("SLUICE_MESH", "2", 1);
	die_in_mails(SERVERS);
	unsetenv("SLUICE_MESH");
}

/* ---- stopped --------------------------------------------------------------- */

TEST(stop__a_worker__is_dropped_and_learns_it_and_harms_nobody)
{
	static const unsigned sets[] = { 0x2, 0x6, 0x1, 0x4, 0x8 };
	size_t n = slowness() > 1 ? 2 : sizeof sets / sizeof *sets;
	for (size_t i = 0; i < n; i++) {
		struct plan *p = new_plan(sets[i] == 0x2, sets[i]);
		p->stops = 1;
		p->with_sums = sets[i] == 0x4 || sets[i] == 0x6;
		run(p);
	}
}

TEST(stop__a_worker_in_the_middle_of_a_delta_that_is_then_overwritten__learns_it_too)
{
	for (int shard = 0; shard < SHARDS; shard++) {
		struct plan *p = new_plan(0, 1u << shard);
		p->stops = p->stops_itself = 1;
		p->stops_in_pull = 1 + shard;
		run(p);
	}
}

/* ---- losses that end the job ----------------------------------------------- */

static int end_with_a_server(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	struct plan *plan = argument;
	log_capture();
	sluice_job *job = survivors_join(plan);
	sluice_model *model = survivors_open(job, params);
	int rc = sluice_is_worker(job) ? 0 : sluice_serve(model);
	for (uint64_t step = 1; !rc && step < 1000000; step++) {
		rc = try_step(model, grad, params);
		if (rank < WORKERS)
			atomic_store(&plan->at[rank], step);
	}
	CHECK(rc == SLUICE_EPEER);
	if (plan->victims == 15)
		CHECK(error_says("is lost", NULL));
	else if (plan->victims == 1 << 4)
		CHECK(error_says("rank 4 (node n3)", "is lost"));
	else
		CHECK(error_says("rank 5 (node n3)", "is lost"));
	return survivors_leave(job, model);
}

static void end_by_losing(unsigned victims)
{
	int status[RANKS_MAX];
	struct plan *p = new_plan(0, victims);
	p->watched = 0;
	run_ranks_status(RANKS, end_with_a_server, p, lose, 60000, status);
	check_ends(status, victims);
	munmap(p, sizeof *p);
}

TEST(kill__a_server__ends_the_job_naming_it)
{
	end_by_losing(1u << 4);
	end_by_losing(1u << 5);
}

TEST(kill__all_workers__ends_the_servers)
{
	end_by_losing(15);
}

TEST_IN_RANKS(init__continue_without_servers__fails_EINVAL_saying_why, 2)
{
	sluice_job_attr attr = { .size = sizeof attr, .on_failure = SLUICE_CONTINUE };
	sluice_job *job = NULL;
	log_capture();
	CHECK(sluice_init(&attr, &job) == SLUICE_EINVAL && !job);
	CHECK(error_says("on_failure=continue needs dedicated servers", "servers=N"));
	attr = (sluice_job_attr){ .size = sizeof attr, .on_failure = 3, .servers = 1 };
	CHECK(sluice_init(&attr, &job) == SLUICE_EINVAL && error_says("on_failure=3", NULL));
	return 0;
}

TEST_IN_RANKS(init__policies_that_differ__are_refused_on_all, 3)
{
	sluice_job_attr attr = { .size = sizeof attr,
				 .servers = 1,
				 .on_failure = rank == 1 ? SLUICE_CONTINUE : SLUICE_ABORT };
	sluice_job *job = NULL;
	log_capture();
	CHECK(sluice_init(&attr, &job) == SLUICE_EPEER);
	CHECK(error_says("on_failure=continue", "on_failure=abort"));
	return 0;
}
