/* SPDX-License-Identifier: BSD-3-Clause
 * What the two halves of a public region share: window.c opens, closes and waits; window_move.c
 * puts and gets. */
#ifndef RUNTIME_WINDOW_H
#define RUNTIME_WINDOW_H
#include "base/error.h"
#include "job/job.h"

/* Bytes that are not in the own window go through a bounce buffer, a slot each. */
enum { BOUNCE_SLOTS = 16, SLOT_BYTES = 64 << 10 };

struct sluice_region {
	sluice_job *job;
	uint32_t id;
	struct region *window, *bounce;
	struct remote **remotes;     /* [rank] */
	uint64_t *notified;          /* [rank] */
	uint32_t *flying;            /* [rank] transfers whose EVENT_DONE is to come */
	uint32_t in_flight;          /* their sum */
	int slot_user[BOUNCE_SLOTS]; /* rank + 1; 0: free */
	uint32_t next_slot;
	int status;  /* of the first transfer that failed, until it is returned */
	int culprit; /* the rank of that */
};

static inline int window_has(const sluice_region *region, size_t offset, size_t bytes)
{
	return offset <= region->window->bytes && bytes <= region->window->bytes - offset;
}
/* Whether window_check() finds nothing wrong. */
static inline int window_holds(const sluice_region *region, int rank, size_t offset, size_t bytes)
{
	return region && !job_in_child(region->job) && rank >= 0 && rank < region->job->size &&
	       window_has(region, offset, bytes);
}
/* 0, or SLUICE_EINVAL: no such rank, or bytes at offset reach beyond the window. */
int window_check(const sluice_region *region, int rank, size_t offset, size_t bytes,
		 const char *function);
/* For struct region_client's done. */
void window_done(sluice_region *region, uint32_t index, int status);
#endif
