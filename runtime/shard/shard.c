/* SPDX-License-Identifier: BSD-3-Clause
 * The loop of the shard half: takes the workers' messages out of their inboxes in rank order,
 * reduces them as prefixes become complete, updates, publishes a delta and tells the workers.
 * Non-blocking: whoever polls runs shard_advance(), so shards move while their rank's application
 * computes. */
#include "shard/shard.h"
#include "base/log.h"
#include <stdio.h>
#include <string.h>

/* ---- gather ---------------------------------------------------------------- */

/* Takes the next worker's message out of its inbox, and adds it. 1 if it was there or is not
 * expected any more. */
static int take_push(sluice_model *model, struct shard *shard)
{
	const int worker = gather_next(shard);
	const struct scratch *got = shard->scratch;
	const char *why = NULL;
	struct taken t;

	if (!job_living(model->job, worker)) {
		gather_pass(shard);
		return 1;
	}
	if (model->job->peers[worker].state == PEER_LOST)
		return 0; /* about to be dropped */
	if (!inbox_has(shard, worker) ||
	    inbox_take(model, shard, worker, &gather_intake, INBOX_DECODE, &t))
		return 0;
	if (census_take_push(model, shard, inbox_next_seq(shard, worker),
			     t.slot + message_bytes(&t.m),
			     shard->at->slot_bytes - message_bytes(&t.m), &why)) {
		inbox_refuse(model, shard, worker, why);
		return 0;
	}
	if (!gather_same_rate(model, shard, worker, t.m.lr, !gather_counted(shard)) ||
	    !gather_count(model, shard, worker, &t.m))
		return 0;
	lazy_sum_take(model, shard, worker, &t.m);
	if (!phase_agrees(phase_now(model, shard->phase)))
		reduction_add(&shard->reduction, t.m.coding == CODING_DENSE ? NULL : got->index,
			      got->value, t.m.count);
	else if ((why = agreed_take(model, shard, worker, &t.m))) {
		inbox_refuse(model, shard, worker, why);
		return 0;
	}
	return 1;
}

/* ---- choose ---------------------------------------------------------------- */

/* Asks the recipe's selector for the way down; call is as reduction_change() left it. */
static size_t select_down(sluice_model *model, struct shard *shard, double density,
			  const struct select_call *call)
{
	const struct direction *down = &model->recipe.down;
	const struct selection_kind *kind = &selection_kinds[down->select];
	const struct span whole = { 0, shard->at->span, 0 };
	if (kind->adds && call->x && candidates_serve(&shard->candidates, call->k))
		return candidates_select(&shard->candidates, shard->scratch->selector, call);
	candidates_forget(&shard->candidates);
	if (kind->adds)
		return select_run(shard->scratch->selector, call, NULL);
	const struct choice choice = {
		.x = shard->residual ? shard->residual : shard->reduction.sum,
		.spans = kind->seeded ? &whole : shard->spans,
		.n_spans = kind->seeded ? 1 : shard->n_spans,
		.density = density,
		.k = call->k,
		.level = down->level,
		.scale = model->recipe.memory == MEMORY_NONE,
		/* Workers are below 2^23: a shard's numbers are no worker's. */
		.stream = { kind->seeded ? RANDOM_SUPPORT_DOWN : RANDOM_KEEP, shard->id | 1u << 23,
			    shard->version + 1, model->recipe.seed },
		.first_shard = shard->id,
		.selector = shard->scratch->selector,
		.hint = &shard->hint,
		.index = shard->scratch->index
	};
	size_t n = kind->run(&choice);
	sparse_gather(choice.x, shard->scratch->index, shard->scratch->value, (uint32_t)n);
	return n;
}

/* Of the sum's change and what earlier steps left: what is published, into shard->scratch->index
 * and value; or all of it (the return value is 1), whose values are *vector. */
static int choose(sluice_model *model, struct shard *shard, const float **vector, uint32_t *n_out)
{
	const struct recipe *recipe = &model->recipe;
	uint32_t span = shard->at->span;
	const struct step_rule rule = model_rule(model, shard->version + 1, shard->chosen);
	const double density = rule.down;
	int selects = !rule.all_down;
	int sparse = !rule.all_up;
	const struct update update = update_of_step(&model->update, shard->version + 1);
	const struct change change = { .update = &update,
				       .velocity = shard->velocity,
				       .params = shard->copy,
				       .divisor = gather_counted(shard),
				       .lr = gather_lr(shard),
				       .residual = shard->residual,
				       .candidates = &shard->candidates,
				       .selects = selects &&
						  selection_kinds[recipe->down.select].adds,
				       .everywhere = !sparse };
	uint32_t of = span - shard->at->exempt;
	struct select_call call = { .spans = shard->spans,
				    .n_spans = shard->n_spans,
				    .k = selection_kinds[recipe->down.select].global ?
						 census_down_count(model, shard, density, of) :
						 schedule_count(density, of),
				    .index = shard->scratch->index,
				    .value = shard->scratch->value,
				    .hint = &shard->hint };
	lazy_sum_join(shard);
	reduction_change(&shard->reduction, &change, &call);
	if (agreed_chooses(model, shard)) {
		*n_out = agreed_choose(model, shard, call.x);
		selects = 1;
	} else if (selects) {
		*n_out = (uint32_t)select_down(model, shard, density, &call);
	} else if (sparse) { /* the union of what the workers selected, and what earlier steps
			      * left */
		*n_out = (uint32_t)select_nonzero(call.x, span, shard->scratch->index,
						  shard->at->down_capacity);
		sparse_gather(call.x, shard->scratch->index, shard->scratch->value, *n_out);
	} else {
		*n_out = span;
	}
	*vector = call.x;
	return !selects && !sparse;
}

/* ---- publish --------------------------------------------------------------- */

/* All of an agreeing phase are in: the support goes out. */
static int publish_support(sluice_model *model, struct shard *shard)
{
	const uint32_t *index;
	struct message m = agreed_support(model, shard, &index);

	m.lr = gather_lr(shard);
	if (!publish(model, shard, READERS_EVERYBODY, &m, index, NULL))
		return 0;
	shard->phase += 2;
	return 1;
}

/* How much compression takes away of a delta (model/measure.h): of x, the scratch's value[0..n) is
 * published at index[] (NULL: everywhere). */
static void measure_published(const sluice_model *model, struct shard *shard, const float *x,
			      const uint32_t *index, uint32_t n)
{
	/* An unbiased selector has scaled x already: nothing is known of what it was. */
	if (!model->measure.on || selection_kinds[model->recipe.down.select].unbiased)
		return;
	shard->loss.all = loss_squares(x, shard->at->span);
	shard->loss.lost = shard->loss.all - loss_spared(x, index, shard->scratch->value, n);
}

/* The change becomes a delta: encoded into the log, taken out of the shard's residual as the
 * workers will decode it, added to the copy with the workers' own function. 0: it has overflowed,
 * and the job ends. */
static int publish_change(sluice_model *model, struct shard *shard)
{
	uint32_t n;
	const float *vector;
	int whole = choose(model, shard, &vector, &n);
	const struct scratch *chosen = shard->scratch;
	const uint32_t *index = whole ? NULL : chosen->index;
	struct message m = publish_delta(model, shard, n);
	m.anchor = (uint32_t)lazy_sum_lacks(shard, gather_counted(shard));
	const uint8_t *entry = publish(model, shard, READERS_EVERYBODY, &m, index,
				       whole ? vector : chosen->value);
	if (!entry)
		return 0;
	measure_published(model, shard, vector ? vector : shard->residual, index, n);
	if (shard->residual)
		sparse_subtract(shard->residual, index, chosen->value, n);
	candidates_published(&shard->candidates, chosen->value);
	if (index && m.coding == CODING_DENSE) {
		/* Dense was shorter: the workers add the zeros between too, and -0 + 0 is not
		 * -0. */
		const char *why;
		message_decode(&m, entry, NULL, chosen->value, &why);
		index = NULL;
		n = shard->at->span;
	}
	if (model->recipe.update == UPDATE_AVERAGE)
		sparse_set(shard->copy, index, chosen->value, n);
	else
		sparse_add(shard->copy, index, chosen->value, n);
	reduction_clear(&shard->reduction);
	lazy_sum_step_ends(shard);
	publish_step_ends(shard);
	return 1;
}

/* ---- the loop -------------------------------------------------------------- */

static int step(sluice_model *model, struct shard *shard)
{
	const int workers = model->job->workers;
	int moved = 0;

	while (gather_next(shard) < workers && take_push(model, shard))
		moved = 1;
	if (gather_next(shard) < workers || !gather_counted(shard))
		return moved;
	if (phase_now(model, shard->phase + 1)->payload == PAYLOAD_INDICES)
		return publish_support(model, shard);
	return publish_change(model, shard);
}

int shard_advance(sluice_model *model, struct shard *shard)
{
	int moved;

	if (model->job->failure.code)
		return 0;
	if (shard->async) {
		moved = shard_async_advance(model, shard);
	} else {
		const enum dense_outcome dense = shard_dense_advance(model, shard);
		moved = dense == DENSE_NONE ? step(model, shard) : dense == DENSE_PUBLISHED;
	}
	return inboxes_notify(model, shard) | moved;
}

/* ---- explain --------------------------------------------------------------- */

/* Names up to four workers whose push of this step has not come; returns how many there are. */
static int missing_workers(const sluice_job *job, const struct shard *shard, char *who, size_t cap)
{
	int missing = 0;
	*who = 0;
	for (int w = 0; w < job->workers; w++) {
		const int done = shard->async ? shard_async_excused(shard, w) :
						w < gather_next(shard);
		if (done || !job_living(job, w) || inbox_has(shard, w))
			continue;
		size_t used = strlen(who);
		if (missing < 5)
			snprintf(who + used, cap - used, "%s%s", used ? ", " : "",
				 missing < 4 ? rank_text(job, w) : "and more");
		missing++;
	}
	return missing;
}

void shards_describe_waits(const sluice_model *model, char *text, size_t cap)
{
	char who[256];
	*text = 0;
	for (uint32_t i = 0; i < model->n_own && !*text; i++) {
		const struct shard *shard = &model->shards[i];
		if (inboxes_waiting_since(shard) &&
		    missing_workers(model->job, shard, who, sizeof who))
			snprintf(text, cap,
				 "; shard %u here waits for the push of step %llu from %s",
				 shard->id, (unsigned long long)shard->version + 1, who);
	}
}

/* One line per shard that has waited since the first push of its step: for whom, since when. */
void shards_explain(sluice_model *model, uint64_t now, int always)
{
	sluice_job *job = model->job;
	uint64_t warn_after = job->budget.warn_after_ns;
	int lines = 0;
	for (uint32_t i = 0; i < model->n_own; i++) {
		struct shard *shard = &model->shards[i];
		uint64_t since = inboxes_waiting_since(shard);
		if (!since || (!always && now - since < warn_after))
			continue;
		char who[256];
		if (!missing_workers(job, shard, who, sizeof who))
			continue;
		char line[384];
		snprintf(line, sizeof line,
			 "shard %u waits %.1f s for the push of step %llu from %s", shard->id,
			 (double)(now - since) / 1e9, (unsigned long long)shard->version + 1, who);
		log_line(LOG_WARN, "runtime", "%s", line);
		if (!always && !lines)
			peers_report(job, line);
		lines++;
	}
}

int shards_wait(const sluice_model *model)
{
	for (uint32_t i = 0; i < model->n_own; i++)
		if (inboxes_waiting_since(&model->shards[i]))
			return 1;
	return 0;
}
