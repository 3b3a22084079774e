/* SPDX-License-Identifier: BSD-3-Clause
 * Section 4: two earlier errors compensate for compression inside a running average, one does
 * not. */
#include "tests/reproduce/sections.h"
#include "worker/state.h"
#include <math.h>
#include <stdlib.h>

enum { D = 100, WORKERS = 4, LAST = 500 };
static const double rate = 0.2, alpha = 0.1;

/* Adds f of the last steps, on worker 0, for its mean. */
static int add_tail(struct seat *seat)
{
	double *sum = seat->run->context;
	const struct problem *p = seat->run->problem;

	if (!seat->rank && seat->step + LAST >= seat->run->steps)
		*sum += p->objective(p, seat->x) / LAST;
	return 0;
}

/* storm also needs the gradient of the same sample at the previous point. */
static int step_pair(struct seat *seat)
{
	float point[D], before[D];
	int rc = sluice_point(seat->model, seat->x, point);

	seat_gradient(seat, seat->x, seat->grad);
	seat_gradient(seat, point, before);
	rc = rc ? rc : sluice_push_pair(seat->model, seat->grad, before);
	return rc ? rc : sluice_pull(seat->model, seat->x);
}

static int measure(struct page *page, const struct problem *p, const char *label,
		   const char *recipe, int storm, double *mean, struct outcome *out)
{
	struct run run = { .label = label,
			   .problem = p,
			   .recipe = recipe,
			   .workers = WORKERS,
			   .lr = (float)rate,
			   .steps = page->options.quick ? LAST : 4000,
			   .seed = 1,
			   .step = storm ? step_pair : NULL,
			   .after = add_tail,
			   .context = mean };

	*mean = 0;
	run_recipe(&run, out);
	free(out->x);
	page_run(page, &run, out);
	return out->rc;
}

/* ---- the errors cancel ----------------------------------------------------- */

/* Only one rank runs at a time, so all write here. */
struct ledger {
	double grad[D], error[D]; /* sums of this step over the workers */
	double average[D], moved[D],
		size[D]; /* without compression: v, sum of rate x v and of its magnitude */
	double worst;    /* deviation / (1e-6 of the moved amount) */
};

static void compare(struct ledger *book, const struct seat *seat)
{
	const double share = seat->step ? alpha : 1; /* share of this step */

	for (size_t j = 0; j < D; j++) {
		book->average[j] = (1 - share) * book->average[j] + share * book->grad[j] / WORKERS;
		book->moved[j] += rate * book->average[j];
		book->size[j] += rate * fabs(book->grad[j]) / WORKERS;
		double there = (double)seat->x[j] - rate * share * book->error[j] / WORKERS;
		double off = fabs(there - (1 - book->moved[j]));

		book->worst = fmax(book->worst, off / (1e-6 * (1 + book->size[j])));
		book->grad[j] = book->error[j] = 0;
	}
}

static int enter(struct seat *seat)
{
	struct ledger *book = seat->run->context;

	for (size_t j = 0; j < D; j++) {
		book->grad[j] += (double)seat->grad[j];
		book->error[j] += (double)worker_residual(seat->model->worker)[j];
	}
	int rc = sluice_barrier(seat->job);

	if (!rc && !seat->rank)
		compare(book, seat);
	return rc ? rc : sluice_barrier(seat->job);
}

static void cancellation(struct page *page, const struct problem *p)
{
	static const struct claim claim = { "ecx", "the errors cancel but for the last",
					    "x - η α mean δ = x0 - Σ η v (v not compressed) at "
					    "every step, within 1e-6 of what moved" };
	struct ledger book = { .worst = 0 };
	struct run run = { .label = "cancellation",
			   .problem = p,
			   .workers = WORKERS,
			   .lr = (float)rate,
			   .recipe = "up=all,round(1) down=all memory=twostep(1) update=ema(0.1)",
			   .steps = page->options.quick ? 20 : 500,
			   .seed = 1,
			   .after = enter,
			   .context = &book };
	struct outcome out;
	int rc = run_recipe(&run, &out);

	free(out.x);
	page_run(page, &run, &out);
	if (rc)
		page_row_without(page, &claim, &out);
	else
		page_row(page, &claim, book.worst <= 1 ? VERDICT_HOLDS : VERDICT_FAILS,
			 "at most %.2g of it over %llu steps", book.worst,
			 (unsigned long long)run.steps);
}

/* ---- the section ----------------------------------------------------------- */

static void compare_memories(struct page *page, const struct problem *p)
{
	static const struct claim claim = {
		"ecx", "two old errors cancel what one leaves in a running average",
		"f above uncompressed ≤ 0.3 × that of one-step compensation: rounding to multiples "
		"of 1 and 2, momentum and storm"
	};
	static const char *bases[] = { "signal=gradient", "signal=storm(0.1)" };
	static const char *base_names[] = { "momentum", "storm" };
	static const char *labels[] = { "not compressed", "no compensation", "one step",
					"two steps" };
	static const char *memories[] = { "none", "none", "residual(outside)", "twostep(1)" };
	double worst = 0;

	page_text(page,
		  "QUAD, d = 100, 4 workers, rate 0.2, α = 0.1: mean f of the last %d of 4000 "
		  "steps.\n\n"
		  "| base | width | not compressed | no compensation | one step | two steps | "
		  "ratio |\n"
		  "| --- | --- | --- | --- | --- | --- | --- |\n",
		  LAST);
	for (int storm = 0; storm < 2; storm++)
		for (int width = 1; width <= 2; width++) {
			double f[4];

			for (int m = 0; m < 4; m++) {
				char recipe[256], values[32] = "";
				struct outcome out;

				if (m)
					snprintf(values, sizeof values, ",round(%d)", width);
				snprintf(recipe, sizeof recipe,
					 "up=all%s down=all %s memory=%s update=ema(0.1)", values,
					 bases[storm], memories[m]);
				if (measure(page, p, labels[m], recipe, storm, &f[m], &out)) {
					page_row_without(page, &claim, &out);
					return;
				}
			}
			double ratio = (f[3] - f[0]) / (f[2] - f[0]);

			worst = fmax(worst, ratio);
			page_text(page, "| %s | %d | %.3g | %.3g | %.3g | %.3g | %.3f |\n",
				  base_names[storm], width, f[0], f[1], f[2], f[3], ratio);
		}
	page_text(page, "\n");
	page_row(page, &claim, worst <= 0.3 ? VERDICT_HOLDS : VERDICT_FAILS, "ratio at worst %.3f",
		 worst);
}

void section_ecx(struct page *page)
{
	const struct problem p = noisy_quadratic(D);

	compare_memories(page, &p);
	cancellation(page, &p);
}
