/* SPDX-License-Identifier: BSD-3-Clause
 * What a signal asks of a training job: SIGTERM and SIGUSR1 to stop after a step, SIGUSR2 whom it
 * waits for. */
#ifndef TRAIN_SIGNALS_H
#define TRAIN_SIGNALS_H
#include "sluice.h"

void catch_signals(void); /* SIGINT keeps its meaning */
/* Whose waits SIGUSR2 explains from now on; NULL: nobody's. */
void explain_on_signal(sluice_job *job);
int stop_was_asked(void);
#endif
