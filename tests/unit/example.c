/* SPDX-License-Identifier: BSD-3-Clause
 * A whole training job on the public interface: least squares on synthetic data, the same model on
 * every rank. Alone it is a job of one; under "srun -n4 --mpi=pmix" four ranks train together.
 *
 *     cc example.c $(pkg-config --cflags --libs sluice)
 */
#include <sluice.h>
#include <stdint.h>
#include <stdio.h>

enum { COUNT = 1000, ROWS = 64, STEPS = 500 };

/* Returns a number in [-1, 1) from a counter, so that every rank draws its own rows. */
static float number(uint64_t i)
{
	i = (i ^ i >> 31) * 0x9e3779b97f4a7c15u;
	i = (i ^ i >> 29) * 0xbf58476d1ce4e5b9u;
	return (float)(i >> 40) / (1 << 23) - 1;
}

/* Computes the gradient of the mean squared error over this step's rows, whose target is y = sum of
 * (j mod 3) x_j. Returns the error. */
static double backward(uint64_t rank, uint64_t step, const float *params, float *grad)
{
	double loss = 0;
	for (int j = 0; j < COUNT; j++)
		grad[j] = 0;
	for (uint64_t row = 0; row < ROWS; row++) {
		uint64_t seed = ((rank << 32 | step) * ROWS + row) * COUNT;
		float error = 0;
		for (int j = 0; j < COUNT; j++)
			error += (params[j] - (float)(j % 3)) * number(seed + (uint64_t)j);
		for (int j = 0; j < COUNT; j++)
			grad[j] += 2 * error * number(seed + (uint64_t)j) / ROWS;
		loss += (double)error * (double)error / ROWS;
	}
	return loss;
}

int main(void)
{
	static float params[COUNT], grad[COUNT];
	double first = 0, last = 0;
	sluice_job *job;
	sluice_model *model;

	if (sluice_init(NULL, &job))
		return 1; /* the reason is on stderr and in sluice_last_error() */
	sluice_model_attr attr = {
		.size = sizeof attr,
		.count = COUNT,
		.lr = 0.01f,
		.recipe = "up=topk(0.01) down=topk(0.05) memory=residual update=sgd"
	};
	if (sluice_model_open(job, &attr, params, &model))
		return 1;
	for (uint64_t step = 0; step < STEPS; step++) {
		double loss = backward((uint64_t)sluice_rank(job), step, params, grad);
		if (sluice_push(model, grad) || sluice_pull(model, params))
			return 1; /* another rank was lost; all ranks learn which and why */
		if (sluice_sum(job, &loss, 1))
			return 1;
		last = loss / sluice_workers(job);
		first = step ? first : last;
		if (sluice_rank(job) == 0 && (step % 100 == 0 || step + 1 == STEPS))
			printf("step %3d  loss %10.4f\n", (int)step, last);
	}
	sluice_model_close(&model);
	sluice_finalize(&job);
	return last < first / 2 ? 0 : 2;
}
