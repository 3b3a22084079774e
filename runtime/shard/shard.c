/* SPDX-License-Identifier: BSD-3-Clause
 * The shard half: gathers the workers' messages, reduces them in rank order as prefixes become
 * complete, updates, publishes a delta and tells the workers. Non-blocking: whoever polls runs
 * shard_advance(), so shards move while their rank's application computes. Knows workers only by
 * their messages.
 *
 * A push counts exactly once, if at the moment it is taken its sender is a member of the epoch that
 * this rank is in (members.c) and its sequence number, step and version are the very next. The
 * epoch that it carries is the one its sender knew: older (sent before it learnt of a loss) or
 * newer (it learnt first) than the shard's, and no reason to refuse it; a member was a member all
 * along. A push of a lost worker, of whatever epoch, is refused and counted (refused_messages)
 * unless it was added before the loss was adopted: then it stays in the sum. The step closes when
 * every member's push is in, and its divisor is the number of pushes in the sum. */
#include "shard/shard.h"
#include "model/snapshot.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- gather ---------------------------------------------------------------- */

int shard_same_rate(sluice_model *model, struct shard *shard, int worker, float lr, int first)
{
	if (first) {
		shard->lr = lr;
		shard->lr_rank = worker;
	}
	if (float_bits(shard->lr) == float_bits(lr))
		return 1;
	job_fail(model->job, SLUICE_EINVAL, worker,
		 "learning rates differ at step %llu: %s pushed %.9g, %s pushed %.9g; call "
		 "sluice_set_lr with the same value on all workers",
		 (unsigned long long)shard->version + 1, rank_text(model->job, shard->lr_rank),
		 (double)shard->lr, rank_text(model->job, worker), (double)lr);
	return 0;
}

/* Epochs begin at 1, each drops a worker, and one is left. */
static int epoch_exists(const sluice_job *job, uint32_t epoch)
{
	return epoch >= 1 && epoch <= (uint32_t)job->workers;
}

const char *shard_unwelcome(const sluice_model *model, const struct shard *shard,
			    const struct message *m)
{
	if (m->chosen > (model->recipe.automatic ? WORTH_CANDIDATES : 0))
		return "it chooses what there is not";
	if (!epoch_exists(model->job, m->epoch))
		return "it carries an epoch that the job was never in";
	if (m->have_version != shard->published)
		return "the worker holds another version than this shard published";
	return NULL;
}

struct message_expect shard_expect(const sluice_model *model, const struct shard *shard, int worker)
{
	const struct shard_layout *at = shard->at;
	const struct phase *phase = phase_now(model, shard->phase);
	struct message_expect want = {
		.kind = phase->payload == PAYLOAD_INDICES ? MESSAGE_SUPPORT : MESSAGE_PUSH,
		.rank = (uint64_t)worker,
		.epoch = model_epoch(model),
		.model = model->id,
		.shard = shard->id,
		.seq = shard->inboxes[worker].ring.next_seq,
		.step = shard->version + 1,
		.phase = shard->phase,
		.span = phase->payload == PAYLOAD_SKETCH ? at->sketch_cells : at->span,
		.count_max = at->room
	};
	if (phase->payload == PAYLOAD_INDICES)
		want.count_max = at->support_capacity;
	if (phase->support == SUPPORT_AGREED) {
		want.agreed = 1;
		want.count_max = shard->support_n;
	}
	return want;
}

/* Takes the next worker's message out of its inbox: copied once, validated, added. 1 if it was
 * there or is not expected any more. */
static int take_push(sluice_model *model, struct shard *shard)
{
	int worker = shard->next_rank;
	if (!job_living(model->job, worker)) {
		shard->next_rank++;
		return 1;
	}
	if (model->job->peers[worker].state == PEER_LOST)
		return 0; /* about to be dropped */
	const struct shard_layout *at = shard->at;
	const struct phase *phase = phase_now(model, shard->phase);
	struct inbox *inbox = &shard->inboxes[worker];
	uint64_t seq = inbox->ring.next_seq;
	if (inbox->arrived < seq)
		return 0;
	struct message m;
	const char *why = "";
	const struct message_expect want = shard_expect(model, shard, worker);
	const uint8_t *slot = inbox->slots + ring_offset(at->slot_depth, at->slot_bytes, seq);
	int rc = message_copy(slot, at->slot_bytes, model->copy, at->slot_bytes, &m, &why);
	if (!rc)
		rc = message_check(&m, &want, &why);
	m.stream.seed = model->recipe.seed;
	if (rc || message_decode(&m, model->copy, model->index, model->value, &why)) {
		shard_refuse(model, shard, worker, why);
		return 0;
	}
	if ((why = shard_unwelcome(model, shard, &m))) {
		shard_refuse(model, shard, worker, why);
		return 0;
	}
	if (census_take_push(model, shard, seq, slot + message_bytes(&m),
			     at->slot_bytes - message_bytes(&m), &why)) {
		shard_refuse(model, shard, worker, why);
		return 0;
	}
	if (!shard_same_rate(model, shard, worker, m.lr, !shard->counted) ||
	    ring_reader_accept(&inbox->ring, worker, seq))
		return 0;
	inbox->have_version = m.have_version;
	model->stats.staleness[0]++;
	if (shard->running)
		innovation_take(model, shard, worker, &m);
	shard->raised |= m.raised;
	if (!shard->counted)
		shard->chosen_next = m.chosen;
	if (!phase_agrees(phase))
		reduction_add(&shard->reduction, m.coding == CODING_DENSE ? NULL : model->index,
			      model->value, m.count);
	else if ((why = agree_take(model, shard, &m))) {
		shard_refuse(model, shard, worker, why);
		return 0;
	}
	shard->counted++;
	shard->next_rank++;
	return 1;
}

void shard_drop(sluice_model *model, struct shard *shard, int worker)
{
	struct inbox *inbox = &shard->inboxes[worker];
	model->stats.refused_messages += inbox->arrived - ring_reader_consumed(&inbox->ring);
	inbox->notice_due = 0;
}

/* ---- publish --------------------------------------------------------------- */

/* Asks the recipe's selector for the way down; call is as reduction_change() left it. */
static size_t select_down(sluice_model *model, struct shard *shard, double density,
			  const struct select_call *call)
{
	const struct direction *down = &model->recipe.down;
	const struct selection_kind *kind = &selection_kinds[down->select];
	const struct span whole = { 0, shard->at->span, 0 };
	if (kind->adds && call->x && candidates_serve(&shard->candidates, call->k))
		return candidates_select(&shard->candidates, model->selector, call);
	candidates_forget(&shard->candidates);
	if (kind->adds)
		return select_run(model->selector, call, NULL);
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
		.selector = model->selector,
		.hint = &shard->hint,
		.index = model->index
	};
	size_t n = kind->run(&choice);
	sparse_gather(choice.x, model->index, model->value, (uint32_t)n);
	return n;
}

/* Under an agreed support what is published is part of it, unless the update moves more than
 * that. */
static int agree_chooses(const sluice_model *model)
{
	return phase_now(model, model->schedule.n_phases - 1)->support == SUPPORT_AGREED ||
	       selection_kinds[model->recipe.up.select].exchange == EXCHANGE_SKETCH;
}

/* Of the sum's change and what earlier steps left: what is published, into model->index and value;
 * or all of it (the return value is 1), whose values are *vector. */
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
				       .divisor = shard->counted,
				       .lr = shard->lr,
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
				    .index = model->index,
				    .value = model->value,
				    .hint = &shard->hint };
	if (shard->running)
		reduction_run(&shard->reduction, shard->running);
	reduction_change(&shard->reduction, &change, &call);
	if (model->schedule.n_downs > 1 && (selects = agree_chooses(model))) {
		*n_out = agree_choose(model, shard, call.x);
	} else if (selects) {
		*n_out = (uint32_t)select_down(model, shard, density, &call);
	} else if (sparse) { /* the union of what the workers selected, and what earlier steps
			      * left */
		*n_out = (uint32_t)select_nonzero(call.x, span, model->index,
						  shard->at->down_capacity);
		sparse_gather(call.x, model->index, model->value, *n_out);
	} else {
		*n_out = span;
	}
	*vector = call.x;
	return !selects && !sparse;
}

struct message shard_delta(const sluice_model *model, const struct shard *shard, uint32_t n)
{
	const struct shard_layout *at = shard->at;
	return (struct message){
		.kind = MESSAGE_DELTA,
		.values = schedule_sends_all(&model->schedule, shard->version + 1) ?
				  (struct value_coding){ VALUE_F32, 0, 0, 0 } :
				  model->recipe.down.values,
		/* Workers are below 2^23: a shard's numbers are no worker's. */
		.stream = { RANDOM_ROUND, 1u << 23, shard->version + 1, model->recipe.seed },
		.first = at->begin,
		.seeded = selection_kinds[model->recipe.down.select].seeded &&
			  !selection_kinds[model->recipe.down.select].contiguous,
		.densest = model->recipe.coding == CODING_SMALL,
		.raised = (uint8_t)shard->raised,
		.chosen = (uint8_t)shard->chosen_next,
		.phase = (uint16_t)(shard->phase + 1),
		.parts = 1,
		.rank = (uint32_t)model->job->rank,
		.epoch = model->job->membership_epoch,
		.model = model->id,
		.shard = shard->id,
		.seq = shard->published + 1,
		.step = shard->version + 1,
		.have_version = shard->published,
		.span = at->span,
		.count = n,
		.agreed = phase_now(model, shard->phase + 1)->support == SUPPORT_AGREED,
		.divisor = shard->counted,
		.lr = shard->lr,
		.anchor = (uint32_t)innovation_lacks(shard)
	};
}

void shard_step_ends(sluice_model *model, struct shard *shard, size_t bytes)
{
	shard->version++;
	shard->chosen = shard->chosen_next;
	shard->phase = 0;
	shard->raised = 0;
	shard->refresh = 0;
	shard->restarted = 0;
	shard_announce(model, shard, bytes);
}

/* The change becomes a delta: encoded into the log, taken out of the shard's residual as the
 * workers will decode it, added to the copy with the workers' own function. 0: it has overflowed,
 * and the job ends. */
static int publish(sluice_model *model, struct shard *shard)
{
	const struct shard_layout *at = shard->at;
	uint32_t n;
	const float *vector;
	int whole = choose(model, shard, &vector, &n);
	const uint32_t *index = whole ? NULL : model->index;
	const float *value = whole ? vector : model->value;
	struct message m = shard_delta(model, shard, n);
	uint8_t *entry = delta_log_reserve(&shard->log, at->delta_bytes);
	size_t bytes = message_encode(&m, index, value, model->value, entry, at->delta_bytes);
	if (!bytes)
		return shard_overflowed(model, shard, index ? index[m.bad] : m.bad);
	bytes += census_note_delta(model, shard, entry + bytes);
	delta_log_commit(&shard->log, bytes);
	measure_published(model, shard, vector ? vector : shard->residual, index, n);
	if (shard->residual)
		sparse_subtract(shard->residual, index, model->value, n);
	candidates_published(&shard->candidates, model->value);
	if (index && m.coding == CODING_DENSE) {
		/* Dense was shorter: the workers add the zeros between too, and -0 + 0 is not
		 * -0. */
		const char *why;
		message_decode(&m, entry, NULL, model->value, &why);
		index = NULL;
		n = at->span;
	}
	if (model->recipe.update == UPDATE_AVERAGE)
		sparse_set(shard->copy, index, model->value, n);
	else
		sparse_add(shard->copy, index, model->value, n);
	reduction_clear(&shard->reduction);
	shard_step_ends(model, shard, bytes);
	return 1;
}

/* Announces the newest version to the workers that do not know it: one 32-byte WRITE with notify.
 * At most one is unacknowledged per worker, because the next version needs the worker's next
 * push. */
static int send_notices(sluice_model *model, struct shard *shard)
{
	sluice_job *job = model->job;
	int sent = 0;
	for (int w = 0; w < job->workers; w++) {
		struct inbox *inbox = &shard->inboxes[w];
		if (!inbox->notice_due || job->peers[w].state == PEER_LOST ||
		    !model->remote_windows[w])
			continue;
		uint8_t line[NOTICE_BYTES];
		put_le64(line, inbox->newest.version);
		put_le64(line + 8, inbox->newest.log_end);
		put_le64(line + 16, ring_reader_consumed(&inbox->ring));
		put_le32(line + 24, inbox->newest.bytes);
		put_le32(line + 28, crc32c(0, line, 28));
		struct transfer t = { .kind = TRANSFER_PUT_NOTIFY,
				      .remote = model->remote_windows[w],
				      .offset = layout_notice_offset(&model->layout, w, shard->at),
				      .local = line,
				      .bytes = sizeof line,
				      .imm = imm_make(IMM_NOTICE, model->id, shard->id) };
		struct endpoint *e = job->peers[w].endpoint;
		int rc = e->transport->ops->post(e, &t);
		if (rc == SLUICE_EAGAIN || rc == SLUICE_EPEER)
			continue;
		if (rc) {
			job_fail(job, rc, job->rank, "cannot notify %s of shard %u",
				 rank_text(job, w), shard->id);
			return 0;
		}
		inbox->notice_due = 0;
		sent = 1;
		if (w != job->rank)
			model->stats.control_bytes += sizeof line;
	}
	return sent;
}

int shard_advance(sluice_model *model, struct shard *shard)
{
	int moved = 0;
	if (model->job->failure.code)
		return 0;
	if (shard->async)
		return shard_async_advance(model, shard) | send_notices(model, shard);
	const enum dense_outcome dense = shard_dense_advance(model, shard);
	if (dense != DENSE_NONE)
		return send_notices(model, shard) | (dense == DENSE_PUBLISHED);
	while (shard->next_rank < model->job->workers && take_push(model, shard))
		moved = 1;
	if (shard->next_rank == model->job->workers && shard->counted) {
		if (phase_now(model, shard->phase + 1)->payload == PAYLOAD_INDICES)
			agree_publish(model, shard);
		else if (!publish(model, shard))
			return 0;
		moved = 1;
	}
	return send_notices(model, shard) | moved;
}

int shard_publish_snapshot(sluice_model *model, struct shard *shard)
{
	const struct shard_layout *at = shard->at;
	struct message m = { .kind = MESSAGE_SNAPSHOT,
			     .values = { VALUE_F32, 0, 0, 0 },
			     .rank = (uint32_t)model->job->rank,
			     .epoch = model->job->membership_epoch,
			     .model = model->id,
			     .shard = shard->id,
			     .seq = shard->version,
			     .step = shard->version,
			     .have_version = shard->version };
	return snapshot_write(&m, shard->copy, at->span, shard->snapshot) ?
		       fail(SLUICE_ENUMERIC, "the parameters of shard %u are NaN or infinite",
			    shard->id) :
		       0;
}

/* ---- explain --------------------------------------------------------------- */

/* Names up to four workers whose push of this step has not come; returns how many there are. */
static int missing_workers(const sluice_job *job, const struct shard *shard, char *who, size_t cap)
{
	int missing = 0;
	*who = 0;
	for (int w = shard->next_rank; w < job->workers; w++) {
		if (!job_living(job, w) ||
		    shard->inboxes[w].arrived >= shard->inboxes[w].ring.next_seq ||
		    (shard->inboxes[w].parked && !shard->async->gathering))
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
		if (shard->waiting_since_ns && missing_workers(model->job, shard, who, sizeof who))
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
		uint64_t since = shard->waiting_since_ns;
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
		if (model->shards[i].waiting_since_ns)
			return 1;
	return 0;
}
