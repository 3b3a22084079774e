/* SPDX-License-Identifier: BSD-3-Clause
 * Jobs of 72 processes, which is above SLUICE_MESH, over shared memory and over libfabric on
 * loopback: the same bits as with simulated ranks, and the loss of one process is named by all
 * others. */
#include "libfabric_leaks.h"
#include "ranks.h"
#include "rdma/transport.h"
#include "job/state.h"
#include "thinned.h"
#include "cases.h"
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 72, COUNT = 500, STEPS = 4, DEADLINE_MS = 120000 };

struct many {
	const char *transport; /* NULL: simulated */
	int servers;
	int victim; /* after the steps, this rank kills itself; -1: none does */
	uint64_t digest;
};

static void make_steps(sluice_job *job, sluice_model *model, float *params)
{
	float grad[COUNT];

	for (uint64_t step = 0; step < STEPS; step++) {
		for (uint64_t i = 0; i < COUNT; i++)
			grad[i] = noise(1, step, (uint64_t)job->rank, i);
		CHECK_STEP(model, grad, params);
	}
}

/* Returns the digest of the parameters, which are the same on all workers; 0 on a server. */
static uint64_t train(sluice_job *job)
{
	float params[COUNT] = { 0 };
	sluice_model *model = OPEN(job, params, .count = COUNT, .shards = 4, .lr = 0.1f,
				   .recipe = "up=topk(0.05) down=topk(0.1)");
	uint64_t digest = 0;

	if (sluice_is_worker(job)) {
		make_steps(job, model, params);
		digest = check_same(job, params, sizeof(params));
	} else {
		CHECK_OK(sluice_serve(model));
	}
	sluice_model_close(&model);
	return digest;
}

static int train_simulated(sluice_job *job, void *argument)
{
	const uint64_t digest = train(job);

	if (!job->rank)
		((struct many *)argument)->digest = digest;
	return 0;
}

static int connections(const sluice_job *job)
{
	int n = 0;

	for (int p = 0; p < job->size; p++)
		n += p != job->rank && job->peers[p].control;
	return n;
}

static int run_process(int rank, void *argument)
{
	const struct many *many = argument;
	/* On a busy machine, each of so many processes may wait long for its turn. */
	const sluice_job_attr attr = { .size = sizeof(attr),
				       .servers = many->servers,
				       .lost_after_ms = 30000 };
	char who[48];

	setenv("SLUICE_TRANSPORT", many->transport, 1);
	setenv("SLUICE_INTERFACE", "lo", 1);
	log_capture();
	sluice_job *job = rank_join(&attr);
	const uint64_t digest = train(job);

	CHECK(!sluice_is_worker(job) || digest == many->digest);
	if (sluice_is_worker(job) && many->servers)
		CHECK(connections(job) == many->servers);
	if (rank == many->victim)
		raise(SIGKILL);
	if (many->victim >= 0) {
		snprintf(who, sizeof(who), "rank %d (node n%d)", many->victim,
			 many->victim / 2 + 1);
		CHECK(sluice_barrier(job) == SLUICE_EPEER);
		CHECK(error_says(who, "is lost"));
	}
	sluice_finalize(&job);
	return 0;
}

static void check_many(struct many many)
{
	const sluice_job_attr attr = { .size = sizeof(attr), .servers = many.servers };
	int status[RANKS];

	if (under_valgrind() || UNDER_THREAD_SANITIZER || UNDER_ADDRESS_SANITIZER)
		skip(); /* 72 processes take too long here */
	assert_int_equal(sluice_simulate(&attr, RANKS, train_simulated, &many), 0);
	run_ranks_status(RANKS, run_process, &many, NULL, DEADLINE_MS, status);
	for (int r = 0; r < RANKS; r++)
		if (r == many.victim ? !WIFSIGNALED(status[r]) : status[r])
			fail_msg("rank %d: status 0x%x", r, (unsigned)status[r]);
}

TEST(processes__72_over_shm__same_bits_as_simulated)
{
	check_many((struct many){ "shm", 0, -1, 0 });
}

TEST(processes__68_workers_and_4_servers_over_shm__one_is_killed_and_all_name_it)
{
	check_many((struct many){ "shm", 4, 40, 0 });
}

#ifdef HAVE_LIBFABRIC
TEST(processes__68_workers_and_4_servers_over_tcp__one_is_killed_and_all_name_it)
{
	check_many((struct many){ "ofi", 4, 40, 0 });
}
#endif
