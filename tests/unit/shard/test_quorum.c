/* SPDX-License-Identifier: BSD-3-Clause
 * Exchanges that close on a quorum: a worker that is late delays nobody, its drift counts once at
 * the next exchange, and it catches up with what was published without it. */
#include "base/bytes.h"
#include "job/progress_token.h"
#include "job/state.h"
#include "model/snapshot.h"
#include "shard/state.h"
#include "worker/lane.h"
#include "worker/local.h"
#include "worker/state.h"
#include "ranks.h"
#include "thinned.h"
#include "cases.h"
#include "scratch.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 60, SHARDS = 3, PERIOD = 2, RANKS = 4, LATE = RANKS - 1, PUSHES_MOST = 40 };
#define DENSE "up=all down=all signal=drift when=every(2) memory=none dense=none "

/* What the ranks write down for each other. */
struct ledger {
	atomic_int exchanges[RANKS]; /* completed by each rank */
	float drift[RANKS][PUSHES_MOST][N];
	uint64_t counted_in[RANKS][PUSHES_MOST][SHARDS]; /* the publication with this drift */
	float weight[RANKS];
};

/* The ledger in which the shards of this rank write down what they count, or NULL. */
static struct ledger *counts;
int __real_gather_count(struct shard *shard, int worker, const struct message *m);
int __wrap_gather_count(struct shard *shard, int worker, const struct message *m);

int __wrap_gather_count(struct shard *shard, int worker, const struct message *m)
{
	if (counts)
		counts->counted_in[worker][m->step - 1][shard->id] = shard->published + 1;
	return __real_gather_count(shard, worker, m);
}

static sluice_model *open_model(sluice_job *job, float *params, const char *recipe)
{
	for (int i = 0; i < N; i++)
		params[i] = noise(41, 0, 0, (uint64_t)i);
	return OPEN(job, params, .count = N, .shards = SHARDS, .recipe = recipe);
}

/* Makes a period of steps, with a drift that differs from rank to rank, and exchanges it. */
static void exchange(sluice_model *model, struct ledger *l, int rank, float *params)
{
	const int push = atomic_load(&l->exchanges[rank]);
	float given[N];

	memcpy(given, local_base(model->worker->local), sizeof(given));
	for (int step = 1; step <= PERIOD; step++) {
		for (int i = 0; i < N; i++)
			params[i] -= 0.01f * noise(42, (uint64_t)(push * PERIOD + step),
						   (uint64_t)rank, (uint64_t)i);
		if (step == PERIOD)
			for (int i = 0; i < N; i++)
				l->drift[rank][push][i] = given[i] - params[i];
		CHECK_STEP(model, params, params);
	}
	atomic_fetch_add(&l->exchanges[rank], 1);
}

/* Called in a loop that waits for another rank or thread. The ranks of a job that has failed do not
 * wait longer, and no rank waits longer than a test may take. */
static void wait_on(sluice_job *job, int *waited)
{
	enum { MOST_MS = 60000 };

	progress_take(job);
	const int rc = job_failed(job);
	progress_release(job);
	CHECK_OK(rc);
	CHECK((*waited)++ < MOST_MS * slowness());
	sleep_ms(1);
}

/* Waits until the rank has completed this many exchanges. */
static void await_exchanges(sluice_job *job, const struct ledger *l, int rank, int exchanges)
{
	int waited = 0;

	while (atomic_load(&l->exchanges[rank]) < exchanges)
		wait_on(job, &waited);
}

/* What all ranks do at the end of a training. */
static void finish(sluice_job *job, sluice_model *model, float *params)
{
	CHECK_OK(sluice_barrier(job));
	CHECK_OK(sluice_pull(model, params));
	check_same(job, params, N * sizeof(*params));
}

/* Each shard has moved by the weighted means of the drifts that it counted, and each drift is in
 * exactly one of them. */
static void check_conserved(sluice_job *job, const struct ledger *l, const float *params)
{
	for (uint32_t s = 0; s < SHARDS; s++) {
		const int begin = (int)(N * s / SHARDS), end = (int)(N * (s + 1) / SHARDS);
		uint64_t most = 0;
		int pushes = 0;

		for (int r = 0; r < sluice_workers(job); r++)
			for (int p = 0; p < atomic_load(&l->exchanges[r]); p++) {
				most = l->counted_in[r][p][s] > most ? l->counted_in[r][p][s] :
								       most;
				CHECK(!p || l->counted_in[r][p][s] > l->counted_in[r][p - 1][s]);
				pushes++;
			}
		for (int i = begin; i < end; i++) {
			double x = (double)noise(41, 0, 0, (uint64_t)i);
			int found = 0;

			for (uint64_t v = 1; v <= most; v++) {
				double sum = 0, weights = 0;

				for (int r = 0; r < sluice_workers(job); r++)
					for (int p = 0; p < atomic_load(&l->exchanges[r]); p++) {
						if (l->counted_in[r][p][s] != v)
							continue;
						found++;
						sum += (double)l->weight[r] *
						       (double)l->drift[r][p][i];
						weights += (double)l->weight[r];
					}
				CHECK(weights > 0);
				x -= sum / weights;
			}
			CHECK(found == pushes);
			CHECK(fabs(x - (double)params[i]) < 1e-5);
		}
	}
}

/* ---- a worker that sleeps ------------------------------------------------------ */

struct sleeper {
	const char *recipe;
	struct ledger *ledger;
	int sleeps; /* exchanges of the others while the last ranks sleep */
	int weighted;
	int late; /* the number of ranks that sleep; 0: one */
	int servers;
};

/* The shards have closed exchanges without the ranks that slept. */
static void check_absences(const struct sleeper *a, sluice_model *model)
{
	sluice_model_stats stats = { .size = sizeof(stats) };

	CHECK_OK(sluice_stats(model, &stats));
	CHECK(stats.absent_workers >= (uint64_t)a->sleeps);
}

/* The last ranks sleep in the middle of a period until the others have completed more exchanges.
 * They could not if they waited for them. */
static void sleep_through(sluice_job *job, int rank, void *argument)
{
	const struct sleeper *a = argument;
	struct ledger *l = counts = a->ledger; /* before any rank can push */
	const int awake = RANKS - (a->late ? a->late : 1);
	float params[N];
	sluice_model *model = open_model(job, params, a->recipe);

	if (!sluice_is_worker(job)) {
		CHECK_OK(sluice_serve(model));
		check_absences(a, model);
		sluice_model_close(&model);
		return;
	}
	l->weight[rank] = a->weighted ? (float)(1 + rank) : 1;
	if (a->weighted)
		CHECK_OK(sluice_set(model, SLUICE_WEIGHT, (double)l->weight[rank]));
	for (int e = 0; e < 3 + a->sleeps + 3; e++) {
		if (e == 3) /* all drifts before are counted, also on a busy machine */
			CHECK_OK(sluice_barrier(job));
		if (rank >= awake && e == 3)
			for (int r = 0; r < awake; r++)
				await_exchanges(job, l, r, 3 + a->sleeps);
		exchange(model, l, rank, params);
		if (rank >= awake && e == 3)
			CHECK(step_of(model).missed >= (uint64_t)a->sleeps);
	}
	finish(job, model, params);
	check_conserved(job, l, params);
	sluice_model_stats stats = { .size = sizeof(stats) };
	CHECK_OK(sluice_stats(model, &stats));
	CHECK(rank < awake || stats.missed_exchanges >= (uint64_t)a->sleeps);
	if (!a->servers && rank < SHARDS)
		check_absences(a, model);
	sluice_model_close(&model);
}

static int sleep_in_rank(int rank, void *argument)
{
	const struct sleeper *a = argument;
	sluice_job *job = rank_join(
		&(sluice_job_attr){ .size = sizeof(sluice_job_attr), .servers = a->servers });

	sleep_through(job, rank, argument);
	sluice_finalize(&job);
	return 0;
}

static void sleep_in_job(struct sleeper a)
{
	a.ledger = shared_memory(sizeof(*a.ledger));
	run_ranks(RANKS + a.servers, sleep_in_rank, &a);
}

TEST(quorum__a_worker_sleeps_for_two_periods__others_go_on_and_its_drift_counts_once)
{
	sleep_in_job((struct sleeper){ DENSE "quorum=3 grace=0.05", .sleeps = 2 });
	sleep_in_job((struct sleeper){ DENSE "quorum=2 grace=0", .sleeps = 2 });
	sleep_in_job((struct sleeper){ DENSE "quorum=3 grace=0.02", .sleeps = 2, .weighted = 1 });
	sleep_in_job((struct sleeper){ DENSE "reduce=senders quorum=3 grace=0.02", .sleeps = 2 });
}

TEST(quorum__a_worker_sleeps_longer_than_the_log_lasts__takes_the_parameters_themselves)
{
	sleep_in_job((struct sleeper){ DENSE "quorum=3 grace=0.01", .sleeps = 12 });
	sleep_in_job((struct sleeper){ DENSE "quorum=2 grace=0.01", .sleeps = 12, .late = 2 });
}

TEST(quorum__a_worker_sleeps_and_dedicated_servers_have_the_shards__its_drift_counts_once)
{
	sleep_in_job((struct sleeper){ DENSE "quorum=3 grace=0.05", .sleeps = 2, .servers = 1 });
	sleep_in_job((struct sleeper){ DENSE "quorum=2 grace=0.01", .sleeps = 12, .late = 2,
				       .servers = 2 });
}

/* Both late workers read a snapshot of several parts. All drifts are equal, so each exchange moves
 * the common parameters by this drift. */
static void sleep_next_to_a_long_shard(sluice_job *job, int rank, void *argument)
{
	enum { LONG = 2 * SNAPSHOT_PART + 77, ALONE = QUORUM_LOG_ENTRIES + 3 };
	struct ledger *l = argument;
	float *params = calloc(LONG, sizeof(*params));

	CHECK(params);
	sluice_model *model = OPEN(job, params, .count = LONG, .shards = 1,
				   .recipe = "up=all down=all signal=drift when=every(1) "
					     "memory=none dense=none quorum=1 grace=0.01");
	for (int e = 0; e < (rank ? 3 : ALONE + 2); e++) {
		if (e == 1) /* all drifts before are counted, also on a busy machine */
			CHECK_OK(sluice_barrier(job));
		if (e == 1 && rank)
			await_exchanges(job, l, 0, 1 + ALONE);
		for (uint32_t i = 0; i < LONG; i++)
			params[i] -= (float)(i % 1021);
		CHECK_STEP(model, params, params);
		CHECK(e != 1 || !rank || step_of(model).missed >= ALONE);
		atomic_fetch_add(&l->exchanges[rank], 1);
	}
	CHECK_OK(sluice_barrier(job));
	CHECK_OK(sluice_pull(model, params));
	check_same(job, params, LONG * sizeof(*params));
	const uint64_t exchanges = step_of(model).exchanges;
	CHECK(exchanges >= ALONE + 2 && exchanges <= ALONE + 8);
	for (uint32_t i = 0; i < LONG; i++)
		CHECK(params[i] == -(float)(exchanges * (i % 1021)));
	sluice_model_close(&model);
	free(params);
}

TEST(quorum__a_snapshot_has_several_parts__late_workers_take_all_of_them)
{
	run_in_job(3, sleep_next_to_a_long_shard, shared_memory(sizeof(struct ledger)));
}

/* A worker that its last exchange has counted sleeps between push and pull, until the shards have
 * overwritten the publication that it was told of. */
static void sleep_in_a_pull(sluice_job *job, int rank, void *argument)
{
	enum { OTHERS = 8 };
	struct ledger *l = argument;
	float params[N];
	sluice_model *model = open_model(job, params, DENSE "quorum=3 grace=0.1");

	for (int e = 0; e < OTHERS + 2; e++) {
		if (rank == LATE && e == 1) {
			CHECK_STEP(model, params, params);
			CHECK_OK(sluice_push(model, params));
			for (int r = 0; r < LATE; r++)
				await_exchanges(job, l, r, 1 + OTHERS);
			CHECK_OK(sluice_pull(model, params));
			CHECK(step_of(model).missed >= OTHERS - 1);
			continue;
		}
		exchange(model, l, rank, params);
	}
	finish(job, model, params);
	sluice_model_close(&model);
}

TEST(quorum__a_publication_is_overwritten_before_it_is_read__the_worker_asks)
{
	run_in_job(RANKS, sleep_in_a_pull, shared_memory(sizeof(struct ledger)));
}

/* Rank LATE pulls without a push what the others have published, and then exchanges. */
static void pull_and_exchange(sluice_job *job, int rank, void *argument)
{
	enum { ALONE = 3 };
	struct ledger *l = argument;
	float params[N];
	sluice_model *model = open_model(job, params, DENSE "quorum=3 grace=0.1");

	exchange(model, l, rank, params);
	CHECK_OK(sluice_barrier(job));
	const uint64_t before = step_of(model).missed;
	if (rank == LATE) {
		for (int r = 0; r < LATE; r++)
			await_exchanges(job, l, r, 1 + ALONE);
		CHECK_OK(sluice_pull(model, params));
		CHECK(step_of(model).missed == before && step_of(model).exchanges >= ALONE);
	} else {
		for (int e = 0; e < ALONE; e++)
			exchange(model, l, rank, params);
	}
	CHECK_OK(sluice_barrier(job));
	exchange(model, l, rank, params);
	CHECK(rank != LATE || step_of(model).missed >= ALONE);
	finish(job, model, params);
	sluice_model_close(&model);
}

TEST(quorum__a_pull_without_a_push__the_next_exchange_counts_what_it_brought_as_missed)
{
	run_in_job(RANKS, pull_and_exchange, shared_memory(sizeof(struct ledger)));
}

/* Rank 0 raises a flag in exchange 3, and another in exchange 4 and 8, while rank LATE sleeps. */
static void raise_while_one_sleeps(sluice_job *job, int rank, void *argument)
{
	enum { BEFORE = 1, OTHERS = 10, ONCE = 1, TWICE = 0x80 };
	struct ledger *l = argument;
	float params[N];
	unsigned got = 0;
	sluice_model *model = open_model(job, params, DENSE "quorum=3 grace=0.01");

	for (int e = 0; e < BEFORE + OTHERS + 2; e++) {
		if (e == BEFORE)
			CHECK_OK(sluice_barrier(job));
		if (rank == LATE && e == BEFORE)
			for (int r = 0; r < LATE; r++)
				await_exchanges(job, l, r, BEFORE + OTHERS);
		if (rank == 0 && (e == 3 || e == 4 || e == 8))
			sluice_raise(model, e == 3 ? ONCE : TWICE);
		if (rank == 0 && e == BEFORE + OTHERS)
			sluice_raise(model, ONCE << 1);
		exchange(model, l, rank, params);
		if (rank == LATE && e == BEFORE)
			CHECK((step_of(model).raised & (ONCE | TWICE)) == (ONCE | TWICE));
		else if (rank == LATE && e == BEFORE + 1)
			CHECK(!(step_of(model).raised & (ONCE | TWICE)));
		got |= step_of(model).raised;
	}
	finish(job, model, params);
	got |= step_of(model).raised;
	CHECK(got == (ONCE | ONCE << 1 | TWICE));
	sluice_model_close(&model);
}

TEST(quorum__flags_are_raised_in_exchanges_that_a_worker_skips__it_gets_them_once)
{
	run_in_job(RANKS, raise_while_one_sleeps, shared_memory(sizeof(struct ledger)));
}

/* ---- collectives ---------------------------------------------------------------- */

/* Each rank exchanges, joins a collective before its pull, and exchanges again. */
static void meet_before_the_pull(sluice_job *job, int rank, void *argument)
{
	struct ledger *l = argument;
	float params[N];
	sluice_model *model = open_model(job, params, DENSE "quorum=3 grace=0");

	for (int e = 0; e < 3; e++) {
		CHECK_STEP(model, params, params);
		params[rank] += 1;
		CHECK_OK(sluice_push(model, params));
		for (int i = 0; i < 2 * e; i++)
			CHECK_OK(sluice_barrier(job));
		CHECK_OK(sluice_pull(model, params));
		exchange(model, l, rank, params);
	}
	finish(job, model, params);
	sluice_model_close(&model);
}

TEST(quorum__a_collective_between_push_and_pull__the_pull_returns)
{
	run_in_job(RANKS, meet_before_the_pull, shared_memory(sizeof(struct ledger)));
}

/* The ledger of a job in which two shards close an exchange without different workers, or NULL. */
static struct ledger *splits;
void __real_upload_post(struct worker *w, uint32_t shard, int more);
void __wrap_upload_post(struct worker *w, uint32_t shard, int more);

/* Waits until the shard has counted the push of another worker. */
static void await_counted(const struct worker *w, uint32_t shard, int of)
{
	int waited = 0;

	while (!*(volatile uint64_t *)&splits->counted_in[of][0][shard])
		wait_on(w->job, &waited);
}

/* The random numbers of this rank's delays between messages; 0: there are none. */
static unsigned delays;

/* Sleeps now and then for up to `most_us`. */
static void delay(unsigned most_us)
{
	if (rand_r(&delays) % 4 == 0)
		usleep((unsigned)rand_r(&delays) % most_us);
}

/* Shard 0 closes without the push of rank 0, and shard 2 without that of rank LATE. */
void __wrap_upload_post(struct worker *w, uint32_t shard, int more)
{
	if (delays)
		delay(3000);
	if (splits && w->job->rank == 0 && shard == 0)
		await_counted(w, 0, LATE);
	if (splits && w->job->rank == LATE && shard == 2)
		await_counted(w, 2, 0);
	__real_upload_post(w, shard, more);
}

static void meet_while_pushes_wait_at_different_shards(sluice_job *job, int rank, void *argument)
{
	struct ledger *l = argument;
	float params[N];
	sluice_model *model;

	counts = splits = l;
	model = open_model(job, params, DENSE "quorum=3 grace=0");
	CHECK_STEP(model, params, params);
	params[rank] += 1;
	CHECK_OK(sluice_push(model, params));
	CHECK_OK(sluice_barrier(job));
	counts = splits = NULL;
	CHECK_OK(sluice_pull(model, params));
	exchange(model, l, rank, params);
	finish(job, model, params);
	sluice_model_close(&model);
}

TEST(quorum__two_pushes_wait_at_different_shards_before_a_collective__both_are_counted)
{
	run_in_job(RANKS, meet_while_pushes_wait_at_different_shards,
		   shared_memory(sizeof(struct ledger)));
}

/* Rank 1 makes only one exchange and sleeps, or joins a collective, until the others have made
 * three more. */
static void go_on_without_one(sluice_job *job, int rank, void *argument, int parks)
{
	enum { MORE = 3 };
	struct ledger *l = argument;
	float params[N];
	sluice_model *model;

	counts = splits = l;
	model = open_model(job, params, DENSE "quorum=3 grace=0");
	l->weight[rank] = 1;
	exchange(model, l, rank, params);
	for (int e = 0; e < MORE && rank != 1; e++)
		exchange(model, l, rank, params);
	for (int r = 0; r < RANKS && rank == 1 && !parks; r++)
		await_exchanges(job, l, r, r == 1 ? 1 : 1 + MORE);
	finish(job, model, params);
	check_conserved(job, l, params);
	CHECK_OK(sluice_barrier(job));
	counts = splits = NULL;
	sluice_model_close(&model);
}

static void go_on_while_one_sleeps(sluice_job *job, int rank, void *argument)
{
	go_on_without_one(job, rank, argument, 0);
}

static void go_on_while_one_is_parked(sluice_job *job, int rank, void *argument)
{
	go_on_without_one(job, rank, argument, 1);
}

TEST(quorum__two_pushes_wait_at_different_shards_and_one_worker_sleeps__the_others_go_on)
{
	run_in_job(RANKS, go_on_while_one_sleeps, shared_memory(sizeof(struct ledger)));
}

TEST(quorum__two_pushes_wait_at_different_shards_and_one_worker_has_ended__the_others_go_on)
{
	run_in_job(RANKS, go_on_while_one_is_parked, shared_memory(sizeof(struct ledger)));
}

struct random_job {
	struct ledger *ledger;
	const char *recipe;
	unsigned seed;
};

/* The messages of a push are delayed at random, and some exchanges have a collective before or
 * after the pull. */
static void exchange_with_delays(sluice_job *job, int rank, void *argument)
{
	enum { EXCHANGES = 30, BEFORE = 1, AFTER = 2 };
	const struct random_job *of = argument;
	struct ledger *l = counts = of->ledger;
	unsigned meets = of->seed;
	float params[N], given[N];
	sluice_model *model = open_model(job, params, of->recipe);

	delays = of->seed * RANKS + (unsigned)rank + 1;
	l->weight[rank] = 1;
	for (int e = 0; e < EXCHANGES; e++) {
		const int meet = rand_r(&meets) % 5;

		memcpy(given, local_base(model->worker->local), sizeof(given));
		CHECK_STEP(model, params, params);
		delay(8000);
		for (int i = 0; i < N; i++) {
			params[i] -= 0.01f * noise(43, (uint64_t)e, (uint64_t)rank, (uint64_t)i);
			l->drift[rank][e][i] = given[i] - params[i];
		}
		CHECK_OK(sluice_push(model, params));
		if (meet & BEFORE)
			CHECK_OK(sluice_barrier(job));
		CHECK_OK(sluice_pull(model, params));
		atomic_fetch_add(&l->exchanges[rank], 1);
		if (meet & AFTER)
			CHECK_OK(sluice_barrier(job));
	}
	finish(job, model, params);
	check_conserved(job, l, params);
	CHECK_OK(sluice_barrier(job));
	counts = NULL;
	sluice_model_close(&model);
}

TEST(quorum__random_delays_and_collectives__no_shard_waits_for_ever_and_each_drift_counts_once)
{
	static const char *const recipes[] = { DENSE "quorum=2 grace=0", DENSE "quorum=3 grace=0",
					       DENSE "quorum=3 grace=0.001" };

	for (unsigned i = 0; i < 3; i++) {
		if (thinned(i, 3))
			continue;
		struct random_job of = { shared_memory(sizeof(struct ledger)), recipes[i], i };

		run_in_job(RANKS, exchange_with_delays, &of);
	}
}

/* Rank LATE joins collective after collective without a push. The others exchange before each of
 * them, which they could not if they waited for it. */
static void join_again_and_again(sluice_job *job, int rank, void *argument)
{
	enum { TIMES = 5 };
	struct ledger *l = argument;
	float params[N];
	sluice_model *model = open_model(job, params, DENSE "quorum=4");

	for (int t = 0; t < TIMES; t++) {
		if (rank != LATE) {
			exchange(model, l, rank, params);
			exchange(model, l, rank, params);
		}
		CHECK_OK(sluice_barrier(job));
	}
	finish(job, model, params);
	CHECK(step_of(model).exchanges == 2 * TIMES);
	exchange(model, l, rank, params);
	finish(job, model, params);
	CHECK(step_of(model).exchanges == 2 * TIMES + 1);
	sluice_model_close(&model);
}

TEST(quorum__a_worker_joins_collectives_without_a_push__the_others_exchange)
{
	run_in_job(RANKS, join_again_and_again, shared_memory(sizeof(struct ledger)));
}

static void *join(void *job)
{
	CHECK_OK(sluice_barrier(job));
	return NULL;
}

/* Waits until another thread of this rank is in a collective. */
static void await_thread(sluice_job *job, uint64_t completed)
{
	int in = 0, waited = 0;

	while (!in) {
		wait_on(job, &waited);
		progress_take(job);
		in = job->messages.seq > completed;
		progress_release(job);
	}
}

struct busy {
	struct ledger ledger;
	atomic_int pushed; /* 1: rank 0 has pushed while its thread waits */
	int more;          /* exchanges of rank 0 that follow */
};

/* Rank LATE waits in a collective, as does a thread of rank 0, which exchanges meanwhile with those
 * ranks that have not joined. */
static void exchange_while_a_thread_waits(sluice_job *job, int rank, void *argument)
{
	struct busy *a = argument;
	struct ledger *l = &a->ledger;
	float params[N];
	sluice_model *model = open_model(job, params, DENSE "quorum=4");
	const uint64_t completed = job->messages.seq;
	pthread_t thread;

	exchange(model, l, rank, params);
	if (rank == 0) {
		CHECK(!pthread_create(&thread, NULL, join, job));
		await_thread(job, completed);
		CHECK_STEP(model, params, params);
		CHECK_OK(sluice_push(model, params));
		atomic_store(&a->pushed, 1);
		CHECK_OK(sluice_pull(model, params));
	}
	for (int waited = 0; rank != LATE && !atomic_load(&a->pushed);)
		wait_on(job, &waited);
	for (int e = 0; e < (rank ? 3 : a->more) && rank != LATE; e++)
		exchange(model, l, rank, params);
	if (rank)
		join(job);
	else
		CHECK(!pthread_join(thread, NULL));
	finish(job, model, params);
	sluice_model_close(&model);
}

TEST(quorum__a_push_during_the_collective_of_a_thread__the_others_stay_parked)
{
	struct busy *a = shared_memory(sizeof(*a));

	a->more = 2;
	run_in_job(RANKS, exchange_while_a_thread_waits, a);
}

TEST(quorum__the_last_push_is_during_the_collective_of_a_thread__its_rank_is_parked_again)
{
	run_in_job(RANKS, exchange_while_a_thread_waits, shared_memory(sizeof(struct busy)));
}

/* ---- without late workers ------------------------------------------------------ */

/* The same training with and without a quorum of all workers has the same bits. */
static void compare_with_all(sluice_job *job, int rank, void *argument)
{
	float params[N], other[N];
	char recipe[200];
	sluice_model *model = open_model(job, params, argument);

	snprintf(recipe, sizeof(recipe), "%s quorum=%d", (const char *)argument, sluice_size(job));
	sluice_model *with = open_model(job, other, recipe);
	CHECK_OK(sluice_set(with, SLUICE_WEIGHT, 0.3));
	for (uint64_t step = 1; step <= 10 * PERIOD; step++) {
		for (int i = 0; i < N; i++) {
			const float by = 0.1f * noise(43, step, (uint64_t)rank, (uint64_t)i);

			params[i] -= by;
			other[i] -= by;
		}
		CHECK_STEP(model, params, params);
		CHECK_STEP(with, other, other);
		CHECK(!memcmp(params, other, sizeof(params)));
		CHECK(step_of(model).in_sync == step_of(with).in_sync);
		CHECK(step_of(with).counted == (unsigned)sluice_size(job));
		CHECK(step_of(with).missed == 0);
	}
	sluice_model_close(&model);
	sluice_model_close(&with);
}

TEST(quorum__of_all_workers__the_bits_are_those_without_a_quorum)
{
	run_in_job(3, compare_with_all, DENSE);
	run_in_job(3, compare_with_all,
		   "up=topk(0.1) down=topk(0.2) signal=drift when=every(2) keep=0.5 dense=none "
		   "update=nesterov(0.5)");
	run_in_job(2, compare_with_all, "sparta when=every(2)");
	run_in_job(1, compare_with_all, DENSE);
}

/* ---- a simulated job ------------------------------------------------------------- */

struct simulated {
	const char *recipe;
	int steps;
	uint64_t missed;
	double loss; /* after the last step, of the common parameters */
	float end[RANKS][N];
};

/* The mean of a worker's rows, which have a part in common and a part of their own. */
static float mean_of_rows(int rank, int i)
{
	return noise(45, 0, 0, (uint64_t)i) + 0.25f * noise(45, 1, (uint64_t)rank, (uint64_t)i);
}

/* Each row is the mean plus noise, and its loss is half the squared distance. */
static double loss_of(const float *x, int workers)
{
	double loss = 0;

	for (int r = 0; r < workers; r++)
		for (int i = 0; i < N; i++) {
			const double d = (double)(x[i] - mean_of_rows(r, i));

			loss += (d * d + 1.0 / 3) / (2.0 * workers); /* the variance of noise() */
		}
	return loss;
}

static int approach(sluice_job *job, void *context)
{
	struct simulated *s = context;
	const int rank = sluice_rank(job), workers = sluice_workers(job);
	float params[N];
	sluice_model *model = NULL;
	sluice_model_stats stats = { .size = sizeof(stats) };
	const sluice_model_attr attr = ATTR(.count = N, .shards = SHARDS, .recipe = s->recipe);

	for (int i = 0; i < N; i++)
		params[i] = 1 + noise(44, 0, 0, (uint64_t)i);
	int rc = sluice_model_open(job, &attr, params, &model);
	for (int step = 1; !rc && step_of(model).exchanges < (uint64_t)s->steps / PERIOD; step++) {
		for (int i = 0; i < N; i++)
			params[i] -= 0.02f *
				     (params[i] - mean_of_rows(rank, i) -
				      noise(46, (uint64_t)step, (uint64_t)rank, (uint64_t)i));
		rc = sluice_push(model, params);
		rc = rc ? rc : sluice_pull(model, params);
	}
	rc = rc ? rc : sluice_barrier(job);
	if (!rc && strstr(s->recipe, "quorum="))
		rc = sluice_pull(model, params);
	rc = rc ? rc : sluice_stats(model, &stats);
	memcpy(s->end[rank], params, sizeof(params));
	s->loss = loss_of(params, workers);
	s->missed += stats.missed_exchanges;
	sluice_model_close(&model);
	return rc;
}

static struct simulated simulate(const char *recipe)
{
	struct simulated s = { .recipe = recipe, .steps = 400 };

	if (sluice_simulate(NULL, RANKS, approach, &s))
		fail_msg("%s: %s", recipe, sluice_last_error());
	for (int r = 1; r < RANKS; r++)
		assert_memory_equal(s.end[r], s.end[0], sizeof(s.end[0]));
	return s;
}

TEST(quorum__in_a_simulated_job__the_same_workers_are_late_in_every_run)
{
	const struct simulated all = simulate(DENSE);
	const struct simulated patient = simulate(DENSE "quorum=2 grace=0.05");
	const struct simulated first = simulate(DENSE "quorum=2 grace=0");
	const struct simulated again = simulate(DENSE "quorum=2 grace=0");

	assert_int_equal(patient.missed, 0);
	assert_memory_equal(patient.end, all.end, sizeof(all.end));
	assert_true(first.missed > 0);
	assert_int_equal(first.missed, again.missed);
	assert_memory_equal(first.end, again.end, sizeof(first.end));
}

TEST(quorum__workers_that_are_often_late__reach_the_loss_of_a_full_run)
{
	static const char *const recipes[] = {
		DENSE,
		"up=topk(0.2) down=all signal=drift when=every(2) dense=none ",
		("up=all,uniform(4) down=all signal=drift when=every(2) update=nesterov(0.5) "
		 "rate=0.5 dense=none "),
	};
	char recipe[200];

	for (size_t i = 0; i < sizeof(recipes) / sizeof(*recipes); i++) {
		if (thinned(i, 3))
			continue;
		snprintf(recipe, sizeof(recipe), "%squorum=3 grace=0", recipes[i]);
		const struct simulated all = simulate(recipes[i]), some = simulate(recipe);

		assert_true(some.missed > 0);
		assert_true(fabs(some.loss / all.loss - 1) < 0.02);
	}
}

/* ---- checkpoints ------------------------------------------------------------------ */

struct saved {
	char dir[SCRATCH_PATH];
	float drift[RANKS][N]; /* of the period in which the checkpoint is made */
	float common[N];
	uint64_t version[SHARDS]; /* in the checkpoint */
	struct ledger ledger;     /* only its numbers of exchanges */
};

/* The checkpoint is made after the first step of a period, before which rank LATE has missed
 * exchanges and has exchanged again. In the restored job each worker continues with its drift. */
static void save_with_a_late_worker(sluice_job *job, int rank, void *argument)
{
	struct saved *a = argument;
	float params[N], base[N], own[N];
	uint64_t done = 0, least = UINT64_MAX;
	sluice_model *model = open_model(job, params, DENSE "quorum=3 grace=0");

	for (int step = 1; step < 6 * PERIOD; step++) {
		if (rank == LATE && step == PERIOD)
			for (int r = 0; r < LATE; r++)
				await_exchanges(job, &a->ledger, r, 2);
		for (int i = 0; i < N; i++)
			params[i] -= 0.01f * noise(47, (uint64_t)step, (uint64_t)rank, (uint64_t)i);
		CHECK_STEP(model, params, params);
		if (step % PERIOD == 0)
			atomic_fetch_add(&a->ledger.exchanges[rank], 1);
	}
	CHECK(rank != LATE || step_of(model).exchanges > (6 * PERIOD - 1) / PERIOD);
	memcpy(base, local_base(model->worker->local), sizeof(base));
	for (int i = 0; i < N; i++)
		a->drift[rank][i] = base[i] - params[i];
	CHECK_OK(sluice_checkpoint(model, a->dir));
	for (uint32_t i = 0; i < model->n_own; i++)
		a->version[model->shards[i].id] = model->shards[i].version;
	sluice_model_close(&model);

	model = open_model(job, own, DENSE "quorum=3 grace=0");
	CHECK_OK(sluice_barrier(job));
	CHECK_OK(sluice_restore(model, a->dir, own, &done));
	CHECK(done == 6 * PERIOD - 1);
	/* The exchanges go on with the numbers that they had. */
	for (uint32_t s = 0; s < SHARDS; s++) {
		CHECK(a->version[s] > done / PERIOD);
		CHECK(lane_have(model->worker->lanes, s) == a->version[s]);
		least = a->version[s] < least ? a->version[s] : least;
	}
	for (uint32_t i = 0; i < model->n_own; i++)
		CHECK(model->shards[i].version == a->version[model->shards[i].id]);
	CHECK(step_of(model).exchanges == least);
	check_same(job, local_base(model->worker->local), N * sizeof(float));
	memcpy(a->common, local_base(model->worker->local), sizeof(a->common));
	/* A worker that has the newest exchange continues with the same bits. */
	if (!memcmp(base, a->common, sizeof(base)))
		CHECK(!memcmp(own, params, sizeof(own)));
	for (int i = 0; i < N; i++)
		CHECK(fabsf(a->common[i] - own[i] - a->drift[rank][i]) < 1e-6f);
	/* The restored job exchanges. All have arrived, because all were in a collective. */
	CHECK_OK(sluice_barrier(job));
	CHECK_STEP(model, own, own);
	CHECK_OK(sluice_barrier(job));
	CHECK_OK(sluice_pull(model, own));
	check_same(job, own, sizeof(own));
	CHECK(step_of(model).exchanges > least);
	sluice_model_close(&model);
}

TEST(quorum__a_checkpoint_in_a_period_of_a_late_worker__keeps_its_drift)
{
	struct saved *a = shared_memory(sizeof(*a));

	assert_int_equal(scratch_make(a->dir), 0);
	run_in_job(RANKS, save_with_a_late_worker, a);
	scratch_remove(a->dir);
}

/* ---- warnings ---------------------------------------------------------------------- */

static atomic_int warnings, returns;

static void count_lines(int level, const char *line, void *context)
{
	atomic_fetch_add(&warnings, strstr(line, "without rank 1") != NULL);
}

/* Rank 1 misses three exchanges, is back, and misses three again. */
static void miss_twice(sluice_job *job, int rank, void *argument)
{
	struct ledger *l = argument;
	float params[N];
	sluice_model *model = open_model(job, params, DENSE "quorum=1 grace=0.1");
	sluice_model_stats stats = { .size = sizeof(stats) };

	sluice_set_log(count_lines, NULL);
	for (int e = 0; e < 12; e++) {
		if (rank == 1 && (e == 2 || e == 4))
			await_exchanges(job, l, 0, e == 2 ? 5 : 10);
		/* Both are there when rank 1 is back. */
		if (rank == 0 && e == 6)
			await_exchanges(job, l, 1, 3);
		exchange(model, l, rank, params);
	}
	CHECK_OK(sluice_barrier(job));
	CHECK_OK(sluice_stats(model, &stats));
	/* Each of the two times has three exchanges and one warning. On a busy machine there may be
	 * more times, each with at least one exchange and at most one warning. */
	CHECK(rank || atomic_load(&warnings) >= 2);
	CHECK(rank || (uint64_t)atomic_load(&warnings) + 4 <= stats.absent_workers);
	sluice_model_close(&model);
}

TEST(quorum__a_worker_is_missing_twice__each_time_it_is_logged)
{
	run_in_job(2, miss_twice, shared_memory(sizeof(struct ledger)));
}

static void count_absences(int level, const char *line, void *context)
{
	atomic_fetch_add(&warnings, strstr(line, "closes exchange") != NULL);
	atomic_fetch_add(&returns, strstr(line, "again, without which") != NULL);
}

/* Three of four workers close each exchange, so workers are missing in turn all the time. */
TEST(quorum__workers_are_missing_in_turn__the_warnings_become_rare)
{
	enum { EXCHANGES = 200, LOGGED = 8 /* 1, 2, 4 ... 128 */ };

	atomic_store(&warnings, 0);
	sluice_set_log(count_absences, NULL);
	const struct simulated s = simulate(DENSE "quorum=3 grace=0");
	sluice_set_log(NULL, NULL);
	assert_true(s.missed > EXCHANGES);
	assert_in_range(atomic_load(&warnings), 1, SHARDS * RANKS * LOGGED);
	assert_true(atomic_load(&returns) <= atomic_load(&warnings));
}

/* ---- what is refused ------------------------------------------------------------------ */

TEST_IN_JOB(quorum__values_that_do_not_fit_the_job__are_refused, 2)
{
	float params[N];
	uint8_t state[16];
	sluice_model *model = NULL;
	const sluice_vector whole = { .data = params };
	const sluice_model_attr more = ATTR(.count = N, .recipe = DENSE "quorum=3");

	log_capture();
	CHECK(sluice_model_open(job, &more, params, &model) == SLUICE_EINVAL);
	CHECK(error_says("quorum=3 is more than the 2 workers", "write quorum=2 or less"));
	model = open_model(job, params, DENSE "quorum=2");
	CHECK(sluice_set(model, SLUICE_WEIGHT, 0) == SLUICE_EINVAL);
	CHECK(error_says("SLUICE_WEIGHT is 0", "above 0"));
	CHECK(sluice_set(model, SLUICE_WEIGHT, -1) == SLUICE_EINVAL);
	CHECK(sluice_set(model, SLUICE_WEIGHT, NAN) == SLUICE_EINVAL);
	CHECK(sluice_set(model, SLUICE_WEIGHT, 1e300) == SLUICE_EINVAL);
	CHECK(error_says("SLUICE_WEIGHT", "beyond the range of floats"));
	CHECK(sluice_state_save(model, state, sizeof(state), SLUICE_STATE_PART) == SLUICE_ENOSUPP);
	CHECK(error_says("not possible with quorum=", "leave the flag out"));
	CHECK_STEP(model, params, params);
	CHECK(sluice_pull(model, params) == SLUICE_EINVAL);
	CHECK(error_says("only directly after an exchange", "nothing was pushed"));
	CHECK(sluice_pull_begin(model, &whole) == SLUICE_EINVAL);
	CHECK(error_says("only directly after an exchange", "sluice_pull_begin"));
	CHECK_STEP(model, params, params);
	CHECK_OK(sluice_pull_begin(model, &whole));
	CHECK_OK(sluice_pull_range(model, 0, N));
	CHECK_OK(sluice_pull(model, params));
	sluice_model_close(&model);
	model = open_model(job, params, DENSE);
	CHECK(sluice_set(model, SLUICE_WEIGHT, 2) == SLUICE_EINVAL);
	CHECK(error_says("SLUICE_WEIGHT needs a recipe with quorum=", NULL));
	sluice_model_close(&model);
	model = open_model(job, params, DENSE "quorum=2 reduce=senders");
	CHECK(sluice_set(model, SLUICE_WEIGHT, 2) == SLUICE_EINVAL);
	CHECK(error_says("reduce=senders", "plain mean"));
	sluice_model_close(&model);
}

/* ---- a hostile worker --------------------------------------------------------------------- */

static void (*forge)(struct message *m);
struct message __real_upload_head(const struct worker *w, uint32_t shard);
struct message __wrap_upload_head(const struct worker *w, uint32_t shard);

struct message __wrap_upload_head(const struct worker *w, uint32_t shard)
{
	struct message m = __real_upload_head(w, shard);

	if (forge)
		forge(&m);
	return m;
}

static void without_weight(struct message *m)
{
	m->norm = 0;
}

static void with_no_number(struct message *m)
{
	m->norm = NAN;
}

static void with_infinity(struct message *m)
{
	m->norm = INFINITY;
}

static void with_weight(struct message *m)
{
	m->norm = 2;
}

static void with_a_choice(struct message *m)
{
	m->chosen = 1;
}

static void of_a_later_version(struct message *m)
{
	m->have_version += 5;
}

static void of_another_step(struct message *m)
{
	m->step++;
}

static void of_a_later_collective(struct message *m)
{
	m->anchor += 3;
}

static const struct forgery {
	void (*forge)(struct message *m);
	const char *reason, *recipe;
} forgeries[] = {
	{ without_weight, "its weight is not above 0", DENSE "quorum=2" },
	{ with_no_number, "norm nan is not a finite number", DENSE "quorum=2" },
	{ with_infinity, "norm inf is not a finite number", DENSE "quorum=2" },
	{ with_weight, "its weight is not 1", DENSE "reduce=senders quorum=2" },
	{ with_a_choice, "its choice is not valid", DENSE "quorum=2" },
	{ of_a_later_version, "a version that this shard has not published", DENSE "quorum=2" },
	{ of_another_step, "step", DENSE "quorum=2" },
	{ of_a_later_collective, "a collective that cannot have begun", DENSE "quorum=2" }
};

static void forge_a_push(sluice_job *job, int rank, void *argument)
{
	const struct forgery *f = argument;
	float params[N];
	sluice_model *model = open_model(job, params, f->recipe);

	log_capture();
	CHECK_STEP(model, params, params);
	CHECK_OK(sluice_barrier(job)); /* rank 1 fails next */
	forge = rank == 1 ? f->forge : NULL;
	CHECK(try_step(model, params, params) != 0);
	CHECK(error_says(f->reason, "rank 1"));
	sluice_model_close(&model);
}

TEST(quorum__a_forged_push__ends_the_job_by_name)
{
	for (size_t i = 0; i < sizeof(forgeries) / sizeof(*forgeries); i++)
		if (!thinned(i, 3))
			run_in_job(2, forge_a_push, (void *)(uintptr_t)&forgeries[i]);
}
