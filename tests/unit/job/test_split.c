/* SPDX-License-Identifier: BSD-3-Clause
 * Groups of a job's ranks: who is in which, that they train, sum and broadcast beside each other
 * with the bits of jobs of their own, that a lost rank fails the groups that hold it and no other,
 * and how they end. */
#include "base/bytes.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "ranks.h"
#include "cases.h"
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { N = 3000, STEPS = 6 };

/* ---- members of groups ----------------------------------------------------- */

TEST_IN_JOB(split__by_color_and_key__numbers_the_ranks, 4)
{
	sluice_job *pair = NULL, *reversed = NULL, *none = job;
	double sum = rank;
	CHECK_OK(sluice_split(job, rank / 2, 0, &pair));
	CHECK(sluice_size(pair) == 2 && sluice_rank(pair) == rank % 2);
	CHECK(sluice_workers(pair) == 2 && sluice_is_worker(pair) && sluice_living(pair) == 2);
	CHECK(!strcmp(sluice_node(pair, 1), sluice_node(job, rank | 1)));
	CHECK(!*sluice_node(pair, 2));
	CHECK_OK(sluice_split(job, 7, -rank, &reversed));
	CHECK(sluice_size(reversed) == 4 && sluice_rank(reversed) == 3 - rank);
	CHECK_OK(sluice_split(job, rank == 3 ? -1 : 0, 0, &none));
	CHECK(rank == 3 ? !none : sluice_size(none) == 3 && sluice_rank(none) == rank);
	CHECK_OK(sluice_sum(pair, &sum, 1));
	CHECK(sum == (rank < 2 ? 1 : 5));
	sum = rank;
	CHECK_OK(sluice_sum(reversed, &sum, 1));
	CHECK(sum == 6);
	CHECK_OK(none ? sluice_barrier(none) : 0);
	sluice_finalize(&none);
	sluice_finalize(&pair);
	CHECK(!pair);
	sluice_finalize(&reversed);
}

/* Splits a group into groups, whose ranks have other numbers than in the job. */
TEST_IN_JOB(split__of_a_group__is_a_group_of_the_job, 6)
{
	sluice_job *upper = NULL, *lower = NULL;
	int roots[RANKS_MAX];
	char word[8] = "";
	CHECK_OK(sluice_split(job, rank % 2, -rank, &upper)); /* odd: 5 3 1, even: 4 2 0 */
	CHECK_OK(sluice_split(upper, sluice_rank(upper) > 0, 0, &lower));
	CHECK(sluice_size(lower) == (rank > 3 ? 1 : 2));
	CHECK_OK(sluice_gather(lower, &rank, sizeof rank, roots));
	CHECK(rank > 3 ? roots[0] == rank : roots[0] == 2 + rank % 2 && roots[1] == rank % 2);
	if (sluice_rank(lower) == 0)
		snprintf(word, sizeof word, "from %d", rank);
	CHECK_OK(sluice_broadcast(lower, word, sizeof word, 0));
	CHECK(word[5] == '0' + roots[0]);
	sluice_finalize(&upper); /* the parent may end first */
	CHECK_OK(sluice_barrier(lower));
	sluice_finalize(&lower);
}

/* ---- training -------------------------------------------------------------- */

struct outcome {
	uint64_t alone[2], grouped[2];
};

static uint64_t train(sluice_job *job, uint64_t seed, const char *recipe, sluice_job *meanwhile)
{
	static float params[N], grad[N];
	const uint64_t me = (uint64_t)sluice_rank(job);
	for (uint64_t i = 0; i < N; i++)
		params[i] = noise(seed, 0, 99, i);
	sluice_model *model = OPEN(job, params, .count = N, .recipe = recipe, .shards = 3,
				   .lr = 0.1f);
	for (uint64_t step = 0; step < STEPS; step++) {
		for (uint64_t i = 0; i < N; i++)
			grad[i] = noise(seed, step + 1, me, i);
		CHECK_OK(sluice_push(model, grad));
		if (meanwhile && step % 2)
			CHECK_OK(sluice_barrier(meanwhile));
		CHECK_OK(sluice_pull(model, params));
	}
	uint64_t digest = check_same(job, params, sizeof params);
	sluice_model_close(&model);
	return digest;
}

static const char *const recipes[] = { "up=topk(0.05) down=topk(0.1) update=momentum(0.9)",
				       "up=all down=all update=sgd memory=none" };

static void train_in_groups(sluice_job *job, int rank, void *argument)
{
	struct outcome *outcome = argument;
	sluice_job *pair = NULL;
	CHECK_OK(sluice_split(job, rank / 2, 0, &pair));
	for (int r = 0; r < 2; r++) {
		uint64_t digest = train(pair, (uint64_t)(rank / 2), recipes[r], job);
		if (rank == 2)
			outcome->grouped[r] = digest;
	}
	train(job, 5, recipes[0], pair);
	sluice_finalize(&pair);
}

static void train_alone(sluice_job *job, int rank, void *argument)
{
	struct outcome *outcome = argument;
	for (int r = 0; r < 2; r++) {
		uint64_t digest = train(job, 1, recipes[r], NULL);
		if (rank == 0)
			outcome->alone[r] = digest;
	}
}

TEST(training__in_a_group__has_the_bits_of_a_job_of_its_own)
{
	struct outcome *outcome = shared_memory(sizeof *outcome);
	run_in_job(4, train_in_groups, outcome);
	run_in_job(2, train_alone, outcome);
	for (int r = 0; r < 2; r++)
		assert_true(outcome->alone[r] && outcome->alone[r] == outcome->grouped[r]);
}

/* There are more groups and models than a job has numbers for models, and all make steps in
 * turn. */
TEST_IN_JOB(models__in_thirty_groups__step_at_the_same_time, 4)
{
	enum { GROUPS = 30, SMALL = 50 };
	sluice_job *groups[GROUPS];
	sluice_model *models[GROUPS];
	float params[GROUPS][SMALL] = { { 0 } }, grad[SMALL];
	for (int g = 0; g < GROUPS; g++) {
		sluice_model_attr attr = ATTR(.count = SMALL,
					      .recipe = "up=all down=all update=sgd memory=none",
					      .lr = 1);
		CHECK_OK(sluice_split(job, g % 2 ? rank % 2 : rank / 2, 0, &groups[g]));
		CHECK_OK(sluice_model_open(groups[g], &attr, params[g], &models[g]));
	}
	for (int step = 0; step < 3; step++) {
		for (int g = 0; g < GROUPS; g++) {
			for (int i = 0; i < SMALL; i++)
				grad[i] = (float)(rank + g);
			CHECK_OK(sluice_push(models[g], grad));
		}
		for (int g = GROUPS - 1; g >= 0; g--)
			CHECK_OK(sluice_pull(models[g], params[g]));
	}
	for (int g = 0; g < GROUPS; g++) {
		const int other = g % 2 ? (rank + 2) % 4 : rank ^ 1;
		CHECK(params[g][SMALL - 1] == -3 * ((float)(rank + other) / 2 + (float)g));
		sluice_model_close(&models[g]);
		sluice_finalize(&groups[g]);
	}
	uint32_t groups_only = 1;
	CHECK(!groups_next(job, &groups_only));
}

TEST_IN_JOB(regions__of_a_group__reach_its_ranks_only, 4)
{
	sluice_job *pair = NULL;
	sluice_region *all = NULL, *two = NULL;
	CHECK_OK(sluice_split(job, rank % 2, 0, &pair));
	CHECK_OK(sluice_region_open(job, 64, &all));
	CHECK_OK(sluice_region_open(pair, 64, &two));
	const int mine = rank, peer = 1 - sluice_rank(pair);
	int theirs = -1;
	CHECK_OK(sluice_region_put(two, peer, 0, &mine, sizeof mine, 1));
	CHECK_OK(sluice_region_wait(two, peer, 1));
	CHECK(*(int *)sluice_region_base(two) == (rank + 2) % 4);
	CHECK(*(int *)sluice_region_base(all) == 0);
	CHECK_OK(sluice_region_get(two, peer, 0, &theirs, sizeof theirs, 0));
	CHECK(theirs == rank);
	sluice_region_close(&two);
	sluice_region_close(&all);
	sluice_finalize(&pair);
}

TEST_IN_RANKS(split__with_dedicated_servers__puts_them_last, 6)
{
	float params[100] = { 0 }, grad[100];
	sluice_job_attr where = { .size = sizeof where, .servers = 2 };
	sluice_job *job = rank_join(&where), *half = NULL;
	log_capture();
	CHECK(sluice_split(job, rank < 4, 0, &half) == (rank < 4 ? SLUICE_EPEER : SLUICE_EINVAL));
	CHECK(error_says("dedicated servers only", NULL) && !half);
	CHECK_OK(
		sluice_split(job, rank % 2, -rank, &half)); /* workers 2 0 and 3 1, then a server */
	CHECK(sluice_workers(half) == 2 && sluice_size(half) == 3);
	CHECK(sluice_is_worker(half) == (rank < 4));
	sluice_model *model = OPEN(half, rank < 4 ? params : NULL, .count = 100,
				   .recipe = "up=all down=all update=sgd memory=none", .lr = 1);
	for (int i = 0; i < 100; i++)
		grad[i] = (float)rank;
	if (rank >= 4)
		CHECK_OK(sluice_serve(model));
	for (int step = 0; step < 4 && rank < 4; step++) {
		CHECK_STEP(model, grad, params);
		CHECK(params[7] == -(float)(step + 1) * (float)(1 + rank % 2));
	}
	sluice_model_close(&model);
	sluice_finalize(&half);
	sluice_finalize(&job);
	return 0;
}

/* ---- losing a rank --------------------------------------------------------- */

/* Rank 1 ends. The job, and the group of ranks 0 and 1, fail. The group of ranks 2 and 3 continues
 * to train. */
static int lose_one(int rank, void *argument)
{
	atomic_int *told = argument;
	sluice_job *job = rank_join(NULL), *pair = NULL, *cross = NULL;
	double one = 1;
	CHECK_OK(sluice_split(job, rank / 2, 0, &pair));
	CHECK_OK(sluice_split(job, rank % 2, 0, &cross));
	CHECK_OK(sluice_barrier(job));
	log_capture();
	if (rank == 1)
		_exit(0);
	CHECK(sluice_barrier(job) == SLUICE_EPEER);
	CHECK(error_says("rank 1 (node n1)", NULL));
	if (rank == 0 || rank == 3) {
		sluice_job *with_it = rank ? cross : pair;
		CHECK(sluice_sum(with_it, &one, 1) == SLUICE_EPEER);
		CHECK(rank ? error_says("rank 0 of group 1 (rank 1 of the job, node n1)", "lost") :
			     error_says("rank 1 of group 0 (rank 1 of the job, node n1)", "lost"));
		atomic_fetch_add(told, 1);
	}
	if (rank == 0 || rank == 2) {
		CHECK_OK(sluice_sum(cross, &one, 1));
		CHECK(one == 2);
	}
	if (rank >= 2)
		train(pair, 3, recipes[0], NULL);
	sluice_finalize(&cross);
	sluice_finalize(&pair);
	sluice_finalize(&job);
	return 0;
}

TEST(loss__of_a_rank__fails_the_groups_that_hold_it)
{
	atomic_int *told = shared_memory(sizeof *told);
	int status[4];
	run_ranks_status(4, lose_one, told, NULL, 60000, status);
	for (int r = 0; r < 4; r++)
		assert_int_equal(status[r], 0);
	assert_int_equal(atomic_load(told), 2);
}

/* An error of one rank in a group is reported to that group, and does not end the job. */
TEST_IN_JOB(failure__inside_of_a_group__stays_in_it, 4)
{
	sluice_job *pair = NULL;
	float params[10] = { 0 }, grad[10] = { 0 };
	double sum = 1;
	CHECK_OK(sluice_split(job, rank / 2, 0, &pair));
	sluice_model *model = OPEN(pair, params, .count = 10);
	log_capture();
	grad[3] = rank == 3 ? 1.0f / 0.0f : 0;
	int rc = try_step(model, grad, params);
	CHECK(rc == (rank == 3 ? SLUICE_ENUMERIC : rank == 2 ? SLUICE_EPEER : 0));
	CHECK(rank != 2 || error_says("rank 1 of group 1 (rank 3 of the job", "gave up"));
	CHECK_OK(sluice_sum(job, &sum, 1));
	CHECK(sum == 4);
	sluice_model_close(&model);
	sluice_finalize(&pair);
}

static const struct transport_ops *whole;
static int refusals = 3;

static int post_late(struct endpoint *e, const struct transfer *t)
{
	const int is_status = (t->imm >> IMM_KIND_SHIFT & 7) == IMM_STATUS;

	return is_status && refusals-- > 0 ? SLUICE_EAGAIN : whole->post(e, t);
}

/* Nothing but its status tells the peer that a rank has failed in a group. */
TEST_IN_JOB(failure__inside_of_a_group__is_told_when_a_full_queue_has_room, 2)
{
	static struct transport_ops full;
	struct transport *t = job->peers[1 - rank].endpoint->transport;
	sluice_job *pair = NULL;

	be_impatient(job, 10000); /* the group inherits it */
	CHECK_OK(sluice_split(job, 0, 0, &pair));
	log_capture();
	if (rank) {
		progress_take(job);
		whole = t->ops;
		full = *whole;
		full.post = post_late;
		t->ops = &full;
		job_fail(pair, SLUICE_EINVAL, rank, "as the test wants it");
		progress_release(job);
	}
	CHECK(sluice_barrier(pair) == (rank ? SLUICE_EINVAL : SLUICE_EPEER));
	CHECK(error_says("as the test wants it", NULL));
	sluice_finalize(&pair);
	CHECK_OK(sluice_barrier(job));
}

/* The last round of sluice_split() follows the exchange of the groups' lines. */
static int post_or_die(struct endpoint *e, const struct transfer *t)
{
	static int splits;
	const int is_message = t->imm == imm_make(IMM_COLLECTIVE, 0) && e->peer < 2;
	const uint32_t op = is_message ? get_le32((const uint8_t *)t->local + 8) : 0;

	splits += op == COLLECTIVE_SPLIT && e->peer == 1;
	if (op == COLLECTIVE_OPEN && splits == 2) {
		sleep_ms(200); /* ranks 0 and 1 have posted their messages, and wait */
		if (e->peer == 1)
			_exit(0);
	}
	return whole->post(e, t);
}

/* Rank 2 ends when it has sent its last message to rank 0, but not to rank 1. So the job fails on
 * rank 1 before the group is made, and on rank 0 afterwards. */
static int lose_one_at_the_end_of_split(int rank, void *argument)
{
	static struct transport_ops dying;
	sluice_job *job = rank_join(NULL), *pair = NULL;

	be_impatient(job, 10000); /* the group inherits it */
	log_capture();
	if (rank == 2) {
		struct transport *t = job->peers[0].endpoint->transport;

		progress_take(job);
		whole = t->ops;
		dying = *whole;
		dying.post = post_or_die;
		t->ops = &dying;
		progress_release(job);
	}
	const int rc = sluice_split(job, rank < 2 ? 0 : -1, 0, &pair);

	CHECK(rank < 2 && (rc == SLUICE_EPEER || !rank));
	CHECK(!rc || (!pair && error_says("rank 2 (node n2) is lost", NULL)));
	if (!rc) { /* a slow rank 0 may see the loss first */
		CHECK(sluice_barrier(pair) == SLUICE_EPEER);
		CHECK(error_says("rank 1 of group 0 (rank 1 of the job, node n1) gave up: cannot "
				 "take part in the group: rank 2 (node n2) is lost",
				 NULL));
		*(int *)argument = 1;
		sluice_finalize(&pair);
	}
	CHECK(sluice_barrier(job) == SLUICE_EPEER);
	sluice_finalize(&job);
	return 0;
}

TEST(loss__at_the_end_of_split__fails_the_group_where_it_was_made)
{
	int *made = shared_memory(sizeof(*made)), status[3];

	run_ranks_status(3, lose_one_at_the_end_of_split, made, NULL, 60000, status);
	for (int r = 0; r < 3; r++)
		assert_int_equal(status[r], 0);
	print_message("the group was %smade on rank 0\n", *made ? "" : "not ");
}

/* ---- wrong calls ----------------------------------------------------------- */

TEST_IN_RANKS(calls__that_are_wrong__are_refused, 2)
{
	static sluice_job *sub; /* never finalized: the program still has the job through it */
	sluice_job *job = rank_join(NULL);
	float params[10] = { 0 };
	sluice_model *model = NULL;
	sluice_model_attr attr = ATTR(.count = 1 << 21, .shards = 1 << 20);
	log_capture();
	CHECK(sluice_split(NULL, 0, 0, &sub) == SLUICE_EINVAL);
	CHECK(sluice_split(job, 0, 0, NULL) == SLUICE_EINVAL && error_says("sub is NULL", NULL));
	CHECK_OK(sluice_split(job, 0, 0, &sub));
	CHECK(sluice_model_open(sub, &attr, params, &model) == SLUICE_EINVAL);
	CHECK(error_says("shards=1048576", "1048575"));
	sluice_finalize(&job); /* before its group */
	CHECK(log_saw("sluice_finalize with a group still open", NULL, NULL, NULL));
	return 0;
}

TEST_IN_RANKS(split__of_a_job_that_goes_on_without_lost_ranks__is_refused, 3)
{
	sluice_job_attr attr = { .size = sizeof attr, .servers = 1, .on_failure = SLUICE_CONTINUE };
	sluice_job *job = rank_join(&attr), *sub = NULL;
	log_capture();
	CHECK(sluice_split(job, 0, 0, &sub) == SLUICE_ENOSUPP && !sub);
	CHECK(error_says("on_failure=continue", NULL));
	sluice_finalize(&job);
	return 0;
}

/* A member of the job that is not in the group writes to the group. */
TEST_IN_JOB(notify__of_a_stranger_in_a_group__is_refused_by_name, 3)
{
	sluice_job *pair = NULL;
	CHECK_OK(sluice_split(job, rank < 2 ? 0 : -1, 0, &pair));
	CHECK_OK(sluice_barrier(job));
	log_capture();
	if (rank == 2) {
		progress_take(job);
		lines_put(job, 0, LINE_REPORT, outbox_at(job, LINE_REPORT), 8,
			  imm_make(IMM_PUSH, 0) | imm_of_group(1));
		/* A notify for a group that does not exist is ignored. */
		lines_put(job, 1, LINE_REPORT, outbox_at(job, LINE_REPORT), 8,
			  imm_make(IMM_PUSH, 0) | imm_of_group(200));
		progress_release(job);
	}
	sluice_barrier(job); /* the barrier may end before the notify is seen */
	CHECK(sluice_barrier(job) == (rank ? SLUICE_EPEER : SLUICE_EWIRE));
	CHECK(error_says("rank 2 (node n2)", "group to which it does not belong") || rank == 2);
	sluice_finalize(&pair);
}

/* ---- simulated ------------------------------------------------------------- */

static int simulated(sluice_job *job, void *context)
{
	sluice_job *pair = NULL;
	uint64_t *digest = context;
	const int rank = sluice_rank(job);
	static float params[8][N];
	static float grad[8][N];
	sluice_model *model = NULL;
	sluice_model_attr attr = ATTR(.count = N, .recipe = recipes[0], .shards = 3, .lr = 0.1f);
	int rc = sluice_split(job, rank / 2, 0, &pair);
	for (uint64_t i = 0; i < N; i++)
		params[rank][i] = noise((uint64_t)rank / 2, 0, 99, i);
	if (!rc)
		rc = sluice_model_open(pair, &attr, params[rank], &model);
	for (uint64_t step = 0; step < STEPS && !rc; step++) {
		for (uint64_t i = 0; i < N; i++)
			grad[rank][i] = noise((uint64_t)rank / 2, step + 1, (uint64_t)rank % 2, i);
		rc = sluice_push(model, grad[rank]);
		rc = rc ? rc : sluice_pull(model, params[rank]);
	}
	if (rc)
		return rc;
	if (rank == 2)
		*digest = sluice_digest(params[rank], sizeof params[rank]);
	sluice_model_close(&model);
	sluice_finalize(&pair);
	return 0;
}

TEST(simulated_groups__have_the_bits_of_real_ones)
{
	struct outcome *outcome = shared_memory(sizeof *outcome);
	uint64_t digest = 0;
	run_in_job(2, train_alone, outcome);
	assert_int_equal(sluice_simulate(NULL, 4, simulated, &digest), 0);
	assert_true(digest == outcome->alone[0]);
}
