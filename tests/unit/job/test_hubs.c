/* SPDX-License-Identifier: BSD-3-Clause
 * Jobs of more than SLUICE_MESH ranks: which pairs of ranks connect and when, collectives that hubs
 * forward, and losses of members and of hubs. Large jobs are simulated; ranks that die are
 * processes. */
#include "ranks.h"
#include "scratch.h"
#include "base/bytes.h"
#include "job/collective.h"
#include "job/connect.h"
#include "job/hubs.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "job/state.h"
#include "sluice_region.h"
#include "thinned.h"
#include "cases.h"
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { IN_TIME = 30000 };

/* ---- connections ------------------------------------------------------------- */

static int connected_from(const sluice_job *job)
{
	int n = 0;

	for (int p = job->rank + 1; p < job->size; p++)
		n += job->peers[p].control != NULL;
	return n;
}

/* The pairs that are connected after training, a broadcast, and sluice_region_open(). */
struct pairs {
	uint32_t shards;
	int trained, spread, all;
};

static void check_collectives(sluice_job *job, uint64_t *all)
{
	enum { BYTES = SLUICE_GATHER_MAX / 8 * 8, WORDS = BYTES / 8 };
	uint64_t words[WORDS];
	double sum[3] = { 1, job->rank, 0.5 };

	for (int i = 0; i < WORDS; i++)
		words[i] = (uint64_t)(job->rank * 1000 + i);
	CHECK_OK(sluice_gather(job, words, BYTES, all));
	for (int w = 0; w < job->workers; w++)
		for (int i = 0; i < WORDS; i++)
			CHECK(all[w * WORDS + i] == (uint64_t)(w * 1000 + i));
	CHECK_OK(sluice_sum(job, sum, 3));
	CHECK(sum[0] == job->workers && sum[1] == job->workers * (job->workers - 1) / 2);
	CHECK(sum[2] == 0.5 * job->workers);
	CHECK_OK(sluice_barrier(job));
}

/* More bytes than a message has: the root connects with all ranks. */
static void check_broadcast(sluice_job *job)
{
	static const char text[3000] = "the bytes of rank 5";
	char says[sizeof(text)] = "";

	if (job->rank == 5)
		memcpy(says, text, sizeof(says));
	CHECK_OK(sluice_broadcast(job, says, sizeof(says), 5));
	CHECK(!memcmp(says, text, sizeof(says)));
}

/* Each rank puts its number into the window of the next one, so all ranks connect. */
static void ring(sluice_job *job)
{
	const int next = (job->rank + 1) % job->size,
		  last = (job->rank + job->size - 1) % job->size;
	sluice_region *region = NULL;

	CHECK_OK(sluice_region_open(job, 64, &region));
	CHECK_OK(sluice_region_put(region, next, 0, &job->rank, sizeof(int), 1));
	CHECK_OK(sluice_region_wait(region, last, 1));
	CHECK(*(int *)sluice_region_base(region) == last);
	sluice_region_close(&region);
}

static int train_and_count(sluice_job *job, void *context)
{
	struct pairs *pairs = context;
	float params[400] = { 0 }, grad[400];
	uint64_t *all = malloc((size_t)job->size * SLUICE_GATHER_MAX);
	sluice_model *model = OPEN(job, params, .count = 400, .shards = pairs->shards,
				   .recipe = "up=all down=all", .lr = 1.0f / 1024);

	if (sluice_is_worker(job)) {
		check_collectives(job, all);
		for (int step = 0; step < 3; step++) {
			for (int i = 0; i < 400; i++)
				grad[i] = (float)(job->rank + i + step);
			CHECK_STEP(model, grad, params);
		}
		for (int i = 0; i < 400; i++) {
			const float mean = (float)(job->workers - 1) / 2 + (float)i + 1;

			CHECK(fabsf(params[i] + 3 * mean / 1024) < 1e-5f);
		}
		pairs->trained += connected_from(job);
		check_broadcast(job);
	} else {
		CHECK_OK(sluice_serve(model));
		pairs->trained += connected_from(job);
	}
	sluice_model_close(&model);
	pairs->spread += connected_from(job);
	free(all);
	ring(job);
	pairs->all += connected_from(job);
	return 0;
}

static void check_pairs(int ranks, int servers, uint32_t shards, int trained, int spread)
{
	struct pairs pairs = { .shards = shards };
	sluice_job_attr attr = { .size = sizeof attr, .servers = servers };

	assert_int_equal(sluice_simulate(&attr, ranks, train_and_count, &pairs), 0);
	print_message("%d workers, %d servers: %d pairs connected after training, of %d\n",
		      ranks - servers, servers, pairs.trained, pairs.all);
	assert_int_equal(pairs.trained, trained);
	assert_int_equal(pairs.spread, trained + spread);
	assert_int_equal(pairs.all, ranks * (ranks - 1) / 2);
}

TEST(train__128_workers_and_8_servers__no_two_workers_connect_until_a_region_opens)
{
	check_pairs(136, 8, 8, 128 * 8 + 8 * 7 / 2, 127);
}

/* Ranks 0 and 64 are hubs, and ranks 0 and 36 own the shards. */
TEST(train__72_workers_and_2_shards__workers_connect_with_hubs_and_owners_only)
{
	check_pairs(72, 0, 2, 71 + 70 + 69, 68);
}

TEST(train__one_server__forwards_all)
{
	check_pairs(66, 1, 1, 65, 64);
}

TEST(train__64_ranks__all_connect_at_the_start)
{
	check_pairs(64, 4, 4, 64 * 63 / 2, 0);
}

/* ---- groups ------------------------------------------------------------------- */

static int split_in_four(sluice_job *job, void *context)
{
	int *connected = context;
	double ones = 1;
	sluice_job *group = NULL;

	CHECK_OK(sluice_split(job, job->rank % 4, 0, &group));
	CHECK_OK(sluice_sum(group, &ones, 1));
	CHECK(ones == job->size / 4);
	sluice_finalize(&group);
	CHECK_OK(sluice_sum(job, &ones, 1));
	CHECK(ones == job->size * (job->size / 4));
	*connected += connected_from(job);
	return 0;
}

/* Four groups of 20 ranks; hubs are the ranks 0 and 64, both in the first group. */
TEST(split__in_four_groups__members_of_a_group_connect)
{
	int connected = 0;

	assert_int_equal(sluice_simulate(NULL, 80, split_in_four, &connected), 0);
	assert_int_equal(connected, 4 * (20 * 19 / 2) + 2 * 60);
}

struct one_group {
	int servers, at_start, trained, in_region;
};

/* A group of all ranks but the first one, which is above SLUICE_MESH. */
static int use_large_group(sluice_job *job, void *context)
{
	struct one_group *seen = context;
	float params[400] = { 0 }, grad[400] = { 1 };
	sluice_job *group = NULL;
	double ones = 1;

	CHECK_OK(sluice_split(job, job->rank ? 0 : -1, 0, &group));
	if (!group) {
		CHECK_OK(sluice_barrier(job));
		return 0;
	}
	seen->at_start += connected_from(group);
	CHECK_OK(sluice_sum(group, &ones, 1));
	CHECK(ones == group->workers);
	sluice_model *model = OPEN(group, params, .count = 400, .shards = 2, .lr = 1.0f / 1024,
				   .recipe = "up=all down=all");
	if (sluice_is_worker(group))
		for (int step = 0; step < 3; step++)
			CHECK_STEP(model, grad, params);
	else
		CHECK_OK(sluice_serve(model));
	CHECK(!sluice_is_worker(group) || fabsf(params[0] + 3.0f / 1024) < 1e-6f);
	sluice_model_close(&model);
	seen->trained += connected_from(group);
	ring(group);
	seen->in_region += connected_from(group);
	CHECK_OK(sluice_barrier(group));
	sluice_finalize(&group);
	CHECK_OK(sluice_barrier(job));
	return 0;
}

static void check_large_group(int ranks, int servers, int at_start, int trained)
{
	struct one_group seen = { .servers = servers };
	sluice_job_attr attr = { .size = sizeof attr, .servers = servers };
	const int n = ranks - 1;

	assert_int_equal(sluice_simulate(&attr, ranks, use_large_group, &seen), 0);
	print_message("group of %d ranks, %d of them servers: %d pairs connected at the start, %d "
		      "after training, %d with a region\n",
		      n, servers, seen.at_start, seen.trained, seen.in_region);
	assert_int_equal(seen.at_start, at_start);
	assert_int_equal(seen.trained, trained);
	assert_int_equal(seen.in_region, n * (n - 1) / 2);
}

TEST(group__of_71_ranks__has_hubs_and_connects_when_needed)
{
	check_large_group(72, 2, 69 * 2 + 1, 69 * 2 + 1);
	/* The hubs are ranks 0 and 64 of the group, and rank 64 of the job. Ranks 0 and 35 of the
	 * group own the shards. */
	if (!thinned(1, 2))
		check_large_group(72, 0, 70 + 69 + 68, 70 + 69 + 68 + 67);
}

/* ---- checkpoints --------------------------------------------------------------- */

struct saved {
	char dir[SCRATCH_PATH];
	uint32_t shards;
};

static void train(sluice_job *job, sluice_model *model, int steps, float *params)
{
	for (int step = 0; step < steps; step++) {
		float grad[400];

		for (int i = 0; i < 400; i++)
			grad[i] = (float)((job->rank * 7 + i * 3 + step) % 50);
		CHECK_STEP(model, grad, params);
	}
}

static sluice_model *open_saved(sluice_job *job, const struct saved *saved, float *params)
{
	return OPEN(job, params, .count = 400, .shards = saved->shards,
		    .recipe = "up=topk(0.1) down=topk(0.1)", .lr = 1.0f / 1024);
}

/* Returns 1 on a server, which has followed the workers until they close the model. */
static int has_served(sluice_job *job, sluice_model **model)
{
	if (sluice_is_worker(job))
		return 0;
	CHECK_OK(sluice_serve(*model));
	sluice_model_close(model);
	return 1;
}

static int save_and_restore(sluice_job *job, void *context)
{
	const struct saved *saved = context;
	float params[400] = { 0 }, again[400] = { 0 };
	sluice_model *model = open_saved(job, saved, params);
	uint64_t step = 0;

	if (!has_served(job, &model)) {
		train(job, model, 2, params);
		CHECK_OK(sluice_checkpoint(model, saved->dir));
		train(job, model, 2, params);
		sluice_model_close(&model);
	}
	model = open_saved(job, saved, again);
	if (!has_served(job, &model)) {
		CHECK_OK(sluice_restore(model, saved->dir, again, &step));
		CHECK(step == 2);
		train(job, model, 2, again);
		CHECK(!memcmp(params, again, sizeof(params)));
		sluice_model_close(&model);
	}
	return 0;
}

static void check_saved(int ranks, int servers)
{
	struct saved saved = { .shards = 2 };
	sluice_job_attr attr = { .size = sizeof attr, .servers = servers };

	assert_int_equal(scratch_make(saved.dir), 0);
	assert_int_equal(sluice_simulate(&attr, ranks, save_and_restore, &saved), 0);
	scratch_remove(saved.dir);
}

/* Two workers that are not connected have one checkpoint, and each finds its own file. */
TEST(checkpoint__of_ranks_that_are_not_connected__restores_all)
{
	check_saved(90, 2);
	if (!thinned(1, 2))
		check_saved(70, 0);
}

/* ---- errors ------------------------------------------------------------------- */

/* Each rank of a small job has one hub. */
static sluice_job *join_with_hubs(int servers, int on_failure)
{
	sluice_job_attr attr = { .size = sizeof attr,
				 .servers = servers,
				 .on_failure = on_failure };

	setenv("SLUICE_MESH", "2", 1);
	log_capture();
	return rank_join(&attr);
}

TEST_IN_RANKS(collectives__that_differ__fail_on_all_ranks, 5)
{
	sluice_job *job = join_with_hubs(0, 0);
	double one = 1;
	const int rc = rank == 3 ? sluice_sum(job, &one, 1) : sluice_barrier(job);

	CHECK(rc == SLUICE_EINVAL || rc == SLUICE_EPEER);
	CHECK(error_says("collectives differ", rank == 3 ? NULL : "rank 3 (node n2)"));
	sluice_finalize(&job);
	return 0;
}

/* The server is the hub, and takes part in the checkpoint. */
TEST_IN_RANKS(collectives__that_differ_in_a_job_that_continues__are_named_on_all_ranks, 4)
{
	sluice_job *job = join_with_hubs(1, SLUICE_CONTINUE);
	float params[100] = { 0 };
	sluice_model *model = OPEN(job, params, .count = 100, .recipe = "up=all down=all");
	int rc;

	if (rank == 3)
		rc = sluice_serve(model);
	else if (rank == 2)
		rc = sluice_barrier(job);
	else
		rc = sluice_checkpoint(model, "/nonexistent");
	CHECK(rc == SLUICE_EINVAL || rc == SLUICE_EPEER);
	CHECK(error_says("sluice_checkpoint", "sluice_barrier"));
	CHECK(error_says("collectives differ", NULL));
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

TEST_IN_RANKS(settings__that_differ__are_refused_on_all_ranks, 3)
{
	sluice_job *job = NULL;

	log_capture();
	setenv("SLUICE_MESH", rank == 1 ? "2" : "3", 1);
	CHECK(sluice_init(NULL, &job) == SLUICE_EPEER);
	CHECK(error_says("SLUICE_MESH is below the number of ranks on rank 1 (node n1)",
			 "set it to the same value on all ranks"));
	return 0;
}

/* ---- groups of processes ------------------------------------------------------- */

static void sum_of(sluice_job *job)
{
	double ones = 1;

	CHECK_OK(sluice_sum(job, &ones, 1));
	CHECK(ones == job->workers);
}

/* A pair that a group has connected serves the other groups and the root as well. */
TEST_IN_RANKS(groups__with_hubs_and_without__connect_pairs_for_each_other, 6)
{
	sluice_job *job = join_with_hubs(0, 0), *group = NULL, *inner = NULL;

	for (int round = 0; round < 3; round++) {
		CHECK_OK(sluice_split(job, rank / 5, -rank, &group)); /* 5 ranks, and one */
		if (round)
			ring(group);
		sum_of(group);
		CHECK_OK(sluice_split(group, group->rank % 2, 0, &inner));
		ring(inner);
		sum_of(inner);
		sluice_finalize(&inner);
		ring(group);
		sluice_finalize(&group);
		sum_of(job);
		if (round == 1)
			ring(job);
		group = inner = NULL;
	}
	sluice_finalize(&job);
	return 0;
}

static void *open_regions(void *group)
{
	for (int i = 0; i < 3; i++) {
		ring(group);
		sum_of(group);
	}
	return NULL;
}

/* The pairs of two groups connect at the same time, on the first use of each group. */
TEST_IN_RANKS(two_groups_with_hubs__connect_in_two_threads, 5)
{
	sluice_job *job = join_with_hubs(0, 0), *group[2] = { NULL, NULL };

	for (int round = 0; round < 4; round++) {
		pthread_t thread;

		for (int i = 0; i < 2; i++)
			CHECK_OK(sluice_split(job, 0, i ? -rank : rank, &group[i]));
		CHECK(!pthread_create(&thread, NULL, open_regions, group[0]));
		open_regions(group[1]);
		CHECK(!pthread_join(thread, NULL));
		for (int i = 0; i < 2; i++)
			sluice_finalize(&group[i]);
	}
	sluice_finalize(&job);
	return 0;
}

/* Rank 4 fails in a group when the others have offered it their lines there. It does not answer. */
static void leave_offers_unanswered(sluice_job *group)
{
	CHECK_OK(collective_run(group, COLLECTIVE_OPEN, NULL, 0, 0, NULL));
	progress_take(group);
	for (int p = 1; p < 4; p++)
		while (!hubs_offer(group, p))
			progress_poll(group);
	job_fail(group, SLUICE_EINVAL, group->rank, "as the test wants it");
	progress_release(group);
}

/* Rank 1 offers its lines once more, in the group that all ranks have left. */
static void offer_again(sluice_job *group)
{
	progress_take(group);
	CHECK_OK(lines_offer(group, 4, 8 + REGION_DESCRIPTOR_BYTES));
	progress_release(group);
}

TEST_IN_RANKS(group__that_fails_while_its_ranks_connect__leaves_the_next_group_alone, 5)
{
	sluice_job *job = join_with_hubs(0, 0), *group = NULL, *failed, *next = NULL;

	be_impatient(job, 5000); /* the groups inherit it */
	CHECK_OK(sluice_split(job, 0, 0, &group));
	CHECK_OK(sluice_split(job, 0, 0, &next));
	ring(job); /* connects all pairs in the root, but not in the groups */
	if (rank == 4)
		leave_offers_unanswered(group);
	else {
		CHECK(connect_pairs(group, NULL, NULL, "the test") == SLUICE_EPEER);
		CHECK(error_says("as the test wants it", "rank 4"));
	}
	failed = group; /* it keeps its memory, because peers may still write to it */
	sluice_finalize(&group);
	sum_of(job);
	if (rank == 1)
		offer_again(failed);
	sum_of(job);
	ring(next);
	sum_of(next);
	sluice_finalize(&next);
	sum_of(job);
	sluice_finalize(&job);
	return 0;
}

/* An offer may be read when the peer has already written the next one to its place, as a whole or
 * in part. */
TEST_IN_RANKS(offer__that_another_one_overwrites__is_not_taken, 3)
{
	sluice_job *job = join_with_hubs(0, 0), *group[2] = { NULL, NULL };

	for (int i = 0; i < 2; i++)
		CHECK_OK(sluice_split(job, 0, 0, &group[i]));
	ring(group[1]);
	progress_take(job);
	if (rank) {
		uint8_t *offer = line_of(job, 3 - rank) + LINE_OFFER;

		CHECK(hubs_take_offer(group[0], 3 - rank) == 0);
		CHECK(!hubs_offer(group[0], 3 - rank));
		put_le32(offer, group[0]->group.imm); /* with the next one's descriptor */
		CHECK(hubs_take_offer(group[0], 3 - rank) < 0);
		CHECK(!hubs_offer(group[0], 3 - rank));
	}
	progress_release(job);
	sum_of(job);
	for (int i = 0; i < 2; i++)
		sluice_finalize(&group[i]);
	sluice_finalize(&job);
	return 0;
}

static struct transport_ops changed;
static const struct transport_ops *original;

/* A card that has no keys left for this rank's rows refuses them, as rdma/rights.c does. */
static int refuse_rows(struct endpoint *e, const struct region *region, uint8_t *descriptor)
{
	return strcmp(region->name, "rows") ?
		       original->describe(e, region, descriptor) :
		       fail_quietly(SLUICE_ENOSUPP, "no key for region %s, as the test wants it",
				    region->name);
}

TEST_IN_RANKS(group__whose_hub_cannot_reach_a_member__fails_on_all_ranks, 5)
{
	sluice_job *job = join_with_hubs(0, 0), *group = NULL;

	be_impatient(job, 10000); /* the group inherits it */
	if (rank == 3) {
		struct transport *t = job->peers[0].endpoint->transport;

		original = t->ops;
		changed = *original;
		changed.describe = refuse_rows;
		progress_take(job);
		t->ops = &changed;
		progress_release(job);
		CHECK(sluice_split(job, 0, 0, &group) == SLUICE_ENOSUPP && !group);
		t->ops = original;
	} else {
		/* The ranks that exchange no rows with rank 3 may get the group before it fails. */
		const int rc = sluice_split(job, 0, 0, &group);

		CHECK((rc ? rc : sluice_barrier(group)) == SLUICE_EPEER);
	}
	CHECK(error_says("rank 3 of group 0 (rank 3 of the job, node n2)",
			 "cannot take part in the group: no key for region rows"));
	sluice_finalize(&group);
	sum_of(job);
	sluice_finalize(&job);
	return 0;
}

/* A queue that never has room for the heads of messages. */
static int last_round, heads_after_it;

static int post_no_heads(struct endpoint *e, const struct transfer *t)
{
	static uint64_t first;
	const uint32_t index = t->imm & GROUP_INDEX_MOST;
	const int is_message = (t->imm >> IMM_KIND_SHIFT & 7) == IMM_COLLECTIVE && t->imm >> 31;

	if (is_message && index > 1 + COLLECTIVE_BYTES) {
		heads_after_it += last_round;
		return SLUICE_EAGAIN;
	}
	if (is_message && !index &&
	    get_le32((const uint8_t *)t->local + 8) == COLLECTIVE_FINALIZE) {
		const uint64_t seq = get_le64(t->local);

		first = first ? first : seq;
		last_round |= seq != first;
	}
	return original->post(e, t);
}

/* A member closes its rows when it has the hub's message of the last round. */
TEST_IN_RANKS(group__that_ends_while_a_queue_is_full__hub_writes_no_head_in_the_last_round, 3)
{
	sluice_job *job = join_with_hubs(0, 0), *group = NULL;
	float params[100] = { 0 };

	CHECK_OK(sluice_split(job, 0, 0, &group));
	sluice_model *model = OPEN(group, params, .count = 100, .recipe = "up=all down=all");
	CHECK_OK(sluice_barrier(group));
	if (!rank) {
		struct transport *t = job->peers[1].endpoint->transport;

		progress_take(job);
		original = t->ops;
		changed = *original;
		changed.post = post_no_heads;
		t->ops = &changed;
		progress_release(job);
	}
	sluice_model_close(&model);
	if (rank)
		sleep_ms(100); /* rank 0 waits for this message */
	sluice_finalize(&group);
	CHECK(last_round == !rank && !heads_after_it);
	sum_of(job);
	sluice_finalize(&job);
	return 0;
}

struct group_loss {
	int victim, connects;
};

/* The victim kills itself while the others of its group wait for it, or connect. */
static int lose_one_of_a_group(int rank, void *argument)
{
	const struct group_loss *l = argument;
	sluice_job *job = join_with_hubs(0, 0), *group = NULL;
	sluice_region *region = NULL;
	char who[48];

	snprintf(who, sizeof(who), "(rank %d of the job, node n%d) is lost", l->victim,
		 l->victim / 2 + 1);
	CHECK_OK(sluice_split(job, rank ? 0 : -1, 0, &group));
	if (rank == l->victim) {
		sum_of(group);
		sleep_ms(100);
		kill(getpid(), SIGKILL);
	}
	if (group) {
		sum_of(group);
		CHECK((l->connects ? sluice_region_open(group, 64, &region) :
				     sluice_barrier(group)) == SLUICE_EPEER);
		CHECK(error_says(who, NULL));
		sluice_finalize(&group);
	}
	CHECK(sluice_barrier(job) == SLUICE_EPEER);
	sluice_finalize(&job);
	return 0;
}

TEST(kill__in_a_group_with_hubs__all_of_the_group_name_the_rank)
{
	int status[6];

	for (int i = 0; i < 4; i++) {
		struct group_loss l = { i % 2 ? 4 : 1, i / 2 }; /* a member, or the hub */

		if (thinned((size_t)i, 3))
			continue;
		run_ranks_status(6, lose_one_of_a_group, &l, NULL, IN_TIME, status);
		for (int r = 0; r < 6; r++)
			if (r != l.victim && status[r])
				fail_msg("victim %d: rank %d has status 0x%x", l.victim, r,
					 (unsigned)status[r]);
	}
}

/* ---- losses ------------------------------------------------------------------- */

struct loss {
	int servers, victim, finalizes;
};

/* All ranks call sluice_barrier(), or sluice_finalize(), and the victim kills itself instead. */
static int lose_one(int rank, void *argument)
{
	const struct loss *l = argument;
	sluice_job *job = join_with_hubs(l->servers, 0);
	char who[32];

	snprintf(who, sizeof(who), "rank %d (node n%d)", l->victim, l->victim / 2 + 1);
	CHECK_OK(sluice_barrier(job));
	if (rank == l->victim) {
		sleep_ms(100); /* the others wait in the call */
		kill(getpid(), SIGKILL);
	}
	if (!l->finalizes) {
		CHECK(sluice_barrier(job) == SLUICE_EPEER);
		CHECK(error_says(who, "is lost"));
	}
	sluice_finalize(&job);
	CHECK(log_saw(who, "is lost", NULL, NULL));
	return 0;
}

static void check_loss(int servers, int victim, int finalizes)
{
	struct loss l = { servers, victim, finalizes };
	int status[6];

	run_ranks_status(6, lose_one, &l, NULL, IN_TIME, status);
	for (int r = 0; r < 6; r++)
		if (r != victim && status[r])
			fail_msg("%d servers, victim %d: rank %d has status 0x%x", servers, victim,
				 r, (unsigned)status[r]);
}

TEST(kill__a_member_or_a_hub__all_name_it)
{
	for (int servers = 0; servers <= 2; servers++)
		for (int victim = 0; victim < 6; victim++)
			if (!thinned((size_t)(servers * 6 + victim), 5))
				check_loss(servers, victim, 0);
}

TEST(kill__while_all_finalize__all_name_it)
{
	check_loss(0, 0, 1);
	check_loss(0, 4, 1);
	check_loss(2, 3, 1);
	check_loss(2, 5, 1);
}

/* Ranks 1 and 2 are not connected until the region is opened. */
static int lose_one_before_it_connects(int rank, void *argument)
{
	sluice_job *job = join_with_hubs(0, 0);
	sluice_region *region = NULL;

	CHECK_OK(sluice_barrier(job));
	if (rank == 2)
		kill(getpid(), SIGKILL);
	CHECK(sluice_region_open(job, 64, &region) == SLUICE_EPEER);
	CHECK(error_says("rank 2 (node n2)", NULL));
	sluice_finalize(&job);
	return 0;
}

TEST(kill__before_a_late_connection__all_name_the_rank)
{
	int status[5];

	run_ranks_status(5, lose_one_before_it_connects, NULL, NULL, IN_TIME, status);
	for (int r = 0; r < 5; r++)
		if (r != 2 && status[r])
			fail_msg("rank %d has status 0x%x", r, (unsigned)status[r]);
}

/* The others wait for a rank as long as in any other call, and not as long as for a connection. */
TEST_IN_RANKS(region_open__by_a_late_rank__waits_for_it, 4)
{
	sluice_job *job = join_with_hubs(0, 0);
	sluice_region *region = NULL;

	CHECK_OK(sluice_barrier(job));
	job->settings.patience.boot_timeout_ms = 3000;
	if (rank == 2)
		sleep_ms(4000);
	CHECK_OK(sluice_region_open(job, 64, &region));
	sluice_region_close(&region);
	sluice_finalize(&job);
	return 0;
}

/* A worker is lost, and the others connect afterwards. */
static int go_on_without_one(int rank, void *argument)
{
	sluice_job *job = join_with_hubs(2, SLUICE_CONTINUE);
	sluice_region *region = NULL;
	double ones = 1;

	CHECK_OK(sluice_barrier(job));
	if (rank == 1)
		kill(getpid(), SIGKILL);
	while (sluice_living(job) == 4)
		sleep_ms(1);
	CHECK_OK(sluice_sum(job, &ones, 1));
	CHECK(ones == 3);
	CHECK_OK(sluice_region_open(job, 64, &region));
	if (sluice_is_worker(job)) {
		uint64_t words[64] = { 1 };

		CHECK(job->peers[rank == 0 ? 2 : 0].control && !job->peers[1].control);
		CHECK(sluice_region_put(region, 1, 0, words, 8, 1) == SLUICE_EPEER);
		CHECK(sluice_region_get(region, 1, 0, words, 64, 0) == SLUICE_EPEER);
	}
	sluice_region_close(&region);
	sluice_finalize(&job);
	return 0;
}

TEST(kill__a_worker_of_a_job_that_continues__later_connections_leave_it_out)
{
	int status[6];

	run_ranks_status(6, go_on_without_one, NULL, NULL, IN_TIME, status);
	for (int r = 0; r < 6; r++)
		if (r != 1 && status[r])
			fail_msg("rank %d has status 0x%x", r, (unsigned)status[r]);
}
