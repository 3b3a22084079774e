/* SPDX-License-Identifier: BSD-3-Clause
 * Section 3: noise that is compressed with the gradient leads off a saddle. */
#include "tests/reproduce/sections.h"
#include <math.h>
#include <stdlib.h>

enum { D = 100, SEEDS = 3 };

/* When the function fell below a value that only the minimum has, and what was sent until then. */
struct escape {
	uint64_t step, elements; /* step 0: never */
	uint64_t stop;
};

static int watch(struct seat *seat)
{
	struct escape *escape = seat->run->context;
	sluice_model_stats stats = { .size = offsetof(sluice_model_stats, residual_norm) };
	const struct problem *p = seat->run->problem;

	if (seat->rank || escape->step || p->objective(p, seat->x) >= -0.009)
		return 0;
	int rc = sluice_stats(seat->model, &stats);

	escape->step = seat->step + 1;
	escape->stop = seat->step + 2;
	escape->elements = stats.pushed_elements;
	return rc;
}

struct trial {
	const char *label, *up, *memory, *signal;
};

/* Means of steps and elements over the seeds that escaped. Returns how many did, or -1. */
static int try_it(struct page *page, const struct problem *p, const struct trial *t, double *steps,
		  double *elements, struct outcome *out)
{
	const int seeds = page->options.quick ? 1 : SEEDS;
	int escaped = 0;
	double last = 0;

	*steps = *elements = 0;
	for (int seed = 1; seed <= seeds; seed++) {
		char recipe[256];
		struct escape escape = { 0, 0, UINT64_MAX };
		struct run run = { .label = t->label,
				   .problem = p,
				   .recipe = recipe,
				   .workers = 1,
				   .lr = 0.03f,
				   .steps = page->options.quick ? 100 : 12000,
				   .seed = (unsigned)seed,
				   .after = watch,
				   .context = &escape,
				   .stop = &escape.stop };

		snprintf(recipe, sizeof recipe, "up=%s down=all memory=%s signal=%s seed=%d", t->up,
			 t->memory, t->signal, seed);
		last = objective_after(&run, out);
		if (seed == 1)
			page_run(page, &run, out);
		if (out->rc)
			return -1;
		escaped += escape.step > 0;
		*steps += (double)escape.step;
		*elements += (double)escape.elements;
	}
	*steps /= escaped ? escaped : 1;
	*elements /= escaped ? escaped : 1;
	page_text(page, "| %s | %s | %s | %d of %d | %.0f | %.0f | %.5f |\n", t->label, t->signal,
		  t->memory, escaped, seeds, *steps, *elements, last);
	return escaped;
}

void section_saddle(struct page *page)
{
	static const struct claim stays = { "saddle", "without noise no method leaves the ridge",
					    "no success in 12000 steps" };
	static const struct claim leaves = {
		"saddle", "with noise compression costs few more steps",
		"top-1 within 1.5 × the dense steps, elements ≤ 0.02 × dense"
	};
	static const struct claim resets = {
		"saddle", "a periodic reset that applies what it clears costs little",
		"reset every 1000 and every 100 steps: as top-1 within 1.5 ×"
	};
	static const struct trial quiet[] = {
		{ "dense", "all", "none", "gradient" },
		{ "top-1", "topk(0.01)", "residual", "gradient" },
		{ "top-10", "topk(0.1)", "residual", "gradient" },
		{ "random-10", "randk(0.1)", "residual", "gradient" },
	};
	static const struct trial noisy[] = {
		{ "dense", "all", "none", "gradient,noise(0.01)" },
		{ "top-1", "topk(0.01)", "residual", "gradient,noise(0.01)" },
		{ "top-10", "topk(0.1)", "residual", "gradient,noise(0.01)" },
		{ "random-10", "randk(0.1)", "residual", "gradient,noise(0.01)" },
		{ "top-1, reset 1000", "topk(0.01)", "residual reset=1000",
		  "gradient,noise(0.01)" },
		{ "top-1, reset 100", "topk(0.01)", "residual reset=100", "gradient,noise(0.01)" },
	};
	enum { DENSE, TOP1, RESET_1000 = 4, RESET_100, TRIALS };
	const struct problem p = saddle_problem(D);
	const int seeds = page->options.quick ? 1 : SEEDS;
	double steps[TRIALS], elements[TRIALS], unused;
	int escaped[TRIALS], early = 0;
	struct outcome out = { .rc = 0 };

	page_text(page,
		  "f with a saddle at 0 and minimum -0.01, rate 0.03; success: f < -0.009.\n\n"
		  "| run | signal | memory | success | steps | elements | f at the end |\n"
		  "| --- | --- | --- | --- | --- | --- | --- |\n");
	for (int i = 0; i < 4 && !out.rc; i++)
		early += try_it(page, &p, &quiet[i], &unused, &unused, &out) > 0;
	if (out.rc)
		page_row_without(page, &stays, &out);
	else
		page_row(page, &stays, early ? VERDICT_FAILS : VERDICT_HOLDS,
			 "%d of 4 selections left it", early);
	for (int i = 0; i < TRIALS; i++) {
		escaped[i] = try_it(page, &p, &noisy[i], &steps[i], &elements[i], &out);
		if (escaped[i] < 0) {
			page_row_without(page, i < RESET_1000 ? &leaves : &resets, &out);
			if (i < RESET_1000)
				return;
			break;
		}
	}
	page_text(page, "\n");
	page_row(
		page, &leaves,
		escaped[DENSE] == seeds && escaped[TOP1] == seeds &&
				steps[TOP1] <= 1.5 * steps[DENSE] &&
				elements[TOP1] <= 0.02 * elements[DENSE] ?
			VERDICT_HOLDS :
			VERDICT_FAILS,
		"dense %.0f steps, top-1 %.0f (%.2f ×), %.4f × the elements; %d and %d of %d seeds",
		steps[DENSE], steps[TOP1], steps[TOP1] / steps[DENSE],
		elements[TOP1] / elements[DENSE], escaped[DENSE], escaped[TOP1], seeds);
	if (out.rc)
		return;
	page_row(page, &resets,
		 escaped[RESET_1000] == seeds && escaped[RESET_100] == seeds &&
				 fmax(steps[RESET_1000], steps[RESET_100]) <= 1.5 * steps[TOP1] ?
			 VERDICT_HOLDS :
			 VERDICT_FAILS,
		 "top-1 %.0f steps; reset 1000: %.0f, reset 100: %.0f", steps[TOP1],
		 steps[RESET_1000], steps[RESET_100]);
}
