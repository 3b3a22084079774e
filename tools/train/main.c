/* SPDX-License-Identifier: BSD-3-Clause
 * sluice-train: the reference training job. Options and signals, then one rank's part (training.c) in a job
 * that a launcher started, or that of each rank of a simulated one. */
#include "sluice.h"
#include "tools/train/methods.h"
#include "tools/train/training.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { EXIT_BAD_USAGE = 2 };

/* ---- signals ------------------------------------------------------------------------------ */

static volatile sig_atomic_t stop_asked;
static sluice_job *volatile signalled_job;

static void on_signal(int number)
{
	if (number != SIGUSR2)
		stop_asked = number;
	else if (signalled_job)
		sluice_explain(signalled_job);
}

int stop_was_asked(void)
{
	return stop_asked != 0;
}

/* SIGINT keeps its meaning. */
static void catch_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	sigemptyset(&action.sa_mask);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
}

/* ---- simulated ranks ---------------------------------------------------------------------- */

struct simulated {
	const struct options *options;
	struct rows rows;
};

static int simulated_rank(sluice_job *job, void *context)
{
	struct simulated *all = context;
	struct complaint complaint = {""};

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
	struct complaint complaint = {""};
	enum options_action action;
	int bad_usage = options_parse(argc, argv, &options, &action, &complaint) != 0, rc;

	if (action != OPTIONS_TRAIN) {
		if (action == OPTIONS_HELP)
			options_print_help();
		else if (action == OPTIONS_METHODS)
			methods_print();
		else
			printf("sluice-train (Sluice) %s\n", sluice_version());
		return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	catch_signals();

	sluice_job_attr attr = {.size = sizeof(attr), .servers = options.servers,
				.on_failure = options.on_failure};
	if (!bad_usage && options.simulate)
		return simulate(&options, &attr);
	if (sluice_init(&attr, &job)) {
		if (bad_usage)
			fprintf(stderr, "sluice-train: %s\n", complaint.text);
		return bad_usage ? EXIT_BAD_USAGE : EXIT_FAILURE;
	}
	signalled_job = job;
	rc = take_part(job, &options, NULL, bad_usage, &complaint);
	signalled_job = NULL;
	sluice_finalize(&job);
	return !rc ? EXIT_SUCCESS : bad_usage ? EXIT_BAD_USAGE : EXIT_FAILURE;
}
