/* SPDX-License-Identifier: BSD-3-Clause
 * The bootstrap with a fake PMIx: success, each way in which a launcher can fail, and that PMIx is
 * always finalized. */
#include "base/bytes.h"
#include "base/log.h"
#include "compress/message.h"
#include "tests/fakes/pmix/fake_pmix.h"
#include "sluice.h"
#include "slurm/bootstrap.h"
#include "slurm/record.h"
#include "cases.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TIMEOUT_MS = 10000, SHORT_MS = 600 };

static void swallow(int level, const char *line, void *context)
{
}

static void keep_line(int level, const char *line, void *context)
{
	snprintf(context, 512, "%s", line);
}

static void sleep_ms(int ms)
{
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

static int setup(void **state)
{
	static const char *const unset[] = {
		"PMIX_NAMESPACE",       "PMIX_VERSION", "PMI_SIZE",
		"SLURM_STEP_ID",        "SLURM_STEPID", "SLURM_STEP_NUM_TASKS",
		"SLURM_NTASKS",         "SLURM_PROCID", "SLURM_MPI_TYPE",
		"SLURMD_NODENAME",      "SLURM_JOB_ID", "WORLD_SIZE",
		"OMPI_COMM_WORLD_SIZE", "RANK",         "OMPI_COMM_WORLD_RANK"
	};
	size_t i;

	for (i = 0; i < sizeof(unset) / sizeof(unset[0]); i++)
		unsetenv(unset[i]);
	log_set_sink(swallow, NULL);
	return 0;
}

static void peer_record(int rank, const char *version, uint32_t wire)
{
	struct rank_record c;

	memset(&c, 0, sizeof(c));
	c.wire_version = wire;
	snprintf(c.version, sizeof(c.version), "%s", version);
	snprintf(c.node, sizeof(c.node), "n%d", rank);
	c.payload_bytes = 4;
	put_le32(c.payload, (uint32_t)rank * 11);
	fake_pmix.record_bytes[rank] = record_encode(&c, (uint32_t)rank, fake_pmix.record[rank]);
}

/* Sets up a job of `size` in which this process is rank, and all peers are equal to it. */
static void served(int size, int rank)
{
	int peer;

	fake_pmix_reset(size, rank);
	setenv("PMIX_NAMESPACE", "fake", 1);
	for (peer = 0; peer < size; peer++)
		if (peer != rank)
			peer_record(peer, PACKAGE_VERSION, SLUICE_WIRE_VERSION);
}

static struct bootstrap *opened(int timeout_ms)
{
	struct bootstrap *b = NULL;

	assert_int_equal(bootstrap_open(NULL, timeout_ms, &b), 0);
	return b;
}

/* Opens and exchanges, and expects the error. PMIx must have been finalized once and not called
 * afterwards. */
static void exchange_fails(int timeout_ms, int code, const char *with)
{
	struct bootstrap *b = opened(timeout_ms);
	struct rank_record *records = NULL;

	assert_int_equal(bootstrap_exchange(b, NULL, 0, &records), code);
	assert_null(records);
	assert_non_null(strstr(sluice_last_error(), with));
	assert_int_equal(fake_pmix.finalizes, 1);
	bootstrap_close(&b);
	assert_null(b);
	assert_int_equal(fake_pmix.finalizes, 1);
	assert_int_equal(fake_pmix.calls_after_finalize, 0);
}

#define CASE(name) TEST_WITH(name, setup, NULL)

CASE(exchange__four_ranks__gives_all_cards_and_leaves_pmix)
{
	uint8_t payload[4];
	struct bootstrap *b;
	struct rank_record *records;
	int rank;

	served(4, 2);
	b = opened(TIMEOUT_MS);
	assert_int_equal(bootstrap_rank(b), 2);
	assert_int_equal(bootstrap_size(b), 4);
	assert_string_equal(bootstrap_node(b), "n7");
	assert_string_equal(bootstrap_origin(b), "PMIx 9.8.7");
	put_le32(payload, 22);
	assert_int_equal(bootstrap_exchange(b, payload, 4, &records), 0);
	for (rank = 0; rank < 4; rank++) {
		assert_int_equal(records[rank].payload_bytes, 4);
		assert_int_equal(get_le32(records[rank].payload), rank * 11);
		assert_string_equal(records[rank].version, PACKAGE_VERSION);
	}
	assert_string_equal(records[2].node, "n7");
	assert_string_equal(records[3].node, "n3");
	free(records);
	assert_int_equal(fake_pmix.fences, 1);
	assert_true(fake_pmix.collected);
	assert_true(fake_pmix.fence_timeout_s * 1000 > TIMEOUT_MS);
	assert_int_equal(fake_pmix.finalizes, 0);
	assert_int_equal(bootstrap_leave(b), 0);
	assert_int_equal(fake_pmix.finalizes, 1);
	bootstrap_close(&b);
	assert_int_equal(fake_pmix.finalizes, 1);
	assert_int_equal(fake_pmix.calls_after_finalize, 0);
}

/* The fence collects all records, so that each get finds its record on this node. */
CASE(exchange__512_ranks__one_put_one_fence_and_one_get_for_each_record)
{
	struct bootstrap *b;
	struct rank_record *records;

	served(FAKE_RANKS, 300);
	b = opened(TIMEOUT_MS);
	assert_int_equal(bootstrap_exchange(b, NULL, 0, &records), 0);
	for (int rank = 0; rank < FAKE_RANKS; rank++)
		if (rank != 300)
			assert_int_equal(get_le32(records[rank].payload), rank * 11);
	free(records);
	bootstrap_close(&b);
	assert_int_equal(fake_pmix.puts, 1);
	assert_int_equal(fake_pmix.fences, 1);
	assert_true(fake_pmix.collected);
	assert_in_range(fake_pmix.cards_asked_for, FAKE_RANKS - 1, FAKE_RANKS);
}

CASE(exchange__fence_done_at_once__is_a_success)
{
	struct bootstrap *b;
	struct rank_record *records;

	served(2, 0);
	fake_pmix.fence = FENCE_AT_ONCE;
	b = opened(TIMEOUT_MS);
	assert_int_equal(bootstrap_exchange(b, NULL, 0, &records), 0);
	free(records);
	bootstrap_close(&b);
}

CASE(exchange__twice__gives_the_cards_of_the_second_time)
{
	struct bootstrap *b;
	struct rank_record *records;
	int round;

	served(2, 0);
	b = opened(TIMEOUT_MS);
	for (round = 1; round <= 2; round++) {
		uint8_t payload = (uint8_t)(10 * round);

		peer_record(1, PACKAGE_VERSION, SLUICE_WIRE_VERSION);
		assert_int_equal(bootstrap_exchange(b, &payload, 1, &records), 0);
		assert_int_equal(records[0].payload_bytes, 1);
		assert_int_equal(records[0].payload[0], 10 * round);
		assert_int_equal(get_le32(records[1].payload), 11);
		free(records);
		assert_int_equal(fake_pmix.fences, round);
		assert_int_equal(fake_pmix.commits, round);
		assert_int_equal(fake_pmix.finalizes, 0);
	}
	bootstrap_close(&b);
	assert_int_equal(fake_pmix.finalizes, 1);
	assert_int_equal(fake_pmix.calls_after_finalize, 0);
}

CASE(exchange__third_time_or_after_leaving__fails_EINVAL)
{
	struct bootstrap *b;
	struct rank_record *records;
	int leaves, round;

	for (leaves = 0; leaves < 2; leaves++) {
		served(2, 0);
		b = opened(TIMEOUT_MS);
		for (round = 0; round < (leaves ? 1 : 2); round++) {
			assert_int_equal(bootstrap_exchange(b, NULL, 0, &records), 0);
			free(records);
		}
		if (leaves)
			assert_int_equal(bootstrap_leave(b), 0);
		assert_int_equal(bootstrap_exchange(b, NULL, 0, &records), SLUICE_EINVAL);
		bootstrap_close(&b);
		assert_int_equal(fake_pmix.finalizes, 1);
	}
}

CASE(exchange__second_fence_fails__fails_and_leaves)
{
	struct bootstrap *b;
	struct rank_record *records;

	served(2, 0);
	b = opened(TIMEOUT_MS);
	assert_int_equal(bootstrap_exchange(b, NULL, 0, &records), 0);
	free(records);
	fake_pmix.fence_status = PMIX_ERR_LOST_CONNECTION;
	assert_int_equal(bootstrap_exchange(b, NULL, 0, &records), SLUICE_EBOOT);
	assert_non_null(strstr(sluice_last_error(), "PMIx_Fence"));
	assert_int_equal(fake_pmix.finalizes, 1);
	bootstrap_close(&b);
	assert_int_equal(fake_pmix.finalizes, 1);
}

CASE(exchange__payload_over_the_card__fails_EINVAL_and_close_leaves)
{
	uint8_t payload[RECORD_PAYLOAD_BYTES + 1] = { 0 };
	struct bootstrap *b;
	struct rank_record *records;

	served(2, 0);
	b = opened(TIMEOUT_MS);
	assert_int_equal(bootstrap_exchange(b, payload, sizeof(payload), &records), SLUICE_EINVAL);
	assert_int_equal(fake_pmix.puts, 0);
	bootstrap_close(&b);
	assert_int_equal(fake_pmix.finalizes, 1);
}

CASE(open__size_in_any_integer_type__is_understood)
{
	static const pmix_data_type_t types[] = { PMIX_UINT32, PMIX_UINT64, PMIX_INT,
						  PMIX_UINT16, PMIX_SIZE,   PMIX_PROC_RANK };
	size_t i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct bootstrap *b;

		served(5, 1);
		fake_pmix.size_type = types[i];
		b = opened(TIMEOUT_MS);
		assert_int_equal(bootstrap_size(b), 5);
		bootstrap_close(&b);
		assert_int_equal(fake_pmix.finalizes, 1);
	}
}

CASE(open__senseless_sizes__fail_EBOOT_and_leave)
{
	static const int sizes[] = { 0, 2, -1, 1 << 30 }; /* this process has rank 2 */
	struct bootstrap *b = NULL;
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		served(4, 2);
		fake_pmix.size = sizes[i];
		fake_pmix.size_type = PMIX_INT;
		assert_int_equal(bootstrap_open(NULL, TIMEOUT_MS, &b), SLUICE_EBOOT);
		assert_int_equal(fake_pmix.finalizes, 1);
	}
	served(4, 2);
	fake_pmix.size_type = PMIX_STRING;
	assert_int_equal(bootstrap_open(NULL, TIMEOUT_MS, &b), SLUICE_EBOOT);
	assert_int_equal(fake_pmix.finalizes, 1);
	assert_null(b);
}

CASE(open__server_tells_no_host_name__takes_slurms)
{
	struct bootstrap *b;

	served(2, 0);
	fake_pmix.node = NULL;
	setenv("SLURMD_NODENAME", "node\n42", 1);
	b = opened(TIMEOUT_MS);
	assert_string_equal(bootstrap_node(b), "node?42");
	bootstrap_close(&b);
}

CASE(open__server_unreachable__fails_EBOOT_with_both_versions)
{
	struct bootstrap *b = NULL;

	served(4, 0);
	setenv("PMIX_VERSION", "3.1.5", 1);
	fake_pmix.init_status = PMIX_ERR_UNREACH;
	assert_int_equal(bootstrap_open(NULL, TIMEOUT_MS, &b), SLUICE_EBOOT);
	assert_null(b);
	assert_non_null(strstr(sluice_last_error(), "3.1.5"));
	assert_non_null(strstr(sluice_last_error(), "9.8.7"));
	assert_null(strstr(sluice_last_error(), "unset what"));
	assert_int_equal(fake_pmix.finalizes, 0);
	setenv("PMIX_MCA_psec", "none", 1);
	assert_int_equal(bootstrap_open(NULL, TIMEOUT_MS, &b), SLUICE_EBOOT);
	unsetenv("PMIX_MCA_psec");
	assert_non_null(strstr(sluice_last_error(), "launcher may not have (PMIX_MCA_psec=none)"));
}

CASE(open__init_hangs__times_out_and_leaves_when_it_ends)
{
	struct bootstrap *b = NULL;
	int tries;

	served(4, 0);
	fake_pmix.init_sleeps_ms = 2000;
	assert_int_equal(bootstrap_open(NULL, SHORT_MS, &b), SLUICE_ETIMEDOUT);
	assert_null(b);
	for (tries = 0; tries < 3000 && !fake_pmix.finalizes; tries++)
		sleep_ms(10);
	assert_int_equal(fake_pmix.finalizes, 1);
}

CASE(exchange__fence_never_answers__times_out_and_a_late_answer_is_harmless)
{
	served(4, 3);
	fake_pmix.fence = FENCE_NEVER;
	fake_pmix.record_bytes[1] = 0;
	exchange_fails(SHORT_MS, SLUICE_ETIMEDOUT, "all 4 ranks");
	assert_non_null(strstr(sluice_last_error(), "rank 3 on node n7"));
	assert_non_null(strstr(sluice_last_error(), "missing: rank 1: "));
	assert_int_equal(fake_pmix.finalizes, 1);
	fake_pmix_answer_fence();
	served(4, 3); /* Slurm 22.05 provides no host name */
	fake_pmix.fence = FENCE_NEVER;
	fake_pmix.node = NULL;
	setenv("SLURMD_NODENAME", "n9", 1);
	exchange_fails(SHORT_MS, SLUICE_ETIMEDOUT, "rank 3 on node n9");
	fake_pmix_answer_fence();
}

/* Rank 0 of two ranks on one node, in which the fence does not end because rank 1 never joins. Its
 * parent has no rank, like a launcher. */
static int wait_for_sibling(void)
{
	struct bootstrap *b = NULL;
	struct rank_record *records = NULL;
	const char *expected = getenv("EXPECTED");
	int err;

	log_set_sink(swallow, NULL);
	served(2, 0);
	fake_pmix.local = "0,1";
	fake_pmix.fence = FENCE_NEVER;
	if (bootstrap_open(NULL, 3500, &b))
		return 2;
	err = bootstrap_exchange(b, NULL, 0, &records);
	if (fake_pmix.aborts != (err == SLUICE_EPEER) || fake_pmix.finalizes != 1)
		return 3;
	bootstrap_close(&b);
	return err == (*expected ? SLUICE_EPEER : SLUICE_ETIMEDOUT) &&
			       strstr(sluice_last_error(), expected) ?
		       0 :
		       4;
}

static pid_t start_task(const char *rank, char *const arguments[])
{
	pid_t pid = fork();

	if (pid)
		return pid;
	setenv("PMIX_NAMESPACE", "fake", 1);
	setenv("PMIX_RANK", rank, 1);
	execvp(arguments[0], arguments);
	_exit(127);
}

/* Returns the exit status of rank 0, whose sibling is killed or not. */
static int launch(int kill_it)
{
	char program[4096] = "";
	char *const waits[] = { program, "wait-for-sibling", NULL };
	char *const sleeps[] = { "sleep", "1000", NULL };
	int status = -1;
	pid_t launcher;

	assert_true(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
	launcher = fork();

	if (launcher == 0) {
		pid_t sibling = start_task("1", sleeps), rank;

		if (kill_it) {
			kill(sibling, SIGKILL);
			waitpid(sibling, NULL, 0);
		}
		rank = start_task("0", waits);
		waitpid(rank, &status, 0);
		if (!kill_it) {
			kill(sibling, SIGKILL);
			waitpid(sibling, NULL, 0);
		}
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
	}
	assert_int_equal(waitpid(launcher, &status, 0), launcher);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

CASE(exchange__rank_on_the_node_was_killed__is_EPEER_naming_it)
{
	setenv("EXPECTED", "rank 1 (node n7) is lost", 1);
	assert_int_equal(launch(1), 0);
}

CASE(exchange__rank_on_the_node_lives_and_hangs__times_out)
{
	setenv("EXPECTED", "", 1);
	assert_int_equal(launch(0), 0);
}

CASE(exchange__fence_fails__is_EBOOT)
{
	served(2, 0);
	fake_pmix.fence_status = PMIX_ERR_LOST_CONNECTION;
	exchange_fails(TIMEOUT_MS, SLUICE_EBOOT, "PMIx_Fence");
	served(2, 0);
	fake_pmix.fence = FENCE_AT_ONCE;
	fake_pmix.fence_status = PMIX_ERR_NOT_SUPPORTED;
	exchange_fails(TIMEOUT_MS, SLUICE_EBOOT, "PMIx_Fence");
	served(2, 0);
	fake_pmix.fence_status = PMIX_ERR_TIMEOUT;
	exchange_fails(TIMEOUT_MS, SLUICE_ETIMEDOUT, "sluice_init");
}

CASE(exchange__put_or_commit_fails__is_EBOOT)
{
	served(2, 0);
	fake_pmix.put_status = PMIX_ERR_NOMEM;
	exchange_fails(TIMEOUT_MS, SLUICE_EBOOT, "PMIx_Put");
	served(2, 0);
	fake_pmix.commit_status = PMIX_ERR_LOST_CONNECTION;
	exchange_fails(TIMEOUT_MS, SLUICE_EBOOT, "PMIx_Commit");
	assert_int_equal(fake_pmix.fences, 0);
}

CASE(exchange__get_fails__names_the_rank)
{
	served(4, 0);
	fake_pmix.get_fails_at = 2;
	fake_pmix.get_status = PMIX_ERR_NOT_FOUND;
	exchange_fails(TIMEOUT_MS, SLUICE_EBOOT, "record of rank 2");
}

CASE(exchange__get_hangs__times_out)
{
	served(2, 0);
	fake_pmix.get_sleeps_ms = 1500;
	{
		struct bootstrap *b = opened(SHORT_MS);
		struct rank_record *records = NULL;

		assert_int_equal(bootstrap_exchange(b, NULL, 0, &records), SLUICE_ETIMEDOUT);
		assert_non_null(strstr(sluice_last_error(), "PMIx_Get"));
		assert_int_equal(fake_pmix.finalizes, 1);
		bootstrap_close(&b);
	}
	for (int tries = 0; tries < 3000 && fake_pmix.cards_asked_for < 2; tries++)
		sleep_ms(10); /* until the helper that timed out has requested both */
	assert_int_equal(fake_pmix.cards_asked_for, 2);
}

CASE(exchange__card_damaged_or_no_bytes__is_EWIRE)
{
	served(4, 0);
	fake_pmix.record[3][40] ^= 1;
	exchange_fails(TIMEOUT_MS, SLUICE_EWIRE, "record of rank 3");
	served(4, 0);
	memcpy(fake_pmix.record[3], fake_pmix.record[1],
	       FAKE_RECORD_BYTES); /* sent by another rank */
	exchange_fails(TIMEOUT_MS, SLUICE_EWIRE, "for another rank");
	served(4, 0);
	fake_pmix.card_is_text = 1;
	exchange_fails(TIMEOUT_MS, SLUICE_EWIRE, "rank 0");
}

CASE(exchange__other_versions__are_EPEER_naming_both)
{
	served(4, 3);
	peer_record(1, PACKAGE_VERSION, SLUICE_WIRE_VERSION + 1);
	exchange_fails(TIMEOUT_MS, SLUICE_EPEER, "rank 1 on node n1");
	served(4, 1); /* now this rank is the one that differs from rank 0 */
	peer_record(0, "0.0.1", SLUICE_WIRE_VERSION);
	exchange_fails(TIMEOUT_MS, SLUICE_EPEER, "rank 0 on node n0 runs Sluice 0.0.1");
	assert_non_null(
		strstr(sluice_last_error(), "rank 1 on node n7 runs Sluice " PACKAGE_VERSION));
}

CASE(open__no_launcher__is_a_job_of_one)
{
	struct bootstrap *b;
	struct rank_record *records;

	fake_pmix_reset(4, 0);
	b = opened(TIMEOUT_MS);
	assert_int_equal(fake_pmix.inits, 0);
	assert_int_equal(bootstrap_rank(b), 0);
	assert_int_equal(bootstrap_size(b), 1);
	assert_string_equal(bootstrap_origin(b), "alone");
	assert_true(strlen(bootstrap_node(b)) > 0);
	assert_int_equal(bootstrap_exchange(b, (const uint8_t *)"me", 2, &records), 0);
	assert_int_equal(records[0].payload_bytes, 2);
	assert_memory_equal(records[0].payload, "me", 2);
	free(records);
	bootstrap_close(&b);
	assert_null(b);
	bootstrap_close(&b);
}

CASE(open__srun_without_pmix__fails_with_the_remedy)
{
	struct bootstrap *b = NULL;

	fake_pmix_reset(4, 0);
	setenv("SLURM_STEP_ID", "0", 1);
	setenv("SLURM_STEP_NUM_TASKS", "4", 1);
	setenv("SLURM_PROCID", "3", 1);
	setenv("SLURM_MPI_TYPE", "pmi2", 1);
	assert_int_equal(bootstrap_open(NULL, TIMEOUT_MS, &b), SLUICE_EBOOT);
	assert_non_null(strstr(sluice_last_error(), "srun was started without --mpi=pmix"));
	assert_non_null(strstr(sluice_last_error(), "run `srun --mpi=pmix ...`"));
	assert_non_null(strstr(sluice_last_error(), "its 4 tasks cannot find each other"));
	assert_non_null(strstr(sluice_last_error(), "pmi2"));
	unsetenv("SLURM_STEP_NUM_TASKS");
	setenv("SLURM_NTASKS", "2", 1);
	assert_int_equal(bootstrap_open(NULL, TIMEOUT_MS, &b), SLUICE_EBOOT);
	unsetenv("SLURM_STEP_ID");
	setenv("SLURM_STEPID", "1", 1);
	assert_int_equal(bootstrap_open(NULL, TIMEOUT_MS, &b), SLUICE_EBOOT);
	assert_null(b);
}

/* There is no launcher, so the process trains alone, which may not be intended. */
CASE(open__alone_under_a_launcher_of_several__warns)
{
	static const char *const several[] = { "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE",
					       "SLURM_NTASKS" };
	char line[512];
	struct bootstrap *b;

	fake_pmix_reset(4, 0);
	log_set_sink(keep_line, line);
	for (size_t i = 0; i < sizeof(several) / sizeof(several[0]); i++) {
		char variable[64];

		snprintf(variable, sizeof(variable), "%s=4", several[i]);
		for (int n = 0; n < 3; n++) {
			static const char *const values[] = { "4", "1", "x" };

			*line = '\0';
			setenv(several[i], values[n], 1);
			b = opened(TIMEOUT_MS);
			bootstrap_close(&b);
			assert_int_equal(strstr(line, variable) != NULL, n == 0);
		}
		unsetenv(several[i]);
	}
	/* Only rank 0 warns. */
	*line = '\0';
	setenv("WORLD_SIZE", "4", 1);
	setenv("RANK", "3", 1);
	b = opened(TIMEOUT_MS);
	bootstrap_close(&b);
	assert_string_equal(line, "");
	unsetenv("WORLD_SIZE");
	unsetenv("RANK");
	/* A step of one task in a larger allocation is intended. */
	*line = '\0';
	setenv("SLURM_NTASKS", "4", 1);
	setenv("SLURM_STEP_ID", "0", 1);
	setenv("SLURM_STEP_NUM_TASKS", "1", 1);
	b = opened(TIMEOUT_MS);
	bootstrap_close(&b);
	assert_string_equal(line, "");
}

CASE(open__allocation_without_a_step__is_a_job_of_one)
{
	static const char *const steps[] = { NULL, "4294967291", "4294967290", "batch" };
	size_t i;

	fake_pmix_reset(4, 0);
	setenv("SLURM_JOB_ID", "7", 1);
	setenv("SLURM_NTASKS", "4", 1);
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct bootstrap *b;

		if (steps[i])
			setenv("SLURM_STEP_ID", steps[i], 1);
		b = opened(TIMEOUT_MS);
		assert_int_equal(bootstrap_size(b), 1);
		bootstrap_close(&b);
	}
}

CASE(open__srun_of_one_task_without_pmix__is_a_job_of_one)
{
	struct bootstrap *b;

	fake_pmix_reset(4, 0);
	setenv("SLURM_STEP_ID", "0", 1);
	setenv("SLURM_STEP_NUM_TASKS", "1", 1);
	setenv("SLURM_NTASKS", "4", 1); /* of the allocation */
	b = opened(TIMEOUT_MS);
	bootstrap_close(&b);
}

CASE(open__another_launcher_with_pmi__fails_EBOOT)
{
	struct bootstrap *b = NULL;

	fake_pmix_reset(4, 0);
	setenv("PMI_SIZE", "4", 1);
	assert_int_equal(bootstrap_open(NULL, TIMEOUT_MS, &b), SLUICE_EBOOT);
	assert_non_null(strstr(sluice_last_error(), "PMIx"));
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "wait-for-sibling"))
		return wait_for_sibling();
	return run_cases(NULL, NULL);
}
