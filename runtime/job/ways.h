/* SPDX-License-Identifier: BSD-3-Clause
 * Trials of routes between ranks whose cards share no network (reach.h), and texts about the cards
 * that connect two ranks. Called by join.c. */
#ifndef RUNTIME_WAYS_H
#define RUNTIME_WAYS_H
#include "job/reach.h"
#include "job/state.h"

enum { TRIAL_BYTES = 1 + 4 * TRIAL_LISTED + TRIAL_TEXT };

/* The result of this rank's trials, for its second record. */
struct ways_tried {
	size_t bytes; /* 0: this rank made no trials */
	uint8_t entry[TRIAL_BYTES];
};
/* Makes the trials for which this rank is responsible (reach_trials()), over t, the transport with
 * networks. Takes at most five seconds, during which the peers need not poll. */
int ways_try(const sluice_job *job, const struct reach *reach, struct transport *t,
	     struct ways_tried *out);

/* Fails with a message that says why two ranks cannot reach each other, and what to do. */
int ways_unreachable(const sluice_job *job, const struct reach *reach, int a, int b);
/* On rank 0: logs which pairs of ranks are not connected by their first cards. There is one line
 * for each reach_way. */
void ways_log(const sluice_job *job, const struct reach *reach);
#endif
