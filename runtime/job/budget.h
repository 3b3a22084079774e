/* SPDX-License-Identifier: BSD-3-Clause
 * The one time budget: how long each part of noticing a loss may take, all derived from lost_after.
 * Made and printed once by sluice_init(); nobody else computes a timer of its own. Transports get
 * lost_after (transport_config) and hold their retries and reconnects within it. */
#ifndef RUNTIME_BUDGET_H
#define RUNTIME_BUDGET_H
#include "base/env.h"

struct budget {
	uint64_t heartbeat_ns; /* between two of our heartbeats, and between two looks at theirs */
	uint64_t silent_ns;    /* heard nothing for so long: lost, before lost_after is over */
	uint64_t stalled_ns;   /* it beats, but made no progress for so long: lost */
	uint64_t lost_after_ns;
	uint64_t stopped_ns;    /* our own look came so late: it is we who were stopped, not they */
	uint64_t warn_after_ns; /* alive, but keeps us waiting: say so */
	uint64_t wait_timeout_ns; /* the longest wait */
};

void budget_make(const struct settings *settings, struct budget *out);
/* One line at level info. */
void budget_print(const struct budget *budget);
#endif
