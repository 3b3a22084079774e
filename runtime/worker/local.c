/* SPDX-License-Identifier: BSD-3-Clause
 * See local.h. */
#include "worker/local.h"
#include "compress/select.h"
#include "compress/sparse.h"
#include "job/peers.h"
#include "model/compressor.h"
#include "model/kept.h"
#include "model/model.h"
#include "worker/hooks.h"
#include "worker/signal.h"
#include "worker/nonfinite.h"
#include "worker/quorum.h"
#include "worker/state.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 2048 };

struct local {
	float *base; /* the common model */
	/* Sum of the steps that this worker has subtracted from its parameters; NULL with
	 * signal=drift. */
	float *sum;
	int apart; /* 1: sum has its own memory; 0: sum is the residual */
	const float *residual;
	float keep;
};

static int local_used(const struct worker *w)
{
	return w->kept.of[KEPT_BASE] != NULL;
}

static int local_open(struct worker *w)
{
	const struct vectors *kept = &w->kept;
	struct local *local = w->local = calloc(1, sizeof(*local));
	if (!local)
		return fail(SLUICE_ENOMEM, "no memory for steps without an exchange");
	local->base = kept->of[KEPT_BASE];
	local->apart = kept->of[KEPT_LOCAL] != NULL;
	local->residual = kept->of[KEPT_RESIDUAL];
	local->keep = w->rules.recipe->drift.keep;
	if (!recipe_drifts(w->rules.recipe))
		local->sum = local->apart ? kept->of[KEPT_LOCAL] : kept->of[KEPT_RESIDUAL];
	return 0;
}

static void local_close(struct worker *w)
{
	free(w->local);
	w->local = NULL;
}

float *local_sum(const struct local *local)
{
	return local->sum;
}

float *local_base(const struct local *local)
{
	return local ? local->base : NULL;
}

static void local_begin(struct worker *w, const float *params)
{
	if (params != w->local->base)
		memcpy(w->local->base, params, w->layout->count * sizeof(*params));
}

/* Before an exchange is sent, adds the steps of the period to the residual. */
static void local_folded(struct worker *w, struct signal *signal)
{
	(void)signal;
	if (!w->local->sum)
		return;
	/* Only the last step's gradient may be left out. The earlier steps are sent. */
	step_leave_out(&w->step, 0);
	if (w->local->apart)
		sparse_add(worker_residual(w), NULL, w->local->sum, (uint32_t)w->layout->count);
}

/* Begins a new period after the exchange. */
static void local_sent(struct worker *w, uint64_t elements)
{
	float *velocity = compressor_velocity(w->compressor);

	(void)elements;
	if (!w->local->sum)
		return;
	memset(w->local->sum, 0, w->layout->count * sizeof(*w->local->sum));
	if (velocity)
		memset(velocity, 0, w->layout->count * sizeof(*velocity));
}

void local_point(const struct local *local, uint64_t at, size_t n, float *point)
{
	const float *restrict base = local->base + at, *restrict residual = local->residual + at;
	const float keep = local->keep;

	if (!(keep > 0))
		memcpy(point, base, n * sizeof(*point));
	else
		for (size_t i = 0; i < n; i++)
			point[i] = base[i] - keep * residual[i];
}

/* Returns the coordinates that a pull writes. A worker whose parameters were not finite gets all of
 * them: NaN would return from the other fragments. */
static struct fragment exchanged(const struct worker *w)
{
	if (w->step.left_out || !recipe_drifts(w->rules.recipe))
		return (struct fragment){ .count = w->layout->count };
	return worker_fragment(w);
}

int local_reads(const struct worker *w)
{
	return w->rules.recipe->drift.mix > 0 || exchanged(w).count < w->layout->count;
}

/* x_r = M x_r + (1 - M) point, for n values of the point. A worker whose parameters are not finite
 * continues from the point, unless the recipe ends the job. */
static int mix(struct worker *w, const struct vector *params, uint64_t at, size_t n, float *point)
{
	const float share = w->rules.recipe->drift.mix, rest = 1 - share;
	float room[CHUNK];
	const float *own = vector_read(params, at, n, room);
	const size_t finite = first_nonfinite(own, n);
	uint64_t bad = 0;

	for (size_t i = 0; i < n; i++) {
		const int good = finite == n || isfinite(own[i]);

		point[i] = good ? share * own[i] + rest * point[i] : point[i];
		bad += !good;
	}
	const int rc = bad ? nonfinite_pushed(w, 0, at + finite, bad, own[finite]) : 0;
	return rc < 0 ? rc : 0;
}

int local_pull(struct worker *w, const struct vector *params)
{
	const int mixes = w->rules.recipe->drift.mix > 0 && !w->step.left_out;
	const struct local *local = w->local;
	const struct fragment fragment = exchanged(w);
	const uint64_t end = fragment.begin + fragment.count;
	float value[CHUNK];
	int rc;

	for (uint64_t at = fragment.begin; at < end && local; at += CHUNK) {
		const size_t n = end - at < CHUNK ? end - at : CHUNK;

		if (!local->sum)
			local_point(local, at, n, value);
		if (mixes && (rc = mix(w, params, at, n, value)))
			return rc;
		for (size_t i = 0; local->sum && i < n; i++)
			value[i] = local->base[at + i] - local->sum[at + i];
		const size_t finite = first_nonfinite(value, n);
		if (finite < n)
			return nonfinite_params(w, at + finite, value[finite]);
		vector_write(params, at, value, n);
	}
	return 0;
}

int local_idles(const struct worker *w)
{
	return !w->local->sum && worker_alone(w);
}

int local_can_save(const struct worker *w)
{
	return recipe_drifts(w->rules.recipe) ? w->step.state == STEP_DONE : local_in_sync(w);
}

/* Returns 1 if all workers got the same value for each parameter in the last step. */
static int got_the_same(const struct recipe *r, uint64_t done)
{
	if (!done)
		return 1;
	return !(r->drift.keep > 0) && !(r->drift.mix > 0) && r->every.fragments == 1 &&
	       done > r->every.late && (done - r->every.late) % r->every.period == 0;
}

int local_in_sync(const struct worker *w)
{
	return w->step.state == STEP_DONE && got_the_same(w->rules.recipe, w->step.done) &&
	       !selection_kinds[w->rules.recipe->up.select].contiguous &&
	       (!w->quorum || quorum_counted(w->quorum) == (unsigned)w->job->workers) &&
	       (w->rules.recipe->when != WHEN_ASYNC || !w->step.done ||
		schedule_before_anchor(w->rules.schedule, w->step.done));
}

const struct step_hooks local_hooks = { .used = local_used,
					.open = local_open,
					.close = local_close,
					.begin = local_begin,
					.folded = local_folded,
					.sent = local_sent };
