/* SPDX-License-Identifier: BSD-3-Clause
 * Each repetition measures every quantity once, one after another, so that other activity of the
 * machine affects all of them. Results are medians of times, and of ratios within a repetition. All
 * memory is accessed once before the first measurement. */
#include "tools/bench/select.h"
#include "base/clock.h"
#include "compress/choose.h"
#include "sluice_select.h"
#include "tools/bench/densities.h"
#include "tools/bench/samples.h"
#include "tools/bench/select_data.h"
#include "tools/bench/select_gpu.h"
#include "tools/json.h"
#include <stdio.h>
#include <stdlib.h>

/* Each step takes its gradient from a different part of one pool. */
enum { SHIFTS = 64, SHIFT = 16, MOST = 1000, BLOCK = 4096 };

enum {
	READ,          /* one plain read of x by one thread */
	READ_THREADS,  /* the same by all threads */
	SELECT,        /* sluice_select() without a hint */
	SELECT_ONE,    /* the same by one thread */
	SELECT_HINTED, /* with the hint of the previous call */
	EACH_BLOCK,    /* the same density of each block of 4096, by all threads */
	ADD,           /* residual += grad by one thread */
	RESIDUAL,      /* sluice_select() with a residual and a hint */
	TIMES
};

static const char *const names[TIMES] = { "read",          "read_threads", "select", "select_one",
					  "select_hinted", "each_block",   "add",    "residual" };
/* For each time, the number of the time by which it is divided, or -1. */
static const int limits[TIMES] = { -1, READ, READ, READ, READ, READ, -1, ADD };

struct bench {
	const struct options *o;
	float *pool, *other;     /* n + SHIFTS * SHIFT elements each; other: another scale, for
				    hintwrong */
	float *residual, *plain; /* n */
	uint32_t *index,
		*block_index; /* block_index: with room for a count rounded up in each block */
	float *value;
	sluice_selector *fresh, *one, *hinted;
	struct selector *by_block;
	struct samples ms[TIMES], ratio[TIMES];
	uint64_t step;
	uint32_t sink;
	size_t k, selected;
};

/* Returns how many coordinates of a block have the density of k. */
static uint32_t of_block(const struct bench *b)
{
	return (uint32_t)density_count((double)b->k / (double)b->o->n, BLOCK);
}

static int repeat(struct bench *b, double ms[TIMES])
{
	const struct options *o = b->o;
	const float *x = o->distribution == DISTRIBUTION_HINTWRONG && b->step % 2 ? b->other :
										    b->pool;
	const float *grad = x + b->step++ % SHIFTS * SHIFT;
	uint64_t began[TIMES + 1];
	size_t found;
	int rc;

	began[READ] = now_ns();
	b->sink ^= pass_read(x, o->n, 1);
	began[READ_THREADS] = now_ns();
	b->sink ^= pass_read(x, o->n, (unsigned)o->threads);
	began[SELECT] = now_ns();
	rc = sluice_select(b->fresh, x, NULL, b->k, b->index, b->value, &b->selected);
	began[SELECT_ONE] = now_ns();
	if (!rc)
		rc = sluice_select(b->one, x, NULL, b->k, b->index, b->value, &found);
	began[SELECT_HINTED] = now_ns();
	if (!rc)
		rc = sluice_select(b->hinted, x, NULL, b->k, b->index, b->value, &found);
	began[EACH_BLOCK] = now_ns();
	if (!rc)
		found = select_each_block(b->by_block, x, &(struct span){ 0, o->n, 0 }, 1,
					  of_block(b), BLOCK, NULL, b->block_index);
	began[ADD] = now_ns();
	pass_add(b->plain, grad, o->n);
	began[RESIDUAL] = now_ns();
	if (!rc)
		rc = sluice_select(b->hinted, grad, b->residual, b->k, b->index, b->value, &found);
	began[TIMES] = now_ns();
	for (int i = 0; i < TIMES; i++)
		ms[i] = (double)(began[i + 1] - began[i]) * 1e-6;
	return rc;
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
		for (int i = 0; i < TIMES; i++) {
			samples_add(&b->ms[i], ms[i]);
			samples_add(&b->ratio[i], limits[i] < 0 ? 1 : ms[i] / ms[limits[i]]);
		}
	}
	return rc;
}

/* ---- output ---------------------------------------------------------------- */

static void print_row(struct bench *b, int first)
{
	struct summary ms[TIMES], ratio[TIMES];

	for (int i = 0; i < TIMES; i++) {
		ms[i] = samples_summary(&b->ms[i]);
		ratio[i] = samples_summary(&b->ratio[i]);
	}
	if (b->o->json) {
		printf("%s\n{\"k\":%zu,\"selected\":%zu,\"repetitions\":%zu", first ? "" : ",",
		       b->k, b->selected, ms[0].n);
		for (int i = 0; i < TIMES; i++) {
			printf(",\"%s_ms\":", names[i]);
			json_number(stdout, ms[i].p50);
			if (limits[i] >= 0) {
				printf(",\"%s_ratio\":", names[i]);
				json_number(stdout, ratio[i].p50);
			}
		}
		putchar('}');
		return;
	}
	if (first)
		printf("%10s %10s %8s | %8s %6s %8s %6s | %8s %8s %6s | %8s %8s %8s | %8s %6s\n",
		       "k", "selected", "read ms", "select", "x read", "hinted", "x read", "add ms",
		       "residual", "x add", "read/T", "select/1", "speed-up", "blocks", "x read");
	printf("%10zu %10zu %8.2f | %8.2f %6.2f %8.2f %6.2f | %8.2f %8.2f %6.2f | %8.2f %8.2f "
	       "%8.2f | %8.2f %6.2f\n",
	       b->k, b->selected, ms[READ].p50, ms[SELECT].p50, ratio[SELECT].p50,
	       ms[SELECT_HINTED].p50, ratio[SELECT_HINTED].p50, ms[ADD].p50, ms[RESIDUAL].p50,
	       ratio[RESIDUAL].p50, ms[READ_THREADS].p50, ms[SELECT_ONE].p50,
	       ms[SELECT_ONE].p50 / ms[SELECT].p50, ms[EACH_BLOCK].p50, ratio[EACH_BLOCK].p50);
	fflush(stdout);
}

static void print_head(const struct options *o)
{
	if (o->json) {
		printf("{\"tool\":\"sluice-bench\",\"version\":");
		json_text(stdout, sluice_version(NULL));
		printf(",\"test\":\"select\",\"n\":%llu,\"distribution\":\"%s\",\"threads\":%d,"
		       "\"seed\":%llu,\"rows\":[",
		       (unsigned long long)o->n, distribution_name(o->distribution), o->threads,
		       (unsigned long long)o->seed);
		return;
	}
	printf("select: n %llu, %s, %d thread%s, medians; Sluice %s\n", (unsigned long long)o->n,
	       distribution_name(o->distribution), o->threads, o->threads > 1 ? "s" : "",
	       sluice_version(NULL));
}

/* ---- one k after another --------------------------------------------------- */

static int open_selector(const struct bench *b, int threads, int forget, sluice_selector **out)
{
	const sluice_selector_attr attr = {
		.size = sizeof attr, .n = b->o->n, .k = b->k, .threads = threads, .forget = forget
	};

	return sluice_selector_open(&attr, out);
}

static int one_k(void *bench, size_t k, int first)
{
	struct bench *b = bench;
	int rc;

	b->k = k;
	for (size_t i = 0; i < b->o->n; i++)
		b->residual[i] = b->plain[i] = 0;
	for (size_t i = 0; i < k; i++)
		b->value[i] = (float)(b->index[i] = 0);
	rc = open_selector(b, b->o->threads, 1, &b->fresh);
	if (!rc)
		rc = open_selector(b, 1, 1, &b->one);
	if (!rc)
		rc = open_selector(b, b->o->threads, 0, &b->hinted);
	if (!rc)
		rc = selector_open_for(b->o->n, k, (unsigned)b->o->threads, &b->by_block);
	if (!rc)
		rc = measure(b);
	if (!rc)
		print_row(b, first);
	for (int i = 0; i < TIMES; i++) {
		samples_close(&b->ms[i]);
		samples_close(&b->ratio[i]);
	}
	sluice_selector_close(&b->fresh);
	sluice_selector_close(&b->one);
	sluice_selector_close(&b->hinted);
	selector_close(&b->by_block);
	return rc;
}

int bench_select(const struct options *o)
{
	struct bench b = { .o = o };
	size_t n = o->n, most = densities_most(o);
	int wrong = o->distribution == DISTRIBUTION_HINTWRONG, rc = -1;

	if (o->cuda)
		return bench_select_gpu(o);

	b.pool = malloc((n + SHIFTS * SHIFT) * sizeof(float));
	b.other = wrong ? malloc((n + SHIFTS * SHIFT) * sizeof(float)) : NULL;
	b.residual = malloc(n * sizeof(float));
	b.plain = malloc(n * sizeof(float));
	b.index = malloc(most * sizeof(*b.index));
	b.block_index = malloc((most + n / BLOCK + BLOCK) * sizeof(*b.index));
	b.value = malloc(most * sizeof(float));
	if (!b.pool || (wrong && !b.other) || !b.residual || !b.plain || !b.index ||
	    !b.block_index || !b.value) {
		fprintf(stderr, "sluice-bench: no memory for vectors of %zu elements\n", n);
	} else {
		data_fill(o->distribution, o->seed, b.pool, n + SHIFTS * SHIFT);
		for (size_t i = 0; wrong && i < n + SHIFTS * SHIFT; i++)
			b.other[i] = 2 * b.pool[i];
		print_head(o);
		rc = densities_run(o, one_k, &b) ? -1 : 0;
	}
	free(b.pool);
	free(b.other);
	free(b.residual);
	free(b.plain);
	free(b.index);
	free(b.block_index);
	free(b.value);
	/* This use of the sum keeps the compiler from removing a pass. */
	return rc || b.sink == 1 ? rc : 0;
}
