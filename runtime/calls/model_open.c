/* SPDX-License-Identifier: BSD-3-Clause
 * Opening models: checks the attributes and the recipe, compares them between ranks, lays out
 * memory and exchanges windows. Collective. If one rank fails, all others fail and name it. All
 * models that one call opens share its collectives. */
#include "calls/model_open.h"
#include "base/arguments.h"
#include "base/log.h"
#include "base/room.h"
#include "calls/compare.h"
#include "calls/events.h"
#include "calls/spread.h"
#include "shard/shard_device.h"
#include "shard/shard_setup.h"
#include "job/collective.h"
#include "job/connect.h"
#include "job/living.h"
#include "job/progress_token.h"
#include "model/model.h"
#include "model/shown.h"
#include "worker/device.h"
#include "worker/state.h"
#include "worker/target.h"
#include "worker/worker_setup.h"
#include <math.h>
#include <stdlib.h>

static int check_attributes(const sluice_model_attr *attr, const char *function)
{
	if (!attr->count || attr->count > UINT32_MAX)
		return fail(SLUICE_EINVAL, "%s: count=%llu, must be 1 .. 2^32-1", function,
			    (unsigned long long)attr->count);
	if (attr->n_tensors && !attr->tensors)
		return fail(SLUICE_EINVAL, "%s: n_tensors=%zu, but tensors is NULL", function,
			    attr->n_tensors);
	if (!(attr->lr >= 0) || !isfinite(attr->lr))
		return fail(SLUICE_EINVAL, "%s: lr=%g, must be finite and > 0", function,
			    (double)attr->lr);
	int rc = vector_check_type(attr->grad_type, 1, "grad_type", function);
	if (!rc)
		rc = vector_check_type(attr->param_type, 0, "param_type", function);
	if (!rc && attr->uneven & ~1)
		rc = fail(SLUICE_EINVAL, "%s: uneven=%d, must be 0 or 1", function, attr->uneven);
	if (!rc && attr->rules && !attr->n_tensors)
		rc = fail(SLUICE_EINVAL, "%s: rules are given without tensors", function);
	if (!rc && attr->columns && !attr->n_tensors)
		rc = fail(SLUICE_EINVAL, "%s: columns are given without tensors", function);
	for (size_t t = 0; t < attr->n_tensors && attr->columns && !rc; t++)
		if (attr->columns[t] && attr->tensors[t].count % attr->columns[t])
			rc = fail(SLUICE_EINVAL,
				  "%s: columns=%llu of tensor %zu do not divide its %llu elements: "
				  "give the length of its rows, or 0",
				  function, (unsigned long long)attr->columns[t], t,
				  (unsigned long long)attr->tensors[t].count);
	if (!rc && attr->n_segments && !attr->segments)
		rc = fail(SLUICE_EINVAL, "%s: n_segments=%zu, but segments is NULL", function,
			  attr->n_segments);
	return rc;
}

int model_take_attributes(const sluice_model_attr *given, const char *function,
			  sluice_model_attr *out)
{
	*out = (sluice_model_attr){ 0 };
	int rc = given ? argument_size(given->size, offsetof(sluice_model_attr, stream),
				       _Alignof(sluice_model_attr), "sluice_model_attr", function) :
			 fail(SLUICE_EINVAL, "%s: attr is NULL", function);
	if (rc)
		return rc;
	memcpy(out, given, given->size < sizeof(*out) ? given->size : sizeof(*out));
	return check_attributes(out, function);
}

static int check_rules(const sluice_model_attr *attr, const char *function)
{
	float most = 0;

	for (size_t t = 0; t < attr->n_tensors; t++) {
		const sluice_tensor_rule *rule = &attr->rules[t];

		if (!(rule->lr >= 0) || !isfinite(rule->lr) || !(rule->decay >= 0) ||
		    !isfinite(rule->decay))
			return fail(SLUICE_EINVAL,
				    "%s: lr=%g and decay=%g in the rule of tensor %s must be "
				    "finite and 0 or more",
				    function, (double)rule->lr, (double)rule->decay,
				    attr->tensors[t].name);
		most = rule->lr > most ? rule->lr : most;
	}
	return most > 0 ? 0 :
			  fail(SLUICE_EINVAL,
			       "%s: the rules have lr=0 for all %zu tensors, so nothing would be "
			       "trained: lr is a factor of the learning rate, and 1 leaves it "
			       "unchanged",
			       function, attr->n_tensors);
}

/* Refuses attributes of the model and of the job that the recipe excludes (plan.h). */
static int check_exclusions(const sluice_model_attr *attr, const struct recipe *recipe,
			    const struct model_of *of)
{
	const char *const function = of->function;
	const struct {
		int asked;
		enum path path;
		const char *what, *otherwise;
	} attributes[] = {
		{ of->elastic, PATH_CONTINUE, "on_failure=continue is", "use on_failure=abort" },
		{ attr->uneven, PATH_UNEVEN, "uneven=1 is", "set it to 0" },
		{ attr->param_type != SLUICE_F32, PATH_PARAM_TYPE, "a param_type of 16 bits is",
		  "set it to SLUICE_F32" },
		{ attr->rules != NULL, PATH_RULES, "rules are", "leave them out" },
		{ attr->device_shards, PATH_DEVICE_SHARDS, "device_shards=1 is", "set it to 0" },
	};
	struct path_plan plan;

	plan_make(&plan, recipe, VALUE_F32, 0);
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		const char *why = plan_why_not(attributes[i].path, plan.traits);

		if (attributes[i].asked && why)
			return fail(SLUICE_EINVAL,
				    "%s: %s not possible with this recipe, because %s: %s, or "
				    "change the recipe",
				    function, attributes[i].what, why, attributes[i].otherwise);
	}
	if (attr->device_shards && attr->rules)
		return fail(SLUICE_EINVAL,
			    "%s: device_shards=1 and rules are not possible together, because %s: "
			    "leave one of them out",
			    function, plan_why_not(PATH_DEVICE_SHARDS, TRAIT(RULES)));
	return attr->rules ? check_rules(attr, function) : 0;
}

/* Returns a digest of all data that must be the same on all ranks. */
static uint64_t schema_of(const sluice_model *model)
{
	uint64_t parts[6] = { model->layout.count + transform_digest(model->layout.transform),
			      model->layout.n_shards,
			      tensors_number(model->tensors),
			      model->schedule.warmup_steps,
			      digest64(model->recipe_text, strlen(model->recipe_text)),
			      tensors_digest(model->tensors) };
	return digest64(parts, sizeof parts);
}

uint64_t model_memory(const struct layout *l, const struct recipe *recipe, int rank)
{
	uint64_t bytes = holdings_log_bytes(l->holdings, rank) + shards_memory(l, recipe, rank);
	/* Counts the buffer that spread.c and read.c use temporarily. At the same time rank 0 opens
	 * a region, which is not counted: it is closed before rank 0 first uses its accumulator. */
	bytes += layout_part_bytes(l);
	for (int peer = 0; peer < l->size; peer++)
		bytes += holdings_window_bytes(l->holdings, rank, peer);
	return rank < l->workers ? bytes + worker_memory(l, recipe) : bytes;
}

/* The models that one call opens. */
struct batch {
	sluice_job *job;
	const char *function; /* the call, for messages */
	size_t n;
	sluice_model **models; /* NULL: not begun */
	sluice_model_attr *attrs;
	void *const *params;
	struct params *hosts;    /* params as floats in host memory, while the models open */
	uint64_t need, together; /* bytes of the prepared models on this rank and on its node */
};

/* Compares the memory that all ranks of this node need for the models with the memory that is left.
 * Before any rank allocates, all ranks agree on the result. */
static int check_memory(struct batch *b, const sluice_model *model)
{
	const sluice_job *job = model->job;
	const char *here = sluice_node(job, job->rank),
		   *what = b->n > 1 ? "models need" : "model needs";
	struct room room = room_left("");
	int ranks = 0;
	b->need += model->stats.memory_bytes;
	for (int r = 0; r < job->size; r++)
		if (job_living(job, r) && !strcmp(sluice_node(job, r), here)) {
			b->together += model_memory(&model->layout, &model->recipe, r);
			ranks++;
		}
	if (b->together > room.node)
		return fail(SLUICE_ENOMEM,
			    "the %s %.1f MiB on %s, and %.1f MiB on the %d ranks of its "
			    "node together, but %s has %.1f MiB left: ask for more memory (srun "
			    "--mem), use more nodes, or lower the density",
			    what, mebibytes(b->need), rank_text(job, job->rank),
			    mebibytes(b->together), ranks, room.node_limit, mebibytes(room.node));
	if (b->need > room.process)
		return fail(SLUICE_ENOMEM,
			    "the %s %.1f MiB on %s, but the limit on the address space "
			    "(ulimit -v) leaves %.1f MiB: raise it, use more ranks, or lower the "
			    "density",
			    what, mebibytes(b->need), rank_text(job, job->rank),
			    mebibytes(room.process));
	return 0;
}

/* Refuses clip=median with a single worker. Also refuses a staleness with which a push may be too
 * old: while one worker computes a gradient, the shards may count a push of each other worker. */
static int check_workers(const struct recipe *recipe, const struct model_of *of)
{
	if (recipe->clip.median && of->workers < 2)
		return fail(SLUICE_EINVAL,
			    "%s: clip=median compares the pushes of several workers, but this job "
			    "has %d: write clip=none, or start more workers",
			    of->function, of->workers);
	if (recipe->when != WHEN_ASYNC || recipe->async.staleness + 1 >= (uint32_t)of->workers)
		return 0;
	return fail(SLUICE_EINVAL,
		    "%s: when=async(%u) is too small for %d workers: while one computes a "
		    "gradient, the pushes of all others may be counted; write async(%d) or more",
		    of->function, recipe->async.staleness, of->workers, of->workers - 1);
}

static int check_quorum(const struct recipe *recipe, const struct model_of *of)
{
	if (recipe->quorum.workers <= (uint32_t)of->workers)
		return 0;
	return fail(SLUICE_EINVAL,
		    "%s: quorum=%u is more than the %d workers of this job, so that no exchange "
		    "could ever close: write quorum=%d or less",
		    of->function, recipe->quorum.workers, of->workers, of->workers);
}

int model_shape(const sluice_model_attr *attr, const struct model_of *of, struct recipe *recipe,
		struct schedule *schedule, struct layout *l)
{
	int rc = recipe_parse(of->text, recipe);

	if (!rc)
		rc = check_workers(recipe, of);
	if (!rc)
		rc = check_quorum(recipe, of);
	if (!rc)
		rc = check_exclusions(attr, recipe, of);
	if (!rc)
		rc = schedule_compile(recipe, attr->steps_per_epoch, tensors_decay(attr), schedule);
	if (!rc)
		rc = layout_make(attr, recipe, schedule, of->size, of->workers, l);
	if (!rc && (rc = holdings_make(l, 1, &l->holdings)))
		layout_free(l);
	if (!rc)
		schedule_anchors(schedule, recipe, of->workers);
	return rc;
}

/* A selection by blocks takes at least one coordinate of each block. */
static void warn_of_single(const sluice_model *model)
{
	const struct recipe *recipe = &model->recipe;
	const uint64_t single = recipe->transform && selection_kinds[recipe->up.select].by_block ?
					transform_single(model->layout.transform) :
					0;

	if (single > 1 && model->job->rank == 0)
		log_line(LOG_WARN, "runtime",
			 "model %u: transform=dct(%u) finds no blocks in tensors with %llu of the "
			 "%llu parameters, and all of these are sent in each step: the numbers of "
			 "rows and columns are 1 or primes above %u; give these tensors other "
			 "shapes, or write up=topk(DENSITY)",
			 model->id, recipe->transform, (unsigned long long)single,
			 (unsigned long long)model->layout.count, recipe->transform);
}

static int prepare_model(struct batch *b, sluice_model *model, const sluice_model_attr *attr)
{
	sluice_job *job = b->job;
	const char *text = attr->recipe && *attr->recipe ? attr->recipe : job->settings.recipe;
	const struct model_of of = { .text = text,
				     .function = b->function,
				     .size = job->size,
				     .workers = job->workers,
				     .elastic = job_elastic(job) };
	int rc = model_shape(attr, &of, &model->recipe, &model->schedule, &model->layout);

	if (!rc && model->recipe.automatic && !model->recipe.budget && job->sim_rank)
		rc = fail(SLUICE_EINVAL, "recipe: auto compares times, which a simulated job does "
					 "not have: write auto(0.1), auto(0.01) or auto(0.001), "
					 "or up= and down=");
	struct worker *w = model->worker;
	w->uneven = attr->uneven;
	w->param_type = (enum value_type)attr->param_type;
	w->grad.type = (enum value_type)attr->grad_type;
	w->grad.scale = 1;
	step_set_rate(&w->step, recipe_drifts(&model->recipe) ? model->recipe.drift.rate :
				attr->lr > 0                  ? attr->lr :
								0.01f);
	if (!rc)
		rc = tensors_open(attr, &model->tensors);
	if (rc)
		return rc;
	recipe_print(&model->recipe, model->recipe_text);
	/* Without a residual, or if the worker has its own optimizer, no kept vector includes the
	 * step size (STEP_OUTSIDE). */
	int outside = (model->recipe.memory.kind == MEMORY_NONE &&
		       model->recipe.when != WHEN_EVERY) ||
		      recipe_pulls_mean(&model->recipe);
	model->update = (struct update){ .kind = model->recipe.update,
					 .momentum = model->recipe.update_average.momentum,
					 .decay = model->recipe.update == UPDATE_ADAMW ?
							  model->recipe.adam.decay :
							  model->recipe.decay,
					 .alpha = model->recipe.update_average.alpha,
					 .adam = model->recipe.adam,
					 .placement = outside ? STEP_OUTSIDE :
								model->recipe.placement };
	model->update.tensors = tensors_ruled(model->tensors) ? model->tensors : NULL;
	plan_make(&model->plan, &model->recipe, worker_pushed_type(w), job_elastic(job));
	model->schema = schema_of(model);
	uint64_t need = model_memory(&model->layout, &model->recipe, job->rank);
	model->stats.memory_bytes = need;
	model->stats.compression_error = model->stats.compression_error_down = NAN;
	uint64_t limit = attr->memory_bytes ? attr->memory_bytes : job->settings.memory_bytes;
	if (limit && need > limit)
		return fail(SLUICE_ENOMEM,
			    "the model needs %.1f MiB on %s, but the limit is %.1f MiB "
			    "(SLUICE_MEMORY): raise it, use more ranks, or lower the density",
			    mebibytes(need), rank_text(job, job->rank), mebibytes(limit));
	if ((rc = check_memory(b, model)))
		return rc;
	log_line(LOG_INFO, "runtime",
		 "model %u: %llu parameters, %u shards, %.1f MiB here, recipe %s", model->id,
		 (unsigned long long)attr->count, model->layout.n_shards, mebibytes(need),
		 model->recipe_text);
	warn_of_single(model);
	return 0;
}

/* Reserves consecutive channels for the shards of all models. */
static int reserve(struct batch *b)
{
	sluice_job *job = b->job;
	uint64_t shards = 0;
	uint32_t channel = 0;

	for (size_t i = 0; i < b->n; i++)
		shards += b->models[i]->layout.n_shards;
	progress_take(job);
	int rc = clients_reserve(&job->clients, b->models[b->n - 1]->id,
				 shards < UINT32_MAX ? (uint32_t)shards : UINT32_MAX,
				 job_in_group(job) ? GROUP_INDEX_MOST : IMM_INDEX_MOST, &channel);
	progress_release(job);
	for (size_t i = 0; i < b->n; i++) {
		b->models[i]->channel = channel;
		channel += b->models[i]->layout.n_shards;
	}
	return rc;
}

void model_free(sluice_model *model)
{
	shown_close(model);
	on_device_close(model->worker); /* must come first, because the device may still write to
					   the windows */
	shard_devices_close(model);
	home_close(&model->home);
	worker_close(model->worker);
	shards_close(model);
	free(model->measure.before);
	layout_free(&model->layout);
	tensors_close(&model->tensors);
	free(model);
}

static const void *first_piece(const sluice_model_attr *attr)
{
	return attr->n_segments ? attr->segments[0].data : NULL;
}

/* Puts the shards of this rank on a GPU if that is asked for, or if parameters in GPU memory and
 * the recipe suggest it. */
static int place_shards(sluice_model *model, const sluice_model_attr *attr, const void *params)
{
	const int may = !strcmp(model->job->settings.device_shards, "auto") && !attr->rules &&
			plan_takes(&model->plan, PATH_DEVICE_SHARDS, model->plan.traits);
	const struct device_ops *ops = NULL;
	int rc = 0;

	if (!attr->device_shards && (!may || (rc = device_of(params, &ops)) || !ops))
		return rc;
	return shard_devices_open(model, params);
}

/* Makes model i of the batch. On failure, models[i] is NULL or is freed with the others. */
static int begin_one(struct batch *b, size_t i, uint32_t id, const sluice_model_attr *given)
{
	sluice_job *job = b->job;
	sluice_model *model = calloc(1, sizeof *model);
	sluice_model_attr *attr = &b->attrs[i];
	if (!model)
		return fail(SLUICE_ENOMEM, "%s: no memory", b->function);
	model->job = job;
	model->shown = -1;
	model->id = id;
	const int wrong = model_take_attributes(given, b->function, attr);
	attr->device_shards |= !strcmp(job->settings.device_shards, "yes");
	int rc = worker_make(model, attr->stream);
	if (rc) {
		free(model->worker);
		free(model);
		return rc;
	}
	b->models[i] = model;
	rc = id < JOB_MODELS ? wrong :
			       fail(SLUICE_EINVAL,
				    "%s: %d models are already open, the maximum of a job or "
				    "group: close some, or make one model of several parts (its "
				    "tensors)",
				    b->function, JOB_MODELS);
	if (!rc && job_in_group(job) && attr->shards > GROUP_INDEX_MOST)
		rc = fail(SLUICE_EINVAL,
			  "%s: shards=%u, but all models of a group together have %d at most",
			  b->function, attr->shards, GROUP_INDEX_MOST);
	if (!rc && !b->params[i] && !attr->segments && sluice_is_worker(job))
		rc = fail(SLUICE_EINVAL, "%s: params is NULL on a worker", b->function);
	return rc ? rc : prepare_model(b, model, attr);
}

/* Names the model in an error that error_hold() holds back. */
static int name_model(const struct batch *b, size_t i, int rc)
{
	char why[ERROR_TEXT_BYTES];

	if (!rc || b->n == 1)
		return rc;
	snprintf(why, sizeof(why), "%s", sluice_last_error());
	error_hold();
	return fail(rc, "model %zu of %zu: %s", i, b->n, why);
}

/* The attributes are an array of the caller's structs, which may be shorter or longer than here. */
static int begin_batch(struct batch *b, const sluice_model_attr *given)
{
	uint32_t id = 0;
	int rc = 0;

	for (size_t i = 0; i < b->n && !rc; i++) {
		const sluice_model_attr *one = given ? (const void *)((const char *)given +
								      i * given->size) :
						       NULL;

		id = i ? clients_next_free(&b->job->clients, id) :
			 clients_free_model(&b->job->clients);
		if (i && one->size != given->size)
			rc = fail(SLUICE_EINVAL, "%s: size=%zu, but that of model 0 is %zu",
				  b->function, one->size, given->size);
		if (!rc)
			rc = begin_one(b, i, id, one);
		rc = name_model(b, i, rc);
	}
	if (!rc)
		rc = reserve(b);
	for (size_t i = 0; i < b->n && !rc; i++) {
		struct worker *w = b->models[i]->worker;

		rc = target_open(w, &b->attrs[i]);
		if (!rc)
			rc = params_borrow(w, b->params[i], b->function, &b->hosts[i]);
		rc = name_model(b, i, rc);
	}
	return rc;
}

static int models_meet(const void *context, int low, int high)
{
	const struct batch *b = context;

	for (size_t i = 0; i < b->n; i++)
		if (holdings_meet(b->models[i]->layout.holdings, low, high))
			return 1;
	return 0;
}

/* Allocates what this rank keeps for a model. */
static int open_halves(sluice_model *model, const sluice_model_attr *attr, const void *params)
{
	int rc = home_open(model->job, &model->layout, &model->home);

	if (!rc)
		rc = shards_open(model);
	if (!rc)
		rc = place_shards(model, attr, params ? params : first_piece(attr));
	shown_open(model); /* the worker half takes a copy */
	return rc || !sluice_is_worker(model->job) ? rc : worker_open(model);
}

static int exchange_homes(const struct batch *b)
{
	struct home **homes = calloc(b->n, sizeof(struct home *));

	for (size_t i = 0; i < b->n && homes; i++)
		homes[i] = b->models[i]->home;
	int rc = homes ? homes_exchange(homes, b->n) :
			 job_fail_here(b->job, 0, SLUICE_ENOMEM, "%s: no memory", b->function);
	free(homes);
	return rc;
}

static int spread_batch(const struct batch *b)
{
	float **floats = calloc(b->n, sizeof(*floats));
	int rc = floats ? 0 : job_fail_here(b->job, 0, SLUICE_ENOMEM, "%s: no memory", b->function);

	for (size_t i = 0; i < b->n && !rc; i++) {
		floats[i] = b->hosts[i].host;
		events_begin(b->models[i]);
	}
	if (!rc)
		rc = models_spread(b->models, b->n, floats);
	for (size_t i = 0; i < b->n && !rc && sluice_is_worker(b->job); i++)
		worker_begin(b->models[i]->worker, floats[i]);
	free(floats);
	return rc;
}

static int open_batch(struct batch *b, const sluice_model_attr *given)
{
	static const char what[] = "open the model";

	error_hold(); /* held until collective_agree() shows which other ranks have this error */
	int rc = collective_agree(b->job, begin_batch(b, given), what);
	if (!rc)
		rc = models_compare(b->models, b->n);
	if (!rc)
		rc = connect_pairs(b->job, models_meet, b, "the model");
	if (rc)
		return rc;
	for (size_t i = 0; i < b->n && !rc; i++)
		rc = open_halves(b->models[i], &b->attrs[i], b->params[i]);
	rc = collective_agree(b->job, rc, what);
	if (!rc)
		rc = exchange_homes(b);
	return rc ? rc : spread_batch(b);
}

/* Gives the parameters back, and on failure frees the models. */
static int end_batch(struct batch *b, int rc)
{
	for (size_t i = 0; i < b->n; i++) {
		const int one = params_return(&b->hosts[i], rc);

		rc = rc ? rc : one;
	}
	for (size_t i = 0; i < b->n && rc; i++)
		if (b->models[i]) {
			events_end(b->models[i]);
			model_free(b->models[i]);
		}
	return rc;
}

static int open_models(sluice_job *job, const char *function, size_t n,
		       const sluice_model_attr *attrs, void *const *params,
		       sluice_model **models_out)
{
	struct batch b = { .job = job, .function = function, .n = n, .params = params };
	int rc = job_check(job, function);

	if (!rc && !models_out)
		rc = fail(SLUICE_EINVAL, "%s: the place for the model is NULL", function);
	if (!rc && (!n || n > JOB_MODELS || !params))
		rc = fail(SLUICE_EINVAL, "%s: n=%zu, must be 1 .. %d, and params an array",
			  function, n, JOB_MODELS);
	if (rc)
		return rc;
	b.models = calloc(n, sizeof(*b.models));
	b.attrs = calloc(n, sizeof(*b.attrs));
	b.hosts = calloc(n, sizeof(*b.hosts));
	rc = b.models && b.attrs && b.hosts ? end_batch(&b, open_batch(&b, attrs)) :
					      fail(SLUICE_ENOMEM, "%s: no memory", function);
	if (!rc)
		memcpy(models_out, b.models, n * sizeof(*b.models));
	free(b.models);
	free(b.attrs);
	free(b.hosts);
	return rc;
}

int sluice_models_open(sluice_job *job, size_t n, const sluice_model_attr *attrs,
		       void *const *params, sluice_model **models_out)
{
	struct error_scope scope;
	error_begin(&scope);
	return error_end(&scope,
			 open_models(job, "sluice_models_open", n, attrs, params, models_out));
}

int sluice_model_open(sluice_job *job, const sluice_model_attr *attr, void *params,
		      sluice_model **model_out)
{
	struct error_scope scope;
	error_begin(&scope);
	return error_end(&scope,
			 open_models(job, "sluice_model_open", 1, attr, &params, model_out));
}
