/* SPDX-License-Identifier: BSD-3-Clause
 * Section 5: variance reduction with both directions quantised, asynchronous. The runtime has no snapshot
 * phase and no staleness bound yet: the rows say so. */
#include "tests/reproduce/sections.h"

void section_svrg(struct page *page)
{
	static const struct {
		struct claim claim;
		const char *recipe;
	} rows[] = {
		{ { "asylpg", "a fixed quantiser leaves a floor, one that follows the distance to the snapshot none",
		    "floor of fixed b ≥ 100 × floor with the rule μ = 0.5 (a9a, 20 epochs)" },
		  "up=all,uniform(8) down=all,uniform(8) memory=none signal=svrg(1000) when=async(8)" },
		{ { "asylpg", "the difference to the snapshot needs few bits",
		    "f - f* ≤ 1e-10 with ≥ 5 × fewer bits than full precision, b = 4 both ways" },
		  "up=all,uniform(4) down=all,uniform(4) memory=none signal=svrg(1000) when=async(8)" },
		{ { "acc-asylpg", "acceleration pays where the problem is badly conditioned",
		    "f - f* ≤ 0.8 × that of asylpg after 19 epochs, λ = 1e-6" },
		  "up=all,uniform(8) down=all,uniform(8) memory=none signal=svrg(1000) when=async(8) "
		  "update=accelerated" },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct outcome out = { .rc = SLUICE_EINVAL, .why = "offered, but not measured here yet" };

		out.offered = recipe_offered(rows[i].recipe, out.why, sizeof out.why);
		page_about(page, rows[i].recipe, &out.sum);
		page_row_without(page, &rows[i].claim, &out);
	}
}
