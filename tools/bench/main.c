/* SPDX-License-Identifier: BSD-3-Clause
 * sluice-bench: what the regions of Sluice move between two ranks, what a push and a pull cost,
 * selection alone, and (codec.c, reduce.c) how messages are written, and what a shard does with
 * them. All but the last two use the public API only, so that what is measured is what a program
 * gets. */
#include "tools/bench/codec.h"
#include "tools/bench/moves.h"
#include "tools/bench/options.h"
#include "tools/bench/reduce.h"
#include "tools/bench/select.h"
#include "tools/bench/step.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_BAD_USAGE = 2 };

/* Every rank reads the same command line; one of them complains. */
static int is_first_of_launcher(void)
{
	const char *rank = getenv("PMIX_RANK");

	return !rank || !strcmp(rank, "0");
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
			printf("sluice-bench (Sluice) %s\n", sluice_version());
		return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	if (options.test < TEST_SELECT && sluice_init(NULL, &job))
		return EXIT_FAILURE;
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
