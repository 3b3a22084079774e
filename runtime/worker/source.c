/* SPDX-License-Identifier: BSD-3-Clause
 * See source.h. */
#include "worker/source.h"
#include "base/error.h"
#include "worker/local.h"
#include "worker/state.h"
#include <math.h>

enum { CHUNK = 2048 }; /* most elements that a row reads at once */

/* ---- reading ----------------------------------------------------------------- */

static const float *read_one(const struct pushed *p, int zeros, uint64_t at, size_t n, float *room)
{
	const float *g = vector_read(p->vector, at, n, room);

	if (!zeros)
		return g;
	for (size_t i = 0; i < n; i++)
		room[i] = isfinite(g[i]) ? g[i] : 0.0f;
	return room;
}

static const float *read_pair(const struct pushed *p, int zeros, uint64_t at, size_t n, float *room)
{
	float first[CHUNK], second[CHUNK];
	const float *g = vector_read(p->vector, at, n, first);
	const float *b = vector_read(p->before, at, n, second);

	for (size_t i = 0; i < n; i++)
		room[i] = zeros && !(isfinite(g[i]) && isfinite(b[i])) ?
				  0.0f :
				  p->newest * g[i] - p->older * b[i];
	return room;
}

/* A drift is the last pull's parameters minus the pushed ones, so it has the direction of a
 * gradient. */
static const float *read_drift(const struct pushed *p, int zeros, uint64_t at, size_t n,
			       float *room)
{
	float pushed[CHUNK];
	const float *now = vector_read(p->vector, at, n, pushed);

	local_point(p->local, at, n, room);
	for (size_t i = 0; i < n; i++) {
		const float drift = room[i] - now[i];

		room[i] = zeros && !isfinite(drift) ? 0.0f : drift;
	}
	return room;
}

/* ---- the table --------------------------------------------------------------- */

const struct source_row source_rows[SOURCES] = {
	[SOURCE_GRADIENT] = { "sluice_push", NULL,
			      "an anchor is due (sluice_step_info): call sluice_push with the "
			      "full gradient of this worker's data",
			      0, read_one },
	[SOURCE_PAIR] = { "sluice_push_pair", "signal=storm(ALPHA) or svrg(STEPS)",
			  "the recipe's signal= takes two gradients: call sluice_push_pair with "
			  "the gradients at params and at the point of sluice_point",
			  1, read_pair },
	[SOURCE_PARAMS] = { "sluice_push", "update=average",
			    "the recipe says update=average: call sluice_push with the parameters",
			    0, read_one },
	[SOURCE_DRIFT] = { "sluice_push", "signal=drift",
			   "the recipe says signal=drift: call sluice_push with the parameters", 1,
			   read_drift },
};

enum source source_of_step(const struct worker *w)
{
	const enum source source = recipe_source(w->rules.recipe);

	return source == SOURCE_PAIR && worker_anchor_due(w) ? SOURCE_GRADIENT : source;
}

int source_check(const struct worker *w, enum source given, const char *function)
{
	const enum source wanted = source_of_step(w);
	const char *needs = source_rows[given].needs;

	if (given == wanted)
		return 0;
	if (needs && given != recipe_source(w->rules.recipe))
		return fail(SLUICE_EINVAL, "%s: needs a recipe with %s", function, needs);
	return fail(SLUICE_EINVAL, "%s: %s", function, source_rows[wanted].wanted);
}

int source_check_pieces(const struct recipe *recipe, const char *function)
{
	const enum source source = recipe_source(recipe);

	return source == SOURCE_GRADIENT || source == SOURCE_DRIFT ?
		       0 :
		       fail(SLUICE_EINVAL,
			    "%s: the recipe has %s: call %s with a vector in one piece", function,
			    source_rows[source].needs, source_rows[source].call);
}

struct pushed source_pushed(const struct worker *w, const struct vector *vector,
			    const struct vector *before)
{
	struct pushed p = {
		.vector = vector, .before = before, .newest = 1, .older = 1, .local = w->local
	};

	if (before && w->rules.recipe->signal.kind != SIGNAL_SVRG) {
		const float alpha = update_alpha(w->rules.update, w->step.number);

		p.newest = 1 / alpha;
		p.older = (1 - alpha) / alpha;
	}
	return p;
}
