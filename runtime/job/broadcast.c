/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_broadcast(): the bytes of one worker on all workers. In the first round every worker says
 * how many bytes it expects from whom, and the root adds as many bytes as its mail has room for.
 * If there are more, all ranks open a window of two chunks for the time of the call: the others get
 * one chunk from the root while the root fills the other one. Every chunk ends with a round in
 * which all agree that it arrived, so that no rank is left waiting for one that failed. */
#include "job/broadcast.h"
#include "base/bytes.h"
#include "base/device.h"
#include "job/job.h"
#include <stdlib.h>
#include <string.h>

/* The mail: root u32, zeros u32, size u64, then the first bytes. */
enum { AT_ROOT = 0, AT_SIZE = 8, AT_BYTES = 16, FIRST_BYTES = MAIL_BYTES - AT_BYTES };
enum { CHUNK_BYTES = 4 << 20 };

struct broadcast {
	sluice_job *job;
	uint8_t *bytes; /* NULL on a server that serves, which only takes part in the rounds */
	uint64_t size;
	int root;
};

/* All ranks read the same rows and find the same difference. */
static int compare(const struct broadcast *b, const uint8_t *rows)
{
	const sluice_job *job = b->job;
	const int first = round_leader(job);
	const uint8_t *a = rows + (size_t)first * MAIL_BYTES;
	int rc = 0;

	error_hold();
	for (int r = first + 1; r < job->workers && !rc; r++) {
		const uint8_t *row = rows + (size_t)r * MAIL_BYTES;

		if (!round_has(job, r) || !memcmp(row, a, AT_BYTES))
			continue;
		rc = fail(SLUICE_EINVAL,
			  "sluice_broadcast: %s takes part with %llu bytes of root %u, and %s with "
			  "%llu bytes of root %u: give all workers the same root and size",
			  rank_text(job, first), (unsigned long long)get_le64(a + AT_SIZE),
			  get_le32(a + AT_ROOT), rank_text(job, r),
			  (unsigned long long)get_le64(row + AT_SIZE), get_le32(row + AT_ROOT));
	}
	error_release(first == job->rank ? LOG_ERROR : LOG_INFO);
	return rc;
}

/* Exchanges sizes and the first bytes. A server learns size and root here. */
static int begin(struct broadcast *b)
{
	sluice_job *job = b->job;
	const size_t first = b->size < FIRST_BYTES ? (size_t)b->size : FIRST_BYTES;
	uint8_t mine[MAIL_BYTES] = { 0 };
	uint8_t *rows = malloc((size_t)job->size * MAIL_BYTES);

	if (!rows)
		return fail(SLUICE_ENOMEM, "sluice_broadcast: no memory for %d rows", job->size);
	put_le32(mine + AT_ROOT, (uint32_t)b->root);
	put_le64(mine + AT_SIZE, b->size);
	if (b->bytes && job->rank == b->root)
		memcpy(mine + AT_BYTES, b->bytes, first);
	int rc = collective_run(job, COLLECTIVE_BROADCAST, b->bytes ? mine : NULL, 0, MAIL_BYTES,
				rows);
	if (!rc)
		rc = compare(b, rows);
	if (!rc && !b->bytes) {
		const uint8_t *row = rows + (size_t)round_leader(job) * MAIL_BYTES;
		b->root = (int)get_le32(row + AT_ROOT);
		b->size = get_le64(row + AT_SIZE);
	}
	if (!rc && (b->root < 0 || b->root >= job->workers || !round_has(job, b->root)))
		rc = fail(SLUICE_EPEER,
			  "sluice_broadcast: %s was lost before the others had its bytes",
			  rank_text(job, b->root));
	if (!rc && b->bytes && job->rank != b->root)
		memcpy(b->bytes, rows + (size_t)b->root * MAIL_BYTES + AT_BYTES, first);
	free(rows);
	return rc;
}

static uint64_t chunk_at(const struct broadcast *b, uint64_t at)
{
	return b->size - at < CHUNK_BYTES ? b->size - at : CHUNK_BYTES;
}

/* Moves what did not fit into the mails through a window. */
static int move_rest(struct broadcast *b)
{
	sluice_job *job = b->job;
	const int is_root = job->rank == b->root;
	const uint64_t chunk = chunk_at(b, FIRST_BYTES);
	sluice_region *region = NULL;
	unsigned half = 0;
	int rc = sluice_region_open(job, (size_t)(2 * chunk), &region);

	if (rc)
		return rc;
	uint8_t *window = sluice_region_base(region);
	if (is_root)
		memcpy(window, b->bytes + FIRST_BYTES, (size_t)chunk);
	rc = collective_agree(job, 0, "broadcast");
	for (uint64_t at = FIRST_BYTES; at < b->size && !rc; half ^= 1) {
		const size_t n = (size_t)chunk_at(b, at), offset = half * (size_t)chunk;
		const uint64_t next = at + n;

		if (is_root && next < b->size)
			memcpy(window + (half ^ 1) * chunk, b->bytes + next,
			       (size_t)chunk_at(b, next));
		if (!is_root && b->bytes)
			rc = sluice_region_get(region, b->root, offset, b->bytes + at, n);
		rc = collective_agree(job, rc, "receive the broadcast");
		at = next;
	}
	sluice_region_close(&region);
	return rc;
}

int broadcast_serve(sluice_job *job)
{
	struct broadcast b = { .job = job };
	int rc = begin(&b);

	return rc || b.size <= FIRST_BYTES ? rc : move_rest(&b);
}

static int run(struct broadcast *b)
{
	int rc = job_check(b->job, "sluice_broadcast");

	if (rc)
		return rc;
	if (b->root < 0 || b->root >= b->job->workers)
		return fail(SLUICE_EINVAL,
			    "sluice_broadcast: root=%d is no worker: there are %d, numbered from 0",
			    b->root, b->job->workers);
	if (!b->bytes && b->size)
		return fail(SLUICE_EINVAL, "sluice_broadcast: bytes is NULL");
	uint8_t none;
	b->bytes = b->bytes ? b->bytes : &none;
	rc = begin(b);
	return rc || b->size <= FIRST_BYTES ? rc : move_rest(b);
}

/* Bytes of a GPU travel through host memory. */
static int run_staged(struct broadcast *b, const struct device_ops *ops)
{
	uint8_t *there = b->bytes;
	int rc = 0;

	b->bytes = malloc(b->size ? b->size : 1);
	if (!b->bytes)
		return fail(SLUICE_ENOMEM, "sluice_broadcast: no memory for a copy of %llu bytes",
			    (unsigned long long)b->size);
	const int is_root = b->job && b->job->rank == b->root;
	if (is_root &&
	    (ops->ready(NULL) || ops->copy(b->bytes, there, b->size, NULL) || ops->wait(NULL)))
		rc = device_fail(ops, "sluice_broadcast");
	if (!rc)
		rc = run(b);
	if (!rc && !is_root && (ops->copy(there, b->bytes, b->size, NULL) || ops->wait(NULL)))
		rc = device_fail(ops, "sluice_broadcast");
	free(b->bytes);
	return rc;
}

int sluice_broadcast(sluice_job *job, void *bytes, size_t n, int root)
{
	struct broadcast b = { .job = job, .bytes = bytes, .size = n, .root = root };
	const struct device_ops *ops = NULL;
	struct error_scope scope;

	error_begin(&scope);
	int rc = bytes ? device_of(bytes, &ops) : 0;
	if (!rc)
		rc = ops ? run_staged(&b, ops) : run(&b);
	return error_end(&scope, rc);
}
