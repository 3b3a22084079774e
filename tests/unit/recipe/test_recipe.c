/* SPDX-License-Identifier: BSD-3-Clause
 * The recipe language: the values and defaults of each axis, warnings, and the tensors that a
 * recipe sends whole. */
#include "recipe_text.h"
#include "recipe/methods.h"
#include "sluice.h"
#include "cases.h"
#include <stdio.h>
#include <string.h>

/* Must run first, before a warning was logged. */
TEST(recipe_parse__doubtful_combinations_warn)
{
	parsed("memory=none up=all");
	parsed("signal=momentum(0.9) update=sgd");
	assert_int_equal(warnings, 0);
	parsed("memory=none down=topk(0.1)");
	assert_int_equal(warnings, 1);
	assert_non_null(strstr(last_warning, "memory=none with topk drops what is not sent"));
	parsed("signal=momentum(0.9) update=nesterov(0.9)");
	assert_int_equal(warnings, 2);
	assert_non_null(strstr(last_warning, "update=nesterov apply a momentum twice"));
	parsed("signal=momentum(0.9) update=adam(0,0.9,1e-8)");
	parsed("up=all,uniform(1) memory=twostep(0.3) update=ema(0.1) signal=storm(0.1)");
	assert_int_equal(warnings, 2);
	parsed("up=all,uniform(1) memory=twostep(0.3) update=ema(0.1)");
	assert_int_equal(warnings, 3);
	assert_non_null(strstr(last_warning, "may diverge unless the signal is storm or igt"));
}

TEST(recipe_parse__doubtful_combinations_warn_once)
{
	int before;

	parsed("memory=none up=topk(0.1)");
	before = warnings;
	last_warning[0] = '\0';
	parsed("memory=none up=topk(0.1)");
	assert_int_equal(warnings, before);

	parsed("signal=momentum(0.9),nomask update=momentum(0.9)");
	before = warnings;
	parsed("signal=momentum(0.9),nomask update=momentum(0.9)");
	assert_int_equal(warnings, before);
}

TEST(recipe_parse__dense_warmup__is_one_of_any_length)
{
	struct recipe r = parsed("up=topk(0.04) warmup=dense(2epochs)");

	assert_true(r.warmup.dense && r.warmup.length == 2 && r.warmup.unit == WARMUP_EPOCHS);
	r = parsed("up=topk(0.04) warmup=dense(0)");
	assert_true(!r.warmup.dense && r.warmup.length == 0);
}

TEST(recipe_parse__adam__keeps_gradients_and_its_four_numbers)
{
	struct recipe r = parsed("up=topk(0.04) update=adamw(.2,0.99,1e-8,0.1) "
				 "warmup=dense(50) freeze=50");

	assert_int_equal(r.update, UPDATE_ADAMW);
	assert_true(r.adam.beta1 == 0.2f && r.adam.beta2 == 0.99f && r.adam.epsilon == 1e-8f &&
		    r.adam.decay == 0.1f);
	assert_true(r.memory.kind == MEMORY_RESIDUAL && r.placement == STEP_OUTSIDE);
	assert_int_equal(r.adam.freeze, 50);
	assert_true(recipe_velocity(&r) && recipe_variance(&r));

	r = parsed("up=all down=all update=adam(0,0.9,1e-8)");
	assert_true(!recipe_velocity(&r) && recipe_variance(&r) && !r.adam.freeze);
	r = parsed("memory=residual update=adam(0.5,0.9,1e-8) freeze=none");
	assert_true(r.placement == STEP_OUTSIDE && !r.adam.freeze);
}

TEST(recipe_parse__null_empty_and_blank_are_the_default)
{
	struct recipe wanted = parsed(RECIPE_DEFAULT);
	struct recipe r;

	assert_int_equal(recipe_parse(NULL, &r), 0);
	assert_memory_equal(&r, &wanted, sizeof(r));
	assert_int_equal(recipe_parse("", &r), 0);
	assert_memory_equal(&r, &wanted, sizeof(r));
	assert_int_equal(recipe_parse(" \t\n", &r), 0);
	assert_memory_equal(&r, &wanted, sizeof(r));
	assert_true(r.up.select == SELECT_TOPK && r.up.density == 0.01);
	assert_true(r.down.select == SELECT_TOPK && r.down.density == 0.05);
	assert_int_equal(r.memory.kind, MEMORY_RESIDUAL);
	assert_int_equal(r.update, UPDATE_SGD);
}

TEST(recipe_parse__axes_that_are_not_named_have_their_defaults)
{
	struct recipe r = parsed("update=sgd");

	assert_int_equal(r.up.select, SELECT_ALL);
	assert_true(r.up.density == 1);
	assert_int_equal(r.up.values.type, VALUE_F32);
	assert_int_equal(r.down.select, SELECT_ALL);
	assert_int_equal(r.signal.kind, SIGNAL_GRADIENT);
	assert_int_equal(r.signal.mask, 0);
	assert_int_equal(r.memory.kind, MEMORY_NONE);
	assert_int_equal(r.placement, STEP_INSIDE);
	assert_true(r.warmup.length == 0);
	assert_int_equal(r.warmup.unit, WARMUP_STEPS);
	assert_string_equal(r.dense, "*bias*");
	assert_true(r.clip.norm == 0);
	assert_true(r.decay == 0);
	assert_int_equal(r.nonfinite, NONFINITE_ABORT);
	assert_int_equal(r.coding, CODING_FAST);
}

TEST(recipe_parse__every_axis_is_read)
{
	struct recipe r = parsed("coding=small nonfinite=zero decay=0.0005 clip=2.5 dense=a*,b? "
				 "warmup=2epochs update=nesterov(0.8) memory=residual(outside) "
				 "signal=momentum(0.9),nomask down=all,bf16 up=topk(1%),f16");

	assert_true(r.up.select == SELECT_TOPK && r.up.density == 0.01);
	assert_int_equal(r.up.values.type, VALUE_F16);
	assert_int_equal(r.down.values.type, VALUE_BF16);
	assert_int_equal(r.signal.kind, SIGNAL_MOMENTUM);
	assert_true(r.signal.average.momentum == 0.9f);
	assert_int_equal(r.signal.mask, 0);
	assert_int_equal(r.memory.kind, MEMORY_RESIDUAL);
	assert_int_equal(r.placement, STEP_OUTSIDE);
	assert_int_equal(r.update, UPDATE_NESTEROV);
	assert_true(r.update_average.momentum == 0.8f);
	assert_true(r.warmup.length == 2);
	assert_int_equal(r.warmup.unit, WARMUP_EPOCHS);
	assert_string_equal(r.dense, "a*,b?");
	assert_true(r.clip.norm == 2.5f);
	assert_true(r.decay == 0.0005f);
	assert_int_equal(r.nonfinite, NONFINITE_ZERO);
	assert_int_equal(r.coding, CODING_SMALL);
}

TEST(recipe_parse__auto__in_place_of_both_directions)
{
	struct recipe r = parsed("auto signal=momentum(0.9)");

	assert_int_equal(r.automatic, 1);
	assert_int_equal(r.memory.kind, MEMORY_RESIDUAL);
	assert_int_equal(r.up.select, SELECT_TOPK);
	assert_true(r.up.density == 1 && r.down.density == 1);
	assert_int_equal(parsed("up=topk(0.1)").automatic, 0);
	assert_int_equal(parsed("auto warmup=0").automatic, 1);
	expect_print("update=sgd auto",
		     "auto signal=gradient memory=residual(inside) update=sgd warmup=0steps "
		     "dense=*bias* clip=none decay=0 nonfinite=abort coding=fast reset=none seed=0 "
		     "when=always");
	assert_int_equal(r.budget, 0);
	r = parsed("auto(1%)");
	assert_int_equal(r.automatic, 1);
	assert_int_equal(r.budget, 2);
	assert_int_equal(r.memory.kind, MEMORY_RESIDUAL);
	assert_true(r.up.density == 0.042 && r.down.density == 0.43);
	expect_print("auto(0.1%) update=sgd",
		     "auto(0.001) signal=gradient memory=residual(inside) update=sgd warmup=0steps "
		     "dense=*bias* clip=none decay=0 nonfinite=abort coding=fast reset=none seed=0 "
		     "when=always");

	char printed[RECIPE_TEXT_BYTES];
	recipe_print(&r, printed);
	struct recipe again = parsed(printed);
	assert_memory_equal(&r, &again, sizeof(r));
}

TEST(recipe_parse__memory_default_follows_the_directions)
{
	assert_int_equal(parsed("up=topk(0.1)").memory.kind, MEMORY_RESIDUAL);
	assert_int_equal(parsed("down=topk(0.1)").memory.kind, MEMORY_RESIDUAL);
	assert_int_equal(parsed("up=all,f16").memory.kind, MEMORY_RESIDUAL);
	assert_int_equal(parsed("down=all,bf16").memory.kind, MEMORY_RESIDUAL);
	assert_int_equal(parsed("up=all,f32 down=all").memory.kind, MEMORY_NONE);
	assert_int_equal(parsed("memory=none up=all,f16").memory.kind, MEMORY_NONE);
}

TEST(recipe_parse__values_in_few_bits__are_read_and_wrong_ones_refused)
{
	static const char *const wrong[] = {
		"uniform",         "uniform(0)",    "uniform(9)",   "uniform(2.5)",
		"uniform(4,)",     "uniform(4,12)", "uniform(4,0)", "uniform(4,65536)",
		"uniform(4,64,2)", "grid",          "grid(9)",      "grid(4,512)",
		"grid(-1)",        "round",         "round(0)",     "round(-1)",
		"round(1e39)",     "round(x)",      "f16(4)",       "twomeans(2)",
		"e3m0(4)",         "f8_e4m3fn"
	};
	struct recipe r = parsed(
		"up=all,uniform(4) down=topk(0.1),uniform(8,64) seed=4294967295 when=always");
	char text[64];

	assert_true(r.up.values.type == VALUE_UNIFORM && r.up.values.bits == 4 &&
		    r.up.values.block == 512);
	assert_true(r.down.values.bits == 8 && r.down.values.block == 64);
	assert_true(r.seed == UINT32_MAX);
	r = parsed("up=all,grid(3) down=all,round(0.5)");
	assert_true(r.up.values.type == VALUE_GRID && r.up.values.bits == 3 && !r.up.values.block);
	assert_true(r.down.values.type == VALUE_ROUND && r.down.values.step == 0.5f);
	assert_int_equal(r.memory.kind, MEMORY_RESIDUAL);
	r = parsed("up=topk(0.06),twomeans down=all,e3m0");
	assert_true(r.up.values.type == VALUE_TWOMEANS && r.up.values.bits == 2 &&
		    r.up.values.block == 512);
	assert_true(r.down.values.type == VALUE_E3M0 && r.down.values.bits == 4 &&
		    r.down.values.block == 512);
	assert_int_equal(r.memory.kind, MEMORY_RESIDUAL);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(text, sizeof(text), "up=all,%s", wrong[i]);
		assert_int_equal(recipe_parse(text, &r), SLUICE_EINVAL);
	}
	assert_int_equal(recipe_parse("seed=4294967296", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("seed=1.5", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("seed=-1", &r), SLUICE_EINVAL);
}

TEST(recipe_parse__signals_and_memories__are_read_and_refused_where_they_do_not_fit)
{
	struct recipe r = parsed(
		"up=topk(0.1) signal=storm(0.1),noise(2) memory=twostep(0.3) update=ema(0.1)");

	assert_true(r.signal.kind == SIGNAL_STORM && r.signal.average.alpha == 0.1f &&
		    r.signal.noise == 2);
	assert_true(r.memory.kind == MEMORY_TWOSTEP && r.memory.beta == 0.3f &&
		    r.placement == STEP_OUTSIDE);
	assert_true(r.update == UPDATE_EMA && r.update_average.alpha == 0.1f);
	r = parsed("up=topk(0.1) signal=momentum(0.5),noise(1),nomask memory=lowpass(0.2),outside "
		   "reset=none");
	assert_true(!r.signal.mask && r.signal.noise == 1 && r.memory.kind == MEMORY_LOWPASS &&
		    r.placement == STEP_OUTSIDE);
	r = parsed("up=topk(0.1) signal=igt(1/t) update=ema(1/t) reset=50");
	assert_true(r.signal.kind == SIGNAL_IGT && r.signal.average.alpha == 0 && r.reset == 50);

	expect_refused("signal=storm", "storm lacks its number");
	expect_refused("signal=storm(0)", "above 0 and at most 1, or 1/t");
	expect_refused("signal=igt(1.5)", "above 0 and at most 1, or 1/t");
	expect_refused("signal=storm(0.1)", "corrects for the running average");
	expect_refused("signal=igt(0.1) update=ema(0.2)", "with the same ALPHA");
	expect_refused("signal=gradient,mask", "one value too many");
	expect_refused("signal=gradient,noise(1),noise(2)", "one value too many");
	expect_refused("signal=noise(1)", "does not name the signal");
	expect_refused("signal=gradient,noise(0)", "above 0");
	expect_refused("signal=gradient,noise", "noise lacks its number");
	expect_refused("memory=inside", "does not name the memory");
	expect_refused("memory=lowpass", "lowpass lacks its number");
	expect_refused("memory=lowpass(0)", "BETA");
	expect_refused("memory=lowpass(0.5),residual", "a second memory");
	expect_refused("memory=twostep(1),inside", "one value too many");
	expect_refused("memory=twostep(1) update=momentum(0.9)", "made for a running average");
	expect_refused("memory=twostep(1) update=ema(0.1) nonfinite=skip", "consecutive steps");
	expect_refused("up=topk(0.3) memory=twostep(1) update=ema(0.1)", "diverges");
	expect_refused("up=all,uniform(2) memory=twostep(1) update=ema(0.1)", "diverges");
	expect_refused("up=all,twomeans memory=twostep(1) update=ema(0.1)", "diverges");
	expect_refused("up=cyclic(0.1) memory=twostep(1) update=ema(0.1)", "diverges");
	expect_refused("auto memory=twostep(1) update=ema(0.1)", "memory=residual");
	expect_refused("up=random(0.9) memory=lowpass(0.5)", "would count twice");
	expect_refused("up=topk(0.1) memory=lowpass(0.5) reset=10", "needs memory=residual");
	expect_refused("reset=10 memory=none", "needs memory=residual");
	expect_refused("reset=0", "1 to 1000000000");
	expect_refused("reset=1.5", "1 to 1000000000");
	parsed("up=topk(0.5) memory=twostep(1) update=ema(0.1)");
	parsed("up=all,uniform(3) memory=twostep(1) update=ema(0.1)");
	parsed("up=all,e3m0 memory=twostep(1) update=ema(0.1)");
	parsed("up=topk(0.01) memory=twostep(1) update=sgd");
	parsed("up=all,round(2) memory=twostep(1) update=ema(0.1)");
}

TEST(recipe_parse__mask_default_follows_up)
{
	assert_int_equal(parsed("signal=momentum(0.9) up=topk(0.1)").signal.mask, 1);
	assert_int_equal(parsed("signal=momentum(0.9),nomask up=topk(0.1)").signal.mask, 0);
	assert_int_equal(parsed("signal=momentum(0.9) up=all").signal.mask, 0);
	assert_int_equal(parsed("signal=momentum(0.9) down=topk(0.1)").signal.mask, 0);
	assert_int_equal(parsed("signal=gradient up=topk(0.1)").signal.mask, 0);
}

TEST(recipe_parse__densities_in_every_form)
{
	assert_true(parsed("up=topk(1)").up.density == 1);
	assert_true(parsed("up=topk(100%)").up.density == 1);
	assert_true(parsed("up=topk(1e-3)").up.density == 0.001);
	assert_true(parsed("up=topk(.5)").up.density == 0.5);
	assert_true(parsed("up=topk(0.7%)").up.density == 0.007);
	assert_true(parsed("up=topk(0.1%)").up.density == 0.001);
}

TEST(recipe_parse__a_count__is_kept_and_printed_as_one)
{
	static const char *const texts[] = {
		"up=topk(k=31),f32 down=gaussiank(k=7),f32",
		"up=random(k=4294967295),f32 down=all,f32",
		"up=randk(k=1),f32 down=randk(k=2),f32",
		"up=cyclic(k=31,chunks),f32 down=all,f32",
		"up=sketch(k=31,5,1.6,4),f32 down=all,f32",
		"up=global(k=31,20),f32 down=global(k=5,7),f32",
	};
	char printed[RECIPE_TEXT_BYTES];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct recipe r = parsed(texts[i]), again;

		recipe_print(&r, printed);
		assert_memory_equal(printed, texts[i], strlen(texts[i]));
		again = parsed(printed);
		assert_memory_equal(&r, &again, sizeof(r));
	}
	assert_int_equal(parsed(texts[0]).up.count, 31);
	assert_int_equal(parsed("up=topk(0.5)").up.count, 0);
}

TEST(recipe_count__becomes_the_density_that_gives_just_this_count)
{
	static const uint64_t sizes[] = { 1, 3, 31, 1000, 65537, 16777213, 4294967295 };
	struct recipe r = parsed("up=topk(k=1) down=topk(0.25)");

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (uint64_t k = 1; k <= sizes[i]; k = k * 7 / 2 + 1) {
			r.up.count = (uint32_t)k;
			assert_int_equal(recipe_count(&r, sizes[i]), 0);
			assert_int_equal(density_count(r.up.density, sizes[i]), k);
			assert_true(r.down.density == 0.25);
		}
	r.up.count = 32;
	assert_int_equal(recipe_count(&r, 31), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "up=topk(k=32): the model has only 31"));
	assert_non_null(strstr(sluice_last_error(), "a smaller number, or up=all"));
	assert_int_equal(recipe_count(&r, 0), SLUICE_EINVAL);
	assert_non_null(strstr(sluice_last_error(), "dense= does not name; write up=all"));
	assert_int_equal(recipe_count(&r, 32), 0);
	assert_true(r.up.density == 1);
}

TEST(recipe_parse__every_count_of_a_block__is_printed_again)
{
	static const uint32_t lengths[] = { 1, 7, 64, 4096, 10007, SELECT_BLOCK_MOST };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (uint32_t k = 1; k <= lengths[i]; k = k * 3 / 2 + 1) {
			char text[64], printed[RECIPE_TEXT_BYTES];

			snprintf(text, sizeof(text), "up=block-topk(%u,%u),f32 ", k, lengths[i]);
			struct recipe r = parsed(text);
			assert_int_equal(r.up.block, lengths[i]);
			assert_int_equal(density_count(r.up.density, lengths[i]), k);
			recipe_print(&r, printed);
			assert_int_equal(strncmp(printed, text, strlen(text)), 0);
		}
}

TEST(recipe_parse__a_method__is_its_words_and_what_is_said_besides)
{
	for (size_t i = 0; i < n_methods; i++) {
		struct recipe by_name = parsed(methods[i].name),
			      by_text = parsed(methods[i].recipe);

		assert_memory_equal(&by_name, &by_text, sizeof(by_name));

		char keyed[64];
		snprintf(keyed, sizeof(keyed), "method=%s", methods[i].name);
		struct recipe by_key = parsed(keyed);

		assert_memory_equal(&by_key, &by_text, sizeof(by_key));
	}

	struct recipe r = parsed("scalecom up=cyclic(k=5,chunks),f16 seed=3");

	assert_true(r.up.select == SELECT_CYCLIC && r.up.count == 5 && r.up.chunks);
	assert_true(r.placement == STEP_OUTSIDE && r.seed == 3);

	struct recipe swapped = parsed("seed=3 up=cyclic(k=5,chunks),f16 scalecom");

	assert_memory_equal(&r, &swapped, sizeof(r));

	struct recipe keyed = parsed("seed=3 method=scalecom up=cyclic(k=5,chunks),f16");

	assert_memory_equal(&r, &keyed, sizeof(r));
	assert_true(parsed("bitopk down=all").down.select == SELECT_ALL);
}

TEST(recipe_parse__global__takes_a_density_and_steps_between_histograms)
{
	struct recipe r = parsed("up=global(1%) down=global(0.05,100),f16");

	assert_true(r.up.select == SELECT_GLOBAL && r.up.density == 0.01 && r.up.every == 20);
	assert_true(r.down.select == SELECT_GLOBAL && r.down.density == 0.05 &&
		    r.down.every == 100);
	assert_int_equal(r.down.values.type, VALUE_F16);
	assert_int_equal(r.memory.kind, MEMORY_RESIDUAL);
	assert_int_equal(parsed("up=topk(0.01)").up.every, 0);
}

TEST(recipe_parse__warmups_in_every_form)
{
	static const struct {
		const char *text;
		double length;
		enum warmup_unit unit;
	} forms[] = {
		{ "warmup=0", 0, WARMUP_STEPS },
		{ "warmup=100", 100, WARMUP_STEPS },
		{ "warmup=100steps", 100, WARMUP_STEPS },
		{ "warmup=1step", 1, WARMUP_STEPS },
		{ "warmup=1epoch", 1, WARMUP_EPOCHS },
		{ "warmup=2epochs", 2, WARMUP_EPOCHS },
		{ "warmup=0.5epochs", 0.5, WARMUP_EPOCHS },
		{ "warmup=1e3", 1000, WARMUP_STEPS },
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct recipe r = parsed(forms[i].text);

		assert_true(r.warmup.length == forms[i].length);
		assert_int_equal(r.warmup.unit, forms[i].unit);
	}
}

TEST(recipe_parse__guard__is_read_and_printed_where_it_changes_results)
{
	assert_int_equal(parsed("up=topk(0.01)").guard, GUARD_WARN);
	assert_int_equal(parsed("guard=warn up=topk(0.01)").guard, GUARD_WARN);
	assert_int_equal(parsed("up=topk(0.01) guard=none").guard, GUARD_NONE);
	assert_int_equal(parsed("auto guard=none").guard, GUARD_NONE);
	assert_int_equal(parsed("up=topk(0.01) guard=raise").guard, GUARD_RAISE);
	char with[RECIPE_TEXT_BYTES], without[RECIPE_TEXT_BYTES];
	const struct recipe none = parsed("up=topk(0.01) guard=none"),
			    warn = parsed("up=topk(0.01)");

	recipe_print(&none, with);
	recipe_print(&warn, without);
	assert_string_equal(with, without);
	/* guard=raise changes the training by raising the density, so it is part of what ranks and
	 * checkpoints compare. */
	const struct recipe raise = parsed("guard=raise up=topk(0.01)");

	recipe_print(&raise, with);
	assert_non_null(strstr(with, " when=always guard=raise"));
}

TEST(recipe_sends_whole__matches_patterns)
{
	struct recipe r = parsed("dense=*bias*,norm?,[hx]ead");

	assert_int_equal(recipe_sends_whole(&r, "layer0.bias"), 1);
	assert_int_equal(recipe_sends_whole(&r, "norm1"), 1);
	assert_int_equal(recipe_sends_whole(&r, "norm12"), 0);
	assert_int_equal(recipe_sends_whole(&r, "head"), 1);
	assert_int_equal(recipe_sends_whole(&r, "layer0.weight"), 0);
	assert_int_equal(recipe_sends_whole(&r, ""), 0);
	assert_int_equal(recipe_sends_whole(&r, NULL), 0);
	r = parsed("dense=none");
	assert_int_equal(recipe_sends_whole(&r, "layer0.bias"), 0);
	assert_int_equal(recipe_sends_whole(&r, ""), 0);
}

int main(void)
{
	return run_cases(swallow_log, NULL);
}
