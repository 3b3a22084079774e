/* SPDX-License-Identifier: BSD-3-Clause
 * Opening a model: checks the attributes and the recipe, compares them between ranks, lays out
 * memory and exchanges windows. Collective. If one rank fails, all others fail and name it. */
#include "calls/model_open.h"
#include "base/arguments.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/room.h"
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

/* The record about a model that ranks exchange. It has numbers of 8 bytes, then the recipe. */
enum {
	TOLD_SCHEMA,
	TOLD_ORDER,
	TOLD_CHANNEL,
	TOLD_UNEVEN,
	TOLD_PARAM_TYPE,
	TOLD_COUNT,
	TOLD_SHARDS,
	TOLD_TENSORS,
	TOLD_WARMUP,
	TOLD_NUMBERS
};
enum {
	TOLD_TEXT = 8 * TOLD_NUMBERS,
	TOLD_TEXT_BYTES = 944,
	TOLD_BYTES = TOLD_TEXT + TOLD_TEXT_BYTES,
	TOLD_SAME = 8 * TOLD_COUNT /* equal models have equal bytes before this offset */
};

/* Describes the first difference between two records. */
static void tell_difference(const uint8_t *a, const uint8_t *b, char *text, size_t cap)
{
	static const struct {
		int which;
		const char *what;
	} numbers[] = {
		{ TOLD_ORDER, "as number %llu and as number %llu" },
		{ TOLD_CHANNEL, "after models of %llu and %llu shards" },
		{ TOLD_UNEVEN, "with uneven=%llu and uneven=%llu in the attributes" },
		{ TOLD_PARAM_TYPE, "with param_type=%llu and param_type=%llu in the attributes" },
		{ TOLD_COUNT, "of %llu and %llu parameters" },
		{ TOLD_SHARDS, "of %llu and %llu shards" },
		{ TOLD_TENSORS, "of %llu and %llu tensors" },
		{ TOLD_WARMUP, "with a warm-up of %llu and %llu steps (warmup=, steps_per_epoch)" },
	};
	const char *x_text = (const char *)a + TOLD_TEXT, *y_text = (const char *)b + TOLD_TEXT;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		uint64_t x = get_le64(a + 8 * numbers[i].which),
			 y = get_le64(b + 8 * numbers[i].which);
		if (x == y)
			continue;
		snprintf(text, cap, numbers[i].what, (unsigned long long)x, (unsigned long long)y);
		return;
	}
	size_t word = recipe_word_apart(x_text, y_text);
	if (!strcmp(x_text, y_text))
		snprintf(text, cap, "whose tensors have other names, lengths, columns or rules");
	else
		snprintf(text, cap, "with \"%.*s\" and \"%.*s\" in the recipe",
			 (int)strcspn(x_text + word, " "), x_text + word,
			 (int)strcspn(y_text + word, " "), y_text + word);
}

/* Compares the models that the ranks opened. If they differ, all ranks report it. */
static int compare_models(sluice_model *model)
{
	enum { ROW = TOLD_BYTES };
	sluice_job *job = model->job;
	uint8_t mine[ROW] = { 0 };
	/* A restored model may continue with other rates than before, but all ranks must have the
	 * same rates. */
	put_le64(mine + 8 * TOLD_SCHEMA, model->schema + tensors_rules_digest(model->tensors));
	put_le64(mine + 8 * TOLD_ORDER, model->id);
	put_le64(mine + 8 * TOLD_CHANNEL, model->channel);
	put_le64(mine + 8 * TOLD_UNEVEN, (uint64_t)model->worker->uneven);
	put_le64(mine + 8 * TOLD_PARAM_TYPE, (uint64_t)model->worker->param_type);
	put_le64(mine + 8 * TOLD_COUNT, model->layout.count);
	put_le64(mine + 8 * TOLD_SHARDS, model->layout.n_shards);
	put_le64(mine + 8 * TOLD_TENSORS, tensors_number(model->tensors));
	put_le64(mine + 8 * TOLD_WARMUP, model->schedule.warmup_steps);
	memcpy(mine + TOLD_TEXT, model->recipe_text,
	       strnlen(model->recipe_text, TOLD_TEXT_BYTES - 1));
	uint8_t *rows = malloc((size_t)job->size * ROW);
	if (!rows)
		return fail(SLUICE_ENOMEM, "no memory to compare models");
	int rc = collective_run(job, COLLECTIVE_OPEN, mine, 0, ROW, rows);
	int first = rc ? 0 : round_leader(job);
	uint8_t *terms = rows + (size_t)first * ROW;
	terms[ROW - 1] = 0;
	error_hold(); /* all ranks read the same rows and find the same difference */
	for (int r = first + 1; r < job->size && !rc; r++) {
		uint8_t *row = rows + (size_t)r * ROW;
		row[ROW - 1] = 0; /* ends the text, because a peer wrote it */
		char difference[ERROR_TEXT_BYTES];
		if (!round_has(job, r) || !memcmp(row, terms, TOLD_SAME))
			continue;
		tell_difference(terms, row, difference, sizeof difference);
		rc = fail(SLUICE_EPEER,
			  "%s and %s opened different models, %s: all ranks must open the same "
			  "ones, in the same order",
			  rank_text(job, first), rank_text(job, r), difference);
	}
	error_release(first == job->rank ? LOG_ERROR : LOG_INFO);
	free(rows);
	return rc;
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

/* Compares the memory that all ranks of this node need for the model with the memory that is left.
 * Before any rank allocates, all ranks agree on the result. */
static int check_memory(const sluice_model *model, uint64_t need)
{
	const sluice_job *job = model->job;
	const char *here = sluice_node(job, job->rank);
	struct room room = room_left("");
	uint64_t together = 0;
	int ranks = 0;
	for (int r = 0; r < job->size; r++)
		if (job_living(job, r) && !strcmp(sluice_node(job, r), here)) {
			together += model_memory(&model->layout, &model->recipe, r);
			ranks++;
		}
	if (together > room.node)
		return fail(SLUICE_ENOMEM,
			    "the model needs %.1f MiB on %s, and %.1f MiB on the %d ranks of its "
			    "node together, but %s has %.1f MiB left: ask for more memory (srun "
			    "--mem), use more nodes, or a lower density",
			    mebibytes(need), rank_text(job, job->rank), mebibytes(together), ranks,
			    room.node_limit, mebibytes(room.node));
	if (need > room.process)
		return fail(
			SLUICE_ENOMEM,
			"the model needs %.1f MiB on %s, but the limit on the address space "
			"(ulimit -v) leaves %.1f MiB: raise it, use more ranks, or a lower density",
			mebibytes(need), rank_text(job, job->rank), mebibytes(room.process));
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

static int prepare_model(sluice_model *model, const sluice_model_attr *attr)
{
	sluice_job *job = model->job;
	const char *text = attr->recipe && *attr->recipe ? attr->recipe : job->settings.recipe;
	const struct model_of of = { .text = text,
				     .function = "sluice_model_open",
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
	/* If there is no residual, or if the worker has its own optimizer, the step size is applied
	 * outside: no kept vector includes it. */
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
			    "the model needs %.1f MiB on %s, the limit is %.1f MiB "
			    "(SLUICE_MEMORY): raise it, use more ranks, or a lower density",
			    mebibytes(need), rank_text(job, job->rank), mebibytes(limit));
	if ((rc = check_memory(model, need)))
		return rc;
	log_line(LOG_INFO, "runtime",
		 "model %u: %llu parameters, %u shards, %.1f MiB here, recipe %s", model->id,
		 (unsigned long long)attr->count, model->layout.n_shards, mebibytes(need),
		 model->recipe_text);
	warn_of_single(model);
	return 0;
}

/* Reserves the channels of the model's shards. */
static int reserve(sluice_model *model)
{
	sluice_job *job = model->job;
	progress_take(job);
	int rc = clients_reserve(&job->clients, model->id, model->layout.n_shards,
				 job_in_group(job) ? GROUP_INDEX_MOST : IMM_INDEX_MOST,
				 &model->channel);
	progress_release(job);
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

static int open_model(sluice_job *job, const sluice_model_attr *given, void *params,
		      sluice_model **model_out)
{
	sluice_model_attr attributes, *attr = &attributes;
	int rc = job_check(job, "sluice_model_open");
	if (!rc && !model_out)
		rc = fail(SLUICE_EINVAL, "sluice_model_open: model_out is NULL");
	if (rc)
		return rc;
	sluice_model *model = calloc(1, sizeof *model);
	if (!model)
		return fail(SLUICE_ENOMEM, "sluice_model_open: no memory");
	model->job = job;
	model->shown = -1;
	error_hold(); /* held until collective_agree() shows which other ranks have this error */
	const int wrong = model_take_attributes(given, "sluice_model_open", attr);
	attr->device_shards |= !strcmp(job->settings.device_shards, "yes");
	if ((rc = worker_make(model, attr->stream))) {
		error_release(LOG_ERROR);
		free(model->worker);
		free(model);
		return rc;
	}
	model->id = clients_free_model(&job->clients);
	rc = model->id < JOB_MODELS ?
		     wrong :
		     fail(SLUICE_EINVAL,
			  "sluice_model_open: %d models are already open, the maximum of a job or "
			  "group: close some, or make one model of several parts (its tensors)",
			  JOB_MODELS);
	if (!rc && job_in_group(job) && attr->shards > GROUP_INDEX_MOST)
		rc = fail(SLUICE_EINVAL,
			  "sluice_model_open: shards=%u, but all models of a group together have "
			  "%d at most",
			  attr->shards, GROUP_INDEX_MOST);
	if (!rc && !params && !attr->segments && sluice_is_worker(job))
		rc = fail(SLUICE_EINVAL, "sluice_model_open: params is NULL on a worker");
	if (!rc)
		rc = prepare_model(model, attr);
	if (!rc)
		rc = reserve(model);
	if (!rc)
		rc = target_open(model->worker, attr);
	struct params host = { 0 };
	if (!rc)
		rc = params_borrow(model->worker, params, "sluice_model_open", &host);
	rc = collective_agree(job, rc, "open the model");
	if (!rc)
		rc = compare_models(model);
	if (!rc)
		rc = connect_pairs(job, holdings_meet, model->layout.holdings, "the model");
	if (!rc) {
		rc = home_open(job, &model->layout, &model->home);
		if (!rc)
			rc = shards_open(model);
		if (!rc)
			rc = place_shards(model, attr, params ? params : first_piece(attr));
		shown_open(model); /* the worker half takes a copy */
		if (!rc && sluice_is_worker(job))
			rc = worker_open(model);
		rc = collective_agree(job, rc, "open the model");
	}
	if (!rc)
		rc = home_exchange(model->home);
	if (!rc) {
		events_begin(model);
		rc = model_spread(model, host.host);
		if (!rc && sluice_is_worker(job))
			worker_begin(model->worker, host.host);
	}
	rc = params_return(&host, rc);
	if (rc) {
		events_end(model);
		model_free(model);
		return rc;
	}
	*model_out = model;
	return 0;
}

int sluice_model_open(sluice_job *job, const sluice_model_attr *attr, void *params,
		      sluice_model **model_out)
{
	struct error_scope scope;
	error_begin(&scope);
	return error_end(&scope, open_model(job, attr, params, model_out));
}
