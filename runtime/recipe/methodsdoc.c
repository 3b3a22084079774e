/* SPDX-License-Identifier: BSD-3-Clause
 * Prints the lists of sluice_methods(7) as mdoc: the named methods, or with an argument the names
 * of other libraries. Runs at build time only. */
#include "recipe/methods.h"
#include <stdio.h>

static void print_methods(void)
{
	for (size_t i = 0; i < n_methods; i++) {
		const struct method *m = &methods[i];

		printf(".It Cm %s\nFor %s.\n.br\nRecipe:\n.Ql %s\n.br\nCost: %s.\n.br\nPaper: "
		       "%s.\n",
		       m->name, m->use, m->recipe, m->cost, m->paper);
	}
}

static void print_foreign_names(void)
{
	for (size_t i = 0; i < n_foreign_names; i++)
		printf(".It Cm %s\n.Ql %s\n%s%s", foreign_names[i].name, foreign_names[i].recipe,
		       foreign_names[i].remark, *foreign_names[i].remark ? "\n" : "");
}

int main(int argc, char **argv)
{
	(void)argv;
	puts(argc > 1 ? ".Bl -tag -width float16xxxxx" : ".Bl -tag -width Ds");
	if (argc > 1)
		print_foreign_names();
	else
		print_methods();
	puts(".El");
	return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
