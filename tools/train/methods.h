/* SPDX-License-Identifier: BSD-3-Clause
 * Published methods by name: each is a recipe, not code. sluice-train --method and --methods. */
#ifndef TRAIN_METHODS_H
#define TRAIN_METHODS_H
#include <stddef.h>

struct method {
	const char *name, *paper, *recipe, *cost;
};
extern const struct method methods[];
extern const size_t n_methods;

/* NULL: no method of this name. */
const struct method *method_find(const char *name);
void methods_print(void);
#endif
