/* SPDX-License-Identifier: BSD-3-Clause
 * on_failure=continue: checkpoints during which a worker is lost, and a restore after the loss. */
#include "survivors.h"
#include "thinned.h"
#include "checkpoint/checkpoint_folder.h"
#include "cases.h"
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static int go_on_from_it(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT];
	uint64_t at = 0;
	struct plan *plan = argument;
	log_capture();
	sluice_job *job = survivors_join(plan);
	sluice_model *model = survivors_open(job, params);
	if (!sluice_is_worker(job)) {
		CHECK_OK(sluice_serve(model));
	} else {
		CHECK_OK(sluice_set(model, SLUICE_LR,
				    0.125f)); /* all must get the rate of the checkpoint */
		CHECK_OK(sluice_restore(model, plan->dir, params, &at));
		CHECK(at && at % 5 == 0);
		CHECK(log_saw("made without this rank", NULL, NULL, NULL) ==
		      (int)(plan->victims >> rank & 1));
		for (uint64_t step = at + 1; step <= at + 5; step++) {
			for (uint64_t i = 0; i < COUNT; i++)
				grad[i] = worker_gradient(step, (uint64_t)rank, i);
			CHECK_OK(sluice_push(model, grad));
			CHECK_OK(sluice_pull(model, params));
		}
		check_same(job, params, sizeof params);
	}
	return survivors_leave(job, model);
}

TEST(checkpoint__with_a_loss_on_the_way__goes_on_and_a_full_job_restores_it)
{
	for (int round = 0; round < 12; round++) {
		if (repeated((size_t)round, 4))
			continue;
		int status[RANKS_MAX];
		struct plan *p = new_plan(1, 1u << round % 3);
		assert_int_equal(scratch_make(p->dir), 0);
		p->kill_at = 3 + (uint64_t)round;
		p->kill_after_us = 300 * round;
		run_ranks_status(RANKS, survivors_train, p, lose, 60000, status);
		survivors_judge(p, status);
		assert_int_equal(p->checkpoints, p->steps / 5);
		run_ranks(RANKS, go_on_from_it, p);
		scratch_remove(p->dir);
		munmap(p, sizeof *p);
	}
}

/* ---- a leader that stops --------------------------------------------------- */

static struct plan *of_leader; /* used on rank 0 */
static int where; /* 1: before it writes LATEST, 2: before it removes the generations that LATEST
		     does not name */

static void stop_there(int here)
{
	if (!of_leader || where != here || atomic_load(&of_leader->at[0]) != of_leader->kill_at)
		return;
	where = 0;
	atomic_fetch_add(&of_leader->stopped, 1);
	raise(SIGSTOP);
}

int __real_checkpoint_manifest_write(const char *dir, const struct checkpoint_manifest *manifest,
				     int (*still)(void *context), void *context);
int __wrap_checkpoint_manifest_write(const char *dir, const struct checkpoint_manifest *manifest,
				     int (*still)(void *context), void *context);
int __wrap_checkpoint_manifest_write(const char *dir, const struct checkpoint_manifest *manifest,
				     int (*still)(void *context), void *context)
{
	stop_there(1);
	return __real_checkpoint_manifest_write(dir, manifest, still, context);
}

void __real_checkpoint_clean(const struct checkpoint_place *place, struct checkpoint_others **list,
			     int outdated);
void __wrap_checkpoint_clean(const struct checkpoint_place *place, struct checkpoint_others **list,
			     int outdated);
void __wrap_checkpoint_clean(const struct checkpoint_place *place, struct checkpoint_others **list,
			     int outdated)
{
	stop_there(2);
	__real_checkpoint_clean(place, list, outdated);
}

static int lead_and_stop(int rank, void *argument)
{
	of_leader = rank ? NULL : argument;
	return survivors_train(rank, argument);
}

/* The leader resumes after the others have made checkpoints without it. The newest must stay the
 * valid one. */
TEST(stop__the_leader_of_a_checkpoint__wakes_up_and_spoils_no_later_one)
{
	for (where = 1; where <= 2; where++) {
		int status[RANKS_MAX];
		struct plan *p = new_plan(0, 1);
		assert_int_equal(scratch_make(p->dir), 0);
		p->stops = p->stops_itself = 1;
		p->wakes_at_end = 1;
		run_ranks_status(RANKS, lead_and_stop, p, lose, 60000, status);
		survivors_judge(p, status);
		assert_int_equal(p->checkpoints, p->steps / 5);
		run_ranks(RANKS, go_on_from_it, p);
		scratch_remove(p->dir);
		munmap(p, sizeof *p);
	}
}

static int restore_after_a_loss(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 0 };
	struct plan *plan = argument;
	log_capture();
	sluice_job *job = survivors_join(plan);
	sluice_model *model = survivors_open(job, params);
	if (!sluice_is_worker(job)) {
		CHECK_OK(sluice_serve(model));
	} else {
		if (rank == 1)
			kill(getpid(), SIGKILL);
		while (sluice_living(job) == WORKERS)
			sleep_ms(1);
		CHECK_OK(sluice_barrier(job));
		CHECK(sluice_restore(model, "/nonexistent", params, NULL) == SLUICE_EINVAL);
		CHECK(error_says("needs all ranks", "rank 1 (node n1) is lost"));
		CHECK_OK(sluice_push(model, grad));
		CHECK_OK(sluice_pull(model, params));
	}
	return survivors_leave(job, model);
}

TEST(restore__after_a_loss__fails_EINVAL_and_the_job_goes_on)
{
	int status[RANKS_MAX];
	struct plan *p = new_plan(0, 2);
	run_ranks_status(RANKS, restore_after_a_loss, p, NULL, 60000, status);
	check_ends(status, 1 << 1);
	munmap(p, sizeof *p);
}

/* ---- workers that train by themselves ------------------------------------------ */

enum { PERIOD = 3, LOST_AT = 5, SAVED_AT = 10, ENDS_AT = 12 };

/* The program's own optimizer. */
static void step_by_itself(sluice_model *model, float *params, int rank, uint64_t step)
{
	for (uint64_t i = 0; i < COUNT; i++)
		params[i] -= 0.1f * worker_gradient(step, (uint64_t)rank, i);
	CHECK_OK(sluice_push(model, params));
	CHECK_OK(sluice_pull(model, params));
}

/* Rank 1 dies between two exchanges, and the others save between two later ones. */
static int drift_and_lose_one(int rank, void *argument)
{
	float params[COUNT] = { 0 };
	struct plan *plan = argument;
	sluice_job *job = survivors_join(plan);
	sluice_model *model = survivors_open(job, params);

	if (!sluice_is_worker(job)) {
		CHECK_OK(sluice_serve(model));
		return survivors_leave(job, model);
	}
	for (uint64_t step = 1; step <= SAVED_AT; step++) {
		if (rank == 1 && step == LOST_AT)
			kill(getpid(), SIGKILL);
		step_by_itself(model, params, rank, step);
	}
	CHECK(sluice_living(job) == WORKERS - 1);
	CHECK_OK(sluice_checkpoint(model, plan->dir));
	plan->digest[rank] = sluice_digest(params, sizeof(params));
	return survivors_leave(job, model);
}

static int continue_the_drift(int rank, void *argument)
{
	float params[COUNT] = { 0 }, common[COUNT];
	struct plan *plan = argument;
	const uint64_t late = strstr(plan->recipe, "late(2)") ? 2 : 0;
	uint64_t at = 0;

	log_capture();
	sluice_job *job = survivors_join(plan);
	sluice_model *model = survivors_open(job, params);

	if (!sluice_is_worker(job)) {
		CHECK_OK(sluice_serve(model));
		return survivors_leave(job, model);
	}
	CHECK_OK(sluice_restore(model, plan->dir, params, &at));
	CHECK(at == SAVED_AT);
	CHECK_OK(sluice_point(model, params, common));
	check_same(job, common, sizeof(common));
	CHECK(log_saw("made without this rank", NULL, NULL, NULL) == (rank == 1));
	if (rank == 1)
		CHECK(!memcmp(params, common, sizeof(params)));
	else
		CHECK(sluice_digest(params, sizeof(params)) == plan->digest[rank]);
	/* up to the pull that applies an exchange */
	for (uint64_t step = at + 1; step <= ENDS_AT + late; step++)
		step_by_itself(model, params, rank, step);
	CHECK(ENDS_AT % PERIOD == 0);
	check_same(job, params, sizeof(params));
	return survivors_leave(job, model);
}

TEST(restore__of_a_worker_that_was_lost_between_exchanges__begins_with_the_common_parameters)
{
	/* With late(2), the exchange of step 9 is under way in the checkpoint of step 10. */
	static const char *const recipes[] = {
		"up=topk(0.1) down=all signal=drift when=every(3) memory=residual(decay=0.9)",
		"up=topk(0.1) down=all signal=drift when=every(3),late(2)"
	};

	for (int i = 0; i < 2; i++) {
		int status[RANKS_MAX];
		struct plan *p = new_plan(1, 2);

		p->recipe = recipes[i];
		assert_int_equal(scratch_make(p->dir), 0);
		run_ranks_status(RANKS, drift_and_lose_one, p, NULL, 60000, status);
		check_ends(status, 1 << 1);
		run_ranks(RANKS, continue_the_drift, p);
		scratch_remove(p->dir);
		munmap(p, sizeof *p);
	}
}

/* ---- two models ------------------------------------------------------------ */

static void save_two_models(sluice_job *job, int rank, void *dir)
{
	float params[COUNT] = { 0 };
	const sluice_model_attr attr = { .size = sizeof attr, .count = COUNT, .lr = 1 };
	sluice_model *one = NULL, *other = NULL;

	(void)rank;
	log_capture();
	CHECK_OK(sluice_model_open(job, &attr, params, &one));
	CHECK_OK(sluice_model_open(job, &attr, params, &other));
	CHECK_OK(sluice_checkpoint(one, dir));
	CHECK(sluice_checkpoint(other, dir) == SLUICE_EINVAL);
	CHECK(error_says("has a checkpoint of model 0, which is still open", "its own directory"));
	CHECK_OK(sluice_checkpoint(one, dir));
	CHECK_OK(sluice_restore(other, dir, params, NULL));
	sluice_model_close(&one);
	CHECK_OK(sluice_checkpoint(other, dir));
	sluice_model_close(&other);
}

/* Runs a shell command on rank 0 while the other ranks wait. */
static void shell(sluice_job *job, int rank, const char *command)
{
	CHECK_OK(sluice_barrier(job));
	CHECK(rank || system(command) == 0);
	CHECK_OK(sluice_barrier(job));
}

/* Between two checkpoints of a model, its directory gets the files of another one, as if another
 * job had saved there. */
static void save_in_turn(sluice_job *job, int rank, void *context)
{
	const char *const *dirs = context;
	float params[COUNT] = { 0 };
	const sluice_model_attr attr = { .size = sizeof attr, .count = COUNT, .lr = 1 };
	char command[3 * SCRATCH_PATH + 64];
	sluice_model *model = NULL, *other = NULL;

	log_capture();
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK_OK(sluice_model_open(job, &attr, params, &other));
	CHECK_OK(sluice_checkpoint(other, dirs[1]));
	CHECK_OK(sluice_checkpoint(model, dirs[0]));
	CHECK_OK(sluice_checkpoint(model, dirs[0]));
	snprintf(command, sizeof command, "rm -r '%s'/* && cp -r '%s'/* '%s'", dirs[0], dirs[1],
		 dirs[0]);
	shell(job, rank, command);
	for (int again = 0; again < 2; again++) {
		CHECK(sluice_checkpoint(model, dirs[0]) == SLUICE_EIO);
		CHECK(error_says("another job's checkpoint has replaced that of step 0",
				 "give each job its own directory"));
	}
	/* The checkpoint of the other job is intact. */
	CHECK_OK(sluice_restore(other, dirs[0], params, NULL));
	snprintf(command, sizeof command, "rm -r '%s'/*", dirs[0]);
	shell(job, rank, command);
	CHECK_OK(sluice_checkpoint(model, dirs[0]));
	snprintf(command, sizeof command, ": > '%s'/LATEST", dirs[0]);
	shell(job, rank, command);
	CHECK_OK(sluice_checkpoint(model, dirs[0])); /* replaces a damaged LATEST */
	sluice_model_close(&model);
	sluice_model_close(&other);
}

TEST(checkpoint__that_another_job_has_replaced__is_not_replaced_again)
{
	char dirs[2][SCRATCH_PATH];
	const char *both[] = { dirs[0], dirs[1] };

	assert_int_equal(scratch_make(dirs[0]), 0);
	assert_int_equal(scratch_make(dirs[1]), 0);
	run_in_job(2, save_in_turn, both);
	scratch_remove(dirs[0]);
	scratch_remove(dirs[1]);
}

TEST(checkpoint__of_two_models_in_one_directory__is_refused)
{
	char dir[SCRATCH_PATH];

	assert_int_equal(scratch_make(dir), 0);
	run_in_job(2, save_two_models, dir);
	scratch_remove(dir);
}
