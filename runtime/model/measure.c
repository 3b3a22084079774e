/* SPDX-License-Identifier: BSD-3-Clause
 * See measure.h. */
#include "model/measure.h"
#include "base/error.h"
#include "model/model.h"
#include <stdlib.h>
#include <string.h>

SLUICE_API int sluice_measure(sluice_model *model, int on)
{
	if (!model)
		return fail(SLUICE_EINVAL, "sluice_measure: the model is NULL");

	struct measure *m = &model->measure;
	int copies = on && sluice_is_worker(model->job) && model->recipe.memory == MEMORY_NONE;

	if (copies && !m->before) {
		m->before = malloc(model->layout.count * sizeof(*m->before));
		if (!m->before)
			return fail(SLUICE_ENOMEM, "sluice_measure: no memory for %llu coordinates",
				    (unsigned long long)model->layout.count);
	}
	progress_take(model->job); /* shards ask too */
	m->on = on != 0;
	progress_release(model->job);
	if (!on) {
		m->under_way = 0;
		free(m->before);
		m->before = NULL;
	}
	return 0;
}

static double squares(const float *x, uint64_t n)
{
	double sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	return sum;
}

/* By how much the loss is smaller for what is sent. */
static double spared(const float *x, const uint32_t *index, const float *decoded, uint32_t n)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		double a = (double)x[index ? index[i] : i], left = a - (double)decoded[i];

		sum += a * a - left * left;
	}
	return sum;
}

void measure_push(sluice_model *model)
{
	struct measure *m = &model->measure;
	struct worker *w = model->worker;
	const uint64_t count = model->layout.count;

	m->under_way = m->on && !w->skip;
	if (!m->under_way)
		return;
	if (w->addend) { /* the same bits as the selection would make */
		for (uint64_t i = 0; i < count; i++)
			w->residual[i] += w->addend_scale * w->addend[i];
		w->addend = NULL;
	}
	m->up.all = m->up.lost = squares(w->residual, count);
	if (m->before) /* selectors may scale in place */
		memcpy(m->before, w->residual, count * sizeof(*m->before));
}

void measure_sent(sluice_model *model, uint64_t begin, const uint32_t *index, uint32_t n)
{
	struct measure *m = &model->measure;

	if (m->under_way && m->before)
		m->up.lost -= spared(m->before + begin, index, model->worker->value, n);
}

void measure_step(sluice_model *model)
{
	struct measure *m = &model->measure;

	if (!m->under_way)
		return;
	m->under_way = 0;
	if (!m->before) /* what was sent has left */
		m->up.lost = squares(model->worker->residual, model->layout.count);
	model->stats.compression_error = loss_share(m->up);
}

void measure_published(sluice_model *model, struct shard *shard, const float *x, const uint32_t *index,
		       uint32_t n)
{
	/* An unbiased selector has scaled x already: nothing is known of what it was. */
	if (!model->measure.on || selection_kinds[model->recipe.down.select].unbiased)
		return;
	shard->loss.all = squares(x, shard->at->span);
	shard->loss.lost = shard->loss.all - spared(x, index, model->value, n);
}
