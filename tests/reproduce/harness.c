/* SPDX-License-Identifier: BSD-3-Clause
 * See harness.h. */
#include "tests/reproduce/harness.h"
#include "tests/reproduce/memory.h"
#include "base/clock.h"
#include "recipe/recipe.h"
#include <math.h>
#include <string.h>

struct running {
	const struct run *run;
	struct outcome *out;
	sluice_model **models; /* by rank */
	FILE *curve;
	uint64_t start_ns;
	struct counters so_far; /* with curve: sums over all workers */
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
	const struct sample sample = { .seed = seat->run->seed,
				       .worker = seat->rank,
				       .workers = seat->run->workers,
				       .step = seat->step };

	seat->run->problem->gradient(seat->run->problem, at, &sample, grad);
}

int step_push_pull(struct seat *seat)
{
	seat_gradient(seat, seat->x, seat->grad);
	int rc = sluice_push(seat->model, seat->grad);

	return rc ? rc : sluice_pull(seat->model, seat->x);
}

int step_average(struct seat *seat)
{
	seat_gradient(seat, seat->x, seat->grad);
	for (size_t j = 0; j < seat->run->problem->count; j++)
		seat->x[j] -= seat->lr * seat->grad[j];
	int rc = sluice_push(seat->model, seat->x);

	return rc ? rc : sluice_pull(seat->model, seat->x);
}

/* ---- curves ---------------------------------------------------------------- */

/* Returns the mean seconds per step so far. In a simulation they include the turns of other ranks.
 */
static double share_of_step(uint64_t ns, const sluice_model_stats *stats)
{
	return (double)ns / 1e9 / (double)stats->steps;
}

static void draw_point(const struct running *r, const float *x, const sluice_model_stats *stats)
{
	const struct problem *p = r->run->problem;

	fprintf(r->curve, "{\"step\":%llu,\"seconds\":%.6f,\"loss\":%.9g,",
		(unsigned long long)stats->steps, (double)(now_ns() - r->start_ns) / 1e9,
		p->objective(p, x));
	if (p->accuracy)
		fprintf(r->curve, "\"accuracy\":%.4f,", p->accuracy(p, x));
	fprintf(r->curve,
		"\"pushed_total\":%llu,\"pulled_total\":%llu,\"residual_norm\":%.6g,"
		"\"density_up\":%.6g,\"density_down\":%.6g,\"compress\":%.9f,\"push\":%.9f,"
		"\"wait\":%.9f,\"pull\":%.9f,\"apply\":%.9f}\n",
		(unsigned long long)r->so_far.up_bytes, (unsigned long long)r->so_far.down_bytes,
		stats->residual_norm,
		(double)stats->pushed_elements / (double)stats->steps / (double)p->count,
		(double)stats->pulled_elements / (double)stats->steps / (double)p->count,
		share_of_step(stats->compress_ns, stats), share_of_step(stats->push_ns, stats),
		share_of_step(stats->wait_ns, stats), share_of_step(stats->pull_ns, stats),
		share_of_step(stats->apply_ns, stats));
}

/* Returns the parameters to measure, or NULL after a failure. */
static const float *measured(struct seat *seat)
{
	if (!seat->run->measured)
		return seat->x;
	return seat->run->measured(seat, seat->point) ? NULL : seat->point;
}

/* Each worker adds what its step moved; worker 0 measures now and then. */
static int follow(struct running *r, struct seat *seat, struct counters *before)
{
	const int measure = !seat->rank && (seat->step + 1) % r->run->curve_every == 0;
	sluice_model_stats stats = { .size = measure ?
						     sizeof stats :
						     offsetof(sluice_model_stats, residual_norm) };
	int rc = sluice_stats(seat->model, &stats);

	r->so_far.up_bytes += stats.pushed_bytes - before->up_bytes;
	r->so_far.down_bytes += stats.pulled_bytes - before->down_bytes;
	before->up_bytes = stats.pushed_bytes;
	before->down_bytes = stats.pulled_bytes;
	if (rc || !measure)
		return rc;
	const float *x = measured(seat);

	if (x)
		draw_point(r, x, &stats);
	return x ? 0 : -1;
}

/* ---- a worker -------------------------------------------------------------- */

static int train(struct running *r, struct seat *seat)
{
	struct counters before = { 0 };
	const struct run *run = seat->run;
	int rc = 0;

	for (seat->step = 0; seat->step < run->steps && !rc; seat->step++) {
		if (run->stop && seat->step >= *run->stop)
			break;
		if (run->decay > 0) {
			seat->lr = (float)((double)run->lr / (1 + (double)seat->step / run->decay));
			rc = sluice_set(seat->model, SLUICE_LR, seat->lr);
		}
		if (!rc)
			rc = run->step ? run->step(seat) : step_push_pull(seat);
		if (!rc && run->after)
			rc = run->after(seat);
		if (!rc && r->curve)
			rc = follow(r, seat, &before);
	}
	return rc;
}

static int collect(struct seat *seat, struct outcome *out)
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
		snprintf(out->recipe, sizeof out->recipe, "%s", sluice_recipe_text(seat->model));
		const float *x = measured(seat);

		if (!x)
			return -1;
		memcpy(out->x, x, seat->run->problem->count * sizeof *out->x);
	}
	return rc;
}

static int work(struct running *r, struct seat *seat)
{
	int rc = sluice_barrier(seat->job); /* from here on r->models is complete */

	seat->server = r->models[r->run->workers];
	if (!rc)
		rc = train(r, seat);
	return rc ? rc : collect(seat, r->out);
}

/* Only one rank runs at a time, so all may write to the same outcome. */
static int rank_main(sluice_job *job, void *context)
{
	struct running *r = context;
	const struct run *run = r->run;
	const size_t n = run->problem->count;
	struct seat seat = { .run = run,
			     .job = job,
			     .rank = sluice_rank(job),
			     .lr = run->lr,
			     .x = zeroed(n, sizeof(float)),
			     .grad = zeroed(n, sizeof(float)),
			     .point = run->measured ? zeroed(n, sizeof(float)) : NULL };
	const sluice_model_attr attr = { .size = sizeof attr,
					 .count = n,
					 .recipe = run->recipe,
					 .shards = run->shards ? run->shards : 1,
					 .lr = run->lr };

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
	free(seat.point);
	return rc;
}

int run_recipe(const struct run *run, struct outcome *out)
{
	const sluice_job_attr attr = { .size = sizeof attr, .servers = 1 };
	struct running r = { .run = run,
			     .out = out,
			     .start_ns = now_ns(),
			     .models = zeroed((size_t)run->workers + 1, sizeof *r.models) };

	*out = (struct outcome){ .x = zeroed(run->problem->count, sizeof *out->x) };
	out->offered = recipe_offered(run->recipe, out->why, sizeof out->why);
	if (run->curve && !(r.curve = fopen(run->curve, "w")))
		fprintf(stderr, "reproduce: cannot write %s\n", run->curve);
	int rc = out->offered ? sluice_simulate(&attr, run->workers + 1, rank_main, &r) :
				SLUICE_EINVAL;

	if (rc && !out->rc) {
		out->rc = rc;
		snprintf(out->why, sizeof out->why, "%s", sluice_last_error());
	}
	out->seconds = (double)(now_ns() - r.start_ns) / 1e9;
	if (r.curve)
		fclose(r.curve);
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
