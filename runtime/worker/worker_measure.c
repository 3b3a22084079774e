/* SPDX-License-Identifier: BSD-3-Clause
 * What compression takes away of a push (model/measure.h). Called by step.c, push_range.c and
 * worker.c. */
#include "worker/worker.h"
#include <string.h>

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
	m->up.all = m->up.lost = loss_squares(w->residual, count);
	if (m->before) /* selectors may scale in place */
		memcpy(m->before, w->residual, count * sizeof(*m->before));
}

void measure_sent(sluice_model *model, uint64_t begin, const uint32_t *index, uint32_t n)
{
	struct measure *m = &model->measure;

	if (m->under_way && m->before)
		m->up.lost -= loss_spared(m->before + begin, index, model->worker->value, n);
}

void measure_step(sluice_model *model)
{
	struct measure *m = &model->measure;

	if (!m->under_way)
		return;
	m->under_way = 0;
	if (!m->before) /* what was sent has left */
		m->up.lost = loss_squares(model->worker->residual, model->layout.count);
	model->stats.compression_error = loss_share(m->up);
}
