/* SPDX-License-Identifier: BSD-3-Clause
 * See budget.h. */
#include "job/budget.h"
#include "base/clock.h"
#include "base/log.h"

/* A peer is lost if 17 of 20 heartbeats do not arrive. The other three allow for a delay of one
 * beat in sending and one in reading, so that the peer is reported within lost_after. */
enum { BEATS = 20, BEATS_MISSED = 17, BEATS_DOUBTED = 4 };

/* A rank that beats but makes no progress must be given up before other ranks' waits time out and
 * end the job: with on_failure=continue it can still be dropped. A rank in a long step that holds
 * the progress token looks the same, so a rank is given up only after this many times
 * lost_after. */
enum { STALLED_AFTER = 4 };

void budget_make(const struct patience *patience, struct budget *out)
{
	uint64_t lost_after = (uint64_t)patience->lost_after_ms * NS_PER_MS;
	uint64_t link_lost_after = (uint64_t)patience->link_lost_after_ms * NS_PER_MS;
	uint64_t wait_timeout = (uint64_t)patience->wait_timeout_ms * NS_PER_MS;
	*out = (struct budget){
		.heartbeat_ns = lost_after / BEATS,
		.doubt_ns = lost_after / BEATS * BEATS_DOUBTED,
		.silent_ns = lost_after / BEATS * BEATS_MISSED,
		.link_lost_ns = link_lost_after > lost_after ? link_lost_after : lost_after,
		.stalled_ns = wait_timeout / 2 > STALLED_AFTER * lost_after ?
				      wait_timeout / 2 :
				      STALLED_AFTER * lost_after,
		.lost_after_ns = lost_after,
		.stopped_ns = lost_after / 2,
		.warn_after_ns = (uint64_t)patience->warn_after_ms * NS_PER_MS,
		.wait_timeout_ns = wait_timeout,
	};
}

void budget_print(const struct budget *b)
{
	log_line(LOG_INFO, "runtime",
		 "time budget: a rank that is silent for %.2f s is lost (SLUICE_LOST_AFTER), so "
		 "ranks send a heartbeat every %.2f s. Transports try to restore a link for %.2f s "
		 "(SLUICE_LINK_LOST_AFTER). A rank that was itself stopped for %.2f s blames no "
		 "peer. A rank that sends heartbeats but makes no progress for %.2f s is lost. A "
		 "wait logs a warning after %.2f s, and ends after %.2f s at most",
		 (double)b->lost_after_ns / 1e9, (double)b->heartbeat_ns / 1e9,
		 (double)b->link_lost_ns / 1e9, (double)b->stopped_ns / 1e9,
		 (double)b->stalled_ns / 1e9, (double)b->warn_after_ns / 1e9,
		 (double)b->wait_timeout_ns / 1e9);
}
