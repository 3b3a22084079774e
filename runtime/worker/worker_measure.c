/* SPDX-License-Identifier: BSD-3-Clause
 * See worker_measure.h. */
#include "worker/worker_measure.h"
#include "worker/hooks.h"
#include "worker/signal.h"
#include "worker/state.h"
#include <string.h>

/* Once the push of a step is measured, the rest of the step is measured too, until its pull
 * ends. */
static int measure_used(const struct worker *w)
{
	return w->model.measure->on;
}

/* Called when the residual is complete and nothing is picked yet. */
static void measure_folded(struct worker *w, struct signal *signal)
{
	struct measure *m = w->model.measure;
	const struct fragment fragment = worker_fragment(w);
	float *residual = worker_residual(w) + fragment.begin;
	const uint64_t count = fragment.count;

	m->under_way = m->on && !w->step.left_out;
	if (!m->under_way)
		return;
	if (signal->addend) { /* makes the sum, with the same bits as in the selection */
		for (uint64_t i = 0; i < count; i++)
			residual[i] += signal->scale * signal->addend[i]; /* there are no
									     fragments */
		signal->addend = NULL;
	}
	m->up.all = m->up.lost = loss_squares(residual, count);
	if (m->before) /* keeps a copy, because selectors may scale in place */
		memcpy(m->before + fragment.begin, residual, count * sizeof(*m->before));
}

static void measure_emitted(struct worker *w, const struct shard_layout *at,
			    const struct pick *emitted)
{
	struct measure *m = w->model.measure;

	if (m->under_way && m->before)
		m->up.lost -= loss_spared(m->before + at->begin, emitted->index, emitted->value,
					  (uint32_t)emitted->n);
}

static void measure_pulled(struct worker *w)
{
	const struct fragment fragment = worker_fragment(w);
	struct measure *m = w->model.measure;

	if (!m->under_way)
		return;
	m->under_way = 0;
	if (!m->before) /* without a copy, the residual holds only values that were not sent */
		m->up.lost = loss_squares(worker_residual(w) + fragment.begin, fragment.count);
	w->model.stats->compression_error = loss_share(m->up);
}

const struct step_hooks measure_hooks = { .used = measure_used,
					  .folded = measure_folded,
					  .emitted = measure_emitted,
					  .pulled = measure_pulled };
