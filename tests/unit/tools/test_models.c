/* SPDX-License-Identifier: BSD-3-Clause
 * The models of sluice-train: gradients against finite differences, shapes, first parameters, and
 * the order of the rows. */
#include "tools/train/network.h"
#include "tools/train/order.h"
#include "cases.h"
#include "thinned.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 9, FEATURES = 6, CLASSES = 4, WIDE = 600000 };

/* Makes a text of random symbols, so that a symbol has several places in a context. */
static void make_text(struct dataset *set)
{
	const size_t n = ROWS + TEXT_CONTEXT;

	*set = (struct dataset){ .rows = ROWS,
				 .places = ROWS,
				 .features = TEXT_CONTEXT * CLASSES,
				 .classes = CLASSES,
				 .text = malloc(n),
				 .label = calloc(ROWS, sizeof(*set->label)) };
	for (size_t i = 0; i < n; i++)
		set->text[i] = (uint8_t)(random_bits(3, RANDOM_PARAMETERS, 1, i) % CLASSES);
	for (size_t i = 0; i < ROWS; i++)
		set->label[i] = set->text[i + TEXT_CONTEXT - 1];
}

/* Makes sparse rows with random values and labels that are valid for the task. */
static void make_rows(struct dataset *set, enum task task, size_t features)
{
	*set = (struct dataset){ .rows = ROWS, .features = features, .classes = CLASSES };
	set->row_start = calloc(ROWS + 1, sizeof(*set->row_start));
	set->column = calloc(ROWS * FEATURES, sizeof(*set->column));
	set->value = calloc(ROWS * FEATURES, sizeof(*set->value));
	set->label = calloc(ROWS, sizeof(*set->label));
	for (size_t i = 0; i < ROWS * FEATURES; i++) {
		set->column[i] = (uint32_t)(i % FEATURES * (features / FEATURES));
		set->value[i] = random_signed(3, RANDOM_PARAMETERS, 1, i);
	}
	for (size_t i = 0; i < ROWS; i++) {
		set->row_start[i + 1] = (i + 1) * FEATURES;
		set->label[i] = task == TASK_CLASSES ? (float)(i * 7 % CLASSES) :
				task == TASK_SIGN    ? (float)(i % 2) :
						       (float)i * 0.3f - 1;
	}
}

struct fixture {
	struct network network;
	struct dataset set;
	struct workspace *workspace;
	float *params, *grad;
	uint32_t rows[ROWS];
};

static const struct compute cpu = { .ops = &compute_cpu };

static void make_fixture(struct fixture *f, const char *model, size_t features)
{
	struct complaint complaint;

	assert_int_equal(network_parse(&f->network, model, &complaint), 0);
	if (f->network.task == TASK_TEXT)
		make_text(&f->set);
	else
		make_rows(&f->set, f->network.task, features);
	assert_int_equal(network_shape(&f->network, features, CLASSES, &complaint), 0);
	f->workspace = workspace_new(&f->network, ROWS, &cpu);
	f->params = calloc(f->network.count, sizeof(float));
	f->grad = calloc(f->network.count, sizeof(float));
	assert_true(f->workspace && f->params && f->grad);
	for (size_t i = 0; i < f->network.count; i++)
		f->params[i] = random_signed(5, RANDOM_PARAMETERS, 2, i);
	for (uint32_t i = 0; i < ROWS; i++)
		f->rows[i] = ROWS - 1 - i;
}

static void free_fixture(struct fixture *f)
{
	workspace_delete(&f->workspace);
	data_free(&f->set);
	free(f->params);
	free(f->grad);
}

static double mean_loss(struct fixture *f, float *scratch)
{
	struct score score;

	network_gradient(&f->network, f->workspace, f->params, &f->set, f->rows, ROWS, scratch,
			 &score);
	assert_true(score.rows == ROWS);
	return score.loss / ROWS;
}

/* The step must be large enough for float32 sums, and small enough for the loss to be smooth. */
static void check_coordinate(struct fixture *f, const char *model, size_t i, float step,
			     float *scratch)
{
	const float kept = f->params[i];
	double above, below, slope;

	f->params[i] = kept + step;
	above = mean_loss(f, scratch);
	f->params[i] = kept - step;
	below = mean_loss(f, scratch);
	slope = (above - below) / ((double)(kept + step) - (double)(kept - step));
	f->params[i] = kept;
	if (fabs(slope - f->grad[i]) > 1e-3 + 0.01 * fabs(slope))
		fail_msg("%s, parameter %zu: gradient %g, finite difference %g", model, i,
			 (double)f->grad[i], slope);
}

/* Checks every coordinate. */
static void check_gradient(const char *model)
{
	struct fixture f;
	struct score score;
	float *scratch;
	size_t moving = 0;

	make_fixture(&f, model, FEATURES);
	scratch = calloc(f.network.count, sizeof(*scratch));
	network_gradient(&f.network, f.workspace, f.params, &f.set, f.rows, ROWS, f.grad, &score);
	for (size_t i = 0; i < f.network.count; i++) {
		check_coordinate(&f, model, i, 2e-3f, scratch);
		moving += fabsf(f.grad[i]) > 0.01f;
	}
	assert_true(moving > f.network.count / 4);
	free(scratch);
	free_fixture(&f);
}

TEST(gradient__softmax_agrees_with_finite_differences)
{
	check_gradient("softmax");
}

TEST(gradient__logreg_agrees_with_finite_differences)
{
	check_gradient("logreg");
}

TEST(gradient__linreg_agrees_with_finite_differences)
{
	check_gradient("linreg");
}

TEST(gradient__mlp_agrees_with_finite_differences)
{
	check_gradient("mlp:8");
	check_gradient("mlp:9,7,5");
}

/* Each place of the context adds to the gradient of its symbol. Checks the embedding and one in 211
 * of the other parameters. The step is small because there are many ReLUs. */
TEST(gradient__char_agrees_with_finite_differences)
{
	struct fixture f;
	struct score score;
	float *scratch;
	size_t embedding, moving = 0, checked = 0;

	make_fixture(&f, "char:text", 0);
	network_init(&f.network, 1, f.params);
	embedding = f.network.layer[0].weight;
	assert_int_equal(embedding, CLASSES * 24);
	scratch = calloc(f.network.count, sizeof(*scratch));
	network_gradient(&f.network, f.workspace, f.params, &f.set, f.rows, ROWS, f.grad, &score);
	for (size_t i = 0; i < f.network.count; i += i < embedding ? 1 : 211) {
		moving += i < embedding && fabsf(f.grad[i]) > 0.01f;
		if (!thinned(checked++, 16))
			check_coordinate(&f, "char", i, 5e-4f, scratch);
	}
	assert_true(moving > embedding / 4);
	free(scratch);
	free_fixture(&f);
}

/* The rows are so wide that a batch takes two blocks. The sum over blocks must be the gradient of
 * the batch. */
TEST(gradient__over_several_blocks_is_the_mean_over_rows)
{
	struct fixture f;
	struct score score, one;
	float *single;
	double *sum;

	make_fixture(&f, "logreg", WIDE);
	single = calloc(f.network.count, sizeof(*single));
	sum = calloc(f.network.count, sizeof(*sum));
	network_gradient(&f.network, f.workspace, f.params, &f.set, f.rows, ROWS, f.grad, &score);
	for (size_t row = 0; row < ROWS; row++) {
		network_gradient(&f.network, f.workspace, f.params, &f.set, &f.rows[row], 1, single,
				 &one);
		score.loss -= one.loss;
		score.correct -= one.correct;
		for (size_t i = 0; i < f.network.count; i++)
			sum[i] += single[i] / (double)ROWS;
	}
	assert_float_equal(score.loss, 0, 1e-6);
	assert_float_equal(score.correct, 0, 0);
	for (size_t i = 0; i < f.network.count; i++)
		if (fabs(sum[i] - f.grad[i]) > 1e-6)
			fail_msg("column %zu: %g, not %g", i, (double)f.grad[i], sum[i]);
	free(single);
	free(sum);
	free_fixture(&f);
}

TEST(add_gradient__to_what_is_there__adds_the_scaled_one)
{
	const float scale = 0.125f;
	struct fixture f;
	struct score score, added;
	float *sum;

	make_fixture(&f, "mlp:7", FEATURES);
	sum = calloc(f.network.count, sizeof(*sum));
	for (size_t i = 0; i < f.network.count; i++)
		sum[i] = (float)(i % 5);
	network_gradient(&f.network, f.workspace, f.params, &f.set, f.rows, ROWS, f.grad, &score);
	network_add_gradient(&f.network, f.workspace, f.params, &f.set, f.rows, ROWS, scale, sum,
			     &added);
	assert_memory_equal(&score, &added, sizeof(score));
	for (size_t i = 0; i < f.network.count; i++)
		if (fabsf(sum[i] - ((float)(i % 5) + scale * f.grad[i])) > 1e-5f)
			fail_msg("parameter %zu: %g, not %zu and %g", i, (double)sum[i], i % 5,
				 (double)(scale * f.grad[i]));
	free(sum);
	free_fixture(&f);
}

static struct row_score apply(enum loss_kind kind, float *z, const float *label, size_t n,
			      size_t width, float scale)
{
	struct row_score rows[4], sum = { 0 };
	const struct loss_call call = { .kind = kind,
					.z = z,
					.label = label,
					.rows = n,
					.width = width,
					.scale = scale,
					.score = rows };

	assert_int_equal(compute_cpu.loss(NULL, &call), 0);
	for (size_t i = 0; i < n; i++) {
		sum.loss += rows[i].loss;
		sum.correct += rows[i].correct;
	}
	return sum;
}

TEST(loss__extreme_outputs_stay_finite)
{
	float z[4] = { 200, -200, 90, 100 }, label[2] = { 1, 3 }, sign[4] = { 0, 1, 1, 0 };
	struct row_score score;

	score = apply(LOSS_CROSS_ENTROPY, z, (float[]){ 1 }, 1, 4, 1);
	assert_float_equal(score.loss, 400, 1e-3);
	assert_float_equal(z[0], 1, 1e-6);
	assert_float_equal(z[1], -1, 1e-6);
	memcpy(z, (float[]){ 300, -300, 300, -300 }, sizeof(z));
	score = apply(LOSS_LOGISTIC, z, sign, 4, 1, 1);
	assert_float_equal(score.loss, 600, 1e-3);
	assert_float_equal(score.correct, 2, 0);
	assert_float_equal(z[0], 1, 1e-6);
	assert_float_equal(z[3], 0, 1e-6);
	memcpy(z, (float[]){ 1.4f, 3.5f }, 2 * sizeof(*z));
	score = apply(LOSS_SQUARED, z, label, 2, 1, 0.5f);
	assert_float_equal(score.loss, 0.16 + 0.25, 1e-6);
	assert_float_equal(score.correct, 1, 0); /* within 0.5 of its target */
	assert_float_equal(z[1], 0.5, 1e-6);
}

TEST(evaluate__counts_each_row_once)
{
	struct fixture f;
	struct score whole = { 0 }, parts = { 0 };

	make_fixture(&f, "mlp:5", FEATURES);
	network_evaluate(&f.network, f.workspace, f.params, &f.set, 0, ROWS, &whole);
	network_evaluate(&f.network, f.workspace, f.params, &f.set, 0, 4, &parts);
	network_evaluate(&f.network, f.workspace, f.params, &f.set, 4, ROWS, &parts);
	assert_true(whole.rows == ROWS && parts.rows == ROWS);
	assert_true(whole.correct == parts.correct);
	assert_float_equal(whole.loss, parts.loss, 1e-5);
	free_fixture(&f);
}

TEST(descent__softmax_learns_its_rows)
{
	struct fixture f;
	struct score first, last;

	make_fixture(&f, "mlp:16", FEATURES);
	network_gradient(&f.network, f.workspace, f.params, &f.set, f.rows, ROWS, f.grad, &first);
	for (int step = 0; step < 2000; step++) {
		network_gradient(&f.network, f.workspace, f.params, &f.set, f.rows, ROWS, f.grad,
				 &last);
		for (size_t i = 0; i < f.network.count; i++)
			f.params[i] -= 0.3f * f.grad[i];
	}
	assert_true(last.loss < first.loss / 10);
	assert_true(last.correct == ROWS);
	free_fixture(&f);
}

TEST(shape__tensors_are_named_and_add_up)
{
	struct network network;
	struct complaint complaint;
	uint64_t sum = 0;

	assert_int_equal(network_parse(&network, "mlp:256,128", &complaint), 0);
	assert_int_equal(network_shape(&network, 784, 10, &complaint), 0);
	assert_int_equal(network.count, 235146);
	for (size_t i = 0; i < 2 * network.layers; i++)
		sum += network.tensor[i].count;
	assert_int_equal(sum, network.count);
	assert_string_equal(network.tensor[0].name, "fc1.weight");
	assert_string_equal(network.tensor[5].name, "fc3.bias");
	assert_int_equal(network_parse(&network, "softmax", &complaint), 0);
	assert_int_equal(network_shape(&network, 784, 10, &complaint), 0);
	assert_string_equal(network.tensor[0].name, "weight");
	assert_string_equal(network.tensor[1].name, "bias");
	assert_int_equal(network.count, 7850);
}

TEST(shape__char_begins_with_the_embedding)
{
	struct network network;
	struct complaint complaint;

	assert_int_equal(network_parse(&network, "char:a.txt", &complaint), 0);
	assert_string_equal(model_text("char:a.txt"), "a.txt");
	assert_int_equal(network_shape(&network, 65 * TEXT_CONTEXT, 65, &complaint), 0);
	assert_int_equal(network.count, 88025);
	assert_int_equal(network.tensors, 5);
	assert_string_equal(network.tensor[0].name, "embedding.weight");
	assert_int_equal(network.tensor[0].count, 65 * 24);
	assert_string_equal(network.tensor[1].name, "fc1.weight");
	assert_int_equal(network.layer[0].weight, 65 * 24);
}

TEST(parse__bad_models_are_refused)
{
	static const char *const bad[] = { "",
					   "soft",
					   "mlp",
					   "mlp:",
					   "char",
					   "char:",
					   "mlp:0",
					   "mlp:3,",
					   "mlp:,3",
					   "mlp:3 ,4",
					   "mlp:-3",
					   "mlp:3x",
					   "mlp:99999999",
					   "mlp:1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1" };
	struct network network;
	struct complaint complaint;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		complaint.text[0] = '\0';
		if (network_parse(&network, bad[i], &complaint) != -1 || !complaint.text[0])
			fail_msg("\"%s\" was taken", bad[i]);
	}
	assert_int_equal(network_parse(&network, "mlp:1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", &complaint),
			 0);
}

TEST(shape__too_many_parameters_are_refused)
{
	struct network network;
	struct complaint complaint;

	assert_int_equal(network_parse(&network, "mlp:1048576,1048576", &complaint), 0);
	assert_int_equal(network_shape(&network, 784, 10, &complaint), -1);
	assert_int_equal(network_parse(&network, "softmax", &complaint), 0);
	assert_int_equal(network_shape(&network, 4000000000u, 2, &complaint), -1);
}

TEST(init__depends_on_the_seed_alone)
{
	struct fixture f;
	float *other;
	size_t bytes;

	make_fixture(&f, "mlp:8", FEATURES);
	bytes = f.network.count * sizeof(*other);
	other = malloc(bytes);
	network_init(&f.network, 1, f.params);
	network_init(&f.network, 1, other);
	assert_memory_equal(other, f.params, bytes);
	network_init(&f.network, 2, other);
	assert_memory_not_equal(other, f.params, bytes);
	for (size_t i = f.network.layer[0].bias; i < f.network.layer[1].weight; i++)
		assert_true(f.params[i] == 0);
	for (size_t i = 0; i < f.network.layer[0].bias; i++)
		assert_true(fabsf(f.params[i]) <= 1.0f); /* sqrt(6 / 6 inputs) */
	free(other);
	free_fixture(&f);
}

TEST(shuffle__is_a_permutation_of_its_own_per_seed_and_epoch)
{
	enum { N = 1000 };
	uint32_t first[N], again[N], other[N];
	char seen[N] = { 0 };
	size_t moved = 0;

	order_shuffle(first, N, 1, 0);
	order_shuffle(again, N, 1, 0);
	assert_memory_equal(first, again, sizeof(first));
	for (size_t i = 0; i < N; i++) {
		assert_true(first[i] < N && !seen[first[i]]);
		seen[first[i]] = 1;
		moved += first[i] != i;
	}
	assert_true(moved > N - 20);
	order_shuffle(other, N, 1, 1);
	assert_memory_not_equal(first, other, sizeof(first));
	order_shuffle(other, N, 2, 0);
	assert_memory_not_equal(first, other, sizeof(first));
}
