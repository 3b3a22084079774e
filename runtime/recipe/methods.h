/* SPDX-License-Identifier: BSD-3-Clause
 * Published methods by name. Each is a recipe and needs no code. recipe.c accepts a name as a word
 * of a recipe, and sluice-train uses the table for --method and --methods. */
#ifndef RUNTIME_METHODS_H
#define RUNTIME_METHODS_H
#include <stddef.h>

struct method {
	const char *name, *paper, *recipe, *cost;
	const char *use; /* the cases for which the method is made, after "for " */
};
extern const struct method methods[];
extern const size_t n_methods;

/* A name that other libraries use, and the recipe that does the same or comes nearest. */
struct foreign_name {
	const char *name, *recipe, *remark;
};
extern const struct foreign_name foreign_names[];
extern const size_t n_foreign_names;

/* Returns NULL if no other library is known to use the name. Ignores case. */
const struct foreign_name *foreign_name_find(const char *name);

/* Returns NULL if there is no method of this name. */
const struct method *method_find(const char *name);
/* Returns the name of the method that is most similar to a mistyped name, or NULL if none is
 * similar. */
const char *method_nearest(const char *name);
#endif
