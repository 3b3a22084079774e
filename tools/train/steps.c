/* SPDX-License-Identifier: BSD-3-Clause
 * An example of how a job uses Sluice: train() is the loop of one gradient, one push and one pull
 * per step. Called by training.c. */
#include "tools/train/steps.h"
#include "sluice_vector.h"
#include "tools/train/agree.h"
#include "tools/train/order.h"
#include "tools/train/signals.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The flag of sluice_raise() by which a worker stops all workers after this step. */
enum { FLAG_STOP = 1 };

/* Reports a failed operation of compute. */
static int failed(const struct training *t)
{
	fprintf(stderr, "sluice-train: rank %d: %s\n", sluice_rank(t->job),
		t->compute.ops->error());
	return -1;
}

/* The parameters to measure: with signal=drift the common ones, else this worker's. */
static int measured_params(struct training *t, const float **out)
{
	*out = t->drifts ? t->common : t->params;
	return t->drifts ? sluice_point(t->model, t->params, t->common) : 0;
}

/* Returns 1 if all workers have the parameters of measured_params(), and can save now. */
static int is_common(const struct training *t)
{
	return t->drifts || step_of(t->model).in_sync;
}

int digest_params(struct training *t, uint64_t *digest_out)
{
	const size_t bytes = t->network.count * sizeof(float);
	const float *params;
	int rc = measured_params(t, &params);

	if (rc)
		return rc;
	if (t->params_here && t->compute.ops->get(t->compute.state, t->params_here, params, bytes))
		return failed(t);
	*digest_out = sluice_digest(t->params_here ? t->params_here : params, bytes);
	return 0;
}

static int save(struct training *t)
{
	if (!t->options.checkpoint || t->saved == step_of(t->model).steps)
		return 0;
	if (!is_common(t)) {
		report_say(&t->report,
			   "no checkpoint at step %llu: the workers have different models",
			   (unsigned long long)step_of(t->model).steps);
		return 0;
	}
	t->saved = step_of(t->model).steps;
	return sluice_checkpoint(t->model, t->options.checkpoint);
}

int find_leader(struct training *t)
{
	int leader, living, rc = agree_on_leader(t->job, &leader, &living);

	if (!rc)
		report_leader(&t->report, leader == sluice_rank(t->job),
			      sluice_workers(t->job) - living);
	return rc;
}

/* Measures accuracy and loss on the test rows, or on the training rows if there are none, and the
 * bytes so far. Each worker handles its share of the rows, and one sum adds the shares. Without the
 * shares of lost workers, the figures are over fewer rows. */
int measure(struct training *t)
{
	const struct dataset *set = t->test.rows ? &t->test : &t->train;
	size_t rank = (size_t)sluice_rank(t->job), workers = (size_t)sluice_workers(t->job);
	struct score own = { 0 };
	struct traffic moved;
	struct carried carried;
	const float *params;
	int rc = traffic_own(t->model, &moved);

	if (!rc)
		rc = carried_own(t->job, &carried);
	if (!rc)
		rc = measured_params(t, &params);
	if (rc)
		return rc;
	if (network_evaluate(&t->network, t->workspace, params, set, set->rows * rank / workers,
			     set->rows * (rank + 1) / workers, &own))
		return failed(t);
	double sums[3 + TRAFFIC_SUMS + CARRIERS] = { own.loss, own.correct, own.rows };
	memcpy(sums + 3, &moved, sizeof(moved));
	memcpy(sums + 3 + TRAFFIC_SUMS, carried.bytes, sizeof(carried.bytes));
	rc = sluice_sum(t->job, sums, 3 + TRAFFIC_SUMS + CARRIERS);
	if (rc)
		return rc;
	t->score = (struct score){ sums[0], sums[1], sums[2] };
	memcpy(&t->total, sums + 3, sizeof(t->total));
	memcpy(t->carried.bytes, sums + 3 + TRAFFIC_SUMS, sizeof(carried.bytes));
	t->measured = step_of(t->model).steps;
	return find_leader(t);
}

/* Applies --sleep and --nan. grad is the gradient to be pushed. */
static int disturb(struct training *t, float *grad, uint64_t batch)
{
	const struct options *o = &t->options;
	struct timespec pause = {
		.tv_sec = (time_t)o->sleep_seconds,
		.tv_nsec = (long)((o->sleep_seconds - floor(o->sleep_seconds)) * 1e9),
	};

	if (o->sleep_rank == sluice_rank(t->job) && o->sleep_step == batch)
		while (clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, &pause) == EINTR)
			;
	if (o->nan_rank == sluice_rank(t->job) && o->nan_step == batch &&
	    t->compute.ops->put(t->compute.state, grad + t->network.count / 2, &(float){ NAN },
				sizeof(float)))
		return failed(t);
	return 0;
}

static int begin_epoch(struct training *t, uint64_t epoch)
{
	order_shuffle(t->order, t->train.rows, t->options.seed, epoch);
	t->lr = t->options.lr * powf(t->options.lr_decay, (float)epoch);
	return t->drifts ? 0 : sluice_set(t->model, SLUICE_LR, t->lr);
}

/* Returns 1 if workers are in different steps, and meet only at the ends of epochs. */
static int meets(const struct training *t)
{
	return t->async || t->quorum;
}

int pull_newest(struct training *t)
{
	if (t->quorum && step_of(t->model).steps % t->quorum)
		return 0;
	return sluice_pull(t->model, t->params);
}

/* The workers agree at the end of an epoch whether to stop, and continue from the newest
 * parameters. With a quorum these come only after an exchange. */
static int meet(struct training *t)
{
	double asked = stop_was_asked();
	int rc = sluice_sum(t->job, &asked, 1);

	t->stopped = asked > 0;
	return rc ? rc : pull_newest(t);
}

/* Runs the checks, measurements and reports after a batch. skipped: the batch made no step. */
static int after_batch(struct training *t, uint64_t batch, int skipped, double loss)
{
	const uint64_t step = step_of(t->model).steps;
	int epoch_ends = batch % t->steps_per_epoch == 0;
	uint64_t epoch = (batch - 1) / t->steps_per_epoch + 1;
	int rc = 0;

	if (epoch_ends && t->quorum && (rc = meet(t)))
		return rc;
	if (t->options.digest && !t->quorum && is_common(t)) {
		uint64_t digest;

		rc = digest_params(t, &digest);
		if (!rc)
			rc = agree_on_digest(t->job, digest, step);
	}
	if (!rc && epoch_ends)
		rc = measure(t);
	if (!rc && t->options.metrics && (epoch_ends || !meets(t))) {
		struct metrics_step line = {
			.step = step,
			.epoch = epoch,
			.skipped = skipped,
			.lr = t->options.lr * powf(t->options.lr_decay, (float)(epoch - 1)),
			.loss = loss,
			.images = t->report.images_per_step,
			.seconds = report_clock() - t->report.began,
			.test = epoch_ends ? &t->score : NULL,
		};

		rc = metrics_write(&t->metrics, t->job, t->model, &line);
	}
	if (rc)
		return rc;
	if (!skipped)
		report_step(&t->report, t->model, batch, loss);
	if (epoch_ends)
		report_epoch(&t->report, &t->network, epoch, &t->score, &t->total);
	return 0;
}

static int gradient(struct training *t, const float *at, const uint32_t *rows, size_t n,
		    float *grad, struct score *score)
{
	return network_gradient(&t->network, t->workspace, at, &t->train, rows, n, grad, score) ?
		       failed(t) :
		       0;
}

/* For --accumulate: back-propagation adds to the residual, and there is no other vector. */
static int push_accumulated(struct training *t, const uint32_t *rows, uint64_t batch,
			    struct score *score)
{
	float *sum, scale;
	int rc = sluice_accumulator(t->model, &sum, &scale);

	if (!rc && network_add_gradient(&t->network, t->workspace, t->params, &t->train, rows,
					t->options.batch, scale, sum, score))
		rc = failed(t);
	if (!rc)
		rc = disturb(t, sum, batch);
	return rc ? rc : sluice_push(t->model, sum);
}

/* Computes as many gradients as the recipe needs (one, two or none), and pushes them. Without a
 * gradient, *score is unchanged. */
static int push(struct training *t, const uint32_t *rows, uint64_t batch, struct score *score)
{
	struct score unused;
	float *at = t->params;
	int rc;

	if (t->options.accumulate)
		return push_accumulated(t, rows, batch, score);
	if (step_of(t->model).anchor_due) {
		rc = gradient(t, t->params, t->part, t->part_rows, t->grad, score);
		if (rc || (rc = disturb(t, t->grad, batch)))
			return rc;
		return sluice_push(t->model, t->grad);
	}
	if (!step_of(t->model).wanted)
		return sluice_push(t->model, NULL);
	if (t->point && (rc = sluice_point(t->model, t->params, t->point)))
		return rc;
	if (t->point && !t->before)
		at = t->point; /* igt */
	rc = gradient(t, at, rows, t->options.batch, t->grad, score);
	if (rc || (rc = disturb(t, t->grad, batch)))
		return rc;
	if (t->before) { /* storm, svrg */
		if ((rc = gradient(t, t->point, rows, t->options.batch, t->before, &unused)))
			return rc;
		return sluice_push_pair(t->model, t->grad, t->before);
	}
	if (!t->alone)
		return sluice_push(t->model, t->grad);
	if (inner_step(&t->inner, &t->compute, t->params, t->grad, t->lr))
		return failed(t);
	return sluice_push(t->model, t->params);
}

uint64_t batches_done(const struct training *t)
{
	return step_of(t->model).steps + t->left_out;
}

/* Trains from the first missing step to the last, or until a signal requests a stop. With
 * nonfinite=skip-all it passes over a batch that all workers left out. */
int train(struct training *t)
{
	uint64_t workers = (uint64_t)sluice_workers(t->job), rows_of_one = t->options.batch;
	uint64_t done = batches_done(t), epoch = UINT64_MAX;
	struct score score = { 0 };
	int rc;

	while (done < t->steps && !t->stopped) {
		uint64_t in_epoch = done % t->steps_per_epoch;
		const uint32_t *rows;
		int skipped;
		if (epoch != done / t->steps_per_epoch) {
			epoch = done / t->steps_per_epoch;
			if ((rc = begin_epoch(t, epoch)))
				return rc;
		}
		rows = t->order +
		       (in_epoch * workers + (uint64_t)sluice_rank(t->job)) * rows_of_one;
		if (stop_was_asked() && !meets(t))
			sluice_raise(t->model, FLAG_STOP);

		if ((rc = push(t, rows, done + 1, &score)))
			return rc;
		if ((rc = sluice_pull(t->model, t->params)))
			return rc;

		skipped = step_of(t->model).skipped;
		t->left_out += skipped != 0;
		done = batches_done(t);
		t->stopped = !!(step_of(t->model).raised & FLAG_STOP); /* the same on all workers */
		if ((rc = after_batch(t, done, skipped,
				      score.rows > 0 ? score.loss / score.rows : 0)))
			return rc;
		if (t->async && done % t->steps_per_epoch == 0 && (rc = meet(t)))
			return rc;
		if (t->options.every && step_of(t->model).steps % t->options.every == 0 &&
		    is_common(t) && (rc = save(t)))
			return rc;
	}
	return save(t);
}
