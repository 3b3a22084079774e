/* SPDX-License-Identifier: BSD-3-Clause
 * A whole job over the fake card: three ranks, which are threads of this process, train a model
 * through the public interface. Counts the posts of a steady-state step. */
#include "base/error.h"
#include "base/log.h"
#include "tests/fakes/verbs/fake_fabric.h"
#include "sluice.h"
#include "sluice_region.h"
#include "compress/message.h"
#include "job/progress_token.h"
#include "model/home.h"
#include "model/model.h"
#include "worker/lane.h"
#include "worker/state.h"
#include "slurm/bootstrap.h"
#include "cases.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, COUNT = 200000, WARM = 4, STEPS = 12, TIMEOUT_MS = 120000, HOUR_MS = 3600000 };

int __wrap_access(const char *path, int mode);
int __real_access(const char *path, int mode);

int __wrap_access(const char *path, int mode)
{
	return strcmp(path, "/dev/infiniband/rdma_cm") == 0 ? 0 : __real_access(path, mode);
}

/* ---- a bootstrap between threads ------------------------------------------- */

struct bootstrap {
	int rank;
};

static _Thread_local int my_rank;
static struct rank_record cards[RANKS];
static pthread_barrier_t meeting;

int bootstrap_open(const sluice_bootstrap *callbacks, int timeout_ms, struct bootstrap **out)
{
	*out = malloc(sizeof(**out));
	(*out)->rank = my_rank;
	return 0;
}

int bootstrap_rank(const struct bootstrap *b)
{
	return b->rank;
}

int bootstrap_size(const struct bootstrap *b)
{
	return RANKS;
}

const char *bootstrap_node(const struct bootstrap *b)
{
	static const char *const names[RANKS] = { "n1", "n2", "n3" };

	return names[b->rank];
}

const char *bootstrap_origin(const struct bootstrap *b)
{
	return "a test";
}

int bootstrap_exchange(struct bootstrap *b, const uint8_t *payload, size_t n,
		       struct rank_record **cards_out)
{
	struct rank_record *card = &cards[b->rank];

	memset(card, 0, sizeof(*card));
	card->wire_version = SLUICE_WIRE_VERSION;
	snprintf(card->version, sizeof(card->version), "%s", PACKAGE_VERSION);
	card->boot_id[0] = (uint8_t)(b->rank + 1); /* each rank is on its own node */
	snprintf(card->node, sizeof(card->node), "%s", bootstrap_node(b));
	card->payload_bytes = (uint32_t)n;
	memcpy(card->payload, payload, n);
	pthread_barrier_wait(&meeting);
	*cards_out = malloc(sizeof(cards));
	memcpy(*cards_out, cards, sizeof(cards));
	pthread_barrier_wait(&meeting);
	return 0;
}

int bootstrap_leave(struct bootstrap *b)
{
	return 0;
}

void bootstrap_close(struct bootstrap **b)
{
	free(*b);
	*b = NULL;
}

/* ---- the ranks ------------------------------------------------------------- */

static struct fake_counts before, after;
static uint64_t staged, logged, windowed; /* bytes of rank 0's regions */
static uint64_t pinned;                   /* before the models are opened */
static uint64_t digests[RANKS];
static char troubles[RANKS][512];
static int registered; /* registrations after the models were opened */

static int shards = RANKS;
static size_t count = COUNT; /* of parameters */

static void swallow(int level, const char *line, void *context)
{
}

static int step(sluice_model *model, float *params, float *grad, int number, int rank)
{
	int rc;

	for (int i = 0; i < (int)count; i++)
		grad[i] = (float)((i * 7 + number * 13 + rank * 5) % 101 - 50) / 64;
	rc = sluice_push(model, grad);
	return rc == 0 ? sluice_pull(model, params) : rc;
}

/* ---- doorbells --------------------------------------------------------------- */

enum bell { BELL_PUSH, BELL_NOTICE, BELL_READ, BELLS, QPNS = 64 };
static uint64_t bells[QPNS][BELLS]; /* of a queue pair, which leads from one rank to one peer */
static int counts_bells, polls_most;

static void count_bells(const struct ibv_qp *qp, const struct ibv_send_wr *chain)
{
	int has[BELLS] = { 0 };

	if (!counts_bells)
		return;
	for (; chain; chain = chain->next) {
		const uint32_t kind = be32toh(chain->imm_data) >> IMM_KIND_SHIFT;

		has[BELL_READ] |= chain->opcode == IBV_WR_RDMA_READ;
		if (chain->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
			has[BELL_PUSH] |= kind == IMM_PUSH;
			has[BELL_NOTICE] |= kind == IMM_NOTICE;
		}
	}
	for (int i = 0; i < BELLS; i++)
		bells[qp->qp_num % QPNS][i] += (uint64_t)has[i];
}

/* Progress threads continue to count. */
static struct fake_counts counts_now(void)
{
	struct fake_counts now;

	fake_lock();
	now = fake_counts;
	fake_unlock();
	return now;
}

static struct fake_counts counts_from_here(int bells_too)
{
	fake_lock();
	counts_bells = bells_too;
	fake_unlock();
	return counts_now();
}

/* The length of a user's region; 0: there is none. */
static size_t user_bytes;

/* Each rank fills the next rank's window and reads it back. */
static int use_region(sluice_job *job)
{
	const int next = (my_rank + 1) % RANKS;
	uint8_t *bytes = malloc(user_bytes), *back = calloc(1, user_bytes);
	sluice_region *region = NULL;
	int rc = sluice_region_open(job, user_bytes, &region);

	for (size_t i = 0; i < user_bytes; i++)
		bytes[i] = (uint8_t)(i * 31 + i / 255 + (size_t)my_rank);
	if (rc == 0)
		rc = sluice_region_put(region, next, 0, bytes, user_bytes, SLUICE_NOTIFY);
	if (rc == 0)
		rc = sluice_region_get(region, next, 1, back, user_bytes - 2, 0);
	if (rc == 0)
		rc = sluice_region_wait(region, (my_rank + RANKS - 1) % RANKS, 1);
	if (rc == 0 && memcmp(back, bytes + 1, user_bytes - 2) != 0)
		rc = fail_quietly(SLUICE_EWIRE, "other bytes came back");
	/* Programs may poll the region, so its ordering must not be relaxed. */
	if (rc == 0 && fake_relaxed(sluice_region_base(region), user_bytes))
		rc = fail_quietly(SLUICE_EINVAL, "a user's region has relaxed ordering");
	sluice_region_close(&region);
	free(bytes);
	free(back);
	return rc;
}

/* All ranks have equal sizes here. */
static void measure(const sluice_model *model)
{
	staged = lanes_memory(&model->layout);
	logged = holdings_log_bytes(model->layout.holdings, 0);
	windowed = 0;
	for (int peer = 1; peer < RANKS; peer++)
		windowed += holdings_window_bytes(model->layout.holdings, 0, peer);
}

static void *run_rank(void *argument)
{
	sluice_job_attr where = { .size = sizeof(where),
				  .wait_timeout_ms = TIMEOUT_MS,
				  .lost_after_ms = HOUR_MS }; /* no heartbeat is checked in
								 between */
	sluice_model_attr attr = { .size = sizeof(attr),
				   .count = count,
				   .shards = (uint32_t)shards,
				   .recipe = "up=topk(0.01) down=topk(0.01)" };
	float *params = calloc(count, sizeof(*params)), *grad = calloc(count, sizeof(*grad));
	sluice_model *model = NULL;
	sluice_job *job = NULL;
	int rc;

	my_rank = (int)(intptr_t)argument;
	rc = sluice_init(&where, &job);
	if (rc == 0 && user_bytes)
		rc = use_region(job);
	pthread_barrier_wait(&meeting);
	if (my_rank == 0)
		pinned = counts_now().pinned;
	pthread_barrier_wait(&meeting);
	if (rc == 0)
		rc = sluice_model_open(job, &attr, params, &model);
	if (rc == 0 &&
	    !fake_relaxed(lanes_staging(model->worker->lanes)->base, lanes_memory(&model->layout)))
		rc = fail_quietly(SLUICE_EINVAL, "the staging memory has no relaxed ordering");
	if (rc == 0 && my_rank == 0)
		measure(model);
	pthread_barrier_wait(&meeting);
	if (my_rank == 0)
		registered = counts_now().mrs;
	pthread_barrier_wait(&meeting);
	for (int i = 0; i < WARM && rc == 0; i++)
		rc = step(model, params, grad, i, my_rank);
	pthread_barrier_wait(&meeting);
	if (my_rank == 0)
		before = counts_from_here(1);
	pthread_barrier_wait(&meeting);
	for (int i = WARM; i < WARM + STEPS && rc == 0; i++)
		rc = step(model, params, grad, i, my_rank);
	pthread_barrier_wait(&meeting);
	if (my_rank == 0)
		after = counts_from_here(0);
	pthread_barrier_wait(&meeting);
	if (rc != 0)
		snprintf(troubles[my_rank], sizeof(troubles[0]), "rank %d: %s", my_rank,
			 sluice_last_error());
	digests[my_rank] = sluice_digest(params, count * sizeof(*params));
	sluice_model_close(&model);
	sluice_finalize(&job);
	free(params);
	free(grad);
	return NULL;
}

static void run_threads(void *(*rank)(void *))
{
	pthread_t threads[RANKS];
	const char *leak;

	setenv("SLUICE_TRANSPORT", "verbs", 1);
	log_set_sink(swallow, NULL);
	pthread_barrier_init(&meeting, NULL, RANKS);
	for (intptr_t r = 0; r < RANKS; r++)
		assert_int_equal(pthread_create(&threads[r], NULL, rank, (void *)r), 0);
	for (int r = 0; r < RANKS; r++)
		pthread_join(threads[r], NULL);
	for (int r = 0; r < RANKS; r++)
		assert_string_equal(troubles[r], "");
	assert_int_equal(fake_counts.overflows, 0);
	assert_int_equal(fake_counts.no_receive, 0);
	leak = fake_leak();
	if (leak != NULL)
		fail_msg("%s", leak);
	pthread_barrier_destroy(&meeting);
}

static void run_job(void)
{
	run_threads(run_rank);
	for (int r = 1; r < RANKS; r++)
		assert_int_equal(digests[r], digests[0]);
	assert_int_equal(after.access_errors, before.access_errors);
}

TEST(steady_state__three_ranks_three_shards__one_write_one_read_one_notice_per_pair)
{
	const uint64_t pairs = RANKS * (RANKS - 1); /* number of pairs of worker and remote shard */

	fake_reset();
	run_job();
	/* Pushes and notices carry an immediate, credits do not. */
	assert_int_equal(after.writes_with_imm - before.writes_with_imm, STEPS * pairs * 2);
	assert_int_equal(after.reads - before.reads, STEPS * pairs);
}

/* No connection manager is involved, and the bits are the same. */
TEST(job__on_infiniband_without_ip__same_digest_as_over_the_connection_manager)
{
	uint64_t digest;

	fake_reset();
	run_job();
	digest = digests[0];
	assert_int_equal(fake_counts.datagrams_sent, 0);
	fake_reset();
	fake.link_layer = IBV_LINK_LAYER_INFINIBAND;
	fake.no_ip = 1;
	run_job();
	assert_int_equal(digests[0], digest);
	assert_int_equal(fake_counts.connects, 0);
	assert_in_range(fake_counts.datagrams_sent, RANKS * (RANKS - 1), 1000);
}

/* E810: neither memory windows nor shared receive queues. */
TEST(job__on_cards_of_irdma__same_digest_as_on_another_card)
{
	uint64_t digest;

	fake_reset();
	run_job();
	digest = digests[0];
	fake_reset();
	fake_be(FAKE_IRDMA, 1);
	run_job();
	assert_int_equal(digests[0], digest);
	assert_int_equal(fake_counts.no_receive, 0);
	assert_int_equal(fake_counts.cq_overruns, 0);
}

/* As with adaptive routing. */
TEST(job__packets_placed_in_any_order__same_digest_as_in_order)
{
	uint64_t digest;

	fake_reset();
	run_job();
	digest = digests[0];
	fake_reset();
	fake.mtu = IBV_MTU_256;
	fake.placing = FAKE_IN_ANY_ORDER;
	run_job();
	assert_int_equal(digests[0], digest);
	print_message("%" PRIu64 " packets overtook others\n", fake_counts.overtakers);
	assert_true(fake_counts.overtakers > 100);
}

/* With 2 GiB scaled to 64 KiB, the log of a shard has 17 windows, and the user's region represents
 * one of 3 GiB. */
TEST(job__logs_and_regions_longer_than_a_window_of_mlx5__same_digest_as_on_another_card)
{
	enum { SCALE = 1 << 15 };
	const size_t gib = ((size_t)1 << 30) / SCALE;
	uint64_t digest;

	fake_reset();
	run_job();
	digest = digests[0];
	fake_reset();
	fake_be(FAKE_MLX5, SCALE);
	user_bytes = 3 * gib;
	run_job();
	assert_int_equal(digests[0], digest);
	user_bytes = 0;
}

/* Each peer needs its own registrations: of the whole log, and of parts of the staging memory. */
TEST(model__on_a_card_without_windows__registers_its_staging_memory_once)
{
	fake_reset();
	fake_be(FAKE_BNXT_RE, 1);
	run_job();
	print_message("%" PRIu64 " bytes pinned a rank: staging %" PRIu64 ", log %" PRIu64
		      ", windows %" PRIu64 "\n",
		      (after.pinned - pinned) / RANKS, staged, logged, windowed);
	assert_in_range((after.pinned - pinned) / RANKS, staged / RANKS,
			staged * 11 / 10 + (RANKS - 1) * logged + windowed + 8 * 4096);
	assert_int_equal(after.mrs,
			 registered); /* so a lack of memory is reported when the model is opened */
}

/* Returns the most doorbells that one rank rang for one peer with requests of this kind. */
static uint64_t most_bells(enum bell kind)
{
	uint64_t most = 0;

	for (int i = 0; i < QPNS; i++)
		if (bells[i][kind] > most)
			most = bells[i][kind];
	return most;
}

/* Each rank owns three of the shards, and sends 3 * STEPS requests of each kind to each peer. */
static void count_job(size_t parameters)
{
	const uint64_t pairs = STEPS * 3 * RANKS * (RANKS - 1);

	fake_reset();
	memset(bells, 0, sizeof(bells));
	fake.looks_at = count_bells;
	fake.polls_most = polls_most;
	shards = 3 * RANKS;
	count = parameters;
	run_job();
	shards = RANKS;
	count = COUNT;
	assert_int_equal(after.writes_with_imm - before.writes_with_imm, pairs * 2);
	assert_int_equal(after.reads - before.reads, pairs);
}

/* Credits are rare. */
TEST(steady_state__three_short_shards_a_rank__one_doorbell_a_peer_for_each_kind_of_request)
{
	count_job(9 * 4000);
	assert_int_equal(most_bells(BELL_PUSH), STEPS);
	assert_int_equal(most_bells(BELL_NOTICE), STEPS);
	assert_int_equal(most_bells(BELL_READ), STEPS);
	assert_in_range(after.doorbells - before.doorbells, 3 * STEPS * RANKS * (RANKS - 1),
			3 * STEPS * RANKS * (RANKS - 1) + 20);
}

/* Only one of three messages, and one of three notices, has arrived when the rank looks. */
TEST(steady_state__completions_come_singly__short_shards_still_share_doorbells)
{
	polls_most = 1;
	count_job(9 * 4000);
	polls_most = 0;
	assert_int_equal(most_bells(BELL_PUSH), STEPS);
	assert_int_equal(most_bells(BELL_NOTICE), STEPS);
	assert_int_equal(most_bells(BELL_READ), STEPS);
}

/* A worker reads the first shard while the second one is summed. */
TEST(steady_state__three_long_shards_a_rank__no_notice_waits_for_another)
{
	count_job(9 * 20000);
	assert_int_equal(most_bells(BELL_PUSH), STEPS);
	assert_int_equal(most_bells(BELL_NOTICE), 3 * STEPS);
	assert_in_range(most_bells(BELL_READ), STEPS, 3 * STEPS);
}

/* ---- connections on demand ---------------------------------------------------- */

static int pairs_of_workers[2]; /* queue pairs after training, and with a region */

/* Two workers and a server. Rank 0 counts between two rounds. */
static int train_and_connect(sluice_job *job, float *params, float *grad)
{
	sluice_model_attr attr = { .size = sizeof(attr), .count = count, .recipe = "up=all" };
	sluice_model *model = NULL;
	int rc = sluice_model_open(job, &attr, params, &model);

	if (rc == 0 && !sluice_is_worker(job))
		rc = sluice_serve(model);
	for (int i = 0; rc == 0 && i < WARM && sluice_is_worker(job); i++)
		rc = step(model, params, grad, i, my_rank);
	sluice_model_close(&model);
	if (rc == 0 && my_rank == 0)
		pairs_of_workers[0] = counts_now().qps;
	if (rc == 0)
		rc = sluice_barrier(job);
	if (rc == 0)
		rc = use_region(job);
	if (rc == 0 && my_rank == 0)
		pairs_of_workers[1] = counts_now().qps;
	return rc == 0 ? sluice_barrier(job) : rc;
}

static void *run_rank_on_demand(void *argument)
{
	sluice_job_attr where = { .size = sizeof(where),
				  .servers = 1,
				  .wait_timeout_ms = TIMEOUT_MS };
	float *params = calloc(count, sizeof(*params)), *grad = calloc(count, sizeof(*grad));
	sluice_job *job = NULL;
	int rc;

	my_rank = (int)(intptr_t)argument;
	rc = sluice_init(&where, &job);
	if (rc == 0)
		rc = train_and_connect(job, params, grad);
	if (rc != 0)
		snprintf(troubles[my_rank], sizeof(troubles[0]), "rank %d: %s", my_rank,
			 sluice_last_error());
	sluice_finalize(&job);
	free(params);
	free(grad);
	return NULL;
}

TEST(job__above_the_mesh__two_workers_make_no_queue_pair_until_a_region_needs_it)
{
	fake_reset();
	setenv("SLUICE_MESH", "2", 1);
	user_bytes = 100000;
	run_threads(run_rank_on_demand);
	user_bytes = 0;
	unsetenv("SLUICE_MESH");
	assert_int_equal(pairs_of_workers[0], 2 * 2);
	assert_int_equal(pairs_of_workers[1], 2 * 3);
}
