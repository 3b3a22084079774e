/* SPDX-License-Identifier: BSD-3-Clause
 * See target.h. */
#include "worker/target.h"
#include "base/arguments.h"
#include "base/log.h"
#include "compress/sparse.h"
#include "model/kept.h"
#include "worker/device.h"
#include "worker/hooks.h"
#include "worker/state.h"
#include <stdlib.h>
#include <string.h>

struct target {
	float *master;        /* the parameters in 32 bits, if the program's have 16; */
	int away;             /* they are newer on a device */
	float *together;      /* pieces of floats, for recipes that look at all parameters */
	struct vector opened; /* of the model's attributes */
	/* Of the pull under way. */
	struct vector given; /* none: vector */
	void *vector;
	int narrow_there; /* which has 16 bits and is on a device that rounds them itself */
	int pieces_there; /* the pieces are on a device that can do all that the pull does */
	/* What it adds to, once it waits. */
	float *flat;
	const struct vector *pieces;
};

/* ---- opening ----------------------------------------------------------------- */

/* Without a copy in 32 bits there is nothing that a parameter of 16 could be rounded from. */
static int check_types(const sluice_model *model, const struct vector *s, const char *function)
{
	if (model->recipe.update == UPDATE_NONE || model->layout.narrow_params || !vector_narrow(s))
		return 0;
	return fail(SLUICE_EINVAL,
		    "%s: a segment of parameters has 16 bits, and the model was opened without "
		    "param_type (sluice_model_attr), so that there is no copy in 32 bits that it "
		    "could be rounded from",
		    function);
}

int target_open(sluice_model *model, const sluice_model_attr *attr)
{
	struct target *t = model->worker->into = calloc(1, sizeof(*t));
	const char *function = "sluice_model_open";

	if (!t)
		return fail(SLUICE_ENOMEM, "%s: no memory", function);
	if (!attr->segments)
		return 0;
	int rc = vector_pieces(&t->opened, attr->segments, attr->n_segments, attr->count, 0,
			       function);

	return rc ? rc : check_types(model, &t->opened, function);
}

void target_close(sluice_model *model)
{
	struct target *t = model->worker->into;

	if (!t)
		return;
	vector_close(t->master, model->layout.count);
	vector_close(t->together, model->layout.count);
	vector_free(&t->opened);
	vector_free(&t->given);
	free(t);
	model->worker->into = NULL;
}

/* Means are rounded where they are written. */
static int keeps_copy(const struct layout *l, const struct recipe *recipe)
{
	return l->narrow_params && recipe->update != UPDATE_NONE;
}

static int open_copy(sluice_model *model)
{
	struct target *t = model->worker->into;

	if (!keeps_copy(&model->layout, &model->recipe))
		return 0;
	t->master = vector_open(model->layout.count);
	return t->master ? 0 :
			   fail(SLUICE_ENOMEM, "no memory for the parameters in 32 bits: %llu",
				(unsigned long long)model->layout.count);
}

static void begin_copy(sluice_model *model, const float *params)
{
	struct target *t = model->worker->into;

	if (!t || !t->master)
		return;
	memcpy(t->master, params, model->layout.count * sizeof(*params));
	t->away = 0;
}

static uint64_t copy_bytes(const struct layout *l, const struct recipe *recipe)
{
	return keeps_copy(l, recipe) ? l->count * sizeof(float) : 0;
}

const struct step_hooks target_hooks = { .open = open_copy,
					 .begin = begin_copy,
					 .memory = copy_bytes };

/* ---- a pull ------------------------------------------------------------------ */

static int vector_aligned(const sluice_model *model, const void *vector, const char *function)
{
	return argument_aligned(vector, value_bytes(model->param_type),
				model->recipe.update == UPDATE_NONE ? "mean" : "params", function);
}

/* The pieces of the noted pull; NULL: one vector of floats. */
static struct vector *pieces_of(const sluice_model *model)
{
	struct target *t = model->worker->into;

	if (vector_number(&t->given))
		return &t->given;
	return t->vector ? NULL : &t->opened;
}

/* Where the recipe reads or sets all parameters by itself. */
static int looks_at_all(const sluice_model *model)
{
	const struct worker *w = model->worker;

	return w->local || w->async || w->kept.of[KEPT_PREVIOUS];
}

/* Whether they are on a device that can do all that the recipe does with parameters. */
static int note_pieces(sluice_model *model)
{
	struct target *t = model->worker->into;
	const struct vector *pieces = pieces_of(model);
	int rc = 0;

	if (pieces && !looks_at_all(model) && model->recipe.update != UPDATE_AVERAGE)
		rc = vector_there(pieces, on_device_stream(model));
	t->pieces_there = rc > 0;
	return rc < 0 ? rc : 0;
}

/* Whether the vector of 16 bits that was noted is on a device that can do all that the recipe does
 * with parameters: then it is not staged. */
static int note_narrow(sluice_model *model, void *vector)
{
	struct target *t = model->worker->into;
	const struct device_ops *ops = NULL;
	struct device_scope scope;

	if (looks_at_all(model))
		return 0;
	device_scope_begin(vector, on_device_stream(model), &scope);
	int rc = device_scope_end(&scope, device_of(vector, &ops));
	t->narrow_there = !rc && ops;
	if (t->narrow_there)
		vector_clear(&t->given);
	return rc;
}

int target_note(sluice_model *model, void *vector, const sluice_segment *given, size_t n,
		const char *function)
{
	struct target *t = model->worker->into;
	int rc = 0;

	if (!vector && !given &&
	    (!vector_number(&t->opened) || model->recipe.update == UPDATE_NONE))
		return fail(SLUICE_EINVAL, "%s: the vector is NULL%s", function,
			    vector_number(&t->opened) ?
				    ", and with update=none the model's segments are "
				    "parameters, not means" :
				    "");
	rc = vector_aligned(model, vector, function);
	if (rc)
		return rc;
	vector_clear(&t->given);
	t->vector = vector;
	t->narrow_there = t->pieces_there = 0;
	if (given)
		rc = vector_pieces(&t->given, given, n, model->layout.count, 0, function);
	else if (vector && model->param_type != VALUE_F32)
		vector_run(&t->given, vector, model->layout.count, model->param_type, 1);
	if (!rc && vector && vector_number(&t->given))
		rc = note_narrow(model, vector);
	if (!rc && vector_number(&t->given))
		rc = check_types(model, &t->given, function);
	if (!rc && !t->narrow_there)
		rc = note_pieces(model);
	if (!rc && !t->narrow_there && !t->pieces_there && pieces_of(model))
		rc = vector_stage(pieces_of(model), on_device_stream(model), function);
	if (rc)
		vector_clear(&t->given);
	return rc;
}

const void *target_memory(const sluice_model *model)
{
	const struct target *t = model->worker->into;
	const struct vector *pieces = pieces_of(model);

	return !pieces || t->vector ? t->vector : vector_given(pieces, 0);
}

/* Where the recipe reads or sets all parameters by itself, or all of them leave for a device. */
static int writes_all(const sluice_model *model)
{
	const struct target *t = model->worker->into;

	return looks_at_all(model) || (t->master && vector_staged(pieces_of(model)));
}

int target_whole(const sluice_model *model)
{
	return pieces_of(model) && (looks_at_all(model) || model->worker->into->pieces_there ||
				    vector_staged(pieces_of(model)));
}

/* Copies the pieces together. */
static int gather(sluice_model *model, const struct vector *pieces)
{
	struct target *t = model->worker->into;
	const uint64_t count = model->layout.count;

	if (!t->together) {
		log_line(LOG_INFO, "runtime",
			 "model %u: segments are copied together for each pull, because the recipe "
			 "looks at all parameters",
			 model->id);
		t->together = vector_open(count);
	}
	if (!t->together)
		return fail(SLUICE_ENOMEM, "no memory for %llu parameters in one vector",
			    (unsigned long long)count);
	vector_join(pieces, t->together);
	return 0;
}

/* The copy in 32 bits lives where the parameters are. */
static int begin_there(sluice_model *model, float **flat)
{
	struct target *t = model->worker->into;
	const float *copy = t->away ? NULL : t->master;
	const int gathers = !t->master && model->recipe.update != UPDATE_NONE;
	int rc = t->narrow_there ?
			 on_device_target_narrow(model, t->vector, copy, flat) :
			 on_device_target_pieces(model, pieces_of(model), gathers, copy, flat);

	if (!rc && t->master && !t->away) {
		vector_discard(t->master, model->layout.count);
		t->away = 1;
	}
	return rc;
}

static int copy_comes_home(sluice_model *model)
{
	struct target *t = model->worker->into;
	int rc = t->away ? on_device_fetch_copy(model, t->master) : 0;

	t->away = t->away && rc;
	return rc;
}

int target_begin(sluice_model *model, float **flat, const struct vector **pieces)
{
	struct target *t = model->worker->into;
	int rc = 0;

	*pieces = pieces_of(model);
	*flat = t->vector;
	if (t->pieces_there)
		*pieces = NULL;
	if (t->narrow_there || t->pieces_there)
		return begin_there(model, flat);
	if (!*pieces)
		return on_device_target(model, flat);
	*flat = NULL;
	rc = copy_comes_home(model);
	if (!rc && model->recipe.update != UPDATE_NONE && !t->master)
		rc = vector_fetch(*pieces, "sluice_pull");
	if (rc)
		return rc;
	if (model->recipe.update == UPDATE_NONE) {
		vector_zero(*pieces);
	} else if (t->master) {
		*flat = t->master;
	} else if (looks_at_all(model)) {
		rc = gather(model, *pieces);
		*flat = t->together;
	}
	on_device_target_host(model); /* pieces there are staged */
	return rc;
}

int target_end(sluice_model *model, int rc)
{
	const struct target *t = model->worker->into;
	const struct vector *pieces = pieces_of(model);
	const float *flat = t->master ? t->master : t->together;

	if (!rc && t->pieces_there)
		return on_device_scatter(model, pieces);
	if (!pieces || t->pieces_there)
		return on_device_pulled(model, rc);
	if (!rc && writes_all(model))
		vector_write(pieces, 0, flat, model->layout.count);
	return rc ? rc : vector_send(pieces, "sluice_pull");
}

void target_ask(sluice_model *model, float *flat, const struct vector *pieces)
{
	model->worker->into->flat = flat;
	model->worker->into->pieces = pieces;
}

int target_asked(const sluice_model *model)
{
	return target_flat(model) || target_in_pieces(model);
}

float *target_flat(const sluice_model *model)
{
	return model->worker->into->flat;
}

int target_in_pieces(const sluice_model *model)
{
	return model->worker->into->pieces != NULL;
}

void target_apply(const sluice_model *model, uint64_t first, const uint32_t *index,
		  const float *value, uint32_t n)
{
	const struct target *t = model->worker->into;
	const int set = model->recipe.update == UPDATE_AVERAGE;

	if (!t->flat) {
		vector_change(t->pieces, first, index, value, n, set);
		return;
	}
	(set ? sparse_set : sparse_add)(t->flat + first, index, value, n);
	if (!writes_all(model))
		vector_follow(t->pieces, first, index, n, t->flat);
}

/* ---- all parameters as floats --------------------------------------------------- */

int params_borrow(const sluice_model *model, void *vector, const char *function, struct params *out)
{
	*out = (struct params){ .of = &out->one, .function = function };
	int rc = argument_aligned(vector, value_bytes(model->param_type), "params", function);

	if (rc)
		return rc;
	if (vector)
		vector_run(&out->one, vector, model->layout.count, model->param_type, 1);
	else
		out->of = &model->worker->into->opened;
	return vector_borrow(out->of, on_device_stream(model), function, &out->host);
}

int params_return(struct params *p, int failed)
{
	const int rc = p->of ? vector_return(p->of, p->host, failed, p->function) : failed;

	vector_free(&p->one);
	*p = (struct params){ 0 };
	return rc;
}
