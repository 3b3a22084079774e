/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors in several pieces give the bits of one vector, for all kinds of recipes, cuts and types.
 * Parameters and means in 16 bits are the floats of another model, rounded as in IEEE 754. */
#include "four_tensors.h"
#include "base/bytes.h"
#include "narrow.h"
#include "ranks.h"
#include "thinned.h"
#include "worker/state.h"
#include "cases.h"
#include <string.h>

/* ---- pieces ------------------------------------------------------------------ */

enum { PIECES_MOST = 64 };

/* A vector in pieces that are far apart, none of which begins at a cache line. */
struct scattered {
	sluice_segment of[PIECES_MOST];
	size_t n;
	uint64_t memory[COUNT + 2 * PIECES_MOST];
};

/* Makes the pieces: an empty one, one with one element, odd numbers of elements. */
static void scatter(struct scattered *s, unsigned cut, const int *types, unsigned n_types)
{
	static const uint64_t lengths[4][6] = {
		{ 1, 0, 37, 500, 3, 129 }, { COUNT }, { 0, 999, 1, 1, 499 }, { 768, 63, 0, 257, 2 }
	};
	uint64_t at = 0, word = 0;
	s->n = 0;
	for (unsigned i = 0; at < COUNT || i % 6; i++) {
		const int type = types[(i + cut) % n_types];
		const uint64_t length = lengths[cut % 4][i % 6],
			       here = length < COUNT - at ? length : COUNT - at;
		const int eight = type != SLUICE_F32 && narrow_bytes(type) == 1;
		uint8_t *data = (uint8_t *)&s->memory[word] + (type == SLUICE_F32 ? 4 :
							       eight              ? 3 :
										    2);
		CHECK(s->n < PIECES_MOST);
		s->of[s->n++] = (sluice_segment){ .data = here ? data : NULL,
						  .count = here,
						  .type = type,
						  .scale = eight && i % 2 ? 0.05f : 0 };
		at += here;
		word += here * (type == SLUICE_F32 ? 4 : 2) / 8 + 2;
	}
}

static float get(const sluice_segment *p, uint64_t i)
{
	if (p->type == SLUICE_F32)
		return ((const float *)p->data)[i];
	if (narrow_bytes(p->type) == 2)
		return narrow_value(((const uint16_t *)p->data)[i], p->type);
	return (p->scale > 0 ? p->scale : narrow_scale(p->type)) *
	       narrow_value(((const uint8_t *)p->data)[i], p->type);
}

static void read_all(const struct scattered *s, float *to)
{
	for (size_t p = 0; p < s->n; p++)
		for (uint64_t i = 0; i < s->of[p].count; i++)
			*to++ = get(&s->of[p], i);
}

/* Returns the code nearest to v, or the even one of two codes that are equally near. Uses only
 * arithmetic. */
static uint16_t nearest(float v, int type)
{
	const int mantissa_bits = type == SLUICE_F16 ? 10 : 7;
	const int least = type == SLUICE_F16 ? -14 : -126;
	const double largest = (double)narrow_value(type == SLUICE_F16 ? 0x7bff : 0x7f7f, type);
	int exponent;
	frexp((double)fabsf(v), &exponent);
	exponent = exponent - 1 < least ? least : exponent - 1;
	const double step = ldexp(1, exponent - mantissa_bits);
	const double rounded = nearbyint((double)fabsf(v) / step) * step;
	uint16_t low = 0, high = type == SLUICE_F16 ? 0x7c00 : 0x7f80;
	if (rounded > largest)
		low = high;
	while (low < high) { /* codes ascend like their values */
		const uint16_t middle = (uint16_t)((low + high) / 2);
		if ((double)narrow_value(middle, type) < rounded)
			low = (uint16_t)(middle + 1);
		else
			high = middle;
	}
	return (uint16_t)(low | (signbit(v) ? 0x8000 : 0));
}

static void set(const sluice_segment *p, uint64_t i, float v)
{
	if (p->type == SLUICE_F32)
		((float *)p->data)[i] = v;
	else if (narrow_bytes(p->type) == 2)
		((uint16_t *)p->data)[i] = nearest(v, p->type);
	else if (isfinite(v)) /* some code */
		narrow_put(p->data, i, narrow_code(float_bits(v) * 2654435761u, p->type), p->type);
	else
		narrow_put(p->data, i, narrow_spoilt(p->type, isnan(v)), p->type);
}

static void write_all(const struct scattered *s, const float *from)
{
	for (size_t p = 0; p < s->n; p++)
		for (uint64_t i = 0; i < s->of[p].count; i++)
			set(&s->of[p], i, *from++);
}

/* Checks that each element is the element of flat, rounded to the type of its piece. */
static void check_rounded(const struct scattered *s, const float *flat)
{
	for (size_t p = 0; p < s->n; p++)
		for (uint64_t i = 0; i < s->of[p].count; i++, flat++) {
			const float had = get(&s->of[p], i);
			const float want = s->of[p].type == SLUICE_F32 ?
						   *flat :
						   narrow_value(nearest(*flat, s->of[p].type),
								s->of[p].type);
			CHECK(!memcmp(&had, &want, sizeof had));
		}
}

/* ---- the same bits ----------------------------------------------------------- */

static const char *const recipes[] = {
	"up=all down=all",
	"up=all down=all update=none",
	"up=all down=all memory=residual update=momentum(0.9)",
	"up=topk(0.01) down=topk(0.05)",
	"up=topk(0.02) down=all update=none clip=0.5",
	"up=topk(0.02) down=topk(0.1),bf16 signal=momentum(0.9) nonfinite=skip",
	"up=topk(0.01) down=all memory=none nonfinite=zero",
	"up=threshold(0.02) down=all update=momentum(0.5) dense=*.bias",
	"up=all,uniform(3,64) down=topk(0.1),uniform(2)",
	"up=topk(0.05) down=all signal=gradient,noise(0.1) memory=lowpass(0.3)",
	"up=topk(0.05) down=all signal=igt(0.5) update=ema(0.5)",
	"up=cyclic(0.1) down=all",
	"up=sketch(0.05,5,1.6,4) down=all",
	"up=topk(0.1) down=all when=every(2)",
	"up=all down=all signal=innovation when=lazy(10,0.1)",
	"up=all down=all when=async(4)",
	"up=topk(0.05) down=topk(0.1) reset=2 warmup=2",
};
enum { RECIPES = sizeof recipes / sizeof *recipes, STEPS = 4 };

/* The types of a case's pushed and pulled pieces. */
static const struct types {
	int grad[2], param[2];
	int param_type; /* type in the attributes */
} kinds[] = {
	{ { SLUICE_F32, SLUICE_F32 }, { SLUICE_F32, SLUICE_F32 }, SLUICE_F32 },
	{ { SLUICE_F32, SLUICE_BF16 }, { SLUICE_BF16, SLUICE_F32 }, SLUICE_BF16 },
	{ { SLUICE_F16, SLUICE_BF16 }, { SLUICE_F16, SLUICE_F16 }, SLUICE_F16 },
	{ { SLUICE_F8_E4M3FN, SLUICE_F8_E5M2 }, { SLUICE_F32, SLUICE_F32 }, SLUICE_F32 },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Returns 1 for a recipe that needs earlier parameters, which then must have 32 bits. */
static int refuses(const char *recipe, const struct types *types)
{
	return strstr(recipe, "igt") && types->param_type != SLUICE_F32;
}

static void pull(sluice_model *model, const struct scattered *target, int way, int none)
{
	static const uint64_t cuts[] = { 0, 3, 600, 601, 1201, COUNT };
	if (way == 0) {
		CHECK_OK(sluice_pull_vector(model, IN_PIECES(target->of, target->n)));
	} else if (way == 1 || none) {
		CHECK_OK(sluice_pull_begin(model, IN_PIECES(target->of, target->n)));
		for (int i = 4; i >= 0; i--)
			CHECK_OK(sluice_pull_range(model, cuts[i], cuts[i + 1] - cuts[i]));
	} else if (way == 2) {
		CHECK_OK(sluice_pull(model, NULL));
	} else {
		CHECK_OK(sluice_pull_begin(model, &(sluice_vector){ .data = NULL }));
		CHECK_OK(sluice_pull_range(model, 0, COUNT));
	}
}

/* Trains two models alike: one with vectors in one piece, one with vectors in several. */
static void train_both(sluice_job *job, int rank, const char *recipe, const struct types *types,
		       unsigned cut)
{
	static struct scattered grad, params, mean;
	float flat[COUNT], flat_mean[COUNT], flat_grad[COUNT];
	const int none = strstr(recipe, "update=none") != NULL;
	sluice_model *a = NULL, *b = NULL;
	sluice_model_attr attr = attributes(recipe, 1 + cut % 3);
	scatter(&params, cut, types->param, 2);
	for (int j = 0; j < COUNT; j++)
		flat[j] = rank ? 0 : noise(2, 0, 0, (uint64_t)j);
	write_all(&params, flat);
	read_all(&params, flat);
	CHECK_OK(sluice_model_open(job, &attr, flat, &a));
	attr.param_type = types->param_type;
	attr.segments = params.of;
	attr.n_segments = params.n;
	CHECK_OK(sluice_model_open(job, &attr, NULL, &b));
	check_rounded(&params, flat);
	CHECK_OK(sluice_set(b, SLUICE_GRAD_SCALE, narrow_scale(SLUICE_F8_E4M3FN)));
	sluice_model_stats had = { .size = sizeof had }, has = { .size = sizeof has };
	CHECK_OK(sluice_stats(a, &had));
	CHECK_OK(sluice_stats(b, &has));
	/* The copy takes memory, unless it is the common model that the worker keeps. */
	CHECK(has.memory_bytes - had.memory_bytes ==
	      (none || !types->param_type || strstr(recipe, "every") ? 0 : sizeof flat));
	for (uint64_t step = 1; step <= STEPS; step++) {
		scatter(&grad, cut + (unsigned)step + (unsigned)rank, types->grad, 2);
		fill_gradient(flat_grad, rank, step, flat);
		write_all(&grad, flat_grad);
		if (strstr(recipe, "nonfinite") && step == 2)
			for (size_t p = 0; p < grad.n && rank; p++)
				for (uint64_t i = 7; i < grad.of[p].count; i += 100)
					set(&grad.of[p], i, i % 3 ? NAN : INFINITY);
		read_all(&grad, flat_grad);
		CHECK_OK(sluice_push(a, flat_grad));
		CHECK_OK(sluice_push_vector(b, IN_PIECES(grad.of, grad.n)));
		CHECK(!memcmp(worker_residual(a->worker), worker_residual(b->worker),
			      sizeof flat) ||
		      a->recipe.memory.kind == MEMORY_NONE || strstr(recipe, "up=all down=all"));
		for (size_t p = 0; p < grad.n; p++) /* the caller may reuse it */
			for (uint64_t i = 0; i < grad.of[p].count; i++)
				set(&grad.of[p], i, 99);
		if (none) {
			scatter(&mean, cut + (unsigned)step, types->param, 2);
			CHECK_OK(sluice_pull(a, flat_mean));
			pull(b, &mean, (int)(step + cut) % 2, 1);
			check_rounded(&mean, flat_mean);
		} else {
			CHECK_OK(sluice_pull(a, flat));
			pull(b, &params, (int)(step + cut) % 4, 0);
			check_rounded(&params, flat);
		}
		CHECK(step_of(b).steps == step);
	}
	sluice_model_close(&a);
	sluice_model_close(&b);
}

TEST_IN_JOB(push_and_pull__in_pieces_of_any_cut_and_type__same_bits_as_in_one, 1)
{
	for (unsigned i = 0; i < RECIPES * KINDS; i++) {
		check_of = recipes[i / KINDS];
		if (!thinned(i, 4) && !refuses(recipes[i / KINDS], &kinds[i % KINDS]))
			for (unsigned cut = 0; cut < 4; cut += 1 + (i + cut) % 2)
				train_both(job, rank, recipes[i / KINDS], &kinds[i % KINDS], cut);
	}
	check_of = NULL;
}

/* With async, the order of workers is random, so only one worker is used. */
TEST_IN_JOB(push_and_pull__in_pieces_cut_otherwise_on_each_rank__same_bits_as_in_one, 3)
{
	for (unsigned i = 0; i < RECIPES * KINDS; i++) {
		check_of = recipes[i / KINDS];
		if (!thinned(i, 4) && !refuses(recipes[i / KINDS], &kinds[i % KINDS]) &&
		    !strstr(recipes[i / KINDS], "async"))
			train_both(job, rank, recipes[i / KINDS], &kinds[i % KINDS], i);
	}
	check_of = NULL;
}

/* ---- one vector of 16 bits ---------------------------------------------------- */

/* Rounds difficult values, too: ties, the smallest numbers, and values beyond the range. */
static void round_all(sluice_job *job, int rank, void *argument)
{
	static const float hard[] = { 1.00048828125f, 1.00146484375f, 1.00390625f, 1.01171875f,
				      65519.0f,       65520.0f,       -70000.0f,   0x1p-24f,
				      0x1p-25f,       0x1.8p-25f,     0x1.8p-24f,  -0x1p-26f,
				      0x1.ffp127f,    0x1.fep127f,    3.3e38f,     0x1p-133f };
	enum { N = 16, ROUNDS = 40 };
	const int type = *(const int *)argument;
	uint16_t start[N] = { 0 }, mean[N];
	sluice_model *model = OPEN(job, start, .count = N, .recipe = "up=all down=all update=none",
				   .param_type = type);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		float grad[N];
		for (int i = 0; i < N; i++)
			grad[i] = round ? ldexpf(noise(4, round, 0, (uint64_t)i),
						 (int)(round * 5) % 60 - 30) :
					  hard[i];
		CHECK_STEP(model, grad, mean);
		for (int i = 0; i < N; i++)
			CHECK(mean[i] == nearest(grad[i], type));
	}
	sluice_model_close(&model);
}

TEST(pull_mean__of_16_bits__is_rounded_to_nearest_even)
{
	static int types[] = { SLUICE_F16, SLUICE_BF16 };
	run_in_job(1, round_all, &types[0]);
	run_in_job(1, round_all, &types[1]);
}

/* Steps far below the last place of the parameters still add up. */
TEST_IN_JOB(pull__of_16_bits__rounds_from_the_copy_and_loses_no_small_step, 2)
{
	enum { N = 3 };
	uint16_t params[N] = { 0x3f80, 0x3f80, 0x3f80 }; /* 1 */
	float grad[N] = { 1, 0, -1 };
	sluice_model *model = OPEN(job, params, .count = N, .recipe = "up=all down=all update=sgd",
				   .lr = 0x1p-12f, .param_type = SLUICE_BF16);
	for (int step = 1; step <= 64; step++) {
		CHECK_STEP(model, grad, params);
		for (int i = 0; i < N; i++)
			CHECK(params[i] ==
			      nearest(1 - grad[i] * 0x1p-12f * (float)step, SLUICE_BF16));
	}
	CHECK(params[0] == nearest(1 - 0x1p-6f, SLUICE_BF16) && params[1] == 0x3f80);
	sluice_model_close(&model);
}

/* A model with one vector of floats saves a state, which is loaded into pieces of 16 bits. One
 * worker has no gradients left. */
TEST_IN_JOB(load_and_join__into_pieces_of_16_bits__as_into_floats, 2)
{
	static const int types[] = { SLUICE_BF16, SLUICE_F16 };
	static struct scattered params;
	static uint8_t state[64 << 10];
	float flat[COUNT] = { 0 }, grad[COUNT];
	uint64_t done = 0;
	size_t bytes;
	int more;
	sluice_model_attr attr = attributes("up=topk(0.1) down=topk(0.2) update=momentum(0.9)", 2);
	attr.uneven = 1;
	sluice_model *model = rank_open(job, flat, attr);
	fill_gradient(grad, rank, 1, flat);
	CHECK_STEP(model, grad, flat);
	CHECK_OK(sluice_state_size(model, &bytes));
	CHECK(bytes <= sizeof state);
	CHECK_OK(sluice_state_save(model, state, bytes, 0));
	scatter(&params, 0, types, 2);
	memset(params.memory, 0, sizeof params.memory);
	attr.segments = params.of;
	attr.n_segments = params.n;
	attr.param_type = SLUICE_BF16;
	sluice_model *again = rank_open(job, NULL, attr);
	CHECK_OK(sluice_state_load(again, state, bytes, NULL, &done));
	CHECK(done == 1);
	check_rounded(&params, flat);
	for (int step = 2; step <= 3; step++) {
		fill_gradient(grad, rank, (uint64_t)step, flat);
		if (rank) {
			CHECK_OK(sluice_idle_step(model, flat, &more));
			CHECK_OK(sluice_idle_step(again, NULL, &more));
			CHECK(more);
		} else {
			CHECK_STEP(model, grad, flat);
			CHECK_STEP(again, grad, NULL);
		}
		check_rounded(&params, flat);
	}
	sluice_model_close(&again);
	sluice_model_close(&model);
}

TEST(plan__of_16_bits__announces_the_copy)
{
	sluice_model_attr attr = attributes("up=all down=all", 2);
	char text[8192];
	assert_true(sluice_plan(&attr, 2, 0, SLUICE_PLAN_TEXT, text, sizeof text) <
		    (int)sizeof text);
	assert_null(strstr(text, "from which the program's are rounded"));
	attr.param_type = SLUICE_BF16;
	assert_true(sluice_plan(&attr, 2, 0, SLUICE_PLAN_TEXT, text, sizeof text) <
		    (int)sizeof text);
	assert_non_null(
		strstr(text, "0.006 MiB  in 32 bits, from which the program's are rounded"));
	attr.recipe = "up=all down=all update=none";
	assert_true(sluice_plan(&attr, 2, 0, SLUICE_PLAN_TEXT, text, sizeof text) <
		    (int)sizeof text);
	assert_null(strstr(text, "from which the program's are rounded"));
	attr.recipe = "up=all down=all update=average";
	assert_int_equal(sluice_plan(&attr, 2, 0, SLUICE_PLAN_TEXT, text, sizeof text),
			 SLUICE_EINVAL);
}

/* ---- refusals ---------------------------------------------------------------- */

TEST_IN_JOB(calls__with_wrong_pieces_or_types__are_refused_and_change_nothing, 2)
{
	float params[COUNT] = { 0 }, grad[COUNT] = { 0 }, mean[COUNT];
	sluice_model *model = NULL;
	sluice_model_attr attr = attributes("up=topk(0.1) down=all", 3);
	sluice_segment two[] = { { grad, 700, SLUICE_F32, 0 }, { grad + 700, 800, SLUICE_F32, 0 } };
	uint8_t *odd = (uint8_t *)mean + 1;
	log_capture();
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK(sluice_push_vector(NULL, IN_PIECES(two, 2)) == SLUICE_EINVAL);
	CHECK(sluice_push_vector(model, IN_PIECES(NULL, 2)) == SLUICE_EINVAL);
	CHECK(error_says("list of segments is NULL", NULL));
	CHECK(sluice_push_vector(model, NULL) == SLUICE_EINVAL);
	CHECK(sluice_pull_vector(model, NULL) == SLUICE_EINVAL);
	CHECK(sluice_push_vector(model, &(sluice_vector){ .data = grad, .segments = two }) ==
	      SLUICE_EINVAL);
	CHECK(error_says("data and segments", NULL));
	CHECK(sluice_push_vector(model, IN_PIECES(two, 1)) == SLUICE_EINVAL);
	CHECK(error_says("700 elements together", "1500"));
	two[1].count = 801;
	CHECK(sluice_push_vector(model, IN_PIECES(two, 2)) == SLUICE_EINVAL);
	CHECK(error_says("segment 1 reaches beyond", NULL));
	two[1].count = UINT64_MAX;
	CHECK(sluice_push_vector(model, IN_PIECES(two, 2)) == SLUICE_EINVAL);
	two[1] = (sluice_segment){ NULL, 800, SLUICE_F32, 0 };
	CHECK(sluice_push_vector(model, IN_PIECES(two, 2)) == SLUICE_EINVAL);
	CHECK(error_says("segment 1 of 800 elements has no data", NULL));
	two[1] = (sluice_segment){ odd, 800, SLUICE_F16, 0 };
	CHECK(sluice_push_vector(model, IN_PIECES(two, 2)) == SLUICE_EINVAL);
	CHECK(error_says("segments[1].data", "not aligned"));
	two[1] = (sluice_segment){ grad + 700, 800, 77, 0 };
	CHECK(sluice_push_vector(model, IN_PIECES(two, 2)) == SLUICE_EINVAL);
	CHECK(error_says("segments[1].type=77, must be", NULL));
	two[1] = (sluice_segment){ grad + 700, 800, SLUICE_F32, 0 };
	CHECK(sluice_pull_vector(model, IN_PIECES(two, 2)) == SLUICE_EINVAL);
	CHECK(error_says("nothing was pushed", NULL));
	CHECK_OK(sluice_push_vector(model, IN_PIECES(two, 2)));
	CHECK(sluice_push_vector(model, IN_PIECES(two, 2)) == SLUICE_EINVAL);
	CHECK(sluice_pull(model, NULL) == SLUICE_EINVAL && error_says("vector is NULL", NULL));
	CHECK(sluice_pull_vector(model, IN_PIECES(NULL, 2)) == SLUICE_EINVAL);
	CHECK(sluice_pull_vector(model, IN_PIECES(two, 1)) == SLUICE_EINVAL);
	two[1].type = SLUICE_BF16;
	CHECK(sluice_pull_vector(model, IN_PIECES(two, 2)) == SLUICE_EINVAL);
	CHECK(error_says("opened without param_type", NULL));
	CHECK(sluice_pull_begin(model, IN_PIECES(two, 2)) == SLUICE_EINVAL);
	two[1] = (sluice_segment){ params + 700, 800, SLUICE_F32, 0 };
	two[0].data = params;
	CHECK_OK(sluice_pull_begin(model, IN_PIECES(two, 2)));
	CHECK(sluice_pull_vector(model, IN_PIECES(two, 2)) == SLUICE_EINVAL);
	CHECK(error_says("a pull is under way", NULL));
	CHECK_OK(sluice_pull_range(model, 0, COUNT));
	float *accumulator, scale;
	CHECK_OK(sluice_accumulator(model, &accumulator, &scale));
	two[1].data = accumulator + 700;
	CHECK(sluice_push_vector(model, IN_PIECES(two, 2)) == SLUICE_EINVAL);
	CHECK(error_says("coordinate 700 is in the vector of sluice_accumulator", NULL));
	sluice_model_close(&model);
	attr.recipe = "up=all down=all signal=storm(0.5) update=ema(0.5)";
	CHECK_OK(sluice_model_open(job, &attr, params, &model));
	CHECK(sluice_push_vector(model, IN_PIECES(two, 2)) == SLUICE_EINVAL &&
	      error_says("push_pair", NULL));
	sluice_model_close(&model);
	attr.param_type = SLUICE_F16;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
	CHECK(error_says("uses ", NULL));
	attr.recipe = "up=all down=all";
	attr.param_type = 5;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
	CHECK(error_says("param_type=5", NULL));
	attr.param_type = rank ? SLUICE_F16 : SLUICE_F32;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EPEER);
	CHECK(error_says("param_type=0 and param_type=1", NULL));
	attr.param_type = 0;
	attr.n_segments = 2;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
	CHECK(error_says("segments is NULL", NULL));
}

/* Otherwise a step would mistake these parameters for gradients, which are still zero. */
TEST_IN_JOB(open__with_16_bits_and_no_param_type__is_refused_on_all_ranks, 2)
{
	static const char *const recipes_of[] = { "up=all down=all", "up=topk(0.1) down=topk(0.2)",
						  "up=all down=all update=average",
						  "up=topk(0.1) down=all when=every(2)" };
	uint16_t codes[800];
	float params[700] = { 0 };
	sluice_model *model = NULL;
	sluice_segment two[] = { { params, 700, SLUICE_F32, 0 }, { codes, 800, SLUICE_BF16, 0 } };
	log_capture();
	memset(codes, 0x3f, sizeof codes);
	for (size_t i = 0; i < sizeof recipes_of / sizeof *recipes_of; i++) {
		sluice_model_attr attr = attributes(recipes_of[i], 3);
		attr.segments = two;
		attr.n_segments = 2;
		check_of = recipes_of[i];
		CHECK(sluice_model_open(job, &attr, NULL, &model) == SLUICE_EINVAL && !model);
		CHECK(error_says("sluice_model_open", "opened without param_type"));
	}
	/* The mistake of one rank is reported to all. */
	sluice_model_attr attr = attributes("up=all down=all", 3);
	float whole[COUNT] = { 0 };
	attr.segments = rank ? two : NULL;
	attr.n_segments = rank ? 2 : 0;
	CHECK(sluice_model_open(job, &attr, whole, &model) ==
	      (rank ? SLUICE_EINVAL : SLUICE_EPEER));
	CHECK(error_says("opened without param_type", rank ? NULL : "rank 1"));
	for (int i = 0; i < 800; i++)
		CHECK(codes[i] == 0x3f3f);
	/* If the program has its own optimizer, nothing is added to the segments. */
	attr = attributes("up=all down=all update=none", 3);
	attr.segments = two;
	attr.n_segments = 2;
	CHECK_OK(sluice_model_open(job, &attr, NULL, &model));
	sluice_model_close(&model);
	check_of = NULL;
}

/* ---- a vector with data, or of zeros ------------------------------------------ */

/* Makes a step of model[0] by the calls that take a pointer, and the same step of model[1] by the
 * calls that take a vector, with a vector that holds the pointer. */
static void push_both(sluice_model *const model[2], const void *grad, int expected)
{
	const sluice_vector vector = { .data = (void *)grad };

	CHECK(sluice_push(model[0], grad) == expected);
	CHECK(!expected || error_says("sluice_push: ", NULL));
	CHECK(sluice_push_vector(model[1], &vector) == expected);
	CHECK(!expected || error_says("sluice_push_vector: ", NULL));
}

static void pull_both(sluice_model *const model[2], float *const to[2], int in_ranges, int expected)
{
	const sluice_vector vector = { .data = to[1] };

	CHECK(sluice_pull(model[0], to[0]) == expected);
	CHECK(!expected || error_says("sluice_pull: ", NULL));
	if (!in_ranges) {
		CHECK(sluice_pull_vector(model[1], &vector) == expected);
		CHECK(!expected || error_says("sluice_pull_vector: ", NULL));
		return;
	}
	CHECK(sluice_pull_begin(model[1], &vector) == expected);
	CHECK(!expected || error_says("sluice_pull_begin: ", NULL));
	if (expected)
		return;
	CHECK_OK(sluice_pull_range(model[1], 700, COUNT - 700));
	CHECK_OK(sluice_pull_range(model[1], 0, 700));
}

static void train_alike(sluice_job *job, const char *recipe, int in_ranges)
{
	static float params[2][COUNT], grad[COUNT];
	float *const to[2] = { params[0], params[1] }, *const none[2] = { NULL, NULL };
	const int asynchronous = strstr(recipe, "async") != NULL;
	sluice_model *model[2] = { NULL, NULL };
	sluice_model_attr attr = attributes(recipe, 3);
	int unwanted = 0;

	check_of = recipe;
	memset(params, 0, sizeof params);
	for (int m = 0; m < 2; m++) {
		CHECK_OK(sluice_model_open(job, &attr, params[m], &model[m]));
		if (strstr(recipe, "lazy-server"))
			CHECK_OK(sluice_set(model[m], SLUICE_SMOOTHNESS, 1e-3));
	}
	for (uint64_t step = 1; step <= 6; step++) {
		const int wanted = step_of(model[0]).wanted;

		CHECK(step_of(model[1]).wanted == wanted);
		fill_gradient(grad, 0, step, params[0]);
		if (strstr(recipe, "average"))
			memcpy(grad, params[0], sizeof grad);
		pull_both(model, to, in_ranges, asynchronous ? 0 : SLUICE_EINVAL);
		if (wanted)
			push_both(model, NULL, SLUICE_EINVAL);
		push_both(model, wanted ? grad : NULL, 0);
		push_both(model, grad, SLUICE_EINVAL);
		pull_both(model, none, in_ranges, SLUICE_EINVAL);
		pull_both(model, to, in_ranges, 0);
		CHECK(!memcmp(params[0], params[1], sizeof params[0]));
		CHECK(step_of(model[0]).steps == step && step_of(model[1]).steps == step);
		unwanted += !wanted;
	}
	CHECK(!strstr(recipe, "lazy-server") || unwanted);
	for (int m = 0; m < 2; m++)
		sluice_model_close(&model[m]);
	check_of = NULL;
}

static int train_all_alike(int rank, void *argument)
{
	static const char *const recipes_of[] = {
		"up=topk(0.1) down=all",
		"up=topk(0.1) down=topk(0.2) update=none",
		"up=all down=all update=average memory=none",
		"up=all down=all when=async(3)",
		"up=all down=all signal=innovation when=lazy-server(3,5)",
	};
	sluice_job *job = rank_join(NULL);

	(void)rank, (void)argument;
	log_capture();
	for (size_t i = 0; i < 2 * sizeof recipes_of / sizeof *recipes_of; i++)
		train_alike(job, recipes_of[i / 2], i % 2);
	sluice_finalize(&job);
	return 0;
}

TEST(calls__with_a_vector_that_has_data_or_nothing__as_with_the_pointer)
{
	run_ranks(1, train_all_alike, NULL);
}
