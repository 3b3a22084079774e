/* SPDX-License-Identifier: BSD-3-Clause
 * A notify that a transport accepted and did not deliver: the sender learns from the peer's
 * pulse that it was lost, and the waits of all ranks end with a name long before
 * SLUICE_WAIT_TIMEOUT. */
#include "ranks.h"
#include "base/bytes.h"
#include "job/progress_token.h"
#include "rdma/transfer.h"
#include "cases.h"
#include <string.h>

enum { COUNT = 400, STEPS = 1000000 };

static const struct transport_ops *whole;
static int losses, lost_kind; /* this number of notifies of this kind to another rank is lost */

/* Simulates a connection that is reset after the kernel took the bytes: the post succeeds. */
static int post_and_lose(struct endpoint *e, const struct transfer *x)
{
	if (!losses || x->kind != TRANSFER_PUT_NOTIFY || (int)(x->imm >> 28 & 7) != lost_kind)
		return whole->post(e, x);
	struct transfer put = *x;
	put.kind = TRANSFER_PUT;
	const int rc = x->bytes ? whole->post(e, &put) : 0;
	losses -= !rc;
	e->notifies += !rc;
	return rc;
}

static void lose(sluice_job *job, enum imm_kind kind, int n)
{
	static struct transport_ops ops;
	progress_take(job);
	struct transport *t = job->peers[1 - job->rank].endpoint->transport;
	whole = t->ops;
	ops = *whole;
	ops.post = post_and_lose;
	t->ops = &ops;
	lost_kind = kind;
	losses = n;
	progress_release(job);
}

static sluice_job *join(void)
{
	sluice_job_attr attr = { .size = sizeof attr,
				 .lost_after_ms = slowness() > 1 ? 5000 : 1000 };
	sluice_job *job = rank_join(&attr);
	log_capture();
	return job;
}

struct loss {
	enum imm_kind kind;
	int n;
};

static int train_with_a_loss(int rank, void *argument)
{
	const struct loss *loss = argument;
	float params[COUNT] = { 0 }, grad[COUNT] = { 1 };
	sluice_job *job = join();
	int rc = 0;
	sluice_model *model = OPEN(job, params, .count = COUNT, .shards = 2);
	for (int step = 1; !rc && step < STEPS; step++) {
		if (rank == 0 && step == 5)
			lose(job, loss->kind, loss->n);
		rc = sluice_push(model, grad);
		rc = rc ? rc : sluice_pull(model, params);
	}
	CHECK(rc == SLUICE_EPEER);
	CHECK(error_says(rank ? "rank 0 (node n1) dropped this rank" : "rank 1 (node n1) is lost",
			 NULL));
	CHECK(error_says("this rank sent to it, 1 never arrived", NULL));
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

TEST(push__its_notify_is_lost__ends_with_the_name_of_the_rank)
{
	struct loss loss = { IMM_PUSH, 1 };
	run_ranks(2, train_with_a_loss, &loss);
}

TEST(pull__the_notice_of_the_version_is_lost__ends_with_the_name_of_the_rank)
{
	struct loss loss = { IMM_NOTICE, 1 };
	run_ranks(2, train_with_a_loss, &loss);
}

TEST_IN_RANKS(barrier__a_message_of_it_is_lost__ends_with_the_name_of_the_rank, 2)
{
	sluice_job *job = join();
	if (rank == 0)
		lose(job, IMM_COLLECTIVE, STEPS);
	int rc = 0;
	while (!rc)
		rc = sluice_barrier(job);
	CHECK(rc == SLUICE_EPEER);
	CHECK(error_says("never arrived", NULL));
	sluice_finalize(&job);
	return 0;
}

TEST_IN_RANKS(pulse__more_received_than_sent__is_refused_by_name, 2)
{
	sluice_job *job = join();
	if (rank == 0) { /* as if rank 1 showed one more than was sent */
		progress_take(job);
		job->peers[1].endpoint->notifies--;
		progress_release(job);
	}
	int rc = 0;
	/* Counts are published once per heartbeat. With shorter pauses, the counts that are read
	 * would be old. */
	while (!(rc = sluice_barrier(job)))
		sleep_ms((int)(3 * job->budget.heartbeat_ns / 1000000));
	CHECK(rc == (rank ? SLUICE_EPEER : SLUICE_EWIRE));
	CHECK(error_says("rank 1 (node n1) reports", "this rank has sent"));
	sluice_finalize(&job);
	return 0;
}

TEST_IN_RANKS(pulse__counts_that_do_not_check__are_read_again, 2)
{
	sluice_job *job = join();
	const uint64_t beats = 10;
	for (uint64_t i = 0; rank == 1 && i < beats * job->budget.heartbeat_ns / 1000000; i++) {
		progress_take(job); /* an impossible count, with the old checksum */
		put_le64(line_of(job, 0) + LINE_RECEIVED, UINT64_MAX);
		progress_release(job);
		sleep_ms(1);
	}
	CHECK_OK(sluice_barrier(job));
	sluice_finalize(&job);
	return 0;
}
