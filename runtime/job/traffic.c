/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_transports(): how many bytes were sent and received over which transport. */
#include "base/arguments.h"
#include "job/progress_token.h"
#include <stddef.h>
#include <string.h>

enum { LEAST_SIZE = offsetof(sluice_transport_stats, get_bytes) + sizeof(uint64_t) };

int sluice_transports(sluice_job *job, sluice_transport_stats *stats, size_t n, size_t *n_out)
{
	int rc = job_check(job, "sluice_transports");
	if (rc)
		return rc;
	if (!n_out || (n && !stats))
		return fail(SLUICE_EINVAL, "sluice_transports: stats or n_out is NULL");
	/* A program that was compiled with another header has elements of another size. */
	size_t stride = n ? stats->size : 0;
	if (n && (rc = argument_size(stride, LEAST_SIZE, _Alignof(sluice_transport_stats),
				     "sluice_transport_stats", "sluice_transports")))
		return rc;
	progress_take(job);
	for (size_t t = 0; t < n && t < (size_t)job->n_transports; t++) {
		const struct transport_counters *c = &job->transports[t]->counters;
		sluice_transport_stats one = {
			.size = stride,
			.name = job->transports[t]->ops->name,
			.puts = c->puts,
			.put_bytes = c->put_bytes,
			.notifies = c->notifies,
			.gets = c->gets,
			.get_bytes = c->get_bytes,
			.by_polling = (uint64_t)job->transports[t]->ops->moves_by_polling,
		};
		memset((char *)stats + t * stride, 0, stride);
		memcpy((char *)stats + t * stride, &one, stride < sizeof one ? stride : sizeof one);
	}
	*n_out = (size_t)job->n_transports;
	progress_release(job);
	return 0;
}
