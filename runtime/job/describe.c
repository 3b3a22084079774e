/* SPDX-License-Identifier: BSD-3-Clause
 * See describe.h. */
#include "job/describe.h"
#include "job/progress_token.h"
#include "job/state.h"
#include "rdma/transport.h"
#include <stdio.h>

struct describing {
	sluice_job *job;
	int peer;
	const struct region *region;
	uint8_t *descriptor;
};

static int described(void *context)
{
	const struct describing *d = context;
	struct endpoint *e = d->job->peers[d->peer].endpoint;
	const int rc = e->transport->ops->describe(e, d->region, d->descriptor);
	return rc == SLUICE_EAGAIN ? 0 : rc ? rc : 1;
}

static void describe_describing(void *context, char *text, size_t cap)
{
	const struct describing *d = context;
	snprintf(text, cap, "the connection to %s", rank_text(d->job, d->peer));
}

int describe_held(sluice_job *job, int peer, const struct region *region, uint8_t *descriptor)
{
	struct describing d = { job, peer, region, descriptor };
	return progress_until(job, described, describe_describing, &d);
}

int describe_to_peer(sluice_job *job, int peer, const struct region *region, uint8_t *descriptor)
{
	progress_take(job);
	const int rc = describe_held(job, peer, region, descriptor);
	progress_release(job);
	return rc;
}
