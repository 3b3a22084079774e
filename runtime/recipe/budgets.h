/* SPDX-License-Identifier: BSD-3-Clause
 * The choices of recipe=auto. A budget is a pair of densities, up and down, with values in f32. A
 * code writes values in fewer bits, so that more coordinates take the same bytes. Pure. */
#ifndef RUNTIME_BUDGETS_H
#define RUNTIME_BUDGETS_H
#include "compress/quantize.h"

enum { BUDGETS = 4, BUDGET_DENSE = 0 }; /* budget 0 is dense steps, which have only f32 */
enum budget_way { BUDGET_UP, BUDGET_DOWN, BUDGET_WAYS };
enum code { CODE_F32, CODE_F16, CODE_E3M0, CODE_UNIFORM, CODE_TWOMEANS, AUTO_CODES };

struct code_kind {
	const char *name; /* as in a recipe */
	struct value_coding values;
};
extern const struct code_kind code_kinds[AUTO_CODES];

/* Returns the density with which this code takes at most the bytes of f32 at the budget's density.
 * 1: all coordinates. */
double budget_density(unsigned budget, enum budget_way way, enum code code);
/* Returns how the values are written: in f32 if the budget is dense. */
struct value_coding budget_values(unsigned budget, enum code code);
/* Returns the largest density of any code. */
double budget_largest(unsigned budget, enum budget_way way);
/* Returns the sparse budget that has this density up with f32, or 0 if there is none. */
unsigned budget_of_density(double density);

/* The choice on which the ranks agree: field `chosen` of a message. */
struct auto_choice {
	unsigned budget; /* 1 + the budget; 0: not decided yet */
	enum code code[BUDGET_WAYS];
};
enum { AUTO_CHOICES = (BUDGETS + 1) * AUTO_CODES * AUTO_CODES };
unsigned choice_pack(const struct auto_choice *c);
struct auto_choice choice_unpack(unsigned packed);
/* Return the packed choice with another budget, or with another code of one direction. */
unsigned choice_with_budget(unsigned packed, unsigned budget);
unsigned choice_with_code(unsigned packed, enum budget_way way, enum code code);
#endif
