/* SPDX-License-Identifier: BSD-3-Clause
 * Public regions: a window of equal size on every rank that all peers may put to and get from. */
#include "base/error.h"
#include "job.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BOUNCE_BYTES = 1 << 20 };

struct sluice_region {
	sluice_job *job;
	uint32_t id;
	struct region *window, *bounce;
	struct remote **remotes;     /* [rank] */
	uint64_t *notified;          /* [rank] */
	int read_pending, read_status;
};

void window_notified(sluice_region *region, int peer)
{
	region->notified[peer]++;
}

void window_read_done(sluice_region *region, int status)
{
	region->read_pending = 0;
	region->read_status = status;
}

static void window_free(sluice_region *region)
{
	for (int p = 0; region->remotes && p < region->job->size; p++)
		if (region->remotes[p])
			region->job->peers[p].endpoint->transport->ops->remote_close(&region->remotes[p]);
	region_close(&region->window);
	region_close(&region->bounce);
	free(region->remotes);
	free(region->notified);
	free(region);
}

/* Tells every peer how to reach this rank's window and learns theirs. */
static int exchange(sluice_region *region)
{
	enum { ROW = REGION_DESCRIPTOR_BYTES };
	sluice_job *job = region->job;
	uint8_t *mine = calloc((size_t)job->size, ROW), *theirs = calloc((size_t)job->size, ROW);
	int rc = mine && theirs ? 0 : fail(SLUICE_ENOMEM, "sluice_region_open: no memory");
	for (int p = 0; p < job->size && !rc; p++) {
		struct endpoint *e = job->peers[p].endpoint;
		rc = e->transport->ops->describe(e, region->window, mine + (size_t)p * ROW);
	}
	if (!rc)
		rc = collective_run(job, COLLECTIVE_EXCHANGE, mine, ROW, ROW, theirs);
	for (int p = 0; p < job->size && !rc; p++) {
		struct endpoint *e = job->peers[p].endpoint;
		rc = e->transport->ops->remote_open(e, theirs + (size_t)p * ROW, &region->remotes[p]);
		if (!rc && region->remotes[p]->bytes != region->window->bytes)
			rc = fail(SLUICE_EPEER, "sluice_region_open: %s opened %llu bytes, this rank %zu",
				  rank_text(job, p), (unsigned long long)region->remotes[p]->bytes,
				  region->window->bytes);
	}
	free(mine);
	free(theirs);
	return rc;
}

int sluice_region_open(sluice_job *job, size_t bytes, sluice_region **region_out)
{
	int rc = job_check(job, "sluice_region_open");
	if (rc)
		return rc;
	if (!region_out || !bytes)
		return fail(SLUICE_EINVAL, "sluice_region_open: region_out is NULL or bytes is 0");
	uint32_t id = 0;
	while (id < JOB_REGIONS && job->regions[id])
		id++;
	if (id == JOB_REGIONS)
		return fail(SLUICE_EINVAL, "sluice_region_open: %d regions are open already", JOB_REGIONS);
	sluice_region *region = calloc(1, sizeof *region);
	if (!region)
		return fail(SLUICE_ENOMEM, "sluice_region_open: no memory");
	region->job = job;
	region->id = id;
	region->remotes = calloc((size_t)job->size, sizeof *region->remotes);
	region->notified = calloc((size_t)job->size, sizeof *region->notified);
	if (!region->remotes || !region->notified)
		rc = fail(SLUICE_ENOMEM, "sluice_region_open: no memory for %d peers", job->size);
	if (!rc)
		rc = region_open(bytes, REGION_READ | REGION_WRITE, "user", &region->window);
	if (!rc)
		rc = region_open(BOUNCE_BYTES, 0, "bounce", &region->bounce);
	rc = collective_agree(job, rc, "open the region");
	if (!rc) {
		progress_take(job);
		job->regions[id] = region; /* a peer that is done may notify at once */
		progress_release(job);
		rc = collective_agree(job, exchange(region), "open the region");
	}
	if (rc) {
		progress_take(job);
		if (job->regions[id] == region)
			job->regions[id] = NULL;
		progress_release(job);
		window_free(region);
		return rc;
	}
	*region_out = region;
	return 0;
}

void sluice_region_close(sluice_region **region_pointer)
{
	sluice_region *region = region_pointer ? *region_pointer : NULL;
	if (!region)
		return;
	*region_pointer = NULL;
	sluice_job *job = region->job;
	if (job->pid != getpid())
		return;
	collective_run(job, COLLECTIVE_CLOSE, NULL, 0, 0, NULL);
	progress_take(job);
	job->regions[region->id] = NULL;
	progress_release(job);
	window_free(region);
}

void *sluice_region_base(const sluice_region *region)
{
	return region->window->base;
}

/* ---- put, get, wait ----------------------------------------------------------------------- */

struct piece {
	sluice_region *region;
	int rank;
	struct transfer transfer;
	int posted, rc;
};

static int piece_done(void *context)
{
	struct piece *p = context;
	struct endpoint *e = p->region->job->peers[p->rank].endpoint;
	if (!p->posted) {
		p->region->read_pending = p->transfer.kind == TRANSFER_GET;
		p->rc = e->transport->ops->post(e, &p->transfer);
		if (p->rc == SLUICE_EAGAIN || p->rc == SLUICE_EPEER)
			return 0;
		p->posted = 1;
	}
	return p->rc || !p->region->read_pending;
}

static void describe_piece(void *context, char *text, size_t cap)
{
	struct piece *p = context;
	snprintf(text, cap, "a %s of %zu bytes at %s",
		 p->transfer.kind == TRANSFER_GET ? "get" : "put", p->transfer.bytes,
		 rank_text(p->region->job, p->rank));
}

static int check_range(const sluice_region *region, int rank, size_t offset, const void *data,
		       size_t bytes, const char *function)
{
	if (!region || (!data && bytes))
		return fail(SLUICE_EINVAL, "%s: region or data is NULL", function);
	int rc = job_check(region->job, function);
	if (rc)
		return rc;
	if (rank < 0 || rank >= region->job->size)
		return fail(SLUICE_EINVAL, "%s: rank %d of %d", function, rank, region->job->size);
	if (offset > region->window->bytes || bytes > region->window->bytes - offset)
		return fail(SLUICE_EINVAL, "%s: %zu bytes at %zu end outside the window of %zu", function,
			    bytes, offset, region->window->bytes);
	return 0;
}

static int run_piece(sluice_region *region, int rank, struct transfer transfer)
{
	struct piece p = { .region = region, .rank = rank, .transfer = transfer };
	int rc = progress_until(region->job, piece_done, describe_piece, &p);
	if (!rc && (p.rc || region->read_status))
		rc = fail(p.rc ? p.rc : region->read_status, "a transfer of %zu bytes with %s failed",
			  transfer.bytes, rank_text(region->job, rank));
	region->read_status = 0;
	return rc;
}

int sluice_region_put(sluice_region *region, int rank, size_t offset, const void *data, size_t bytes,
		      int notify)
{
	int rc = check_range(region, rank, offset, data, bytes, "sluice_region_put");
	if (rc)
		return rc;
	progress_take(region->job);
	size_t at = 0;
	do {
		size_t n = bytes - at < BOUNCE_BYTES ? bytes - at : BOUNCE_BYTES;
		int last = at + n == bytes;
		if (n)
			memcpy(region->bounce->base, (const uint8_t *)data + at, n);
		rc = run_piece(region, rank,
			       (struct transfer){ .kind = last && notify ? TRANSFER_PUT_NOTIFY : TRANSFER_PUT,
						  .remote = region->remotes[rank], .offset = offset + at,
						  .local_region = region->bounce,
						  .local = region->bounce->base, .bytes = n,
						  .imm = imm_make(IMM_REGION, 0, region->id) });
		at += n;
	} while (!rc && at < bytes);
	progress_release(region->job);
	return rc;
}

int sluice_region_get(sluice_region *region, int rank, size_t offset, void *data, size_t bytes)
{
	int rc = check_range(region, rank, offset, data, bytes, "sluice_region_get");
	if (rc)
		return rc;
	progress_take(region->job);
	for (size_t at = 0; at < bytes && !rc; at += BOUNCE_BYTES) {
		size_t n = bytes - at < BOUNCE_BYTES ? bytes - at : BOUNCE_BYTES;
		rc = run_piece(region, rank,
			       (struct transfer){ .kind = TRANSFER_GET, .remote = region->remotes[rank],
						  .offset = offset + at, .local_region = region->bounce,
						  .local = region->bounce->base, .bytes = n,
						  .cookie = cookie_make(COOKIE_REGION, region->id, 0) });
		if (!rc)
			memcpy((uint8_t *)data + at, region->bounce->base, n);
	}
	progress_release(region->job);
	return rc;
}

struct notify_wait {
	sluice_region *region;
	int rank;
	uint64_t count;
};

static int notified(void *context)
{
	struct notify_wait *w = context;
	return w->region->notified[w->rank] >= w->count;
}

static void describe_notify(void *context, char *text, size_t cap)
{
	struct notify_wait *w = context;
	snprintf(text, cap, "notify %llu of %s in a region (%llu so far)", (unsigned long long)w->count,
		 rank_text(w->region->job, w->rank), (unsigned long long)w->region->notified[w->rank]);
}

int sluice_region_wait(sluice_region *region, int rank, uint64_t count)
{
	struct notify_wait w = { region, rank, count };
	int rc = check_range(region, rank, 0, NULL, 0, "sluice_region_wait");
	if (rc)
		return rc;
	progress_take(region->job);
	rc = progress_until(region->job, notified, describe_notify, &w);
	progress_release(region->job);
	return rc;
}
