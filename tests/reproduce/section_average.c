/* SPDX-License-Identifier: BSD-3-Clause
 * Section 12: infrequent and coarse exchanges, and averages of a part of the parameters. */
#include "tests/reproduce/sections.h"
#include <math.h>

enum { WORKERS = 8 };

struct trained {
	double loss, accuracy, volume; /* volume: bytes up, as a share of full communication */
};

static int train(struct page *page, const struct problem *p, const char *label, const char *recipe,
		 int averages, double full_bytes, struct trained *got, struct outcome *out)
{
	struct run run = { .label = label,
			   .problem = p,
			   .recipe = recipe,
			   .workers = WORKERS,
			   .lr = 0.3f,
			   .steps = page->options.quick ? 32 : 256,
			   .seed = 1,
			   .step = averages ? step_average : NULL };

	page_curve(page, &run, "average", label, 16);
	got->accuracy = accuracy_after(&run, out, &got->loss);
	got->volume = full_bytes > 0 ? (double)out->sum.up_bytes / full_bytes : 1;
	page_run(page, &run, out);
	if (!out->rc)
		page_text(page, "| %s | %.4f | %.4f | %.4f |\n", label, got->loss, got->accuracy,
			  got->volume);
	return out->rc;
}

void section_average(struct page *page)
{
	static const struct claim pqasgd = {
		"pqasgd", "as good as full communication at a few per cent of the volume",
		"p = 4, b = 4: volume up ≤ 0.035, accuracy ≥ full - 0.01, loss ≤ 1.1 × full"
	};
	static const struct claim sparse = { "sparse-average",
					     "a quarter of the parameters a step is as good",
					     "25 %: accuracy ≥ full - 0.01, loss ≤ 1.1 × full" };
	static const struct {
		const char *label, *recipe;
	} coarse[] = {
		{ "period 4, 4 bits", "up=all,uniform(4) down=all memory=none when=every(4)" },
		{ "period 8, 4 bits", "up=all,uniform(4) down=all memory=none when=every(8)" },
		{ "period 8, 2 bits", "up=all,uniform(2) down=all memory=none when=every(8)" },
		{ "period 32, 2 bits", "up=all,uniform(2) down=all memory=none when=every(32)" },
	}, blocks[] = {
		{ "sparse 25 %", "up=block(0.25) down=block(0.25) memory=none update=average" },
		{ "sparse 10 %", "up=block(0.1) down=block(0.1) memory=none update=average" },
		{ "sparse 3 %", "up=block(0.03) down=block(0.03) memory=none update=average" },
	};
	const struct problem p = mlp_problem(32, 32);
	struct trained full, first, got;
	struct outcome out;

	page_figure(page, "average", "MLP, W = 8");
	page_text(page,
		  "MLP 784-32-10, W = %d, batch 32, rate 0.3, 256 steps; volume: bytes up of "
		  "full.\n\n"
		  "| run | loss | accuracy | volume |\n| --- | --- | --- | --- |\n",
		  WORKERS);
	if (train(page, &p, "full", "up=all down=all", 0, 0, &full, &out)) {
		page_row_without(page, &pqasgd, &out);
		return;
	}
	const double bytes = (double)out.sum.up_bytes;
	int rc = 0;

	for (int i = 0; i < 4 && !rc; i++)
		rc = train(page, &p, coarse[i].label, coarse[i].recipe, 0, bytes, i ? &got : &first,
			   &out);
	if (rc)
		page_row_without(page, &pqasgd, &out);
	else
		page_row(page, &pqasgd,
			 first.volume <= 0.035 && first.accuracy >= full.accuracy - 0.01 &&
					 first.loss <= 1.1 * full.loss ?
				 VERDICT_HOLDS :
				 VERDICT_FAILS,
			 "volume %.4f, accuracy %.4f (full %.4f), loss %.4f (%.4f)", first.volume,
			 first.accuracy, full.accuracy, first.loss, full.loss);
	rc = 0;
	for (int i = 0; i < 3 && !rc; i++)
		rc = train(page, &p, blocks[i].label, blocks[i].recipe, 1, bytes, i ? &got : &first,
			   &out);
	page_text(page, "\n");
	if (rc)
		page_row_without(page, &sparse, &out);
	else
		page_row(page, &sparse,
			 first.accuracy >= full.accuracy - 0.01 && first.loss <= 1.1 * full.loss ?
				 VERDICT_HOLDS :
				 VERDICT_FAILS,
			 "accuracy %.4f (full %.4f), loss %.4f (%.4f)", first.accuracy,
			 full.accuracy, first.loss, full.loss);
}
