/* SPDX-License-Identifier: BSD-3-Clause
 * sluice-bench measures transfers between two ranks through regions, a push and a pull, selection
 * alone, the encoding of messages (codec.c), and their handling by a shard (reduce.c). All but the
 * last two use only the public API, so they measure what a program gets. */
#include "tools/bench/codec.h"
#include "tools/bench/moves.h"
#include "tools/bench/options.h"
#include "tools/bench/reduce.h"
#include "tools/bench/select.h"
#include "tools/bench/step.h"
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_BAD_USAGE = 2, BOOT_ID_BYTES = 36 };

/* The location of a rank: its machine (two nodes of a private Slurm may be one machine), and the
 * processors on which it may run. */
struct place {
	char machine[BOOT_ID_BYTES];
	cpu_set_t processors;
};
_Static_assert(sizeof(struct place) <= SLUICE_GATHER_MAX, "a place fits into one gather");

/* Every rank reads the same command line, so only one of them prints an error. */
static int is_first_of_launcher(void)
{
	const char *rank = getenv("PMIX_RANK");

	return !rank || !strcmp(rank, "0");
}

static void place_of_me(struct place *mine)
{
	int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	*mine = (struct place){ 0 };
	if (file >= 0 && read(file, mine->machine, BOOT_ID_BYTES) != BOOT_ID_BYTES)
		memset(mine->machine, 0, BOOT_ID_BYTES);
	if (file >= 0)
		close(file);
	if (sched_getaffinity(0, sizeof(mine->processors), &mine->processors))
		CPU_ZERO(&mine->processors); /* unknown: there are more than 1024 */
}

/* Compares machines. Compares nodes instead for dedicated servers, which report no place, and if a
 * machine hides its boot id. */
static int on_machine_of(sluice_job *job, const struct place *places, int first, int rank)
{
	if (rank >= sluice_workers(job) || !*places[rank].machine || !*places[first].machine)
		return !strcmp(sluice_node(job, rank), sluice_node(job, first));
	return !memcmp(places[rank].machine, places[first].machine, BOOT_ID_BYTES);
}

static void warn_of_machine(sluice_job *job, const struct place *places, int first)
{
	cpu_set_t all = places[first].processors;
	int ranks = 0;

	for (int r = 0; r < sluice_size(job); r++) {
		int server = r >= sluice_workers(job);

		if (!on_machine_of(job, places, first, r))
			continue;
		if (!server && r < first)
			return; /* a lower rank has handled this machine */
		ranks++;
		if (!server)
			CPU_OR(&all, &all, &places[r].processors);
	}
	if (CPU_COUNT(&all) && ranks > CPU_COUNT(&all))
		fprintf(stderr,
			"sluice-bench: warning: %d ranks share %d processor%s on the machine of "
			"rank %d (%s): they take turns, and the times include that; start fewer "
			"ranks there, or give them more processors (srun --cpus-per-task)\n",
			ranks, CPU_COUNT(&all), CPU_COUNT(&all) == 1 ? "" : "s", first,
			sluice_node(job, first));
}

/* Collective over all ranks. Rank 0 prints the warning. */
static int warn_of_shared_processors(sluice_job *job)
{
	struct place mine, *places = calloc((size_t)sluice_workers(job), sizeof(*places));
	int rc;

	if (!places) {
		fprintf(stderr, "sluice-bench: no memory for the places of %d workers\n",
			sluice_workers(job));
		return -1;
	}
	place_of_me(&mine);
	rc = sluice_gather(job, &mine, sizeof(mine), places);
	for (int r = 0; r < sluice_workers(job) && !rc && sluice_rank(job) == 0; r++)
		warn_of_machine(job, places, r);
	free(places);
	return rc;
}

int main(int argc, char **argv)
{
	struct options options = { 0 };
	char complaint[COMPLAINT_BYTES] = "";
	sluice_job *job = NULL;
	int rc;

	if (options_parse(argc, argv, &options, complaint)) {
		if (is_first_of_launcher())
			fprintf(stderr, "sluice-bench: %s\n", complaint);
		return EXIT_BAD_USAGE;
	}
	if (options.action != ACTION_RUN) {
		if (options.action == ACTION_HELP)
			options_print_help();
		else
			printf("sluice-bench (Sluice) %s\n", sluice_version(NULL));
		return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	if (options.test < TEST_SELECT && sluice_init(NULL, &job))
		return EXIT_FAILURE;
	if (job && warn_of_shared_processors(job)) {
		sluice_finalize(&job);
		return EXIT_FAILURE;
	}
	rc = options.test == TEST_REDUCE ? bench_reduce(&options) :
	     options.test == TEST_CODEC  ? bench_codec(&options) :
	     options.test == TEST_SELECT ? bench_select(&options) :
	     options.test == TEST_STEP   ? step_run(job, &options) :
					   moves_run(job, &options);
	sluice_finalize(&job);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "sluice-bench: cannot write the results to stdout\n");
		rc = -1;
	}
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
