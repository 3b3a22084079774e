/* SPDX-License-Identifier: BSD-3-Clause
 * Handles signals to a training job: SIGTERM and SIGUSR1 stop it after a step, and SIGUSR2 logs its
 * waits. */
#ifndef TRAIN_SIGNALS_H
#define TRAIN_SIGNALS_H
#include "sluice.h"

void catch_signals(void); /* SIGINT keeps its meaning */
/* From now on, SIGUSR2 logs the waits of this job. With NULL, it does nothing. */
void explain_on_signal(sluice_job *job);
int stop_was_asked(void);
#endif
