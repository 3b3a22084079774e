/* SPDX-License-Identifier: BSD-3-Clause
 * The job's timers, all of which follow from the two times after which a process (lost_after) or a
 * link (link_lost_after) is lost. sluice_init() computes and prints them once, and no other file
 * computes its own timer. Transports get both numbers (transport_config). The time after which a
 * card repeats a packet is fixed (rdma/retry.h). */
#ifndef RUNTIME_BUDGET_H
#define RUNTIME_BUDGET_H
#include "base/env.h"

struct budget {
	/* The period of this rank's heartbeats, and the period at which it reads those of a
	 * peer. */
	uint64_t heartbeat_ns;
	/* After this much silence, this rank asks the peer's process over the control network. */
	uint64_t doubt_ns;
	/* After this much silence, the peer is lost. This is shorter than lost_after. */
	uint64_t silent_ns;
	uint64_t
		link_lost_ns; /* a living peer counts as lost if its connection is down this long */
	uint64_t stalled_ns;  /* a peer whose heart beats is lost if it makes no progress this
				 long */
	uint64_t lost_after_ns;
	/* If this rank reads a heartbeat this late, this rank itself was stopped, so the silence
	 * does not prove that its peers were. */
	uint64_t stopped_ns;
	uint64_t warn_after_ns;   /* after this long, a wait for a living peer logs a warning */
	uint64_t wait_timeout_ns; /* the longest wait of any call */
};

void budget_make(const struct patience *patience, struct budget *out);
/* Logs the times in one line at level info. */
void budget_print(const struct budget *budget);
#endif
