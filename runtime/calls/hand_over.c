/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_hand_over() moves the values that one model has not delivered yet to another model of the
 * same parameters. sluice_residual() copies those of this worker. */
#include "base/error.h"
#include "job/living.h"
#include "job/progress_token.h"
#include "shard/shard_device.h"
#include "shard/state.h"
#include "sluice_vector.h"
#include "worker/compressor_ops.h"
#include "worker/push.h"
#include "worker/state.h"
#include <string.h>

static const char hand_over[] = "sluice_hand_over";

static int remembers(const sluice_model *model)
{
	return model->recipe.memory.kind != MEMORY_NONE;
}

/* Returns the part of the recipe because of which its residual is not a sum of gradients, or NULL.
 */
static const char *other_residual(const struct recipe *r)
{
	if (!recipe_pulls_mean(r))
		return "update= other than none";
	if (r->signal.kind != SIGNAL_GRADIENT && r->signal.kind != SIGNAL_MOMENTUM)
		return "signal= other than gradient and momentum";
	if (r->memory.kind != MEMORY_NONE && r->memory.kind != MEMORY_RESIDUAL)
		return "memory= other than residual and none";
	if (r->when != WHEN_ALWAYS)
		return "when= other than always";
	if (r->transform)
		return "transform=";
	return NULL;
}

static int check_residual(const sluice_model *model, const char *which)
{
	const char *words = other_residual(&model->recipe);

	return words ? fail(SLUICE_EINVAL,
			    "%s: the recipe of the %s model has %s, so its residual is not a sum "
			    "of gradients that another recipe could send",
			    hand_over, which, words) :
		       0;
}

static int check_pair(sluice_model *from, sluice_model *to)
{
	int rc = step_check(from, from, hand_over, STEP_DONE);

	if (!rc)
		rc = step_check(to, to, hand_over, STEP_DONE);
	if (rc)
		return rc;
	if (from == to || from->job != to->job || from->layout.count != to->layout.count)
		return fail(SLUICE_EINVAL, "%s: the models are %s", hand_over,
			    from == to ? "the same: open another one with the new recipe" :
			    from->job != to->job ? "in two jobs: open the second in the job of the "
						   "first" :
						   "of different lengths: open the second with the "
						   "same parameters");
	if (from->job->servers)
		return fail(SLUICE_ENOSUPP,
			    "%s: the job has dedicated servers, whose residuals no worker has: "
			    "keep the recipe, or start the job without servers",
			    hand_over);
	if (to->worker->step.done)
		return fail(SLUICE_EINVAL,
			    "%s: the new model has made steps already; call it right after "
			    "sluice_model_open",
			    hand_over);
	if (to->took_over)
		return fail(
			SLUICE_EINVAL,
			"%s: the new model has already taken over values, and would send the same "
			"values again; call it once for each new model",
			hand_over);
	rc = check_residual(from, "old");
	if (!rc)
		rc = check_residual(to, "new");
	if (!rc && remembers(from) && !remembers(to))
		rc = fail(SLUICE_EINVAL,
			  "%s: the recipe of the new model has memory=none, so it would lose the "
			  "residual; write memory=residual",
			  hand_over);
	if (!rc && remembers(from) && to->recipe.clip.median)
		rc = fail(SLUICE_EINVAL,
			  "%s: the recipe of the new model has clip=median, which would scale down "
			  "the push with the residual and lose the rest; leave it out",
			  hand_over);
	return rc;
}

/* Returns how many times a single worker has to push a part of a mean, so that the new model
 * publishes it once. A mean divides the push by the number of workers. With reduce=senders, it is
 * divided by the number of workers that send the coordinate. */
static float pushes_of_part(const sluice_model *to)
{
	return to->recipe.reduce == REDUCE_SENDERS ? 1 : (float)sluice_living(to->job);
}

/* Adds n times the unpublished values of the shards that workers read from this rank. With
 * update=none these values are parts of a mean. */
static void add_unpublished(sluice_model *from, float n, float *residual)
{
	for (uint32_t i = 0; i < from->n_own; i++) {
		const struct shard *shard = &from->shards[i];
		const float *rest = shard_residual(shard);

		if (!rest || !home_is_here(from->home, shard->id))
			continue;
		for (uint32_t j = 0; j < shard->at->span; j++)
			residual[shard->at->begin + j] += n * rest[j];
	}
}

int sluice_hand_over(sluice_model *from, sluice_model *to)
{
	int rc = check_pair(from, to);

	if (!rc && !(rc = worker_await(from->worker)) && !(rc = worker_fetch(from->worker)) &&
	    !(rc = worker_come_home(to->worker)))
		rc = shard_devices_fetch(from);
	if (rc)
		return rc;

	const float *kept = worker_residual(from->worker);
	const float *velocity = from->worker->kept.of[KEPT_VELOCITY];
	float *residual = worker_residual(to->worker), *next = to->worker->kept.of[KEPT_VELOCITY];

	progress_take(from->job); /* shards must not change meanwhile */
	if (remembers(from)) {
		for (uint64_t i = 0; i < to->layout.count; i++)
			residual[i] += kept[i];
		add_unpublished(from, pushes_of_part(to), residual);
	}
	if (velocity && next)
		memcpy(next, velocity, to->layout.count * sizeof(*next));
	worker_renewed(to->worker);
	to->took_over = 1;
	progress_release(from->job);
	return 0;
}

int sluice_residual(sluice_model *model, float *residual)
{
	int rc = step_check(model, residual, "sluice_residual", STEP_DONE);

	if (rc)
		return rc;
	if (!remembers(model)) {
		memset(residual, 0, model->layout.count * sizeof(*residual));
		return 0;
	}
	if ((rc = worker_await(model->worker)) || (rc = worker_fetch(model->worker)))
		return rc;
	memcpy(residual, worker_residual(model->worker), model->layout.count * sizeof(*residual));
	return 0;
}
