/* SPDX-License-Identifier: BSD-3-Clause
 * See publish.h. Called by shard.c, shard_dense.c and shard_async.c. */
#include "shard/publish.h"
#include "base/error.h"
#include "model/snapshot.h"
#include "compress/sparse.h"
#include "job/living.h"
#include "job/peers.h"
#include "model/compressor.h"
#include "model/delta_log.h"
#include "shard/gather.h"
#include "shard/inbox.h"
#include "shard/shard_bits.h"
#include "shard/shard_hooks.h"
#include "shard/state.h"
#include <stdatomic.h>
#include <string.h>

enum { PLACE_BYTES = 160 };

/* ---- the log --------------------------------------------------------------- */

uint8_t *publish_reserve(struct shard *shard, struct readers readers)
{
	const size_t most = shard->at->delta_bytes;
	uint8_t *entry;

	if (shard->at->log_places) /* the entry has a place, where late workers find it */
		shard->log.end = shard->published * most;
	if (readers.worker == READERS_ALL)
		return delta_log_reserve(&shard->log, most);
	entry = shard->log.ring + (size_t)readers.worker * most;
	memset(entry, 0, 8); /* clears the magic before any byte of the body changes */
	atomic_thread_fence(memory_order_seq_cst);
	return entry;
}

void publish_commit(struct shard *shard, struct readers readers, const struct message *m,
		    size_t bytes)
{
	const struct shard_layout *at = shard->at;
	struct announced newest = { .version = m->seq, .bytes = (uint32_t)bytes };

	if (readers.worker != READERS_ALL) {
		newest.log_end = readers.before * at->log_bytes +
				 (uint64_t)readers.worker * at->delta_bytes +
				 ((bytes + 7) & ~(size_t)7);
		inbox_announce(shard, readers.worker, newest, 1);
		return;
	}
	newest.log_end = delta_log_commit(&shard->log, bytes);
	shard->published++;
	gather_phase_ends(shard);
	inboxes_wait_since(shard, 0);
	for (int w = 0; w < shard->job->workers; w++)
		inbox_announce(shard, w, newest,
			       job_living(shard->job, w) && shard_hooks_counts(shard, w));
}

/* Writes "index 3 of tensor w1" into text, and returns text. */
static const char *coordinate_text(const struct shard *shard, uint32_t at, char text[PLACE_BYTES])
{
	tensors_place(shard->model.tensors, shard->at->begin + at, text, PLACE_BYTES);
	return text;
}

/* Returns the workers' number for this step. Workers also count the steps between two exchanges. */
static unsigned long long step_of_change(const struct shard *shard)
{
	return schedule_exchange_step(shard->rules.recipe, shard->at->fragment, shard->version + 1);
}

void publish_overflowed(const struct shard *shard, uint32_t at)
{
	char place[PLACE_BYTES];

	job_fail(shard->job, SLUICE_ENUMERIC, shard->job->rank,
		 "the change of shard %u at %s in step %llu is NaN or infinite at %s: its sums "
		 "overflowed; lower the learning rate or clip= the gradients",
		 shard->id, rank_text(shard->job, shard->job->rank), step_of_change(shard),
		 coordinate_text(shard, at, place));
}

int publish_follow(struct shard *shard, uint32_t at, const uint32_t *index, const float *value,
		   uint32_t n)
{
	const enum sparse_operation operation = recipe_averages(shard->rules.recipe) ? SPARSE_SET :
										       SPARSE_ADD;

	return sparse_change(scratch_team(shard->scratch), operation, shard->copy + at, index,
			     value, n) ||
	       /* workers add a mean to no parameters, so the copy may overflow */
	       recipe_pulls_mean(shard->rules.recipe);
}

void publish_param_overflowed(const struct shard *shard)
{
	const size_t at = first_nonfinite(shard->copy, shard->at->span);
	char place[PLACE_BYTES];

	job_fail(shard->job, SLUICE_ENUMERIC, shard->job->rank,
		 "step %llu computes %g for the parameter of shard %u at %s, %s: the value is "
		 "beyond the range of floats; lower the learning rate or clip= the gradients",
		 step_of_change(shard), (double)shard->copy[at], shard->id,
		 rank_text(shard->job, shard->job->rank),
		 coordinate_text(shard, (uint32_t)at, place));
}

const uint8_t *publish_pick(struct shard *shard, struct message *m, struct pick *p,
			    size_t *bytes_out)
{
	const uint32_t span = shard->at->span;
	uint8_t *entry = publish_reserve(shard, READERS_EVERYBODY);
	size_t bytes = compressor_emit(shard->compressor, m, p, 0, span, entry,
				       shard->at->delta_bytes);

	if (!bytes) {
		publish_overflowed(shard, m->bad);
		return NULL;
	}
	*bytes_out = bytes + shard_hooks_delta_note(shard, entry + bytes);
	return entry;
}

int publish_all_of(struct shard *shard, struct readers readers, struct message *m,
		   const float *value)
{
	const size_t bytes = message_encode(
		scratch_team(shard->scratch), m, NULL, value, scratch_entries(shard->scratch).value,
		publish_reserve(shard, readers), shard->at->delta_bytes);

	if (bytes)
		publish_commit(shard, readers, m, bytes);
	else
		publish_overflowed(shard, m->bad);
	return bytes != 0;
}

void publish_support(struct shard *shard, struct message *m, const uint32_t *index)
{
	const size_t bytes = message_encode(scratch_team(shard->scratch), m, index, NULL, NULL,
					    publish_reserve(shard, READERS_EVERYBODY),
					    shard->at->delta_bytes);

	publish_commit(shard, READERS_EVERYBODY, m, bytes);
}

/* ---- deltas and snapshots -------------------------------------------------- */

struct message publish_head(const struct shard *shard, enum message_kind kind)
{
	return (struct message){ .kind = kind,
				 .parts = 1,
				 .rank = (uint32_t)shard->job->rank,
				 .epoch = shard->job->membership_epoch,
				 .model = shard->model.id,
				 .shard = shard->id,
				 .span = shard->at->span };
}

struct message publish_next(const struct shard *shard, enum message_kind kind, uint32_t n)
{
	struct message m = publish_head(shard, kind);

	m.densest = shard->rules.recipe->coding == CODING_SMALL;
	m.phase = (uint16_t)(shard->phase + 1);
	m.seq = shard->published + 1;
	m.step = shard->version + 1;
	m.have_version = shard->published;
	m.count = n;
	return m;
}

struct message publish_delta(const struct shard *shard, uint32_t n)
{
	struct message m = publish_next(shard, MESSAGE_DELTA, n);
	const struct selection_kind *down = &selection_kinds[shard->rules.recipe->down.select];
	const struct gathered *g = gather_view(shard);

	m.values = rulebook_step(&shard->rules, m.step, shard->chosen).values_down;
	m.stream = (struct random_stream){ RANDOM_ROUND, SHARD_NUMBERS, m.step,
					   shard->rules.recipe->seed };
	m.first = shard->at->begin;
	m.seeded = down->seeded && !down->contiguous;
	m.raised = (uint8_t)g->raised;
	m.chosen = (uint8_t)shard_bits_chosen(shard, g->chosen_next);
	m.agreed = schedule_phase(shard->rules.schedule, shard->phase + 1)->payload ==
		   PAYLOAD_AGREED;
	m.divisor = g->counted;
	m.lr = g->lr;
	return m;
}

void publish_step_ends(struct shard *shard)
{
	shard->version++;
	shard->phase = 0;
	gather_step_ends(shard);
}

int shard_publish_snapshot(struct shard *shard, uint64_t flags)
{
	struct message m = publish_head(shard, MESSAGE_SNAPSHOT);

	m.seq = m.step = m.have_version = shard->version;
	m.divisor = (uint32_t)flags;
	m.anchor = (uint32_t)(flags >> 32);
	return snapshot_write(&m, shard->copy, m.span,
			      home_snapshot(shard->model.home, shard->id)) ?
		       fail(SLUICE_ENUMERIC, "the parameters of shard %u are NaN or infinite",
			    shard->id) :
		       0;
}
