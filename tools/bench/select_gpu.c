/* SPDX-License-Identifier: BSD-3-Clause
 * Exact top-k of residual += gradient on a GPU, beside a copy of a vector in its memory, and what a
 * program gets from that: a whole push to one shard, with the payload made and the residual
 * settled. Each repetition measures every quantity once, from the call until the stream is idle, so
 * launches are in the times; medians. A selection is counted as 12 bytes a coordinate (gradient and
 * residual read, residual written), and so is a push; a copy as 8. */
#include "tools/bench/select_gpu.h"
#include "base/clock.h"
#include "sluice.h"
#include "tools/bench/densities.h"
#include "tools/bench/gpu_vectors.h"
#include "tools/bench/samples.h"
#include "tools/bench/select_data.h"
#include "tools/json.h"
#include <stdlib.h>

/* Each step takes its gradient from another place of one pool. */
enum { SHIFTS = 64, SHIFT = 16, MOST = 1000 };

enum {
	COPY,
	PUSHED, /* a push, with the threshold of the step before */
	HINTED, /* a selection with it */
	FRESH,  /* without */
	EQUAL,  /* without, all magnitudes equal */
	SORTED, /* without, ascending */
	TIMES
};
static const char *const names[TIMES] = { "copy", "push", "hinted", "fresh", "equal", "sorted" };

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
	struct memory vector[VECTORS]; /* OTHER: of hintwrong */
	int device;
	struct device_selector *hinted, *fresh;
	struct device_compressor *compressor;
	struct memory payload;
	uint32_t *index;
	struct samples ms[TIMES], ratio[TIMES];
	uint64_t step;
	size_t k;
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

static int push_once(struct bench *b, const float *grad)
{
	const struct device_part part = { .span = (uint32_t)b->o->n,
					  .capacity = (uint32_t)b->k,
					  .payload = b->payload.address };
	const struct device_push push = { .payload = DEVICE_PAIRS,
					  .select = { .residual = at(b, RESIDUAL_PUSHED),
						      .grad = grad,
						      .scale = 1,
						      .judge = DEVICE_JUDGE_LATE,
						      .k = b->k },
					  .settle = 1,
					  .parts = &part };

	return b->ops->push(b->compressor, &push, NULL);
}

static int enqueue(struct bench *b, int what)
{
	const int other = b->o->distribution == DISTRIBUTION_HINTWRONG && b->step % 2;
	const float *grad = at(b, other ? OTHER : POOL) + b->step % SHIFTS * SHIFT;

	switch (what) {
	case COPY: return b->ops->copy(at(b, SCRATCH), grad, b->o->n * sizeof(float), NULL);
	case PUSHED: return push_once(b, grad);
	case HINTED: return select_once(b, 0, grad, at(b, RESIDUAL));
	case FRESH: return select_once(b, 1, grad, at(b, RESIDUAL_FRESH));
	case EQUAL: return select_once(b, 1, at(b, ALL_EQUAL), at(b, SCRATCH));
	default: return select_once(b, 1, at(b, ASCENDING), at(b, SCRATCH));
	}
}

static int repeat(struct bench *b, double ms[TIMES])
{
	for (int i = 0; i < TIMES; i++) {
		/* The worst cases begin with an empty residual, or they would be others after a
		 * step. */
		if (i >= EQUAL && b->ops->zero(at(b, SCRATCH), b->o->n * sizeof(float), NULL))
			return gpu_failed(b->ops);
		if (b->ops->wait(NULL))
			return gpu_failed(b->ops);
		uint64_t began = now_ns();

		if (enqueue(b, i) || b->ops->wait(NULL))
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
			samples_add(&b->ms[i], ms[i]);
			samples_add(&b->ratio[i], i == COPY ? 1 : 12 * ms[COPY] / (8 * ms[i]));
		}
	}
	if (!rc && b->kernels->selected(b->hinted, b->index, NULL, &b->selected, NULL))
		rc = gpu_failed(b->ops);
	return rc;
}

static void print_row(struct bench *b, int first)
{
	struct summary ms[TIMES], ratio[TIMES];

	for (int i = 0; i < TIMES; i++) {
		ms[i] = samples_summary(&b->ms[i]);
		ratio[i] = samples_summary(&b->ratio[i]);
	}
	if (b->o->json) {
		printf("%s\n{\"k\":%zu,\"selected\":%zu,\"passes\":%u,\"repetitions\":%zu",
		       first ? "" : ",", b->k, b->selected.n, b->selected.passes, ms[0].n);
		for (int i = 0; i < TIMES; i++) {
			printf(",\"%s_ms\":", names[i]);
			json_number(stdout, ms[i].p50);
			if (i == COPY)
				continue;
			printf(",\"%s_of_copy\":", names[i]);
			json_number(stdout, ratio[i].p50);
		}
		putchar('}');
		return;
	}
	if (first)
		printf("%10s %10s %9s %7s | %9s %7s | %9s %7s | %9s %7s | %9s %7s | %9s %7s\n", "k",
		       "selected", "copy ms", "GB/s", "push ms", "of copy", "hint ms", "of copy",
		       "none ms", "of copy", "equal ms", "of copy", "sorted ms", "of copy");
	printf("%10zu %10zu %9.4f %7.1f | %9.4f %7.2f | %9.4f %7.2f | %9.4f %7.2f | %9.4f %7.2f | "
	       "%9.4f %7.2f\n",
	       b->k, b->selected.n, ms[COPY].p50, 8e-6 * (double)b->o->n / ms[COPY].p50,
	       ms[PUSHED].p50, ratio[PUSHED].p50, ms[HINTED].p50, ratio[HINTED].p50, ms[FRESH].p50,
	       ratio[FRESH].p50, ms[EQUAL].p50, ratio[EQUAL].p50, ms[SORTED].p50,
	       ratio[SORTED].p50);
	fflush(stdout);
}

static void print_head(const struct options *o, const char *device)
{
	if (!o->json) {
		printf("select on %s: residual and top-k, n %llu, %s, medians with launch; of "
		       "copy: bandwidth, 12 bytes a coordinate; Sluice %s\n",
		       device, (unsigned long long)o->n, distribution_name(o->distribution),
		       sluice_version());
		return;
	}
	printf("{\"tool\":\"sluice-bench\",\"version\":");
	json_text(stdout, sluice_version());
	printf(",\"test\":\"select\",\"device\":");
	json_text(stdout, device);
	printf(",\"n\":%llu,\"distribution\":\"%s\",\"seed\":%llu,\"rows\":[",
	       (unsigned long long)o->n, distribution_name(o->distribution),
	       (unsigned long long)o->seed);
}

static int one_k(void *bench, size_t k, int first)
{
	struct bench *b = bench;
	const size_t n = b->o->n;
	int rc = 0;

	b->k = k;
	const struct device_shape shape = { .device = b->device, .n = n, .k = k, .parts = 1 };
	if (b->kernels->selector_open(&shape, &b->hinted) ||
	    b->kernels->selector_open(&shape, &b->fresh) || b->ops->open(&shape, &b->compressor) ||
	    /* The cheapest coding takes at most as much as positions and values in full. */
	    b->ops->alloc(MEMORY_DEVICE, k * 2 * sizeof(float) + sizeof(float), &b->payload) ||
	    b->ops->zero(at(b, RESIDUAL_PUSHED), n * sizeof(float), NULL) ||
	    b->ops->zero(at(b, RESIDUAL), n * sizeof(float), NULL) ||
	    b->ops->zero(at(b, RESIDUAL_FRESH), n * sizeof(float), NULL))
		rc = gpu_failed(b->ops);
	if (!rc)
		rc = measure(b);
	if (!rc)
		print_row(b, first);
	for (int i = 0; i < TIMES; i++) {
		samples_close(&b->ms[i]);
		samples_close(&b->ratio[i]);
	}
	b->ops->close(&b->compressor);
	b->ops->release(&b->payload);
	b->kernels->selector_close(&b->hinted);
	b->kernels->selector_close(&b->fresh);
	return rc;
}

/* Vectors are made in host memory, one after another. */
static int fill(struct bench *b, float *here)
{
	const size_t n = b->o->n, pool = n + SHIFTS * SHIFT;
	const int wrong = b->o->distribution == DISTRIBUTION_HINTWRONG;
	int rc;

	data_fill(b->o->distribution, b->o->seed, here, pool);
	rc = gpu_vector(b->ops, here, pool, &b->vector[POOL]);
	for (size_t i = 0; i < pool && wrong; i++)
		here[i] *= 2;
	if (!rc && wrong)
		rc = gpu_vector(b->ops, here, pool, &b->vector[OTHER]);
	data_fill(DISTRIBUTION_EQUAL, b->o->seed, here, n);
	if (!rc)
		rc = gpu_vector(b->ops, here, n, &b->vector[ALL_EQUAL]);
	data_fill(DISTRIBUTION_SORTED, b->o->seed, here, n);
	if (!rc)
		rc = gpu_vector(b->ops, here, n, &b->vector[ASCENDING]);
	for (int v = RESIDUAL; v < VECTORS && !rc; v++)
		rc = gpu_vector(b->ops, NULL, n, &b->vector[v]);
	if (!rc && b->ops->find(at(b, POOL), &b->device) < 0)
		rc = gpu_failed(b->ops);
	return rc;
}

int bench_select_gpu(const struct options *o)
{
	char device[256];
	struct bench b = { .o = o, .ops = gpu_open(device, sizeof device) };
	float *here;
	int rc = -1;

	if (!b.ops)
		return -1;
	b.kernels = gpu_kernels();
	if (!b.kernels)
		return -1;
	here = malloc((o->n + SHIFTS * SHIFT) * sizeof(float));
	b.index = malloc((densities_most(o) + 1) * sizeof(*b.index));
	if (here && b.index)
		rc = fill(&b, here);
	else
		fprintf(stderr, "sluice-bench: no memory for vectors of %llu elements\n",
			(unsigned long long)o->n);
	free(here);
	if (!rc) {
		print_head(o, device);
		rc = densities_run(o, one_k, &b) ? -1 : 0;
	}
	for (int v = 0; v < VECTORS; v++)
		b.ops->release(&b.vector[v]);
	free(b.index);
	return rc;
}
