/* SPDX-License-Identifier: BSD-3-Clause
 * All workers start each step together, after a barrier outside of the measured time, so that the
 * time excludes waiting for a rank that is slow to make its gradient. */
#include "tools/bench/step.h"
#include "base/clock.h"
#include "tools/bench/axes.h"
#include "tools/bench/gpu_vectors.h"
#include "tools/bench/samples.h"
#include "tools/bench/select_data.h"
#include "tools/bench/step_limits.h"
#include "tools/bench/step_memory.h"
#include "tools/bench/timeline.h"
#include "tools/json.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each step takes its gradient from a different part of one pool, so the values are new but cost no
 * time. */
enum {
	SHIFTS = 64,
	SHIFT = 16,
	LEAST_STEPS = 10,
	MOST_STEPS = 100000,
	TRANSPORTS_MAX = 8,
	MEBI = 1 << 20
};

/* ---- steps ----------------------------------------------------------------- */

struct bench {
	const struct options *options;
	sluice_job *job;
	sluice_model *model;
	float *params, *pool;         /* vectors that are passed to the library */
	float *pool_here;             /* the pool in host memory */
	const struct device_ops *gpu; /* with --device cuda: the GPU with the next two; otherwise
					 NULL */
	struct memory gpu_params, gpu_pool;
	char device[256];
	const struct axes *axes; /* NULL without --axes */
	struct axes_point at;
	double copy_ms; /* with --axes: time of a copy of the gradient on the GPU */
	struct samples ms;
	struct step_limits limits; /* with --limit */
	struct timeline *timeline; /* with --timeline; otherwise NULL */
	struct resident before_open;
	struct step_memory memory;
	sluice_model_stats before, after;
	sluice_transport_stats moved[TRANSPORTS_MAX]; /* traffic in the measured steps */
	size_t n_transports;
};

/* Adds the gradient to the residual, as a back-propagation that accumulates does. */
static int accumulate(struct bench *b, const float **gradient)
{
	float *sum, scale;
	int rc = sluice_accumulator(b->model, &sum, &scale);

	if (rc)
		return rc;
	for (uint64_t i = 0; i < b->options->count; i++)
		sum[i] += scale * (*gradient)[i];
	*gradient = sum;
	return 0;
}

static int one_step(struct bench *b, uint64_t step, double *ms_out)
{
	const float *gradient = b->pool + step % SHIFTS * SHIFT;
	int rc = b->options->accumulate ? accumulate(b, &gradient) : 0;

	if (!rc)
		rc = sluice_barrier(b->job);
	uint64_t began = now_ns();

	if (!rc)
		rc = sluice_push(b->model, gradient);
	if (!rc)
		rc = sluice_pull(b->model, b->params);
	const uint64_t ended = now_ns();

	if (b->timeline)
		timeline_step(b->timeline, began, ended);
	*ms_out = (double)(ended - began) * 1e-6;
	return rc;
}

static int look(struct bench *b, sluice_model_stats *stats, sluice_transport_stats *moved)
{
	int rc;

	memset(stats, 0, sizeof(*stats));
	stats->size = offsetof(sluice_model_stats, residual_norm);
	moved[0].size = sizeof(moved[0]);
	rc = sluice_stats(b->model, stats);
	return rc ? rc : sluice_transports(b->job, moved, TRANSPORTS_MAX, &b->n_transports);
}

/* Subtracts `before`, times the given number, from each counter of `after`. */
static void subtract(sluice_transport_stats *after, const sluice_transport_stats *before,
		     uint64_t times)
{
	after->puts -= times * before->puts;
	after->put_bytes -= times * before->put_bytes;
	after->notifies -= times * before->notifies;
	after->gets -= times * before->gets;
	after->get_bytes -= times * before->get_bytes;
}

/* Measures the bytes of one barrier. The counters also include the barrier before each step, which
 * is not part of the step. */
static int barrier_alone(struct bench *b, sluice_transport_stats *barrier)
{
	sluice_transport_stats start[TRANSPORTS_MAX];
	int rc = sluice_barrier(b->job);

	if (!rc)
		rc = look(b, &b->before, start);
	if (!rc)
		rc = sluice_barrier(b->job);
	if (!rc)
		rc = look(b, &b->before, barrier);
	for (size_t t = 0; t < b->n_transports && t < TRANSPORTS_MAX && !rc; t++)
		subtract(&barrier[t], &start[t], 1);
	return rc;
}

/* Begins to record the time line on all workers, or on none. */
static int with_timeline(struct bench *b)
{
	double lacking;
	int rc;

	b->timeline = timeline_open(b->model);
	lacking = !b->timeline;
	rc = sluice_sum(b->job, &lacking, 1);
	return rc || !(lacking > 0) ? rc : SLUICE_ENOMEM;
}

static int measure(struct bench *b)
{
	const struct options *o = b->options;
	sluice_transport_stats start[TRANSPORTS_MAX], barrier[TRANSPORTS_MAX];
	uint64_t step = 0;
	double ms = 0, worst = 0, steps;
	int rc = 0;

	for (; step < o->warmup && !rc; step++) {
		rc = one_step(b, step, &ms);
		worst += ms;
	}
	/* Rank 0 decides the number of steps; the others add 0 to the sum. */
	steps = o->repeat  ? (double)o->repeat :
		!o->warmup ? LEAST_STEPS :
			     floor(o->seconds * 1e3 / (worst / (double)o->warmup));
	if (!o->repeat)
		steps = steps < LEAST_STEPS ? LEAST_STEPS : steps > MOST_STEPS ? MOST_STEPS : steps;
	if (sluice_rank(b->job) != 0)
		steps = 0;
	if (!rc)
		rc = sluice_sum(b->job, &steps, 1);
	if (!rc && samples_open(&b->ms, (size_t)steps))
		rc = SLUICE_ENOMEM;
	if (!rc && o->limit && step_limits_open(&b->limits, o->count, (uint64_t)steps))
		rc = SLUICE_ENOMEM;
	if (!rc && o->timeline)
		rc = with_timeline(b);
	if (!rc)
		rc = barrier_alone(b, barrier);
	if (!rc)
		rc = look(b, &b->before, start);
	for (uint64_t i = 0; i < (uint64_t)steps && !rc; i++, step++) {
		rc = one_step(b, step, &ms);
		samples_add(&b->ms, ms);
		if (o->limit)
			step_limits_measure(&b->limits, b->pool_here + step % SHIFTS * SHIFT);
	}
	if (!rc)
		rc = look(b, &b->after, b->moved);
	for (size_t t = 0; t < b->n_transports && t < TRANSPORTS_MAX && !rc; t++) {
		subtract(&b->moved[t], &start[t], 1);
		subtract(&b->moved[t], &barrier[t], (uint64_t)steps);
	}
	return rc;
}

/* ---- output ---------------------------------------------------------------- */

static const char *const limit_names[LIMITS] = { "read", "copy", "add" };
enum { COMPRESS, PUSH, WAIT, DEVICE, PULL, APPLY, PUSHED, PULLED, DENSE, UP, DOWN, SUMS };

/* Computes sums and divides them by the number of workers and steps. */
static int sums(struct bench *b, double s[SUMS])
{
	const sluice_model_stats *x = &b->before, *y = &b->after;
	double per = (double)sluice_workers(b->job) * (double)b->ms.n;
	int rc;

	s[COMPRESS] = (double)(y->compress_ns - x->compress_ns) * 1e-6;
	s[PUSH] = (double)(y->push_ns - x->push_ns) * 1e-6;
	s[WAIT] = (double)(y->wait_ns - x->wait_ns) * 1e-6;
	s[DEVICE] = (double)(y->device_ns - x->device_ns) * 1e-6;
	s[PULL] = (double)(y->pull_ns - x->pull_ns) * 1e-6;
	s[APPLY] = (double)(y->apply_ns - x->apply_ns) * 1e-6;
	s[PUSHED] = (double)(y->pushed_bytes - x->pushed_bytes);
	s[PULLED] = (double)(y->pulled_bytes - x->pulled_bytes);
	s[DENSE] = (double)(y->dense_bytes - x->dense_bytes);
	s[UP] = (double)(y->pushed_elements - x->pushed_elements) / (double)b->options->count;
	s[DOWN] = (double)(y->pulled_elements - x->pulled_elements) / (double)b->options->count;
	rc = sluice_sum(b->job, s, SUMS);
	for (int i = 0; i < SUMS; i++)
		s[i] /= per;
	return rc;
}

static void print_json(struct bench *b, const double s[SUMS], struct summary ms)
{
	static const char *const names[SUMS] = { "compress_ms",  "push_ms",      "wait_ms",
						 "device_ms",    "pull_ms",      "apply_ms",
						 "pushed_bytes", "pulled_bytes", "dense_bytes",
						 "density_up",   "density_down" };

	printf("{\"tool\":\"sluice-bench\",\"version\":");
	json_text(stdout, sluice_version(NULL));
	printf(",\"test\":\"step\",\"workers\":%d,\"servers\":%d,\"count\":%llu,\"gradient\":\"%"
	       "s\",\"device\":",
	       sluice_workers(b->job), sluice_size(b->job) - sluice_workers(b->job),
	       (unsigned long long)b->options->count, distribution_name(b->options->gradient));
	json_text(stdout, b->gpu ? b->device : "cpu");
	printf(",\"accumulate\":%s,\"recipe\":", b->options->accumulate ? "true" : "false");
	json_text(stdout, sluice_recipe_text(b->model));
	printf(",\"steps\":%zu,\"ms_p50\":", ms.n);
	json_number(stdout, ms.p50);
	printf(",\"ms_p99\":");
	json_number(stdout, ms.p99);
	printf(",\"ms_max\":");
	json_number(stdout, ms.max);
	for (int i = 0; i < SUMS; i++) {
		printf(",\"%s\":", names[i]);
		json_number(stdout, s[i]);
	}
	for (int i = 0; b->options->limit && i < LIMITS; i++) {
		printf(",\"limit_%s_ms\":", limit_names[i]);
		json_number(stdout, samples_summary(&b->limits.ms[i]).p50);
	}
	printf(",\"break_even_bytes_per_second\":");
	json_number(stdout, step_break_even(ms.p50, s[PUSHED] + s[PULLED], s[DENSE]));
	printf(",\"transports\":[");
	for (size_t t = 0; t < b->n_transports && t < TRANSPORTS_MAX; t++)
		printf("%s{\"name\":\"%s\",\"puts\":%llu,\"put_bytes\":%llu,\"notifies\":%llu,"
		       "\"gets\":%llu,\"get_bytes\":%llu}",
		       t ? "," : "", b->moved[t].name, (unsigned long long)b->moved[t].puts,
		       (unsigned long long)b->moved[t].put_bytes,
		       (unsigned long long)b->moved[t].notifies,
		       (unsigned long long)b->moved[t].gets,
		       (unsigned long long)b->moved[t].get_bytes);
	printf("],\"memory_bytes\":");
	json_number(stdout, b->memory.announced);
	printf(",\"resident_bytes\":");
	json_number(stdout, b->memory.resident);
	printf(",\"resident_region_bytes\":");
	json_number(stdout, b->memory.regions);
	printf(",\"resident_share_max\":");
	json_number(stdout, b->memory.fullest);
}

/* Prints each pass over a vector of that length, with the step and its largest part as multiples of
 * it. */
static void print_limits(struct bench *b, const double s[SUMS], struct summary ms)
{
	double win = step_break_even(ms.p50, s[PUSHED] + s[PULLED], s[DENSE]);

	printf("limits, all workers together, %.1f MB:", 4e-6 * (double)b->options->count);
	for (int i = 0; i < LIMITS; i++) {
		double pass = samples_summary(&b->limits.ms[i]).p50;

		printf("%s %s %.3f ms (step %.2f x, compress %.2f x)", i ? "," : "", limit_names[i],
		       pass, ms.p50 / pass, s[COMPRESS] / pass);
	}
	putchar('\n');
	if (win > 0)
		printf("faster than a dense exchange that takes only network time, if a worker's "
		       "link is slower than %.2f GB/s (%.1f Gbit/s)\n",
		       win * 1e-9, win * 8e-9);
}

static void print_text(struct bench *b, const double s[SUMS], struct summary ms)
{
	printf("step: %d workers, %d servers, %llu parameters, %s gradients; Sluice %s\n",
	       sluice_workers(b->job), sluice_size(b->job) - sluice_workers(b->job),
	       (unsigned long long)b->options->count, distribution_name(b->options->gradient),
	       sluice_version(NULL));
	if (b->gpu)
		printf("vectors in the memory of a GPU; rank 0: %s\n", b->device);
	printf("recipe: %s\n", sluice_recipe_text(b->model));
	if (b->options->accumulate)
		puts("gradients are added to the residual by the program, outside of the measured "
		     "time");
	printf("push and pull on rank 0: p50 %.3f ms, p99 %.3f, max %.3f (%zu steps)\n", ms.p50,
	       ms.p99, ms.max, ms.n);
	printf("mean of a worker: compress %.3f ms, push %.3f, wait %.3f, pull %.3f, apply %.3f\n",
	       s[COMPRESS], s[PUSH], s[WAIT], s[PULL], s[APPLY]);
	if (b->gpu)
		printf("of the wait, %.3f ms are for the GPU to finish the push\n", s[DEVICE]);
	if (b->options->limit)
		print_limits(b, s, ms);
	printf("per worker and step: pushed %.0f bytes, pulled %.0f, dense %.0f; density up %.4f, "
	       "down %.4f\n",
	       s[PUSHED], s[PULLED], s[DENSE], s[UP], s[DOWN]);
	for (size_t t = 0; t < b->n_transports && t < TRANSPORTS_MAX; t++)
		printf("rank 0 over %s, per step: %.1f puts (%.0f bytes, %.1f with notify), %.1f "
		       "gets (%.0f bytes)\n",
		       b->moved[t].name, (double)b->moved[t].puts / (double)ms.n,
		       (double)b->moved[t].put_bytes / (double)ms.n,
		       (double)b->moved[t].notifies / (double)ms.n,
		       (double)b->moved[t].gets / (double)ms.n,
		       (double)b->moved[t].get_bytes / (double)ms.n);
	printf("memory of a worker for the model: announced %.1f MiB, resident %.1f (%.1f private, "
	       "%.1f in regions); at most %.1f %% of what was announced\n",
	       b->memory.announced / MEBI, b->memory.resident / MEBI,
	       (b->memory.resident - b->memory.regions) / MEBI, b->memory.regions / MEBI,
	       b->memory.fullest * 100);
}

static int work(struct bench *b)
{
	double s[SUMS];
	int rc = measure(b);

	if (!rc)
		rc = sums(b, s);
	if (!rc)
		rc = step_memory_look(b->job, b->model, &b->before_open,
				      b->options->limit ? b->options->count * sizeof(float) : 0,
				      &b->memory);
	if (!rc && sluice_rank(b->job) == 0) {
		if (b->options->json)
			print_json(b, s, samples_summary(&b->ms));
		else
			print_text(b, s, samples_summary(&b->ms));
	}
	if (!rc && b->timeline)
		rc = timeline_print(b->timeline, b->job, b->options->json);
	if (!rc && b->options->json && sluice_rank(b->job) == 0)
		puts("}");
	return rc;
}

/* Moves the vectors to GPU memory if the options request that. The vectors for --limit stay in host
 * memory. */
static int to_gpu(struct bench *b, size_t pool)
{
	b->pool_here = b->pool;
	if (!b->options->cuda)
		return 0;
	b->gpu = gpu_open(b->device, sizeof b->device);
	if (!b->gpu || gpu_vector(b->gpu, b->params, (size_t)b->options->count, &b->gpu_params) ||
	    gpu_vector(b->gpu, b->pool, pool, &b->gpu_pool))
		return -1;
	free(b->params);
	b->params = b->gpu_params.address;
	b->pool = b->gpu_pool.address;
	if (!b->options->limit) {
		free(b->pool_here);
		b->pool_here = NULL;
	}
	return 0;
}

static void free_vectors(struct bench *b)
{
	if (b->params != b->gpu_params.address)
		free(b->params);
	free(b->pool == b->gpu_pool.address ? b->pool_here : b->pool);
	if (b->gpu) {
		b->gpu->release(&b->gpu_params);
		b->gpu->release(&b->gpu_pool);
	}
}

static size_t pool_of(const struct options *o)
{
	return (size_t)o->count + SHIFTS * SHIFT;
}

/* Returns 0, or -1 if there is no memory or no GPU. */
static int make_vectors(struct bench *b)
{
	const struct options *o = b->options;
	const size_t pool = pool_of(o);
	const uint64_t seed = o->seed * 1000003 + (uint64_t)sluice_rank(b->job);

	b->params = malloc((size_t)o->count * sizeof(float));
	b->pool = malloc(pool * sizeof(float));
	if (!b->params || !b->pool)
		return -1;
	/* Makes the two vectors resident before the model. Without this barrier the compiler would
	 * use calloc(), which does not make them resident. */
	__asm__ volatile("" : : "r"(b->params) : "memory");
	memset(b->params, 0, (size_t)o->count * sizeof(float));
	if (o->axes)
		axes_fill(b->at.ands, seed, b->pool, pool);
	else
		data_fill(o->gradient, seed, b->pool, pool);
	return to_gpu(b, pool);
}

/* Opens the vectors on all workers. If one worker fails, all do. */
static int open_vectors(struct bench *b)
{
	const struct options *o = b->options;
	double failed = sluice_is_worker(b->job) && make_vectors(b);
	int rc = sluice_sum(b->job, &failed, 1);

	if (rc || !(failed > 0))
		return rc;
	if (sluice_rank(b->job) == 0)
		fprintf(stderr, "sluice-bench: %.0f workers have no %s for %llu parameters\n",
			failed, o->cuda ? "GPU, or no memory there," : "memory",
			(unsigned long long)o->count);
	return SLUICE_ENOMEM;
}

/* Opens a model with these vectors, and calls then(). */
static int with_model(struct bench *b, int (*then)(struct bench *b))
{
	const struct options *o = b->options;
	sluice_model_attr attr = { .size = sizeof attr,
				   .count = o->count,
				   .recipe = o->recipe,
				   .lr = 0.01f,
				   .shards = (uint32_t)o->shards };
	int rc;

	if (resident_now(&b->before_open))
		b->before_open = (struct resident){ 0 };
	rc = sluice_model_open(b->job, &attr, b->params, &b->model);
	if (!rc)
		rc = sluice_is_worker(b->job) ? then(b) : sluice_serve(b->model);
	timeline_close(&b->timeline);
	sluice_model_close(&b->model);
	samples_close(&b->ms);
	step_limits_close(&b->limits);
	return rc;
}

/* ---- --axes ------------------------------------------------------------------ */

enum { RECIPE_BYTES = 1024 };

/* The state of --axes, for all points. */
struct axes {
	const struct options *given;
	sluice_job *job;
	int rows;
};

/* Writes the recipe with k in place of each word K. Returns 0, or -1 if the result is too long. */
static int recipe_of(const char *given, size_t k, char text[RECIPE_BYTES])
{
	const char *from = given ? given : "up=topk(k=K) down=topk(k=K) memory=residual";
	size_t at = 0;

	for (; *from && at + 1 < RECIPE_BYTES; from++)
		if (*from == 'K')
			at += (size_t)snprintf(text + at, RECIPE_BYTES - at, "%zu", k);
		else
			text[at++] = *from;
	if (*from || at >= RECIPE_BYTES)
		return -1;
	text[at] = '\0';
	return 0;
}

static int measure_copy(struct bench *b)
{
	const size_t n = (size_t)b->options->count;

	if (gpu_copy_ms(b->gpu, b->params, b->pool, n, &b->copy_ms) ||
	    b->gpu->zero(b->params, n * sizeof(float), NULL) || b->gpu->wait(NULL))
		return -1;
	return 0;
}

enum { TIME_COLUMNS = 7 }; /* number of columns before the byte columns */

static void print_point(const struct axes *a, struct bench *b, const double s[SUMS])
{
	const struct summary ms = samples_summary(&b->ms);
	const struct {
		const char *name, *head;
		double value;
	} columns[] = { { "copy_ms", "copy ms", b->copy_ms },
			{ "ms_p50", "step ms", ms.p50 },
			{ "of_copy", "of copy", ms.p50 / b->copy_ms },
			{ "compress_ms", "compress", s[COMPRESS] },
			{ "wait_ms", "wait", s[WAIT] },
			{ "device_ms", "GPU", s[DEVICE] },
			{ "apply_ms", "apply", s[APPLY] },
			{ "pushed_bytes", "up bytes", s[PUSHED] },
			{ "pulled_bytes", "down bytes", s[PULLED] } };
	const size_t n = sizeof(columns) / sizeof(columns[0]);

	if (b->options->json) {
		printf("%s\n{\"n\":%zu,\"k\":%zu,\"entropy\":%.3f,\"steps\":%zu,\"recipe\":",
		       a->rows ? "," : "", b->at.n, b->at.k, b->at.entropy, ms.n);
		json_text(stdout, sluice_recipe_text(b->model));
		for (size_t i = 0; i < n; i++) {
			printf(",\"%s\":", columns[i].name);
			json_number(stdout, columns[i].value);
		}
		putchar('}');
		return;
	}
	if (!a->rows) {
		printf("%10s %10s %7s", "n", "k", "entropy");
		for (size_t i = 0; i < n; i++)
			printf(" %10s", columns[i].head);
		putchar('\n');
	}
	printf("%10zu %10zu %7.3f", b->at.n, b->at.k, b->at.entropy);
	for (size_t i = 0; i < n; i++)
		printf(" %10.*f", i < TIME_COLUMNS ? 4 : 0, columns[i].value);
	putchar('\n');
	fflush(stdout);
}

static void print_axes_head(const struct axes *a, const struct bench *b)
{
	if (!a->given->json) {
		printf("step: %d workers, %d servers, vectors in the memory of a GPU; rank 0: %s; "
		       "medians, the rest means of a worker; of copy: the step as a multiple of a "
		       "copy of the gradient there; Sluice %s\n",
		       sluice_workers(b->job), sluice_size(b->job) - sluice_workers(b->job),
		       b->device, sluice_version(NULL));
		return;
	}
	printf("{\"tool\":\"sluice-bench\",\"version\":");
	json_text(stdout, sluice_version(NULL));
	printf(",\"test\":\"step\",\"workers\":%d,\"servers\":%d,\"device\":",
	       sluice_workers(b->job), sluice_size(b->job) - sluice_workers(b->job));
	json_text(stdout, b->device);
	printf(",\"seed\":%llu,\"rows\":[", (unsigned long long)a->given->seed);
}

static int measure_point(struct bench *b)
{
	double s[SUMS];
	int rc = measure(b);

	if (!rc)
		rc = sums(b, s);
	if (rc || sluice_rank(b->job) != 0)
		return rc;
	print_point(b->axes, b, s);
	return 0;
}

static int step_of_axes(void *all, const struct axes_point *point)
{
	struct axes *a = all;
	char recipe[RECIPE_BYTES];
	struct options here = *a->given;
	struct bench b = { .options = &here, .job = a->job, .at = *point, .axes = a };
	int rc;

	here.count = point->n;
	here.recipe = recipe;
	if (recipe_of(a->given->recipe, point->k, recipe)) {
		fprintf(stderr, "sluice-bench: the recipe is too long\n");
		return SLUICE_EINVAL;
	}
	rc = open_vectors(&b);
	if (!rc && b.gpu && measure_copy(&b))
		rc = SLUICE_EGPU;
	if (!rc && !a->rows && sluice_rank(a->job) == 0)
		print_axes_head(a, &b);
	if (!rc)
		rc = with_model(&b, measure_point);
	a->rows++;
	free_vectors(&b);
	return rc;
}

/* If the recipe has no K, there is one point for each number of elements. */
static int steps_of_axes(sluice_job *job, const struct options *o)
{
	struct axes a = { .given = o, .job = job };
	const int counts = !o->recipe || strchr(o->recipe, 'K');
	int rc = axes_run(o->count, counts ? AXES_COORDINATES_MOST : AXES_COORDINATES_LEAST,
			  step_of_axes, &a);

	if (a.rows && o->json && sluice_rank(job) == 0)
		printf("\n]}\n");
	return rc;
}

int step_run(sluice_job *job, const struct options *o)
{
	struct bench b = { .options = o, .job = job };
	int rc;

	if (o->axes)
		return steps_of_axes(job, o);
	rc = open_vectors(&b);
	if (!rc)
		rc = with_model(&b, work);
	free_vectors(&b);
	return rc;
}
