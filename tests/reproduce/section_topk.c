/* SPDX-License-Identifier: BSD-3-Clause
 * Section 1: top-k in one and in both directions. */
#include "tests/reproduce/sections.h"
#include <math.h>
#include <stdlib.h>

/* ---- the counterexample: three workers that disagree ----------------------- */

enum { FIRST_COUNTED = 800 };
static const double targets[] = { 1, 5, 10 };
static const double least = 6100.0 / 9;

/* Adds the gap of the counted steps, on worker 0. */
static int add_gap(struct seat *seat)
{
	const struct problem *p = seat->run->problem;
	double *sum = seat->run->context;

	if (!seat->rank && seat->step >= FIRST_COUNTED)
		*sum += p->objective(p, seat->x) - least;
	return 0;
}

static int mean_gap(struct page *page, const struct problem *p, const char *recipe,
		    const char *label, int seeds, double gap[], struct outcome *out)
{
	for (int seed = 0; seed < seeds; seed++) {
		double sum = 0;
		struct run run = { .label = label,
				   .problem = p,
				   .recipe = recipe,
				   .workers = 3,
				   .lr = 0.01f,
				   .steps = 1000,
				   .seed = (unsigned)seed + 1,
				   .after = add_gap,
				   .context = &sum };

		if (!seed)
			page_curve(page, &run, "counterexample", label, 10);
		int rc = run_recipe(&run, out);

		free(out->x);
		if (!seed)
			page_run(page, &run, out);
		if (rc)
			return rc;
		gap[seed] = sum / (double)(run.steps - FIRST_COUNTED);
	}
	return 0;
}

static void counterexample(struct page *page)
{
	static const struct claim claim = {
		"bitopk", "a second top-k at the server follows the top-k of the sum more closely",
		"mean gap of steps 800-1000, both ways ≤ 0.9 × one way, over 10 seeds"
	};
	enum { SEEDS = 10 };
	const struct problem p = disagreement_problem(100, targets, 3);
	const int seeds = page->options.quick ? 1 : SEEDS;
	double uni[SEEDS], bi[SEEDS], uni_sum = 0, bi_sum = 0;
	int better = 0;
	struct outcome out;

	if (mean_gap(page, &p, "up=topk(0.01) down=all memory=residual", "one way", seeds, uni,
		     &out) ||
	    mean_gap(page, &p, "up=topk(0.01) down=topk(0.01) memory=residual", "both ways", seeds,
		     bi, &out)) {
		page_row_without(page, &claim, &out);
		return;
	}
	page_figure(page, "counterexample", "three workers that disagree, W = 3, k = 1 of 100");
	page_text(page, "Counterexample: mean of F - F* over steps 800-1000 by seed.\n\n"
			"| seed | one way | both ways | ratio |\n| --- | --- | --- | --- |\n");
	for (int s = 0; s < seeds; s++) {
		uni_sum += uni[s];
		bi_sum += bi[s];
		better += bi[s] < uni[s];
		page_text(page, "| %d | %.2f | %.2f | %.3f |\n", s + 1, uni[s], bi[s],
			  bi[s] / uni[s]);
	}
	page_text(page, "\n");
	page_row(page, &claim, bi_sum <= 0.9 * uni_sum ? VERDICT_HOLDS : VERDICT_FAILS,
		 "gap %.1f one way, %.1f both ways, ratio %.3f; both ways better in %d of %d",
		 uni_sum / seeds, bi_sum / seeds, bi_sum / uni_sum, better, seeds);
}

/* ---- the network ----------------------------------------------------------- */

/* Returns the mean size of the union of w random k-subsets of d. */
static double random_union(double d, double k, int w)
{
	return d * (1 - pow(1 - k / d, w));
}

static void network(struct page *page)
{
	static const struct claim accuracy = { "bitopk", "the second selection costs no accuracy",
					       "accuracy both ways within 0.01 of one way" };
	static const struct claim saving = { "bitopk", "what is saved down grows linearly with W",
					     "|U|/k_d ≥ 0.85 W" };
	static const struct claim size = { "topk",
					   "the union of W selections is that of random sets",
					   "|U| within 10 % of d(1 - (1 - k/d)^W)" };
	static const int most[] = { 5, 10, 20 };
	const struct problem p = mlp_problem(32, 16);
	const double d = (double)p.count, k = 254;
	const int quick = page->options.quick;
	double worst_accuracy = 0, worst_saving = INFINITY, worst_size = 0;

	page_figure(page, "topk", "MLP, W = 20, k = 1 %");
	page_text(page,
		  "MLP 784-32-10, k = k_d = 254 (1 %%), rate 0.3, batch 16, %d steps.\n\n"
		  "| W | accuracy dense | one way | both ways | \\|U\\| | formula | saved down | "
		  "saved both ways |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n",
		  quick ? 20 : 300);
	for (int i = 0; i < (quick ? 1 : 3); i++) {
		static const char *labels[] = { "dense", "one way", "both ways" };
		static const char *recipes[] = { "up=all down=all", "up=topk(0.00998) down=all",
						 "up=topk(0.00998) down=topk(0.00998)" };
		struct outcome out[3];
		double got[3] = { 0 }, down[3], up[3];

		for (int r = 0; r < 3; r++) {
			struct run run = { .label = labels[r],
					   .problem = &p,
					   .recipe = recipes[r],
					   .workers = most[i],
					   .lr = 0.3f,
					   .steps = quick ? 20 : 300,
					   .seed = 1 };

			if (most[i] == 20)
				page_curve(page, &run, "topk", labels[r], 10);
			if (!run_recipe(&run, &out[r]))
				got[r] = p.accuracy(&p, out[r].x);
			free(out[r].x);
			page_run(page, &run, &out[r]);
			up[r] = up_per_step(&run, &out[r]);
			down[r] = down_per_step(&run, &out[r]);
			if (out[r].rc) {
				page_row_without(page, &accuracy, &out[r]);
				return;
			}
		}
		double expected = random_union(d, k, most[i]), ratio = down[1] / down[2];

		worst_accuracy = fmax(worst_accuracy, fabs(got[2] - got[1]));
		worst_saving = fmin(worst_saving, ratio / most[i]);
		worst_size = fmax(worst_size, fabs(down[1] / expected - 1));
		page_text(page, "| %d | %.4f | %.4f | %.4f | %.0f | %.0f | %.2f | %.2f |\n",
			  most[i], got[0], got[1], got[2], down[1], expected, ratio,
			  (up[1] + down[1]) / (up[2] + down[2]));
	}
	page_text(page, "\n");
	page_row(page, &accuracy, worst_accuracy <= 0.01 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "largest difference %.4f (W = 5, 10, 20)", worst_accuracy);
	page_row(page, &saving, worst_saving >= 0.85 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "smallest saving %.3f W", worst_saving);
	page_row(page, &size, worst_size <= 0.1 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "largest deviation %.1f %%", 100 * worst_size);
}

/* ---- the thesis' saving table ---------------------------------------------- */

static void savings(struct page *page)
{
	static const struct claim claim = {
		"bitopk", "down saving almost linear in W: 10, 20, 45-48, 78-91 in the thesis",
		"saving ≥ the smallest of the thesis less 10 %, at W = 10, 20, 50, 100"
	};
	static const struct {
		int workers;
		float uni, bi;
		const char *thesis;
		double least;
	} rows[] = { { 10, 0.04f, 0.1f, "10", 10 },
		     { 20, 0.06f, 0.13f, "20", 19.5 },
		     { 50, 0.11f, 0.18f, "45-48", 45 },
		     { 100, 0.17f, 0.24f, "78-91", 78 } };
	const struct problem p = mlp_problem(64, 10);
	const double d = (double)p.count, k = 50;
	const int quick = page->options.quick;
	double worst = INFINITY;

	page_text(page,
		  "MLP 784-64-10, k = k_d = 50 (0.1 %%), batch 10, %d steps: |U| on average.\n\n"
		  "| W | \\|U\\| one way | random sets | k_d both ways | saved down | thesis | "
		  "saved both ways |\n| --- | --- | --- | --- | --- | --- | --- |\n",
		  quick ? 5 : 200);
	for (int i = 0; i < (quick ? 1 : 4); i++) {
		struct outcome out[2];
		double down[2], up[2];

		for (int r = 0; r < 2; r++) {
			struct run run = { .label = r ? "thesis, both ways" : "thesis, one way",
					   .problem = &p,
					   .recipe = r ? "up=topk(0.000982) down=topk(0.000982)" :
							 "up=topk(0.000982) down=all",
					   .workers = rows[i].workers,
					   .lr = r ? rows[i].bi : rows[i].uni,
					   .steps = quick ? 5 : 200,
					   .seed = 1 };

			run_recipe(&run, &out[r]);
			free(out[r].x);
			page_run(page, &run, &out[r]);
			up[r] = up_per_step(&run, &out[r]);
			down[r] = down_per_step(&run, &out[r]);
			if (out[r].rc) {
				page_row_without(page, &claim, &out[r]);
				return;
			}
		}
		worst = fmin(worst, down[0] / down[1] / rows[i].least);
		page_text(page, "| %d | %.0f | %.0f | %.1f | %.1f | %s | %.1f |\n", rows[i].workers,
			  down[0], random_union(d, k, rows[i].workers), down[1], down[0] / down[1],
			  rows[i].thesis, (up[0] + down[0]) / (up[1] + down[1]));
	}
	page_text(page, "\n");
	page_row(page, &claim, worst >= 0.9 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "at worst %.3f of the thesis' smallest (table in section 1)", worst);
}

void section_topk(struct page *page)
{
	counterexample(page);
	network(page);
	savings(page);
}
