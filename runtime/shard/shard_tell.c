/* SPDX-License-Identifier: BSD-3-Clause
 * What a shard says to its workers beside deltas: that a push is refused, that there is a
 * publication. Called by shard.c, shard_agree.c and shard_async.c. */
#include "shard/shard.h"

int shard_refuse(sluice_model *model, const struct shard *shard, int worker, const char *why)
{
	return job_blame(model->job, SLUICE_EWIRE, worker,
			 "the push of step %llu from %s to shard %u was refused: %s",
			 (unsigned long long)shard->version + 1, rank_text(model->job, worker),
			 shard->id, why);
}

int shard_overflowed(sluice_model *model, const struct shard *shard, uint32_t at)
{
	job_fail(model->job, SLUICE_ENUMERIC, model->job->rank,
		 "the change of shard %u at %s in step %llu is NaN or infinite at %s: its sums "
		 "overflowed; lower the learning rate or clip= the gradients",
		 shard->id, rank_text(model->job, model->job->rank),
		 (unsigned long long)shard->version + 1, model_place(model, shard->at->begin + at));
	return 0;
}

void shard_announce(sluice_model *model, struct shard *shard, size_t bytes)
{
	shard->published++;
	shard->next_rank = 0;
	shard->counted = 0;
	shard->waiting_since_ns = 0;
	for (int w = 0; w < model->job->workers; w++) {
		shard->inboxes[w].newest = (struct announced){ shard->published, shard->log.end,
							       (uint32_t)bytes };
		shard->inboxes[w].notice_due = job_living(model->job, w);
	}
}
