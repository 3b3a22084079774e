/* SPDX-License-Identifier: BSD-3-Clause
 * See lazy.h. */
#include "tests/reproduce/lazy.h"
#include "tests/reproduce/memory.h"
#include "compress/message.h"

enum { MOST_WORKERS = 16 };

struct trace {
	const struct descent *descent;
	double first_gap;
	uint64_t done, stop;
	/* Arrays by step, because a worker may be one step ahead of the worker that detects the
	 * end; and by worker, for differences. */
	uint64_t *uploads, *bytes;
	uint64_t elements_before[MOST_WORKERS], bytes_before[MOST_WORKERS];
};

/* The server's rule knows each worker's smoothness. A gradient that is not wanted is not
 * computed. */
static int push_if_wanted(struct seat *seat)
{
	const struct trace *t = seat->run->context;
	int rc = seat->step ? 0 :
			      sluice_set(seat->model, SLUICE_SMOOTHNESS,
					 (float)t->descent->smoothness_of[seat->rank]);
	int wanted = step_of(seat->model).wanted;

	if (wanted)
		seat_gradient(seat, seat->x, seat->grad);
	rc = rc ? rc : sluice_push(seat->model, wanted ? seat->grad : NULL);
	return rc ? rc : sluice_pull(seat->model, seat->x);
}

static int look(struct seat *seat)
{
	struct trace *t = seat->run->context;
	const struct problem *p = seat->run->problem;
	sluice_model_stats stats = { .size = offsetof(sluice_model_stats, residual_norm) };
	int rc = sluice_stats(seat->model, &stats);

	t->uploads[seat->step] += stats.pushed_elements > t->elements_before[seat->rank];
	t->bytes[seat->step] += stats.pushed_bytes - t->bytes_before[seat->rank];
	t->elements_before[seat->rank] = stats.pushed_elements;
	t->bytes_before[seat->rank] = stats.pushed_bytes;
	if (seat->rank || t->done)
		return rc;
	if (p->objective(p, seat->x) - t->descent->optimum <= 1e-6 * t->first_gap) {
		t->done = seat->step + 1;
		t->stop = seat->step + 2;
	}
	return rc;
}

int descend(struct page *page, const struct descent *d, struct reached *reached,
	    struct outcome *out)
{
	const struct problem *p = d->problem;
	struct trace t = { .descent = d, .stop = UINT64_MAX };
	struct run run = { .label = d->label,
			   .problem = p,
			   .recipe = d->recipe,
			   .workers = d->workers,
			   .lr = (float)(1 / d->smoothness),
			   .steps = page->options.quick ? 20 : d->most_steps,
			   .stop = &t.stop,
			   .seed = 1,
			   .step = d->smoothness_of ? push_if_wanted : NULL,
			   .after = look,
			   .context = &t };
	float *x = zeroed(p->count, sizeof *x);

	if (d->figure)
		page_curve(page, &run, d->figure, d->label, 5);
	p->start(p, run.seed, x);
	t.first_gap = p->objective(p, x) - d->optimum;
	free(x);
	t.uploads = zeroed(2 * run.steps, sizeof *t.uploads);
	t.bytes = t.uploads + run.steps;
	int rc = run_recipe(&run, out);

	free(out->x);
	page_run(page, &run, out);
	*reached = (struct reached){ .steps = t.done };
	for (uint64_t s = 0; s < t.done; s++) {
		reached->uploads += t.uploads[s];
		reached->bits += 8.0 * (double)t.bytes[s];
	}
	reached->payload_bits = reached->bits -
				8.0 * MESSAGE_HEADER_BYTES * (double)t.done * d->workers;
	free(t.uploads);
	return rc;
}
