/* SPDX-License-Identifier: BSD-3-Clause
 * on_failure=continue: workers are killed or stopped, at any moment, and the others go on. What each shard
 * counted in each step is taken down (the linker wraps reduction_change), an oracle of a few lines replays it
 * in this process, and survivors and oracle must agree bit by bit. Four workers, two servers, two shards. */
#include "base/bytes.h"
#include "shard/shard.h"
#include "ranks.h"
#include "scratch.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

enum {
	WORKERS = 4, SERVERS = 2, RANKS = WORKERS + SERVERS, SHARDS = 2, COUNT = 600, STEPS_MAX = 4000,
	/* Its gradient is 1 << rank for worker rank: what the shard's sum there is, says who was counted. */
	WITNESS = 0
};

struct plan {
	const char *recipe;
	int sparse;
	uint64_t steps;
	unsigned victims;            /* bits of the ranks that are lost */
	int with_sums;               /* a sluice_sum() after every step */
	int dies_in_mail;            /* the victim kills itself in the middle of writing its mails */
	int pause_ms;                /* 0: kill; else: SIGSTOP, and after so long SIGCONT */
	uint64_t kill_at;            /* when worker `watched` is at this step */
	int watched, kill_after_us;
	/* What came of it. */
	atomic_ullong at[WORKERS];   /* step of each worker */
	uint8_t counted[SHARDS][STEPS_MAX + 1]; /* bits of workers */
	uint32_t divisor[SHARDS][STEPS_MAX + 1];
	uint64_t digest[WORKERS], sums[WORKERS];
	int named[RANKS];            /* bits of the lost workers that this rank logged */
	int living[RANKS];
	uint64_t lost[RANKS], refused[RANKS];
	int finished[WORKERS];
	atomic_int told;             /* stopped workers that learnt that they were dropped */
	uint64_t checkpoints;
	atomic_int done;             /* the signals are out */
	char dir[SCRATCH_PATH];
};

static struct plan *plan;        /* of this process */
static sluice_job *joined;

/* ---- what the shards count ------------------------------------------------------------------ */

void __real_reduction_change(struct reduction *r, const struct change *c, struct select_call *call);
void __wrap_reduction_change(struct reduction *r, const struct change *c, struct select_call *call);
void __wrap_reduction_change(struct reduction *r, const struct change *c, struct select_call *call)
{
	const sluice_model *model = joined->models[0];
	for (uint32_t i = 0; i < model->n_own; i++) {
		const struct shard *shard = &model->shards[i];
		if (&shard->reduction != r || shard->version >= STEPS_MAX)
			continue;
		plan->counted[shard->id][shard->version + 1] = (uint8_t)r->sum[WITNESS];
		plan->divisor[shard->id][shard->version + 1] = c->divisor;
	}
	__real_reduction_change(r, c, call);
}

/* A worker that dies after it wrote some of its mails. */
static const struct transport_ops *real_ops;
static struct transport_ops dying_ops;
static int mails_left;

static int post_and_die(struct endpoint *e, const struct transfer *t)
{
	if (t->kind == TRANSFER_PUT_NOTIFY && t->imm >> 28 == IMM_MAIL && !mails_left--)
		kill(getpid(), SIGKILL);
	return real_ops->post(e, t);
}

static void die_after_mails(sluice_job *job, int n)
{
	struct transport *t = job->peers[job->rank ? 0 : 1].endpoint->transport;
	mails_left = n;
	real_ops = t->ops;
	dying_ops = *real_ops;
	dying_ops.post = post_and_die;
	t->ops = &dying_ops;
}

/* ---- a job that may lose workers -------------------------------------------------------------- */

static float gradient(uint64_t step, uint64_t rank, uint64_t i)
{
	if (i % (COUNT / SHARDS) == WITNESS) /* the first of each shard; heaviest, so always sent */
		return (float)(1 << rank);
	return 0.01f * noise(7, step, rank, i);
}

/* It changes after the loss: the rate of a worker that is gone must not stay. */
static float rate(uint64_t step)
{
	return step <= 45 ? 0.5f : 0.25f;
}

/* Long enough that a rank which only waits for its turn on a loaded machine is not taken for lost. */
static int lost_after_ms(void)
{
	return slowness() > 1 ? 15000 : 1000;
}

static sluice_job *join(void)
{
	sluice_job_attr attr = { .size = sizeof attr, .servers = SERVERS, .on_failure = SLUICE_CONTINUE,
				 .lost_after_ms = plan->pause_ms ? lost_after_ms() : 0 };
	return joined = rank_join(&attr);
}

static sluice_model *open_model(sluice_job *job, float *params)
{
	sluice_model *model = NULL;
	sluice_model_attr attr = { .size = sizeof attr, .count = COUNT, .recipe = plan->recipe,
				   .shards = SHARDS, .lr = 0.5f };
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	return model;
}

static void note_end(sluice_job *job, sluice_model *model, int rank)
{
	sluice_model_stats stats = { .size = sizeof stats };
	char who[32];
	CHECK_OK(sluice_stats(model, &stats));
	plan->lost[rank] = stats.lost_workers;
	plan->refused[rank] = stats.refused_messages;
	plan->living[rank] = sluice_living(job);
	for (int w = 0; w < WORKERS; w++) {
		snprintf(who, sizeof who, "rank %d (node n%d) is lost", w, w / 2 + 1);
		plan->named[rank] |= log_saw(who, "goes on without it", NULL, NULL) << w;
	}
}

/* check_same() knows no lost ones. */
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

/* A stopped one wakes up: every call fails and tells why. */
static int dropped_too_late(sluice_job *job, sluice_model *model, float *params, int rc)
{
	float grad[COUNT] = { 0 };
	CHECK(rc == SLUICE_EPEER && error_says("dropped this rank", "SLUICE_ON_FAILURE"));
	CHECK(sluice_push(model, grad) != 0 && sluice_pull(model, params) != 0);
	CHECK(sluice_barrier(job) == SLUICE_EPEER && error_says("dropped this rank", NULL));
	atomic_fetch_add(&plan->told, 1);
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static int train(int rank, void *argument)
{
	float params[COUNT], grad[COUNT];
	plan = argument;
	for (uint64_t i = 0; i < COUNT; i++)
		params[i] = noise(3, 0, 0, i);
	log_capture();
	sluice_job *job = join();
	sluice_model *model = open_model(job, params);
	if (!sluice_is_worker(job)) {
		CHECK_OK(sluice_serve(model));
		note_end(job, model, rank);
		sluice_model_close(&model);
		sluice_finalize(&job);
		return 0;
	}
	int rc = 0;
	for (uint64_t step = 1; !rc && step <= plan->steps; step++) {
		for (uint64_t i = 0; i < COUNT; i++)
			grad[i] = gradient(step, (uint64_t)rank, i);
		/* The last steps are to come after the loss, however slow this machine is. */
		for (int waited = 0; step == plan->kill_at + 20 && !atomic_load(&plan->done); waited++) {
			CHECK(waited < 60000);
			sleep_ms(1);
		}
		CHECK_OK(sluice_set_lr(model, rate(step)));
		rc = sluice_push(model, grad);
		if (!rc)
			rc = sluice_pull(model, params);
		if (rc)
			break;
		atomic_store(&plan->at[rank], step);
		if (plan->dies_in_mail && plan->victims >> rank & 1 && step == plan->kill_at)
			die_after_mails(job, plan->dies_in_mail - 1);
		if (plan->with_sums) {
			double sums[2] = { 1 << rank, noise(9, step, (uint64_t)rank, 0) };
			rc = sluice_sum(job, sums, 2);
			plan->sums[rank] = plan->sums[rank] * 31 + sluice_digest(sums, sizeof sums);
		}
		if (!rc && plan->dir[0] && step % 5 == 0) {
			rc = sluice_checkpoint(model, plan->dir);
			if (rank == 3) /* one writer: this memory is shared */
				plan->checkpoints += !rc;
		}
	}
	if (rc)
		return dropped_too_late(job, model, params, rc);
	CHECK(sluice_step(model) == plan->steps);
	plan->digest[rank] = sluice_digest(params, sizeof params);
	plan->finished[rank] = 1;
	note_end(job, model, rank);
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static void wait_for_step(struct plan *p, int worker, uint64_t step)
{
	for (int waited = 0; waited < 60000 && atomic_load(&p->at[worker]) < step; waited++)
		sleep_ms(1);
}

static void lose(const pid_t *pids, void *argument)
{
	struct plan *p = argument;
	struct timespec rest = { 0, p->kill_after_us * 1000L };
	if (p->dies_in_mail) {
		atomic_store(&p->done, 1);
		return;
	}
	wait_for_step(p, p->watched, p->kill_at);
	nanosleep(&rest, NULL);
	for (int r = 0; r < RANKS; r++)
		if (p->victims >> r & 1)
			kill(pids[r], p->pause_ms ? SIGSTOP : SIGKILL);
	atomic_store(&p->done, 1);
	if (!p->pause_ms)
		return;
	sleep_ms(p->pause_ms);
	for (int r = 0; r < RANKS; r++)
		if (p->victims >> r & 1)
			kill(pids[r], SIGCONT);
}

/* ---- the oracle ----------------------------------------------------------------------------- */

/* update=momentum(0.9) of the mean of what was counted; dense, or top-k both ways with residuals. */
struct oracle {
	float params[COUNT], velocity[COUNT], residual[COUNT];
	float memory[WORKERS][COUNT];
	struct selector *up, *down;
};

static void replay_step(struct oracle *o, const struct plan *p, uint64_t step)
{
	enum { SPAN = COUNT / SHARDS };
	uint32_t index[COUNT];
	float sum[COUNT] = { 0 };
	struct span whole = { 0, COUNT, 0 }, part = { 0, SPAN, 0 };
	for (int w = 0; w < WORKERS; w++) {
		float *m = o->memory[w];
		size_t n = COUNT;
		for (uint32_t i = 0; i < COUNT; i++) {
			m[i] = (p->sparse ? m[i] : 0) + gradient(step, (uint64_t)w, i);
			index[i] = i;
		}
		if (p->sparse)
			n = select_topk(o->up, m, &whole, 1, COUNT / 10, index);
		for (size_t j = 0; j < n; j++) {
			uint32_t i = index[j];
			if (p->counted[i / SPAN][step] >> w & 1)
				sum[i] += m[i];
			m[i] -= m[i];
		}
	}
	for (int s = 0; s < SHARDS; s++) {
		float share = 1.0f / (float)p->divisor[s][step];
		float *change = sum + s * SPAN, *velocity = o->velocity + s * SPAN;
		float *residual = o->residual + s * SPAN, *params = o->params + s * SPAN;
		for (int i = 0; i < SPAN; i++) {
			change[i] *= share;
			velocity[i] = 0.9f * velocity[i] + change[i];
			change[i] = -rate(step) * velocity[i];
		}
		if (!p->sparse) {
			for (int i = 0; i < SPAN; i++)
				params[i] += change[i];
			continue;
		}
		for (int i = 0; i < SPAN; i++)
			residual[i] += change[i];
		size_t n = select_topk(o->down, residual, &part, 1, SPAN / 4, index);
		for (size_t j = 0; j < n; j++) {
			params[index[j]] += residual[index[j]];
			residual[index[j]] -= residual[index[j]];
		}
	}
}

static uint64_t replay(const struct plan *p)
{
	static struct oracle o;
	memset(&o, 0, sizeof o);
	assert_int_equal(selector_open(COUNT, &o.up), 0);
	assert_int_equal(selector_open(COUNT, &o.down), 0);
	for (uint64_t i = 0; i < COUNT; i++)
		o.params[i] = noise(3, 0, 0, i);
	for (uint64_t step = 1; step <= p->steps; step++)
		replay_step(&o, p, step);
	selector_close(&o.up);
	selector_close(&o.down);
	return sluice_digest(o.params, sizeof o.params);
}

/* ---- judging ---------------------------------------------------------------------------------- */

static int bits(unsigned set)
{
	return __builtin_popcount(set);
}

/* A worker's pushes count up to some step of each shard, then never again; divisors are what counted. */
static void judge_counts(const struct plan *p)
{
	for (int s = 0; s < SHARDS; s++)
		for (uint64_t step = 1; step <= p->steps; step++) {
			unsigned counted = p->counted[s][step], before = step > 1 ? p->counted[s][step - 1] : 15;
			if (p->divisor[s][step] != (uint32_t)bits(counted))
				fail_msg("shard %d step %llu: divisor %u, counted 0x%x", s,
					 (unsigned long long)step, p->divisor[s][step], counted);
			if (counted & ~before || ~counted & 15 & ~p->victims)
				fail_msg("shard %d step %llu: counted 0x%x after 0x%x, lost 0x%x", s,
					 (unsigned long long)step, counted, before, p->victims);
		}
	assert_int_equal(p->counted[0][1], 15);
	assert_int_equal(p->counted[0][p->steps], 15 & ~p->victims);
	assert_int_equal(p->counted[1][p->steps], 15 & ~p->victims);
}

static void judge(const struct plan *p, const int *status)
{
	uint64_t expected = replay(p), sums = 0;
	judge_counts(p);
	for (int r = 0; r < RANKS; r++) {
		int victim = p->victims >> r & 1;
		if (victim && !p->pause_ms ? !WIFSIGNALED(status[r])
					   : !WIFEXITED(status[r]) || WEXITSTATUS(status[r]))
			fail_msg("rank %d, lost 0x%x: status 0x%x", r, p->victims, (unsigned)status[r]);
		if (victim)
			continue;
		if (r < WORKERS && p->digest[r] != expected)
			fail_msg("rank %d ends with digest %016llx, the oracle with %016llx", r,
				 (unsigned long long)p->digest[r], (unsigned long long)expected);
		assert_int_equal(p->named[r], (int)p->victims);
		assert_int_equal(p->living[r], WORKERS - bits(p->victims));
		assert_int_equal(p->lost[r], bits(p->victims));
		if (r < WORKERS && sums)
			assert_true(p->sums[r] == sums);
		if (r < WORKERS)
			sums = p->sums[r];
	}
	if (p->pause_ms)
		assert_int_equal(atomic_load(&p->told), bits(p->victims));
}

static const char dense[] = "up=all down=all memory=none update=momentum(0.9)";
static const char sparse[] = "up=topk(0.1) down=topk(0.25) memory=residual(outside) update=momentum(0.9)";

static struct plan *new_plan(int is_sparse, unsigned victims)
{
	struct plan *p = shared_memory(sizeof *p);
	p->recipe = is_sparse ? sparse : dense;
	p->sparse = is_sparse;
	p->victims = victims;
	p->steps = 60;
	p->kill_at = 20;
	while (victims >> p->watched & 1)
		p->watched++;
	return p;
}

static void run(struct plan *p)
{
	int status[RANKS_MAX];
	run_ranks_status(RANKS, train, p, lose, 20000, status);
	judge(p, status);
	munmap(p, sizeof *p);
}

/* ---- killed ----------------------------------------------------------------------------------- */

static void kill__any_worker_at_any_moment__fifty_times__others_go_on_and_equal_the_oracle(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 50; round++) {
		struct plan *p = new_plan(round % 3 == 1, 1u << round % WORKERS);
		p->kill_at = 1 + (uint64_t)(35 * (0.5f + noise(1, round, 0, 0) / 2));
		p->kill_after_us = (int)(700 * (1 + noise(1, round, 0, 1)));
		p->with_sums = round % 2;
		run(p);
	}
}

static void kill__two_or_three_at_once__the_others_go_on(void **state)
{
	static const unsigned sets[] = { 0x3, 0x6, 0xc, 0x9, 0x7, 0xe, 0xd };
	(void)state;
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		struct plan *p = new_plan((int)i & 1, sets[i]);
		p->with_sums = i % 3 != 0;
		run(p);
	}
}

static void die__in_the_middle_of_a_collective__all_survivors_get_the_same_sums(void **state)
{
	(void)state;
	for (int worker = 0; worker < WORKERS; worker++)
		for (int mails = 1; mails <= RANKS - 1; mails++) {
			struct plan *p = new_plan(0, 1u << worker);
			p->with_sums = 1;
			p->dies_in_mail = mails;
			run(p);
		}
}

/* ---- stopped ---------------------------------------------------------------------------------- */

static void stop__a_worker__is_dropped_and_learns_it_and_harms_nobody(void **state)
{
	static const unsigned sets[] = { 0x2, 0x6, 0x1, 0x4, 0x8 };
	size_t n = slowness() > 1 ? 2 : sizeof sets / sizeof *sets;
	(void)state;
	for (size_t i = 0; i < n; i++) {
		struct plan *p = new_plan(sets[i] == 0x2, sets[i]);
		p->pause_ms = 2 * lost_after_ms();
		p->with_sums = sets[i] == 0x4 || sets[i] == 0x6;
		run(p);
	}
}

/* ---- the push of a lost worker ------------------------------------------------------------------ */

enum { LAST_PUSH = 10 };

static int push_and_be_lost(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT];
	plan = argument;
	log_capture();
	sluice_job *job = join();
	sluice_model *model = open_model(job, params);
	int victim = plan->victims == 1 ? 0 : 1, late = victim ? 0 : 3;
	if (!sluice_is_worker(job))
		CHECK_OK(sluice_serve(model));
	for (uint64_t step = 1; sluice_is_worker(job) && step <= LAST_PUSH + 2; step++) {
		for (uint64_t i = 0; i < COUNT; i++)
			grad[i] = gradient(step, (uint64_t)rank, i);
		for (int waited = 0; rank == late && step == LAST_PUSH && sluice_living(job) == WORKERS; waited++) {
			CHECK(waited < 60000);
			sleep_ms(1);
		}
		CHECK_OK(sluice_push(model, grad));
		if (rank == victim && step == LAST_PUSH) {
			sleep_ms(200 * slowness()); /* the shards have taken what they can */
			kill(getpid(), SIGKILL);
		}
		CHECK_OK(sluice_pull(model, params));
	}
	note_end(job, model, rank);
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static void lose_after_push(unsigned victims, unsigned counted, uint64_t refused)
{
	int status[RANKS_MAX];
	struct plan *p = new_plan(0, victims);
	run_ranks_status(RANKS, push_and_be_lost, p, NULL, 20000, status);
	for (int r = 0; r < RANKS; r++)
		if (victims >> r & 1 ? !WIFSIGNALED(status[r]) : !WIFEXITED(status[r]) || WEXITSTATUS(status[r]))
			fail_msg("rank %d: status 0x%x", r, (unsigned)status[r]);
	for (int s = 0; s < SHARDS; s++) {
		assert_int_equal(p->counted[s][LAST_PUSH], counted);
		assert_int_equal(p->divisor[s][LAST_PUSH], bits(counted));
		assert_int_equal(p->counted[s][LAST_PUSH + 1], 15 & ~victims);
		assert_int_equal(p->refused[WORKERS + s], refused);
	}
	munmap(p, sizeof *p);
}

static void lose__after_its_push_was_added__it_counts_in_that_step_and_never_again(void **state)
{
	(void)state;
	lose_after_push(1, 15, 0);
}

static void lose__before_its_push_was_added__it_is_refused_and_counted_as_such(void **state)
{
	(void)state;
	lose_after_push(2, 15 & ~2u, 1);
}

/* A worker that knows no rules: it ignores that it was dropped, and pushes on, more than its slots hold. */
static void push_regardless(sluice_model *model, int times)
{
	static uint8_t nonsense[64] = { 0x5a };
	for (int i = 0; i < times; i++)
		for (uint32_t s = 0; s < SHARDS; s++) {
			const struct shard_layout *at = &model->layout.shards[s];
			struct endpoint *e = model->job->peers[at->owner].endpoint;
			struct transfer t = { .kind = TRANSFER_PUT_NOTIFY,
					      .remote = model->remote_windows[at->owner],
					      .offset = at->slots_offset, .local = nonsense,
					      .bytes = sizeof nonsense, .imm = imm_make(IMM_PUSH, model->id, s) };
			CHECK_OK(e->transport->ops->post(e, &t));
		}
}

static int wake_up_and_push(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	plan = argument;
	log_capture();
	sluice_job *job = join();
	sluice_model *model = open_model(job, params);
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
	note_end(job, model, rank);
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static void wake_it(const pid_t *pids, void *argument)
{
	struct plan *p = argument;
	wait_for_step(p, 0, 29); /* they get there only without it */
	kill(pids[1], SIGCONT);
}

static void wake__and_push_ten_times__all_are_refused_and_counted_and_nothing_breaks(void **state)
{
	int status[RANKS_MAX];
	struct plan *p = new_plan(0, 2);
	(void)state;
	p->pause_ms = 1;
	run_ranks_status(RANKS, wake_up_and_push, p, wake_it, 20000, status);
	for (int r = 0; r < RANKS; r++)
		if (!WIFEXITED(status[r]) || WEXITSTATUS(status[r]))
			fail_msg("rank %d: status 0x%x", r, (unsigned)status[r]);
	assert_int_equal(p->refused[4], 10);
	assert_int_equal(p->refused[5], 10);
	assert_int_equal(atomic_load(&p->told), 1);
	munmap(p, sizeof *p);
}

/* It broke the rules while it was a member: it is dropped, not the job. */
static int break_the_rules(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	plan = argument;
	log_capture();
	sluice_job *job = join();
	sluice_model *model = open_model(job, params);
	int rc = sluice_is_worker(job) ? 0 : sluice_serve(model);
	for (uint64_t step = 1; sluice_is_worker(job) && !rc && step <= 40; step++) {
		if (rank == 2 && step == 10)
			push_regardless(model, 1);
		/* No good push after it: on a busy machine it would lie over the nonsense before anyone read that. */
		for (int waited = 0; rank == 2 && step == 10 && !log_saw("dropped this rank", NULL, NULL, NULL);
		     waited++) {
			CHECK(waited < 60000);
			sleep_ms(1);
		}
		rc = sluice_push(model, grad);
		if (!rc)
			rc = sluice_pull(model, params);
	}
	if (rank == 2)
		return dropped_too_late(job, model, params, rc);
	CHECK_OK(rc);
	CHECK(sluice_living(job) == WORKERS - 1);
	CHECK(log_saw("rank 2 (node n2) is lost", "goes on without it", NULL, NULL));
	plan->refused[rank] = (uint64_t)log_saw("rank 2 (node n2) is lost", "was refused", NULL, NULL);
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static void push__nonsense__costs_the_worker_its_membership_and_nothing_else(void **state)
{
	struct plan *p = new_plan(0, 4);
	(void)state;
	run_ranks(RANKS, break_the_rules, p);
	assert_true(p->refused[4] || p->refused[5]); /* whoever saw it first says why */
	munmap(p, sizeof *p);
}

/* ---- what cannot go on ------------------------------------------------------------------------ */

static int end_with_a_server(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	plan = argument;
	log_capture();
	sluice_job *job = join();
	sluice_model *model = open_model(job, params);
	int rc = sluice_is_worker(job) ? 0 : sluice_serve(model);
	for (uint64_t step = 1; !rc && step < 1000000; step++) {
		rc = sluice_push(model, grad);
		if (!rc)
			rc = sluice_pull(model, params);
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
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static void end_by_losing(unsigned victims)
{
	int status[RANKS_MAX];
	struct plan *p = new_plan(0, victims);
	p->watched = 0;
	run_ranks_status(RANKS, end_with_a_server, p, lose, 8000, status);
	for (int r = 0; r < RANKS; r++)
		if (victims >> r & 1 ? !WIFSIGNALED(status[r]) : !WIFEXITED(status[r]) || WEXITSTATUS(status[r]))
			fail_msg("rank %d after the end of 0x%x: status 0x%x", r, victims, (unsigned)status[r]);
	munmap(p, sizeof *p);
}

static void kill__a_server__ends_the_job_naming_it(void **state)
{
	(void)state;
	end_by_losing(1u << 4);
	end_by_losing(1u << 5);
}

static void kill__all_workers__ends_the_servers(void **state)
{
	(void)state;
	end_by_losing(15);
}

static int ask_without_servers(int rank, void *argument)
{
	sluice_job_attr attr = { .size = sizeof attr, .on_failure = SLUICE_CONTINUE };
	sluice_job *job = NULL;
	(void)rank;
	(void)argument;
	log_capture();
	CHECK(sluice_init(&attr, &job) == SLUICE_EINVAL && !job);
	CHECK(error_says("on_failure=continue needs dedicated servers", "servers=N"));
	attr = (sluice_job_attr){ .size = sizeof attr, .on_failure = 3, .servers = 1 };
	CHECK(sluice_init(&attr, &job) == SLUICE_EINVAL && error_says("on_failure=3", NULL));
	return 0;
}

static void init__continue_without_servers__fails_EINVAL_saying_why(void **state)
{
	(void)state;
	run_ranks(2, ask_without_servers, NULL);
}

static int differ(int rank, void *argument)
{
	sluice_job_attr attr = { .size = sizeof attr, .servers = 1,
				 .on_failure = rank == 1 ? SLUICE_CONTINUE : SLUICE_ABORT };
	sluice_job *job = NULL;
	(void)argument;
	log_capture();
	CHECK(sluice_init(&attr, &job) == SLUICE_EPEER);
	CHECK(error_says("on_failure=continue", "on_failure=abort"));
	return 0;
}

static void init__policies_that_differ__are_refused_on_all(void **state)
{
	(void)state;
	run_ranks(3, differ, NULL);
}

/* ---- checkpoints -------------------------------------------------------------------------------- */

static int go_on_from_it(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT];
	uint64_t at = 0;
	plan = argument;
	log_capture();
	sluice_job *job = join();
	sluice_model *model = open_model(job, params);
	if (!sluice_is_worker(job)) {
		CHECK_OK(sluice_serve(model));
	} else {
		CHECK_OK(sluice_set_lr(model, 0.125f)); /* the checkpoint's rate must win, on all */
		CHECK_OK(sluice_restore(model, plan->dir, params, &at));
		CHECK(at && at % 5 == 0);
		CHECK(log_saw("made without this rank", NULL, NULL, NULL) == (int)(plan->victims >> rank & 1));
		for (uint64_t step = at + 1; step <= at + 5; step++) {
			for (uint64_t i = 0; i < COUNT; i++)
				grad[i] = gradient(step, (uint64_t)rank, i);
			CHECK_OK(sluice_push(model, grad));
			CHECK_OK(sluice_pull(model, params));
		}
		check_same(job, params, sizeof params);
	}
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static void checkpoint__with_a_loss_on_the_way__goes_on_and_a_full_job_restores_it(void **state)
{
	(void)state;
	for (int round = 0; round < 12; round++) {
		int status[RANKS_MAX];
		struct plan *p = new_plan(1, 1u << round % 3);
		assert_int_equal(scratch_make(p->dir), 0);
		p->kill_at = 3 + (uint64_t)round;
		p->kill_after_us = 300 * round;
		run_ranks_status(RANKS, train, p, lose, 20000, status);
		judge(p, status);
		assert_int_equal(p->checkpoints, p->steps / 5);
		run_ranks(RANKS, go_on_from_it, p);
		scratch_remove(p->dir);
		munmap(p, sizeof *p);
	}
}

static int restore_after_a_loss(int rank, void *argument)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 0 };
	plan = argument;
	log_capture();
	sluice_job *job = join();
	sluice_model *model = open_model(job, params);
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
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static void restore__after_a_loss__fails_EINVAL_and_the_job_goes_on(void **state)
{
	int status[RANKS_MAX];
	struct plan *p = new_plan(0, 2);
	(void)state;
	run_ranks_status(RANKS, restore_after_a_loss, p, NULL, 20000, status);
	for (int r = 0; r < RANKS; r++)
		assert_true(r == 1 ? WIFSIGNALED(status[r]) : WIFEXITED(status[r]) && !WEXITSTATUS(status[r]));
	munmap(p, sizeof *p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kill__any_worker_at_any_moment__fifty_times__others_go_on_and_equal_the_oracle),
		cmocka_unit_test(kill__two_or_three_at_once__the_others_go_on),
		cmocka_unit_test(die__in_the_middle_of_a_collective__all_survivors_get_the_same_sums),
		cmocka_unit_test(stop__a_worker__is_dropped_and_learns_it_and_harms_nobody),
		cmocka_unit_test(lose__after_its_push_was_added__it_counts_in_that_step_and_never_again),
		cmocka_unit_test(lose__before_its_push_was_added__it_is_refused_and_counted_as_such),
		cmocka_unit_test(wake__and_push_ten_times__all_are_refused_and_counted_and_nothing_breaks),
		cmocka_unit_test(push__nonsense__costs_the_worker_its_membership_and_nothing_else),
		cmocka_unit_test(kill__a_server__ends_the_job_naming_it),
		cmocka_unit_test(kill__all_workers__ends_the_servers),
		cmocka_unit_test(init__continue_without_servers__fails_EINVAL_saying_why),
		cmocka_unit_test(init__policies_that_differ__are_refused_on_all),
		cmocka_unit_test(checkpoint__with_a_loss_on_the_way__goes_on_and_a_full_job_restores_it),
		cmocka_unit_test(restore__after_a_loss__fails_EINVAL_and_the_job_goes_on),
	};
	return cmocka_run_group_tests_name("going on", tests, NULL, NULL);
}
