/* SPDX-License-Identifier: BSD-3-Clause
 * Waiting: a stopped rank is lost and named, a slow one is named and waited for, a wait that is too
 * long ends, and a waiting rank says on request for whom. */
#include "ranks.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "job/messages.h"
#include "job/progress_token.h"
#include "model/kept.h"
#include "worker/lane.h"
#include "worker/state.h"
#include "cases.h"
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 400 };

static sluice_model *open_model(sluice_job *job, uint32_t shards, float *params)
{
	sluice_model *model = OPEN(job, params, .count = COUNT, .shards = shards);
	return model;
}

static int wait_for(atomic_int *value, int at_least)
{
	for (int waited = 0; waited < 60000 && atomic_load(value) < at_least; waited++)
		sleep_ms(1);
	return atomic_load(value) >= at_least;
}

/* Long enough that a rank which only waits for its turn on a busy machine is not declared lost. */
static int lost_after_ms(void)
{
	return slowness() > 1 ? 5000 : 2000;
}

/* ---- stopped --------------------------------------------------------------- */

static int stop_one(int rank, void *argument)
{
	atomic_int *done = argument;
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	sluice_job_attr attr = { .size = sizeof attr, .lost_after_ms = lost_after_ms() };
	sluice_job *job = rank_join(&attr);
	sluice_model *model = open_model(job, 3, params);
	int rc = 0;
	log_capture();
	for (int step = 1; !rc && step < 1000000; step++) {
		if (rank == 1 && step == 5)
			raise(SIGSTOP);
		rc = try_step(model, grad, params);
	}
	CHECK(rc == SLUICE_EPEER && error_says("rank 1 (node n1) is lost", "no heartbeat"));
	if (rank == 1) /* rank 1 continued too late */
		CHECK(error_says("dropped this rank", NULL));
	atomic_fetch_add(done, 1);
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static void wake_it_when_the_others_gave_up(const pid_t *pids, void *argument)
{
	atomic_int *done = argument;
	for (int waited = 0; waited < 60000 && atomic_load(done) < 2; waited++)
		sleep_ms(1);
	kill(pids[1], SIGCONT);
}

TEST(stop__one_rank__others_name_it_lost_and_it_learns_that_it_was_dropped)
{
	int status[3];
	run_ranks_status(3, stop_one, shared_memory(sizeof(atomic_int)),
			 wake_it_when_the_others_gave_up, 60000, status);
	for (int r = 0; r < 3; r++)
		assert_true(WIFEXITED(status[r]) && !WEXITSTATUS(status[r]));
}

/* ---- busy ------------------------------------------------------------------ */

static const struct job_client *whole_client;
static void (*hold)(sluice_job *job); /* called once, by the next advance() */

static void advance_and_hold(sluice_job *job)
{
	void (*now)(sluice_job *) = hold;
	hold = NULL;
	if (now)
		now(job);
	whole_client->advance(job);
}

/* The next thread of this rank that polls does this while it holds the progress token, like the
 * work of shards. */
static void hold_the_token_by(sluice_job *job, void (*by)(sluice_job *job))
{
	static struct job_client client;
	progress_take(job);
	whole_client = clients_handler(&job->clients);
	client = *whole_client;
	client.advance = advance_and_hold;
	clients_set_handler(&job->clients, &client);
	hold = by;
	progress_release(job);
}

static void work_for_three_times_lost_after(sluice_job *job)
{
	sleep_ms(3 * lost_after_ms());
}

static int work_long_in_a_step(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	sluice_job_attr attr = { .size = sizeof attr, .lost_after_ms = lost_after_ms() };
	sluice_job *job = rank_join(&attr);
	sluice_model *model = open_model(job, 2, params);
	log_capture();
	for (int step = 1; step <= 4; step++) {
		if (rank == 0 && step == 3)
			hold_the_token_by(job, work_for_three_times_lost_after);
		CHECK_OK(try_step(model, grad, params));
		check_same(job, params, sizeof params);
	}
	CHECK(!hold);
	CHECK(!log_saw("lost", NULL, NULL, NULL));
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static atomic_int *given_up;

static void hang_until_given_up(sluice_job *job)
{
	for (int waited = 0; waited < 60000 && !atomic_load(given_up); waited++)
		sleep_ms(1);
}

static void hang_in_a_step(sluice_job *job, int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	sluice_model *model = open_model(job, 2, params);
	int rc = 0;
	given_up = argument;
	log_capture();
	if (rank == 0) { /* only rank 0 gives up so early */
		progress_take(job);
		job->budget.stalled_ns = (uint64_t)slowness() * 1000000000;
		CHECK(job->budget.stalled_ns < job->budget.silent_ns);
		progress_release(job);
	}
	for (int step = 1; !rc && step < 1000000; step++) {
		if (rank == 1 && step == 3)
			hold_the_token_by(job, hang_until_given_up);
		rc = try_step(model, grad, params);
	}
	CHECK(rc == SLUICE_EPEER && error_says("rank 1 (node n1) is lost: its heartbeat continues",
					       "made no progress for"));
	if (rank == 0)
		atomic_store(given_up, 1);
	else
		CHECK(error_says("dropped this rank", NULL));
	sluice_model_close(&model);
}

TEST(step__hangs_under_the_token__its_rank_is_lost_although_its_heart_beats)
{
	run_in_job(2, hang_in_a_step, shared_memory(sizeof(atomic_int)));
}

TEST(budget__from_lost_after_and_wait_timeout__leaves_long_steps_their_time)
{
	struct patience patience = { .lost_after_ms = 5000, .wait_timeout_ms = 600000 };
	struct budget budget;
	budget_make(&patience, &budget);
	assert_true(budget.stalled_ns == 300000000000); /* half of wait_timeout */
	patience.wait_timeout_ms = 1000;
	budget_make(&patience, &budget);
	assert_true(budget.stalled_ns == 20000000000); /* four times lost_after */
}

TEST(step__three_times_lost_after_under_the_token__its_rank_is_not_lost)
{
	run_ranks(2, work_long_in_a_step, NULL);
}

/* ---- fast ----------------------------------------------------------------- */

static int at_once(void *context)
{
	return 1;
}

static void describe_nothing(void *context, char *text, size_t cap)
{
	snprintf(text, cap, "nothing");
}

/* Simulates a server whose workers make steps faster than it reads the clock. */
/* Returns the progress of this rank that a peer reads. */
static uint64_t shown_progress(const sluice_job *job)
{
	return get_le64(line_of(job, 0) + LINE_PROGRESS);
}

TEST_IN_RANKS(wait__over_at_once_again_and_again__the_heart_beats, 1)
{
	sluice_job_attr attr = { .size = sizeof attr, .lost_after_ms = lost_after_ms() };
	sluice_job *job = rank_join(&attr);
	progress_take(job);
	const uint64_t begin = shown_progress(job), end = now_ns() + 4 * job->budget.heartbeat_ns;
	while (now_ns() < end)
		CHECK_OK(progress_until(job, at_once, describe_nothing, NULL));
	CHECK(shown_progress(job) > begin);
	progress_release(job);
	sluice_finalize(&job);
	return 0;
}

enum { FLOOD = 1 << 20 };
static int polls;

/* Simulates peers that write as fast as this rank reads, so each poll finds more. */
static int poll_flooded(struct transport *t, struct event *events, int n)
{
	if (++polls > FLOOD)
		return 0;
	for (int i = 0; i < n; i++)
		events[i] = (struct event){ .kind = EVENT_IMM,
					    .peer = 0,
					    .imm = imm_make(IMM_REGION, JOB_REGIONS - 1) };
	return n;
}

TEST_IN_JOB(poll__notifies_without_end__comes_back_to_look_at_the_clock, 1)
{
	static struct transport_ops ops;
	progress_take(job);
	const struct transport_ops *own = job->transports.list[0]->ops;
	ops = *own;
	ops.poll = poll_flooded;
	job->transports.list[0]->ops = &ops;
	progress_poll(job);
	job->transports.list[0]->ops = own;
	CHECK(polls > 1 && polls < FLOOD);
	progress_release(job);
}

/* ---- slow ------------------------------------------------------------------ */

static int wait_for_a_slow_one(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	sluice_job_attr attr = { .size = sizeof attr,
				 .lost_after_ms = lost_after_ms(),
				 .warn_after_ms = 300,
				 .servers = *(int *)argument };
	sluice_job *job = rank_join(&attr);
	sluice_model *model = open_model(job, (uint32_t)sluice_size(job), params);
	log_capture();
	if (!sluice_is_worker(job))
		CHECK_OK(sluice_serve(model));
	for (int step = 1; step <= 5 && sluice_is_worker(job); step++) {
		if (rank == 2 && step == 3)
			sleep_ms(2 * lost_after_ms());
		CHECK_OK(try_step(model, grad, params));
		check_same(job, params, sizeof params);
	}
	/* Every owner of a shard has reported for which rank and step it waits. */
	if (rank != 2 && !(attr.servers && sluice_is_worker(job))) {
		char shard[32];
		int own = attr.servers ? 0 : rank;
		snprintf(shard, sizeof shard, "shard %d waits", own);
		CHECK(log_saw(shard, "push of step 3", "from rank 2 (node n2)", NULL));
	}
	/* Every worker has reported what it waits for. */
	if (rank != 2 && sluice_is_worker(job))
		CHECK(log_saw("waiting for", "step 3: the new version of shard", NULL, NULL));
	CHECK(!log_saw("lost", NULL, NULL, NULL));
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

TEST(sleep__alive_but_slow__others_log_whom_they_wait_for_and_go_on)
{
	int servers = 0;
	run_ranks(4, wait_for_a_slow_one, &servers);
}

TEST(sleep__alive_but_slow_worker__server_logs_whom_it_waits_for)
{
	int servers = 1;
	run_ranks(4, wait_for_a_slow_one, &servers);
}

/* ---- too slow -------------------------------------------------------------- */

static void wait_too_long(sluice_job *job, int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	sluice_model *model = open_model(job, 3, params);
	atomic_int *pushed = argument;
	log_capture();
	if (rank == 2) { /* rank 2 never pushes */
		CHECK(sluice_barrier(job) == SLUICE_EPEER);
	} else {
		CHECK_OK(sluice_push(model, grad));
		atomic_fetch_add(pushed, 1);
		CHECK(rank || wait_for(pushed, 2));
		if (!rank) /* only rank 0 has a short limit */
			be_impatient(job, 500);
		CHECK(sluice_pull(model, params) == (rank ? SLUICE_EPEER : SLUICE_ETIMEDOUT));
	}
	CHECK(error_says(rank ? "rank 0 (node n1) gave up: waited" : "rank 0 (node n1) waited",
			 "SLUICE_WAIT_TIMEOUT"));
	CHECK(error_says("rank 2 (node n2)", NULL));
	sluice_model_close(&model);
}

TEST(pull__beyond_wait_timeout__names_the_rank_that_has_not_pushed)
{
	run_in_job(3, wait_too_long, shared_memory(sizeof(atomic_int)));
}

/* Shard 1 reads none of rank 0's messages; shards 0 and 2 do. */
TEST_IN_JOB(push__slots_of_one_shard_stay_full__timeout_names_that_shard, 3)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	sluice_model *model = open_model(job, 3, params);
	log_capture();
	CHECK_OK(try_step(model, grad, params));
	if (rank) {
		CHECK(sluice_barrier(job) == SLUICE_EPEER);
	} else {
		be_impatient(job, 300);
		lane_ring(model->worker->lanes, 1)->next_seq += model->layout.shards[1].slot_depth;
		CHECK(sluice_push(model, grad) == SLUICE_ETIMEDOUT);
		CHECK(error_says("step 2: a free slot at shard 1 of rank 1 (node n1)",
				 "SLUICE_WAIT_TIMEOUT"));
	}
	sluice_model_close(&model);
}

/* A server whose workers continue to train, so that its wait has no end. */
struct serving {
	int limit_ms;           /* limit of each of the server's waits, times slowness() */
	atomic_int failed;      /* number of ranks whose calls failed */
	atomic_int slow_worker; /* 1: a worker's step took more than half of that limit */
};

static void look_at_the_clock(struct serving *serving, uint64_t *since_ns)
{
	const uint64_t now = now_ns();
	const uint64_t half = (uint64_t)serving->limit_ms * (uint64_t)slowness() * 1000000 / 2;
	if (now - *since_ns > half)
		atomic_store(&serving->slow_worker, 1);
	*since_ns = now;
}

static int serve_for_long(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	enum { STEPS = 12 };
	struct serving *serving = argument;
	sluice_job_attr attr = { .size = sizeof attr, .servers = 1 };
	sluice_job *job = rank_join(&attr);
	sluice_model *model = open_model(job, 1, params);
	uint64_t since_ns = now_ns();
	int rc = 0;
	log_capture();
	if (!sluice_is_worker(job)) {
		be_impatient(job, serving->limit_ms);
		rc = sluice_serve(model);
	}
	for (int step = 0; !rc && step < STEPS && sluice_is_worker(job); step++) {
		rc = try_step(model, grad, params);
		sleep_ms(3 * serving->limit_ms * slowness() / 2 / STEPS);
		look_at_the_clock(serving, &since_ns);
	}
	if (rc)
		atomic_fetch_add(&serving->failed, 1);
	sluice_model_close(&model);
	if (sluice_is_worker(job))
		look_at_the_clock(serving, &since_ns);
	sluice_finalize(&job);
	return 0;
}

/* If a worker did not run for half of the limit, the server may have given up rightly, so nothing
 * is proved. The test is then repeated with a longer limit. */
TEST(serve__longer_than_wait_timeout_while_workers_train__goes_on)
{
	struct serving *serving = shared_memory(sizeof *serving);
	for (serving->limit_ms = 1000; serving->limit_ms <= 32000; serving->limit_ms *= 2) {
		atomic_store(&serving->failed, 0);
		atomic_store(&serving->slow_worker, 0);
		run_ranks(3, serve_for_long, serving);
		if (!atomic_load(&serving->failed))
			return;
		if (!atomic_load(&serving->slow_worker))
			fail_msg("%d ranks failed, and no step took half of the limit, %d ms",
				 atomic_load(&serving->failed), serving->limit_ms * slowness());
	}
	fail_msg("in each try a worker did not run for half of the limit, the last time for 16 s");
}

TEST_IN_JOB(barrier__beyond_wait_timeout__names_who_has_not_come, 3)
{
	log_capture();
	if (!rank)
		be_impatient(job, 300);
	if (rank == 1) {
		for (int waited = 0; waited < 60000 && !log_saw("gave up", NULL, NULL, NULL);
		     waited++)
			sleep_ms(1);
	}
	CHECK(sluice_barrier(job) == (rank ? SLUICE_EPEER : SLUICE_ETIMEDOUT));
	CHECK(error_says(rank ? "rank 0 (node n1) gave up: waited" : "rank 0 (node n1) waited",
			 "sluice_barrier: rank 1 (node n1) has not joined"));
}

/* ---- asked ----------------------------------------------------------------- */

static sluice_job *asked_job;

static void on_signal(int number)
{
	sluice_log_waits(asked_job);
}

struct asking {
	atomic_int joined, explained[2];
};

static void note_explanation(int level, const char *line, void *context)
{
	struct asking *shared = context;
	if (strstr(line, "waiting for") &&
	    strstr(line, "sluice_barrier: rank 1 (node n1) has not joined"))
		atomic_store(&shared->explained[0], 1);
	if (strstr(line, "does not wait"))
		atomic_store(&shared->explained[1], 1);
}

/* Rank 0 waits in the barrier and rank 1 computes, until both have been asked and have answered. */
static int explain_itself(int rank, void *argument)
{
	struct asking *shared = argument;
	asked_job = rank_join(NULL);
	sluice_set_log(note_explanation, shared);
	signal(SIGUSR2, on_signal);
	atomic_fetch_add(&shared->joined, 1);
	CHECK(!rank || wait_for(&shared->explained[1], 1));
	CHECK(!rank || wait_for(&shared->explained[0], 1));
	CHECK_OK(sluice_barrier(asked_job));
	signal(SIGUSR2, SIG_IGN);
	sluice_finalize(&asked_job);
	return 0;
}

static void ask(const pid_t *pids, void *argument)
{
	struct asking *shared = argument;
	wait_for(&shared->joined, 2);
	for (int i = 0; i < 2000; i++) {
		if (atomic_load(&shared->explained[0]) && atomic_load(&shared->explained[1]))
			return;
		/* repeated, because rank 0 may not be in its barrier yet */
		for (int r = 0; r < 2; r++)
			if (!atomic_load(&shared->explained[r]))
				kill(pids[r], SIGUSR2);
		sleep_ms(20);
	}
}

TEST(explain__from_a_signal_handler__tells_what_a_rank_waits_for)
{
	int status[2];
	run_ranks_status(2, explain_itself, shared_memory(sizeof(struct asking)), ask, 60000,
			 status);
	for (int r = 0; r < 2; r++)
		assert_true(WIFEXITED(status[r]) && !WEXITSTATUS(status[r]));
}

/* ---- asked while the last rank joins ------------------------------------------ */

static sluice_job *joining_job;
static atomic_int *waits_now, joined_line;

static void note_joined(int level, const char *line, void *context)
{
	if (strstr(line, "sluice_barrier: all ranks have joined"))
		atomic_store(&joined_line, 1);
}

/* Asks between the arrival of the last message and the moment at which the barrier notices it. */
static void ask_when_all_have_joined(sluice_job *job)
{
	const uint64_t seq = messages_next(joining_job) - 1;
	if (!progress_waits(joining_job)) {
		hold = ask_when_all_have_joined;
		return;
	}
	atomic_store(waits_now, 1);
	if (messages_has(joining_job, 1, seq))
		sluice_log_waits(joining_job);
	else
		hold = ask_when_all_have_joined;
}

static void ask_at_the_end_of_a_barrier(sluice_job *job, int rank, void *argument)
{
	if (rank) {
		CHECK(wait_for(waits_now, 1));
	} else {
		joining_job = job;
		sluice_set_log(note_joined, NULL);
		hold_the_token_by(job, ask_when_all_have_joined);
	}
	CHECK_OK(sluice_barrier(job));
	CHECK(rank || atomic_load(&joined_line));
}

TEST(explain__asked_when_the_last_rank_has_joined__says_so)
{
	waits_now = shared_memory(sizeof(*waits_now));
	run_in_job(2, ask_at_the_end_of_a_barrier, NULL);
}
