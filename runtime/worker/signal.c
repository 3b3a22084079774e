/* SPDX-License-Identifier: BSD-3-Clause
 * See signal.h. Called by push.c at the beginning of a push. Does not use the network. */
#include "worker/signal.h"
#include "base/shrink.h"
#include "job/peers.h"
#include "model/compressor.h"
#include "model/kept.h"
#include "model/model.h"
#include "worker/lazy.h"
#include "worker/local.h"
#include "worker/source.h"
#include "worker/nonfinite.h"
#include "worker/state.h"
#include "base/error.h"
#include "base/team.h"
#include "compress/clip_rules.h"
#include "compress/moments.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK = 2048 };

struct vector signal_vector(const struct worker *w, const void *data, uint64_t count)
{
	return vector_of(data, count, worker_pushed_type(w), w->grad.scale);
}

/* Arguments and results of look_for_spoilt(). */
struct spoilt {
	const struct vector *grad;
	uint64_t from; /* element of the gradient with which the search begins */
	struct {
		uint64_t first, n; /* the offset from `from` of the first value that is not
				      finite, and the number of such values */
		float value;       /* the first one */
	} part[TEAM_PARTS];
};

static void look_for_spoilt(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct spoilt *s = context;
	uint64_t first = 0, bad = 0;
	float value = 0, room[CHUNK];
	for (uint64_t at = begin; at < end; at += CHUNK) {
		size_t n = end - at < CHUNK ? end - at : CHUNK;
		const float *g = vector_read(s->grad, s->from + at, n, room);
		size_t i = first_nonfinite(g, n);
		if (i < n && !bad) {
			first = at + i;
			value = g[i];
		}
		for (; i < n; i++)
			bad += !isfinite(g[i]);
	}
	s->part[part].first = first;
	s->part[part].n = bad;
	s->part[part].value = value;
}

/* Handles NaN and infinity in count elements of a gradient. The first is element `from`, which is
 * coordinate `begin`. Returns the result of nonfinite_pushed(). */
static int judge(struct worker *w, const struct vector *grad, uint64_t from, uint64_t begin,
		 uint64_t count)
{
	struct spoilt s = { .grad = grad, .from = from };
	const unsigned parts = team_split(scratch_team(w->scratch), count, CHUNK, look_for_spoilt,
					  &s);
	uint64_t bad = 0;
	unsigned first = parts;
	for (unsigned i = 0; i < parts; i++) {
		first = !bad && s.part[i].n ? i : first;
		bad += s.part[i].n;
	}
	return bad ? nonfinite_pushed(w, 0, begin + s.part[first].first, bad, s.part[first].value) :
		     0;
}

/* The input of one push, or of one range of it. */
struct input {
	struct pushed pushed;
	const struct source_row *source;
	uint64_t begin, count; /* range of coordinates in the whole vector */
	uint64_t from;         /* the place of coordinate `begin` in the pushed vectors */
	float clip;            /* the factor by which the gradient is multiplied before noise is
				  added */
};

/* Returns elements at .. at + n - 1 of the signal. Uses the memory `room` if they must be
 * computed. */
static const float *read_signal(const struct worker *w, const struct input *in, uint64_t at,
				size_t n, float *room)
{
	return in->source->read(&in->pushed, w->rules.recipe->nonfinite == NONFINITE_ZERO,
				in->from + at, n, room);
}

/* Arguments and results of sum_groups(). A group is that of compress/moments.h. */
enum { GROUP = MOMENT_GROUP * MOMENT_TILE, GROUPS = 32 };
struct norm {
	const struct worker *w;
	const struct input *in;
	uint64_t first; /* coordinate of the first group */
	struct moments of_group[GROUPS];
};

static void sum_groups(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	_Static_assert(CHUNK % MOMENT_TILE == 0, "pieces are whole tiles");
	_Static_assert(GROUP % CHUNK == 0, "groups are whole pieces");
	struct norm *norm = context;
	float room[CHUNK];
	(void)part;
	for (uint64_t at = begin, n; at < end; at += GROUP) {
		const uint64_t to = end - at < GROUP ? end : at + GROUP;
		struct moment_sum sum = { .tiles = 0 };
		for (uint64_t i = at; i < to; i += n) {
			n = to - i < CHUNK ? to - i : CHUNK;
			const float *g = read_signal(norm->w, norm->in, norm->first + i, n, room);
			moments_add_squares(&sum, g, n);
		}
		norm->of_group[at / GROUP] = moments_end(&sum);
	}
}

/* Returns the sum of the signal's squares, for clip=. The order is that of GPUs. The sum is finite
 * exactly if all values are, because no square of a float comes near the limit of doubles. */
static double sum_squares(const struct worker *w, const struct input *in)
{
	struct moment_sum sum = { .tiles = 0 };
	struct norm norm = { .w = w, .in = in };
	for (uint64_t n; norm.first < in->count; norm.first += n) {
		const uint64_t left = in->count - norm.first, most = (uint64_t)GROUPS * GROUP;
		n = left < most ? left : most;
		team_split(scratch_team(w->scratch), n, GROUP, sum_groups, &norm);
		for (uint64_t g = 0; g * GROUP < n; g++)
			moments_join(&sum, norm.of_group[g]);
	}
	return moments_end(&sum).second;
}

/* The noise is part of the gradient, so noise that is not sent also stays in the residual. */
static const float *with_noise(const struct worker *w, const struct input *in, uint64_t at,
			       size_t n, const float *g, float *room)
{
	/* The stream depends on the step and not on the exchange, so with when=every each local
	 * step has its own noise. */
	const struct random_stream stream = { RANDOM_NOISE, (uint32_t)w->job->rank,
					      w->step.done + 1, w->rules.recipe->seed };
	const float deviation = w->rules.recipe->signal.noise;
	float normal[CHUNK];

	random_normal_run(&stream, in->begin + at, n, normal);
	for (size_t i = 0; i < n; i++)
		room[i] = in->clip * g[i] + deviation * normal[i];
	return room;
}

/* ---- the terms of memory= ----------------------------------------------------- */

/* m <- (1 - beta) m + beta (p - c) (Chen et al., ScaleCom, NeurIPS 2020). left[] is p - c. */
static void lowpass(float *restrict left, float *restrict memory, size_t n, float beta)
{
	for (size_t i = 0; i < n; i++) {
		memory[i] = shrunk((1 - beta) * memory[i] + beta * left[i]);
		left[i] = memory[i];
	}
}

/* e <- (1 - beta) e + beta (newer d1 - older d2) (Tang et al., ErrorCompensatedX, NeurIPS 2021),
 * where d1 = left is the error of the last step and d2 that of the step before it. */
static void twostep(float *restrict left, float *restrict before, float *restrict filter, size_t n,
		    float beta, float newer, float older)
{
	if (!filter) /* beta = 1 */
		for (size_t i = 0; i < n; i++) {
			float e = newer * left[i] - older * before[i];

			before[i] = left[i];
			left[i] = e;
		}
	else
		for (size_t i = 0; i < n; i++) {
			filter[i] = shrunk((1 - beta) * filter[i] +
					   beta * (newer * left[i] - older * before[i]));
			before[i] = left[i];
			left[i] = filter[i];
		}
}

/* Replaces the residual of the last push, at coordinates at .. at + n - 1, by the term that the
 * recipe's memory adds in this step. Called once per step for each coordinate. */
static void recall(const struct worker *w, uint64_t at, size_t n)
{
	const struct recipe *recipe = w->rules.recipe;
	const uint64_t step = w->step.number;
	float *residual = worker_residual(w) + at;
	float *filter = w->kept.of[KEPT_FILTER];
	float alpha, newer, older;

	switch (recipe->memory.kind) {
	case MEMORY_NONE: return;
	case MEMORY_RESIDUAL:
		for (size_t i = 0; recipe->memory.decay < 1 && i < n; i++)
			residual[i] = shrunk(recipe->memory.decay * residual[i]);
		return;
	case MEMORY_LOWPASS:
		lowpass(residual, (float *)w->kept.of[KEPT_MEMORY] + at, n, recipe->memory.beta);
		return;
	case MEMORY_TWOSTEP:
		alpha = update_alpha(w->rules.update, step);
		newer = update_alpha(w->rules.update, step - 1) / alpha * (2 - alpha);
		older = update_alpha(w->rules.update, step - 2) / alpha * (1 - alpha);
		twostep(residual, (float *)w->kept.of[KEPT_MEMORY] + at,
			filter ? filter + at : NULL, n, recipe->memory.beta, newer, older);
		return;
	}
}

/* ---- the signal -------------------------------------------------------------- */

/* Folds n values of g into velocity and residual, while they are in the cache. */
static void fold(const struct worker *w, uint64_t at, const float *restrict g, size_t n,
		 float scale)
{
	const float *restrict reference = lazy_reference(w->lazy);
	float *own = w->local ? local_sum(w->local) : NULL;
	float *restrict sum = (own ? own : worker_residual(w)) + at;
	int keep = w->rules.recipe->memory.kind != MEMORY_NONE || own;
	if (reference) {
		reference += at;
		for (size_t i = 0; i < n; i++)
			sum[i] = scale * g[i] - reference[i];
		return;
	}
	if (w->rules.recipe->signal.kind == SIGNAL_MOMENTUM) {
		float *restrict u = compressor_velocity(w->compressor) + at;
		const float m = w->rules.recipe->signal.average.momentum;
		for (size_t i = 0; i < n; i++)
			u[i] = shrunk(m * u[i] + scale * g[i]);
		for (size_t i = 0; i < n; i++)
			sum[i] = keep ? sum[i] + u[i] : u[i];
	} else if (keep) {
		for (size_t i = 0; i < n; i++)
			sum[i] += scale * g[i];
	} else {
		for (size_t i = 0; i < n; i++)
			sum[i] = scale * g[i];
	}
}

/* Reads a block of the signal into lines of DCT_MOST elements. */
static void read_block(const struct worker *w, const struct input *in,
		       const struct transform_block *block, float *out)
{
	float room[DCT_MOST];

	for (uint32_t r = 0; r < block->rows; r++, out += DCT_MOST) {
		const float *g = read_signal(w, in, block->origin + r * block->stride,
					     block->columns, room);

		memcpy(out, g, block->columns * sizeof(*out));
		memset(out + block->columns, 0, (DCT_MOST - block->columns) * sizeof(*out));
	}
}

/* Transforms the signal, which is a whole vector, and folds it block by block. */
static void fold_blocks(const struct worker *w, const struct input *in, float factor)
{
	float values[DCT_MOST * DCT_MOST];

	for (uint64_t at = 0, n; at < in->count; at += n) {
		const struct transform_block block = transform_block_at(w->layout->transform, at);

		n = (uint64_t)block.rows * block.columns;
		read_block(w, in, &block, values);
		transform_forward(w->layout->transform, &block, values, values);
		recall(w, at, n);
		fold(w, at, values, n, factor);
	}
}

/* Returns 1 if the selection can add the gradient in its own pass. This is possible if no other
 * operation changes the gradient. */
static int selection_adds(const struct worker *w, const struct vector *grad)
{
	const uint64_t traits = w->step.rule.traits & ~TRAIT(HALF_GRADIENTS);

	return vector_floats(grad) && plan_takes(w->rules.plan, PATH_FOLD, traits);
}

/* Arguments and results of fold_part(). */
struct folding {
	const struct worker *w;
	const struct input *in;
	float factor;
	int late;               /* 1: the signal is checked while it is folded */
	int spoilt[TEAM_PARTS]; /* 1: it is not finite */
};

static void fold_part(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct folding *of = context;
	const struct worker *w = of->w;
	const uint64_t first = of->in->begin;
	float room[CHUNK];
	of->spoilt[part] = 0;
	for (uint64_t at = begin; at < end; at += CHUNK) {
		const size_t n = end - at < CHUNK ? end - at : CHUNK;
		const float *g = read_signal(w, of->in, at, n, room);
		if (of->late && first_nonfinite(g, n) < n) {
			of->spoilt[part] = 1;
			return;
		}
		if (w->rules.recipe->signal.noise > 0)
			g = with_noise(w, of->in, at, n, g, room);
		recall(w, first + at, n);
		fold(w, first + at, g, n, of->factor);
	}
}

/* With nonfinite=skip, checks all parameters and not only those of the fragment. If one of them is
 * not finite, the common parameters will replace them all. */
static int judge_drift(struct worker *w, const struct vector *params, uint64_t begin,
		       uint64_t count)
{
	return w->rules.recipe->nonfinite == NONFINITE_SKIP ?
		       judge(w, params, 0, 0, w->layout->count) :
		       judge(w, params, begin, begin, count);
}

/* A transform, a signal of two gradients and two-step memory can turn an overflow into NaN, which
 * no selector selects, so the training would stop moving without an error. */
static int look_for_overflow(struct worker *w, uint64_t begin, uint64_t count)
{
	const size_t at = first_nonfinite(worker_residual(w) + begin, count);

	if (at == count)
		return 0;
	step_fail(&w->step, w->layout->transform ? COORDINATE_UNKNOWN : begin + at);
	return nonfinite_sum(w, 0);
}

int signal_fold(struct worker *w, const struct vector *grad, const struct vector *before,
		uint64_t begin, uint64_t count, struct signal *out)
{
	const int drifts = recipe_drifts(w->rules.recipe); /* then grad is the whole vector */
	*out = (struct signal){ .addend = NULL };
	struct step *step = &w->step;
	step_leave_out(step, worker_stands(w));
	if (step->left_out)
		return 0;
	if (w->accumulates && vector_memory(grad) == worker_residual(w) + begin) {
		const struct vector sum = vector_of(vector_memory(grad), count, VALUE_F32, 1);
		out->summed = count == w->layout->count && selection_adds(w, &sum);
		return out->summed ? 0 : judge(w, &sum, 0, begin, count);
	}
	const struct source_row *source = &source_rows[source_of_step(w)];
	const enum nonfinite_policy nonfinite = w->rules.recipe->nonfinite;
	const float most = w->rules.recipe->clip.norm;
	struct input in = { .pushed = source_pushed(w, grad, before),
			    .source = source,
			    .begin = begin,
			    .count = count,
			    .from = drifts ? begin : 0,
			    .clip = 1 };
	/* If a value that is not finite would end the job anyway, the check can follow the
	 * addition, while the gradient is in the cache. With clip=, a finite sum of squares proves
	 * that all values are finite. */
	int late = nonfinite == NONFINITE_ABORT && !(most > 0) && !source->computed &&
		   !w->layout->transform;
	int judged = nonfinite == NONFINITE_SKIP_ALL;
	int by_sum = most > 0 && !drifts && !judged && nonfinite != NONFINITE_ZERO;
	double squares = by_sum ? sum_squares(w, &in) : 0;
	int checked = late || judged || (by_sum && isfinite(squares));
	int rc = checked ? 0 :
		 drifts  ? judge_drift(w, grad, begin, count) :
			   judge(w, grad, 0, begin, count);
	if (!rc && before && !checked)
		rc = judge(w, before, 0, begin, count);
	if (rc < 0)
		return rc;
	step_leave_out(step, rc);
	if (rc)
		return 0;
	if (most > 0 && !by_sum)
		squares = sum_squares(w, &in);
	if (most > 0)
		in.clip = clip_factor(squares, most);
	const float scale = update_pushed(w->rules.update, w->step.lr);
	float factor = scale * (w->rules.recipe->signal.noise > 0 ? 1 : in.clip);
	if (count == w->layout->count && selection_adds(w, grad)) {
		out->addend = vector_floats(grad);
		out->scale = factor;
		return 0;
	}
	if (w->layout->transform) {
		fold_blocks(w, &in, factor);
		return look_for_overflow(w, begin, count);
	}
	struct folding of = { .w = w, .in = &in, .factor = factor, .late = late };
	const unsigned parts = team_split(scratch_team(w->scratch), count, CHUNK, fold_part, &of);
	for (unsigned i = 0; i < parts; i++)
		if (of.spoilt[i])
			return judge(w, grad, 0, begin, count);
	if ((source->computed && !drifts) || w->rules.recipe->memory.kind == MEMORY_TWOSTEP)
		return look_for_overflow(w, begin, count);
	return 0;
}

int signal_spoilt(struct worker *w, const struct vector *grad, const struct vector *before)
{
	const uint64_t count = w->layout->count;
	const int first = judge(w, grad, 0, 0, count);

	return (before && judge(w, before, 0, 0, count)) || first;
}

int signal_judge_sum(struct worker *w, const struct vector *grad)
{
	const struct vector sum = vector_of(worker_residual(w), w->layout->count, VALUE_F32, 1);

	if (w->rules.recipe->nonfinite != NONFINITE_ABORT)
		return 0;
	return judge(w, grad ? grad : &sum, 0, 0, w->layout->count);
}
