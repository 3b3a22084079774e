/* SPDX-License-Identifier: BSD-3-Clause
 * The ranks of survivors.h. */
#include "survivors.h"
#include "job/progress_token.h"
#include "model/model.h"
#include "shard/reduce.h"
#include "shard/state.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static struct plan *plan; /* the plan of this process; NULL: it is no rank of a plan */
static sluice_job *joined;

static const char dense[] = "up=all down=all memory=none update=momentum(0.9)";
static const char sparse[] =
	"up=topk(0.1) down=topk(0.25) memory=residual(outside) update=momentum(0.9)";

struct plan *new_plan(int is_sparse, unsigned victims)
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

/* ---- what the shards count ------------------------------------------------- */

/* Returns what pushes added at WITNESS, whether it is in lists or in the sum. */
static float witnessed(const struct reduction *r)
{
	float sum = r->n_lists ? 0 : r->sum[WITNESS];
	for (uint32_t i = 0; r->n_lists && i < r->ends[r->n_lists - 1]; i++)
		sum += r->index[i] == WITNESS ? r->value[i] : 0;
	return sum;
}

void __real_reduction_change(struct reduction *r, const struct change *c, struct pick_call *call);
void __wrap_reduction_change(struct reduction *r, const struct change *c, struct pick_call *call);
void __wrap_reduction_change(struct reduction *r, const struct change *c, struct pick_call *call)
{
	const sluice_model *model = plan ? clients_model(&joined->clients, 0) : NULL;
	for (uint32_t i = 0; model && i < model->n_own; i++) {
		const struct shard *shard = &model->shards[i];
		if (&shard->reduction != r || shard->version >= STEPS_MAX)
			continue;
		plan->counted[shard->id][shard->version + 1] = (uint8_t)witnessed(r);
		plan->divisor[shard->id][shard->version + 1] = c->divisor;
	}
	__real_reduction_change(r, c, call);
}

/* Simulates a worker that stops after reading the header of a delta and before reading the rest. */
int __real_dense_take(const uint8_t *from, uint32_t n, float *value, uint32_t *crc);
int __wrap_dense_take(const uint8_t *from, uint32_t n, float *value, uint32_t *crc);
int __wrap_dense_take(const uint8_t *from, uint32_t n, float *value, uint32_t *crc)
{
	static int deltas;
	const int rank = plan ? joined->rank : 0;
	if (plan && plan->victims >> rank & 1 && atomic_load(&plan->at[rank]) == plan->kill_at &&
	    ++deltas == plan->stops_in_pull) {
		atomic_fetch_add(&plan->stopped, 1);
		raise(SIGSTOP);
	}
	return __real_dense_take(from, n, value, crc);
}

/* Simulates a worker that dies after it has written some of its messages. */
static const struct transport_ops *real_ops;
static struct transport_ops dying_ops;
static int mails_left;

static int post_and_die(struct endpoint *e, const struct transfer *t)
{
	if (t->kind == TRANSFER_PUT_NOTIFY && t->imm >> 28 == IMM_COLLECTIVE && !mails_left--)
		kill(getpid(), SIGKILL);
	return real_ops->post(e, t);
}

static void die_after_mails(sluice_job *job, int n)
{
	struct transport *t = job->peers[RANKS - 1].endpoint->transport;
	progress_take(job); /* the progress thread reads ops with the token held */
	mails_left = n;
	real_ops = t->ops;
	dying_ops = *real_ops;
	dying_ops.post = post_and_die;
	t->ops = &dying_ops;
	progress_release(job);
}

/* ---- a job that may lose workers ------------------------------------------- */

float worker_gradient(uint64_t step, uint64_t rank, uint64_t i)
{
	if (i % (COUNT / SHARDS) == WITNESS) /* first and heaviest coordinate of each shard, so
						always sent */
		return (float)(1 << rank);
	return 0.01f * noise(7, step, rank, i);
}

float worker_rate(uint64_t step)
{
	return step <= 45 ? 0.5f : 0.25f;
}

int lost_after_ms(void)
{
	return slowness() > 1 ? 15000 : 3000;
}

sluice_job *survivors_join(struct plan *p)
{
	plan = p;
	sluice_job_attr attr = { .size = sizeof attr,
				 .servers = SERVERS,
				 .on_failure = SLUICE_CONTINUE,
				 .lost_after_ms = p->stops ? lost_after_ms() : 0 };
	return joined = rank_join(&attr);
}

sluice_model *survivors_open(sluice_job *job, float *params)
{
	sluice_model *model = NULL;
	sluice_model_attr attr = ATTR(.count = COUNT, .recipe = plan->recipe, .shards = SHARDS,
				      .lr = 0.5f);
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	return model;
}

void survivors_note(sluice_job *job, sluice_model *model, int rank)
{
	sluice_model_stats stats = { .size = sizeof stats };
	char who[32];
	CHECK_OK(sluice_stats(model, &stats));
	plan->lost[rank] = stats.lost_workers;
	plan->refused[rank] = stats.refused_messages;
	plan->living[rank] = sluice_living(job);
	for (int w = 0; w < WORKERS; w++) {
		snprintf(who, sizeof who, "rank %d (node n%d) is lost", w, w / 2 + 1);
		plan->named[rank] |= log_saw(who, "continues without it", NULL, NULL) << w;
	}
}

int survivors_leave(sluice_job *job, sluice_model *model)
{
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

int dropped_too_late(sluice_job *job, sluice_model *model, float *params, int rc)
{
	float grad[COUNT] = { 0 };
	CHECK(rc == SLUICE_EPEER && error_says("dropped this rank", "SLUICE_ON_FAILURE"));
	CHECK(sluice_push(model, grad) != 0 && sluice_pull(model, params) != 0);
	CHECK(sluice_barrier(job) == SLUICE_EPEER && error_says("dropped this rank", NULL));
	atomic_fetch_add(&plan->told, 1);
	return survivors_leave(job, model);
}

int survivors_train(int rank, void *argument)
{
	float params[COUNT], grad[COUNT];
	for (uint64_t i = 0; i < COUNT; i++)
		params[i] = noise(3, 0, 0, i);
	log_capture();
	sluice_job *job = survivors_join(argument);
	sluice_model *model = survivors_open(job, params);
	if (!sluice_is_worker(job)) {
		CHECK_OK(sluice_serve(model));
		survivors_note(job, model, rank);
		return survivors_leave(job, model);
	}
	int rc = 0;
	for (uint64_t step = 1; !rc && step <= plan->steps; step++) {
		for (uint64_t i = 0; i < COUNT; i++)
			grad[i] = worker_gradient(step, (uint64_t)rank, i);
		/* The last steps must follow the loss, however slow this machine is. */
		for (int waited = 0; step == plan->kill_at + 20 && !atomic_load(&plan->done);
		     waited++) {
			CHECK(waited < 60000);
			sleep_ms(1);
		}
		CHECK_OK(sluice_set(model, SLUICE_LR, worker_rate(step)));
		rc = try_step(model, grad, params);
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
			if (rank == 3) /* only one rank writes to this shared memory */
				plan->checkpoints += !rc;
		}
	}
	if (rc)
		return dropped_too_late(job, model, params, rc);
	CHECK(step_of(model).steps == plan->steps);
	plan->digest[rank] = sluice_digest(params, sizeof params);
	plan->finished[rank] = 1;
	survivors_note(job, model, rank);
	return survivors_leave(job, model);
}

void wait_for_step(struct plan *p, int worker, uint64_t step)
{
	for (int waited = 0; waited < 60000 && atomic_load(&p->at[worker]) < step; waited++)
		sleep_ms(1);
}

void lose(const pid_t *pids, void *argument)
{
	struct plan *p = argument;
	struct timespec rest = { 0, p->kill_after_us * 1000L };
	if (p->dies_in_mail) {
		atomic_store(&p->done, 1);
		return;
	}
	wait_for_step(p, p->watched, p->kill_at);
	nanosleep(&rest, NULL);
	for (int waited = 0; p->stops_itself && waited < 60000 && !atomic_load(&p->stopped);
	     waited++)
		sleep_ms(1);
	for (int r = 0; r < RANKS; r++)
		if (p->victims >> r & 1 && !p->stops_itself)
			kill(pids[r], p->stops ? SIGSTOP : SIGKILL);
	atomic_store(&p->done, 1);
	if (!p->stops)
		return;
	/* One step further than with what the victims may have pushed. */
	wait_for_step(p, p->watched, atomic_load(&p->at[p->watched]) + 3);
	for (int waited = 0;
	     p->wakes_at_end && waited < 60000 && !atomic_load(&p->finished[p->watched]); waited++)
		sleep_ms(1);
	for (int r = 0; r < RANKS; r++)
		if (p->victims >> r & 1)
			kill(pids[r], SIGCONT);
}
