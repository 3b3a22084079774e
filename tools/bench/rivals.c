/* SPDX-License-Identifier: BSD-3-Clause
 * See rivals.h. */
#include "tools/bench/rivals.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the module ---------------------------------------------------------------- */

const struct rivals_ops *rivals_load(const char *file)
{
	void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL), *symbol;
	const struct rivals_ops *ops = NULL;
	rivals_module_fn *module;

	if (!handle) {
		fprintf(stderr, "sluice-bench: --rivals: %s\n", dlerror());
		return NULL;
	}
	symbol = dlsym(handle, RIVALS_MODULE_SYMBOL);
	memcpy(&module, &symbol, sizeof(symbol));
	ops = symbol ? module() : NULL;
	if (ops && ops->size == sizeof(*ops))
		return ops; /* the module stays loaded until the process ends */
	fprintf(stderr,
		"sluice-bench: --rivals: %s was not built from tests/gpu/rivals.cu of this "
		"version\n",
		file);
	dlclose(handle);
	return NULL;
}

/* ---- the command --------------------------------------------------------------- */

int torch_ask(struct torch_times *t, size_t n, size_t k, int ands)
{
	if (t->n == t->room) {
		const size_t room = 2 * t->room + 16;
		struct torch_time *of = realloc(t->of, room * sizeof(*of));

		if (!of)
			return -1;
		t->of = of;
		t->room = room;
	}
	t->of[t->n++] = (struct torch_time){ n, k, ands, NAN };
	return 0;
}

static struct torch_time *find(const struct torch_times *t, size_t n, size_t k, int ands)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->of[i].n == n && t->of[i].k == k && t->of[i].ands == ands)
			return &t->of[i];
	return NULL;
}

double torch_ms(const struct torch_times *t, size_t n, size_t k, int ands)
{
	const struct torch_time *found = find(t, n, k, ands);

	return found ? found->ms : (double)NAN;
}

/* Returns the command with an argument for each point, or NULL if there is no memory. */
static char *with_points(const struct torch_times *t, const char *command)
{
	const size_t each = 64, room = strlen(command) + t->n * each + 1;
	char *line = malloc(room);
	size_t at;

	if (!line)
		return NULL;
	at = (size_t)snprintf(line, room, "%s", command);
	for (size_t i = 0; i < t->n; i++)
		at += (size_t)snprintf(line + at, room - at, " %zu:%zu:%d", t->of[i].n, t->of[i].k,
				       t->of[i].ands);
	return line;
}

/* Reads the answers and returns their number. other receives a line that is not an answer, such as
 * an error. */
static size_t read_times(struct torch_times *t, FILE *from, char *other, size_t cap)
{
	char line[256];
	size_t n, k, answers = 0;
	int ands;
	double ms;

	while (fgets(line, sizeof(line), from)) {
		struct torch_time *found = NULL;

		if (sscanf(line, "%zu %zu %d %lf", &n, &k, &ands, &ms) == 4 && ms > 0)
			found = find(t, n, k, ands);
		if (found) {
			answers += isnan(found->ms) != 0;
			found->ms = ms;
		} else {
			snprintf(other, cap, "%.*s", (int)strcspn(line, "\n"), line);
		}
	}
	return answers;
}

int torch_run(struct torch_times *t, const char *command)
{
	char *line = with_points(t, command), other[256] = "";
	FILE *from;
	size_t answers;
	int status;

	if (!line) {
		fprintf(stderr, "sluice-bench: --torch: no memory\n");
		return -1;
	}
	fflush(stdout);
	from = popen(line, "r");
	free(line);
	if (!from) {
		perror("sluice-bench: --torch");
		return -1;
	}
	answers = read_times(t, from, other, sizeof(other));
	status = pclose(from);
	if (!status && answers == t->n)
		return 0;
	fprintf(stderr,
		"sluice-bench: --torch: \"%s\" %s, with %zu of %zu times%s%s; its output on "
		"stderr is above\n",
		command, status ? "failed" : "ended", answers, t->n, *other ? ", and said: " : "",
		other);
	return -1;
}

void torch_close(struct torch_times *t)
{
	free(t->of);
	*t = (struct torch_times){ NULL, 0, 0 };
}
