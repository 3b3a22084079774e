/* SPDX-License-Identifier: BSD-3-Clause
 * Section 6: the heavy coordinates of the sum, from the sum of sketches. */
#include "tests/reproduce/sections.h"
#include "tests/reproduce/memory.h"
#include <math.h>
#include <string.h>

enum { BATCH = 256, K = 100 };

static int train(struct page *page, const struct rows *rows, const char *label, const char *recipe,
		 int workers, double *loss, double *down, struct outcome *out)
{
	const struct problem p = logistic_problem("TEXT", rows, 0, BATCH / (uint32_t)workers);
	struct run run = { .label = label,
			   .problem = &p,
			   .recipe = recipe,
			   .workers = workers,
			   .lr = 0.5f,
			   .steps = page->options.quick ? 5 : 300,
			   .seed = 1 };

	if (workers == 16 ||
	    (workers < 16 && strcmp(label, "sketch") && strcmp(label, "local top-k")))
		page_curve(page, &run, "sketch", label, 5);
	*loss = objective_after(&run, out);
	*down = down_per_step(&run, out);
	page_run(page, &run, out);
	if (!out->rc)
		page_text(page, "| %s | %d | %.4f | %.1f | %.1f |\n", label, workers, *loss,
			  up_per_step(&run, out), *down);
	return out->rc;
}

static void training(struct page *page)
{
	static const struct claim quality = { "sketched", "as good as the true top-k of the sum",
					      "loss ≤ true top-k + 0.02, W = 4, 16, 64 (TEXT)" };
	static const struct claim volume = { "sketched", "what comes down does not depend on W",
					     "coordinates down ≤ k in W = 4, 16, 64, 256" };
	static const char sketched[] = "up=sketch(0.01,5,1.6,4) down=all signal=momentum(0.9) "
				       "memory=residual(outside)";
	static const char local[] =
		"up=topk(0.01) down=all signal=momentum(0.9) memory=residual(outside)";
	static const int sizes[] = { 4, 16, 64, 256 };
	const struct rows rows = text_rows();
	const int n = page->options.quick ? 1 : 4;
	double dense, best, loss, down, unused, worst_loss = -INFINITY, most_down = 0;
	struct outcome out;

	page_figure(page, "sketch", "TEXT, 1 % (16 workers; dense 4, true top-k 1)");
	page_text(page,
		  "TEXT, batch %d in all, rate 0.5, momentum 0.9, k = %d.\n\n"
		  "| run | W | loss | elements up | down |\n| --- | --- | --- | --- | --- |\n",
		  BATCH, K);
	/* One worker with the whole batch selects from the sum itself. */
	if (train(page, &rows, "dense", "up=all down=all update=momentum(0.9)", 4, &dense, &unused,
		  &out) ||
	    train(page, &rows, "true top-k", local, 1, &best, &unused, &out)) {
		page_row_without(page, &quality, &out);
		return;
	}
	for (int i = 0; i < (n < 3 ? n : 3); i++)
		train(page, &rows, "local top-k", local, sizes[i], &loss, &unused, &out);
	for (int i = 0; i < n; i++) {
		if (train(page, &rows, "sketch", sketched, sizes[i], &loss, &down, &out)) {
			page_row_without(page, &quality, &out);
			return;
		}
		if (sizes[i] <= 64)
			worst_loss = fmax(worst_loss, loss);
		most_down = fmax(most_down, down);
	}
	page_text(page, "\n");
	page_row(page, &quality, worst_loss <= best + 0.02 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "dense %.4f, true top-k %.4f, sketch at worst %.4f", dense, best, worst_loss);
	page_row(page, &volume, most_down <= K ? VERDICT_HOLDS : VERDICT_FAILS,
		 "at most %.1f coordinates", most_down);
}

/* ---- what a sketch recovers ------------------------------------------------ */

static void planted(const struct problem *p, const float *x, const struct sample *at, float *grad)
{
	(void)x;
	(void)at;
	/* The large values are spread, because 7 and the length have no common divisor. */
	for (size_t j = 0; j < p->count; j++)
		grad[7 * j % p->count] = (float)pow((double)j + 1, -0.8);
}

static void recovery(struct page *page)
{
	enum { LENGTH = 7850, HEAVY = 80 };
	static const struct claim claim = { "sketched", "recovers the heavy coordinates",
					    "overlap with the true top-80 of j^-0.8 at P = 4: ≥ "
					    "0.45, 0.8, 0.95 for 160, 400, 800 columns" };
	static const double columns[] = { 2, 5, 10 }, wanted[] = { 0.45, 0.8, 0.95 };
	const struct problem p = {
		.name = "j^-0.8", .count = LENGTH, .start = start_at_zero, .gradient = planted
	};
	double overlap[3];
	int enough = 1;

	for (int i = 0; i < 3; i++) {
		char recipe[128];
		struct run run = { .label = "recovery",
				   .problem = &p,
				   .recipe = recipe,
				   .workers = 1,
				   .lr = 1,
				   .steps = 1,
				   .seed = 1 };
		struct outcome out;
		int found = 0;

		snprintf(recipe, sizeof recipe,
			 "up=sketch(0.01019,5,%g,4) down=all memory=residual(outside)", columns[i]);
		run_recipe(&run, &out);
		for (size_t j = 0; j < HEAVY && !out.rc; j++)
			found += out.x[7 * j % LENGTH] != 0;
		free(out.x);
		page_run(page, &run, &out);
		if (out.rc) {
			page_row_without(page, &claim, &out);
			return;
		}
		overlap[i] = (double)found / HEAVY;
		enough &= overlap[i] >= wanted[i];
	}
	page_row(page, &claim, enough ? VERDICT_HOLDS : VERDICT_FAILS, "%.2f, %.2f, %.2f",
		 overlap[0], overlap[1], overlap[2]);
}

void section_sketch(struct page *page)
{
	training(page);
	recovery(page);
}
