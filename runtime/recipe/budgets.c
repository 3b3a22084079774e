/* SPDX-License-Identifier: BSD-3-Clause
 * See budgets.h. */
#include "recipe/budgets.h"

const struct code_kind code_kinds[AUTO_CODES] = {
	[CODE_F32] = { "f32", { VALUE_F32, 0, 0, 0 } },
	[CODE_F16] = { "f16", { VALUE_F16, 0, 0, 0 } },
	[CODE_E3M0] = { "e3m0", { VALUE_E3M0, 4, UNIFORM_BLOCK, 0 } },
	[CODE_UNIFORM] = { "uniform(4)", { VALUE_UNIFORM, 4, UNIFORM_BLOCK, 0 } },
	[CODE_TWOMEANS] = { "twomeans", { VALUE_TWOMEANS, 2, UNIFORM_BLOCK, 0 } },
};

/* More is sent down than up, as in the default recipe, because a delta has the selections of
 * several workers. The densities of the codes are those at which random positions, in either
 * coding=, take two per cent less than f32 (test_budgets.c). Where a code could send nearly all
 * coordinates, it sends all, because then it needs no positions. */
static const double densities[BUDGETS][BUDGET_WAYS][AUTO_CODES] = {
	{ { 1, 1, 1, 1, 1 }, { 1, 1, 1, 1, 1 } },
	{ { 0.1, 0.17, 0.6, 0.6, 1 }, { 0.2, 0.37, 1, 1, 1 } },
	{ { 0.01, 0.016, 0.034, 0.034, 0.042 }, { 0.05, 0.085, 0.22, 0.22, 0.43 } },
	{ { 0.001, 0.0015, 0.0028, 0.0028, 0.0033 }, { 0.005, 0.008, 0.0159, 0.0159, 0.0194 } },
};

double budget_density(unsigned budget, enum budget_way way, enum code code)
{
	return densities[budget][way][code];
}

struct value_coding budget_values(unsigned budget, enum code code)
{
	return code_kinds[budget == BUDGET_DENSE ? CODE_F32 : code].values;
}

double budget_largest(unsigned budget, enum budget_way way)
{
	double most = 0;

	for (int c = 0; c < AUTO_CODES; c++)
		if (densities[budget][way][c] > most)
			most = densities[budget][way][c];
	return most;
}

unsigned budget_of_density(double density)
{
	unsigned budget = BUDGETS - 1;

	while (budget && densities[budget][BUDGET_UP][CODE_F32] != density)
		budget--;
	return budget;
}

unsigned choice_pack(const struct auto_choice *c)
{
	return (c->budget * AUTO_CODES + c->code[BUDGET_UP]) * AUTO_CODES + c->code[BUDGET_DOWN];
}

struct auto_choice choice_unpack(unsigned packed)
{
	return (struct auto_choice){ .budget = packed / (AUTO_CODES * AUTO_CODES),
				     .code = { packed / AUTO_CODES % AUTO_CODES,
					       packed % AUTO_CODES } };
}

unsigned choice_with_budget(unsigned packed, unsigned budget)
{
	struct auto_choice c = choice_unpack(packed);

	c.budget = budget;
	return choice_pack(&c);
}

unsigned choice_with_code(unsigned packed, enum budget_way way, enum code code)
{
	struct auto_choice c = choice_unpack(packed);

	c.code[way] = code;
	return choice_pack(&c);
}
