/* SPDX-License-Identifier: BSD-3-Clause
 * Public regions: a window of equal size on every rank, which all peers may put to and get from.
 * This file opens and closes windows and waits for notifies; window_move.c moves bytes. */
#include "job/window_state.h"
#include "base/bytes.h"
#include "job/collective.h"
#include "job/connect.h"
#include "job/describe.h"
#include "job/living.h"
#include "job/peers.h"
#include "job/progress_token.h"
#include "job/window.h"
#include "job/window_move.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void count_notify(sluice_region *region, int peer)
{
	region->notified[peer]++;
}

static const struct region_client windows = { .notified = count_notify, .done = window_done };

static void window_free(sluice_region *region)
{
	if (!region)
		return;
	for (int p = 0; region->remotes && p < region->job->size; p++)
		if (region->remotes[p])
			region->job->peers[p].endpoint->transport->ops->remote_close(
				&region->remotes[p]);
	region_close(&region->window);
	region_close(&region->bounce);
	while (region->retired) {
		struct retired *r = region->retired;
		region->retired = r->next;
		region_close(&r->region);
		free(r);
	}
	free(region->remotes);
	free(region->notified);
	free(region->flying);
	free(region);
}

/* The row that each rank sends to each peer when it opens a region. */
enum { ROW_STATUS = REGION_DESCRIPTOR_BYTES, ROW_BYTES = ROW_STATUS + 4, ROW = ROW_BYTES + 8 };

/* Opens the peers' windows from the rows that they sent. */
static int open_remotes(sluice_region *region, const uint8_t *theirs)
{
	sluice_job *job = region->job;
	for (int p = 0; p < job->size; p++) {
		const uint8_t *row = theirs + (size_t)p * ROW;
		if (!round_has(job, p) || !job->peers[p].control)
			continue;
		if (get_le32(row + ROW_STATUS))
			return fail(SLUICE_EPEER, "sluice_region_open: %s failed: %s",
				    rank_text(job, p),
				    sluice_strerror((int)get_le32(row + ROW_STATUS)));
		if (get_le64(row + ROW_BYTES) != region->window->bytes)
			return fail(
				SLUICE_EPEER,
				"sluice_region_open: %s opens %llu bytes, but this rank opens %zu",
				rank_text(job, p), (unsigned long long)get_le64(row + ROW_BYTES),
				region->window->bytes);
	}
	for (int p = 0; p < job->size; p++) {
		if (!round_has(job, p) || !job->peers[p].control)
			continue;
		int rc = peers_open_region(job, p, theirs + (size_t)p * ROW, &region->remotes[p]);
		if (!rc && region->remotes[p]->bytes != region->window->bytes)
			rc = fail(SLUICE_EWIRE,
				  "sluice_region_open: %s described %llu bytes instead of %zu",
				  rank_text(job, p), (unsigned long long)region->remotes[p]->bytes,
				  region->window->bytes);
		if (rc == SLUICE_EPEER && job_can_lose(job, p))
			rc = 0; /* the peer has ended, and an event will report that */
		if (rc)
			return rc;
	}
	return 0;
}

/* Sends the descriptor of this rank's window, or the status of a failure, to every peer, and
 * receives theirs. After a failure, region may be NULL. */
static int exchange_windows(sluice_job *job, sluice_region *region, int status)
{
	uint8_t *mine = calloc((size_t)job->size, ROW), *theirs = calloc((size_t)job->size, ROW);
	int rc = mine && theirs ?
			 0 :
			 job_fail_here(job, 0, SLUICE_ENOMEM,
				       "sluice_region_open: no memory for %d peers", job->size);
	for (int p = 0; p < job->size && !rc; p++) {
		uint8_t *row = mine + (size_t)p * ROW;
		if (!status && job->peers[p].control)
			status = describe_to_peer(job, p, region->window, row);
		put_le32(row + ROW_STATUS, (uint32_t)status);
		put_le64(row + ROW_BYTES, status ? 0 : region->window->bytes);
	}
	if (!rc)
		rc = collective_run(job, COLLECTIVE_EXCHANGE, mine, ROW, ROW, theirs);
	if (!rc)
		rc = status ? status : open_remotes(region, theirs);
	free(mine);
	free(theirs);
	return rc;
}

static int meets_root(const void *root, int a, int b)
{
	return a == *(const int *)root || b == *(const int *)root;
}

/* Makes a region that is not connected yet. Returns 0 or SLUICE_E*. *out may then be NULL, or a
 * part of a region. */
static int window_make(sluice_job *job, uint32_t id, size_t bytes, sluice_region **out)
{
	sluice_region *region = *out = calloc(1, sizeof *region);
	if (!region)
		return fail(SLUICE_ENOMEM, "sluice_region_open: no memory");
	region->job = job;
	region->id = id;
	region->remotes = calloc((size_t)job->size, sizeof *region->remotes);
	region->notified = calloc((size_t)job->size, sizeof *region->notified);
	region->flying = calloc((size_t)job->size, sizeof *region->flying);
	if (!region->remotes || !region->notified || !region->flying)
		return fail(SLUICE_ENOMEM, "sluice_region_open: no memory for %d peers", job->size);
	int rc = region_open(bytes, REGION_READ | REGION_WRITE, "user", &region->window);
	return rc ? rc : region_open(BOUNCE_SLOTS * SLOT_BYTES, 0, "bounce", &region->bounce);
}

int window_open(sluice_job *job, size_t bytes, int root, sluice_region **region_out)
{
	sluice_region *region;
	int rc = job_check(job, "sluice_region_open");
	if (rc)
		return rc;
	if (!region_out || !bytes)
		return fail(SLUICE_EINVAL, "sluice_region_open: region_out is NULL or bytes is 0");
	uint32_t id = clients_free_region(&job->clients);
	if (id == JOB_REGIONS)
		return fail(SLUICE_EINVAL, "sluice_region_open: %d regions are open already",
			    JOB_REGIONS);
	rc = connect_pairs(job, root < 0 ? NULL : meets_root, &root, "the region");
	if (rc)
		return rc;
	error_hold(); /* held until collective_agree() shows which other ranks have this error */
	rc = window_make(job, id, bytes, &region);
	rc = exchange_windows(job, region, rc);
	progress_take(job);
	if (!rc)
		/* Must precede collective_agree(), because peers may put here after it. */
		clients_add_region(&job->clients, &windows, id, region);
	progress_release(job);
	/* No rank may close a window while another rank is still opening it. */
	rc = collective_agree(job, rc, "open the region");
	if (rc) {
		progress_take(job);
		clients_drop_region(&job->clients, id);
		progress_release(job);
		window_free(region);
		return rc;
	}
	*region_out = region;
	return 0;
}

int sluice_region_open(sluice_job *job, size_t bytes, sluice_region **region_out)
{
	struct error_scope scope;
	error_begin(&scope);
	return error_end(&scope, window_open(job, bytes, -1, region_out));
}

void sluice_region_close(sluice_region **region_pointer)
{
	sluice_region *region = region_pointer ? *region_pointer : NULL;
	if (!region)
		return;
	*region_pointer = NULL;
	sluice_job *job = region->job;
	if (job_in_child(job))
		return;
	struct error_scope scope;
	error_begin(&scope);
	int rc = sluice_region_flush(region),
	    closed = collective_run_about(job, COLLECTIVE_CLOSE,
					  (struct about){ ABOUT_REGIONS + region->id, 0 }, NULL, 0,
					  0, NULL);
	progress_take(job);
	clients_drop_region(&job->clients, region->id);
	progress_release(job);
	window_free(region);
	error_end(&scope, rc ? rc : closed);
}

void *sluice_region_base(const sluice_region *region)
{
	return region->window->base;
}

struct notify_wait {
	sluice_region *region;
	int rank;
	uint64_t count;
};

static int notified(void *context)
{
	struct notify_wait *w = context;
	return w->region->notified[w->rank] >= w->count ||
	       w->region->job->peers[w->rank].state != PEER_ALIVE;
}

static void describe_notify(void *context, char *text, size_t cap)
{
	struct notify_wait *w = context;
	snprintf(text, cap, "notify %llu of %s in a region (%llu so far)",
		 (unsigned long long)w->count, rank_text(w->region->job, w->rank),
		 (unsigned long long)w->region->notified[w->rank]);
}

int sluice_region_wait(sluice_region *region, int rank, uint64_t count)
{
	struct notify_wait w = { region, rank, count };
	int rc = window_holds(region, rank, 0, 0) ?
			 0 :
			 window_check(region, rank, 0, 0, "sluice_region_wait");
	if (!rc && rank == region->job->rank && count > region->notifies_own)
		rc = fail(SLUICE_EINVAL,
			  "sluice_region_wait: count=%llu, but rank %d is this rank and has "
			  "notified itself only %llu times: no other rank can do that, so the wait "
			  "would never end",
			  (unsigned long long)count, rank,
			  (unsigned long long)region->notifies_own);
	if (rc)
		return rc;
	progress_take(region->job);
	rc = progress_until(region->job, notified, describe_notify, &w);
	if (!rc && region->notified[rank] < count)
		rc = region->job->failure.code ?
			     job_failed(region->job) :
			     fail_quietly(
				     SLUICE_EPEER,
				     "sluice_region_wait: %s is gone after notify %llu of %llu",
				     rank_text(region->job, rank),
				     (unsigned long long)region->notified[rank],
				     (unsigned long long)count);
	progress_release(region->job);
	return rc;
}
