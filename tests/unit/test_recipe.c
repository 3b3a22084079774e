/* SPDX-License-Identifier: BSD-3-Clause
 * The recipe language: defaults, round trips, every refusal by its key phrase, random mutations. */
#include "recipe/recipe.h"
#include "base/log.h"
#include "sluice.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static int warnings;
static char last_warning[1024];

static void keep_warning(int level, const char *line, void *context)
{
	(void)context;
	if (level != LOG_WARN)
		return;
	warnings++;
	snprintf(last_warning, sizeof(last_warning), "%s", line);
}

static int swallow_log(void **state)
{
	(void)state;
	sluice_set_log(keep_warning, NULL);
	return 0;
}

static struct recipe parsed(const char *text)
{
	struct recipe r;

	if (recipe_parse(text, &r))
		fail_msg("\"%s\": %s", text, sluice_last_error());
	return r;
}

static void expect_print(const char *text, const char *wanted)
{
	struct recipe r = parsed(text);
	char printed[RECIPE_TEXT_BYTES];

	recipe_print(&r, printed);
	assert_string_equal(printed, wanted);
}

/* All phrases ('|' between them) must be in the sentence, and the recipe must be left alone. */
static void expect_refused(const char *text, const char *phrases)
{
	struct recipe r, before;
	char list[512];

	memset(&r, 0x5a, sizeof(r));
	memcpy(&before, &r, sizeof(r));
	if (recipe_parse(text, &r) != SLUICE_EINVAL)
		fail_msg("\"%s\" is not refused", text);
	assert_memory_equal(&r, &before, sizeof(r));
	assert_memory_equal(sluice_last_error(), "recipe: ", 8);
	snprintf(list, sizeof(list), "%s", phrases);
	for (char *phrase = strtok(list, "|"); phrase; phrase = strtok(NULL, "|"))
		if (!strstr(sluice_last_error(), phrase))
			fail_msg("\"%s\" is answered with \"%s\", without \"%s\"", text,
				 sluice_last_error(), phrase);
}

static void recipe_parse__null_empty_and_blank_are_the_default(void **state)
{
	struct recipe wanted = parsed(RECIPE_DEFAULT);
	struct recipe r;

	(void)state;
	assert_int_equal(recipe_parse(NULL, &r), 0);
	assert_memory_equal(&r, &wanted, sizeof(r));
	assert_int_equal(recipe_parse("", &r), 0);
	assert_memory_equal(&r, &wanted, sizeof(r));
	assert_int_equal(recipe_parse(" \t\n", &r), 0);
	assert_memory_equal(&r, &wanted, sizeof(r));
	assert_true(r.up.select == SELECT_TOPK && r.up.density == 0.01);
	assert_true(r.down.select == SELECT_TOPK && r.down.density == 0.05);
	assert_int_equal(r.memory, MEMORY_RESIDUAL);
	assert_int_equal(r.update, UPDATE_SGD);
}

static void recipe_parse__axes_that_are_not_named_have_their_defaults(void **state)
{
	struct recipe r = parsed("update=sgd");

	(void)state;
	assert_int_equal(r.up.select, SELECT_ALL);
	assert_true(r.up.density == 1);
	assert_int_equal(r.up.values.type, VALUE_F32);
	assert_int_equal(r.down.select, SELECT_ALL);
	assert_int_equal(r.signal, SIGNAL_GRADIENT);
	assert_int_equal(r.mask, 0);
	assert_int_equal(r.memory, MEMORY_NONE);
	assert_int_equal(r.placement, STEP_INSIDE);
	assert_true(r.warmup == 0);
	assert_int_equal(r.warmup_unit, WARMUP_STEPS);
	assert_string_equal(r.dense, "*bias*");
	assert_true(r.clip == 0);
	assert_true(r.decay == 0);
	assert_int_equal(r.nonfinite, NONFINITE_ABORT);
	assert_int_equal(r.coding, CODING_FAST);
}

static void recipe_parse__every_axis_is_read(void **state)
{
	struct recipe r = parsed("coding=small nonfinite=zero decay=0.0005 clip=2.5 dense=a*,b? warmup=2epochs "
				 "update=nesterov(0.8) memory=residual(outside) "
				 "signal=momentum(0.9),nomask down=all,bf16 up=topk(1%),f16");

	(void)state;
	assert_true(r.up.select == SELECT_TOPK && r.up.density == 0.01);
	assert_int_equal(r.up.values.type, VALUE_F16);
	assert_int_equal(r.down.values.type, VALUE_BF16);
	assert_int_equal(r.signal, SIGNAL_MOMENTUM);
	assert_true(r.signal_momentum == 0.9f);
	assert_int_equal(r.mask, 0);
	assert_int_equal(r.memory, MEMORY_RESIDUAL);
	assert_int_equal(r.placement, STEP_OUTSIDE);
	assert_int_equal(r.update, UPDATE_NESTEROV);
	assert_true(r.update_momentum == 0.8f);
	assert_true(r.warmup == 2);
	assert_int_equal(r.warmup_unit, WARMUP_EPOCHS);
	assert_string_equal(r.dense, "a*,b?");
	assert_true(r.clip == 2.5f);
	assert_true(r.decay == 0.0005f);
	assert_int_equal(r.nonfinite, NONFINITE_ZERO);
	assert_int_equal(r.coding, CODING_SMALL);
}

static void recipe_parse__auto__in_place_of_both_directions(void **state)
{
	struct recipe r = parsed("auto signal=momentum(0.9)");

	(void)state;
	assert_int_equal(r.automatic, 1);
	assert_int_equal(r.memory, MEMORY_RESIDUAL);
	assert_int_equal(r.up.select, SELECT_TOPK);
	assert_true(r.up.density == 1 && r.down.density == 1);
	assert_int_equal(parsed("up=topk(0.1)").automatic, 0);
	assert_int_equal(parsed("auto warmup=0").automatic, 1);
	expect_print("update=sgd auto", "auto signal=gradient memory=residual(inside) update=sgd "
		     "warmup=0steps dense=*bias* clip=none decay=0 nonfinite=abort coding=fast reset=none seed=0 when=always");

	char printed[RECIPE_TEXT_BYTES];
	recipe_print(&r, printed);
	struct recipe again = parsed(printed);
	assert_memory_equal(&r, &again, sizeof(r));
}

static void recipe_parse__memory_default_follows_the_directions(void **state)
{
	(void)state;
	assert_int_equal(parsed("up=topk(0.1)").memory, MEMORY_RESIDUAL);
	assert_int_equal(parsed("down=topk(0.1)").memory, MEMORY_RESIDUAL);
	assert_int_equal(parsed("up=all,f16").memory, MEMORY_RESIDUAL);
	assert_int_equal(parsed("down=all,bf16").memory, MEMORY_RESIDUAL);
	assert_int_equal(parsed("up=all,f32 down=all").memory, MEMORY_NONE);
	assert_int_equal(parsed("memory=none up=all,f16").memory, MEMORY_NONE);
}

static void recipe_parse__values_in_few_bits__are_read_and_wrong_ones_refused(void **state)
{
	static const char *const wrong[] = { "uniform", "uniform(0)", "uniform(9)", "uniform(2.5)", "uniform(4,)",
					     "uniform(4,12)", "uniform(4,0)", "uniform(4,65536)", "uniform(4,64,2)",
					     "grid", "grid(9)", "grid(4,512)", "grid(-1)", "round", "round(0)",
					     "round(-1)", "round(1e39)", "round(x)", "f16(4)" };
	struct recipe r = parsed("up=all,uniform(4) down=topk(0.1),uniform(8,64) seed=4294967295 when=always");
	char text[64];

	(void)state;
	assert_true(r.up.values.type == VALUE_UNIFORM && r.up.values.bits == 4 && r.up.values.block == 512);
	assert_true(r.down.values.bits == 8 && r.down.values.block == 64);
	assert_true(r.seed == UINT32_MAX);
	r = parsed("up=all,grid(3) down=all,round(0.5)");
	assert_true(r.up.values.type == VALUE_GRID && r.up.values.bits == 3 && !r.up.values.block);
	assert_true(r.down.values.type == VALUE_ROUND && r.down.values.step == 0.5f);
	assert_int_equal(r.memory, MEMORY_RESIDUAL);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(text, sizeof(text), "up=all,%s", wrong[i]);
		assert_int_equal(recipe_parse(text, &r), SLUICE_EINVAL);
	}
	assert_int_equal(recipe_parse("seed=4294967296", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("seed=1.5", &r), SLUICE_EINVAL);
	assert_int_equal(recipe_parse("seed=-1", &r), SLUICE_EINVAL);
}

static void recipe_parse__signals_and_memories__are_read_and_refused_where_they_do_not_fit(void **state)
{
	struct recipe r = parsed("up=topk(0.1) signal=storm(0.1),noise(2) memory=twostep(0.3) update=ema(0.1)");

	(void)state;
	assert_true(r.signal == SIGNAL_STORM && r.signal_alpha == 0.1f && r.noise == 2);
	assert_true(r.memory == MEMORY_TWOSTEP && r.memory_beta == 0.3f && r.placement == STEP_OUTSIDE);
	assert_true(r.update == UPDATE_EMA && r.update_alpha == 0.1f);
	r = parsed("up=topk(0.1) signal=momentum(0.5),noise(1),nomask memory=lowpass(0.2),outside reset=none");
	assert_true(!r.mask && r.noise == 1 && r.memory == MEMORY_LOWPASS && r.placement == STEP_OUTSIDE);
	r = parsed("up=topk(0.1) signal=igt(1/t) update=ema(1/t) reset=50");
	assert_true(r.signal == SIGNAL_IGT && r.signal_alpha == 0 && r.reset == 50);

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
	expect_refused("memory=inside", "does not say what is remembered");
	expect_refused("memory=lowpass", "lowpass lacks its number");
	expect_refused("memory=lowpass(0)", "BETA");
	expect_refused("memory=lowpass(0.5),residual", "a second memory");
	expect_refused("memory=twostep(1),inside", "one value too many");
	expect_refused("memory=twostep(1) update=momentum(0.9)", "made for a running average");
	expect_refused("memory=twostep(1) update=ema(0.1) nonfinite=skip", "consecutive steps");
	expect_refused("up=topk(0.3) memory=twostep(1) update=ema(0.1)", "diverges");
	expect_refused("up=all,uniform(2) memory=twostep(1) update=ema(0.1)", "diverges");
	expect_refused("up=cyclic(0.1) memory=twostep(1) update=ema(0.1)", "diverges");
	expect_refused("auto memory=twostep(1) update=ema(0.1)", "memory=residual");
	expect_refused("up=random(0.9) memory=lowpass(0.5)", "would count twice");
	expect_refused("up=topk(0.1) memory=lowpass(0.5) reset=10", "needs memory=residual");
	expect_refused("reset=10 memory=none", "needs memory=residual");
	expect_refused("reset=0", "1 to 1000000000");
	expect_refused("reset=1.5", "1 to 1000000000");
	parsed("up=topk(0.5) memory=twostep(1) update=ema(0.1)");
	parsed("up=all,uniform(3) memory=twostep(1) update=ema(0.1)");
	parsed("up=topk(0.01) memory=twostep(1) update=sgd");
	parsed("up=all,round(2) memory=twostep(1) update=ema(0.1)");
}

static void recipe_parse__mask_default_follows_up(void **state)
{
	(void)state;
	assert_int_equal(parsed("signal=momentum(0.9) up=topk(0.1)").mask, 1);
	assert_int_equal(parsed("signal=momentum(0.9),nomask up=topk(0.1)").mask, 0);
	assert_int_equal(parsed("signal=momentum(0.9) up=all").mask, 0);
	assert_int_equal(parsed("signal=momentum(0.9) down=topk(0.1)").mask, 0);
	assert_int_equal(parsed("signal=gradient up=topk(0.1)").mask, 0);
}

static void recipe_parse__densities_in_every_form(void **state)
{
	(void)state;
	assert_true(parsed("up=topk(1)").up.density == 1);
	assert_true(parsed("up=topk(100%)").up.density == 1);
	assert_true(parsed("up=topk(1e-3)").up.density == 0.001);
	assert_true(parsed("up=topk(.5)").up.density == 0.5);
	assert_true(parsed("up=topk(0.7%)").up.density == 0.007);
	assert_true(parsed("up=topk(0.1%)").up.density == 0.001);
}

static void recipe_parse__global__takes_a_density_and_steps_between_histograms(void **state)
{
	struct recipe r = parsed("up=global(1%) down=global(0.05,100),f16");

	(void)state;
	assert_true(r.up.select == SELECT_GLOBAL && r.up.density == 0.01 && r.up.every == 20);
	assert_true(r.down.select == SELECT_GLOBAL && r.down.density == 0.05 && r.down.every == 100);
	assert_int_equal(r.down.values.type, VALUE_F16);
	assert_int_equal(r.memory, MEMORY_RESIDUAL);
	assert_int_equal(parsed("up=topk(0.01)").up.every, 0);
}

static void recipe_parse__warmups_in_every_form(void **state)
{
	static const struct {
		const char *text;
		double length;
		enum warmup_unit unit;
	} forms[] = {
		{ "warmup=0", 0, WARMUP_STEPS },	{ "warmup=100", 100, WARMUP_STEPS },
		{ "warmup=100steps", 100, WARMUP_STEPS }, { "warmup=1step", 1, WARMUP_STEPS },
		{ "warmup=1epoch", 1, WARMUP_EPOCHS },	{ "warmup=2epochs", 2, WARMUP_EPOCHS },
		{ "warmup=0.5epochs", 0.5, WARMUP_EPOCHS }, { "warmup=1e3", 1000, WARMUP_STEPS },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct recipe r = parsed(forms[i].text);

		assert_true(r.warmup == forms[i].length);
		assert_int_equal(r.warmup_unit, forms[i].unit);
	}
}

static void recipe_print__spells_out_every_axis(void **state)
{
	(void)state;
	expect_print("", "up=topk(0.01),f32 down=topk(0.05),f32 signal=gradient "
			 "memory=residual(inside) update=sgd warmup=0steps dense=*bias* clip=none "
			 "decay=0 nonfinite=abort coding=fast reset=none seed=0 when=always");
	expect_print("up=all,uniform(4) signal=storm(0.1),noise(0.5) memory=twostep(1) update=ema(0.1) seed=7 when=always",
		     "up=all,uniform(4,512) down=all,f32 signal=storm(0.1),noise(0.5) memory=twostep(1) "
		     "update=ema(0.1) warmup=0steps dense=*bias* clip=none decay=0 nonfinite=abort coding=fast "
		     "reset=none seed=7 when=always");
	expect_print("up=topk(0.5) signal=igt(1/t) memory=lowpass(0.3),outside update=ema(1/t) dense=none",
		     "up=topk(0.5),f32 down=all,f32 signal=igt(1/t) memory=lowpass(0.3),outside "
		     "update=ema(1/t) warmup=0steps dense=none clip=none decay=0 nonfinite=abort coding=fast "
		     "reset=none seed=0 when=always");
	expect_print("up=all down=all,f16 update=momentum(0.9) dense=none clip=1 decay=1e-4 "
		     "warmup=1epoch nonfinite=skip coding=small",
		     "up=all,f32 down=all,f16 signal=gradient memory=residual(inside) "
		     "update=momentum(0.9) warmup=1epoch dense=none clip=1 decay=0.0001 "
		     "nonfinite=skip coding=small reset=none seed=0 when=always");
	expect_print("signal=momentum(0.9) up=topk(0.1%) memory=residual(outside) warmup=250",
		     "up=topk(0.001),f32 down=all,f32 signal=momentum(0.9),mask "
		     "memory=residual(outside) update=sgd warmup=250steps dense=*bias* clip=none "
		     "decay=0 nonfinite=abort coding=fast reset=none seed=0 when=always");
}

static const char *const valid_recipes[] = {
	RECIPE_DEFAULT,
	"up=all down=all update=momentum(0.9)",
	"up=topk(0.01) down=topk(0.05) signal=momentum(0.9) memory=residual warmup=1epoch update=sgd",
	"up=topk(0.1%),bf16 down=all,f16 signal=momentum(0.3333333),nomask memory=residual(outside)",
	"up=topk(0.123456789012345678) down=topk(1e-300)",
	"update=nesterov(0.99) clip=0.1 decay=3.3e-5 nonfinite=zero",
	"update=none clip=1e30 dense=*norm*,head.bias,[ab]? warmup=12345678901",
	"memory=none up=all,f16",
	"signal=momentum(0),mask up=topk(1)",
	"warmup=0.3333333333333333epochs up=topk(100%)",
	"dense=none update=momentum(0)",
	"up=all,uniform(8,65528) down=topk(0.1),grid(1) seed=123456789 when=always",
	"up=topk(0.01),round(0.3333333) down=all,uniform(1)",
	"up=topk(0.01) signal=gradient,noise(0.01) memory=residual reset=1000000000",
	"up=topk(0.01) signal=momentum(0.9),nomask,noise(1e-3) memory=lowpass(0.1)",
	"up=all,uniform(3) signal=storm(1/t) memory=twostep(0.3333333) update=ema(1/t)",
	"up=topk(0.1),f16 signal=igt(0.05) memory=twostep(0.3) update=ema(0.05)",
	"up=global(0.01) down=global(0.1%,1),bf16",
	"up=topk(0.01) down=global(1e-3,1000000)",
};
enum { VALID = sizeof(valid_recipes) / sizeof(valid_recipes[0]) };

static void expect_round_trip(const struct recipe *r)
{
	char printed[RECIPE_TEXT_BYTES], again[RECIPE_TEXT_BYTES];
	struct recipe back;

	recipe_print(r, printed);
	if (recipe_parse(printed, &back))
		fail_msg("printed \"%s\" is refused: %s", printed, sluice_last_error());
	assert_memory_equal(&back, r, sizeof(back));
	recipe_print(&back, again);
	assert_string_equal(again, printed);
}

static void recipe_print__reads_back_to_the_same_recipe(void **state)
{
	(void)state;
	for (size_t i = 0; i < VALID; i++) {
		struct recipe r = parsed(valid_recipes[i]);

		expect_round_trip(&r);
	}
}

static uint64_t random_state = 0x13198A2E03707344u;

static uint64_t random_u64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void recipe_print__random_recipes_read_back(void **state)
{
	static const char *const directions[] = { "all", "topk(%.17g)" };
	static const char *const values[] = { "", ",f32", ",f16", ",bf16" };
	static const char *const updates[] = { "none", "sgd", "momentum(%.9g)", "nesterov(%.9g)" };

	(void)state;
	for (int round = 0; round < 3000; round++) {
		char up[64], update[64], text[512];
		double share = (double)(random_u64() >> 11 | 1) * 0x1p-53;
		struct recipe r;

		snprintf(up, sizeof(up), directions[random_u64() % 2], share);
		snprintf(update, sizeof(update), updates[random_u64() % 4], share * 0.999);
		snprintf(text, sizeof(text),
			 "up=%s%s down=topk(%.9g)%s signal=momentum(%.7g) update=%s warmup=%llu clip=%g",
			 up, values[random_u64() % 4], share, values[random_u64() % 4], share * 0.99,
			 update, (unsigned long long)(random_u64() % 1000000000), 100 * share);
		r = parsed(text);
		expect_round_trip(&r);
	}
}

static void recipe_print__longest_recipe_fits(void **state)
{
	char text[RECIPE_TEXT_BYTES], patterns[256];
	struct recipe r;

	(void)state;
	memset(patterns, 'p', 255);
	patterns[255] = '\0';
	snprintf(text, sizeof(text),
		 "up=topk(1.2345678901234567e-300),bf16 down=topk(1.2345678901234567e-300),bf16 "
		 "signal=momentum(0.123456789),nomask memory=residual(outside) "
		 "update=nesterov(0.123456789) warmup=0.12345678901234567epochs dense=%s "
		 "clip=1.23456789e-30 decay=1.23456789e-30 nonfinite=abort", patterns);
	r = parsed(text);
	expect_round_trip(&r);
}

static void recipe_text__does_not_depend_on_the_locale(void **state)
{
	static const char *const comma_locales[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8" };
	int found = 0;

	(void)state;
	for (size_t i = 0; i < 3 && !found; i++)
		found = setlocale(LC_ALL, comma_locales[i]) != NULL;
	if (!found)
		skip(); /* no locale with a decimal comma is installed */
	expect_print("up=topk(0.25) decay=0.5",
		     "up=topk(0.25),f32 down=all,f32 signal=gradient memory=residual(inside) "
		     "update=sgd warmup=0steps dense=*bias* clip=none decay=0.5 nonfinite=abort");
	setlocale(LC_ALL, "C");
}

static void recipe_parse__unknown_words_are_answered_with_the_nearest(void **state)
{
	struct recipe r;

	(void)state;
	assert_int_equal(recipe_parse("up=topkk(0.01)", &r), SLUICE_EINVAL);
	assert_string_equal(sluice_last_error(),
			    "recipe: unknown word \"topkk\" in \"up=topkk(0.01)\": did you mean "
			    "\"topk\"? up= takes " SELECTION_FORMS
			    ", then f32, f16, bf16, uniform(BITS[,BLOCK]), grid(BITS) or round(WIDTH)");
	expect_refused("auto auto", "auto is given twice");
	expect_refused("auto up=all", "\"up=all\" beside auto");
	expect_refused("down=topk(0.1) auto", "\"down=topk(0.1)\" beside auto");
	expect_refused("auto warmup=5", "\"warmup=5\" beside auto");
	expect_refused("auto memory=none", "\"memory=none\" beside auto");
	expect_refused("auto memory=lowpass(0.1)", "beside auto");
	expect_refused("automatic", "and the word auto");
	expect_refused("ups=all", "unknown key \"ups\"|did you mean \"up\"?|keys are up, down,");
	expect_refused("colour=red", "unknown key \"colour\" in \"colour=red\": keys are up");
	expect_refused("=all", "unknown key \"\"");
	expect_refused("up=global", "global lacks its density in \"up=global\"");
	expect_refused("up=global(2)", "\"2\" in \"up=global(2)\" is not possible: density");
	expect_refused("up=global(0.1,)", "\"\" in \"up=global(0.1,)\" is not a number|how many steps");
	expect_refused("up=global(0.1,0)", "\"0\" in \"up=global(0.1,0)\" is not possible|1 to 1000000");
	expect_refused("up=global(0.1,1.5)", "\"1.5\"|is not possible");
	expect_refused("up=global(0.1,5,6)", "\"6\" is one number too many for global");
	expect_refused("down=global(,5)", "\"\"|is not a number");
	expect_refused("up=threshold(auto)", "\"auto\"|global(DENSITY) finds it");
	expect_refused("up=all,fp16", "unknown word \"fp16\"|did you mean \"f16\"?");
	expect_refused("up=sieve(5)", "unknown word \"sieve\" in \"up=sieve(5)\": up= takes");
	expect_refused("signal=momentun(0.9)", "did you mean \"momentum\"?|signal= takes");
	expect_refused("signal=momentum(0.9),maks", "did you mean \"mask\"?");
	expect_refused("memory=resid", "did you mean \"residual\"?|memory= takes");
	expect_refused("memory=residual(outsid)",
		       "unknown placement \"outsid\"|did you mean \"outside\"?");
	expect_refused("memory=residual()", "unknown placement \"\"");
	expect_refused("update=nestrov(0.9)", "did you mean \"nesterov\"?|update= takes");
	expect_refused("warmup=1epch", "unknown unit \"epch\"|did you mean \"epoch\"?|1epoch");
	expect_refused("warmup=5days", "unknown unit \"days\" in \"warmup=5days\": warmup= takes");
	expect_refused("nonfinite=abrot", "did you mean \"abort\"?|nonfinite= takes");
}

static void recipe_parse__densities_outside_are_refused_with_the_reason(void **state)
{
	(void)state;
	expect_refused("up=topk(0)", "\"0\" in \"up=topk(0)\"|density must be above 0 and at most 1");
	expect_refused("up=topk(2)", "\"2\" in \"up=topk(2)\"|density must be above 0 and at most 1");
	expect_refused("down=topk(101%)", "\"101%\"|density must be above 0");
	expect_refused("up=topk(-0.1)", "\"-0.1\"|density must be above 0");
	expect_refused("up=topk(0e5)", "density must be above 0");
	expect_refused("up=topk(1e999)", "density must be above 0");
	expect_refused("up=topk(1e-999)", "density must be above 0");
	expect_refused("up=topk", "topk lacks its density|write up=topk(0.01)");
	expect_refused("up=topk()", "is not a number|density must be");
	expect_refused("up=topk(half)", "\"half\"|is not a number|density must be");
	expect_refused("up=topk(0,01)", "\"0,01\"|is not a number");
	expect_refused("up=topk(nan)", "\"nan\"|is not a number");
	expect_refused("up=topk(inf)", "is not a number");
	expect_refused("up=topk(0x1p-3)", "is not a number");
	expect_refused("up=topk(0.1%%)", "is not a number");
	expect_refused("up=topk(1e-1%)", "is not a number");
	expect_refused("up=topk(0.1x)", "\"0.1x\"|is not a number");
}

static void recipe_parse__momenta_outside_are_refused_with_the_reason(void **state)
{
	(void)state;
	expect_refused("signal=momentum(1)", "\"1\"|a momentum must be at least 0 and below 1");
	expect_refused("signal=momentum(-0.5)", "\"-0.5\"|a momentum must be at least 0");
	expect_refused("update=momentum(1.5)", "\"1.5\"|a momentum must be at least 0 and below 1");
	expect_refused("update=nesterov(0.99999999999)", "below 1"); /* 1 as a float */
	expect_refused("update=momentum(1e99)", "below 1");
	expect_refused("update=momentum", "momentum lacks its factor|write update=momentum(0.9)");
	expect_refused("signal=momentum", "momentum lacks its factor|write signal=momentum(0.9)");
	expect_refused("signal=momentum(much)", "\"much\"|is not a number");
	expect_refused("update=momentum(0.9%)", "\"0.9%\"|is not a number");
}

static void recipe_parse__other_numbers_outside_are_refused(void **state)
{
	(void)state;
	expect_refused("clip=0", "\"0\"|above 0, or none");
	expect_refused("clip=-1", "\"-1\"|above 0, or none");
	expect_refused("clip=1e-60", "above 0"); /* 0 as a float */
	expect_refused("clip=1e60", "\"1e60\"");
	expect_refused("clip=no", "\"no\"|is not a number|or none");
	expect_refused("decay=-1", "\"-1\"|0 or above");
	expect_refused("decay=1e60", "\"1e60\"|0 or above");
	expect_refused("decay=none", "\"none\"|is not a number");
	expect_refused("warmup=-5", "\"-5\"|no negative length");
	expect_refused("warmup=1.5", "\"1.5\"|whole number");
	expect_refused("warmup=1e13", "at most 1e12");
	expect_refused("warmup=long", "\"long\" in \"warmup=long\" is not a length|1epoch");
	expect_refused("warmup=inf", "is not a length");
}

static void recipe_parse__misplaced_pieces_are_refused(void **state)
{
	(void)state;
	expect_refused("up", "\"up\" has no \"=\"|KEY=VALUE");
	expect_refused("up=all garbage", "\"garbage\" has no \"=\"");
	expect_refused("up=all up=topk(0.1)",
		       "up= is given twice, as \"up=all\" and as \"up=topk(0.1)\"");
	expect_refused("up=", "\"up=\" has no value|up= takes");
	expect_refused("dense=", "\"dense=\" has no value");
	expect_refused("up=all,", "a value is missing in \"up=all,\"");
	expect_refused("up=,f16", "a value is missing");
	expect_refused("up=f16", "does not say which coordinates are sent|up=all,f16");
	expect_refused("up=all,topk(0.1)", "\"topk\" is a second selection");
	expect_refused("up=all,f16,f32", "\"f32\" is one value too many in \"up=all,f16,f32\"");
	expect_refused("up=all,f16,f32,f32,f32,f32", "\"f32\" is one value too many");
	expect_refused("up=all(3)", "\"all\" takes no argument");
	expect_refused("up=all,f16(3)", "\"f16\" takes no argument");
	expect_refused("up=topk(0.1", "lacks a closing parenthesis");
	expect_refused("up=topk( 0.1 )", "\"up=topk(\" lacks a closing parenthesis|no blanks");
	expect_refused("up=topk(0.1)x", "unexpected \"x\" after the parenthesis");
	expect_refused("up=topk(0.1)(2)", "unexpected \"(2)\"");
	expect_refused("signal=mask", "does not name the signal|momentum(0.9),mask");
	expect_refused("signal=gradient,mask", "\"mask\" is one value too many");
	expect_refused("signal=momentum(0.9),gradient", "\"gradient\" is a second signal");
	expect_refused("signal=momentum(0.9),mask(1)", "\"mask\" takes no argument");
	expect_refused("signal=momentum(0.9),mask,nomask", "\"nomask\" is one value too many");
	expect_refused("memory=none(inside)", "\"none\" takes no argument");
	expect_refused("memory=residual,none", "\"none\" is one value too many");
	expect_refused("memory=residual(inside),none", "\"none\" is one value too many");
	expect_refused("update=sgd(0.1)", "\"sgd\" takes no argument");
	expect_refused("update=sgd,none", "\"none\" is one value too many");
	expect_refused("nonfinite=skip,zero", "\"zero\" is one value too many");
	expect_refused("nonfinite=skip(1)", "\"skip\" takes no argument");
	expect_refused("dense=a,,b", "a pattern is empty");
	expect_refused("dense=a,", "a pattern is empty");
	expect_refused("dense=none,a", "\"none\" stands beside patterns");
	expect_refused("up=all\x01", "byte 0x01 at position 7 is a control character");
}

static void recipe_parse__combinations_without_sense_are_refused(void **state)
{
	(void)state;
	expect_refused("update=none decay=0.1", "\"decay=0.1\" with update=none|no update");
	expect_refused("signal=momentum(0.9),mask", "with up=all|nomask");
	expect_refused("up=all,f16 signal=momentum(0.9),mask", "with up=all");
	parsed("update=none decay=0");
}

static void recipe_parse__too_long_texts_are_refused(void **state)
{
	static char text[5000];

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	expect_refused(text, "longer than 1023 characters");
	text[1023] = '\0';
	expect_refused(text, "has no \"=\"|...\"");
	memcpy(text, "dense=", 6);
	text[6 + 256] = '\0';
	expect_refused(text, "have 256 characters, at most 255 fit");
	text[6 + 255] = '\0';
	parsed(text);
}

static void recipe_parse__doubtful_combinations_warn_once(void **state)
{
	int before;

	(void)state;
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

/* Runs first, while nothing has been said yet. */
static void recipe_parse__doubtful_combinations_warn(void **state)
{
	(void)state;
	parsed("memory=none up=all");
	parsed("signal=momentum(0.9) update=sgd");
	assert_int_equal(warnings, 0);
	parsed("memory=none down=topk(0.1)");
	assert_int_equal(warnings, 1);
	assert_non_null(strstr(last_warning, "memory=none with topk drops what is not sent"));
	parsed("signal=momentum(0.9) update=nesterov(0.9)");
	assert_int_equal(warnings, 2);
	assert_non_null(strstr(last_warning, "update=nesterov apply a momentum twice"));
	parsed("up=all,uniform(1) memory=twostep(0.3) update=ema(0.1) signal=storm(0.1)");
	assert_int_equal(warnings, 2);
	parsed("up=all,uniform(1) memory=twostep(0.3) update=ema(0.1)");
	assert_int_equal(warnings, 3);
	assert_non_null(strstr(last_warning, "may diverge unless the signal is storm or igt"));
}

static void recipe_sends_whole__matches_patterns(void **state)
{
	struct recipe r = parsed("dense=*bias*,norm?,[hx]ead");

	(void)state;
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

static void mutate(char *text, size_t *n)
{
	static const char alphabet[] = "=(),.%-+0123456789eaftopkmursidlnw *?[] \x7f\xff\t";
	size_t at = *n ? random_u64() % *n : 0;

	switch (random_u64() % 4) {
	case 0: /* replace */
		if (*n)
			text[at] = alphabet[random_u64() % (sizeof(alphabet) - 1)];
		break;
	case 1: /* insert */
		if (*n + 1 < RECIPE_TEXT_BYTES) {
			memmove(text + at + 1, text + at, *n - at + 1);
			text[at] = alphabet[random_u64() % (sizeof(alphabet) - 1)];
			++*n;
		}
		break;
	case 2: /* delete */
		if (*n) {
			memmove(text + at, text + at + 1, *n - at);
			--*n;
		}
		break;
	default: /* repeat a piece at the end */
		if (*n && *n + (*n - at) < RECIPE_TEXT_BYTES) {
			size_t piece = *n - at;

			memmove(text + *n, text + at, piece);
			*n += piece;
			text[*n] = '\0';
		}
	}
}

static void recipe_parse__mutated_recipes_are_refused_or_round_trip(void **state)
{
	int accepted = 0, refused = 0;

	(void)state;
	for (int round = 0; round < 40000; round++) {
		char text[2 * RECIPE_TEXT_BYTES];
		size_t n = (size_t)snprintf(text, sizeof(text), "%s",
					    valid_recipes[random_u64() % VALID]);
		struct recipe r;

		for (uint64_t times = 1 + random_u64() % 4; times > 0; times--)
			mutate(text, &n);
		if (recipe_parse(text, &r) == SLUICE_OK) {
			expect_round_trip(&r);
			accepted++;
		} else {
			assert_true(strlen(sluice_last_error()) > 20);
			refused++;
		}
	}
	assert_true(accepted > 1000);
	assert_true(refused > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recipe_parse__doubtful_combinations_warn),
		cmocka_unit_test(recipe_parse__doubtful_combinations_warn_once),
		cmocka_unit_test(recipe_parse__null_empty_and_blank_are_the_default),
		cmocka_unit_test(recipe_parse__axes_that_are_not_named_have_their_defaults),
		cmocka_unit_test(recipe_parse__every_axis_is_read),
		cmocka_unit_test(recipe_parse__auto__in_place_of_both_directions),
		cmocka_unit_test(recipe_parse__memory_default_follows_the_directions),
		cmocka_unit_test(recipe_parse__values_in_few_bits__are_read_and_wrong_ones_refused),
		cmocka_unit_test(recipe_parse__signals_and_memories__are_read_and_refused_where_they_do_not_fit),
		cmocka_unit_test(recipe_parse__mask_default_follows_up),
		cmocka_unit_test(recipe_parse__densities_in_every_form),
		cmocka_unit_test(recipe_parse__global__takes_a_density_and_steps_between_histograms),
		cmocka_unit_test(recipe_parse__warmups_in_every_form),
		cmocka_unit_test(recipe_print__spells_out_every_axis),
		cmocka_unit_test(recipe_print__reads_back_to_the_same_recipe),
		cmocka_unit_test(recipe_print__random_recipes_read_back),
		cmocka_unit_test(recipe_print__longest_recipe_fits),
		cmocka_unit_test(recipe_text__does_not_depend_on_the_locale),
		cmocka_unit_test(recipe_parse__unknown_words_are_answered_with_the_nearest),
		cmocka_unit_test(recipe_parse__densities_outside_are_refused_with_the_reason),
		cmocka_unit_test(recipe_parse__momenta_outside_are_refused_with_the_reason),
		cmocka_unit_test(recipe_parse__other_numbers_outside_are_refused),
		cmocka_unit_test(recipe_parse__misplaced_pieces_are_refused),
		cmocka_unit_test(recipe_parse__combinations_without_sense_are_refused),
		cmocka_unit_test(recipe_parse__too_long_texts_are_refused),
		cmocka_unit_test(recipe_sends_whole__matches_patterns),
		cmocka_unit_test(recipe_parse__mutated_recipes_are_refused_or_round_trip),
	};

	return cmocka_run_group_tests(tests, swallow_log, NULL);
}
