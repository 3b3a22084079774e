/* SPDX-License-Identifier: BSD-3-Clause
 * Section 11: a threshold from mean and deviation. Each shape is pushed once by one worker; the
 * runtime's counters give the sent elements and the residual. */
#include "tests/reproduce/sections.h"
#include "tests/reproduce/draw.h"
#include <math.h>
#include <stdlib.h>

enum { D = 200000 };

enum shape { GAUSSIAN, LAPLACE, STUDENT, CUBED, UNIFORM, HARMONIC, CONSTANT, SHAPES };
static const char *shape_names[SHAPES] = {
	[GAUSSIAN] = "Gaussian",       [LAPLACE] = "Laplace", [STUDENT] = "Student-3",
	[CUBED] = "cubed exponential", [UNIFORM] = "uniform", [HARMONIC] = "1/j",
	[CONSTANT] = "constant"
};

static double magnitude(enum shape shape, const struct random_stream *s, size_t j)
{
	double u = draw_uniform(s, 8 * j), squares = 0;

	switch (shape) {
	case GAUSSIAN: return fabs(draw_normal(s, j));
	case LAPLACE: return -log(u);
	case STUDENT:
		for (uint64_t k = 1; k <= 3; k++)
			squares += pow(draw_normal(s, 4 * j + k), 2);
		return fabs(draw_normal(s, 4 * j)) / sqrt(squares / 3);
	case CUBED: return pow(-log(u), 3);
	case UNIFORM: return u;
	case HARMONIC: return 1 / ((double)j + 1);
	case CONSTANT: return 1;
	case SHAPES: break;
	}
	return 0;
}

static void shaped(const struct problem *p, const float *x, const struct sample *at, float *grad)
{
	const enum shape shape = *(const enum shape *)p->data;
	const struct random_stream s = draw_stream(DRAW_SHAPE, 2, (unsigned)shape, 0);
	const struct random_stream signs = draw_stream(DRAW_SHAPE, 3, (unsigned)shape, 0);

	(void)x;
	(void)at;
	for (size_t j = 0; j < p->count; j++)
		grad[j] = (float)((draw_uniform(&signs, j) < 0.5 ? -1 : 1) *
				  magnitude(shape, &s, j));
}

/* Adds the share of |u|^2 that one push leaves in the residual. */
static int push_once(struct seat *seat)
{
	sluice_model_stats stats = { .size = sizeof stats };
	double *left = seat->run->context, length2 = 0;
	int rc = step_push_pull(seat);

	for (size_t j = 0; j < seat->run->problem->count; j++)
		length2 += (double)seat->grad[j] * (double)seat->grad[j];
	rc = rc ? rc : sluice_stats(seat->model, &stats);
	*left = stats.residual_norm * stats.residual_norm / length2;
	return rc;
}

static int push_shape(enum shape shape, const char *form, double density, double *sent,
		      double *left, struct outcome *out, struct page *page)
{
	char recipe[128];
	const struct problem p = { .name = shape_names[shape],
				   .count = D,
				   .start = start_at_zero,
				   .gradient = shaped,
				   .data = &shape };
	struct run run = { .label = "one push",
			   .problem = &p,
			   .recipe = recipe,
			   .workers = 1,
			   .lr = 1,
			   .steps = 1,
			   .seed = 1,
			   .step = push_once,
			   .context = left };

	snprintf(recipe, sizeof recipe, form, density);
	int rc = run_recipe(&run, out);

	free(out->x);
	if (shape == GAUSSIAN)
		page_run(page, &run, out);
	*sent = (double)(out->sum.up_elements + out->sum.deferred);
	return rc;
}

void section_gaussiank(struct page *page)
{
	static const struct claim first = { "gaussiank",
					    "right for Gaussian vectors without correction",
					    "sent within 5 % of k" };
	static const struct claim refined = {
		"gaussiank", "within a bracket, in at most 15 counts, on all shapes",
		"sent within [2/3, 4/3] k: Gaussian, Laplace, Student-3, cubed exponential, "
		"uniform, 1/j"
	};
	static const struct claim bound = {
		"topk", "contraction (1 - k/d)² for bell-shaped vectors",
		"‖u - Top_k‖² ≤ (1 - k/d)² ‖u‖² on all shapes but constants"
	};
	static const double densities[] = { 0.001, 0.01, 0.1 };
	struct counters topk_sum = { 0 };
	double worst_first = 0, least = INFINITY, most = 0, worst_bound = 0, constant = 0;

	page_text(page,
		  "One push of each shape, d = 200000. left: share of ‖u‖² that top-k leaves, "
		  "beside (1 - k/d)².\n\n| shape | density | sent/k | left | bound |\n"
		  "| --- | --- | --- | --- | --- |\n");
	for (int s = 0; s < SHAPES; s++)
		for (int i = 0; i < (page->options.quick ? 1 : 3); i++) {
			double sent, left, unused, allowed = pow(1 - densities[i], 2);
			struct outcome out;
			double k = densities[i] * D;

			int rc = push_shape(s, "up=topk(%g) down=all memory=residual(outside)",
					    densities[i], &unused, &left, &out, page);

			if (s == GAUSSIAN)
				topk_sum = out.sum;
			rc = rc ? rc :
				  push_shape(s,
					     "up=gaussiank(%g) down=all memory=residual(outside)",
					     densities[i], &sent, &unused, &out, page);
			if (rc) {
				page_row_without(page, &refined, &out);
				return;
			}
			page_text(page, "| %s | %g | %.3f | %.4f | %.4f |\n", shape_names[s],
				  densities[i], sent / k, left, allowed);
			if (s == GAUSSIAN)
				worst_first = fmax(worst_first, fabs(sent / k - 1));
			if (s == CONSTANT) {
				constant = fmax(constant, left / allowed);
				continue;
			}
			least = fmin(least, sent / k);
			most = fmax(most, sent / k);
			worst_bound = fmax(worst_bound, left / allowed);
		}
	page_text(page, "\n");
	page_row(page, &first, worst_first <= 0.05 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "off by at most %.1f %%", 100 * worst_first);
	page_row(page, &refined,
		 least >= 2.0 / 3 && most <= 4.0 / 3 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "sent %.3f k to %.3f k; the selector itself stops after 15 counts", least, most);
	page_about(page, "up=topk(0.1) down=all memory=residual(outside)", &topk_sum);
	page_row(page, &bound, worst_bound <= 1 ? VERDICT_HOLDS : VERDICT_FAILS,
		 "left / bound at most %.3f; constants %.4f, above 1 as predicted", worst_bound,
		 constant);
}
