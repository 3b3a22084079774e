/* SPDX-License-Identifier: BSD-3-Clause
 * One rank's part of the training job, and the example of a program that uses Sluice.
 * take_part() loads the data, opens the model and reports the result; steps.c has the loop of
 * steps. Called by main.c. */
#include "tools/train/training.h"
#include "sluice.h"
#include "tools/train/agree.h"
#include "tools/train/folder.h"
#include "tools/train/steps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- preparation ----------------------------------------------------------- */

/* Returns a vector of the model's length, in the memory where the model is trained, or NULL if
 * there is no memory. */
static float *new_vector(const struct training *t)
{
	void *memory;

	return t->compute.ops->alloc(t->compute.state, t->network.count * sizeof(float), &memory) ?
		       NULL :
		       memory;
}

/* Makes the parameters in host memory. */
static int first_params(struct training *t, struct complaint *complaint)
{
	float *here = t->compute.ops->in_host ?
			      t->params :
			      (t->params_here = malloc(t->network.count * sizeof(*here)));

	if (!here)
		return complain_memory(complaint, "the model");
	network_init(&t->network, t->options.seed, here);
	if (t->compute.ops->put(t->compute.state, t->params, here,
				t->network.count * sizeof(*here)))
		return complain(complaint, "%s", t->compute.ops->error());
	return 0;
}

static int check_moment(const char *option, int64_t rank, uint64_t step, const struct training *t,
			struct complaint *complaint)
{
	const int workers = sluice_workers(t->job);

	if (rank >= workers)
		return complain(complaint,
				"--%s names rank %lld, but the workers are ranks 0 to %d", option,
				(long long)rank, workers - 1);
	if (rank >= 0 && step > t->steps)
		return complain(complaint, "--%s names step %llu, but training has %llu steps",
				option, (unsigned long long)step, (unsigned long long)t->steps);
	return 0;
}

/* Simulated ranks share the rows, which the first of them loads. */
static int load_rows(struct training *t, struct complaint *complaint)
{
	const struct options *o = &t->options;
	struct data_source source = { o->data, o->test, o->limit,
				      !sluice_is_worker(t->job) && !t->shared };

	if (!t->shared)
		return data_load(&source, t->network.task, &t->train, &t->test, complaint);
	if (!t->shared->loaded &&
	    data_load(&source, t->network.task, &t->shared->train, &t->shared->test, complaint))
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

/* Loads the data and makes everything that needs no peer. Returns 0, or -1 with the complaint
 * filled in. */
static int prepare(struct training *t, struct complaint *complaint)
{
	const struct options *o = &t->options;
	uint64_t rows_per_step = (uint64_t)sluice_workers(t->job) * o->batch;

	if (sluice_is_worker(t->job) &&
	    compute_open(o->device, &t->compute, t->device, sizeof(t->device)))
		return complain(complaint, "%s", t->device);
	if ((o->checkpoint && folder_prepare(o->checkpoint, complaint)) ||
	    network_parse(&t->network, o->model, complaint) || load_rows(t, complaint) ||
	    network_shape(&t->network, t->train.features, t->train.classes, complaint))
		return -1;
	t->steps_per_epoch = t->train.rows / rows_per_step;
	t->steps = t->steps_per_epoch * o->epochs;
	if (!t->steps)
		return complain(
			complaint,
			"%zu training samples are too few for one step, which takes %llu (workers "
			"times --batch)",
			t->train.rows, (unsigned long long)rows_per_step);
	if (check_moment("sleep", o->sleep_rank, o->sleep_step, t, complaint) ||
	    check_moment("nan", o->nan_rank, o->nan_step, t, complaint))
		return -1;
	if (!sluice_is_worker(t->job)) {
		free_rows(t); /* a server needed only the model's shape */
		return 0;
	}
	t->params = new_vector(t);
	t->grad = o->accumulate ? NULL : new_vector(t);
	t->order = malloc(t->train.rows * sizeof(*t->order));
	t->workspace = workspace_new(&t->network, o->batch, &t->compute);
	if (!t->params || (!t->grad && !o->accumulate) || !t->order || !t->workspace)
		return complain_memory(complaint, "the model");
	if (first_params(t, complaint))
		return -1;
	t->metrics.measured = o->measure;
	if (o->metrics && sluice_rank(t->job) == 0)
		return metrics_open(&t->metrics, o->metrics, o->resume, complaint);
	return 0;
}

static sluice_model_attr attributes(const struct training *t)
{
	return (sluice_model_attr){
		.size = sizeof(sluice_model_attr),
		.count = t->network.count,
		.tensors = t->network.tensor,
		.n_tensors = t->network.tensors,
		.columns = t->network.columns,
		.recipe = t->options.recipe,
		.shards = t->options.shards,
		.lr = t->options.lr,
		.steps_per_epoch = t->steps_per_epoch,
		.stream = t->compute.ops ? t->compute.ops->stream(t->compute.state) : NULL,
	};
}

static int open_model(struct training *t)
{
	sluice_model_attr attr = attributes(t);
	int rc = sluice_model_open(t->job, &attr, t->params, &t->model);

	return rc || !t->options.measure ? rc : sluice_set(t->model, SLUICE_MEASURE, 1);
}

/* Chooses the rows over which this worker's full gradients are computed. */
static int take_rows(struct training *t)
{
	size_t rank = (size_t)sluice_rank(t->job), workers = (size_t)sluice_workers(t->job);
	size_t first = t->train.rows * rank / workers;

	t->part_rows = t->train.rows * (rank + 1) / workers - first;
	t->part = malloc(t->part_rows * sizeof(*t->part));
	for (size_t i = 0; i < t->part_rows && t->part; i++)
		t->part[i] = (uint32_t)(first + i);
	return t->part != NULL;
}

/* Allocates the vectors of a signal that needs gradients at another point than params. */
static int prepare_signal(struct training *t, struct complaint *complaint)
{
	const char *recipe = sluice_recipe_text(t->model);
	const enum inner_kind inner = t->options.inner;
	int svrg = strstr(recipe, "signal=svrg") != NULL,
	    igt = strstr(recipe, "signal=igt") != NULL;
	int pairs = svrg || strstr(recipe, "signal=storm") != NULL;

	t->drifts = strstr(recipe, "signal=drift") != NULL;
	t->alone = t->drifts || strstr(recipe, "update=average") != NULL;
	if (!pairs && !igt && !t->alone)
		return 0;
	if (sluice_is_worker(t->job)) {
		t->point = pairs || igt ? new_vector(t) : NULL;
		t->before = pairs ? new_vector(t) : NULL;
		t->common = t->drifts ? new_vector(t) : NULL;
		if (((pairs || igt) && !t->point) || (pairs && !t->before) ||
		    (svrg && !take_rows(t)) || (t->drifts && !t->common))
			complain_memory(complaint, "the signal");
		if (t->alone && inner_open(&t->inner, inner == INNER_NONE ? INNER_SGD : inner,
					   t->network.count, INNER_BETA1, INNER_BETA2))
			complain_memory(complaint, "the workers' optimizer");
	}
	return agree_on_complaints(t->job, complaint);
}

/* LATEST in a checkpoint directory names the complete checkpoint. A job that was killed while it
 * wrote its first checkpoint leaves no LATEST. */
static int has_checkpoint(const char *folder)
{
	char path[4096];

	return snprintf(path, sizeof(path), "%s/LATEST", folder) < (int)sizeof(path) &&
	       access(path, F_OK) == 0;
}

/* For --resume: continues from the checkpoint if rank 0 finds one, so that Slurm can start a job
 * again with the same command line. */
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
	if (!rc && sluice_rank(t->job) == 0 && step > t->steps)
		fprintf(stderr,
			"sluice-train: the checkpoint in %s is of step %llu, but these options end "
			"at step %llu: nothing is left to train; give more --epochs or another "
			"--checkpoint\n",
			t->options.checkpoint, (unsigned long long)step,
			(unsigned long long)t->steps);
	else if (!rc && sluice_rank(t->job) == 0 && !t->options.quiet)
		fprintf(stderr, "sluice-train: continuing from step %llu of %llu, saved in %s\n",
			(unsigned long long)step, (unsigned long long)t->steps,
			t->options.checkpoint);
	t->saved = step_of(t->model).steps;
	return rc;
}

/* ---- a worker's part ------------------------------------------------------- */

/* Derives from the recipe how a step is made. */
static int prepare_steps(struct training *t)
{
	const enum inner_kind inner = t->options.inner;

	if (inner != INNER_NONE && !t->alone) {
		if (sluice_rank(t->job) == 0)
			fputs("sluice-train: --inner needs a recipe whose workers train by "
			      "themselves, such as diloco: signal=drift, or update=average\n",
			      stderr);
		return -1;
	}
	t->async = strstr(sluice_recipe_text(t->model), "when=async") != NULL;
	if (strstr(sluice_recipe_text(t->model), " quorum="))
		t->quorum = strtoull(strstr(sluice_recipe_text(t->model), "when=every(") +
					     strlen("when=every("),
				     NULL, 10);
	return t->options.smoothness > 0 ?
		       sluice_set(t->model, SLUICE_SMOOTHNESS, t->options.smoothness) :
		       0;
}

/* Does a worker's part after the model was opened. */
static int work(struct training *t)
{
	const struct options *o = &t->options;
	int rc, workers = sluice_workers(t->job);

	if (strstr(sluice_recipe_text(t->model), "update=none")) {
		if (sluice_rank(t->job) == 0)
			fputs("sluice-train: update=none leaves the step to the job, and "
			      "sluice-train has no optimizer of its own: use update=sgd, "
			      "momentum(M), nesterov(M) or adamw(BETA1,BETA2,EPS,DECAY)\n",
			      stderr);
		return -1;
	}
	if ((rc = prepare_steps(t)))
		return rc;
	if (t->async && o->checkpoint) {
		if (sluice_rank(t->job) == 0)
			fputs("sluice-train: --checkpoint is not possible with when=async, whose "
			      "workers have no common step: leave it out, or choose another "
			      "recipe\n",
			      stderr);
		return -1;
	}
	if (o->resume && (rc = resume(t)))
		return rc;
	report_begin(&t->report, o, sluice_rank(t->job), step_of(t->model).steps, t->steps,
		     t->steps_per_epoch, (double)workers * (double)o->batch);
	/* The words before the defaults; --plan prints all. */
	const char *recipe = sluice_recipe_text(t->model), *rest = strstr(recipe, " warmup=");
	report_say(&t->report,
		   "%s, %zu parameters, %zu samples, %d worker%s x %llu, %llu steps per epoch; "
		   "%.*s",
		   o->model, t->network.count, t->train.rows, workers, workers == 1 ? "" : "s",
		   (unsigned long long)o->batch, (unsigned long long)t->steps_per_epoch,
		   (int)(rest ? (size_t)(rest - recipe) : strlen(recipe)), recipe);
	if (!t->compute.ops->in_host)
		report_say(&t->report, "rank %d trains on %s", sluice_rank(t->job), t->device);
	if (t->test.dropped)
		report_say(&t->report,
			   "%llu values of the test set are dropped: their columns are not in the "
			   "training set",
			   (unsigned long long)t->test.dropped);
	if (t->async && (rc = sluice_pull(t->model, t->params))) /* all workers are prepared */
		return rc;
	if (!step_of(t->model).steps) {
		if ((rc = measure(t)))
			return rc;
		t->first_loss = t->score.loss / t->score.rows;
	}
	if ((rc = train(t)))
		return rc;
	if (t->stopped && batches_done(t) < t->steps)
		return 0;
	t->stopped = 0; /* the signal came with the last step, so nothing is left to do */
	if ((!t->measured || t->measured != step_of(t->model).steps) && (rc = measure(t)))
		return rc;
	if ((rc = digest_params(t, &t->digest)))
		return rc;
	if (t->quorum && step_of(t->model).steps % t->quorum)
		return 0; /* the workers may hold the parameters of different exchanges */
	return t->drifts || step_of(t->model).in_sync ?
		       agree_on_digest(t->job, t->digest, step_of(t->model).steps) :
		       0;
}

/* Returns 1 if training made the model worse than no training, by more than rounding and chance. */
static int has_diverged(const struct training *t)
{
	const double loss = t->score.loss / t->score.rows;

	return !isfinite(loss) || (t->first_loss > 0 && loss > 1.01 * t->first_loss);
}

/* Called after the last line. Every worker returns -1, and only one of them prints the reason. */
static int report_diverged(const struct training *t)
{
	if (t->report.leads)
		fprintf(stderr,
			"sluice-train: the training diverged: the loss is %.6g after %llu steps "
			"and "
			"was %.6g before the first; lower --lr, which a sparse recipe divides by "
			"its "
			"density, send more coordinates, or give the recipe a warmup= "
			"(sluice_recipe(7), CHOOSING)\n",
			t->score.loss / t->score.rows, (unsigned long long)step_of(t->model).steps,
			t->first_loss);
	return -1;
}

/* Prints the last line. Returns 0, or -1 if the training failed, diverged, or was stopped without a
 * checkpoint. */
static int conclude(struct training *t)
{
	uint64_t step = step_of(t->model).steps;
	int rc = find_leader(t);

	if (rc)
		return rc;
	if (t->left_out)
		report_say(&t->report,
			   "batches left out, because a gradient had NaN or infinity "
			   "(nonfinite=skip-all): %llu",
			   (unsigned long long)t->left_out);
	if (!t->stopped) {
		report_carried(&t->report, &t->carried);
		rc = report_final(&t->report, step, &t->score, &t->total, t->digest);
		if (!rc && has_diverged(t))
			rc = report_diverged(t);
	} else if (t->options.checkpoint) {
		report_say(&t->report,
			   "checkpoint written at step %llu; run with --resume to continue",
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
	float *const vectors[] = { t->params, t->grad, t->point, t->before, t->common };

	metrics_close(&t->metrics);
	workspace_delete(&t->workspace);
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors) && t->compute.ops; i++)
		t->compute.ops->release(t->compute.state, vectors[i]);
	compute_close(&t->compute);
	inner_close(&t->inner);
	free(t->params_here);
	free(t->order);
	free(t->part);
	free_rows(t);
}

/* For --plan: rank 0 prints the plan, which is the same on all ranks. */
static int print_plan(const struct training *t, struct complaint *complaint)
{
	const sluice_model_attr attr = attributes(t);
	const int workers = sluice_workers(t->job), servers = sluice_size(t->job) - workers;
	char *text = NULL;

	if (!sluice_rank(t->job)) {
		const int length = sluice_plan(&attr, workers, servers, SLUICE_PLAN_TEXT, NULL, 0);

		if (length < 0)
			complain(complaint, "--plan: %s", sluice_last_error());
		else if (!(text = malloc((size_t)length + 1)))
			complain_memory(complaint, "the plan");
		else
			sluice_plan(&attr, workers, servers, SLUICE_PLAN_TEXT, text,
				    (size_t)length + 1);
	}
	if (text && (fputs(text, stdout) < 0 || fflush(stdout)))
		complain(complaint, "--plan: the plan could not be written");
	free(text);
	return agree_on_complaints(t->job, complaint);
}

static int run(struct training *t, struct complaint *complaint)
{
	int rc = open_model(t);

	if (!rc)
		rc = prepare_signal(t, complaint);
	if (!rc && !sluice_is_worker(t->job))
		return sluice_serve(t->model);
	if (!rc)
		rc = work(t);
	return rc ? rc : conclude(t);
}

int take_part(sluice_job *job, const struct options *options, struct rows *shared, int bad_usage,
	      struct complaint *complaint)
{
	struct training *t = calloc(1, sizeof(*t));
	int rc;

	/* Other ranks must not wait for a rank with bad options or data, so all ranks exchange the
	 * result. */
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
		rc = options->plan ? print_plan(t, complaint) : run(t, complaint);
	sluice_model_close(&t->model);
	free_training(t);
	free(t);
	return rc;
}
