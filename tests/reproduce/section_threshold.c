/* SPDX-License-Identifier: BSD-3-Clause
 * Section 2: a hard threshold against top-k at equal numbers of elements sent. */
#include "tests/reproduce/sections.h"
#include <math.h>
#include <stdlib.h>

enum { WORKERS = 8 };

struct point {
	double elements, error, gap; /* elements that a worker sent in total; sum of |e_i|^2; f -
					f* */
};

/* Adds the residual's content after each step of each worker. */
static int add_error(struct seat *seat)
{
	sluice_model_stats stats = { .size = sizeof stats };
	double *sum = seat->run->context;
	int rc = sluice_stats(seat->model, &stats);

	*sum += stats.residual_norm * stats.residual_norm;
	return rc;
}

static int measure(struct page *page, const struct problem *p, const char *label,
		   const char *recipe, double optimum, struct point *at, struct outcome *out)
{
	double error = 0;
	struct run run = { .label = label,
			   .problem = p,
			   .recipe = recipe,
			   .workers = WORKERS,
			   .lr = 1,
			   .decay = 100,
			   .steps = page->options.quick ? 20 : 1500,
			   .seed = 1,
			   .after = add_error,
			   .context = &error };

	page_curve(page, &run, "threshold", label, 25);
	at->gap = objective_after(&run, out) - optimum;
	at->elements = up_per_step(&run, out) * (double)out->steps;
	at->error = error;
	page_run(page, &run, out);
	if (!out->rc)
		page_text(page, "| %s | %.0f | %.0f | %.5f |\n", label, at->elements, error,
			  at->gap);
	return out->rc;
}

/* Returns the log error at this number of elements on the line through the top-k points, or NaN
 * outside of it. */
static double interpolated(const struct point *line, int n, double elements)
{
	for (int i = 0; i + 1 < n; i++)
		if (line[i].elements <= elements && elements <= line[i + 1].elements) {
			double share = log(elements / line[i].elements) /
				       log(line[i + 1].elements / line[i].elements);

			return exp(log(line[i].error) * (1 - share) +
				   log(line[i + 1].error) * share);
		}
	return NAN;
}

void section_threshold(struct page *page)
{
	static const struct claim total = {
		"threshold", "least total error at a given number of elements",
		"Σ‖e‖² ≤ 0.85 × that of top-k at equal elements (log-log between top-1, 2, 4)"
	};
	static const struct claim quality = { "threshold", "as good as dense",
					      "f - f* ≤ 1.25 × dense, all thresholds" };
	static const char *topk[] = { "up=topk(0.008) down=all memory=residual(inside)",
				      "up=topk(0.016) down=all memory=residual(inside)",
				      "up=topk(0.032) down=all memory=residual(inside)" };
	static const char *topk_labels[] = { "top-1", "top-2", "top-4" };
	static const char *levels[] = { "up=threshold(0.12) down=all memory=residual(inside)",
					"up=threshold(0.08) down=all memory=residual(inside)",
					"up=threshold(0.05) down=all memory=residual(inside)",
					"up=threshold(0.03) down=all memory=residual(inside)",
					"up=threshold(0.02) down=all memory=residual(inside)" };
	static const char *level_labels[] = { "threshold 0.12", "threshold 0.08", "threshold 0.05",
					      "threshold 0.03", "threshold 0.02" };
	struct point line[3], dense, at;
	struct outcome out;
	struct rows rows;
	double worst_ratio = 0, worst_gap = 0;
	int compared = 0;

	if (!page_a9a(page, &rows, &total))
		return;
	const struct problem p = logistic_problem("A9A", &rows, 1e-4, 16);
	const double optimum = regression_optimum(&p, NULL);

	page_figure(page, "threshold", "a9a, 8 workers");
	page_text(page,
		  "A9A, %d workers, batch 16, rate 1/(1 + t/100), f* = %.10f.\n\n"
		  "| run | elements a worker | Σ‖e‖² | f - f* |\n| --- | --- | --- | --- |\n",
		  WORKERS, optimum);
	int rc = measure(page, &p, "dense", "up=all down=all", optimum, &dense, &out);

	for (int i = 0; i < 3 && !rc; i++)
		rc = measure(page, &p, topk_labels[i], topk[i], optimum, &line[i], &out);
	for (int i = 0; i < 5 && !rc; i++) {
		rc = measure(page, &p, level_labels[i], levels[i], optimum, &at, &out);
		double other = interpolated(line, 3, at.elements);

		worst_gap = fmax(worst_gap, at.gap / dense.gap);
		if (isnan(other))
			continue;
		worst_ratio = fmax(worst_ratio, at.error / other);
		compared++;
	}
	page_text(page, "\n");
	if (rc) {
		page_row_without(page, &total, &out);
		return;
	}
	page_row(page, &total, compared && worst_ratio <= 0.85 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "ratio %.3f at worst of %d thresholds within the range", worst_ratio, compared);
	page_row(page, &quality, worst_gap <= 1.25 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "at worst %.3f × dense", worst_gap);
}
