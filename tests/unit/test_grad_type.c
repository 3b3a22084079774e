/* SPDX-License-Identifier: BSD-3-Clause
 * Gradients in half precision and bfloat16: the same bits as pushing the floats that they mean, for
 * every kind of push, recipe and policy; every code means what IEEE 754 says. */
#include "base/error.h"
#include "narrow.h"
#include "ranks.h"
#include "worker/worker.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

/* Not a multiple of any block or chunk. */
enum { COUNT = 4999, STEPS = 5, CODES = 65536 };

static const char *const recipes[] = {
	"up=all down=all",
	"up=topk(0.01) down=topk(0.05)",
	"up=topk(0.02),f16 down=all memory=residual(inside) nonfinite=skip",
	"up=topk(0.01) down=all nonfinite=zero",
	"up=topk(0.02) down=all clip=0.5",
	"up=topk(0.02) down=topk(0.1) signal=momentum(0.9)",
	"up=threshold(0.5) down=all memory=residual",
	"up=topk(0.05) down=all signal=gradient,noise(0.1)",
	"up=all down=all signal=storm(0.25) update=ema(0.25)",
	"up=all down=all signal=storm(0.25) update=ema(0.25) nonfinite=zero",
	"up=topk(0.1) down=all when=every(2) memory=residual",
	"up=all,grid(4) down=all signal=innovation",
	"up=topk(0.02) down=all warmup=2 reset=3",
};

static uint32_t mix(int step, int rank, size_t i)
{
	return (uint32_t)((noise(5, (uint64_t)step, (uint64_t)rank, i) + 1) * 0x1p31f);
}

struct gradients {
	int type;
	uint16_t narrow[2][COUNT];
	float wide[2][COUNT];
};

static void fill(struct gradients *g, int step, int rank, const char *recipe)
{
	for (int which = 0; which < 2; which++)
		for (size_t i = 0; i < COUNT; i++) {
			const uint32_t bits = mix(2 * step + which, rank, i);
			uint16_t code = narrow_code(bits ^ bits >> 7, g->type);

			if (strstr(recipe, "nonfinite") && step == 2 && i % 1000 == 77)
				code = g->type == SLUICE_F16 ? (i & 1 ? 0x7c00 : 0x7e00) :
							       (i & 1 ? 0xff80 : 0x7fc1);
			g->narrow[which][i] = code;
			g->wide[which][i] = narrow_value(code, g->type);
		}
}

static int push(sluice_model *model, const void *first, const void *second, size_t width,
		int in_ranges)
{
	const uint8_t *bytes = first;

	if (model->recipe.signal == SIGNAL_STORM)
		return sluice_push_pair(model, first, second);
	if (!in_ranges)
		return sluice_push(model, first);
	int rc = sluice_push_range(model, bytes + 3001 * width, 3001, COUNT - 3001);
	return rc ? rc : sluice_push_range(model, bytes, 0, 3001);
}

static int takes_ranges(const char *recipe)
{
	static const char *const whole[] = {
		"storm", "clip", "skip", "innovation", "every", "noise"
	};

	for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
		if (strstr(recipe, whole[i]))
			return 0;
	return 1;
}

static int train_both(int rank, void *argument)
{
	static struct gradients g;
	static float wide[COUNT], narrow[COUNT];
	sluice_job *job = rank_join(NULL);
	(void)argument;
	for (size_t r = 0; r < 4 * sizeof recipes / sizeof *recipes; r++) {
		const char *recipe = recipes[r / 4];
		const int in_ranges = r % 2;
		sluice_model *a = NULL, *b = NULL;
		sluice_model_attr attr = {
			.size = sizeof attr, .count = COUNT, .recipe = recipe, .shards = 3
		};
		if (in_ranges && !takes_ranges(recipe))
			continue;
		g.type = r / 2 % 2 ? SLUICE_BF16 : SLUICE_F16;
		for (size_t i = 0; i < COUNT; i++)
			wide[i] = narrow[i] = noise(1, 0, 0, i);
		CHECK_OK(sluice_model_open(job, &attr, wide, &a));
		attr.grad_type = rank == 1 ? g.type : SLUICE_F32; /* each rank has its own */
		CHECK_OK(sluice_model_open(job, &attr, narrow, &b));
		for (int step = 1; step <= STEPS; step++) {
			sluice_model_stats x = { .size = sizeof x }, y = { .size = sizeof y };
			fill(&g, step, rank, recipe);
			CHECK_OK(push(a, g.wide[0], g.wide[1], sizeof(float), 0));
			if (rank == 1)
				CHECK_OK(push(b, g.narrow[0], g.narrow[1], sizeof(uint16_t),
					      in_ranges));
			else
				CHECK_OK(push(b, g.wide[0], g.wide[1], sizeof(float), in_ranges));
			CHECK_OK(sluice_pull(a, wide));
			CHECK_OK(sluice_pull(b, narrow));
			CHECK(!memcmp(wide, narrow, sizeof wide));
			CHECK(a->recipe.memory == MEMORY_NONE ||
			      !memcmp(worker_residual(a), worker_residual(b), sizeof wide));
			CHECK_OK(sluice_stats(a, &x));
			CHECK_OK(sluice_stats(b, &y));
			CHECK(x.pushed_bytes == y.pushed_bytes &&
			      x.nonfinite_elements == y.nonfinite_elements);
		}
		sluice_model_close(&b);
		sluice_model_close(&a);
	}
	sluice_finalize(&job);
	return 0;
}

static void push__gradient_in_16_bits_gives_the_bits_of_its_floats(void **state)
{
	(void)state;
	run_ranks(2, train_both, NULL);
}

/* One worker, everything sent: what comes back is what was pushed. */
static int send_every_code(int rank, void *argument)
{
	static uint16_t code[CODES];
	static float params[CODES], mean[CODES];
	const int type = *(const int *)argument;
	sluice_job *job = rank_join(NULL);
	sluice_model *model = NULL;
	sluice_model_attr attr = { .size = sizeof attr,
				   .count = CODES,
				   .recipe = "up=all down=all update=none",
				   .grad_type = type };
	(void)rank;
	for (uint32_t i = 0; i < CODES; i++)
		code[i] = isfinite(narrow_value((uint16_t)i, type)) ? (uint16_t)i : 0;
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK_OK(sluice_push(model, code));
	CHECK_OK(sluice_pull_mean(model, mean));
	for (uint32_t i = 0; i < CODES; i++)
		CHECK(mean[i] == narrow_value(code[i], type));
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static void push__every_code_means_what_the_standard_says(void **state)
{
	static int types[] = { SLUICE_F16, SLUICE_BF16 };
	(void)state;
	run_ranks(1, send_every_code, &types[0]);
	run_ranks(1, send_every_code, &types[1]);
}

static int push_nan(int rank, void *argument)
{
	static uint16_t code[COUNT];
	static float params[COUNT];
	sluice_job *job = rank_join(NULL);
	sluice_model *model = NULL;
	sluice_tensor tensors[] = { { "weight", 3000 }, { "bias", COUNT - 3000 } };
	sluice_model_attr attr = { .size = sizeof attr,
				   .count = COUNT,
				   .recipe = argument,
				   .tensors = tensors,
				   .n_tensors = 2,
				   .grad_type = SLUICE_BF16 };
	(void)rank;
	log_capture();
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	code[3021] = 0x7fc0;
	code[3022] = 0xff80;
	CHECK(sluice_push(model, code) == SLUICE_ENUMERIC);
	CHECK(error_says("is NaN at index 21 of tensor bias", NULL));
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}

static void push__nan_in_16_bits_is_named(void **state)
{
	(void)state;
	run_ranks(1, push_nan, "up=topk(0.02) down=all");
	run_ranks(1, push_nan, "up=all down=all clip=1");
}

static int open_with_types(int rank, void *argument)
{
	static float params[COUNT];
	sluice_job *job = rank_join(NULL);
	sluice_model *model = NULL;
	sluice_model_attr attr = { .size = offsetof(sluice_model_attr, grad_type),
				   .count = COUNT,
				   .grad_type = 99 };
	(void)rank, (void)argument;
	CHECK_OK(sluice_model_open(job, &attr, params,
				   &model)); /* compiled before there were types */
	CHECK_OK(sluice_push(model, params));
	CHECK_OK(sluice_pull(model, params));
	sluice_model_close(&model);
	log_capture();
	attr.size = sizeof attr;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
	CHECK(error_says("grad_type=99", NULL));
	sluice_finalize(&job);
	return 0;
}

static void model_open__type_of_gradients_is_judged_where_the_size_covers_it(void **state)
{
	(void)state;
	run_ranks(1, open_with_types, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(push__gradient_in_16_bits_gives_the_bits_of_its_floats),
		cmocka_unit_test(push__every_code_means_what_the_standard_says),
		cmocka_unit_test(push__nan_in_16_bits_is_named),
		cmocka_unit_test(model_open__type_of_gradients_is_judged_where_the_size_covers_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
