/* SPDX-License-Identifier: BSD-3-Clause
 * See signals.h. */
#include "tools/train/signals.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t stop_asked;
static sluice_job *volatile signalled_job;

static void on_signal(int number)
{
	if (number != SIGUSR2)
		stop_asked = number;
	else if (signalled_job)
		sluice_log_waits(signalled_job);
}

int stop_was_asked(void)
{
	return stop_asked != 0;
}

void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	sigemptyset(&action.sa_mask);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
}

void explain_on_signal(sluice_job *job)
{
	signalled_job = job;
}
