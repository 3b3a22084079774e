/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_broadcast(): sends the bytes of one worker to all workers. In the first round every worker
 * states the size and root that it expects, and the root adds as many bytes as its message has room
 * for. For the rest, all ranks open a window of two chunks during the call: the others get one
 * chunk from the root while the root fills the other. Every chunk ends with a round in which all
 * agree that it arrived, so that no rank waits for one that failed. */
#include "job/broadcast.h"
#include "base/bytes.h"
#include "base/device.h"
#include "job/collective.h"
#include "job/living.h"
#include "job/progress_token.h"
#include "job/window.h"
#include <stdlib.h>
#include <string.h>

/* The layout of a message: root u32, failed u32 (1 if this rank cannot read its bytes), size u64,
 * and the first bytes. */
enum {
	AT_ROOT = 0,
	AT_FAILED = 4,
	AT_SIZE = 8,
	AT_BYTES = 16,
	FIRST_BYTES = COLLECTIVE_BYTES - AT_BYTES
};
enum { CHUNK_BYTES = 4 << 20 };

struct broadcast {
	sluice_job *job;
	uint8_t *bytes; /* NULL on a dedicated server, which takes part without getting the bytes */
	uint64_t size;
	int root;
	const struct device_ops *ops; /* the device that holds `bytes`; NULL: they are in host
					 memory */
	int rc; /* this rank's error, which the next round reports to all others */
};

/* Copies bytes between host memory and the caller's memory, which may be on a GPU. */
static void copy_between(struct broadcast *b, void *to, const void *from, size_t n)
{
	if (b->rc || !n)
		return;
	if (!b->ops)
		memcpy(to, from, n);
	else if (b->ops->copy(to, from, n, NULL) || b->ops->wait(NULL))
		b->rc = device_fail(b->ops, "sluice_broadcast");
}

/* Compares the rows that the ranks sent. Each rank has all rows, so all find the same error. */
static int compare(const struct broadcast *b, const uint8_t *rows)
{
	const sluice_job *job = b->job;
	const int first = round_leader(job);
	const uint8_t *a = rows + (size_t)first * COLLECTIVE_BYTES;
	int rc = 0;

	error_hold();
	for (int r = first; r < job->workers && !rc; r++) {
		const uint8_t *row = rows + (size_t)r * COLLECTIVE_BYTES;

		if (!round_has(job, r))
			continue;
		if (get_le32(row + AT_FAILED))
			rc = fail(SLUICE_EPEER,
				  "sluice_broadcast: %s cannot take part, for the reason in its "
				  "own error; no rank has received the bytes",
				  rank_text(job, r));
		else if (memcmp(row, a, AT_BYTES) != 0)
			rc = fail(SLUICE_EINVAL,
				  "sluice_broadcast: %s takes part with %llu bytes of root %u, and "
				  "%s with %llu bytes of root %u: give all workers the same root "
				  "and size",
				  rank_text(job, first), (unsigned long long)get_le64(a + AT_SIZE),
				  get_le32(a + AT_ROOT), rank_text(job, r),
				  (unsigned long long)get_le64(row + AT_SIZE),
				  get_le32(row + AT_ROOT));
	}
	error_release(first == job->rank ? LOG_ERROR : LOG_INFO);
	return rc;
}

/* On a server: sets size and root from the workers' messages. */
static int learn_length(struct broadcast *b, const uint8_t *rows)
{
	const uint8_t *row = rows + (size_t)round_leader(b->job) * COLLECTIVE_BYTES;
	const uint32_t root = get_le32(row + AT_ROOT);

	if (root >= (uint32_t)b->job->workers)
		return fail(SLUICE_EWIRE,
			    "sluice_broadcast: %s names rank %u as root, which is not "
			    "a worker",
			    rank_text(b->job, round_leader(b->job)), root);
	b->root = (int)root;
	b->size = get_le64(row + AT_SIZE);
	return 0;
}

/* Exchanges sizes, roots and the first bytes. */
static int begin_broadcast(struct broadcast *b)
{
	sluice_job *job = b->job;
	const size_t first = b->size < FIRST_BYTES ? (size_t)b->size : FIRST_BYTES;
	uint8_t mine[COLLECTIVE_BYTES] = { 0 };
	uint8_t *rows = malloc((size_t)job->size * COLLECTIVE_BYTES);

	if (!rows && !b->rc)
		b->rc = fail(SLUICE_ENOMEM, "sluice_broadcast: no memory to gather from %d ranks",
			     job->size);
	if (b->bytes && job->rank == b->root)
		copy_between(b, mine + AT_BYTES, b->bytes, first);
	put_le32(mine + AT_ROOT, (uint32_t)b->root);
	put_le32(mine + AT_FAILED, b->rc != 0);
	put_le64(mine + AT_SIZE, b->size);
	int rc = collective_run(job, COLLECTIVE_BROADCAST, b->bytes ? mine : NULL, 0,
				COLLECTIVE_BYTES, rows);
	if (b->rc) {
		free(rows);
		return b->rc;
	}
	if (!rc)
		rc = compare(b, rows);
	if (!rc && !b->bytes)
		rc = learn_length(b, rows);
	if (!rc && !round_has(job, b->root))
		rc = fail(SLUICE_EPEER,
			  "sluice_broadcast: %s was lost before the others had its bytes",
			  rank_text(job, b->root));
	if (!rc && b->bytes && job->rank != b->root)
		copy_between(b, b->bytes, rows + (size_t)b->root * COLLECTIVE_BYTES + AT_BYTES,
			     first);
	free(rows);
	return rc;
}

static uint64_t chunk_at(const struct broadcast *b, uint64_t at)
{
	return b->size - at < CHUNK_BYTES ? b->size - at : CHUNK_BYTES;
}

/* Gets a chunk from the root's window. If the destination is on a GPU, this rank's window holds the
 * chunk first. */
static void get_chunk(struct broadcast *b, sluice_region *region, size_t offset, uint64_t at,
		      size_t n)
{
	uint8_t *host = b->ops ? (uint8_t *)sluice_region_base(region) + offset : b->bytes + at;

	b->rc = sluice_region_get(region, b->root, offset, host, n, 0);
	if (b->ops)
		copy_between(b, b->bytes + at, host, n);
}

/* Moves the bytes that did not fit into the messages through a window. */
static int move_rest(struct broadcast *b)
{
	sluice_job *job = b->job;
	const int is_root = job->rank == b->root;
	const uint64_t chunk = chunk_at(b, FIRST_BYTES);
	sluice_region *region = NULL;
	unsigned half = 0;
	int rc = window_open(job, (size_t)(2 * chunk), b->root, &region);

	if (rc)
		return rc;
	uint8_t *window = sluice_region_base(region);
	if (is_root)
		copy_between(b, window, b->bytes + FIRST_BYTES, (size_t)chunk);
	rc = collective_agree(job, b->rc, "broadcast");
	for (uint64_t at = FIRST_BYTES; at < b->size && !rc; half ^= 1) {
		const size_t n = (size_t)chunk_at(b, at), offset = half * (size_t)chunk;
		const uint64_t next = at + n;

		if (is_root && next < b->size)
			copy_between(b, window + (half ^ 1) * chunk, b->bytes + next,
				     (size_t)chunk_at(b, next));
		if (!is_root && b->bytes)
			get_chunk(b, region, offset, at, n);
		rc = collective_agree(job, b->rc, "receive the broadcast");
		at = next;
	}
	sluice_region_close(&region);
	return rc;
}

static int run_rounds(struct broadcast *b)
{
	int rc = begin_broadcast(b);

	if (rc || b->size <= FIRST_BYTES)
		return rc ? rc : b->rc;
	return move_rest(b);
}

/* Workers report the mistakes of their calls, which do not end the job. This server therefore
 * reports only failures of the job. */
int broadcast_serve(sluice_job *job)
{
	struct broadcast b = { .job = job };

	run_rounds(&b);
	progress_take(job);
	int rc = job_failed(job);
	progress_release(job);
	return rc;
}

static int run_broadcast(struct broadcast *b)
{
	int rc = job_check(b->job, "sluice_broadcast");

	if (rc)
		return rc;
	if (b->root < 0 || b->root >= b->job->workers)
		return fail(SLUICE_EINVAL,
			    "sluice_broadcast: root=%d is not a worker: there are %d "
			    "workers, numbered from 0",
			    b->root, b->job->workers);
	if (!b->bytes && b->size)
		return fail(SLUICE_EINVAL, "sluice_broadcast: bytes is NULL");
	uint8_t none;
	b->rc = b->bytes ? device_of(b->bytes, &b->ops) : 0;
	b->bytes = b->bytes ? b->bytes : &none;
	if (b->ops && !b->rc && b->ops->ready(NULL))
		b->rc = device_fail(b->ops, "sluice_broadcast");
	return run_rounds(b);
}

int sluice_broadcast(sluice_job *job, void *bytes, size_t n, int root)
{
	struct broadcast b = { .job = job, .bytes = bytes, .size = n, .root = root };
	struct error_scope scope;

	error_begin(&scope);
	return error_end(&scope, run_broadcast(&b));
}
