/* SPDX-License-Identifier: BSD-3-Clause
 * Section 10: unbiased random selection. One worker pushes a vector many times, and the pulled
 * vectors are examined; then a model is trained. */
#include "tests/reproduce/sections.h"
#include "tests/reproduce/draw.h"
#include "tests/reproduce/memory.h"
#include <math.h>

enum { D = 10000, SHAPES = 3 };
static const char *shape_names[SHAPES] = { "Gaussian", "squared exponential", "j^-0.9" };

struct vector {
	int shape;
};

static double element(int shape, const struct random_stream *s, size_t j)
{
	double u = draw_uniform(s, 2 * j), sign = draw_uniform(s, 2 * j + 1) < 0.5 ? -1 : 1;

	if (shape == 0)
		return draw_normal(s, j);
	return shape == 1 ? sign * log(u) * log(u) : sign * pow((double)j + 1, -0.9);
}

static void fixed_vector(const struct problem *p, const float *x, const struct sample *at,
			 float *grad)
{
	const struct vector *v = p->data;
	const struct random_stream s = draw_stream(DRAW_SHAPE, 1, (unsigned)v->shape, 0);

	(void)x;
	(void)at;
	for (size_t j = 0; j < p->count; j++)
		grad[j] = (float)element(v->shape, &s, j);
}

/* Sums over the draws. */
struct draws {
	double *sum;             /* sum of the received vectors */
	double squares, length2; /* |Q|^2 over all draws; |g|^2 */
	uint64_t n;
};

static int push_again(struct seat *seat)
{
	struct draws *draws = seat->run->context;
	const size_t n = seat->run->problem->count;

	if (!seat->step) {
		seat_gradient(seat, seat->x, seat->grad);
		for (size_t j = 0; j < n; j++)
			draws->length2 += (double)seat->grad[j] * (double)seat->grad[j];
	}
	int rc = sluice_push(seat->model, seat->grad);

	rc = rc ? rc : sluice_pull(seat->model, seat->x);
	for (size_t j = 0; j < n && !rc; j++) {
		draws->sum[j] += (double)seat->x[j];
		draws->squares += (double)seat->x[j] * (double)seat->x[j];
	}
	draws->n++;
	return rc;
}

struct seen {
	double ratio, bias, density; /* E|Q|^2 / |g|^2; |mean Q - g| / |g|; sent coordinates / D */
};

static int look(struct page *page, int shape, const char *recipe, uint64_t n, struct seen *seen,
		struct outcome *out)
{
	struct vector vector = { shape };
	const struct problem p = { .name = shape_names[shape],
				   .count = D,
				   .start = start_at_zero,
				   .gradient = fixed_vector,
				   .data = &vector };
	struct draws draws = { .sum = zeroed(D, sizeof(double)) };
	struct run run = { .label = "draws",
			   .problem = &p,
			   .recipe = recipe,
			   .workers = 1,
			   .lr = 1,
			   .steps = n,
			   .seed = 1,
			   .step = push_again,
			   .context = &draws };
	float *g = zeroed(D, sizeof *g);
	double off = 0;
	int rc = run_recipe(&run, out);

	free(out->x);
	page_run(page, &run, out);
	fixed_vector(&p, NULL, NULL, g);
	for (size_t j = 0; j < D; j++) {
		double difference = draws.sum[j] / (double)n - (double)g[j];

		off += difference * difference;
	}
	*seen = (struct seen){ draws.squares / (double)n / draws.length2, sqrt(off / draws.length2),
			       up_per_step(&run, out) / D };
	free(g);
	free(draws.sum);
	return rc;
}

static void vectors(struct page *page)
{
	static const struct claim variance = { "unbiased",
					       "closed form: as sparse as the variance allows",
					       "E‖Q‖²/‖g‖² within 1 % of 1 + ε, ε = 1" };
	static const struct claim bias = { "unbiased", "unbiased",
					   "‖mean Q - g‖/‖g‖ ≤ 2 √ε/√N over N = 4000 draws" };
	static const struct claim greedy = {
		"unbiased", "greedy form: the same density and variance",
		"variance within 1 % of the closed form at its density"
	};
	const uint64_t n = page->options.quick ? 50 : 4000;
	static const char closed_form[] = "up=variance(1) down=all memory=none update=none";
	struct counters closed_sum = { 0 }, greedy_sum = { 0 };
	char greedy_form[128] = "";
	double worst_ratio = 0, worst_bias = 0, worst_greedy = 0;
	const double allowed = 2 / sqrt((double)n);

	page_text(page,
		  "Vectors of 10000, ε = 1, %llu draws: E‖Q‖²/‖g‖².\n\n"
		  "| shape | closed form | density | bias | greedy | uniform, same density |\n"
		  "| --- | --- | --- | --- | --- | --- |\n",
		  (unsigned long long)n);
	for (int s = 0; s < SHAPES; s++) {
		struct seen closed, drawn, uniform;
		struct outcome out;
		char recipe[2][128];

		if (look(page, s, closed_form, n, &closed, &out))
			goto without;
		closed_sum = out.sum;
		snprintf(recipe[0], sizeof recipe[0],
			 "up=random(%.6f) down=all memory=none update=none", closed.density);
		snprintf(recipe[1], sizeof recipe[1],
			 "up=randk(%.6f) down=all memory=none update=none", closed.density);
		if (look(page, s, recipe[1], n, &uniform, &out) ||
		    look(page, s, recipe[0], n, &drawn, &out))
			goto without;
		greedy_sum = out.sum;
		snprintf(greedy_form, sizeof greedy_form, "%s", recipe[0]);
		page_text(page, "| %s | %.4f | %.4f | %.4f | %.4f at %.4f | %.2f |\n",
			  shape_names[s], closed.ratio, closed.density, closed.bias, drawn.ratio,
			  drawn.density, uniform.ratio);
		worst_ratio = fmax(worst_ratio, fabs(closed.ratio / 2 - 1));
		worst_bias = fmax(worst_bias, fmax(closed.bias, drawn.bias));
		worst_greedy = fmax(worst_greedy, fabs(drawn.ratio / closed.ratio - 1));
		continue;
without:
		page_row_without(page, &variance, &out);
		return;
	}
	page_text(page, "\n");
	page_about(page, closed_form, &closed_sum);
	page_row(page, &variance, worst_ratio <= 0.01 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "off by at most %.2f %% (3 shapes)", 100 * worst_ratio);
	page_row(page, &bias, worst_bias <= allowed ? VERDICT_HOLDS : VERDICT_FAILS,
		 "at most %.4f, allowed %.4f", worst_bias, allowed);
	page_about(page, greedy_form, &greedy_sum);
	page_row(page, &greedy, worst_greedy <= 0.01 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "off by at most %.2f %%", 100 * worst_greedy);
}

/* ---- training -------------------------------------------------------------- */

/* Keeps each non-zero value with the same probability, so that `kept` of them remain on average,
 * and scales them up. */
static int push_uniform(struct seat *seat)
{
	const double kept = *(double *)seat->run->context;
	const struct random_stream s = draw_stream(DRAW_KEEP, seat->run->seed, (unsigned)seat->rank,
						   seat->step);
	const size_t n = seat->run->problem->count;
	double nonzero = 0;

	seat_gradient(seat, seat->x, seat->grad);
	for (size_t j = 0; j < n; j++)
		nonzero += seat->grad[j] != 0;
	double share = fmin(1, kept / nonzero);

	for (size_t j = 0; j < n; j++)
		seat->grad[j] = draw_uniform(&s, j) < share ?
					(float)((double)seat->grad[j] / share) :
					0;
	int rc = sluice_push(seat->model, seat->grad);

	return rc ? rc : sluice_pull(seat->model, seat->x);
}

static void training(struct page *page)
{
	static const struct claim claim = {
		"unbiased", "trains where uniform dropping of the same density does worse",
		"loss above dense ≤ 0.5 × that of uniform dropping (TEXT, 0.5 %, mean of 3 seeds)"
	};
	const struct rows rows = text_rows();
	const struct problem p = logistic_problem("TEXT", &rows, 0, 64);
	static const char *labels[] = { "dense", "uniform over non-zeros", "unbiased" };
	static const char *recipes[] = { "up=all down=all", "up=topk(1) down=all memory=none",
					 "up=random(0.005) down=all memory=none" };
	const int seeds = page->options.quick ? 1 : 3;
	double kept = 0.005 * (double)p.count, loss[3] = { 0 };
	uint64_t bytes[3] = { 0 };

	page_figure(page, "unbiased", "TEXT, 4 workers, 0.5 %");
	for (int r = 0; r < 3; r++)
		for (int seed = 1; seed <= seeds; seed++) {
			struct run run = { .label = labels[r],
					   .problem = &p,
					   .recipe = recipes[r],
					   .workers = 4,
					   .lr = 10,
					   .decay = 100,
					   .steps = page->options.quick ? 20 : 600,
					   .seed = (unsigned)seed,
					   .step = r == 1 ? push_uniform : NULL,
					   .context = &kept };
			struct outcome out;

			if (seed == 1)
				page_curve(page, &run, "unbiased", labels[r], 10);
			loss[r] += objective_after(&run, &out) / seeds;
			bytes[r] = out.sum.up_bytes;
			if (seed == 1)
				page_run(page, &run, &out);
			if (out.rc) {
				page_row_without(page, &claim, &out);
				return;
			}
		}
	page_row(page, &claim,
		 loss[2] - loss[0] <= 0.5 * (loss[1] - loss[0]) ? VERDICT_HOLDS : VERDICT_FAILS,
		 "loss dense %.4f, this %.4f, uniform %.4f: ratio of gaps %.2f; %.0f× fewer bytes "
		 "up than dense",
		 loss[0], loss[2], loss[1], (loss[2] - loss[0]) / (loss[1] - loss[0]),
		 (double)bytes[0] / (double)bytes[2]);
}

void section_unbiased(struct page *page)
{
	vectors(page);
	training(page);
}
