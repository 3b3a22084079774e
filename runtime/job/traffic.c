/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_transports(): how many bytes were sent and received over which transport. */
#include "base/arguments.h"
#include "job/progress_token.h"
#include <stddef.h>
#include <string.h>

enum { LEAST_SIZE = offsetof(sluice_transport_stats, get_bytes) + sizeof(uint64_t) };

/* Sums the counters of a transport over its cards. */
static sluice_transport_stats stats_of(const sluice_job *job, const struct transport_ops *ops,
				       size_t size)
{
	sluice_transport_stats sum = { .size = size,
				       .name = ops->name,
				       .by_polling = (uint64_t)ops->moves_by_polling };
	for (int t = 0; t < job->transports.n; t++) {
		const struct transport_counters *c = &job->transports.list[t]->counters;
		if (job->transports.list[t]->ops != ops)
			continue;
		sum.puts += c->puts;
		sum.put_bytes += c->put_bytes;
		sum.notifies += c->notifies;
		sum.gets += c->gets;
		sum.get_bytes += c->get_bytes;
	}
	return sum;
}

int sluice_transports(sluice_job *job, sluice_transport_stats *stats, size_t n, size_t *n_out)
{
	int rc = job_check(job, "sluice_transports");
	if (rc)
		return rc;
	if (!n_out || (n && !stats))
		return fail(SLUICE_EINVAL, "sluice_transports: stats or n_out is NULL");
	/* The program may have been compiled with another header, in which the elements have
	 * another size. */
	size_t stride = n ? stats->size : 0;
	if (n && (rc = argument_size(stride, LEAST_SIZE, _Alignof(sluice_transport_stats),
				     "sluice_transport_stats", "sluice_transports")))
		return rc;
	progress_take(job);
	*n_out = 0;
	for (int t = 0; t < job->transports.n; t++) {
		if (job->transports.list[t]->card)
			continue; /* the sum for the first card includes this one */
		sluice_transport_stats one = stats_of(job, job->transports.list[t]->ops, stride);
		char *to = (char *)stats + *n_out * stride;
		if ((*n_out)++ >= n)
			continue;
		memset(to, 0, stride);
		memcpy(to, &one, stride < sizeof one ? stride : sizeof one);
	}
	progress_release(job);
	return 0;
}
