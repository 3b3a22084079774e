/* SPDX-License-Identifier: BSD-3-Clause
 * State of a public region, shared by window.c, which opens, closes and waits, and window_move.c,
 * which puts and gets. */
#ifndef RUNTIME_WINDOW_STATE_H
#define RUNTIME_WINDOW_STATE_H
#include "base/error.h"
#include "job/state.h"
#include "sluice_region.h"

/* Bytes outside of this rank's own window pass through a slot of a bounce buffer. */
enum { BOUNCE_SLOTS = 16, SLOT_BYTES = 64 << 10 };

struct sluice_region {
	sluice_job *job;
	uint32_t id;
	struct region *window, *bounce;
	struct retired *retired;     /* replaced bounce buffers */
	int spoilt;                  /* 1 if a late get may still write into this bounce buffer */
	struct remote **remotes;     /* [rank] */
	uint64_t *notified;          /* [rank] */
	uint64_t notifies_own;       /* number of puts by which this rank notified itself */
	uint32_t *flying;            /* [rank]: transfers whose EVENT_DONE has not arrived */
	uint32_t in_flight;          /* sum of flying[] */
	int slot_user[BOUNCE_SLOTS]; /* 1 + the rank for which the slot is in use; 0: free */
	uint32_t next_slot;
	int status;  /* error of the first failed transfer, kept until a call returns it */
	int culprit; /* the rank of that transfer */
};

/* A bounce buffer that was replaced. */
struct retired {
	struct retired *next;
	struct region *region;
};

static inline int window_has(const sluice_region *region, size_t offset, size_t bytes)
{
	return offset <= region->window->bytes && bytes <= region->window->bytes - offset;
}
/* Returns 1 if window_check() would succeed. */
static inline int window_holds(const sluice_region *region, int rank, size_t offset, size_t bytes)
{
	return region && !job_in_child(region->job) && rank >= 0 && rank < region->job->size &&
	       window_has(region, offset, bytes);
}
#endif
