/* SPDX-License-Identifier: BSD-3-Clause
 * sluice-train: the reference training job. It parses the options and runs one rank (training.c) of
 * a job that a launcher started, or all ranks of a simulated one. */
#include "sluice.h"
#include "tools/train/options.h"
#include "tools/train/signals.h"
#include "tools/train/training.h"

#include <stdio.h>
#include <stdlib.h>

enum { EXIT_BAD_USAGE = 2 };

/* ---- simulated ranks ------------------------------------------------------- */

struct simulated {
	const struct options *options;
	struct rows rows;
};

static int simulated_rank(sluice_job *job, void *context)
{
	struct simulated *all = context;
	struct complaint complaint = { "" };

	return take_part(job, all->options, &all->rows, 0, &complaint);
}

static int simulate(const struct options *options, const sluice_job_attr *attr)
{
	static struct simulated all;
	int rc;

	all.options = options;
	rc = sluice_simulate(attr, options->simulate, simulated_rank, &all);
	data_free(&all.rows.train);
	data_free(&all.rows.test);
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options options;
	sluice_job *job;
	struct complaint complaint = { "" };
	enum options_action action;
	int bad_usage = options_parse(argc, argv, &options, &action, &complaint) != 0, rc;

	if (action != OPTIONS_TRAIN) {
		if (action == OPTIONS_HELP)
			options_print_help();
		else if (action == OPTIONS_METHODS)
			options_print_methods();
		else
			printf("sluice-train (Sluice) %s\n", sluice_version(NULL));
		return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	catch_signals();

	sluice_job_attr attr = { .size = sizeof(attr),
				 .servers = options.servers,
				 .on_failure = options.on_failure };
	/* servers = 0 in the attributes means the value of SLUICE_SERVERS. */
	if (options.no_servers && setenv("SLUICE_SERVERS", "0", 1)) {
		fputs("sluice-train: there is no memory for --servers 0\n", stderr);
		return EXIT_FAILURE;
	}
	if (!bad_usage && options.simulate)
		return simulate(&options, &attr);
	if (sluice_init(&attr, &job)) {
		if (bad_usage)
			fprintf(stderr, "sluice-train: %s\n", complaint.text);
		return bad_usage ? EXIT_BAD_USAGE : EXIT_FAILURE;
	}
	explain_on_signal(job);
	rc = take_part(job, &options, NULL, bad_usage, &complaint);
	explain_on_signal(NULL);
	sluice_finalize(&job);
	return !rc ? EXIT_SUCCESS : bad_usage ? EXIT_BAD_USAGE : EXIT_FAILURE;
}
