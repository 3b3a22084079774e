/* SPDX-License-Identifier: BSD-3-Clause
 * See gather.h. Called by shard.c and shard_dense.c; publish.c reads what was gathered. */
#include "shard/gather.h"
#include "job/peers.h"
#include "shard/agreed.h"
#include "shard/inbox.h"
#include "shard/state.h"

/* Epochs begin at 1. Each new epoch drops at least one worker, and one worker always remains. So
 * there are at most as many epochs as workers. */
static int epoch_exists(const sluice_job *job, uint32_t epoch)
{
	return epoch >= 1 && epoch <= (uint32_t)job->workers;
}

static const char *gather_judge(const struct shard *shard, int worker, const struct message *m)
{
	(void)worker;
	if (m->chosen > rulebook_choices(shard->rules.recipe))
		return "its choice is not one that this recipe offers";
	if (!epoch_exists(shard->job, m->epoch))
		return "it carries an epoch that the job was never in";
	if (m->count && rulebook_stands(shard->rules.recipe, m->lr))
		return "it has coordinates, although the learning rate of the step is 0";
	if (m->have_version != shard->published)
		return "the worker holds another version than this shard published";
	return NULL;
}

static void gather_expect(const struct shard *shard, int worker, const struct message *m,
			  struct message_expect *want)
{
	const struct shard_layout *at = shard->at;
	const struct phase *phase = schedule_phase(shard->rules.schedule, shard->phase);
	const int indices = phase->payload == PAYLOAD_INDICES;

	(void)worker;
	(void)m;
	want->kind = indices ? MESSAGE_SUPPORT : MESSAGE_PUSH;
	want->step = shard->version + 1;
	want->phase = shard->phase;
	want->span = phase->payload == PAYLOAD_SKETCH ? at->sketch_cells : at->span;
	want->count_max = indices ? at->support_capacity : at->room;
	if (phase->payload == PAYLOAD_AGREED) {
		want->agreed = 1;
		want->count_max = agreed_count(shard);
	}
}

const struct intake gather_intake = { gather_expect, gather_judge };

void gather_restart(struct shard *shard)
{
	shard->gathered = (struct gathered){ .next_rank = 0 };
}

int gather_next(const struct shard *shard)
{
	return shard->gathered.next_rank;
}

void gather_pass(struct shard *shard)
{
	shard->gathered.next_rank++;
}

int gather_same_rate(struct shard *shard, int worker, float lr, int first)
{
	struct gathered *g = &shard->gathered;

	if (first) {
		g->lr = lr;
		g->lr_rank = worker;
	}
	if (float_bits(g->lr) == float_bits(lr))
		return 1;
	job_fail(shard->job, SLUICE_EINVAL, worker,
		 "learning rates differ at step %llu: %s pushed %.9g, %s pushed %.9g; call "
		 "sluice_set(model, SLUICE_LR, x) with the same value on all workers",
		 (unsigned long long)shard->version + 1, rank_text(shard->job, g->lr_rank),
		 (double)g->lr, rank_text(shard->job, worker), (double)lr);
	return 0;
}

void gather_count_staleness(const struct shard *shard, uint64_t behind)
{
	sluice_model_stats *s = shard->model.stats;
	const uint64_t last = sizeof(s->staleness) / sizeof(*s->staleness) - 1;

	s->staleness[behind < last ? behind : last]++;
	s->staleness_most = behind > s->staleness_most ? behind : s->staleness_most;
}

int gather_count(struct shard *shard, int worker, const struct message *m)
{
	struct gathered *g = &shard->gathered;

	if (inbox_accept(shard, worker))
		return 0;
	gather_count_staleness(shard, shard->published - m->have_version);
	g->raised |= m->raised;
	/* With guard=raise, any worker can raise the densities of all. With auto, the first worker
	 * decides. */
	if (!g->counted++ || (shard->rules.schedule->raises && m->chosen > g->chosen_next))
		g->chosen_next = m->chosen;
	g->next_rank = worker + 1;
	return 1;
}

void gather_phase_ends(struct shard *shard)
{
	shard->gathered.next_rank = 0;
	shard->gathered.counted = 0;
}

void gather_step_ends(struct shard *shard)
{
	shard->chosen = shard->gathered.chosen_next;
	shard->gathered.raised = 0;
}

const struct gathered *gather_view(const struct shard *shard)
{
	return &shard->gathered;
}

uint32_t gather_counted(const struct shard *shard)
{
	return shard->gathered.counted;
}

float gather_lr(const struct shard *shard)
{
	return shard->gathered.lr;
}
