/* SPDX-License-Identifier: BSD-3-Clause
 * What earlier steps add to the signal of this one: the worker's memory kinds. signal.c calls it
 * piece by piece while a push accumulates; what was left unsent is then in the accumulator
 * (worker.residual), where the last push left it. So a memory kind is a formula here, and not a
 * case in worker.c. */
#include "worker/worker.h"

/* m <- (1 - beta) m + beta (p - c) (Chen et al., ScaleCom, NeurIPS 2020): left[] is p - c. */
static void lowpass(float *restrict left, float *restrict memory, size_t n, float beta)
{
	for (size_t i = 0; i < n; i++) {
		memory[i] = (1 - beta) * memory[i] + beta * left[i];
		left[i] = memory[i];
	}
}

/* e <- (1 - beta) e + beta (newer d1 - older d2) (Tang et al., ErrorCompensatedX, NeurIPS 2021),
 * where d1 = left is the error of the last step and d2 that of the one before. */
static void twostep(float *restrict left, float *restrict before, float *restrict filter, size_t n,
		    float beta, float newer, float older)
{
	if (!filter) /* beta = 1 */
		for (size_t i = 0; i < n; i++) {
			float e = newer * left[i] - older * before[i];

			before[i] = left[i];
			left[i] = e;
		}
	else
		for (size_t i = 0; i < n; i++) {
			filter[i] = (1 - beta) * filter[i] +
				    beta * (newer * left[i] - older * before[i]);
			before[i] = left[i];
			left[i] = filter[i];
		}
}

void recall(const sluice_model *model, uint64_t at, size_t n)
{
	const struct recipe *recipe = &model->recipe;
	const struct worker *w = model->worker;
	const uint64_t step = w->step;
	float alpha, newer, older;

	switch (recipe->memory) {
	case MEMORY_NONE:
	case MEMORY_RESIDUAL: return;
	case MEMORY_LOWPASS:
		lowpass(w->residual + at, w->memory + at, n, recipe->memory_beta);
		return;
	case MEMORY_TWOSTEP:
		alpha = update_alpha(&model->update, step);
		newer = update_alpha(&model->update, step - 1) / alpha * (2 - alpha);
		older = update_alpha(&model->update, step - 2) / alpha * (1 - alpha);
		twostep(w->residual + at, w->memory + at, w->filter ? w->filter + at : NULL, n,
			recipe->memory_beta, newer, older);
		return;
	}
}
