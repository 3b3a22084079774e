/* SPDX-License-Identifier: BSD-3-Clause
 * transform=dct in a job: what is sent and what stays add up to the transform of the gradient, all
 * ranks end with the same bits for any number of shards, pieces and ranges give the bits of a whole
 * push, and shapes that differ or do not fit are refused. tests/oracle compares with numpy. */
#include "model/transform.h"
#include "base/bytes.h"
#include "sent.h"
#include "cases.h"
#include <string.h>

enum { ROWS = 40, COLUMNS = 60, BIAS = 64, N = ROWS * COLUMNS + BIAS, STEPS = 5 };
static const sluice_tensor tensors[] = { { "w", ROWS *COLUMNS }, { "b", BIAS } };
static const uint64_t columns[] = { COLUMNS, 0 };
#define SHAPES .count = N, .tensors = tensors, .n_tensors = 2, .columns = columns
#define RECIPE                                                                                     \
	"up=block-topk(16,256) down=all memory=residual(outside,decay=0.9) update=sign "           \
	"reduce=senders transform=dct(16) dense=none"

static void fill(float *grad, int rank, uint64_t step)
{
	for (int i = 0; i < N; i++)
		grad[i] = noise(51, step, (uint64_t)rank, (uint64_t)i);
}

/* Transforms a gradient with the functions of the model. */
static void transform(const struct transform *t, const float *grad, float *out)
{
	static float block[DCT_MOST * DCT_MOST];

	for (uint64_t at = 0; at < N;) {
		const struct transform_block b = transform_block_at(t, at);

		memset(block, 0, sizeof(block));
		for (uint32_t r = 0; r < b.rows; r++)
			memcpy(block + r * DCT_MOST, grad + b.origin + r * b.stride,
			       b.columns * sizeof(*block));
		transform_forward(t, &b, block, out + at);
		at += (uint64_t)b.rows * b.columns;
	}
}

TEST_IN_JOB(push__of_coefficients__message_and_residual_add_up_to_the_transform, 2)
{
	float params[N] = { 0 }, grad[N], before[N], signal[N], sent[N];
	sluice_model *model = OPEN(job, params, SHAPES, .recipe = RECIPE, .shards = 3, .lr = 0.1f);
	const float *residual = worker_residual(model->worker);

	for (uint64_t step = 1; step <= STEPS; step++) {
		fill(grad, rank, step);
		transform(model->layout.transform, grad, signal);
		memcpy(before, residual, sizeof(before));
		CHECK_OK(sluice_push(model, grad));
		CHECK(last_sent(model, sent) > 0);
		for (int i = 0; i < N; i++)
			CHECK(float_bits(sent[i] + residual[i]) ==
			      float_bits(0.9f * before[i] + signal[i]));
		CHECK_OK(sluice_pull(model, params));
	}
	check_same(job, params, sizeof(params));
	sluice_model_close(&model);
}

/* Trains and returns the digest of all ranks' parameters. how: 0: whole pushes; 1: ranges; 2: half
 * precision, whose values are exact here. */
static uint64_t digest_of(sluice_job *job, int rank, uint32_t shards, int how)
{
	float params[N] = { 0 }, grad[N];
	uint16_t halves[N];
	sluice_model *model = OPEN(job, params, SHAPES, .recipe = RECIPE, .shards = shards,
				   .lr = 0.1f, .grad_type = how == 2 ? SLUICE_BF16 : SLUICE_F32);

	for (uint64_t step = 1; step <= STEPS; step++) {
		fill(grad, rank, step);
		for (int i = 0; i < N; i++) {
			halves[i] = (uint16_t)(float_bits(grad[i]) >> 16);
			grad[i] = bits_float((uint32_t)halves[i] << 16);
		}
		if (how == 1)
			for (uint64_t at = N; at > 0; at -= N / 8)
				CHECK_OK(sluice_push_range(model, grad + at - N / 8, at - N / 8,
							   N / 8));
		else
			CHECK_OK(sluice_push(model, how == 2 ? (void *)halves : grad));
		CHECK_OK(sluice_pull(model, params));
	}
	const uint64_t digest = check_same(job, params, sizeof(params));

	sluice_model_close(&model);
	return digest;
}

TEST_IN_JOB(transform__any_shards_ranges_or_types__give_the_same_parameters, 3)
{
	const uint64_t digest = digest_of(job, rank, 1, 0);

	for (uint32_t shards = 2; shards <= 5; shards++)
		CHECK(digest_of(job, rank, shards, 0) == digest);
	CHECK(digest_of(job, rank, 3, 1) == digest);
	CHECK(digest_of(job, rank, 3, 2) == digest);
}

TEST_IN_JOB(model_open__columns_that_differ_or_do_not_divide__are_refused, 2)
{
	const uint64_t others[][2] = { { rank ? COLUMNS : ROWS, 0 }, { 7, 0 } };
	float params[N] = { 0 };
	sluice_model_attr attr = ATTR(SHAPES, .recipe = RECIPE);
	sluice_model *model = NULL;

	attr.columns = others[0];
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EPEER);
	CHECK(error_says("other names, lengths, columns or rules", NULL));
	attr.columns = others[1];
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
	CHECK(error_says("columns=7 of tensor 0 do not divide its 2400 elements", NULL));
	attr.tensors = NULL;
	attr.n_tensors = 0;
	CHECK(sluice_model_open(job, &attr, params, &model) == SLUICE_EINVAL);
	CHECK(error_says("columns are given without tensors", NULL));
}
