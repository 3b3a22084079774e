/* SPDX-License-Identifier: BSD-3-Clause
 * See reduce.h. Calls the functions that shard.c and worker.c call, on decoded messages (codec
 * measures the decoding). Each repetition measures every quantity once, one after another, next
 * to the plain passes over the same memory. Results are medians of times, and of ratios within a
 * repetition. */
#include "tools/bench/reduce.h"
#include "base/clock.h"
#include "runtime/shard/reduce.h"
#include "sluice.h"
#include "tools/bench/densities.h"
#include "tools/bench/samples.h"
#include "tools/bench/select_data.h"
#include "tools/json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Each step takes its messages from a different part of one pool. */
enum { STEPS = 4, MOST = 1000 };

enum {
	READ,    /* one plain read of the shard */
	ADD,     /* residual += grad: read-modify-write */
	REDUCE,  /* addition of all messages to the sum, for shards with many coordinates */
	PUBLISH, /* the end of a step: update and residual, selection, subtraction from the
		    residual, addition to the copy */
	APPLY,   /* addition of the publication to a worker's parameters */
	TIMES
};

static const char *const names[TIMES] = { "read", "add", "reduce", "publish", "apply" };
/* For each time, the number of the time by which it is divided, or -1. */
static const int limits[TIMES] = { -1, -1, ADD, READ, ADD };

struct list {
	uint32_t *index;
	float *value;
	uint32_t n;
};

struct bench {
	const struct options *o;
	struct list *messages; /* STEPS * o->messages */
	struct reduction reduction;
	struct scratch *scratch;
	struct compressor *compressor;
	struct direction down;
	struct span whole;
	float *residual, *copy, *params, *plain, *grad; /* n each */
	struct pick published;
	struct samples ms[TIMES], ratio[TIMES], lines;
	uint8_t *touched; /* [line of coordinates]: 1 if a message of this step changes the line */
	uint64_t step, k;
	uint32_t sink;
};

/* ---- one step -------------------------------------------------------------- */

/* Does the work of publish() in shard.c, except for the encoding. */
static void publish(struct bench *b)
{
	static const struct update sgd = { .kind = UPDATE_SGD, .placement = STEP_INSIDE };
	const struct change change = { .update = &sgd,
				       .params = b->copy,
				       .divisor = (unsigned)b->o->messages,
				       .lr = 0.1f,
				       .residual = b->residual,
				       .candidates = compressor_candidates(b->compressor),
				       .selects = 1 };
	struct pick_call call = { .k = b->k };

	reduction_change(&b->reduction, &change, &call);
	b->published = compressor_pick(b->compressor, &call);
	compressor_settle(b->compressor, &b->published, 0, 0);
	sparse_add(b->copy, b->published.index, b->published.value, (uint32_t)b->published.n);
	reduction_clear(&b->reduction);
}

static size_t lines_of(const struct bench *b)
{
	return (b->o->n + VECTOR_LINE - 1) / VECTOR_LINE;
}

static double lines_share(struct bench *b, const struct list *message)
{
	size_t n = lines_of(b), touched = 0;

	for (int m = 0; m < b->o->messages; m++)
		for (uint32_t i = 0; i < message[m].n; i++)
			b->touched[message[m].index[i] / VECTOR_LINE] = 1;
	for (size_t i = 0; i < n; i++) {
		touched += b->touched[i];
		b->touched[i] = 0;
	}
	return (double)touched / (double)n;
}

static void repeat(struct bench *b, double ms[TIMES])
{
	const struct list *message = b->messages + b->step++ % STEPS * (size_t)b->o->messages;
	uint64_t began[TIMES], ended[TIMES];

	began[READ] = now_ns();
	b->sink ^= pass_read(b->residual, b->o->n, 1);
	ended[READ] = began[ADD] = now_ns();
	pass_add(b->plain, b->grad, b->o->n);
	ended[ADD] = began[REDUCE] = now_ns();
	for (int i = 0; i < b->o->messages; i++)
		reduction_add(&b->reduction, message[i].index, message[i].value, message[i].n);
	ended[REDUCE] = now_ns();
	samples_add(&b->lines, lines_share(b, message));
	began[PUBLISH] = now_ns();
	publish(b);
	ended[PUBLISH] = began[APPLY] = now_ns();
	sparse_add(b->params, b->published.index, b->published.value, (uint32_t)b->published.n);
	ended[APPLY] = now_ns();
	for (int i = 0; i < TIMES; i++)
		ms[i] = (double)(ended[i] - began[i]) * 1e-6;
}

static int measure(struct bench *b)
{
	const struct options *o = b->o;
	uint64_t began = now_ns(), rounds;
	double ms[TIMES];

	for (uint64_t i = 0; i < o->warmup; i++)
		repeat(b, ms);
	rounds = densities_rounds(o, (double)(now_ns() - began) * 1e-9, MOST);
	samples_close(&b->lines);
	if (samples_open(&b->lines, rounds))
		return -1;
	for (int i = 0; i < TIMES; i++)
		if (samples_open(&b->ms[i], rounds) || samples_open(&b->ratio[i], rounds))
			return -1;
	for (uint64_t r = 0; r < rounds; r++) {
		repeat(b, ms);
		for (int i = 0; i < TIMES; i++) {
			samples_add(&b->ms[i], ms[i]);
			samples_add(&b->ratio[i], limits[i] < 0 ? 1 : ms[i] / ms[limits[i]]);
		}
	}
	return 0;
}

/* ---- output ---------------------------------------------------------------- */

static void print_row(struct bench *b, int first)
{
	double lines = samples_summary(&b->lines).p50;
	struct summary ms[TIMES], ratio[TIMES];

	for (int i = 0; i < TIMES; i++) {
		ms[i] = samples_summary(&b->ms[i]);
		ratio[i] = samples_summary(&b->ratio[i]);
	}
	if (b->o->json) {
		printf("%s\n{\"k\":%llu,\"repetitions\":%zu,\"lines_share\":", first ? "" : ",",
		       (unsigned long long)b->k, ms[0].n);
		json_number(stdout, lines);
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
		printf("%10s %7s %8s %8s | %8s %6s %8s | %8s %6s | %8s %6s\n", "k", "lines",
		       "read ms", "add ms", "reduce", "x add", "ns each", "publish", "x read",
		       "apply", "x add");
	printf("%10llu %6.1f%% %8.3f %8.3f | %8.3f %6.2f %8.2f | %8.3f %6.2f | %8.3f %6.2f\n",
	       (unsigned long long)b->k, lines * 100, ms[READ].p50, ms[ADD].p50, ms[REDUCE].p50,
	       ratio[REDUCE].p50, ms[REDUCE].p50 * 1e6 / (double)b->k / b->o->messages,
	       ms[PUBLISH].p50, ratio[PUBLISH].p50, ms[APPLY].p50, ratio[APPLY].p50);
	fflush(stdout);
}

static void print_head(const struct options *o)
{
	if (o->json) {
		printf("{\"tool\":\"sluice-bench\",\"version\":");
		json_text(stdout, sluice_version(NULL));
		printf(",\"test\":\"reduce\",\"n\":%llu,\"messages\":%d,\"distribution\":\"%s\","
		       "\"seed\":%llu,\"rows\":[",
		       (unsigned long long)o->n, o->messages, distribution_name(o->distribution),
		       (unsigned long long)o->seed);
		return;
	}
	printf("reduce: shard of %llu, %d messages of k a step and k published, %s, one thread, "
	       "medians; Sluice %s\n",
	       (unsigned long long)o->n, o->messages, distribution_name(o->distribution),
	       sluice_version(NULL));
}

/* ---- one density after another --------------------------------------------- */

static uint64_t mixed(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Draws k random positions in ascending order. Each position is taken with the probability that is
 * needed to reach k. */
static int fill_message(const struct options *o, uint64_t number, uint64_t k, struct list *m)
{
	uint64_t counter = (o->seed << 48) + (number << 40);

	m->index = malloc(k * sizeof *m->index);
	m->value = malloc(k * sizeof *m->value);
	if (!m->index || !m->value)
		return -1;
	m->n = 0;
	for (uint64_t i = 0; m->n < k; i++)
		if (mixed(counter += 0x9e3779b97f4a7c15u) >> 32 <
		    (((k - m->n) << 32) - 1) / (o->n - i) + 1)
			m->index[m->n++] = (uint32_t)i;
	data_fill(o->distribution, o->seed + number, m->value, k);
	return 0;
}

static void free_list(struct list *l)
{
	free(l->index);
	free(l->value);
	*l = (struct list){ 0 };
}

/* Opens a compressor like that of a shard with down=topk. */
static int open_compressor(struct bench *b)
{
	const struct compressor_attr attr = {
		.direction = &b->down,
		.down = 1,
		.spans = &b->whole,
		.n_spans = 1,
		.residual = b->residual,
		.remembers = 1,
		.candidates = candidates_size((uint32_t)b->o->n, b->k, b->o->messages * b->k, 0),
		.scratch = b->scratch
	};

	b->down.select = SELECT_TOPK;
	return compressor_open(&attr, &b->compressor);
}

static int one_density(void *bench, size_t k, int first)
{
	struct bench *b = bench;
	const struct options *o = b->o;
	size_t n_messages = STEPS * (size_t)o->messages;
	int rc = 0;

	b->k = k;
	data_fill(o->distribution, o->seed, b->grad, o->n);
	for (size_t i = 0; i < o->n; i++)
		b->residual[i] = b->copy[i] = b->params[i] = b->plain[i] = 0;
	for (size_t i = 0; i < n_messages && !rc; i++)
		rc = fill_message(o, i, k, &b->messages[i]);
	b->whole = (struct span){ .begin = 0, .end = o->n };
	if (!rc)
		rc = open_compressor(b);
	if (!rc)
		rc = measure(b);
	if (rc)
		fprintf(stderr, "sluice-bench: no memory for %zu messages of %zu\n", n_messages, k);
	else
		print_row(b, first);
	for (size_t i = 0; i < n_messages; i++)
		free_list(&b->messages[i]);
	compressor_close(&b->compressor);
	samples_close(&b->lines);
	for (int i = 0; i < TIMES; i++) {
		samples_close(&b->ms[i]);
		samples_close(&b->ratio[i]);
	}
	return rc;
}

int bench_reduce(const struct options *o)
{
	struct bench b = { .o = o };
	size_t bytes = o->n * sizeof(float);
	int rc = -1;

	b.messages = calloc(STEPS * (size_t)o->messages, sizeof *b.messages);
	b.residual = vector_open(o->n);
	b.copy = vector_open(o->n);
	b.params = malloc(bytes);
	b.plain = malloc(bytes);
	b.grad = malloc(bytes);
	b.touched = calloc(lines_of(&b), 1);
	if (b.messages && b.touched && b.residual && b.copy && b.params && b.plain && b.grad &&
	    !reduction_open(&b.reduction, (uint32_t)o->n, &(struct reduction_attr){ 0 }) &&
	    !scratch_open(0, o->n, o->n, NULL, &b.scratch)) {
		print_head(o);
		rc = densities_run(o, one_density, &b);
	} else {
		fprintf(stderr, "sluice-bench: no memory for vectors of %llu elements\n",
			(unsigned long long)o->n);
	}
	scratch_close(&b.scratch);
	reduction_close(&b.reduction);
	free(b.messages);
	free(b.touched);
	vector_close(b.residual, o->n);
	vector_close(b.copy, o->n);
	free(b.params);
	free(b.plain);
	free(b.grad);
	/* This use of the sum keeps the compiler from removing a pass. */
	return rc || b.sink == 1 ? rc : 0;
}
