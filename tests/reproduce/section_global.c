/* SPDX-License-Identifier: BSD-3-Clause
 * Section 13, the use of histograms: one threshold over all workers decides how many coordinates
 * each of them sends. Workers whose gradients differ in scale are compared with an equal number for
 * each. */
#include "tests/reproduce/sections.h"
#include "tests/reproduce/draw.h"
#include "tests/reproduce/memory.h"
#include <math.h>

enum { WORKERS = 16, D = 100000, STEPS = 12 };

/* Squared exponentials whose scale grows with the worker's number. */
static void scaled(const struct problem *p, const float *x, const struct sample *at, float *grad)
{
	const struct random_stream s = draw_stream(DRAW_SHAPE, 8, (unsigned)at->worker, 0);

	(void)x;
	for (size_t j = 0; j < p->count; j++) {
		double u = log(draw_uniform(&s, j));

		grad[j] = (float)(u * u * (1 + at->worker));
	}
}

struct last_push {
	uint64_t before[WORKERS], sent[WORKERS]; /* elements of earlier steps, and of the last
						    one */
};

static int count_last(struct seat *seat)
{
	struct last_push *last = seat->run->context;
	sluice_model_stats stats = { .size = offsetof(sluice_model_stats, residual_norm) };
	int rc = sluice_stats(seat->model, &stats);

	last->sent[seat->rank] = stats.pushed_elements - last->before[seat->rank];
	last->before[seat->rank] = stats.pushed_elements;
	return rc;
}

static int descending(const void *a, const void *b)
{
	float left = *(const float *)a, right = *(const float *)b;

	return (left < right) - (left > right);
}

/* Returns the share of the energy of all workers in the sent[w] largest coordinates of each. */
static double energy_captured(const struct problem *p, const uint64_t sent[WORKERS])
{
	float *grad = zeroed(p->count, sizeof *grad);
	double captured = 0, all = 0;

	for (int w = 0; w < WORKERS; w++) {
		const struct sample sample = { .worker = w, .workers = WORKERS };

		p->gradient(p, NULL, &sample, grad);
		qsort(grad, p->count, sizeof *grad, descending);
		for (size_t j = 0; j < p->count; j++) {
			double square = (double)grad[j] * (double)grad[j];

			captured += j < sent[w] ? square : 0;
			all += square;
		}
	}
	free(grad);
	return captured / all;
}

void global_threshold(struct page *page)
{
	static const struct claim claim = {
		"global", "one threshold over all workers captures more with as many coordinates",
		"selected / wanted within 5 %, and more energy than top-k of the same density"
	};
	static const double densities[] = { 0.001, 0.01, 0.1 };
	const struct problem p = { .name = "squared exponentials",
				   .count = D,
				   .start = start_at_zero,
				   .gradient = scaled };
	double worst = 0, gain = INFINITY;

	page_text(page,
		  "%d workers, gradients of a scale that grows with the rank; the last of %d "
		  "steps.\n\n"
		  "| density | selected / wanted | first worker | last worker | energy | of local "
		  "top-k |\n"
		  "| --- | --- | --- | --- | --- | --- |\n",
		  WORKERS, STEPS);
	for (int i = 0; i < (page->options.quick ? 1 : 3); i++) {
		double energy[2], total = 0;
		struct last_push last;

		for (int global = 0; global < 2; global++) {
			char recipe[128];
			struct run run = { .label = global ? "global" : "local",
					   .problem = &p,
					   .recipe = recipe,
					   .workers = WORKERS,
					   .lr = 1,
					   .steps = STEPS,
					   .seed = 1,
					   .after = count_last,
					   .context = &last };
			struct outcome out;

			last = (struct last_push){ { 0 }, { 0 } };
			snprintf(recipe, sizeof recipe, "up=%s(%g%s) down=all memory=none",
				 global ? "global" : "topk", densities[i], global ? ",5" : "");
			run_recipe(&run, &out);
			free(out.x);
			page_run(page, &run, &out);
			if (out.rc) {
				page_row_without(page, &claim, &out);
				return;
			}
			energy[global] = energy_captured(&p, last.sent);
		}
		for (int w = 0; w < WORKERS; w++)
			total += (double)last.sent[w];
		double ratio = total / (densities[i] * D * WORKERS);

		worst = fmax(worst, fabs(ratio - 1));
		gain = fmin(gain, energy[1] / energy[0]);
		page_text(page, "| %g | %.3f | %llu | %llu | %.4f | %.4f |\n", densities[i], ratio,
			  (unsigned long long)last.sent[0],
			  (unsigned long long)last.sent[WORKERS - 1], energy[1], energy[0]);
	}
	page_text(page, "\n");
	page_row(page, &claim, worst <= 0.05 && gain > 1 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "off by at most %.1f %%, energy at least %.3f × that of top-k", 100 * worst, gain);
}
