/* SPDX-License-Identifier: BSD-3-Clause
 * See swap.h. A descriptor has memory for many keys, and most descriptors have one. Each is sent
 * without the zeros at its end, after two bytes with its length. */
#include "job/swap.h"
#include "base/bytes.h"
#include "base/error.h"
#include "job/collective.h"
#include "job/failure.h"
#include "job/living.h"
#include "job/progress_token.h"
#include "rdma/region.h"
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 2, DESCRIPTOR = REGION_DESCRIPTOR_BYTES };

static size_t length_of(const uint8_t *descriptor)
{
	size_t n = DESCRIPTOR;

	while (n && !descriptor[n - 1])
		n--;
	return n;
}

static size_t packed_bytes(const uint8_t *descriptors, size_t n)
{
	size_t bytes = n * LENGTH_BYTES;

	for (size_t i = 0; i < n; i++)
		bytes += length_of(descriptors + i * DESCRIPTOR);
	return bytes;
}

static void pack(const uint8_t *descriptors, size_t n, uint8_t *out)
{
	for (size_t i = 0; i < n; i++) {
		const size_t length = length_of(descriptors + i * DESCRIPTOR);

		put_le16(out, (uint16_t)length);
		memcpy(out + LENGTH_BYTES, descriptors + i * DESCRIPTOR, length);
		out += LENGTH_BYTES + length;
	}
}

/* Returns 0 if a peer's bytes are n descriptors. */
static int unpack(const uint8_t *in, size_t bytes, size_t n, uint8_t *descriptors)
{
	for (size_t i = 0; i < n; i++) {
		const size_t length = bytes < LENGTH_BYTES ? DESCRIPTOR + 1 : get_le16(in);

		if (length > DESCRIPTOR || length > bytes - LENGTH_BYTES)
			return -1;
		memcpy(descriptors + i * DESCRIPTOR, in + LENGTH_BYTES, length);
		in += LENGTH_BYTES + length;
		bytes -= LENGTH_BYTES + length;
	}
	return 0;
}

/* The memory of an exchange. Each peer has a row of the same length in `out` and `in`. */
struct swap {
	size_t n, most;           /* number of descriptors, and the longest possible row */
	uint8_t *out, *in, *part; /* part: what one round brings */
};

static int open_swap(struct swap *s, int size, size_t n)
{
	const size_t most = n * (LENGTH_BYTES + DESCRIPTOR), ranks = (size_t)size;

	*s = (struct swap){ .n = n,
			    .most = most,
			    .out = calloc(ranks, most),
			    .in = calloc(ranks, most),
			    .part = malloc(ranks * COLLECTIVE_BYTES) };
	return s->out && s->in && s->part ?
		       0 :
		       fail(SLUICE_ENOMEM, "no memory to exchange %zu regions with %d ranks", n,
			    size);
}

static void close_swap(struct swap *s)
{
	free(s->out);
	free(s->in);
	free(s->part);
}

/* Sends the rows, and receives as many bytes from each peer. */
static int swap_rows(sluice_job *job, const struct swap *s, size_t row)
{
	int rc = 0;

	for (size_t at = 0; at < row && !rc; at += COLLECTIVE_BYTES) {
		const size_t part = row - at < COLLECTIVE_BYTES ? row - at : COLLECTIVE_BYTES;

		rc = collective_run(job, COLLECTIVE_EXCHANGE, s->out + at, row, part, s->part);
		for (int p = 0; p < job->size && !rc; p++)
			memcpy(s->in + (size_t)p * row + at, s->part + (size_t)p * part, part);
	}
	return rc;
}

static int refuse(sluice_job *job, int rank)
{
	progress_take(job);
	const int rc = job_fail(job, SLUICE_EWIRE, rank, "%s sent descriptors that are not valid",
				rank_text(job, rank));
	progress_release(job);
	return rc;
}

/* Packs and exchanges the descriptors. Unpacks the rows of the ranks that are in the round. */
static int swap(sluice_job *job, const struct swap *s, size_t row, const uint8_t *mine,
		uint8_t *theirs)
{
	const size_t n = s->n;

	for (int p = 0; p < job->size; p++)
		pack(mine + (size_t)p * n * DESCRIPTOR, n, s->out + (size_t)p * row);
	int rc = swap_rows(job, s, row);
	for (int p = 0; p < job->size && !rc; p++)
		if (round_has(job, p) &&
		    unpack(s->in + (size_t)p * row, row, n, theirs + (size_t)p * n * DESCRIPTOR))
			rc = refuse(job, p);
	return rc;
}

int descriptors_swap(sluice_job *job, int rc, const char *what, const uint8_t *mine, size_t n,
		     uint8_t *theirs)
{
	struct swap s = { 0 };
	uint64_t row = 0;

	if (!rc)
		rc = open_swap(&s, job->size, n);
	for (int p = 0; p < job->size && !rc; p++) {
		const size_t bytes = packed_bytes(mine + (size_t)p * n * DESCRIPTOR, n);

		row = row < bytes ? bytes : row;
	}
	int culprit = 0;
	rc = collective_agree_most(job, rc, what, &row, &culprit);
	if (!rc)
		rc = row > s.most ? refuse(job, culprit) : swap(job, &s, row, mine, theirs);
	close_swap(&s);
	return rc;
}
