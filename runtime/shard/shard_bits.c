/* SPDX-License-Identifier: BSD-3-Clause
 * See shard_bits.h. The shard's delta announces a new code, the next pushes repeat it, and all
 * shards use it from the second step after the delta on. */
#include "shard/shard_bits.h"
#include "base/error.h"
#include "model/bits.h"
#include "shard/state.h"
#include <stdlib.h>

struct shard_bits {
	struct bits *bits;
	enum code code; /* what this shard has measured last */
};

static int shard_bits_used(const struct shard *shard)
{
	return shard->rules.recipe->automatic && !shard->id;
}

static int shard_bits_open(struct shard *shard)
{
	shard->bits = calloc(1, sizeof(*shard->bits));
	if (!shard->bits)
		return fail(SLUICE_ENOMEM, "no memory for the measurements of shard %u", shard->id);
	return bits_open(shard->at->span, &shard->bits->bits);
}

static void shard_bits_close(struct shard *shard)
{
	if (shard->bits)
		bits_close(&shard->bits->bits);
	free(shard->bits);
	shard->bits = NULL;
}

static void shard_bits_restart(struct shard *shard)
{
	shard->bits->code = CODE_F32;
}

uint64_t shard_bits_memory(uint64_t span, const struct recipe *recipe, uint32_t shard)
{
	return recipe->automatic && !shard ? sizeof(struct shard_bits) + bits_memory(span) : 0;
}

void shard_bits_see(struct shard *shard, const struct pick_call *call)
{
	if (!shard->bits)
		return;
	const struct recipe *recipe = shard->rules.recipe;
	const unsigned budget = rulebook_learns(&shard->rules, shard->version + 1, shard->chosen);
	const struct bits_vector v = { .x = call->vector ? call->vector : shard_residual(shard),
				       .addend = call->vector ? NULL : call->grad,
				       .scale = call->scale,
				       .count = shard->at->span };

	if (budget)
		shard->bits->code = bits_choose(shard->bits->bits, &v, budget, BUDGET_DOWN,
						recipe->coding == CODING_SMALL,
						choice_unpack(shard->chosen).code[BUDGET_DOWN]);
}

unsigned shard_bits_chosen(const struct shard *shard, unsigned of_workers)
{
	return shard->bits ? choice_with_code(of_workers, BUDGET_DOWN, shard->bits->code) :
			     of_workers;
}

uint64_t shard_bits_save(const struct shard *shard)
{
	return shard->chosen + (uint64_t)(shard->bits ? shard->bits->code : 0) * AUTO_CHOICES;
}

const char *shard_bits_judge(const struct recipe *recipe, uint64_t number)
{
	return number % AUTO_CHOICES <= rulebook_choices(recipe) &&
			       number / AUTO_CHOICES < AUTO_CODES ?
		       NULL :
		       "it holds a choice that does not exist";
}

void shard_bits_restore(struct shard *shard, uint64_t number)
{
	shard->chosen = choice_with_budget((unsigned)(number % AUTO_CHOICES), 0);
	if (shard->bits)
		shard->bits->code = (enum code)(number / AUTO_CHOICES);
}

const struct shard_hooks shard_bits_hooks = { .used = shard_bits_used,
					      .open = shard_bits_open,
					      .close = shard_bits_close,
					      .restart = shard_bits_restart };
