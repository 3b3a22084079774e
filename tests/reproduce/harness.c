/* SPDX-License-Identifier: BSD-3-Clause
 * See harness.h. */
#include "tests/reproduce/harness.h"
#include "tests/reproduce/memory.h"
#include "base/clock.h"
#include "recipe.h"
#include <math.h>
#include <string.h>

struct running {
	const struct run *run;
	struct outcome *out;
	sluice_model **models;       /* by rank */
};

int recipe_offered(const char *recipe, char *why, size_t cap)
{
	struct recipe parsed;

	if (!recipe_parse(recipe, &parsed))
		return 1;
	snprintf(why, cap, "%s", sluice_last_error());
	return 0;
}

void seat_gradient(const struct seat *seat, const float *at, float *grad)
{
	const struct sample sample = { .seed = seat->run->seed, .worker = seat->rank,
				       .workers = seat->run->workers, .step = seat->step };

	seat->run->problem->gradient(seat->run->problem, at, &sample, grad);
}

int step_push_pull(struct seat *seat)
{
	seat_gradient(seat, seat->x, seat->grad);
	int rc = sluice_push(seat->model, seat->grad);

	return rc ? rc : sluice_pull(seat->model, seat->x);
}

static int train(struct seat *seat)
{
	const struct run *run = seat->run;
	int rc = 0;

	for (seat->step = 0; seat->step < run->steps && !rc; seat->step++) {
		if (run->stop && seat->step >= *run->stop)
			break;
		if (run->decay > 0) {
			seat->lr = (float)((double)run->lr / (1 + (double)seat->step / run->decay));
			rc = sluice_set_lr(seat->model, seat->lr);
		}
		if (!rc)
			rc = run->step ? run->step(seat) : step_push_pull(seat);
		if (!rc && run->after)
			rc = run->after(seat);
	}
	return rc;
}

static int collect(const struct seat *seat, struct outcome *out)
{
	sluice_model_stats stats = { .size = sizeof stats };
	int rc = sluice_stats(seat->model, &stats);

	out->sum.up_bytes += stats.pushed_bytes;
	out->sum.down_bytes += stats.pulled_bytes;
	out->sum.up_elements += stats.pushed_elements;
	out->sum.down_elements += stats.pulled_elements;
	out->sum.deferred += stats.deferred_elements;
	out->sum.control_bytes += stats.control_bytes;
	if (!seat->rank) {
		out->steps = stats.steps;
		snprintf(out->recipe, sizeof out->recipe, "%s", sluice_recipe(seat->model));
		memcpy(out->x, seat->x, seat->run->problem->count * sizeof *out->x);
	}
	return rc;
}

static int work(const struct running *r, struct seat *seat)
{
	int rc = sluice_barrier(seat->job); /* from here on r->models is complete */

	seat->server = r->models[r->run->workers];
	if (!rc)
		rc = train(seat);
	return rc ? rc : collect(seat, r->out);
}

/* Ranks do not run at the same time: they may write to one outcome. */
static int rank_main(sluice_job *job, void *context)
{
	const struct running *r = context;
	const struct run *run = r->run;
	const size_t n = run->problem->count;
	struct seat seat = { .run = run, .job = job, .rank = sluice_rank(job), .lr = run->lr,
			     .x = zeroed(n, sizeof(float)), .grad = zeroed(n, sizeof(float)) };
	const sluice_model_attr attr = { .size = sizeof attr, .count = n, .recipe = run->recipe,
					 .shards = run->shards ? run->shards : 1, .lr = run->lr };

	run->problem->start(run->problem, run->seed, seat.x);
	int rc = sluice_model_open(job, &attr, seat.x, &seat.model);

	if (!rc) {
		r->models[seat.rank] = seat.model;
		rc = sluice_is_worker(job) ? work(r, &seat) : sluice_serve(seat.model);
	}
	if (rc && !r->out->rc) {
		r->out->rc = rc;
		snprintf(r->out->why, sizeof r->out->why, "%s", sluice_last_error());
	}
	sluice_model_close(&seat.model);
	free(seat.x);
	free(seat.grad);
	return rc;
}

int run_recipe(const struct run *run, struct outcome *out)
{
	const sluice_job_attr attr = { .size = sizeof attr, .servers = 1 };
	struct running r = { run, out, zeroed((size_t)run->workers + 1, sizeof *r.models) };
	uint64_t start = now_ns();

	*out = (struct outcome){ .x = zeroed(run->problem->count, sizeof *out->x) };
	out->offered = recipe_offered(run->recipe, out->why, sizeof out->why);
	int rc = out->offered ? sluice_simulate(&attr, run->workers + 1, rank_main, &r) : SLUICE_EINVAL;

	if (rc && !out->rc) {
		out->rc = rc;
		snprintf(out->why, sizeof out->why, "%s", sluice_last_error());
	}
	out->seconds = (double)(now_ns() - start) / 1e9;
	free(r.models);
	return out->rc;
}

double objective_after(const struct run *run, struct outcome *out)
{
	double value = run_recipe(run, out) ? NAN : run->problem->objective(run->problem, out->x);

	free(out->x);
	out->x = NULL;
	return value;
}

double accuracy_after(const struct run *run, struct outcome *out, double *objective)
{
	int rc = run_recipe(run, out);
	double share = rc ? NAN : run->problem->accuracy(run->problem, out->x);

	if (objective)
		*objective = rc ? NAN : run->problem->objective(run->problem, out->x);
	free(out->x);
	out->x = NULL;
	return share;
}

double up_per_step(const struct run *run, const struct outcome *out)
{
	return (double)out->sum.up_elements / (double)out->steps / run->workers;
}

double down_per_step(const struct run *run, const struct outcome *out)
{
	return (double)out->sum.down_elements / (double)out->steps / run->workers;
}
