/* SPDX-License-Identifier: BSD-3-Clause
 * See target.h. */
#include "worker/target.h"
#include "base/arguments.h"
#include "base/log.h"
#include "base/team.h"
#include "compress/sparse.h"
#include "model/device_half.h"
#include "model/kept.h"
#include "worker/compressor_ops.h"
#include "worker/device_vectors.h"
#include "worker/hooks.h"
#include "worker/local.h"
#include "worker/state.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How the sums in `flat` reach the program's vector. */
enum follow {
	FOLLOW_ITSELF,  /* flat is that vector, or NULL: deltas are added to its elements */
	FOLLOW_CHANGES, /* each changed element is rounded and written to the vector at once */
	FOLLOW_END      /* the whole vector is written when the pull ends */
};

struct target {
	struct vector opened;     /* segments in the model's attributes; may have no pieces */
	struct vector given;      /* the vector that the pull passes */
	struct vector points[2];  /* the vectors of sluice_point(): params and point */
	float *master;            /* 32-bit copy of the parameters, if the program's have 16 bits */
	int away;                 /* 1: copy_there is newer than master */
	float *together;          /* the program's separate pieces, copied to one vector, for
				     recipes that need all parameters at once */
	struct memory copy_there; /* floats on a device, from which the vector on the device is
				     written */
	const struct device_ops *ops;
	struct device_compressor *compressor;
	float *healed; /* the copy that own_borrow() returns if some parameters are not finite */
	/* Members of the current pull. */
	struct vector *vector;
	int there; /* 1: the vector is on a device, and the pull runs there */
	enum follow follow;
	float *flat;
};

/* ---- opening ----------------------------------------------------------------- */

/* Refuses 16-bit segments if there is no 32-bit copy from which they are rounded. */
static int check_types(const struct worker *w, const struct vector *s, const char *function)
{
	if (recipe_pulls_mean(w->rules.recipe) || w->layout->narrow_params || !vector_narrow(s))
		return 0;
	return fail(SLUICE_EINVAL,
		    "%s: a segment of parameters has 16 bits, but the model was opened without "
		    "param_type (sluice_model_attr) and so has no 32-bit copy to round from",
		    function);
}

int target_open(struct worker *w, const sluice_model_attr *attr)
{
	struct target *t = w->into = calloc(1, sizeof(*t));
	const char *function = "sluice_model_open";

	if (!t)
		return fail(SLUICE_ENOMEM, "%s: no memory", function);
	if (!attr->segments)
		return 0;
	int rc = vector_pieces(&t->opened, attr->segments, attr->n_segments, attr->count, 0,
			       function);

	return rc ? rc : check_types(w, &t->opened, function);
}

void target_close(struct worker *w)
{
	struct target *t = w->into;

	if (!t)
		return;
	vector_close(t->master, w->layout->count);
	vector_close(t->together, w->layout->count);
	if (t->copy_there.address)
		t->ops->release(&t->copy_there);
	vector_free(&t->opened);
	vector_free(&t->given);
	vector_free(&t->points[0]);
	vector_free(&t->points[1]);
	free(t);
	w->into = NULL;
}

/* Returns 1 if there is a 32-bit copy. No copy is needed for means, which are rounded when they are
 * written, or with when=every, where parameters are rounded from the worker's own model. */
static int keeps_copy(const struct layout *l, const struct recipe *recipe)
{
	return l->narrow_params && !recipe_pulls_mean(recipe) &&
	       !kept_rows[KEPT_BASE].needed(recipe);
}

static int copy_used(const struct worker *w)
{
	return keeps_copy(w->layout, w->rules.recipe);
}

static int open_copy(struct worker *w)
{
	struct target *t = w->into;

	t->master = vector_open(w->layout->count);
	return t->master ? 0 :
			   fail(SLUICE_ENOMEM, "no memory for a 32-bit copy of %llu parameters",
				(unsigned long long)w->layout->count);
}

void target_remember(struct worker *w, const float *params)
{
	float *previous = w->kept.of[KEPT_PREVIOUS];

	if (previous)
		memcpy(previous, params, w->layout->count * sizeof(*params));
}

struct vector *target_points(struct target *t)
{
	return t->points;
}

static void begin_copy(struct worker *w, const float *params)
{
	struct target *t = w->into;

	memcpy(t->master, params, w->layout->count * sizeof(*params));
	t->away = 0;
}

static uint64_t copy_bytes(const struct layout *l, const struct recipe *recipe)
{
	return keeps_copy(l, recipe) ? l->count * sizeof(float) : 0;
}

const struct step_hooks target_hooks = {
	.used = copy_used, .open = open_copy, .begin = begin_copy, .memory = copy_bytes
};

/* ---- the vector of a pull ------------------------------------------------------ */

/* Returns 1 if the recipe itself reads or sets all parameters. */
static int looks_at_all(const struct path_plan *plan)
{
	return !plan_takes(plan, PATH_IN_PLACE, plan->traits);
}

/* Decides where deltas are added: on the device of the vector, or in host memory. A recipe that
 * pushes parameters adds them in host memory unless the parameters are one piece of floats: other
 * parameters would have to be written from a copy, and there is none on the device. */
static int choose_place(struct worker *w, const char *function)
{
	struct target *t = w->into;
	const int follows = recipe_averages(w->rules.recipe) && !vector_floats(t->vector);
	const int never = looks_at_all(w->rules.plan);
	int rc = 0;

	if (!never && !follows)
		rc = vector_there(t->vector, w->stream);
	if (!never) /* if looks_at_all(), the progress thread may be reading it */
		t->there = rc > 0;
	return rc ? (rc < 0 ? rc : 0) : vector_stage(t->vector, w->stream, function);
}

static int note(struct worker *w, void *vector, const sluice_segment *given, size_t n,
		const char *function)
{
	struct target *t = w->into;
	int rc = 0;

	if (given)
		rc = vector_pieces(&t->given, given, n, w->layout->count, 0, function);
	else if (vector)
		vector_run(&t->given, vector, w->layout->count, w->param_type, 1);
	if (!rc && t->vector == &t->given)
		rc = check_types(w, &t->given, function);
	return rc ? rc : choose_place(w, function);
}

int target_note(struct worker *w, void *vector, const sluice_segment *given, size_t n,
		const char *function)
{
	struct target *t = w->into;
	const int opened = vector_number(&t->opened) > 0;

	if (!vector && !given && (!opened || recipe_pulls_mean(w->rules.recipe)))
		return fail(SLUICE_EINVAL, "%s: the vector is NULL%s", function,
			    opened ? ", and with update=none the model's segments are "
				     "parameters, not means" :
				     "");
	int rc = argument_aligned(vector, value_bytes(w->param_type),
				  recipe_pulls_mean(w->rules.recipe) ? "mean" : "params", function);
	if (rc)
		return rc;
	t->vector = vector || given ? &t->given : &t->opened;
	return note(w, vector, given, n, function);
}

const void *target_memory(const struct target *t)
{
	return vector_given(t->vector, 0);
}

const struct vector *target_vector(const struct target *t)
{
	return t->vector;
}

int target_there(const struct target *t)
{
	return t->there;
}

int target_whole(const struct worker *w)
{
	const struct target *t = w->into;

	return t->there || vector_staged(t->vector) ||
	       (looks_at_all(w->rules.plan) && !vector_floats(t->vector));
}

/* ---- a pull on a device --------------------------------------------------------- */

/* Makes the 32-bit copy on the device of the parameters. gathers: 1 if there is no other copy, so
 * the content comes from the pieces. */
static int make_copy_there(struct worker *w, int gathers)
{
	struct target *t = w->into;
	const size_t bytes = w->layout->count * sizeof(float);
	void *stream = w->stream;

	if ((!t->copy_there.address && t->ops->alloc(MEMORY_DEVICE, bytes, &t->copy_there)) ||
	    (t->master && !t->away &&
	     t->ops->copy(t->copy_there.address, t->master, bytes, stream)) ||
	    (gathers && vector_join_there(t->vector, t->ops, t->copy_there.address, stream)))
		return device_fail(t->ops, "a copy of the parameters in 32 bits on the GPU");
	if (t->master && !t->away)
		vector_discard(t->master, w->layout->count);
	t->away = t->master != NULL;
	t->flat = t->copy_there.address;
	return 0;
}

static int begin_there(struct worker *w)
{
	struct target *t = w->into;
	const int run = vector_number(t->vector) == 1;
	int rc = on_device_use(w, vector_given(t->vector, 0), &t->ops, &t->compressor);

	if (rc)
		return rc;
	t->flat = t->master ? NULL : vector_floats(t->vector);
	t->follow = t->flat                         ? FOLLOW_ITSELF :
		    run && vector_narrow(t->vector) ? FOLLOW_CHANGES :
						      FOLLOW_END;
	if (t->flat || (run && recipe_pulls_mean(w->rules.recipe)))
		return 0;
	return make_copy_there(w, !t->master && !recipe_pulls_mean(w->rules.recipe));
}

static int zero_there(const struct worker *w)
{
	const struct target *t = w->into;
	void *to = t->flat ? (void *)t->flat : vector_given(t->vector, 0);
	const size_t width = t->flat ? sizeof(*t->flat) : value_bytes(vector_type(t->vector, 0));

	return t->ops->zero(to, w->layout->count * width, w->stream) ?
		       device_fail(t->ops, "sluice_pull") :
		       0;
}

static int add_there(const struct worker *w, uint64_t first, const uint32_t *index,
		     const float *value, uint32_t n)
{
	const struct target *t = w->into;
	void *stream = w->stream;
	struct device_apply call = { .vector = t->flat ? t->flat + first : NULL,
				     .index = index,
				     .value = value,
				     .count = n };

	if (t->follow == FOLLOW_CHANGES) {
		call.narrow = (uint16_t *)vector_given(t->vector, 0) + first;
		call.narrow_type = (int)vector_type(t->vector, 0);
	} else {
		call.assign = recipe_averages(w->rules.recipe);
	}
	const int failed = t->ops->apply(t->compressor, &call, stream);
	return failed ? device_fail(t->ops, "sluice_pull") : 0;
}

/* ---- a pull in host memory ------------------------------------------------------- */

/* Copies the program's pieces to one vector. */
static int gather(struct worker *w)
{
	struct target *t = w->into;
	const uint64_t count = w->layout->count;

	if (!t->together) {
		log_line(LOG_INFO, "runtime",
			 "model %u: the segments are gathered in one copy for each pull, because "
			 "the recipe needs all parameters at once",
			 w->model.id);
		t->together = vector_open(count);
	}
	if (!t->together)
		return fail(SLUICE_ENOMEM, "no memory for %llu parameters in one vector",
			    (unsigned long long)count);
	vector_join(t->vector, t->together);
	t->flat = t->together;
	t->follow = FOLLOW_END;
	return 0;
}

static int copy_comes_home(struct worker *w)
{
	struct target *t = w->into;
	int rc = t->away ? half_copy_home(w->half, t->master, t->copy_there.address,
					  w->layout->count * sizeof(float)) :
			   0;

	t->away = t->away && rc;
	return rc;
}

static int begin_here(struct worker *w)
{
	struct target *t = w->into;
	const struct local *local = w->local;
	int rc = copy_comes_home(w);

	t->follow = FOLLOW_ITSELF;
	t->flat = NULL;
	if (rc || (local && worker_alone(w)))
		return rc; /* local_pull() writes to the vector */
	if (local) {
		t->flat = local_base(local);
		t->follow = FOLLOW_END;
		return 0;
	}
	if (t->master) {
		t->flat = t->master;
		t->follow = looks_at_all(w->rules.plan) || vector_staged(t->vector) ?
				    FOLLOW_END :
				    FOLLOW_CHANGES;
		return 0;
	}
	if (!recipe_pulls_mean(w->rules.recipe))
		rc = vector_fetch(t->vector, "sluice_pull");
	t->flat = vector_floats(t->vector);
	return !rc && !t->flat && looks_at_all(w->rules.plan) ? gather(w) : rc;
}

/* ---- a pull ---------------------------------------------------------------------- */

int target_begin(struct worker *w)
{
	const struct target *t = w->into;
	int rc = t->there ? begin_there(w) : begin_here(w);

	if (rc)
		return rc;
	if (!recipe_pulls_mean(w->rules.recipe))
		target_remember(w, t->flat);
	else if (t->there)
		rc = zero_there(w);
	else
		vector_zero(t->vector);
	return rc;
}

int target_write_own(struct worker *w)
{
	const struct vector *v = w->into->vector;
	int rc = local_reads(w) ? vector_fetch(v, "sluice_pull") : 0;

	if (!rc)
		rc = local_pull(w, v);
	return rc ? rc : vector_send(v, "sluice_pull");
}

int target_end(struct worker *w, int rc)
{
	const struct target *t = w->into;

	if (!rc && t->follow == FOLLOW_END && t->there &&
	    vector_write_there(t->vector, t->ops, t->compressor, t->flat, w->stream))
		return device_fail(t->ops, "sluice_pull");
	if (rc || t->there)
		return rc;
	if (t->follow == FOLLOW_END && w->local)
		return target_write_own(w);
	if (t->follow == FOLLOW_END)
		vector_write(t->vector, 0, t->flat, w->layout->count);
	return vector_send(t->vector, "sluice_pull");
}

float *target_flat(const struct target *t)
{
	return t->flat;
}

int target_lands(const struct worker *w)
{
	return target_there(w->into) || worker_lands(w);
}

int target_entries(const struct worker *w, uint32_t count, struct entries *to)
{
	*to = compressor_entries(w->compressor);
	return target_lands(w) ? half_land(w->half, count, &to->index, &to->value) : 0;
}

/* Arguments of add_delta_part(). */
struct delta {
	const struct target *t;
	int set; /* 1: the values replace the elements */
	uint64_t first;
	const uint32_t *index;
	const float *value;
};

static void add_delta_part(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	const struct delta *d = context;
	const struct target *t = d->t;
	const uint32_t *index = d->index ? d->index + begin : NULL, n = (uint32_t)(end - begin);
	const uint64_t first = d->first + (index ? 0 : begin);
	const float *value = d->value + begin;

	(void)part;
	if (!t->flat)
		vector_change(t->vector, first, index, value, n, d->set);
	else
		(d->set ? sparse_set : sparse_add)(t->flat + first, index, value, n);
	if (t->follow == FOLLOW_CHANGES)
		vector_follow(t->vector, first, index, n, t->flat);
}

int target_add(const struct worker *w, uint64_t first, const uint32_t *index, const float *value,
	       uint32_t n)
{
	struct delta d = { w->into, recipe_averages(w->rules.recipe), first, index, value };

	if (d.t->there)
		return add_there(w, first, index, value, n);
	team_split(scratch_team(w->scratch), n, VECTOR_LINE, add_delta_part, &d);
	return 0;
}

/* ---- all parameters as floats --------------------------------------------------- */

/* Records the vector that own_borrow() reads until the first pull. */
static void remember_own(const struct worker *w, void *vector)
{
	struct target *t = w->into;

	if (vector)
		vector_run(&t->given, vector, w->layout->count, w->param_type, 1);
	t->vector = vector ? &t->given : &t->opened;
}

int params_borrow(const struct worker *w, void *vector, const char *function, struct params *out)
{
	*out = (struct params){ .of = &out->one, .function = function };
	int rc = argument_aligned(vector, value_bytes(w->param_type), "params", function);

	if (rc)
		return rc;
	if (recipe_drifts(w->rules.recipe))
		remember_own(w, vector);
	if (vector)
		vector_run(&out->one, vector, w->layout->count, w->param_type, 1);
	else
		out->of = &w->into->opened;
	return vector_borrow(out->of, w->stream, function, &out->host);
}

int params_return(struct params *p, int failed)
{
	const int rc = p->of ? vector_return(p->of, p->host, failed, p->function) : failed;

	if (p->of)
		vector_release(p->of); /* rarely used, so the memory is not kept */
	vector_free(&p->one);
	*p = (struct params){ 0 };
	return rc;
}

int own_borrow(const struct worker *w, const char *function, float **host)
{
	const enum nonfinite_policy nonfinite = w->rules.recipe->nonfinite;
	struct target *t = w->into;
	const uint64_t count = w->layout->count;
	float *own;
	int rc = 0;

	*host = NULL;
	if (!recipe_drifts(w->rules.recipe))
		return 0;
	rc = vector_borrow(t->vector, w->stream, function, host);
	if (rc || nonfinite == NONFINITE_ABORT || first_nonfinite(*host, count) == count)
		return rc;
	own = *host;
	*host = t->healed = vector_open(count);
	if (!*host) {
		vector_return(t->vector, own, SLUICE_EINVAL, "");
		return fail(SLUICE_ENOMEM, "%s: no memory for %llu parameters", function,
			    (unsigned long long)count);
	}
	/* With nonfinite=skip, the next exchange skips this vector, and the worker continues from
	 * the point. With nonfinite=zero, it leaves out only the values that are not finite. */
	local_point(w->local, 0, count, *host);
	for (uint64_t i = 0; nonfinite == NONFINITE_ZERO && i < count; i++)
		if (isfinite(own[i]))
			(*host)[i] = own[i];
	vector_return(t->vector, own, SLUICE_EINVAL, "");
	return 0;
}

void own_return(const struct worker *w, float *host)
{
	struct target *t = w->into;

	if (!host) /* NULL on a server too, which has no target */
		return;
	if (host == t->healed)
		vector_close(t->healed, w->layout->count);
	else /* passes an error code, so that nothing is written back */
		vector_return(t->vector, host, SLUICE_EINVAL, "");
	t->healed = NULL;
}
