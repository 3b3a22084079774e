/* SPDX-License-Identifier: BSD-3-Clause
 * See median.h. */
#include "shard/median.h"
#include "base/error.h"
#include "compress/sparse.h"
#include "job/living.h"
#include "shard/gather.h"
#include "shard/inbox.h"
#include "shard/state.h"
#include <stdlib.h>

struct median {
	float median;
	int read;      /* the headers of all lower ranks have been read in this step */
	float *norm;   /* of each worker's message in this step */
	float *sorted; /* scratch */
};

static int median_used(const struct shard *shard)
{
	return shard->rules.recipe->clip.median;
}

static int median_open(struct shard *shard)
{
	const size_t workers = (size_t)shard->job->workers;
	struct median *m;

	m = shard->median = calloc(1, sizeof(*m));
	if (m)
		m->norm = calloc(2 * workers, sizeof(*m->norm));
	if (!m || !m->norm)
		return fail(SLUICE_ENOMEM, "no memory for the norms of %zu pushes", workers);
	m->sorted = m->norm + workers;
	return 0;
}

static void median_close(struct shard *shard)
{
	if (!shard->median)
		return;
	free(shard->median->norm);
	free(shard->median);
	shard->median = NULL;
}

static void median_restart(struct shard *shard)
{
	shard->median->read = 0;
}

static int by_size(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* Reads the norm of a living worker's message. Returns 0 if the message is not here yet, or was
 * refused. */
static int read_norm(struct shard *shard, int worker)
{
	struct taken t;

	if (shard->job->peers[worker].state == PEER_LOST || !inbox_has(shard, worker) ||
	    inbox_take(shard, worker, &gather_intake, INBOX_HEADER, &t))
		return 0;
	shard->median->norm[worker] = t.m.norm;
	return 1;
}

int median_ready(struct shard *shard)
{
	struct median *m = shard->median;
	size_t n = 0;

	if (!m || gather_next(shard))
		return 1;
	for (; m->read < shard->job->workers; m->read++)
		if (job_living(shard->job, m->read) && !read_norm(shard, m->read))
			return 0;
	m->read = 0;
	for (int w = 0; w < shard->job->workers; w++) {
		if (!job_living(shard->job, w))
			continue;
		/* A worker that has nothing to send does not count. */
		m->sorted[n] = m->norm[w];
		n += m->norm[w] > 0;
	}
	qsort(m->sorted, n, sizeof(*m->sorted), by_size);
	/* If the number of norms is even, this is the lower of the two middle ones. */
	m->median = n ? m->sorted[(n - 1) / 2] : 0;
	return 1;
}

const char *median_clip(const struct shard *shard, int worker, const struct message *m,
			float *value)
{
	const struct median *of = shard->median;

	if (!of)
		return NULL;
	/* The header was read twice from memory to which the worker can write. */
	if (m->norm != of->norm[worker])
		return "its norm has changed while the norms of all workers were compared";
	for (uint32_t i = 0; m->norm == 0 && i < m->count; i++)
		if (value[i] < 0 || value[i] > 0)
			return "its norm is 0, but it has other values than 0";
	if (m->norm > of->median)
		sparse_scale(value, of->median / m->norm, 1, m->count);
	return NULL;
}

const struct shard_hooks median_hooks = {
	.used = median_used, .open = median_open, .close = median_close, .restart = median_restart
};
