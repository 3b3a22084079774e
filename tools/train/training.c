/* SPDX-License-Identifier: BSD-3-Clause
 * One rank's part of the training job, and the example of how a job uses Sluice: take_part() opens the model,
 * train() is the loop of one gradient, one push and one pull per step. Called by main.c. */
#include "tools/train/training.h"
#include "sluice.h"
#include "tools/train/agree.h"
#include "tools/train/metrics.h"
#include "tools/train/network.h"
#include "tools/train/order.h"
#include "tools/train/report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ALIGNMENT_BYTES = 64 };

/* The flag of sluice_raise() that asks all workers to stop after this step. */
enum { FLAG_STOP = 1 };

struct training {
	struct options options;
	struct rows *shared;             /* NULL: the rows are this rank's own */
	sluice_job *job;
	sluice_model *model;
	struct dataset train, test;
	struct network network;
	struct workspace *workspace;
	float *params, *grad;
	float *point, *before;           /* where a second gradient is taken, and that; NULL for most recipes */
	float lr;                        /* of this epoch */
	int averages;                    /* update=average: this worker's steps are its own */
	int async;                       /* when=async: workers meet at the ends of epochs only */
	uint32_t *part;                  /* signal=svrg: this worker's rows, for full gradients; else NULL */
	size_t part_rows;
	uint32_t *order;                 /* rows in the order of this epoch */
	uint64_t steps_per_epoch, steps; /* steps: of the whole job */
	uint64_t saved;                  /* step of the last checkpoint */
	int stopped;                     /* by a signal, at some rank */
	struct score score;              /* last measurement, over all workers */
	struct traffic total;            /* at the last measurement, over all workers */
	struct carried carried;          /* the same */
	uint64_t measured;               /* step of that */
	uint64_t digest;
	struct metrics metrics;
	struct report report;
};

/* ---- before training ---------------------------------------------------------------------- */

static void *new_vector(size_t count, size_t element_bytes)
{
	void *memory = NULL;

	return posix_memalign(&memory, ALIGNMENT_BYTES, count * element_bytes) ? NULL : memory;
}

static int check_demonstrations(const struct options *o, int workers, struct complaint *complaint)
{
	if (o->sleep_rank >= workers || o->nan_rank >= workers)
		return complain(complaint,
				"--%s names rank %lld, but the workers are ranks 0 to %d",
				o->sleep_rank >= workers ? "sleep" : "nan",
				(long long)(o->sleep_rank >= workers ? o->sleep_rank : o->nan_rank),
				workers - 1);
	return 0;
}

/* Simulated ranks load the rows once for all. */
static int load_rows(struct training *t, struct complaint *complaint)
{
	const struct options *o = &t->options;
	struct data_source source = {o->data, o->test, o->limit,
				     !sluice_is_worker(t->job) && !t->shared};

	if (!t->shared)
		return data_load(&source, t->network.task, &t->train, &t->test, complaint);
	if (!t->shared->loaded && data_load(&source, t->network.task, &t->shared->train,
					    &t->shared->test, complaint))
		return -1;
	t->shared->loaded = 1;
	t->train = t->shared->train;
	t->test = t->shared->test;
	return 0;
}

static void free_rows(struct training *t)
{
	if (t->shared)
		return;
	data_free(&t->train);
	data_free(&t->test);
}

/* Loads the data and makes everything that needs no peer. -1 with the complaint filled in. */
static int prepare(struct training *t, struct complaint *complaint)
{
	const struct options *o = &t->options;
	uint64_t rows_per_step = (uint64_t)sluice_workers(t->job) * o->batch;

	if (check_demonstrations(o, sluice_workers(t->job), complaint) ||
	    network_parse(&t->network, o->model, complaint) ||
	    load_rows(t, complaint) ||
	    network_shape(&t->network, t->train.features, t->train.classes, complaint))
		return -1;
	t->steps_per_epoch = t->train.rows / rows_per_step;
	t->steps = t->steps_per_epoch * o->epochs;
	if (!t->steps)
		return complain(
			complaint,
			"%zu training rows are too few for one step, which takes %llu (workers "
			"times --batch)",
			t->train.rows, (unsigned long long)rows_per_step);
	if (!sluice_is_worker(t->job)) {
		free_rows(t); /* a server needed the model's shape only */
		return 0;
	}
	t->params = new_vector(t->network.count, sizeof(*t->params));
	t->grad = new_vector(t->network.count, sizeof(*t->grad));
	t->order = new_vector(t->train.rows, sizeof(*t->order));
	t->workspace = workspace_new(&t->network, o->batch);
	if (!t->params || !t->grad || !t->order || !t->workspace)
		return complain_memory(complaint, "the model");
	network_init(&t->network, o->seed, t->params);
	t->metrics.measured = o->measure;
	if (o->metrics && sluice_rank(t->job) == 0)
		return metrics_open(&t->metrics, o->metrics, o->resume, complaint);
	return 0;
}

static int open_model(struct training *t)
{
	sluice_model_attr attr = {
		.size = sizeof(attr),
		.count = t->network.count,
		.tensors = t->network.tensor,
		.n_tensors = 2 * t->network.layers,
		.recipe = t->options.recipe,
		.shards = t->options.shards,
		.lr = t->options.lr,
		.steps_per_epoch = t->steps_per_epoch,
	};

	int rc = sluice_model_open(t->job, &attr, t->params, &t->model);

	return rc || !t->options.measure ? rc : sluice_measure(t->model, 1);
}

/* The rows of which this worker's full gradients are. */
static int take_rows(struct training *t)
{
	size_t rank = (size_t)sluice_rank(t->job), workers = (size_t)sluice_workers(t->job);
	size_t first = t->train.rows * rank / workers;

	t->part_rows = t->train.rows * (rank + 1) / workers - first;
	t->part = new_vector(t->part_rows, sizeof(*t->part));
	for (size_t i = 0; i < t->part_rows && t->part; i++)
		t->part[i] = (uint32_t)(first + i);
	return t->part != NULL;
}

/* A signal that looks back takes its gradient, or a second one, elsewhere than at params. */
static int prepare_signal(struct training *t, struct complaint *complaint)
{
	const char *recipe = sluice_recipe(t->model);
	int svrg = strstr(recipe, "signal=svrg") != NULL, igt = strstr(recipe, "signal=igt") != NULL;
	int pairs = svrg || strstr(recipe, "signal=storm") != NULL;

	if (!pairs && !igt)
		return 0;
	if (sluice_is_worker(t->job)) {
		t->point = new_vector(t->network.count, sizeof(*t->point));
		t->before = pairs ? new_vector(t->network.count, sizeof(*t->before)) : NULL;
		if (!t->point || (pairs && !t->before) || (svrg && !take_rows(t)))
			complain_memory(complaint, "the signal");
	}
	return agree_on_complaints(t->job, complaint);
}

/* A complete checkpoint is one that the file LATEST of its folder names; a job killed while it wrote its
 * very first one leaves none. */
static int has_checkpoint(const char *folder)
{
	char path[4096];

	return snprintf(path, sizeof(path), "%s/LATEST", folder) < (int)sizeof(path) &&
	       access(path, F_OK) == 0;
}

/* --resume: goes on from the checkpoint if rank 0 sees one, so that a job that Slurm starts again and
 * again has one command line. */
static int resume(struct training *t)
{
	double found = sluice_rank(t->job) == 0 && has_checkpoint(t->options.checkpoint);
	uint64_t step;
	int rc = sluice_sum(t->job, &found, 1);

	if (rc)
		return rc;
	if (found == 0) {
		if (sluice_rank(t->job) == 0 && !t->options.quiet)
			fprintf(stderr,
				"sluice-train: no checkpoint in %s yet: starting at step 0\n",
				t->options.checkpoint);
		return 0;
	}
	rc = sluice_restore(t->model, t->options.checkpoint, t->params, &step);
	if (!rc && sluice_rank(t->job) == 0 && !t->options.quiet)
		fprintf(stderr, "sluice-train: going on from step %llu of %llu, saved in %s\n",
			(unsigned long long)step, (unsigned long long)t->steps,
			t->options.checkpoint);
	t->saved = sluice_step(t->model);
	return rc;
}

/* ---- training ----------------------------------------------------------------------------- */

static int save(struct training *t)
{
	if (!t->options.checkpoint || t->saved == sluice_step(t->model))
		return 0;
	if (!sluice_in_sync(t->model)) {
		report_say(&t->report, "no checkpoint at step %llu: the workers hold models of their own",
			   (unsigned long long)sluice_step(t->model));
		return 0;
	}
	t->saved = sluice_step(t->model);
	return sluice_checkpoint(t->model, t->options.checkpoint);
}

/* Who speaks for all from now on. Collective. */
static int find_leader(struct training *t)
{
	int leader, living, rc = agree_on_leader(t->job, &leader, &living);

	if (!rc)
		report_leader(&t->report, leader == sluice_rank(t->job),
			      sluice_workers(t->job) - living);
	return rc;
}

/* Accuracy and loss on the test rows (without any: on the training rows) and the bytes so far: each
 * worker takes its share of the rows, and one sum brings them together. Shares of lost workers are
 * skipped: all figures are over what the living ones looked at. */
static int measure(struct training *t)
{
	const struct dataset *set = t->test.rows ? &t->test : &t->train;
	size_t rank = (size_t)sluice_rank(t->job), workers = (size_t)sluice_workers(t->job);
	struct score own = {0};
	struct traffic moved;
	struct carried carried;
	int rc = traffic_own(t->model, &moved);

	if (!rc)
		rc = carried_own(t->job, &carried);
	if (rc)
		return rc;
	network_evaluate(&t->network, t->workspace, t->params, set, set->rows * rank / workers,
			 set->rows * (rank + 1) / workers, &own);
	double sums[6 + CARRIERS] = {own.loss,	   own.correct,	 own.rows,
				     moved.pushed, moved.pulled, moved.dense};
	memcpy(sums + 6, carried.bytes, sizeof(carried.bytes));
	rc = sluice_sum(t->job, sums, 6 + CARRIERS);
	if (rc)
		return rc;
	memcpy(t->carried.bytes, sums + 6, sizeof(carried.bytes));
	t->score = (struct score){sums[0], sums[1], sums[2]};
	t->total = (struct traffic){sums[3], sums[4], sums[5]};
	t->measured = sluice_step(t->model);
	return find_leader(t);
}

/* --sleep and --nan */
static void disturb(struct training *t, uint64_t step)
{
	const struct options *o = &t->options;
	struct timespec pause = {
		.tv_sec = (time_t)o->sleep_seconds,
		.tv_nsec = (long)((o->sleep_seconds - floor(o->sleep_seconds)) * 1e9),
	};

	if (o->sleep_rank == sluice_rank(t->job) && o->sleep_step == step)
		while (clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, &pause) == EINTR)
			;
	if (o->nan_rank == sluice_rank(t->job) && o->nan_step == step)
		t->grad[t->network.count / 2] = NAN;
}

static int begin_epoch(struct training *t, uint64_t epoch)
{
	order_shuffle(t->order, t->train.rows, t->options.seed, epoch);
	t->lr = t->options.lr * powf(t->options.lr_decay, (float)epoch);
	return sluice_set_lr(t->model, t->lr);
}

/* What follows a step: checks, measurements, reports. */
static int after_step(struct training *t, uint64_t step, double loss)
{
	int epoch_ends = step % t->steps_per_epoch == 0;
	uint64_t epoch = (step - 1) / t->steps_per_epoch + 1;
	int rc = 0;

	if (t->options.digest && sluice_in_sync(t->model))
		rc = agree_on_digest(
			t->job, sluice_digest(t->params, t->network.count * sizeof(float)), step);
	if (!rc && epoch_ends)
		rc = measure(t);
	if (!rc && t->options.metrics && (epoch_ends || !t->async)) {
		struct metrics_step line = {
			.step = step,
			.epoch = epoch,
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
	report_step(&t->report, t->model, step, loss);
	if (epoch_ends)
		report_epoch(&t->report, &t->network, epoch, &t->score, &t->total);
	return 0;
}

/* One gradient, or two, or none, as the recipe wants it; and its push. *score stays where none is taken. */
static int push(struct training *t, const uint32_t *rows, uint64_t step, struct score *score)
{
	struct score unused;
	float *at = t->params;
	int rc;

	if (sluice_anchor_due(t->model)) {
		network_gradient(&t->network, t->workspace, t->params, &t->train, t->part, t->part_rows, t->grad,
				 score);
		disturb(t, step);
		return sluice_push(t->model, t->grad);
	}
	if (!sluice_wanted(t->model))
		return sluice_push(t->model, NULL);
	if (t->point && (rc = sluice_point(t->model, t->params, t->point)))
		return rc;
	if (t->point && !t->before)
		at = t->point; /* igt */
	network_gradient(&t->network, t->workspace, at, &t->train, rows, t->options.batch, t->grad, score);
	disturb(t, step);
	if (t->before) { /* storm, svrg */
		network_gradient(&t->network, t->workspace, t->point, &t->train, rows, t->options.batch,
				 t->before, &unused);
		return sluice_push_pair(t->model, t->grad, t->before);
	}
	if (!t->averages)
		return sluice_push(t->model, t->grad);
	for (size_t i = 0; i < t->network.count; i++)
		t->params[i] -= t->lr * t->grad[i];
	return sluice_push_params(t->model, t->params);
}

/* What the recipe asks of the job beside a gradient. */
static int prepare_steps(struct training *t)
{
	t->averages = strstr(sluice_recipe(t->model), "update=average") != NULL;
	t->async = strstr(sluice_recipe(t->model), "when=async") != NULL;
	return t->options.smoothness > 0 ? sluice_set_smoothness(t->model, t->options.smoothness) : 0;
}

/* Asynchronous workers agree on stopping where they meet, and go on from the newest parameters. */
static int meet(struct training *t)
{
	double asked = stop_was_asked();
	int rc = sluice_sum(t->job, &asked, 1);

	t->stopped = asked > 0;
	return rc ? rc : sluice_pull(t->model, t->params);
}

/* The loop: from sluice_step() to the last step, or until a signal asks to stop. */
static int train(struct training *t)
{
	uint64_t workers = (uint64_t)sluice_workers(t->job), batch = t->options.batch;
	uint64_t step = sluice_step(t->model), epoch = UINT64_MAX;
	struct score score = {0};
	int rc;

	while (step < t->steps && !t->stopped) {
		uint64_t in_epoch = step % t->steps_per_epoch;
		const uint32_t *rows;
		if (epoch != step / t->steps_per_epoch) {
			epoch = step / t->steps_per_epoch;
			if ((rc = begin_epoch(t, epoch)))
				return rc;
		}
		rows = t->order + (in_epoch * workers + (uint64_t)sluice_rank(t->job)) * batch;
		if (stop_was_asked() && !t->async)
			sluice_raise(t->model, FLAG_STOP);

		if ((rc = push(t, rows, step + 1, &score)))
			return rc;
		if ((rc = sluice_pull(t->model, t->params)))
			return rc;

		step = sluice_step(t->model);
		t->stopped = !!(sluice_raised(t->model) & FLAG_STOP); /* on all workers alike */
		if ((rc = after_step(t, step, score.rows > 0 ? score.loss / score.rows : 0)))
			return rc;
		if (t->async && step % t->steps_per_epoch == 0 && (rc = meet(t)))
			return rc;
		if (t->options.every && step % t->options.every == 0 && sluice_in_sync(t->model) &&
		    (rc = save(t)))
			return rc;
	}
	return save(t);
}

/* A worker's life after open. */
static int work(struct training *t)
{
	const struct options *o = &t->options;
	int rc, workers = sluice_workers(t->job);

	if (strstr(sluice_recipe(t->model), "update=none")) {
		if (sluice_rank(t->job) == 0)
			fputs("sluice-train: update=none leaves the step to the job, and sluice-train "
			      "has no optimizer of its own: use update=sgd, momentum(M) or "
			      "nesterov(M)\n", stderr);
		return -1;
	}
	if ((rc = prepare_steps(t)))
		return rc;
	if (t->async && o->checkpoint) {
		if (sluice_rank(t->job) == 0)
			fputs("sluice-train: --checkpoint is not possible with when=async, whose workers are "
			      "at no common step: leave it out, or choose another recipe\n", stderr);
		return -1;
	}
	if (o->resume && (rc = resume(t)))
		return rc;
	report_begin(&t->report, o, sluice_rank(t->job), sluice_step(t->model), t->steps,
		     t->steps_per_epoch, (double)workers * (double)o->batch);
	report_say(&t->report,
		   "%s with %zu parameters, %zu rows of %s, %d worker%s x %llu rows, %llu steps "
		   "per epoch; recipe %s",
		   o->model, t->network.count, t->train.rows, o->data, workers,
		   workers == 1 ? "" : "s", (unsigned long long)o->batch,
		   (unsigned long long)t->steps_per_epoch, sluice_recipe(t->model));
	if (t->test.dropped)
		report_say(&t->report,
			   "%llu values of the test set are dropped: their columns are not in the "
			   "training set",
			   (unsigned long long)t->test.dropped);
	if (t->async && (rc = sluice_pull(t->model, t->params))) /* all have prepared themselves */
		return rc;
	if ((rc = train(t)))
		return rc;
	if (t->stopped && sluice_step(t->model) < t->steps)
		return 0;
	t->stopped = 0; /* the signal came with the last step: nothing is left to do */
	if ((!t->measured || t->measured != sluice_step(t->model)) && (rc = measure(t)))
		return rc;
	t->digest = sluice_digest(t->params, t->network.count * sizeof(float));
	return sluice_in_sync(t->model) ? agree_on_digest(t->job, t->digest, sluice_step(t->model)) : 0;
}

/* The last line. 0, or -1 when the job did not end as it should. */
static int conclude(struct training *t)
{
	uint64_t step = sluice_step(t->model);
	int rc = find_leader(t);

	if (rc)
		return rc;
	if (!t->stopped) {
		report_carried(&t->report, &t->carried);
		rc = report_final(&t->report, step, &t->score, &t->total, t->digest);
	} else if (t->options.checkpoint) {
		report_say(&t->report,
			   "checkpoint written at step %llu; run with --resume to go on",
			   (unsigned long long)step);
		rc = report_interrupted(&t->report, step, t->options.checkpoint);
	} else {
		rc = -1;
		if (t->report.leads)
			fprintf(stderr,
				"%ssluice-train: stopped by a signal after step %llu; nothing was "
				"saved, "
				"because --checkpoint was not given\n",
				t->report.drawn ? "\n" : "", (unsigned long long)step);
	}
	return metrics_close(&t->metrics) ? -1 : rc;
}

static void free_training(struct training *t)
{
	metrics_close(&t->metrics);
	workspace_delete(&t->workspace);
	free(t->params);
	free(t->grad);
	free(t->point);
	free(t->before);
	free(t->order);
	free(t->part);
	free_rows(t);
}

int take_part(sluice_job *job, const struct options *options, struct rows *shared, int bad_usage,
	      struct complaint *complaint)
{
	struct training *t = calloc(1, sizeof(*t));
	int rc;

	/* A rank whose options or data are bad must not leave the others waiting: all hear of it. */
	if (!t && !bad_usage)
		complain_memory(complaint, "the training's state");
	else if (t) {
		t->options = *options;
		t->shared = shared;
		t->job = job;
	}
	if (t && !bad_usage)
		prepare(t, complaint);
	rc = agree_on_complaints(job, complaint);
	if (!t)
		return rc ? rc : -1;
	if (!rc)
		rc = open_model(t);
	if (!rc)
		rc = prepare_signal(t, complaint);
	if (!rc && sluice_is_worker(job)) {
		rc = work(t);
		if (!rc)
			rc = conclude(t);
	} else if (!rc) {
		rc = sluice_serve(t->model);
	}
	sluice_model_close(&t->model);
	free_training(t);
	free(t);
	return rc;
}
