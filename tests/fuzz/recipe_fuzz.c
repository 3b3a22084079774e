/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzz target for the recipe language. Input: the text. An accepted recipe must have valid values,
 * and its printed text must parse to the same recipe and print the same text again. */
#include "fuzz.h"
#include "compress/few_bits.h"
#include "recipe/recipe.h"
#include <math.h>

static void expect_direction(const struct direction *d)
{
	const enum selection_argument argument = selection_kinds[d->select].argument;
	int any = argument == ARGUMENT_NONE || argument == ARGUMENT_LEVEL;

	require(any ? d->density == 1 : d->density > 0 && d->density <= 1,
		"an impossible density was accepted");
	require(d->select < SELECTIONS && (unsigned)d->values.type < VALUE_TYPES,
		"unknown selection or values");
	if (value_few_bits(d->values.type))
		require(few_bits_valid(&d->values,
				       d->values.type == VALUE_ROUND ? d->values.step : 1, NULL),
			"impossible values were accepted");
}

static void expect_possible(const struct recipe *r)
{
	const int lazy = r->when == WHEN_LAZY || r->when == WHEN_LAZY_SERVER;

	expect_direction(&r->up);
	expect_direction(&r->down);
	require(r->signal.average.momentum >= 0 && r->signal.average.momentum < 1 &&
			r->update_average.momentum >= 0 && r->update_average.momentum < 1,
		"an impossible momentum was accepted");
	require(r->update_average.alpha >= 0 && r->update_average.alpha <= 1 &&
			r->signal.average.alpha >= 0 && r->signal.average.alpha <= 1,
		"an impossible weight of the average was accepted");
	require(r->adam.beta1 >= 0 && r->adam.beta1 < 1 && r->adam.beta2 >= 0 &&
			r->adam.beta2 < 1 && (r->adam.epsilon > 0) == recipe_variance(r) &&
			r->adam.decay >= 0,
		"an impossible number of Adam was accepted");
	require(!r->adam.freeze || (recipe_variance(r) && r->warmup.dense),
		"a variance of sparse steps was frozen");
	require(r->signal.noise >= 0 && isfinite(r->signal.noise),
		"an impossible noise was accepted");
	require(r->memory.kind < MEMORY_LOWPASS ? r->memory.beta == 0 :
						  r->memory.beta > 0 && r->memory.beta <= 1,
		"an impossible share of the memory was accepted");
	require(!r->reset || r->memory.kind == MEMORY_RESIDUAL,
		"a reset of no residual was accepted");
	require(r->every.period >= 1 && (r->every.period == 1 || r->when == WHEN_EVERY),
		"an impossible period was accepted");
	require((r->lazy.window > 0) == lazy && (!lazy || r->lazy.weight > 0),
		"an impossible window was accepted");
	require(r->clip.norm >= 0 && isfinite(r->clip.norm), "an impossible clip was accepted");
	require(r->decay >= 0 && isfinite(r->decay), "an impossible decay was accepted");
	require(r->warmup.length >= 0 && isfinite(r->warmup.length),
		"an impossible warm-up was accepted");
	require(strnlen(r->dense, sizeof(r->dense)) < sizeof(r->dense), "dense has no end");
}

static void expect_round_trip(const struct recipe *r)
{
	char *text = get_memory(RECIPE_TEXT_BYTES), *again = get_memory(RECIPE_TEXT_BYTES);
	struct recipe read;

	recipe_print(r, text);
	require(strnlen(text, RECIPE_TEXT_BYTES) < RECIPE_TEXT_BYTES,
		"the printed text has no end");
	require(!recipe_parse(text, &read), "the printed recipe was refused");
	require(!memcmp(r, &read, sizeof(read)), "the printed recipe is another one");
	recipe_print(&read, again);
	require(!strcmp(text, again), "the recipe prints differently");
	free(text);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n = size ? strnlen((const char *)data, size) : 0;
	char *text = get_memory(n + 1);
	struct recipe r;
	int rc;

	if (n)
		memcpy(text, data, n);
	text[n] = '\0';
	begin();
	rc = recipe_parse(text, &r);
	if (rc) {
		expect_refusal(rc, SLUICE_EINVAL, SLUICE_EINVAL);
	} else {
		expect_possible(&r);
		expect_round_trip(&r);
		recipe_sends_whole(&r, "block1.norm/bias[0]");
	}
	free(text);
	return 0;
}
