/* SPDX-License-Identifier: BSD-3-Clause
 * Sections 7 and 8: workers whose gradient changed little do not upload; what they upload may be
 * coarse. */
#include "tests/reproduce/sections.h"
#include "tests/reproduce/lazy.h"
#include "tests/reproduce/memory.h"
#include <math.h>

static const char gd[] = "up=all down=all";
static const char lag_wk[] = "up=all down=all signal=innovation when=lazy(10,0.1)";
static const char lag_ps[] = "up=all down=all signal=innovation when=lazy-server(10,1)";
static const char laq[] = "up=all,grid(4) down=all signal=innovation when=lazy(10,0.08,100)";

static void table_head(struct page *page, const char *what)
{
	page_text(
		page,
		"%s: until f - f* ≤ 1e-6 of its start.\n\n"
		"| data | method | steps | uploads | of GD | payload bits of GD | with headers |\n"
		"| --- | --- | --- | --- | --- | --- | --- |\n",
		what);
}

/* Returns infinity if a run did not reach the target. */
static double ratio_of_steps(const struct reached *r, const struct reached *all)
{
	return r->steps ? (double)r->steps / (double)all->steps : INFINITY;
}

static void table_row(struct page *page, const char *data, const char *method,
		      const struct reached *r, const struct reached *all)
{
	if (!r->steps) {
		page_text(page, "| %s | %s | not reached | - | - | - | - |\n", data, method);
		return;
	}
	page_text(page, "| %s | %s | %llu | %llu | %.3f | %.4f | %.4f |\n", data, method,
		  (unsigned long long)r->steps, (unsigned long long)r->uploads,
		  (double)r->uploads / (double)all->uploads, r->payload_bits / all->payload_bits,
		  r->bits / all->bits);
}

/* ---- a9a, shuffled or sorted by label -------------------------------------- */

enum { ROWS = 10000, PARTS = 10, DATA = 2, MOST = 16 };
static const char *data_names[DATA] = { "a9a shuffled", "a9a sorted" };

static struct rows sorted_rows(const struct rows *from)
{
	uint32_t *order = zeroed(from->n, sizeof *order), n = 0;

	for (int sign = -1; sign <= 1; sign += 2)
		for (uint32_t row = 0; row < from->n; row++)
			if (from->label[row] == (float)sign)
				order[n++] = row;
	struct rows sorted = rows_ordered(from, order, n, 0);

	free(order);
	return sorted;
}

/* Reads the first 10000 rows, in their order and sorted by label. */
static int a9a_parts(struct page *page, struct rows parts[DATA], const struct claim *claim)
{
	struct rows all;

	if (!page_a9a(page, &all, claim))
		return 0;
	uint32_t *order = zeroed(all.n, sizeof *order);

	for (uint32_t i = 0; i < all.n; i++)
		order[i] = i;
	parts[0] = rows_ordered(&all, order, all.n < ROWS ? all.n : ROWS, 0);
	parts[1] = sorted_rows(&parts[0]);
	free(order);
	return 1;
}

static struct descent descent_of(const struct problem *p, int workers, const char *label,
				 const char *recipe)
{
	return (struct descent){ label,
				 p,
				 recipe,
				 workers,
				 regression_optimum(p, NULL),
				 regression_smoothness(p, 0, 1),
				 5000,
				 NULL,
				 NULL };
}

/* Runs the recipes one after the other. Returns how many succeeded. */
static int descend_all(struct page *page, const struct problem *p, int workers, const char *data,
		       const char *const *labels, const char *const *recipes, int n,
		       struct reached *reached, struct outcome *out)
{
	for (int i = 0; i < n; i++) {
		struct descent d = descent_of(p, workers, labels[i], recipes[i]);
		double smoothness[MOST];

		for (int w = 0; w < workers && recipes[i] == lag_ps; w++)
			smoothness[w] = regression_smoothness(p, w, workers);
		d.smoothness_of = recipes[i] == lag_ps ? smoothness : NULL;
		if (n == 3 && data == data_names[0])
			d.figure = "lazy";

		if (descend(page, &d, &reached[i], out))
			return i;
		table_row(page, data, labels[i], &reached[i], &reached[0]);
	}
	return n;
}

/* ---- section 7 ------------------------------------------------------------- */

static void synthetic(struct page *page)
{
	static const struct claim claim = { "lag-wk",
					    "few uploads where workers differ in smoothness",
					    "uploads ≤ 0.4 × GD and steps ≤ 1.5 × GD, linear and "
					    "logistic, workers of unequal smoothness" };
	static const struct claim server = {
		"lag-ps", "the server can decide where workers differ in smoothness",
		"fewer uploads than GD, linear and logistic, workers of unequal smoothness"
	};
	enum { WORKERS = 9 };
	static const char *labels[] = { "GD", "LAG-WK", "LAG-PS" };
	const char *recipes[] = { gd, lag_wk, lag_ps };
	double worst = 0, worst_steps = 0, worst_server = 0;
	struct outcome out;

	table_head(page, "Synthetic, 50 × 50 a worker, 9 workers");
	for (int kind = 0; kind < 4; kind++) {
		static const char *names[] = { "logistic, unequal", "linear, unequal",
					       "logistic, alike", "linear, alike" };
		const int squared = kind % 2, alike = kind / 2;
		const struct rows rows = graded_rows(WORKERS, alike, squared);
		const struct problem p = squared ?
						 linear_problem("linear", &rows) :
						 logistic_problem("logistic", &rows, 1e-3 / 50, 0);
		struct reached r[3];
		int n = descend_all(page, &p, WORKERS, names[kind], labels, recipes, 3, r, &out);

		if (alike) {
			if (n == 2)
				page_text(page, "| %s | LAG-PS | ended: %s | - | - | - | - |\n",
					  names[kind], out.why);
			continue;
		}
		if (n < 3) {
			page_row_without(page, n < 2 ? &claim : &server, &out);
			return;
		}
		worst = fmax(worst, (double)r[1].uploads / (double)r[0].uploads);
		worst_steps = fmax(worst_steps, ratio_of_steps(&r[1], &r[0]));
		worst_server = fmax(worst_server,
				    r[2].steps ? (double)r[2].uploads / (double)r[0].uploads :
						 INFINITY);
	}
	page_text(page, "\n");
	page_row(page, &claim, worst <= 0.4 && worst_steps <= 1.5 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "at worst %.3f of the uploads, %.2f × the steps", worst, worst_steps);
	page_row(page, &server, worst_server < 1 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "at worst %.3f of the uploads", worst_server);
}

void section_lag(struct page *page)
{
	static const struct claim claim = {
		"lag-wk", "few uploads on a9a",
		"uploads ≤ 0.4 × GD, steps ≤ 1.5 × GD, a9a sorted by label"
	};
	static const char *labels[] = { "GD", "LAG-WK" };
	const char *recipes[] = { gd, lag_wk };
	struct rows parts[DATA];
	struct outcome out;
	double ratio[DATA], steps[DATA];

	synthetic(page);
	if (!a9a_parts(page, parts, &claim))
		return;
	table_head(page, "a9a, 10000 rows, 10 workers, λ = 0.01, rate 1/L");
	for (int i = 0; i < DATA; i++) {
		const struct problem p = logistic_problem("A9A", &parts[i], 0.01, 0);
		struct reached r[2];

		if (descend_all(page, &p, PARTS, data_names[i], labels, recipes, 2, r, &out) < 2) {
			page_row_without(page, &claim, &out);
			return;
		}
		ratio[i] = (double)r[1].uploads / (double)r[0].uploads;
		steps[i] = ratio_of_steps(&r[1], &r[0]);
	}
	page_text(page, "\n");
	page_row(page, &claim, ratio[1] <= 0.4 && steps[1] <= 1.5 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "sorted %.3f of the uploads in %.2f × the steps; shuffled %.3f in %.2f ×",
		 ratio[1], steps[1], ratio[0], steps[0]);
}

/* ---- section 8 ------------------------------------------------------------- */

void section_laq(struct page *page)
{
	static const struct claim claim = {
		"laq", "few uploads of few bits",
		"payload bits ≤ 0.02 × GD and ≤ 0.15 × LAG, steps ≤ 1.3 × GD, b = 4, a9a both ways"
	};
	static const char *labels[] = { "GD", "LAG-WK", "LAQ" };
	const char *recipes[] = { gd, lag_wk, laq };
	struct rows parts[DATA];
	struct outcome out;
	double of_gd = 0, of_lag = 0, steps = 0;

	if (!a9a_parts(page, parts, &claim))
		return;
	page_figure(page, "lazy", "a9a shuffled, 10 workers, whole gradients");
	table_head(page, "a9a, 10000 rows, 10 workers, λ = 0.01, rate 1/L");
	for (int i = 0; i < DATA; i++) {
		const struct problem p = logistic_problem("A9A", &parts[i], 0.01, 0);
		struct reached r[3];

		if (descend_all(page, &p, PARTS, data_names[i], labels, recipes, 3, r, &out) < 3) {
			page_row_without(page, &claim, &out);
			return;
		}
		of_gd = fmax(of_gd, r[2].payload_bits / r[0].payload_bits);
		of_lag = fmax(of_lag, r[2].payload_bits / r[1].payload_bits);
		steps = fmax(steps, ratio_of_steps(&r[2], &r[0]));
	}
	page_text(page, "\n");
	page_row(page, &claim,
		 of_gd <= 0.02 && of_lag <= 0.15 && steps <= 1.3 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "at worst %.4f of GD's bits, %.3f of LAG's, %.2f × the steps", of_gd, of_lag,
		 steps);
}
