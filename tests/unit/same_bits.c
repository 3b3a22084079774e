/* SPDX-License-Identifier: BSD-3-Clause
 * See same_bits.h. */
#include "same_bits.h"
#include "base/bytes.h"
#include "checkpoint/checkpoint_file.h"
#include "worker/pull.h"
#include <string.h>

void side_open(struct side *s)
{
	CHECK_OK(sluice_model_open(s->job, &s->attr, s->params, &s->model));
}

static int recipe_has(const struct side *s, const char *word)
{
	return s->attr.recipe && strstr(s->attr.recipe, word) != NULL;
}

void side_push(struct side *s, const float *grad)
{
	if (recipe_has(s, "signal=storm"))
		CHECK_OK(sluice_push_pair(s->model, grad, grad));
	else
		CHECK_OK(sluice_push(s->model, recipe_has(s, "update=average") ? s->params : grad));
}

void side_gradient(float *grad, const float *params, const struct side *s)
{
	for (uint64_t i = 0; i < s->attr.count; i++) {
		const float z = noise(1, s->step, (uint64_t)s->rank, i);

		grad[i] = i % 11 == 0 ? 0 : i % 13 == 0 ? 0.25f : z * z * z + 0.1f * params[i];
	}
}

/* ---- comparing --------------------------------------------------------------- */

/* Saves the state of a model as in a checkpoint. Returns its length. */
static size_t save(struct side *s, uint8_t **state)
{
	size_t bytes;

	CHECK_OK(sluice_state_size(s->model, &bytes));
	*state = malloc(bytes);
	CHECK(*state);
	CHECK_OK(sluice_state_save(s->model, *state, bytes, 0));
	return bytes;
}

/* Compares section by section, because the header contains the save, and all checksums cover the
 * header. */
static void compare_states(struct side *one, struct side *other)
{
	uint8_t *a, *b;
	const size_t bytes = save(one, &a);

	CHECK(save(other, &b) == bytes);
	for (size_t at = CHECKPOINT_HEADER_BYTES; at < bytes;) {
		const size_t payload = get_le64(a + at + 8), begin = at + 20;

		CHECK(!memcmp(a + at, b + at, 16));
		CHECK(!memcmp(a + begin, b + begin, payload));
		at += CHECKPOINT_SECTION_BYTES + payload;
	}
	free(a);
	free(b);
}

static void compare_stats(struct side *one, struct side *other)
{
	sluice_model_stats a = { .size = sizeof(a) }, b = { .size = sizeof(b) };

	/* An exchange under way, of late(T), still counts bytes. */
	CHECK_OK(pull_settle(one->model->worker));
	CHECK_OK(pull_settle(other->model->worker));
	CHECK_OK(sluice_stats(one->model, &a));
	CHECK_OK(sluice_stats(other->model, &b));
	CHECK(a.pushed_bytes == b.pushed_bytes && a.pulled_bytes == b.pulled_bytes);
	CHECK(a.pushed_elements == b.pushed_elements);
	CHECK(a.deferred_elements == b.deferred_elements);
	CHECK(a.nonfinite_elements == b.nonfinite_elements);
	CHECK(!memcmp(&a.residual_norm, &b.residual_norm, sizeof(a.residual_norm)));
}

static void compare_vectors(struct side *other, const float *want, const float *had)
{
	if (other->way->compare)
		other->way->compare(other, want);
	else
		CHECK(!memcmp(want, had, other->attr.count * sizeof(*want)));
}

static void compare(struct side *one, struct side *other, const float *want, const float *had)
{
	const sluice_model_step a = step_of(one->model), b = step_of(other->model);

	compare_vectors(other, want, had);
	CHECK(a.steps == one->step && b.steps == one->step);
	CHECK(a.raised == b.raised && a.skipped == b.skipped && a.in_sync == b.in_sync);
	compare_stats(one, other);
	if (!a.in_sync)
		return;
	check_same(one->job, want, one->attr.count * sizeof(*want));
	compare_states(one, other);
}

/* ---- training ---------------------------------------------------------------- */

static void step(struct side side[2], float *params[2], float *mean[2], float *grad)
{
	const struct training *t = side->training;
	const int none = recipe_has(side, "update=none");

	(t->gradient ? t->gradient : side_gradient)(grad, params[0], side);
	for (int m = 0; m < 2; m++) {
		if (t->before)
			t->before(&side[m]);
		(side[m].way->push ? side[m].way->push : side_push)(&side[m], grad);
	}
	for (int m = 0; m < 2; m++) {
		if (side[m].way->pull)
			side[m].way->pull(&side[m], none ? mean[m] : side[m].params);
		else
			CHECK_OK(sluice_pull(side[m].model, none ? mean[m] : side[m].params));
	}
	compare(&side[0], &side[1], none ? mean[0] : params[0], none ? mean[1] : params[1]);
	if (t->after)
		t->after(&side[0], &side[1]);
}

void same_bits(sluice_job *job, const struct training *t, const struct way *one,
	       const struct way *other)
{
	const size_t count = t->attr.count;
	const int rank = sluice_rank(job);
	float *memory = calloc(5 * count, sizeof(*memory));
	float *params[2] = { memory, memory + count },
	      *mean[2] = { memory + 2 * count, memory + 3 * count };
	struct side side[2];

	check_of = t->attr.recipe;
	CHECK(memory);
	for (uint64_t i = 0; i < count && !t->start && !rank; i++)
		params[0][i] = noise(2, 0, 0, i);
	if (t->start)
		t->start(params[0], count, rank);
	memcpy(params[1], params[0], count * sizeof(*memory));
	for (int m = 0; m < 2; m++) {
		side[m] = (struct side){ .training = t,
					 .way = m ? other : one,
					 .other = &side[!m],
					 .job = job,
					 .rank = rank,
					 .attr = t->attr,
					 .params = params[m] };
		side[m].attr.size = sizeof(t->attr);
		(side[m].way->open ? side[m].way->open : side_open)(&side[m]);
	}
	compare_vectors(&side[1], params[0], params[1]);
	for (int i = 1; i <= t->steps; i++) {
		side[0].step = side[1].step = (uint64_t)i;
		step(side, params, mean, memory + 4 * count);
	}
	for (int m = 1; m >= 0; m--) {
		sluice_model_close(&side[m].model);
		if (side[m].way->close)
			side[m].way->close(&side[m]);
	}
	free(memory);
	check_of = "";
}
