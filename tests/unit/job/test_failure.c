/* SPDX-License-Identifier: BSD-3-Clause
 * Ranks that die, leave, or differ: all ranks learn at once which rank it was and on which node,
 * and none hangs. The kills are real. Slow and stopped ranks are in test_slow_rank.c. */
#include "ranks.h"
#include "thinned.h"
#include "cases.h"
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* IN_TIME: much less than the time after which a silent rank is lost. */
enum { COUNT = 1200, IN_TIME = 30000, PLENTY = 1000000 };

static const sluice_tensor tensors[] = { { "w1", 1000 }, { "b1.bias", 20 }, { "w2", 180 } };

static sluice_model *open_model(sluice_job *job, const char *recipe, uint32_t shards, float *params)
{
	sluice_model *model = OPEN(job, params, .count = COUNT, .tensors = tensors, .n_tensors = 3,
				   .recipe = recipe, .shards = shards, .lr = 0.5f);
	return model;
}

static int ended_well(int status)
{
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static void leave(sluice_job *job, sluice_model *model)
{
	sluice_model_close(&model);
	sluice_finalize(&job);
}

/* ---- kill -9 --------------------------------------------------------------- */

struct kill {
	int victim, servers;
	atomic_uint steps; /* steps of worker 0, so that the kill comes in the middle of training */
};

static int train_until_a_rank_is_lost(int rank, void *argument)
{
	struct kill *k = argument;
	float params[COUNT] = { 0 }, grad[COUNT];
	char who[24], where[24];
	sluice_job_attr attr = { .size = sizeof attr, .servers = k->servers };
	sluice_job *job = rank_join(&attr);
	sluice_model *model = open_model(job, NULL, 4, params);
	int rc = 0;
	log_capture();
	snprintf(who, sizeof who, "rank %d", k->victim);
	snprintf(where, sizeof where, "(node n%d)", k->victim / 2 + 1);
	if (!sluice_is_worker(job))
		rc = sluice_serve(model);
	for (uint64_t step = 1; !rc && step < PLENTY; step++) {
		for (uint64_t i = 0; i < COUNT; i++)
			grad[i] = noise(1, step, (uint64_t)rank, i);
		rc = try_step(model, grad, params);
		if (!rank)
			atomic_store(&k->steps, (unsigned)step);
		else if (!k->victim) /* worker 0 may be killed before it counts */
			atomic_fetch_add(&k->steps, 1);
	}
	CHECK(rc == SLUICE_EPEER);
	CHECK(error_says(who, where) && error_says("lost", NULL));
	CHECK(sluice_push(model, grad) != 0 && sluice_barrier(job) != 0);
	leave(job, model);
	return 0;
}

static void kill_in_the_middle(const pid_t *pids, void *argument)
{
	struct kill *k = argument;
	for (int waited = 0; waited < 30000 && atomic_load(&k->steps) < 20; waited++)
		sleep_ms(1);
	kill(pids[k->victim], SIGKILL);
}

static void kill_each(int size, int servers)
{
	for (int victim = 0; victim < size; victim++) {
		if (thinned((size_t)victim, 2))
			continue;
		int status[RANKS_MAX];
		struct kill *k = shared_memory(sizeof *k);
		k->victim = victim;
		k->servers = servers;
		run_ranks_status(size, train_until_a_rank_is_lost, k, kill_in_the_middle, IN_TIME,
				 status);
		for (int r = 0; r < size; r++)
			if (r == victim ? !WIFSIGNALED(status[r]) : !ended_well(status[r]))
				fail_msg("rank %d of %d after the end of rank %d: status 0x%x", r,
					 size, victim, (unsigned)status[r]);
	}
}

TEST(kill__each_of_four_ranks__others_end_at_once_naming_it)
{
	kill_each(4, 0);
}

TEST(kill__each_of_two_workers_and_two_servers__others_end_at_once_naming_it)
{
	kill_each(4, 2);
}

/* ---- leaving with and without a message --------------------------------------- */

struct way_out {
	void (*go)(sluice_job *job, sluice_model *model);
	const char *says, *also;
};

static void just_exit(sluice_job *job, sluice_model *model)
{
	_exit(0);
}

static void finalize_with_the_model_open(sluice_job *job, sluice_model *model)
{
	static sluice_model *kept; /* the memory of the job is not freed, but stays reachable */
	kept = model;
	sluice_finalize(&job);
	CHECK(kept && !job);
	_exit(0);
}

static int one_leaves(int rank, void *argument)
{
	const struct way_out *way = argument;
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	sluice_job *job = rank_join(NULL);
	sluice_model *model = open_model(job, NULL, 3, params);
	int rc = 0;
	log_capture();
	for (int step = 1; !rc && step < PLENTY; step++) {
		if (rank == 1 && step == 5)
			way->go(job, model);
		rc = try_step(model, grad, params);
	}
	CHECK(rc == SLUICE_EPEER);
	CHECK(error_says("rank 1", "(node n1)") && error_says(way->says, way->also));
	leave(job, model);
	return 0;
}

static void leave_by(void (*go)(sluice_job *, sluice_model *), const char *says, const char *also)
{
	int status[3];
	struct way_out way = { go, says, also };
	run_ranks_status(3, one_leaves, &way, NULL, IN_TIME, status);
	for (int r = 0; r < 3; r++)
		if (!ended_well(status[r]))
			fail_msg("rank %d: status 0x%x", r, (unsigned)status[r]);
}

TEST(exit__without_closing__is_a_loss_for_the_others)
{
	/* Over libfabric the connection may also have broken. */
	leave_by(just_exit, "its process ended", "; look for the cause in its own output");
}

TEST(finalize__with_a_model_open__is_told_to_the_others)
{
	leave_by(finalize_with_the_model_open, "sluice_finalize with a model still open", NULL);
}

/* ---- unequal numbers of steps ---------------------------------------------- */

struct unequal {
	const char *recipe;
	int servers, on_failure;
	int steps[3];     /* number of steps of each worker */
	const char *says; /* message on every worker that makes more steps; NULL: all make their
			     steps */
};

static atomic_int *found_out; /* shared: number of ranks that waited and learned the reason from
				 the rank that closed the model */

/* For jobs that continue. The worker that first waits for the missing push informs the server,
 * which drops the rank that closed the model. Another worker may receive the server's block or that
 * rank's last status before it waits itself. In any order, the log has the reason or says where to
 * look. */
static void check_early_closer_is_named(const struct unequal *u, int rank)
{
	static const char lost[] = "rank 0 (node n1) is lost", goes_on[] = "the job continues";
	const int is_server = rank == 3;
	if (!rank)
		CHECK(log_saw("rank 3 (node n2) dropped this rank: it closed model 0 after 3 steps",
			      NULL, NULL, NULL));
	else if (log_saw(lost, u->says, "waits for step 4", goes_on))
		atomic_fetch_add(found_out, 1);
	else if (is_server)
		CHECK(log_saw(lost, "reported it, and its log says why", goes_on, NULL));
	else
		CHECK(log_saw(lost, "it closed model 0 after 3 steps", goes_on, NULL) ||
		      log_saw(lost, "rank 3 (node n2) dropped it, and its log says why", goes_on,
			      NULL));
}

static int make_unequal_steps(int rank, void *argument)
{
	const struct unequal *u = argument;
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	sluice_job_attr attr = { .size = sizeof attr,
				 .servers = u->servers,
				 .on_failure = u->on_failure };
	sluice_job *job = rank_join(&attr);
	sluice_model *model = open_model(job, u->recipe, 3, params);
	int rc = 0, step = 0;
	log_capture();
	if (!sluice_is_worker(job)) {
		rc = sluice_serve(model);
		CHECK(rc == 0 || (u->says && rc == SLUICE_EPEER));
		leave(job, model);
		if (u->on_failure == SLUICE_CONTINUE)
			check_early_closer_is_named(u, rank);
		return 0;
	}
	for (; !rc && step < u->steps[rank]; step++) {
		if (step_of(model).anchor_due || !strstr(u->recipe, "svrg"))
			rc = sluice_push(model, grad);
		else
			rc = sluice_push_pair(model, grad, grad);
		if (!rc)
			rc = sluice_pull(model, params);
	}
	const int early = u->steps[rank] < u->steps[!rank];
	if (u->on_failure == SLUICE_CONTINUE) {
		CHECK_OK(rc);
	} else if (early || !u->says) {
		CHECK_OK(rc);
		CHECK(!log_saw("closed model", NULL, NULL, NULL));
	} else {
		CHECK(rc == SLUICE_EPEER && error_says(u->says, "closed model 0 after"));
		/* No rank waited until a limit. */
		CHECK(!log_saw("SLUICE_WAIT_TIMEOUT", NULL, NULL, NULL));
	}
	leave(job, model);
	if (u->on_failure == SLUICE_CONTINUE)
		check_early_closer_is_named(u, rank);
	return 0;
}

static void make_steps(const struct unequal *u, int size)
{
	int status[4];
	run_ranks_status(size, make_unequal_steps, (void *)u, NULL, IN_TIME, status);
	for (int r = 0; r < size; r++)
		if (!ended_well(status[r]))
			fail_msg("rank %d: status 0x%x", r, (unsigned)status[r]);
}

static const char default_recipe[] = "up=topk(0.1) down=topk(0.1)";

TEST(close__before_the_others__they_fail_at_once_and_name_it_and_its_steps)
{
	const struct unequal first = { default_recipe,
				       0,
				       0,
				       { 3, 4, 4 },
				       "rank 0 (node n1) closed model 0 after 3 steps" },
			     middle = { default_recipe,
					0,
					0,
					{ 6, 5, 6 },
					"rank 1 (node n1) closed model 0 after 5 steps" };
	make_steps(&first, 3);
	make_steps(&middle, 3);
}

TEST(close__before_its_first_step__is_named_too)
{
	const struct unequal u = {
		default_recipe, 0, 0, { 1, 0, 1 }, "rank 1 (node n1) closed model 0 after 0 steps"
	};
	make_steps(&u, 3);
}

TEST(close__early_with_a_server__workers_fail_at_once_and_name_it)
{
	const struct unequal u = {
		default_recipe, 1, 0, { 3, 5 }, "rank 0 (node n1) closed model 0 after 3 steps"
	};
	make_steps(&u, 3);
}

TEST(close__early_where_the_job_may_lose_workers__they_go_on_without_it)
{
	const struct unequal u = { default_recipe,
				   1,
				   SLUICE_CONTINUE,
				   { 3, 6, 6 },
				   "rank 0 (node n1) closed model 0 after 3 steps" };
	found_out = shared_memory(sizeof *found_out);
	make_steps(&u, 4);
	assert_in_range(atomic_load(found_out), 1, 2);
}

TEST(close__early_with_local_steps__counts_the_steps_of_the_application)
{
	const struct unequal u = { "up=all down=all when=every(2)",
				   0,
				   0,
				   { 5, 8, 8 },
				   "rank 0 (node n1) closed model 0 after 5 steps" };
	make_steps(&u, 3);
}

TEST(close__after_equal_steps__is_silent)
{
	const struct unequal u = { default_recipe, 0, 0, { 4, 4, 4 }, NULL },
			     served = { default_recipe, 1, 0, { 4, 4 }, NULL };
	make_steps(&u, 3);
	make_steps(&served, 3);
}

TEST(close__early_in_an_asynchronous_model__the_others_go_on)
{
	const struct unequal u = { "up=all down=all when=async(3)", 0, 0, { 3, 40, 20 }, NULL };
	make_steps(&u, 3);
}

TEST(close__before_an_asynchronous_anchor__the_others_fail_at_once)
{
	const struct unequal u = { "up=all down=all signal=svrg(6) when=async(3)",
				   0,
				   0,
				   { 3, 40, 40 },
				   "rank 0 (node n1) closed model 0 after 3 steps" };
	make_steps(&u, 3);
}

/* ---- gradients that are not finite --------------------------------------------- */

static int push_not_finite(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	float bad = *(float *)argument;
	sluice_job *job = rank_join(NULL);
	sluice_model *model = open_model(job, NULL, 2, params);
	sluice_model_stats before = { .size = sizeof before }, after = { .size = sizeof after };
	const char *what = isnan(bad) ? "is NaN at index 3 of tensor b1.bias" :
					"is infinite at index 3 of tensor b1.bias";
	int rc = 0;
	log_capture();
	for (int step = 1; !rc && step < PLENTY; step++) {
		CHECK_OK(sluice_stats(model, &before));
		if (rank == 2 && step == 5)
			grad[1003] = bad;
		rc = sluice_push(model, grad);
		if (rank == 2 && step == 5) {
			CHECK(rc == SLUICE_ENUMERIC);
			CHECK_OK(sluice_stats(model, &after)); /* nothing was pushed */
			CHECK(after.pushed_bytes == before.pushed_bytes);
		}
		if (!rc)
			rc = sluice_pull(model, params);
	}
	CHECK(rc == (rank == 2 ? SLUICE_ENUMERIC : SLUICE_EPEER));
	CHECK(error_says("rank 2 (node n2) at step 5", what));
	leave(job, model);
	return 0;
}

TEST(push__nan_or_infinity__aborts_naming_rank_tensor_and_index)
{
	float bad[] = { NAN, INFINITY, -INFINITY };
	for (int i = 0; i < 3; i++)
		if (!thinned((size_t)i, 3))
			run_ranks(3, push_not_finite, &bad[i]);
}

struct policy {
	const char *recipe;
	int skip;
};

/* Rank 1's second gradient has two bad coordinates. With SGD, rate 0.5, two ranks and integers,
 * results are exact. */
static int go_on_without(int rank, void *argument)
{
	const struct policy *policy = argument;
	float params[COUNT] = { 0 }, grad[COUNT], want[COUNT] = { 0 };
	sluice_job *job = rank_join(NULL);
	sluice_model *model = open_model(job, policy->recipe, 3, params);
	sluice_model_stats stats = { .size = sizeof stats };
	for (int step = 1; step <= 3; step++) {
		for (int i = 0; i < COUNT; i++) {
			int bad = step == 2 && (i == 7 || i == 1100);
			float theirs = policy->skip && step == 2 ? 0 : bad ? 0 : (float)(2 * i + 4);
			grad[i] = rank ? (bad ? (i == 7 ? NAN : INFINITY) : (float)(2 * i + 4)) :
					 (float)i;
			want[i] -= 0.5f * ((float)i + theirs) / 2;
		}
		CHECK_STEP(model, grad, params);
		for (int i = 0; i < COUNT; i++)
			CHECK(params[i] == want[i]);
	}
	CHECK_OK(sluice_stats(model, &stats));
	CHECK(stats.nonfinite_elements == (rank ? 2 : 0));
	leave(job, model);
	return 0;
}

TEST(push__nan_with_zero_or_skip__leaves_out_the_coordinates_or_the_gradient)
{
	static struct policy policies[] = {
		{ "up=all down=all nonfinite=zero", 0 },
		{ "up=all down=all nonfinite=skip", 1 },
		{ "up=topk(1.0) down=all nonfinite=zero", 0 },
		{ "up=topk(1.0) down=all nonfinite=skip", 1 },
		{ "up=topk(1.0) down=topk(1.0) memory=none nonfinite=skip", 1 },
	};
	for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
		if (!thinned(i, 3))
			run_ranks(2, go_on_without, &policies[i]);
}

/* ---- ranks that differ ----------------------------------------------------- */

TEST_IN_RANKS(push__unequal_learning_rates__are_refused_by_name, 3)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	sluice_job *job = rank_join(NULL);
	sluice_model *model = open_model(job, NULL, 3, params);
	int rc = 0;
	log_capture();
	CHECK(sluice_set(model, SLUICE_LR, -1) == SLUICE_EINVAL &&
	      sluice_set(model, SLUICE_LR, NAN) == SLUICE_EINVAL &&
	      sluice_set(NULL, SLUICE_LR, 1) == SLUICE_EINVAL &&
	      sluice_set(model, 99, 1) == SLUICE_EINVAL && error_says("99 is not", NULL));
	CHECK(sluice_set(model, SLUICE_LR, 1e300) == SLUICE_EINVAL &&
	      error_says("SLUICE_LR is 1e+300", "beyond the range of floats"));
	CHECK(sluice_step_info(NULL, &(sluice_model_step){ .size = sizeof(sluice_model_step) }) ==
		      SLUICE_EINVAL &&
	      sluice_step_info(model, NULL) == SLUICE_EINVAL &&
	      sluice_step_info(model, &(sluice_model_step){ .size = 1 }) == SLUICE_EINVAL);
	for (int step = 1; !rc && step < PLENTY; step++) {
		if (step == 4)
			CHECK_OK(sluice_set(model, SLUICE_LR, rank == 2 ? 0.25f : 0.125f));
		rc = try_step(model, grad, params);
	}
	CHECK(rc == SLUICE_EINVAL || rc == SLUICE_EPEER); /* detected by this rank, or reported
							     by the rank that detected it */
	CHECK(error_says("learning rates differ at step 4", "rank 0 (node n1) pushed 0.125"));
	CHECK(error_says("rank 2 (node n2) pushed 0.25", "SLUICE_LR"));
	leave(job, model);
	return 0;
}

TEST_IN_RANKS(open__attributes_that_differ__are_refused_by_name_on_all, 3)
{
	float params[COUNT] = { 0 };
	sluice_job *job = rank_join(NULL);
	sluice_model *model = NULL;
	sluice_model_attr attr = ATTR(.count = COUNT);
	log_capture();
	attr.recipe = rank == 1 ? "up=topk(0.02)" : "up=topk(0.01)";
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EPEER && !model);
	CHECK(error_says("rank 0 (node n1) and rank 1 (node n1)", "different models"));
	CHECK(error_says("all ranks must open the same ones", NULL));
	CHECK(error_says("with \"up=topk(0.01),f32\" and \"up=topk(0.02),f32\" in the recipe",
			 NULL));
	attr.recipe = NULL;
	attr.count = rank == 2 ? 1000 : COUNT;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EPEER);
	CHECK(error_says("rank 2 (node n2)", "1000") && error_says("1200", NULL));
	attr.count = COUNT;
	attr.shards = rank == 2 ? 2 : 3;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EPEER);
	CHECK(error_says("of 3 and 2 shards", NULL));
	sluice_tensor named[] = { { "w1", 1000 },
				  { rank == 2 ? "b" : "b1.bias", 20 },
				  { "w2", 180 } };
	attr.shards = 0;
	attr.tensors = named;
	attr.n_tensors = rank == 2 ? 0 : 3;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EPEER);
	CHECK(error_says("of 3 and 0 tensors", NULL));
	attr.n_tensors = 3;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EPEER);
	CHECK(error_says("tensors have other names", NULL));
	attr.n_tensors = 0;
	attr.recipe = "up=topk(0.01) warmup=1epoch";
	attr.steps_per_epoch = rank == 2 ? 7 : 9;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EPEER);
	CHECK(error_says("a warm-up of 9 and 7 steps", NULL));
	attr.recipe = NULL;
	attr.steps_per_epoch = 0;
	/* Only one rank has a wrong attribute. It learns the reason, and the others learn its
	 * name. */
	attr.shards = 0;
	CHECK(sluice_model_open(job, &attr, rank == 1 ? NULL : params, &model) ==
	      (rank == 1 ? SLUICE_EINVAL : SLUICE_EPEER));
	CHECK(error_says("params is NULL", NULL));
	CHECK(rank == 1 || error_says("rank 1 (node n1) could not open", NULL));
	attr.recipe = rank == 2 ? "up=topk(0.01) down=tokp(0.01)" : NULL;
	CHECK(sluice_model_open(job, &attr, params, &model) ==
	      (rank == 2 ? SLUICE_EINVAL : SLUICE_EPEER));
	CHECK(error_says("topk", NULL));
	attr.recipe = NULL;
	params[COUNT - 1] = rank ? 0 : INFINITY;
	CHECK(sluice_model_open(job, &attr, params, &model) ==
	      (rank ? SLUICE_EPEER : SLUICE_EINVAL));
	CHECK(error_says("initial parameters contain infinity at index 1199", NULL));
	params[COUNT - 1] = 0; /* the job continues */
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	leave(job, model);
	return 0;
}

TEST_IN_RANKS(push__twice_without_pull__fails_EINVAL_and_the_job_goes_on, 2)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	sluice_job *job = rank_join(NULL);
	sluice_model *model = open_model(job, NULL, 2, params);
	log_capture();
	CHECK(sluice_pull(model, params) == SLUICE_EINVAL &&
	      error_says("nothing was pushed", NULL));
	for (int step = 1; step <= 5; step++) {
		CHECK_OK(sluice_push(model, grad));
		CHECK(sluice_push(model, grad) == SLUICE_EINVAL &&
		      error_says("not pulled yet", NULL));
		CHECK_OK(sluice_pull(model, params));
		CHECK(sluice_pull(model, params) == SLUICE_EINVAL);
		check_same(job, params, sizeof params);
	}
	CHECK(sluice_push(model, NULL) == SLUICE_EINVAL &&
	      sluice_push(NULL, grad) == SLUICE_EINVAL);
	CHECK(sluice_pull(NULL, params) == SLUICE_EINVAL);
	leave(job, model);
	return 0;
}

/* ---- fork ------------------------------------------------------------------ */

TEST_IN_RANKS(fork__child_exits_or_finalizes__does_no_harm, 3)
{
	static sluice_job *job; /* accessible in the children */
	static sluice_model *model;
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	job = rank_join(NULL);
	model = open_model(job, NULL, 2, params);
	for (int step = 1; step <= 30; step++) {
		CHECK_OK(sluice_push(model, grad));
		if (step % 10 == rank) {
			int status = 0;
			pid_t child = fork();
			CHECK(child >= 0);
			if (!child && step > 20)
				exit(0);
			if (!child) {
				log_capture();
				CHECK(sluice_pull(model, params) == SLUICE_EINVAL);
				CHECK(error_says("forked child", NULL));
				CHECK(sluice_barrier(job) == SLUICE_EINVAL);
				sluice_model_stats stats = { .size = sizeof stats };
				CHECK(sluice_stats(model, &stats) == SLUICE_EINVAL);
				CHECK(sluice_set(model, SLUICE_MEASURE, 1) == SLUICE_EINVAL);
				sluice_model_close(&model);
				sluice_finalize(&job);
				CHECK(!model && !job);
				_exit(0);
			}
			CHECK(waitpid(child, &status, 0) == child && ended_well(status));
		}
		CHECK_OK(sluice_pull(model, params));
		check_same(job, params, sizeof params);
	}
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}
