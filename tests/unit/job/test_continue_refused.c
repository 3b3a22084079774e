/* SPDX-License-Identifier: BSD-3-Clause
 * on_failure=continue: the pushes of a worker that is lost, or that was dropped and continues to
 * push. They count up to the last step to which they were added. Later ones are refused, counted as
 * refused, and do no harm. */
#include "survivors.h"
#include "job/progress_token.h"
#include "shard/reduce.h"
#include "shard/state.h"
#include "cases.h"
#include "model/model.h"
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

/* Replaces check_same(), which does not expect lost ranks. */
static void check_same_among_living(sluice_job *job, const float *params)
{
	uint64_t mine = sluice_digest(params, COUNT * sizeof *params), all[WORKERS];
	int same = 0;
	CHECK_OK(sluice_gather(job, &mine, sizeof mine, all));
	for (int w = 0; w < WORKERS; w++) {
		CHECK(all[w] == mine || !all[w]);
		same += all[w] == mine;
	}
	CHECK(same == sluice_living(job));
}

enum { LAST_PUSH = 10 };

/* Numbers of pushes that each shard has added, for a worker that must end after its own push. */
static struct added {
	atomic_int pushes[SHARDS];
} * added;
static sluice_model *serving; /* used on a server */

void __real_reduction_add(struct reduction *r, const uint32_t *index, const float *value,
			  uint32_t n);
void __wrap_reduction_add(struct reduction *r, const uint32_t *index, const float *value,
			  uint32_t n);
void __wrap_reduction_add(struct reduction *r, const uint32_t *index, const float *value,
			  uint32_t n)
{
	__real_reduction_add(r, index, value, n);
	for (uint32_t i = 0; serving && added && i < serving->n_own; i++)
		if (&serving->shards[i].reduction == r)
			atomic_fetch_add(&added->pushes[serving->shards[i].id], 1);
}

static int push_and_be_lost(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT];
	struct plan *plan = argument;
	log_capture();
	sluice_job *job = survivors_join(plan);
	sluice_model *model = survivors_open(job, params);
	int victim = plan->victims == 1 ? 0 : 1, late = victim ? 0 : 3;
	serving = sluice_is_worker(job) ?
			  NULL :
			  model; /* no rank pushes before all have opened the model */
	CHECK_OK(sluice_barrier(job));
	if (!sluice_is_worker(job))
		CHECK_OK(sluice_serve(model));
	for (uint64_t step = 1; sluice_is_worker(job) && step <= LAST_PUSH + 2; step++) {
		for (uint64_t i = 0; i < COUNT; i++)
			grad[i] = worker_gradient(step, (uint64_t)rank, i);
		for (int waited = 0;
		     rank == late && step == LAST_PUSH && sluice_living(job) == WORKERS; waited++) {
			CHECK(waited < 60000);
			sleep_ms(1);
		}
		CHECK_OK(sluice_push(model, grad));
		if (rank == victim && step == LAST_PUSH) {
			/* Rank 0's push is added before all others of its step. Rank 1's is not
			 * added before that of rank 0, which is late. */
			for (int s = 0; s < SHARDS; s++)
				for (int waited = 0;
				     !victim && waited < 60000 &&
				     atomic_load(&added->pushes[s]) <= WORKERS * (LAST_PUSH - 1);
				     waited++)
					sleep_ms(1);
			kill(getpid(), SIGKILL);
		}
		CHECK_OK(sluice_pull(model, params));
	}
	survivors_note(job, model, rank);
	return survivors_leave(job, model);
}

static void lose_after_push(unsigned victims, unsigned counted, uint64_t refused)
{
	int status[RANKS_MAX];
	struct plan *p = new_plan(0, victims);
	added = shared_memory(sizeof *added);
	run_ranks_status(RANKS, push_and_be_lost, p, NULL, 60000, status);
	check_ends(status, victims);
	for (int s = 0; s < SHARDS; s++) {
		assert_int_equal(p->counted[s][LAST_PUSH], counted);
		assert_int_equal(p->divisor[s][LAST_PUSH], __builtin_popcount(counted));
		assert_int_equal(p->counted[s][LAST_PUSH + 1], 15 & ~victims);
		assert_int_equal(p->refused[WORKERS + s], refused);
	}
	munmap(p, sizeof *p);
}

TEST(lose__after_its_push_was_added__it_counts_in_that_step_and_never_again)
{
	lose_after_push(1, 15, 0);
}

TEST(lose__before_its_push_was_added__it_is_refused_and_counted_as_such)
{
	lose_after_push(2, 15 & ~2u, 1);
}

/* Simulates a worker that ignores the rules: although it was dropped, it pushes more than its slots
 * hold. */
static void push_regardless(sluice_model *model, int times)
{
	static uint8_t nonsense[64] = { 0x5a };
	progress_take(model->job); /* the progress thread writes to the same mailboxes */
	for (int i = 0; i < times; i++)
		for (uint32_t s = 0; s < SHARDS; s++) {
			const struct holder *to = home_holder(model->home, s, 0);
			struct endpoint *e = to->endpoint;
			struct transfer t = { .kind = TRANSFER_PUT_NOTIFY,
					      .remote = to->window,
					      .offset = to->at.slots_offset,
					      .local = nonsense,
					      .bytes = sizeof nonsense,
					      .imm = imm_make(IMM_PUSH, model->channel + s) };
			CHECK_OK(e->transport->ops->post(e, &t));
		}
	progress_release(model->job);
}

static int wake_up_and_push(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	struct plan *plan = argument;
	log_capture();
	sluice_job *job = survivors_join(plan);
	sluice_model *model = survivors_open(job, params);
	if (!sluice_is_worker(job))
		CHECK_OK(sluice_serve(model));
	for (uint64_t step = 1; sluice_is_worker(job) && step <= 40; step++) {
		atomic_store(&plan->at[rank], step);
		if (rank == 1 && step == 20) {
			raise(SIGSTOP);
			push_regardless(model, 10);
			atomic_store(&plan->done, 1);
			return dropped_too_late(job, model, params, sluice_push(model, grad));
		}
		for (int waited = 0; step == 30 && !atomic_load(&plan->done); waited++) {
			CHECK(waited < 60000);
			sleep_ms(1);
		}
		CHECK_OK(sluice_push(model, grad));
		CHECK_OK(sluice_pull(model, params));
		if (step == 40)
			check_same_among_living(job, params);
	}
	survivors_note(job, model, rank);
	return survivors_leave(job, model);
}

static void wake_it(const pid_t *pids, void *argument)
{
	struct plan *p = argument;
	wait_for_step(p, 0, 29); /* they only get there without the lost worker */
	kill(pids[1], SIGCONT);
}

TEST(wake__and_push_ten_times__all_are_refused_and_counted_and_nothing_breaks)
{
	int status[RANKS_MAX];
	struct plan *p = new_plan(0, 2);
	p->stops = 1;
	run_ranks_status(RANKS, wake_up_and_push, p, wake_it, 60000, status);
	check_ends(status, 0);
	assert_int_equal(p->refused[4], 10);
	assert_int_equal(p->refused[5], 10);
	assert_int_equal(atomic_load(&p->told), 1);
	munmap(p, sizeof *p);
}

/* The rank breaks the rules while it is a member, so it is dropped and the job continues. */
static int break_the_rules(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	struct plan *plan = argument;
	log_capture();
	sluice_job *job = survivors_join(plan);
	sluice_model *model = survivors_open(job, params);
	int rc = sluice_is_worker(job) ? 0 : sluice_serve(model);
	for (uint64_t step = 1; sluice_is_worker(job) && !rc && step <= 40; step++) {
		if (rank == 2 && step == 10)
			push_regardless(model, 1);
		/* No valid push must follow: on a busy machine it would overwrite the invalid bytes
		 * before they are read. */
		for (int waited = 0;
		     rank == 2 && step == 10 && !log_saw("dropped this rank", NULL, NULL, NULL);
		     waited++) {
			CHECK(waited < 60000);
			sleep_ms(1);
		}
		rc = try_step(model, grad, params);
	}
	if (rank == 2)
		return dropped_too_late(job, model, params, rc);
	CHECK_OK(rc);
	CHECK(sluice_living(job) == WORKERS - 1);
	CHECK(log_saw("rank 2 (node n2) is lost", "continues without it", NULL, NULL));
	plan->refused[rank] = (uint64_t)log_saw("rank 2 (node n2) is lost", "was refused", NULL,
						NULL);
	return survivors_leave(job, model);
}

TEST(push__nonsense__costs_the_worker_its_membership_and_nothing_else)
{
	struct plan *p = new_plan(0, 4);
	run_ranks(RANKS, break_the_rules, p);
	assert_true(p->refused[4] || p->refused[5]); /* the first to notice gives the reason */
	munmap(p, sizeof *p);
}
