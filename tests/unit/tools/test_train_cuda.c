/* SPDX-License-Identifier: BSD-3-Clause
 * The operations on layers in GPU memory compared with those in host memory: the same bits if the
 * kernels run on the CPU, and close ones on the GPU of TRAIN_MODULE, whose expf() and sums of
 * products differ. */
#include "tools/train/network.h"
#include "random.h"
#include "cases.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4000 };
static const size_t sizes[] = { 1, 31, 32, 33, 255, 256, 257, 769, MOST };
static const struct compute cpu = { .ops = &compute_cpu };
static struct compute gpu;
static int emulated;

static int begin(void **state)
{
	char device[4096], text[1024];
	const char *named = getenv("TRAIN_MODULE");

	emulated = !named;
	snprintf(device, sizeof(device), "cuda:%s", named ? named : EMULATED_TRAIN_MODULE);
	if (!compute_open(device, &gpu, text, sizeof(text)))
		return 0;
	fprintf(stderr, "%s\n", text);
	return -1;
}

static int end(void **state)
{
	compute_close(&gpu);
	return 0;
}

static void need(const struct compute *c, int rc)
{
	if (rc)
		fail_msg("%s", c->ops->error());
}

static void *new_vector(const struct compute *c, const void *from, size_t bytes)
{
	void *p = NULL;

	need(c, c->ops->alloc(c->state, bytes, &p));
	need(c, c->ops->put(c->state, p, from, bytes));
	return p;
}

/* On a GPU, the sign and the payload of NaN are not those of the CPU. */
static int near(float got, float wanted, double tolerance)
{
	return fabs((double)got - (double)wanted) <= tolerance || (isnan(got) && isnan(wanted));
}

/* Compares both vectors and frees them. */
static void same(float *here, float *there, size_t n, double tolerance)
{
	float *got = malloc(n * sizeof(*got));

	need(&gpu, gpu.ops->get(gpu.state, got, there, n * sizeof(*got)));
	for (size_t i = 0; i < n; i++)
		if (memcmp(&got[i], &here[i], sizeof(*got)) &&
		    (emulated || !near(got[i], here[i], tolerance)))
			fail_msg("%zu of %zu is %a, not %a", i, n, (double)got[i], (double)here[i]);
	free(got);
	cpu.ops->release(NULL, here);
	gpu.ops->release(gpu.state, there);
}

static void fill(float *x, size_t n, uint64_t seed)
{
	struct random r = { seed };

	for (size_t i = 0; i < n; i++)
		x[i] = i % 7 == 3 ? 0.0f : i % 7 == 5 ? -0.0f : random_normal(&r);
	if (n > 40)
		x[40] = NAN;
}

TEST(elementwise__any_size_gives_the_bits_of_the_cpu)
{
	static float a[MOST], b[MOST];

	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
		const size_t n = sizes[s];
		float *here, *there, *from_here, *from_there;

		for (int work = 0; work < 3; work++) {
			fill(a, n, n);
			fill(b, n, n + 1);
			here = new_vector(&cpu, a, n * sizeof(*a));
			there = new_vector(&gpu, a, n * sizeof(*a));
			from_here = new_vector(&cpu, b, n * sizeof(*b));
			from_there = new_vector(&gpu, b, n * sizeof(*b));
			switch (work) {
			case 0:
				need(&cpu, cpu.ops->relu(NULL, here, n));
				need(&gpu, gpu.ops->relu(gpu.state, there, n));
				break;
			case 1:
				need(&cpu, cpu.ops->relu_slope(NULL, here, from_here, n));
				need(&gpu, gpu.ops->relu_slope(gpu.state, there, from_there, n));
				break;
			case 2:
				need(&cpu, cpu.ops->descend(NULL, here, from_here, 0.3f, n));
				need(&gpu, gpu.ops->descend(gpu.state, there, from_there, 0.3f, n));
				break;
			}
			same(here, there, n, 0);
			same(from_here, from_there, n, 0);
		}
	}
}

TEST(bias__any_width_gives_the_bits_of_the_cpu)
{
	static float z[MOST], b[MOST];

	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
		const size_t width = sizes[s], rows = MOST / width, n = rows * width;
		float *here, *there, *bias_here, *bias_there;

		fill(z, n, 3);
		fill(b, width, 4);
		here = new_vector(&cpu, z, n * sizeof(*z));
		there = new_vector(&gpu, z, n * sizeof(*z));
		bias_here = new_vector(&cpu, b, width * sizeof(*b));
		bias_there = new_vector(&gpu, b, width * sizeof(*b));
		need(&cpu, cpu.ops->bias_slope(NULL, bias_here, here, rows, width));
		need(&gpu, gpu.ops->bias_slope(gpu.state, bias_there, there, rows, width));
		need(&cpu, cpu.ops->bias(NULL, here, bias_here, rows, width));
		need(&gpu, gpu.ops->bias(gpu.state, there, bias_there, rows, width));
		same(here, there, n, 0);
		same(bias_here, bias_there, width, 0);
	}
}

/* Uses every transposition, with matrices that are not square, so that a wrong leading dimension is
 * detected. */
TEST(product__any_transposition_gives_the_cpu_s)
{
	enum { ROWS = 5, COLUMNS = 7, INNER = 11 };
	float a[ROWS * INNER], b[INNER * COLUMNS], c[ROWS * COLUMNS];
	struct random r = { 1 };

	for (size_t i = 0; i < ROWS * INNER; i++)
		a[i] = random_normal(&r);
	for (size_t i = 0; i < INNER * COLUMNS; i++)
		b[i] = random_normal(&r);
	for (size_t i = 0; i < ROWS * COLUMNS; i++)
		c[i] = random_normal(&r);
	for (int kind = 0; kind < 8; kind++) {
		struct product p = { .rows = ROWS,
				     .columns = COLUMNS,
				     .inner = INNER,
				     .transpose_a = kind & 1,
				     .transpose_b = kind >> 1 & 1,
				     .add = kind >> 2 };
		float *here[3] = { new_vector(&cpu, a, sizeof(a)), new_vector(&cpu, b, sizeof(b)),
				   new_vector(&cpu, c, sizeof(c)) };
		float *there[3] = { new_vector(&gpu, a, sizeof(a)), new_vector(&gpu, b, sizeof(b)),
				    new_vector(&gpu, c, sizeof(c)) };
		double sum = p.add ? (double)c[COLUMNS + 2] : 0;

		p.a = here[0], p.b = here[1], p.c = here[2];
		need(&cpu, cpu.ops->product(NULL, &p));
		p.a = there[0], p.b = there[1], p.c = there[2];
		need(&gpu, gpu.ops->product(gpu.state, &p));
		for (size_t i = 0; i < INNER; i++) /* row 1, column 2 */
			sum += (double)a[p.transpose_a ? i * ROWS + 1 : INNER + i] *
			       (double)b[p.transpose_b ? 2 * INNER + i : i * COLUMNS + 2];
		assert_true(fabs(sum - (double)here[2][COLUMNS + 2]) < 1e-4);
		same(here[0], there[0], ROWS * INNER, 0);
		same(here[1], there[1], INNER * COLUMNS, 0);
		same(here[2], there[2], ROWS * COLUMNS, 1e-4);
	}
}

TEST(loss__any_kind_gives_the_cpu_s)
{
	enum { ROWS = 300, CLASSES = 10 };
	static const enum loss_kind kinds[] = { LOSS_CROSS_ENTROPY, LOSS_LOGISTIC, LOSS_SQUARED };
	static float z[ROWS * CLASSES], label[ROWS];
	struct row_score scores[ROWS], got[ROWS];
	struct random r = { 1 };

	for (int k = 0; k < 3; k++) {
		const size_t width = k ? 1 : CLASSES;
		struct loss_call call = {
			.kind = kinds[k], .rows = ROWS, .width = width, .scale = 1.0f / ROWS
		};

		for (size_t i = 0; i < ROWS * width; i++)
			z[i] = 5 * random_normal(&r);
		for (size_t i = 0; i < ROWS; i++)
			label[i] = (float)(random_bits(&r) % (k ? 2 : CLASSES));
		float *here = new_vector(&cpu, z, ROWS * width * sizeof(*z));
		float *there = new_vector(&gpu, z, ROWS * width * sizeof(*z));
		float *labels = new_vector(&gpu, label, sizeof(label));
		struct row_score *rows = new_vector(&gpu, scores, sizeof(scores));

		call.z = here, call.label = label, call.score = scores;
		need(&cpu, cpu.ops->loss(NULL, &call));
		call.z = there, call.label = labels, call.score = rows;
		need(&gpu, gpu.ops->loss(gpu.state, &call));
		need(&gpu, gpu.ops->get(gpu.state, got, rows, sizeof(got)));
		for (size_t i = 0; i < ROWS; i++) {
			assert_true(fabs(got[i].loss - scores[i].loss) <=
				    (emulated ? 0 : 1e-5 * (1 + fabs(scores[i].loss))));
			assert_true(got[i].correct == scores[i].correct);
		}
		same(here, there, ROWS * width, 1e-6);
		gpu.ops->release(gpu.state, labels);
		gpu.ops->release(gpu.state, rows);
	}
}

/* If any CUDA call fails, the operation fails with CUDA's text. */
TEST(operations__a_failing_call__minus_one_and_its_sentence)
{
	void (*fail_in)(unsigned, int);
	float x[8] = { 0 }, *p;
	void *runtime, *symbol;

	if (!emulated)
		skip();
	runtime = dlopen(EMULATED_RUNTIME, RTLD_NOW | RTLD_NOLOAD);
	assert_non_null(runtime);
	symbol = dlsym(runtime, "emulated_fail");
	memcpy(&fail_in, &symbol, sizeof(symbol));
	p = new_vector(&gpu, x, sizeof(x));
	const struct loss_call call = {
		.z = p, .label = p, .rows = 1, .width = 1, .kind = LOSS_SQUARED
	};
	for (int operation = 0; operation < 8; operation++) {
		void *unused = NULL;
		int rc = 0;

		fail_in(0, 719);
		switch (operation) {
		case 0: rc = gpu.ops->relu(gpu.state, p, 8); break;
		case 1: rc = gpu.ops->bias(gpu.state, p, p, 1, 8); break;
		case 2: rc = gpu.ops->bias_slope(gpu.state, p, p, 1, 8); break;
		case 3: rc = gpu.ops->loss(gpu.state, &call); break;
		case 4: rc = gpu.ops->put(gpu.state, p, x, sizeof(x)); break;
		case 5: rc = gpu.ops->get(gpu.state, x, p, sizeof(x)); break;
		case 6: rc = gpu.ops->zero(gpu.state, p, sizeof(x)); break;
		case 7: rc = gpu.ops->alloc(gpu.state, 8, &unused); break;
		}
		assert_int_equal(rc, -1);
		assert_non_null(
			strstr(gpu.ops->error(), "failed on GPU 0: cudaErrorLaunchFailure"));
	}
	gpu.ops->release(gpu.state, p);
	dlclose(runtime);
}

TEST(compute_open__what_is_missing_is_said)
{
	struct compute none;
	char text[1024];

	assert_int_equal(compute_open("cuda:/nowhere/module.so", &none, text, sizeof(text)), -1);
	assert_non_null(strstr(text, "/nowhere/module.so"));
	assert_non_null(strstr(text, "--with-cuda=yes"));
	assert_null(none.ops);
	assert_int_equal(compute_open("cuda:" EMULATED_RUNTIME, &none, text, sizeof(text)), -1);
	assert_non_null(strstr(text, "is not a module of this build of sluice-train"));
}

int main(void)
{
	return run_cases(begin, end);
}
