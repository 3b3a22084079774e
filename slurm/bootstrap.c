/* SPDX-License-Identifier: BSD-3-Clause
 * Determines rank, size and node, and exchanges one record per rank; see bootstrap.h. The launcher
 * is PMIx (pmix_calls.c) or the program's own store (callbacks.c), and record.c encodes the
 * records. This file decides whether a missing launcher is an error, and fills in this rank's
 * record. Called by runtime/job/join.c. */
#include "slurm/bootstrap.h"
#include "base/error.h"
#include "base/log.h"
#include "base/wire_version.h"
#include "sluice.h"
#include "slurm/record.h"
#include "slurm/launcher.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#ifndef SLUICE_BUILD_ID
#ifdef __clang__
#define BUILD_COMPILER "clang "
#else
#define BUILD_COMPILER "gcc "
#endif
#ifdef __OPTIMIZE__
#define BUILD_OPTIMIZED " optimized"
#else
#define BUILD_OPTIMIZED " not optimized"
#endif
/* The record's field truncates this text, so the most important parts come first. */
#define SLUICE_BUILD_ID BUILD_COMPILER __VERSION__ BUILD_OPTIMIZED
#endif

struct bootstrap {
	int rank, size;
	struct launcher *launcher; /* NULL if this process is alone, or has left the launcher */
	char node[NODE_NAME_BYTES];
	char origin[128];
};

/* ---- processes without a launcher ------------------------------------------- */

/* Returns the number in an environment variable, or -1 if it is unset or not a number. */
static long environment_count(const char *name)
{
	const char *text = getenv(name);
	char *end;
	long n;

	if (!text || !isdigit((unsigned char)*text))
		return -1;
	n = strtol(text, &end, 10);
	return *end ? -1 : n;
}

/* Returns the number of tasks in this process's srun step, or -1 outside of a step. Slurm also
 * gives step numbers to the batch script and to the interactive shell of an allocation; these are
 * INT_MAX or above. */
static long step_tasks(void)
{
	long step = environment_count("SLURM_STEP_ID"), tasks;

	if (step < 0)
		step = environment_count("SLURM_STEPID");
	tasks = environment_count("SLURM_STEP_NUM_TASKS");
	if (step > INT_MAX || (step < 0 && tasks < 0))
		return -1;
	return tasks >= 0 ? tasks : environment_count("SLURM_NTASKS");
}

/* Launchers that start several processes set one of these variables to the number of processes. */
static const struct {
	const char *size, *rank, *remedy;
	int of_allocation; /* 1: the variable counts the tasks of the whole allocation, which may
			      have several steps */
} launchers_of_several[] = {
	{ "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
	  "use srun --mpi=pmix, or an mpirun that serves PMIx", 0 },
	{ "MPI_LOCALNRANKS", "MPI_LOCALRANKID", "use srun --mpi=pmix, or set attr.bootstrap", 0 },
	{ "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK",
	  "use srun --mpi=pmix, or set attr.bootstrap", 0 },
	{ "WORLD_SIZE", "RANK",
	  "under torchrun and similar launchers set attr.bootstrap (in Python: call "
	  "sluice.torch.process_group())",
	  0 },
	{ "SLURM_NTASKS", "SLURM_PROCID", "start the program by srun --mpi=pmix", 1 },
};

/* Warns, because otherwise a process that was started as one of several would silently train alone.
 * Only the process that the launcher calls rank 0 warns. */
static void warn_if_meant_for_several(void)
{
	for (size_t i = 0; i < sizeof(launchers_of_several) / sizeof(launchers_of_several[0]);
	     i++) {
		const char *variable = launchers_of_several[i].size;
		const long n = environment_count(variable);

		if (n <= 1 || (launchers_of_several[i].of_allocation && step_tasks() >= 0))
			continue;
		if (environment_count(launchers_of_several[i].rank) <= 0)
			log_line(LOG_WARN, "slurm",
				 "this process runs as a job of one rank and exchanges nothing, "
				 "although %s=%ld: it was started as one of several processes but "
				 "found neither PMIx nor a bootstrap; %s, or unset %s if one rank "
				 "is intended",
				 variable, n, launchers_of_several[i].remedy, variable);
		return;
	}
}

/* Called if no launcher serves this process. Returns 0 if the job has one rank, and otherwise
 * SLUICE_EBOOT with a message that says what to do. */
static int check_single(void)
{
	const char *type = getenv("SLURM_MPI_TYPE");
	long tasks = step_tasks();

	if (!pmix_supported() && (tasks > 1 || (tasks != 1 && getenv("PMIX_NAMESPACE"))))
		return fail(SLUICE_EBOOT,
			    "this process was launched as one of several, but this libsluice was "
			    "built without PMIx and cannot find the others: install libpmix-dev "
			    "and build again with ./configure --with-pmix=yes");
	if (tasks > 1) /* task 0 logs the error for all */
		return (environment_count("SLURM_PROCID") > 0 ? fail_quietly : fail)(
			SLUICE_EBOOT,
			"srun was started without --mpi=pmix, so its %ld tasks cannot find each "
			"other: run `srun --mpi=pmix ...` (srun took --mpi=%s from its options or "
			"from MpiDefault in slurm.conf; `srun --mpi=list` shows what this Slurm "
			"has)",
			tasks, type ? type : "none");
	if (environment_count("PMI_SIZE") > 1)
		return fail(
			SLUICE_EBOOT,
			"the launcher started %ld processes with PMI, but not with PMIx, which "
			"Sluice needs: run `srun --mpi=pmix ...`, or an mpirun that serves PMIx; "
			"in Python, set MASTER_ADDR and MASTER_PORT and call "
			"sluice.torch.process_group()",
			environment_count("PMI_SIZE"));
	warn_if_meant_for_several();
	return 0;
}

/* ---- opening --------------------------------------------------------------- */

static void set_node(struct bootstrap *b, const char *name)
{
	size_t i;

	for (i = 0; i + 1 < sizeof(b->node) && name[i]; i++)
		b->node[i] = isprint((unsigned char)name[i]) ? name[i] : '?';
	b->node[i] = 0;
}

/* Sets the name of the node. A name from the launcher replaces it later. */
static void name_node(struct bootstrap *b)
{
	const char *name = getenv("SLURMD_NODENAME");
	char host[256] = "";

	if (!name || !*name) {
		if (gethostname(host, sizeof(host) - 1) != 0 || !*host)
			strcpy(host, "localhost");
		name = host;
	}
	set_node(b, name);
}

static void name_origin(struct bootstrap *b)
{
	const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");

	if (!b->launcher)
		strcpy(b->origin, "alone");
	else if (job && step)
		snprintf(b->origin, sizeof(b->origin), "%s (Slurm step %s.%s)",
			 b->launcher->ops->name(b->launcher), job, step);
	else
		snprintf(b->origin, sizeof(b->origin), "%s", b->launcher->ops->name(b->launcher));
}

int bootstrap_open(const sluice_bootstrap *callbacks, int timeout_ms, struct bootstrap **out)
{
	struct bootstrap *b = calloc(1, sizeof(*b));
	int err;

	if (!b)
		return fail(SLUICE_ENOMEM, "no memory for the bootstrap's state");
	name_node(b);
	err = callbacks ? callbacks_open(callbacks, timeout_ms, &b->launcher) :
			  pmix_open(timeout_ms, b->node, &b->launcher);
	if (!err && !b->launcher)
		err = check_single();
	if (err) {
		free(b);
		return err;
	}
	b->rank = b->launcher ? b->launcher->ops->rank(b->launcher) : 0;
	b->size = b->launcher ? b->launcher->ops->size(b->launcher) : 1;
	if (b->launcher && *b->launcher->ops->node(b->launcher))
		set_node(b, b->launcher->ops->node(b->launcher));
	name_origin(b);
	*out = b;
	return 0;
}

int bootstrap_rank(const struct bootstrap *b)
{
	return b->rank;
}

int bootstrap_size(const struct bootstrap *b)
{
	return b->size;
}

const char *bootstrap_node(const struct bootstrap *b)
{
	return b->node;
}

const char *bootstrap_origin(const struct bootstrap *b)
{
	return b->origin;
}

int bootstrap_leave(struct bootstrap *b)
{
	int err = 0;

	if (b->launcher) {
		err = b->launcher->ops->leave(b->launcher);
		b->launcher->ops->close(b->launcher);
	}
	b->launcher = NULL;
	return err;
}

void bootstrap_close(struct bootstrap **b)
{
	if (!*b)
		return;
	bootstrap_leave(*b);
	free(*b);
	*b = NULL;
}

/* ---- records ----------------------------------------------------------------- */

/* Reads the running kernel's boot id. If that fails, generates a random one. */
static void read_boot_id(uint8_t id[16])
{
	char text[64];
	ssize_t n = -1;
	size_t digits = 0, i;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	memset(id, 0, 16);
	for (i = 0; n > 0 && i < (size_t)n && digits < 32; i++) {
		int c = tolower((unsigned char)text[i]);

		if (!isxdigit(c))
			continue;
		id[digits / 2] = (uint8_t)(id[digits / 2] << 4 |
					   (c <= '9' ? c - '0' : c - 'a' + 10));
		digits++;
	}
	if (digits < 32 && getrandom(id, 16, GRND_NONBLOCK) != 16) {
		uint64_t pid = (uint64_t)getpid();

		memcpy(id, &pid, sizeof(pid));
	}
}

static void fill_record(const struct bootstrap *b, const uint8_t *payload, size_t n,
			struct rank_record *record)
{
	memset(record, 0, sizeof(*record));
	record->wire_version = SLUICE_WIRE_VERSION;
	snprintf(record->version, sizeof(record->version), "%s", PACKAGE_VERSION);
	snprintf(record->build, sizeof(record->build), "%s", SLUICE_BUILD_ID);
	read_boot_id(record->boot_id);
	memcpy(record->node, b->node, sizeof(record->node));
	record->payload_bytes = (uint32_t)n;
	if (n)
		memcpy(record->payload, payload, n);
}

struct taking {
	const struct bootstrap *b;
	struct rank_record *records;
};

static int take_record(void *context, int rank, const uint8_t *bytes, size_t n)
{
	struct taking *t = context;
	const char *why;
	int err = record_decode(bytes, n, (uint32_t)rank, &t->records[rank], &why);

	if (err)
		return fail(
			err,
			"rank %d on node %s refuses the record of rank %d (%zu bytes): %s; start "
			"all ranks with the same libsluice",
			t->b->rank, t->b->node, rank, n, why);
	return 0;
}

int bootstrap_exchange(struct bootstrap *b, const uint8_t *payload, size_t payload_bytes,
		       struct rank_record **records_out)
{
	struct taking taking = { .b = b };
	struct rank_record own;
	uint8_t bytes[RECORD_MAX_BYTES];
	size_t n;
	int err;

	if (payload_bytes > RECORD_PAYLOAD_BYTES)
		return fail(
			SLUICE_EINVAL,
			"the transports' addresses take %zu bytes, but a record holds at most %d",
			payload_bytes, (int)RECORD_PAYLOAD_BYTES);
	if (b->size > 1 && !b->launcher)
		return fail(SLUICE_EINVAL, "this rank has left the job's launcher, so it cannot "
					   "exchange records any more");
	taking.records = calloc((size_t)b->size, sizeof(*taking.records));
	if (!taking.records)
		return fail(SLUICE_ENOMEM, "no memory for the records of %d ranks", b->size);
	fill_record(b, payload, payload_bytes, &own);
	n = record_encode(&own, (uint32_t)b->rank, bytes);
	if (b->launcher)
		err = b->launcher->ops->exchange(b->launcher, bytes, n, take_record, &taking);
	else
		err = take_record(&taking, 0, bytes, n);
	if (!err)
		err = record_compare(taking.records, b->size, b->rank);
	if (err) {
		bootstrap_leave(b);
		free(taking.records);
		return err;
	}
	*records_out = taking.records;
	return 0;
}
