/* SPDX-License-Identifier: BSD-3-Clause
 * Measures exact top-k of residual += gradient on a GPU, next to a copy of a vector in GPU
 * memory, and a whole push to one shard, which makes the payload and settles the residual. If
 * other programs' selections are named, they are measured with the same addition. Each
 * repetition measures every quantity once, from the call until the stream is idle, so launches
 * are included; results are medians. A selection and a push count as 12 bytes per coordinate
 * (gradient and residual read, residual written), and a copy counts as 8. */
#include "tools/bench/select_gpu.h"
#include "base/clock.h"
#include "sluice.h"
#include "tools/bench/axes.h"
#include "tools/bench/densities.h"
#include "tools/bench/gpu_vectors.h"
#include "tools/bench/rivals.h"
#include "tools/bench/samples.h"
#include "tools/bench/select_data.h"
#include "tools/json.h"
#include <math.h>
#include <stdlib.h>

/* Each step takes its gradient from a different part of one pool. */
enum { SHIFTS = 64, SHIFT = 16, MOST = 1000, GAUSSIAN_VALUES = -1 };

enum {
	COPY,
	PUSHED, /* a push with the threshold of the previous step */
	HINTED, /* a selection with that threshold */
	FRESH,  /* without */
	EQUAL,  /* a selection without it, from equal magnitudes */
	SORTED, /* without, ascending */
	RADIX,  /* other programs, which also add the gradient */
	TOPK,
	TIMES,
	TORCH = TIMES, /* measured by another process */
	COLUMNS
};
static const char *const names[COLUMNS] = { "copy",       "push",     "hinted",
					    "fresh",      "equal",    "sorted",
					    "radix_sort", "cub_topk", "torch_topk" };
static const char *const heads[COLUMNS] = { "copy ms", "push ms",  "hint ms",
					    "none ms", "equal ms", "sorted ms",
					    "sort ms", "CUB ms",   "torch ms" };

enum {
	POOL,
	OTHER,
	ALL_EQUAL,
	ASCENDING,
	RESIDUAL,
	RESIDUAL_FRESH,
	RESIDUAL_PUSHED,
	SCRATCH,
	VECTORS
};

struct bench {
	const struct options *o;
	const struct device_ops *ops;
	const struct device_kernels *kernels;
	const struct rivals_ops *rivals; /* NULL: no module was named */
	struct memory vector[VECTORS];   /* OTHER: the other scale, for hintwrong */
	int device;
	struct device_selector *hinted, *fresh;
	struct device_compressor *compressor;
	struct memory payload;
	struct rivals *others;
	uint32_t *index;
	float *here; /* host memory in which vectors are made */
	struct samples ms[TIMES], ratio[TIMES];
	struct torch_times torch;
	uint64_t step;
	size_t n, k;
	struct axes_point at; /* the last point with --axes; n 0: no vector has been filled */
	struct device_selected selected;
};

static float *at(const struct bench *b, int vector)
{
	return b->vector[vector].address;
}

static int select_once(struct bench *b, int forget, const float *grad, float *residual)
{
	const struct device_selection selection = { .call = { .residual = residual,
							      .grad = grad,
							      .scale = 1,
							      .judge = DEVICE_JUDGE_LATE,
							      .k = b->k },
						    .clear = 1,
						    .forget = forget };

	return b->kernels->select(forget ? b->fresh : b->hinted, &selection, NULL);
}

static int push_once(struct bench *b, const float *grad, float *residual)
{
	const struct device_part part = { .span = (uint32_t)b->n,
					  .capacity = (uint32_t)b->k,
					  .payload = b->payload.address };
	const struct device_push push = { .payload = DEVICE_PAIRS,
					  .select = { .residual = residual,
						      .grad = grad,
						      .scale = 1,
						      .judge = DEVICE_JUDGE_LATE,
						      .k = b->k },
					  .settle = 1,
					  .parts = &part };

	return b->ops->push(b->compressor, &push, NULL);
}

/* Returns the residual to use. On the axes, vectors are long, and the residual is cleared before
 * each measurement so that all select from the same sum. One residual is then enough. */
static float *residual_of(const struct bench *b, int what)
{
	static const int of[TIMES] = { [PUSHED] = RESIDUAL_PUSHED,
				       [HINTED] = RESIDUAL,
				       [FRESH] = RESIDUAL_FRESH,
				       [EQUAL] = SCRATCH,
				       [SORTED] = SCRATCH,
				       [RADIX] = SCRATCH,
				       [TOPK] = SCRATCH };

	return at(b, b->o->axes ? RESIDUAL : of[what]);
}

static int is_measured(const struct bench *b, int what)
{
	switch (what) {
	case EQUAL:
	case SORTED: return !b->o->axes;
	case RADIX: return b->rivals && b->rivals->sort;
	case TOPK: return b->rivals && b->rivals->topk;
	case TORCH: return b->torch.n > 0;
	default: return 1;
	}
}

/* Returns 1 if each repetition must begin with an empty residual, because a step would change the
 * vector that the next one selects from. */
static int begins_empty(const struct bench *b, int what)
{
	return what >= EQUAL || (b->o->axes && what != COPY);
}

static int rival_failed(const struct bench *b)
{
	fprintf(stderr, "sluice-bench: --rivals: %s\n", b->rivals->error());
	return -1;
}

/* Returns 0, or -1 after printing the failure. */
static int enqueue(struct bench *b, int what)
{
	const int other = b->o->distribution == DISTRIBUTION_HINTWRONG && b->step % 2;
	const float *grad = at(b, other ? OTHER : POOL) +
			    (b->o->axes ? 0 : b->step % SHIFTS * SHIFT);
	float *residual = residual_of(b, what);
	int rc;

	switch (what) {
	case COPY: rc = b->ops->copy(at(b, SCRATCH), grad, b->n * sizeof(float), NULL); break;
	case PUSHED: rc = push_once(b, grad, residual); break;
	case HINTED: rc = select_once(b, 0, grad, residual); break;
	case FRESH: rc = select_once(b, 1, grad, residual); break;
	case EQUAL: rc = select_once(b, 1, at(b, ALL_EQUAL), residual); break;
	case SORTED: rc = select_once(b, 1, at(b, ASCENDING), residual); break;
	case RADIX: return b->rivals->sort(b->others, residual, grad, NULL) ? rival_failed(b) : 0;
	default: return b->rivals->topk(b->others, residual, grad, NULL) ? rival_failed(b) : 0;
	}
	return rc ? gpu_failed(b->ops) : 0;
}

static int repeat(struct bench *b, double ms[TIMES])
{
	for (int i = 0; i < TIMES; i++) {
		if (!is_measured(b, i))
			continue;
		if (begins_empty(b, i) &&
		    b->ops->zero(residual_of(b, i), b->n * sizeof(float), NULL))
			return gpu_failed(b->ops);
		if (b->ops->wait(NULL))
			return gpu_failed(b->ops);
		uint64_t began = now_ns();

		if (enqueue(b, i))
			return -1;
		if (b->ops->wait(NULL))
			return gpu_failed(b->ops);
		ms[i] = (double)(now_ns() - began) * 1e-6;
	}
	b->step++;
	return 0;
}

static int measure(struct bench *b)
{
	double ms[TIMES];
	uint64_t began = now_ns(), rounds;
	int rc = 0;

	for (uint64_t i = 0; i < b->o->warmup && !rc; i++)
		rc = repeat(b, ms);
	rounds = densities_rounds(b->o, (double)(now_ns() - began) * 1e-9, MOST);
	for (int i = 0; i < TIMES; i++)
		if (samples_open(&b->ms[i], rounds) || samples_open(&b->ratio[i], rounds))
			return -1;
	for (uint64_t r = 0; r < rounds && !rc; r++) {
		rc = repeat(b, ms);
		for (int i = 0; i < TIMES && !rc; i++) {
			if (!is_measured(b, i))
				continue;
			samples_add(&b->ms[i], ms[i]);
			samples_add(&b->ratio[i], i == COPY ? 1 : 12 * ms[COPY] / (8 * ms[i]));
		}
	}
	if (!rc && b->kernels->selected(b->hinted, b->index, NULL, &b->selected, NULL))
		rc = gpu_failed(b->ops);
	return rc;
}

/* ---- output ---------------------------------------------------------------- */

/* Computes the medians. ratio: for the times of Sluice, the bandwidth as a share of the copy's
 * bandwidth; for another program, its time divided by that of the push. */
static void medians(struct bench *b, double ms[COLUMNS], double ratio[COLUMNS])
{
	for (int i = 0; i < TIMES; i++) {
		ms[i] = samples_summary(&b->ms[i]).p50;
		ratio[i] = samples_summary(&b->ratio[i]).p50;
	}
	ms[TORCH] = torch_ms(&b->torch, b->n, b->k, b->o->axes ? b->at.ands : GAUSSIAN_VALUES);
	for (int i = RADIX; i < COLUMNS; i++)
		ratio[i] = ms[i] / ms[PUSHED];
}

static const char *ratio_name(int what)
{
	return what < RADIX ? "of_copy" : "of_push";
}

static void print_json(struct bench *b, const double ms[COLUMNS], const double ratio[COLUMNS],
		       size_t repetitions, int first)
{
	printf("%s\n{", first ? "" : ",");
	if (b->o->axes)
		printf("\"n\":%zu,\"entropy\":%.3f,", b->n, b->at.entropy);
	printf("\"k\":%zu,\"selected\":%zu,\"passes\":%u,\"repetitions\":%zu", b->k, b->selected.n,
	       b->selected.passes, repetitions);
	for (int i = 0; i < COLUMNS; i++) {
		if (!is_measured(b, i))
			continue;
		printf(",\"%s_ms\":", names[i]);
		json_number(stdout, ms[i]);
		if (i == COPY)
			continue;
		printf(",\"%s_%s\":", names[i], ratio_name(i));
		json_number(stdout, ratio[i]);
	}
	putchar('}');
}

static void print_heads(const struct bench *b)
{
	if (b->o->axes)
		printf("%10s %7s ", "n", "entropy");
	printf("%10s %10s", "k", "selected");
	for (int i = 0; i < COLUMNS; i++)
		if (is_measured(b, i))
			printf(" | %9s %7s", heads[i],
			       i == COPY ? "GB/s" :
			       i < RADIX ? "of copy" :
					   "of push");
	putchar('\n');
}

static void print_row(struct bench *b, int first)
{
	double ms[COLUMNS], ratio[COLUMNS];

	medians(b, ms, ratio);
	if (b->o->json) {
		print_json(b, ms, ratio, b->ms[COPY].n, first);
		return;
	}
	if (first)
		print_heads(b);
	if (b->o->axes)
		printf("%10zu %7.3f ", b->n, b->at.entropy);
	printf("%10zu %10zu | %9.4f %7.1f", b->k, b->selected.n, ms[COPY],
	       8e-6 * (double)b->n / ms[COPY]);
	for (int i = PUSHED; i < COLUMNS; i++)
		if (is_measured(b, i))
			printf(" | %9.4f %7.2f", ms[i], ratio[i]);
	putchar('\n');
	fflush(stdout);
}

/* Prints which comparisons are missing, and how to enable them. */
static void print_missing(const struct bench *b)
{
	if (!b->rivals)
		puts("others' selections were not measured: --rivals names a module built from "
		     "tests/gpu/rivals.cu");
	else if (!b->rivals->topk)
		puts("CUB's DeviceTopK is not among the headers that the module of --rivals was "
		     "built with");
	if (!b->torch.n)
		puts("torch.topk was not measured: --torch names a command, such as 'python3 "
		     "tests/gpu/torch_topk.py'");
}

static void print_head(const struct bench *b, const char *device)
{
	const struct options *o = b->o;

	if (!o->json) {
		printf("select on %s: residual and top-k, ", device);
		if (o->axes)
			printf("keys of several entropies");
		else
			printf("n %llu, %s", (unsigned long long)o->n,
			       distribution_name(o->distribution));
		printf(", medians with launch; of copy: bandwidth, 12 bytes a coordinate; Sluice "
		       "%s\n",
		       sluice_version(NULL));
		print_missing(b);
		return;
	}
	printf("{\"tool\":\"sluice-bench\",\"version\":");
	json_text(stdout, sluice_version(NULL));
	printf(",\"test\":\"select\",\"device\":");
	json_text(stdout, device);
	if (!o->axes)
		printf(",\"n\":%llu,\"distribution\":\"%s\"", (unsigned long long)o->n,
		       distribution_name(o->distribution));
	printf(",\"seed\":%llu,\"rows\":[", (unsigned long long)o->seed);
}

/* ---- one number of elements and of coordinates ------------------------------- */

static int open_point(struct bench *b)
{
	const size_t n = b->n, k = b->k;
	const struct device_shape shape = { .device = b->device, .n = n, .k = k, .parts = 1 };

	if (b->kernels->selector_open(&shape, &b->hinted) ||
	    b->kernels->selector_open(&shape, &b->fresh) || b->ops->open(&shape, &b->compressor) ||
	    /* The cheapest coding takes at most the size of the positions and values without
	     * coding. */
	    b->ops->alloc(MEMORY_DEVICE, k * 2 * sizeof(float) + sizeof(float), &b->payload))
		return gpu_failed(b->ops);
	for (int i = PUSHED; i <= FRESH; i++)
		if (b->ops->zero(residual_of(b, i), n * sizeof(float), NULL))
			return gpu_failed(b->ops);
	if (b->rivals &&
	    (b->rivals->open(n, k, &b->others) || b->rivals->keys(b->others, at(b, POOL), NULL)))
		return rival_failed(b);
	return 0;
}

static void close_point(struct bench *b)
{
	for (int i = 0; i < TIMES; i++) {
		samples_close(&b->ms[i]);
		samples_close(&b->ratio[i]);
	}
	if (b->others)
		b->rivals->close(&b->others);
	b->ops->close(&b->compressor);
	b->ops->release(&b->payload);
	b->kernels->selector_close(&b->hinted);
	b->kernels->selector_close(&b->fresh);
}

static int one_point(struct bench *b, size_t n, size_t k, int first)
{
	int rc;

	b->n = n;
	b->k = k;
	rc = open_point(b);
	if (!rc)
		rc = measure(b);
	if (!rc)
		print_row(b, first);
	close_point(b);
	return rc;
}

static int one_k(void *bench, size_t k, int first)
{
	struct bench *b = bench;

	return one_point(b, b->o->n, k, first);
}

static int one_of_axes(void *bench, const struct axes_point *point)
{
	struct bench *b = bench;
	const int first = !b->at.n;
	const size_t most = (size_t)b->o->n;

	/* All vectors of one entropy are parts of the longest one, from its beginning. */
	if (first || point->ands != b->at.ands) {
		axes_fill(point->ands, b->o->seed, b->here, most);
		if (b->ops->copy(at(b, POOL), b->here, most * sizeof(float), NULL) ||
		    b->ops->wait(NULL))
			return gpu_failed(b->ops);
	}
	b->at = *point;
	return one_point(b, point->n, point->k, first);
}

static int run_axes(struct bench *b)
{
	int rc = axes_run(b->o->n, b->o->k ? b->o->k : AXES_COORDINATES_MOST, one_of_axes, b);

	if (b->o->json)
		printf("\n]}\n");
	return rc;
}

/* ---- the command of --torch ----------------------------------------------------- */

static int ask_torch_k(void *bench, size_t k, int first)
{
	struct bench *b = bench;

	(void)first;
	return torch_ask(&b->torch, b->o->n, k, GAUSSIAN_VALUES);
}

static int ask_torch_point(void *bench, const struct axes_point *point)
{
	struct bench *b = bench;

	return torch_ask(&b->torch, point->n, point->k, point->ands);
}

/* Called before this process allocates any memory on the GPU. */
static int measure_torch(struct bench *b)
{
	const struct options *o = b->o;
	struct options quiet = *o;
	int rc;

	if (!o->torch)
		return 0;
	quiet.json = 0; /* suppresses the end of the JSON list */
	rc = o->axes ? axes_run(o->n, o->k ? o->k : AXES_COORDINATES_MOST, ask_torch_point, b) :
		       densities_run(&quiet, ask_torch_k, b);
	if (rc)
		fprintf(stderr, "sluice-bench: --torch: no memory\n");
	return rc ? -1 : torch_run(&b->torch, o->torch);
}

/* ---- the command ----------------------------------------------------------------- */

static int vector_of(struct bench *b, int vector, size_t n)
{
	return gpu_vector(b->ops, vector < RESIDUAL ? b->here : NULL, n, &b->vector[vector]);
}

/* Makes the vectors in host memory, one after another. */
static int fill(struct bench *b)
{
	const size_t n = b->o->n, pool = n + SHIFTS * SHIFT;
	const int wrong = b->o->distribution == DISTRIBUTION_HINTWRONG;
	int rc;

	data_fill(b->o->distribution, b->o->seed, b->here, pool);
	rc = vector_of(b, POOL, pool);
	for (size_t i = 0; i < pool && wrong; i++)
		b->here[i] *= 2;
	if (!rc && wrong)
		rc = vector_of(b, OTHER, pool);
	data_fill(DISTRIBUTION_EQUAL, b->o->seed, b->here, n);
	if (!rc)
		rc = vector_of(b, ALL_EQUAL, n);
	data_fill(DISTRIBUTION_SORTED, b->o->seed, b->here, n);
	if (!rc)
		rc = vector_of(b, ASCENDING, n);
	for (int v = RESIDUAL; v < VECTORS && !rc; v++)
		rc = vector_of(b, v, n);
	return rc;
}

/* Only allocates the vectors. one_of_axes() makes the values. */
static int fill_for_axes(struct bench *b)
{
	static const int needed[] = { POOL, RESIDUAL, SCRATCH };
	int rc = 0;

	axes_fill(0, b->o->seed, b->here, (size_t)b->o->n);
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]) && !rc; i++)
		rc = vector_of(b, needed[i], (size_t)b->o->n);
	return rc;
}

static size_t most_selected(const struct options *o)
{
	return o->axes ? (size_t)AXES_COORDINATES_MOST : densities_most(o);
}

static int run(struct bench *b, const char *device)
{
	const struct options *o = b->o;

	b->here = malloc((o->n + SHIFTS * SHIFT) * sizeof(float));
	b->index = malloc((most_selected(o) + 1) * sizeof(*b->index));
	if (!b->here || !b->index) {
		fprintf(stderr, "sluice-bench: no memory for vectors of %llu elements\n",
			(unsigned long long)o->n);
		return -1;
	}
	if (o->axes ? fill_for_axes(b) : fill(b))
		return -1;
	if (b->ops->find(at(b, POOL), &b->device) < 0)
		return gpu_failed(b->ops);
	print_head(b, device);
	return (o->axes ? run_axes(b) : densities_run(o, one_k, b)) ? -1 : 0;
}

int bench_select_gpu(const struct options *o)
{
	char device[256];
	struct bench b = { .o = o, .ops = gpu_open(device, sizeof device) };
	int rc;

	if (!b.ops)
		return -1;
	b.kernels = gpu_kernels();
	if (!b.kernels || (o->rivals && !(b.rivals = rivals_load(o->rivals))) || measure_torch(&b))
		return -1;
	rc = run(&b, device);
	for (int v = 0; v < VECTORS; v++)
		b.ops->release(&b.vector[v]);
	free(b.index);
	free(b.here);
	torch_close(&b.torch);
	return rc;
}
