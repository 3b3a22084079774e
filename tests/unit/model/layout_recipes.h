/* SPDX-License-Identifier: BSD-3-Clause
 * Recipes of every kind of shape, for the tests of layouts and of the memory that they announce. */
#ifndef TESTS_LAYOUT_RECIPES_H
#define TESTS_LAYOUT_RECIPES_H

static const char *const recipes[] = {
	"up=all down=all",
	"up=topk(0.01) down=topk(0.05)",
	"up=topk(0.001) down=topk(0.001)",
	"up=topk(0.01),f16 down=all,bf16",
	"up=all,bf16 down=topk(0.5),f16 update=momentum(0.9)",
	"up=topk(0.1) down=topk(0.1) memory=none signal=momentum(0.9) warmup=10",
	"up=topk(0.1),uniform(4) down=all,grid(3) memory=lowpass(0.5)",
	("up=all,uniform(3,64) down=topk(0.2),round(1) memory=twostep(0.5) signal=storm(0.1) "
	 "update=ema(0.1)"),
	"up=all,round(1) down=all memory=twostep(1) signal=igt(0.1) update=ema(0.1)",
	"up=topk(0.01),uniform(1) down=topk(0.05) reset=10",
	"up=gaussiank(0.1),uniform(2) down=threshold(1),uniform(8) signal=gradient,noise(1)",
	"up=global(0.01) down=global(0.05,10)",
	"up=global(0.01) down=all,f16",
	"up=cyclic(0.01) down=all,bf16",
	"up=cyclic(0.01),f16 down=all update=momentum(0.9) warmup=10",
	"up=sketch(0.01) down=all",
	"auto",
	"auto(0.01)",
};
enum { RECIPES = sizeof recipes / sizeof *recipes };
#endif
