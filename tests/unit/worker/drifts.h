/* SPDX-License-Identifier: BSD-3-Clause
 * For tests of signal=drift: a program with its own optimizer, and the account of what its drifts
 * have become. */
#ifndef TESTS_DRIFTS_H
#define TESTS_DRIFTS_H
#include "base/bytes.h"
#include "sent.h"
#include <math.h>

enum { DRIFT_MOST = 601 };

/* A step of the program's own optimizer on n parameters. */
static inline void drift_step(float *params, int n, int rank, uint64_t step)
{
	for (int i = 0; i < n; i++)
		params[i] -= 0.1f * (params[i] - (float)rank) +
			     0.05f * noise(31, step, (uint64_t)rank, (uint64_t)i);
}

static inline void drift_start(float *params, int n)
{
	for (int i = 0; i < n; i++)
		params[i] = noise(32, 0, 0, (uint64_t)i);
}

static inline sluice_model *drift_open(sluice_job *job, float *params, int n, int shards,
				       const char *recipe)
{
	drift_start(params, n);
	return OPEN(job, params, .count = (uint64_t)n, .shards = (uint32_t)shards,
		    .recipe = recipe);
}

struct account {
	float given[DRIFT_MOST]; /* by the last exchange of each coordinate */
	/* sums of B^(T - t) times drift, and times the message */
	double moved[DRIFT_MOST], sent[DRIFT_MOST];
	double size[DRIFT_MOST]; /* of the magnitudes of `moved` */
};

/* Enters the exchange of the coordinates from begin to end, of n. Within an exchange to the bit:
 * B e + drift = message + new e. Over all exchanges of a coordinate, to rounding:
 * sum of B^(T-t) drift_t = sum of B^(T-t) message_t + e_T. */
static inline void account_enter(struct account *a, const sluice_model *model, const float *pushed,
				 const float *before, int begin, int end)
{
	const int n = (int)model->layout.count;
	const float decay = model->recipe.memory.decay;
	const float *residual = worker_residual(model->worker);
	float sent[DRIFT_MOST];

	CHECK(last_sent(model, sent) > 0);
	for (int i = 0; i < n; i++) {
		const float drift = a->given[i] - pushed[i];
		const float sum = decay * before[i] + drift;

		if (i < begin || i >= end) {
			CHECK(float_bits(residual[i]) == float_bits(before[i]));
			continue;
		}
		CHECK(float_bits(sent[i] + residual[i]) == float_bits(sum));
		a->moved[i] = (double)decay * a->moved[i] + (double)drift;
		a->size[i] = (double)decay * a->size[i] + fabs((double)drift);
		a->sent[i] = (double)decay * a->sent[i] + (double)sent[i];
		CHECK(fabs(a->moved[i] - a->sent[i] - (double)residual[i]) <= 1e-6 * a->size[i]);
	}
}

/* Makes steps that move the parameters far, up to the first exchange, which has the coordinates up
 * to end. With clip=0.25 it moves them by that norm. */
static inline void drift_is_clipped(sluice_model *model, float *params, int steps, int end)
{
	const int n = (int)model->layout.count;
	float start[DRIFT_MOST];
	double square = 0;

	memcpy(start, params, (size_t)n * sizeof(*params));
	for (int step = 1; step <= steps; step++) {
		for (int i = 0; i < n; i++)
			params[i] += (float)(i % 3);
		CHECK_STEP(model, params, params);
	}
	for (int i = 0; i < end; i++)
		square += (double)(params[i] - start[i]) * (double)(params[i] - start[i]);
	CHECK(fabs(sqrt(square) - 0.25) < 1e-5);
	sluice_model_close(&model);
}

/* Pieces are pushed and pulled like one vector, and a pull in ranges waits for all. model and other
 * begin with the same parameters, params and apart. Ranges are pulled in each step that is a
 * multiple of `ranges`. */
static inline void drift_in_pieces(sluice_model *model, float *params, sluice_model *other,
				   float *apart, uint64_t steps, uint64_t ranges)
{
	const int rank = sluice_rank(model->job);
	const uint64_t n = model->layout.count, cut = 100, half = n / 2;
	const sluice_segment pieces[] = { { .data = apart, .count = cut },
					  { .data = apart + cut, .count = n - cut } };

	for (uint64_t step = 1; step <= steps; step++) {
		drift_step(params, (int)n, rank, step);
		drift_step(apart, (int)n, rank, step);
		CHECK_STEP(model, params, params);
		CHECK_OK(sluice_push_vector(other, IN_PIECES(pieces, 2)));
		if (step % ranges) {
			CHECK_OK(sluice_pull_vector(other, IN_PIECES(pieces, 2)));
		} else {
			CHECK_OK(sluice_pull_begin(other, &(sluice_vector){ .data = apart }));
			CHECK_OK(sluice_pull_range(other, half, n - half));
			CHECK_OK(sluice_pull_range(other, 0, half));
		}
		CHECK(!memcmp(params, apart, n * sizeof(*params)));
	}
	sluice_model_close(&model);
	sluice_model_close(&other);
}
#endif
