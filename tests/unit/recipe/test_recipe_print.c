/* SPDX-License-Identifier: BSD-3-Clause
 * The recipe language: the printed text parses to the same recipe, in any locale, for recipes
 * written by hand, at random and by mutation. */
#include "recipe_text.h"
#include "sluice.h"
#include "cases.h"
#include <locale.h>
#include <stdio.h>
#include <string.h>

TEST(recipe_print__spells_out_every_axis)
{
	expect_print("", "up=topk(0.01),f32 down=topk(0.05),f32 signal=gradient "
			 "memory=residual(inside) update=sgd warmup=0steps dense=*bias* clip=none "
			 "decay=0 nonfinite=abort coding=fast reset=none seed=0 when=always");
	expect_print("up=topk(0.01) memory=residual(decay=.95)",
		     "up=topk(0.01),f32 down=all,f32 signal=gradient "
		     "memory=residual(inside,decay=0.95) update=sgd warmup=0steps dense=*bias* "
		     "clip=none decay=0 nonfinite=abort coding=fast reset=none seed=0 when=always");
	expect_print("up=topk(0.01) signal=drift when=every(30)",
		     "up=topk(0.01),f32 down=all,f32 signal=drift memory=residual(outside) "
		     "update=sgd warmup=0steps dense=*bias* clip=none decay=0 nonfinite=abort "
		     "coding=fast reset=none seed=0 when=every(30) rate=1 keep=0");
	expect_print("up=all,uniform(4) signal=storm(0.1),noise(0.5) memory=twostep(1) "
		     "update=ema(0.1) seed=7 when=always",
		     "up=all,uniform(4,512) down=all,f32 signal=storm(0.1),noise(0.5) "
		     "memory=twostep(1) update=ema(0.1) warmup=0steps dense=*bias* clip=none "
		     "decay=0 nonfinite=abort coding=fast reset=none seed=7 when=always");
	expect_print("up=topk(0.5) signal=igt(1/t) memory=lowpass(0.3),outside update=ema(1/t) "
		     "dense=none",
		     "up=topk(0.5),f32 down=all,f32 signal=igt(1/t) memory=lowpass(0.3),outside "
		     "update=ema(1/t) warmup=0steps dense=none clip=none decay=0 nonfinite=abort "
		     "coding=fast reset=none seed=0 when=always");
	expect_print("up=all down=all,f16 update=momentum(0.9) dense=none clip=1 decay=1e-4 "
		     "warmup=1epoch nonfinite=skip coding=small",
		     "up=all,f32 down=all,f16 signal=gradient memory=residual(inside) "
		     "update=momentum(0.9) warmup=1epoch dense=none clip=1 decay=0.0001 "
		     "nonfinite=skip coding=small reset=none seed=0 when=always");
	expect_print("signal=momentum(0.9) up=topk(0.1%) memory=residual(outside) warmup=250",
		     "up=topk(0.001),f32 down=all,f32 signal=momentum(0.9),mask "
		     "memory=residual(outside) update=sgd warmup=250steps dense=*bias* clip=none "
		     "decay=0 nonfinite=abort coding=fast reset=none seed=0 when=always");
	expect_print("up=topk(0.04) update=adamw(0.2,0.99,1e-8,0.1) freeze=1 warmup=dense(1)",
		     "up=topk(0.04),f32 down=all,f32 signal=gradient memory=residual(outside) "
		     "update=adamw(0.2,0.99,1e-08,0.1) warmup=dense(1step) dense=*bias* clip=none "
		     "decay=0 nonfinite=abort coding=fast reset=none seed=0 when=always freeze=1");
	expect_print("up=topk(0.1) clip=median reduce=senders",
		     "up=topk(0.1),f32 down=all,f32 signal=gradient memory=residual(inside) "
		     "update=sgd warmup=0steps dense=*bias* clip=median decay=0 nonfinite=abort "
		     "coding=fast reset=none seed=0 when=always reduce=senders");
	expect_print("up=all memory=residual(inside) update=sign transform=dct(08)",
		     "up=all,f32 down=all,f32 signal=gradient memory=residual(inside) update=sign "
		     "warmup=0steps dense=*bias* clip=none decay=0 nonfinite=abort coding=fast "
		     "reset=none seed=0 when=always transform=dct(8)");
	expect_print("clip=none reduce=mean transform=none",
		     "up=all,f32 down=all,f32 signal=gradient memory=none update=sgd "
		     "warmup=0steps dense=*bias* clip=none decay=0 nonfinite=abort coding=fast "
		     "reset=none seed=0 when=always");
}

static const char *const valid_recipes[] = {
	RECIPE_DEFAULT,
	"up=all down=all update=momentum(0.9)",
	"up=topk(0.01) down=topk(0.05) signal=momentum(0.9) memory=residual warmup=1epoch "
	"update=sgd",
	"up=topk(0.1%),bf16 down=all,f16 signal=momentum(0.3333333),nomask "
	"memory=residual(outside)",
	"up=topk(0.123456789012345678) down=topk(1e-300)",
	"update=nesterov(0.99) clip=0.1 decay=3.3e-5 nonfinite=zero",
	"update=none clip=1e30 dense=*norm*,head.bias,[ab]? warmup=12345678901",
	"memory=none up=all,f16",
	"signal=drift",
	"up=topk(0.1) signal=drift keep=0.3333333",
	"signal=drift when=every(1000000) rate=0.7",
	"signal=drift when=every(1000000),fragments(1000000)",
	"signal=drift when=every(30),mix(0.333),late(4),fragments(6)",
	"signal=drift when=every(30) quorum=3 grace=0.25",
	"up=topk(0.1) update=sign",
	"up=topk(0.1) memory=residual(outside,decay=0.3333333)",
	"up=topk(0.1) memory=residual(decay=1)",
	"signal=momentum(0),mask up=topk(1)",
	"warmup=0.3333333333333333epochs up=topk(100%)",
	"dense=none update=momentum(0)",
	"up=all,uniform(8,65528) down=topk(0.1),grid(1) seed=123456789 when=always",
	"up=topk(0.01),round(0.3333333) down=all,uniform(1)",
	"up=topk(0.06),twomeans down=all,e3m0 coding=small",
	"up=topk(0.01) signal=gradient,noise(0.01) memory=residual reset=1000000000",
	"up=topk(0.01) signal=momentum(0.9),nomask,noise(1e-3) memory=lowpass(0.1)",
	"up=all,uniform(3) signal=storm(1/t) memory=twostep(0.3333333) update=ema(1/t)",
	"up=topk(0.1),f16 signal=igt(0.05) memory=twostep(0.3) update=ema(0.05)",
	"up=global(0.01) down=global(0.1%,1),bf16",
	"up=topk(0.01) down=global(1e-3,1000000)",
	"up=all,uniform(4) warmup=dense(0.5epochs)",
	"up=topk(0.1),f16 warmup=dense(1)",
	"up=topk(0.04),uniform(4) update=adamw(0.2,0.99,1e-8,0.1) warmup=dense(50) freeze=50",
	"up=all down=all update=adam(0,0.3333333,1e-30) decay=0.1 warmup=dense(0.5epochs)",
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

TEST(recipe_print__reads_back_to_the_same_recipe)
{
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

TEST(recipe_print__random_recipes_read_back)
{
	static const char *const directions[] = { "all", "topk(%.17g)" };
	static const char *const values[] = { "", ",f32", ",f16", ",bf16" };
	static const char *const updates[] = { "none", "sgd", "momentum(%.9g)", "nesterov(%.9g)" };

	for (int round = 0; round < 3000; round++) {
		char up[64], update[64], text[512];
		double share = (double)(random_u64() >> 11 | 1) * 0x1p-53;
		struct recipe r;

		snprintf(up, sizeof(up), directions[random_u64() % 2], share);
		snprintf(update, sizeof(update), updates[random_u64() % 4], share * 0.999);
		snprintf(text, sizeof(text),
			 "up=%s%s down=topk(%.9g)%s signal=momentum(%.7g) update=%s warmup=%llu "
			 "clip=%g",
			 up, values[random_u64() % 4], share, values[random_u64() % 4],
			 share * 0.99, update, (unsigned long long)(random_u64() % 1000000000),
			 100 * share);
		r = parsed(text);
		expect_round_trip(&r);
	}
}

TEST(recipe_print__longest_recipe_fits)
{
	char text[RECIPE_TEXT_BYTES], patterns[256];
	struct recipe r;

	memset(patterns, 'p', 255);
	patterns[255] = '\0';
	snprintf(text, sizeof(text),
		 "up=topk(1.2345678901234567e-300),bf16 down=topk(1.2345678901234567e-300),bf16 "
		 "signal=momentum(0.123456789),nomask memory=residual(outside) "
		 "update=nesterov(0.123456789) warmup=0.12345678901234567epochs dense=%s "
		 "clip=1.23456789e-30 decay=1.23456789e-30 nonfinite=abort",
		 patterns);
	r = parsed(text);
	expect_round_trip(&r);
}

TEST(recipe_text__does_not_depend_on_the_locale)
{
	static const char *const comma_locales[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8" };
	int found = 0;

	for (size_t i = 0; i < 3 && !found; i++)
		found = setlocale(LC_ALL, comma_locales[i]) != NULL;
	if (!found)
		skip(); /* no locale with a decimal comma is installed */
	expect_print("up=topk(0.25) decay=0.5",
		     "up=topk(0.25),f32 down=all,f32 signal=gradient memory=residual(inside) "
		     "update=sgd warmup=0steps dense=*bias* clip=none decay=0.5 nonfinite=abort");
	setlocale(LC_ALL, "C");
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
	default: /* append a copy of the end */
		if (*n && *n + (*n - at) < RECIPE_TEXT_BYTES) {
			size_t piece = *n - at;

			memmove(text + *n, text + at, piece);
			*n += piece;
			text[*n] = '\0';
		}
	}
}

TEST(recipe_parse__mutated_recipes_are_refused_or_round_trip)
{
	int accepted = 0, refused = 0;

	for (int round = 0; round < 50000; round++) {
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
	return run_cases(swallow_log, NULL);
}
