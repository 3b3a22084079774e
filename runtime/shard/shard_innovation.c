/* SPDX-License-Identifier: BSD-3-Clause
 * The shard half of signal=innovation (worker/innovation.c): a shard's running sum is that of all
 * workers' references only as long as no upload is lost or comes twice. Called by shard.c. */
#include "shard/shard.h"
#include "base/log.h"
#include <string.h>

void innovation_take(sluice_model *model, struct shard *shard, int worker, const struct message *m)
{
	struct inbox *inbox = &shard->inboxes[worker];
	if (m->anchor == INNOVATION_REFRESH) {
		if (!shard->restarted++) /* all workers do so in the same step */
			memset(shard->running, 0, shard->at->span * sizeof *shard->running);
		inbox->uploads = 1;
		return;
	}
	if (m->anchor / 2 != inbox->uploads) {
		log_line(LOG_WARN, "runtime",
			 "step %llu: %s has made %u uploads to shard %u, which took %u: one was "
			 "lost or came twice, and all workers will send their gradients anew",
			 (unsigned long long)shard->version + 1, rank_text(model->job, worker),
			 m->anchor / 2, shard->id, inbox->uploads);
		shard->refresh = 1;
	}
	inbox->uploads = m->anchor / 2 + m->anchor % 2;
}

int innovation_lacks(const struct shard *shard)
{
	return shard->refresh || (shard->restarted && shard->restarted != shard->counted);
}
