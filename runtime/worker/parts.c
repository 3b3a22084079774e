/* SPDX-License-Identifier: BSD-3-Clause
 * See parts.h. */
#include "worker/parts.h"
#include "base/error.h"
#include "base/log.h"
#include "model/tiling.h"
#include "worker/device.h"
#include "job/state.h"
#include "model/model.h"
#include "worker/hooks.h"
#include "worker/signal.h"
#include "worker/state.h"
#include <stdlib.h>
#include <string.h>

struct parts {
	struct tiling ranges[2]; /* [enum parts_of]: ranges of the push and of the pull */
	uint8_t *kept;           /* copy of a gradient's ranges; NULL before the first copy */
	struct vector pieces;    /* pieces of a gradient */
	int told;                /* 1: a log line has reported that pieces are copied from the
				    device */
};

static int parts_open(struct worker *w)
{
	w->parts = calloc(1, sizeof(*w->parts));
	return w->parts ? 0 : fail(SLUICE_ENOMEM, "no memory for ranges and pieces");
}

static void parts_close(struct worker *w)
{
	struct parts *p = w->parts;

	if (!p)
		return;
	tiling_free(&p->ranges[PARTS_PUSHED]);
	tiling_free(&p->ranges[PARTS_PULLED]);
	free(p->kept);
	vector_free(&p->pieces);
	free(p);
	w->parts = NULL;
}

static void parts_restart(struct worker *w)
{
	parts_clear(w->parts, PARTS_PUSHED);
	parts_clear(w->parts, PARTS_PULLED);
}

const struct step_hooks parts_hooks = { .open = parts_open,
					.close = parts_close,
					.restart = parts_restart };

/* ---- ranges ------------------------------------------------------------------ */

int parts_take(struct worker *w, enum parts_of which, uint64_t begin, uint64_t count,
	       const char *function)
{
	const uint64_t all = w->layout->count;
	uint64_t taken = 0;

	if (!count || begin >= all || count > all - begin)
		return fail(SLUICE_EINVAL,
			    "%s: the range of %llu coordinates from %llu on is empty or outside of "
			    "the model's %llu",
			    function, (unsigned long long)count, (unsigned long long)begin,
			    (unsigned long long)all);
	int rc = tiling_add(&w->parts->ranges[which], begin, begin + count, &taken);
	if (rc == SLUICE_EINVAL)
		return fail(SLUICE_EINVAL,
			    "%s: coordinate %llu of the range [%llu, %llu) was already named in "
			    "this step: ranges must not overlap",
			    function, (unsigned long long)taken, (unsigned long long)begin,
			    (unsigned long long)(begin + count));
	return rc;
}

int parts_cover(const struct parts *p, enum parts_of which, uint64_t begin, uint64_t end)
{
	return tiling_covers(&p->ranges[which], begin, end);
}

uint64_t parts_gap(const struct parts *p, enum parts_of which)
{
	return tiling_gap(&p->ranges[which]);
}

void parts_clear(struct parts *p, enum parts_of which)
{
	tiling_clear(&p->ranges[which]);
}

/* ---- gradients --------------------------------------------------------------- */

int parts_keeps(const struct path_plan *plan)
{
	return (plan->traits & TRAITS_OF_WHOLE_GRADIENTS) != 0;
}

int parts_room(struct worker *w)
{
	struct parts *p = w->parts;
	const size_t bytes = w->layout->count * value_bytes(worker_pushed_type(w));

	if (p->kept || !parts_keeps(w->rules.plan))
		return 0;
	p->kept = malloc(bytes);
	if (!p->kept)
		return fail(SLUICE_ENOMEM,
			    "sluice_push_range: no memory for a copy of the gradient: %zu bytes",
			    bytes);
	w->model.stats->memory_bytes += bytes;
	log_line(LOG_INFO, "runtime",
		 "model %u: ranges are collected in a copy of %.1f MiB and pushed with the last "
		 "range, because the recipe needs the whole gradient first (clip=, nonfinite=, "
		 "transform=)",
		 w->model.id, (double)bytes / 1048576);
	return 0;
}

void parts_keep(struct worker *w, const void *grad, uint64_t begin, uint64_t count)
{
	const size_t width = value_bytes(worker_pushed_type(w));

	memcpy(w->parts->kept + begin * width, grad, count * width);
}

struct vector parts_kept(const struct worker *w)
{
	return signal_vector(w, w->parts->kept, w->layout->count);
}

/* Refuses pieces if the program uses the accumulator, which is one vector. */
static int check_no_accumulator(const struct worker *w, const char *function)
{
	const struct vector *s = &w->parts->pieces;
	const uintptr_t first = (uintptr_t)worker_residual(w);
	const uintptr_t end = (uintptr_t)(worker_residual(w) + w->layout->count);

	for (size_t i = 0; i < vector_number(s) && w->accumulates; i++) {
		const uintptr_t given = (uintptr_t)vector_given(s, i);

		if (given >= first && given < end)
			return fail(SLUICE_EINVAL,
				    "%s: coordinate %llu is in the vector of sluice_accumulator: "
				    "push that vector with sluice_push",
				    function, (unsigned long long)vector_begin(s, i));
	}
	return 0;
}

/* Returns the reason why pieces on a device are not joined on that device, or NULL if they are. */
static const char *why_apart(const struct worker *w, const struct vector *pieces)
{
	const char *why = on_device_why_not(w);

	return !why && !vector_alike(pieces, worker_pushed_type(w), w->grad.scale) ?
		       "they are not all of the model's grad_type and of one scale" :
		       why;
}

/* Enqueues copies of the pieces to one vector on their device. */
static int join_there(struct worker *w, const struct vector *pieces, const void **whole)
{
	const void *first = vector_given(pieces, 0);
	const size_t n = vector_number(pieces);
	int rc = on_device_range(w, &first, 0, 1);

	if (rc <= 0)
		return rc;
	rc = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		const uint64_t begin = vector_begin(pieces, i);

		rc = on_device_collect(w, vector_given(pieces, i), begin,
				       vector_begin(pieces, i + 1) - begin,
				       i + 1 == n ? whole : NULL);
	}
	return rc;
}

/* If the pieces are on a device that compresses, copies them to one vector there and sets *whole to
 * it. Otherwise sets *whole to NULL. */
static int pieces_there(struct worker *w, const struct vector *pieces, const void **whole)
{
	struct parts *p = w->parts;
	const int there = vector_there(pieces, w->stream);
	const char *why = there > 0 ? why_apart(w, pieces) : NULL;
	struct device_scope scope;

	*whole = NULL;
	if (there <= 0)
		return there;
	if (why && !p->told)
		log_line(LOG_INFO, "runtime",
			 "model %u: segments of gradients are copied from the GPU to the host each "
			 "step: %s",
			 w->model.id, why);
	p->told |= why != NULL;
	if (why)
		return 0;
	device_scope_begin(vector_given(pieces, 0), w->stream, &scope);
	return device_scope_end(&scope, join_there(w, pieces, whole));
}

int parts_pieces(struct worker *w, const sluice_segment *segments, size_t n, const char *function,
		 struct vector *joined, struct vector **out)
{
	struct vector *v = &w->parts->pieces;
	const void *whole = NULL;
	int rc = vector_pieces(v, segments, n, w->layout->count, w->grad.scale, function);

	if (!rc)
		rc = check_no_accumulator(w, function);
	if (!rc)
		rc = pieces_there(w, v, &whole);
	*joined = signal_vector(w, whole, w->layout->count);
	*out = whole ? joined : v;
	if (rc || whole)
		return rc;
	rc = vector_stage(v, w->stream, function);
	return rc ? rc : vector_fetch(v, function);
}
