/* SPDX-License-Identifier: BSD-3-Clause
 * Gradients in half precision, bfloat16 and 8 bits with a scale: the same bits as pushing the
 * floats that they mean, for every kind of push, recipe and policy; every code means what the
 * standards say. */
#include "base/error.h"
#include "narrow.h"
#include "same_bits.h"
#include "model/model.h"
#include "cases.h"
#include <string.h>

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

static const int types[] = { SLUICE_F16, SLUICE_BF16, SLUICE_F8_E4M3FN, SLUICE_F8_E5M2 };
enum { TYPES = sizeof types / sizeof *types, KINDS = 2 * TYPES };

static uint32_t mix(int step, int rank, size_t i)
{
	return (uint32_t)((noise(5, (uint64_t)step, (uint64_t)rank, i) + 1) * 0x1p31f);
}

/* Codes of the two gradients of a step, and their values. */
struct gradients {
	uint16_t narrow[2][COUNT];
	float wide[2][COUNT];
};

struct kind {
	int type, in_ranges;
};

static struct gradients drawn;

static const struct kind *kind_of(const struct side *s)
{
	return s->training->own;
}

static void draw(float *grad, const float *params, const struct side *s)
{
	const int type = kind_of(s)->type;

	for (int which = 0; which < 2; which++)
		for (size_t i = 0; i < COUNT; i++) {
			const uint32_t bits = mix(2 * (int)s->step + which, s->rank, i);
			uint16_t code = narrow_code(bits ^ bits >> 7, type);

			if (strstr(s->attr.recipe, "nonfinite") && s->step == 2 && i % 500 == 77)
				code = narrow_spoilt(type, i % 1000 == 77);
			narrow_put(drawn.narrow[which], i, code, type);
			drawn.wide[which][i] = narrow_scaled(code, type);
		}
	memcpy(grad, drawn.wide[0], sizeof drawn.wide[0]);
}

static void push(struct side *s, const void *first, const void *second, size_t width)
{
	const uint8_t *bytes = first;

	if (s->model->recipe.signal.kind == SIGNAL_STORM) {
		CHECK_OK(sluice_push_pair(s->model, first, second));
	} else if (!kind_of(s)->in_ranges || !width) {
		CHECK_OK(sluice_push(s->model, first));
	} else {
		CHECK_OK(sluice_push_range(s->model, bytes + 3001 * width, 3001, COUNT - 3001));
		CHECK_OK(sluice_push_range(s->model, bytes, 0, 3001));
	}
}

static void push_wide(struct side *s, const float *grad)
{
	push(s, grad, drawn.wide[1], 0);
}

/* Each rank has another type. */
static void open_narrow(struct side *s)
{
	s->attr.grad_type = s->rank == 1 ? kind_of(s)->type : SLUICE_F32;
	side_open(s);
	CHECK_OK(sluice_set(s->model, SLUICE_GRAD_SCALE, narrow_scale(kind_of(s)->type)));
}

static void push_narrow(struct side *s, const float *grad)
{
	if (s->rank == 1)
		push(s, drawn.narrow[0], drawn.narrow[1], narrow_bytes(kind_of(s)->type));
	else
		push(s, grad, drawn.wide[1], sizeof(float));
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

TEST_IN_JOB(push__gradient_in_few_bits_gives_the_bits_of_its_floats, 2)
{
	static const struct way wide = { .push = push_wide },
				narrow = { .open = open_narrow, .push = push_narrow };

	for (size_t r = 0; r < KINDS * sizeof recipes / sizeof *recipes; r++) {
		const char *recipe = recipes[r / KINDS];
		const struct kind kind = { types[r / 2 % TYPES], r % 2 };

		if (!kind.in_ranges || takes_ranges(recipe))
			same_bits(job,
				  &(struct training){ .attr = ATTR(.count = COUNT, .shards = 3,
								   .recipe = recipe),
						      .steps = STEPS,
						      .gradient = draw,
						      .own = &kind },
				  &wide, &narrow);
	}
}

/* One worker sends everything, so the pull returns what was pushed. */
static void send_every_code(sluice_job *job, int rank, void *argument)
{
	static uint16_t code[CODES];
	static float params[CODES], mean[CODES];
	const int type = *(const int *)argument;
	const uint32_t codes = narrow_bytes(type) == 1 ? 256 : CODES;
	for (uint32_t i = 0; i < codes; i++) {
		const int finite = isfinite(narrow_value((uint16_t)i, type));
		narrow_put(code, i, finite ? (uint16_t)i : 0, type);
	}
	sluice_model *model = OPEN(job, params, .count = codes,
				   .recipe = "up=all down=all update=none", .grad_type = type);
	for (int scaled = 0; scaled < 2; scaled++) {
		if (scaled)
			CHECK_OK(sluice_set(model, SLUICE_GRAD_SCALE, narrow_scale(type)));
		CHECK_STEP(model, code, mean);
		for (uint32_t i = 0; i < codes; i++) {
			const float value = narrow_value((uint16_t)i, type);
			const float factor = scaled ? narrow_scale(type) : 1;
			CHECK(mean[i] == (isfinite(value) ? factor * value : 0));
		}
	}
	sluice_model_close(&model);
}

TEST(push__every_code_means_what_the_standard_says)
{
	for (int i = 0; i < TYPES; i++)
		run_in_job(1, send_every_code, (void *)&types[i]);
}

/* Codes of NaN and infinity, and a scale that makes a finite code infinite. */
static void push_spoilt_codes(sluice_job *job, int rank, void *argument)
{
	static const struct spoilt {
		int type;
		uint8_t code;
		float scale;
		const char *is;
	} cases[] = {
		{ SLUICE_F8_E4M3FN, 0x7f, 1, "is NaN at index 5" },
		{ SLUICE_F8_E4M3FN, 0xff, 0.5f, "is NaN at index 5" },
		{ SLUICE_F8_E4M3FN, 0x7e, 1e36f, "is infinite at index 5" },
		{ SLUICE_F8_E5M2, 0x7c, 1e-9f, "is infinite at index 5" },
		{ SLUICE_F8_E5M2, 0xfc, 1, "is infinite at index 5" },
		{ SLUICE_F8_E5M2, 0x7d, 1, "is NaN at index 5" },
		{ SLUICE_F8_E5M2, 0xfb, 1e34f, "is infinite at index 5" },
	};
	enum { CASES = sizeof cases / sizeof *cases };
	static float params[COUNT];
	const struct spoilt *c = &cases[*(const int *)argument % CASES];
	uint8_t code[COUNT] = { [5] = c->code };
	log_capture();
	sluice_model *model = OPEN(job, params, .count = COUNT, .recipe = "up=topk(0.02) down=all",
				   .grad_type = c->type);
	CHECK_OK(sluice_set(model, SLUICE_GRAD_SCALE, c->scale));
	CHECK(sluice_push(model, code) == SLUICE_ENUMERIC);
	CHECK(error_says(c->is, NULL));
	sluice_model_close(&model);
}

TEST(push__code_of_8_bits_is_not_finite__is_named)
{
	for (int i = 0; i < 7; i++)
		run_in_job(1, push_spoilt_codes, &i);
}

TEST_IN_JOB(scale__impossible_or_in_the_middle_of_a_push__is_refused, 1)
{
	static const float bad[] = { 0, -1, NAN, INFINITY };
	static float params[COUNT], mean[COUNT];
	static uint8_t code[COUNT];
	sluice_model_attr attr = ATTR(.count = COUNT, .recipe = "up=all down=all update=none",
				      .grad_type = SLUICE_F8_E5M2);
	sluice_segment piece = { .data = code, .count = COUNT, .type = SLUICE_F8_E5M2 };
	memset(code, 0x3c, sizeof code); /* 1 */
	log_capture();
	sluice_model *model = rank_open(job, params, attr);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK(sluice_set(model, SLUICE_GRAD_SCALE, bad[i]) == SLUICE_EINVAL);
		CHECK(error_says("sluice_set: SLUICE_GRAD_SCALE is ", "must be finite and > 0"));
		piece.scale = bad[i];
		CHECK(!i || sluice_push_vector(model, IN_PIECES(&piece, 1)) == SLUICE_EINVAL);
		CHECK(!i || error_says("segment 0 has scale=", "must be finite"));
	}
	CHECK(sluice_set(model, SLUICE_GRAD_SCALE, 1e39) == SLUICE_EINVAL);
	CHECK(error_says("SLUICE_GRAD_SCALE is 1e+39", "beyond the range of floats"));
	CHECK(sluice_set(NULL, SLUICE_GRAD_SCALE, 1) == SLUICE_EINVAL);
	CHECK_OK(sluice_push_range(model, code, 0, 9));
	CHECK(sluice_set(model, SLUICE_GRAD_SCALE, 2) == SLUICE_EINVAL);
	CHECK(error_says("a gradient has a single scale",
			 "ranges of this gradient were already pushed"));
	CHECK_OK(sluice_push_range(model, code, 9, COUNT - 9));
	CHECK_OK(sluice_set(model, SLUICE_GRAD_SCALE, 2)); /* the push has used its scale */
	CHECK_OK(sluice_pull(model, mean));
	CHECK(mean[0] == 1 && mean[COUNT - 1] == 1);
	piece.scale = 0;
	CHECK_OK(sluice_push_vector(model, IN_PIECES(&piece, 1)));
	CHECK_OK(sluice_pull(model, mean));
	CHECK(mean[0] == 2 && mean[COUNT - 1] == 2);
	CHECK(sluice_push(model, code) == 0);
	piece = (sluice_segment){ .data = mean, .count = COUNT, .type = SLUICE_F8_E5M2 };
	CHECK(sluice_pull_vector(model, IN_PIECES(&piece, 1)) == SLUICE_EINVAL);
	CHECK(error_says("segments[0].type=7, an 8-bit type", "only gradients may have"));
	CHECK_OK(sluice_pull(model, mean));
	sluice_model_close(&model);
	attr.param_type = SLUICE_F8_E4M3FN;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
	CHECK(error_says("param_type=6, an 8-bit type", "only gradients may have"));
	attr.param_type = SLUICE_F32;
	attr.segments = &piece;
	attr.n_segments = 1;
	CHECK(sluice_model_open(job, &attr, NULL, &model) == SLUICE_EINVAL);
	CHECK(error_says("segments[0].type=7, an 8-bit type", "only gradients may have"));
}

static void push_nan(sluice_job *job, int rank, void *argument)
{
	static uint16_t code[COUNT];
	static float params[COUNT];
	sluice_tensor tensors[] = { { "weight", 3000 }, { "bias", COUNT - 3000 } };
	log_capture();
	sluice_model *model = OPEN(job, params, .count = COUNT, .recipe = argument,
				   .tensors = tensors, .n_tensors = 2, .grad_type = SLUICE_BF16);
	code[3021] = 0x7fc0;
	code[3022] = 0xff80;
	CHECK(sluice_push(model, code) == SLUICE_ENUMERIC);
	CHECK(error_says("is NaN at index 21 of tensor bias", NULL));
	sluice_model_close(&model);
}

TEST(push__nan_in_16_bits_is_named)
{
	run_in_job(1, push_nan, "up=topk(0.02) down=all");
	run_in_job(1, push_nan, "up=all down=all clip=1");
	run_in_job(1, push_nan, "up=topk(0.02) down=all clip=1");
}

TEST_IN_JOB(model_open__type_of_gradients_is_judged_where_the_size_covers_it, 1)
{
	static float params[COUNT];
	sluice_model_attr attr = { .size = offsetof(sluice_model_attr, grad_type),
				   .count = COUNT,
				   .grad_type = 99 };
	sluice_model *model = rank_open(job, params, attr); /* compiled before the types were
							       added */
	CHECK_STEP(model, params, params);
	sluice_model_close(&model);
	log_capture();
	attr.size = sizeof attr;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
	CHECK(error_says("grad_type=99", NULL));
}
