/* SPDX-License-Identifier: BSD-3-Clause
 * The problem that the programs of doc/intro.md solve: find the 1000
 * factors of a linear function from samples of it. Nothing here is about
 * Sluice. */
#include <stdint.h>

enum { COUNT = 1000, SAMPLES = 16, STEPS = 500 };

/* Returns a number in [-1, 1) that depends only on i. */
static float number(uint64_t i)
{
	i = (i ^ i >> 31) * 0x9e3779b97f4a7c15u;
	i = (i ^ i >> 29) * 0xbf58476d1ce4e5b9u;
	return (float)(i >> 40) / (1 << 23) - 1;
}

/* Draws the samples of this rank and step, and computes their mean squared
 * error and its gradient. Factor j is j mod 3. */
static double backward(int rank, uint64_t step, const float *params,
		       float *grad)
{
	double loss = 0;

	for (int j = 0; j < COUNT; j++)
		grad[j] = 0;
	for (uint64_t sample = 0; sample < SAMPLES; sample++) {
		const uint64_t draw = (uint64_t)rank << 32 | step;
		const uint64_t first = (draw * SAMPLES + sample) * COUNT;
		float error = 0;

		for (int j = 0; j < COUNT; j++)
			error += (params[j] - (float)(j % 3)) *
				 number(first + (uint64_t)j);
		for (int j = 0; j < COUNT; j++)
			grad[j] += 2 * error * number(first + (uint64_t)j) /
				   SAMPLES;
		loss += (double)error * (double)error / SAMPLES;
	}
	return loss;
}
