/* SPDX-License-Identifier: BSD-3-Clause
 * See lazy.h. Sums are in double: squares of small steps, divided by the square of the learning
 * rate. */
#include "worker/lazy.h"
#include "compress/sparse.h"
#include "model/compressor.h"
#include "model/kept.h"
#include "model/model.h"
#include "worker/hooks.h"
#include "worker/lane.h"
#include "worker/state.h"
#include "worker/upload.h"
#include "base/bytes.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the rule --------------------------------------------------------------- */

void lazy_save(const struct lazy_rule *l, uint64_t numbers[LAZY_NUMBERS])
{
	numbers[0] = l->changes;
	numbers[1] = l->skipped;
	numbers[2] = (uint64_t)l->uploaded;
	numbers[3] = double_bits(l->last_error);
	for (int i = 0; i < LAZY_WINDOW_MAX; i++)
		numbers[4 + i] = double_bits(l->moved[i]);
}

const char *lazy_judge(const struct lazy_rule *l, uint64_t steps,
		       const uint64_t numbers[LAZY_NUMBERS])
{
	const uint64_t changes = numbers[0], skipped = numbers[1];

	if (changes > steps || skipped > changes)
		return "it counts more changes of the model, or more skipped pushes, than there "
		       "were steps";
	if (numbers[2] > 1)
		return "whether there was an upload is neither 0 nor 1";
	for (int i = 3; i < LAZY_NUMBERS; i++) {
		const double squared = bits_double(numbers[i]);

		if (!(squared >= 0 && squared <= DBL_MAX))
			return "a squared norm is negative or not finite";
		if (i >= 4 && squared > 0 &&
		    ((uint64_t)i - 4 >= changes || i - 4 >= (int)l->window))
			return "it remembers a change of the model that was not made";
	}
	return NULL;
}

static void load_numbers(struct lazy_rule *l, const uint64_t numbers[LAZY_NUMBERS])
{
	l->changes = numbers[0];
	l->skipped = numbers[1];
	l->uploaded = numbers[2] != 0;
	l->last_error = bits_double(numbers[3]);
	for (int i = 0; i < LAZY_WINDOW_MAX; i++)
		l->moved[i] = bits_double(numbers[4 + i]);
}

void lazy_moved(struct lazy_rule *l, double squared)
{
	l->moved[l->changes++ % l->window] = squared;
}

double lazy_allowance(const struct lazy_rule *l, float lr)
{
	double sum = 0;

	for (uint32_t i = 0; i < l->window; i++)
		sum += l->weight * l->moved[i];
	return sum / ((double)lr * (double)lr);
}

/* The first push is always sent, and so is the push after `longest` consecutive skipped ones. */
static int must_upload(const struct lazy_rule *l)
{
	return !l->uploaded || (l->longest && l->skipped >= l->longest);
}

int lazy_skips(const struct lazy_rule *l, float lr, double innovation, double error)
{
	return !must_upload(l) && innovation <= lazy_allowance(l, lr) + 3 * (error + l->last_error);
}

int lazy_skips_unseen(const struct lazy_rule *l, float lr, float smoothness, double distance)
{
	return !must_upload(l) &&
	       (double)smoothness * (double)smoothness * distance <= lazy_allowance(l, lr);
}

void lazy_uploaded(struct lazy_rule *l, double error)
{
	l->last_error = error;
	l->skipped = 0;
	l->uploaded = 1;
}

void lazy_skipped(struct lazy_rule *l)
{
	l->skipped++;
}

/* ---- a worker's part -------------------------------------------------------- */

struct lazy {
	float *reference, *since; /* rows of kept.h; since is NULL unless when=lazy-server */
	double *moved;            /* squared norm of each shard's newest delta */
	struct lazy_rule rule;    /* if window is 0, no push is skipped */
	double innovation, error; /* squared norms of the current push */
	double distance;          /* squared norm of `since` */
	float smoothness;         /* below 0: not known */
	uint32_t uploads;         /* so far */
	int skip;                 /* 1: the gradient of this push is skipped */
	int uploading;            /* 1: this push is an upload */
	int refresh;              /* 1: the next push sends the whole gradient again */
};

static int lazy_used(const struct worker *w)
{
	return w->rules.recipe->signal.kind == SIGNAL_INNOVATION;
}

static int lazy_open(struct worker *w)
{
	const struct recipe *recipe = w->rules.recipe;
	const struct vectors *kept = &w->kept;

	struct lazy *lazy = w->lazy = calloc(1, sizeof(*lazy));
	if (lazy) {
		lazy->reference = kept->of[KEPT_REFERENCE];
		lazy->since = kept->of[KEPT_SINCE];
		lazy->moved = calloc(w->layout->n_shards, sizeof(*lazy->moved));
		lazy->rule = (struct lazy_rule){ .window = recipe->lazy.window,
						 .weight = (double)recipe->lazy.weight,
						 .longest = recipe->lazy.longest };
	}
	return lazy && lazy->moved ?
		       0 :
		       fail(SLUICE_ENOMEM, "no memory for the norms of %u shards' deltas",
			    w->layout->n_shards);
}

static void lazy_close(struct worker *w)
{
	struct lazy *lazy = w->lazy;

	if (!lazy)
		return;
	free(lazy->moved);
	free(lazy);
	w->lazy = NULL;
}

/* Restarts the count of uploads. The vectors are kept, because they may have been restored. */
static void lazy_restart(struct worker *w)
{
	struct lazy *lazy = w->lazy;

	lazy->uploads = 0;
	lazy->refresh = 0;
}

const float *lazy_reference(const struct lazy *lazy)
{
	return lazy ? lazy->reference : NULL;
}

int lazy_refreshes(const struct lazy *lazy)
{
	return lazy && lazy->refresh;
}

const struct lazy_rule *lazy_rule_of(const struct lazy *lazy)
{
	return lazy && lazy->rule.window ? &lazy->rule : NULL;
}

/* ---- push ------------------------------------------------------------------- */

/* Sums the squared norms of a message's values and of what the message leaves in the residual. */
static void weigh(const struct worker *w, struct lazy *lazy, const struct shard_layout *at,
		  const struct pick *emitted)
{
	const uint32_t *index = emitted->index;
	const float *vector = worker_residual(w) + at->begin;
	double carried = 0, all = 0, sent = 0, off = 0;

	for (size_t i = 0; i < emitted->n; i++) {
		double value = (double)emitted->value[i],
		       exact = (double)vector[index ? index[i] : i];
		carried += value * value;
		sent += exact * exact;
		off += (exact - value) * (exact - value);
	}
	for (uint32_t i = 0; i < at->span && index; i++)
		all += (double)vector[i] * (double)vector[i];
	lazy->innovation += carried;
	lazy->error += off + (index && all > sent ? all - sent : 0);
}

/* Returns the number of this worker's uploads, which the messages of this push contain. */
static uint32_t lazy_mark(const struct worker *w)
{
	const struct lazy *lazy = w->lazy;

	return lazy->refresh ? INNOVATION_REFRESH : 2 * lazy->uploads + (uint32_t)lazy->uploading;
}

/* If a shard's sum differs from the workers' references, restarts this worker's reference at
 * zero. */
static void lazy_step_begins(struct worker *w)
{
	struct lazy *lazy = w->lazy;

	if (!lazy->refresh)
		return;
	memset(lazy->reference, 0, w->layout->count * sizeof(*lazy->reference));
	lazy->rule.uploaded = 0; /* makes must_upload() return 1 */
}

/* Resets the norms before the messages of a push are weighed. */
static void lazy_folded(struct worker *w, struct signal *signal)
{
	struct lazy *lazy = w->lazy;

	(void)signal;
	lazy->innovation = lazy->error = 0;
	lazy->skip = w->step.left_out;
	lazy->uploading = !lazy->skip;
	memset(lazy->moved, 0, w->layout->n_shards * sizeof(*lazy->moved));
}

/* Adds the message to the reference, or adds its norms to those on which the later decision is
 * based. */
static void lazy_emitted(struct worker *w, const struct shard_layout *at,
			 const struct pick *emitted)
{
	struct lazy *lazy = w->lazy;

	if (w->rules.recipe->when == WHEN_LAZY)
		weigh(w, lazy, at, emitted);
	else
		sparse_add(lazy->reference + at->begin, emitted->index, emitted->value,
			   (uint32_t)emitted->n);
}

/* Replaces each message by a message without coordinates, which means that there is nothing new. */
static void withdraw(struct worker *w)
{
	w->lazy->uploading = 0;
	upload_empty(w, MESSAGE_PUSH);
}

/* Adds this worker's own messages to its reference, as the shards will decode them. */
static void follow(struct worker *w)
{
	const struct entries sent = compressor_entries(w->compressor);

	for (uint32_t s = 0; s < w->layout->n_shards; s++) {
		const struct shard_layout *at = &w->layout->shards[s];
		uint8_t *slot = lane_slot(w->lanes, s, lane_next_seq(w->lanes, s));
		struct message m;
		const char *why;

		if (message_copy(NULL, slot, at->slot_bytes, slot, at->slot_bytes, &m, &why) ||
		    message_decode(NULL, &m, slot, sent.index, sent.value, &why))
			continue; /* does not happen, because this worker wrote the message */
		sparse_add(w->lazy->reference + at->begin,
			   m.coding == CODING_DENSE ? NULL : sent.index, sent.value, m.count);
	}
}

/* Returns 1 if this push is skipped. */
static int leaves_out(const struct worker *w, const struct lazy *lazy)
{
	return lazy->skip || (w->rules.recipe->when == WHEN_LAZY &&
			      lazy_skips(&lazy->rule, w->step.lr, lazy->innovation, lazy->error));
}

static void decide(struct worker *w, struct lazy *lazy, uint64_t elements)
{
	const int unseen = w->rules.recipe->when == WHEN_LAZY_SERVER;

	if (leaves_out(w, lazy)) {
		if (!unseen)
			withdraw(w);
		lazy_skipped(&lazy->rule);
		w->model.stats->skipped_pushes++;
		w->model.stats->pushed_elements = elements;
		return;
	}
	if (!unseen)
		follow(w);
	else
		memset(lazy->since, 0, w->layout->count * sizeof(*lazy->since));
	lazy_uploaded(&lazy->rule, lazy->error);
}

static void lazy_sent(struct worker *w, uint64_t elements)
{
	struct lazy *lazy = w->lazy;

	if (lazy->rule.window)
		decide(w, lazy, elements);
	lazy->uploads = lazy->refresh ? 1 : lazy->uploads + (uint32_t)lazy->uploading;
	lazy->refresh = 0;
}

/* ---- pull ------------------------------------------------------------------- */

static int lazy_applied(struct worker *w, uint32_t shard, const uint32_t *index,
			const struct entries *got, const struct message *m)
{
	struct lazy *lazy = w->lazy;
	const float *value = got->value;
	double moved = 0;

	lazy->refresh |= m->anchor != 0; /* the shard's sum differs from the references */
	if (!lazy->rule.window)
		return 0;
	for (uint32_t i = 0; i < m->count; i++)
		moved += (double)value[i] * (double)value[i];
	lazy->moved[shard] = moved;
	if (lazy->since)
		sparse_add(lazy->since + w->layout->shards[shard].begin, index, value, m->count);
	return 0;
}

static void measure_distance(const struct worker *w, struct lazy *lazy)
{
	double distance = 0;

	for (uint64_t i = 0; i < w->layout->count && lazy->since; i++)
		distance += (double)lazy->since[i] * (double)lazy->since[i];
	lazy->distance = distance;
}

static void lazy_pulled(struct worker *w)
{
	struct lazy *lazy = w->lazy;
	double moved = 0;

	if (!lazy->rule.window)
		return;
	for (uint32_t s = 0; s < w->layout->n_shards; s++) /* in the same order on every worker */
		moved += lazy->moved[s];
	lazy_moved(&lazy->rule, moved);
	measure_distance(w, lazy);
}

void lazy_restore(struct worker *w, const uint64_t *numbers, int refresh)
{
	struct lazy *lazy = w->lazy;

	if (!lazy)
		return;
	lazy->refresh = refresh;
	if (!numbers || !lazy->rule.window)
		return;
	load_numbers(&lazy->rule, numbers);
	measure_distance(w, lazy);
}

int lazy_wants(const struct worker *w)
{
	if (w->rules.recipe->when != WHEN_LAZY_SERVER || !sluice_is_worker(w->job))
		return 1;
	const struct lazy *lazy = w->lazy;
	return lazy->refresh || !(lazy->smoothness > 0) ||
	       !lazy_skips_unseen(&lazy->rule, w->step.lr, lazy->smoothness, lazy->distance);
}

int lazy_set_smoothness(struct worker *w, float smoothness)
{
	if (!w->lazy || w->rules.recipe->when != WHEN_LAZY_SERVER)
		return fail(SLUICE_EINVAL,
			    "sluice_set: SLUICE_SMOOTHNESS needs a recipe with when=lazy-server, "
			    "because no other recipe uses it");
	if (!(smoothness > 0) || !isfinite(smoothness))
		return fail(SLUICE_EINVAL,
			    "sluice_set: SLUICE_SMOOTHNESS is %g, but must be finite and > 0",
			    (double)smoothness);
	w->lazy->smoothness = smoothness;
	return 0;
}

const struct step_hooks lazy_hooks = { .used = lazy_used,
				       .open = lazy_open,
				       .close = lazy_close,
				       .restart = lazy_restart,
				       .step_begins = lazy_step_begins,
				       .folded = lazy_folded,
				       .emitted = lazy_emitted,
				       .sent = lazy_sent,
				       .mark = lazy_mark,
				       .applied = lazy_applied,
				       .pulled = lazy_pulled };
