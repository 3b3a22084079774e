/* SPDX-License-Identifier: BSD-3-Clause
 * Jobs of real processes, which reach each other through shared memory, against the parameters that
 * tests/oracle/methods.py computed: after each step, on each rank, bit by bit. Takes a file made by
 * "oracle.py write", which documents the format; without one it skips. */
#include "ranks.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { SKIPPED = 77, WORD = 4, TENSORS = 4 };

struct cases {
	const unsigned char *bytes, *end;
	uint32_t n, steps;
	const unsigned char *rates, *first; /* floats; case 0 */
};

struct one_case {
	uint32_t ranks, count, shards, n_tensors;
	const char *recipe;
	const unsigned char *tensors;                      /* two words each: count and columns */
	const unsigned char *start, *gradients, *expected; /* floats, which may be unaligned */
};

static const char *path;

static uint32_t word(const unsigned char *from)
{
	return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

/* Copies elements at .. at + n - 1 of a vector of little-endian floats. */
static void floats(const unsigned char *vector, size_t at, size_t n, float *out)
{
	for (size_t i = 0; i < n; i++) {
		const uint32_t bits = word(vector + (at + i) * WORD);

		memcpy(out + i, &bits, sizeof(bits));
	}
}

/* Returns the beginning of the next case. */
static const unsigned char *case_at(const struct cases *all, const unsigned char *at,
				    struct one_case *out)
{
	const size_t text = word(at + 3 * WORD);

	*out = (struct one_case){ .ranks = word(at),
				  .count = word(at + WORD),
				  .shards = word(at + 2 * WORD),
				  .n_tensors = word(at + 4 * WORD),
				  .recipe = (const char *)at + 5 * WORD,
				  .tensors = at + 5 * WORD + text };
	out->start = out->tensors + (size_t)out->n_tensors * 2 * WORD;
	out->gradients = out->start + (size_t)out->count * WORD;
	out->expected = out->gradients + (size_t)all->steps * out->ranks * out->count * WORD;
	return out->expected + (size_t)all->steps * out->ranks * out->count * WORD;
}

static void read_cases(struct cases *all)
{
	FILE *f = fopen(path, "rb");
	long n = 0;

	if (!f || fseek(f, 0, SEEK_END) || (n = ftell(f)) < 2 * WORD)
		fail_msg("%s cannot be read", path);
	unsigned char *bytes = malloc((size_t)n);

	rewind(f);
	if (!bytes || fread(bytes, 1, (size_t)n, f) != (size_t)n)
		fail_msg("%s cannot be read", path);
	fclose(f);
	*all = (struct cases){ .bytes = bytes,
			       .end = bytes + n,
			       .n = word(bytes),
			       .steps = word(bytes + WORD),
			       .rates = bytes + 2 * WORD };
	all->first = all->rates + (size_t)all->steps * WORD;
}

static void train(const struct cases *all, const struct one_case *c, sluice_job *job)
{
	const size_t rank = (size_t)sluice_rank(job), bytes = c->count * sizeof(float);
	float *params = calloc(c->count, sizeof(*params)), *grad = malloc(bytes);
	float *expected = malloc(bytes), lr;
	const int drifts = strstr(c->recipe, "signal=drift") != NULL;
	sluice_model *model = NULL;

	static const char *const names[TENSORS] = { "t0", "t1", "t2", "t3" };
	sluice_tensor tensors[TENSORS];
	uint64_t columns[TENSORS];

	CHECK(params && grad && expected && c->n_tensors <= TENSORS);
	for (uint32_t i = 0; i < c->n_tensors; i++) {
		tensors[i] = (sluice_tensor){ names[i], word(c->tensors + 2 * i * WORD) };
		columns[i] = word(c->tensors + (2 * i + 1) * WORD);
	}
	if (!rank)
		floats(c->start, 0, c->count, params);
	floats(all->rates, 0, 1, &lr);
	const sluice_model_attr attr = { .size = sizeof(attr),
					 .count = c->count,
					 .tensors = tensors,
					 .n_tensors = c->n_tensors,
					 .columns = c->n_tensors ? columns : NULL,
					 .recipe = c->recipe,
					 .shards = c->shards,
					 .lr = lr };

	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	for (uint32_t t = 0; t < all->steps; t++) {
		floats(all->rates, t, 1, &lr);
		floats(c->gradients, ((size_t)t * c->ranks + rank) * c->count, c->count, grad);
		floats(c->expected, ((size_t)t * c->ranks + rank) * c->count, c->count, expected);
		if (!drifts)
			CHECK_OK(sluice_set(model, SLUICE_LR, lr));
		for (uint32_t i = 0; drifts && i < c->count; i++) /* the program's own optimizer */
			params[i] -= lr * grad[i];
		CHECK_OK(sluice_push(model, drifts ? params : grad));
		CHECK_OK(sluice_pull(model, params));
		int same = 1;
		for (uint32_t i = 0; i < c->count && same; i++)
			if (memcmp(params + i, expected + i, sizeof(*params))) {
				fprintf(stderr,
					"%s, %u ranks, %u parameters, %u shards: after step %u "
					"parameter %u is %.9g, methods.py says %.9g\n",
					c->recipe, c->ranks, c->count, c->shards, t, i,
					(double)params[i], (double)expected[i]);
				same = 0;
			}
		CHECK(same);
	}
	sluice_model_close(&model);
	free(params);
	free(grad);
	free(expected);
}

/* Runs all cases with this number of ranks in one job. */
static int train_all(int rank, void *argument)
{
	const struct cases *all = argument;
	const unsigned char *at = all->first;
	sluice_job *job = rank_join(NULL);
	struct one_case c;

	for (uint32_t i = 0; i < all->n; i++) {
		at = case_at(all, at, &c);
		if (c.ranks == (uint32_t)sluice_size(job))
			train(all, &c, job);
	}
	sluice_finalize(&job);
	return 0;
}

static void train__each_recipe_in_1_2_3_and_7_processes__has_the_bits_of_the_numpy_version(
	void **state)
{
	static const int sizes[] = { 1, 2, 3, 7 };
	const unsigned char *at;
	struct cases all;
	struct one_case c;
	uint32_t run = 0;

	read_cases(&all);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		at = all.first;
		for (uint32_t i = 0; i < all.n; i++) {
			at = case_at(&all, at, &c);
			run += c.ranks == (uint32_t)sizes[s];
		}
		assert_true(at == all.end);
		run_ranks(sizes[s], train_all, &all);
	}
	print_message("%u jobs of %u steps, in processes\n", run, all.steps);
	assert_true(run && run == all.n);
	free((void *)(uintptr_t)all.bytes);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			train__each_recipe_in_1_2_3_and_7_processes__has_the_bits_of_the_numpy_version),
	};

	if (argc != 2) {
		printf("skipped: tests/oracle/check.sh gives this program its file\n");
		return SKIPPED;
	}
	path = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
