/* SPDX-License-Identifier: BSD-3-Clause
 * See measure.h. */
#include "model/measure.h"
#include "base/error.h"
#include "job/progress_token.h"
#include "model/model.h"
#include <stdlib.h>

int measure_switch(sluice_model *model, int on)
{
	struct measure *m = &model->measure;
	int copies = on && sluice_is_worker(model->job) && model->recipe.memory.kind == MEMORY_NONE;

	if (copies && !m->before) {
		m->before = malloc(model->layout.count * sizeof(*m->before));
		if (!m->before)
			return fail(SLUICE_ENOMEM, "sluice_set: no memory for %llu coordinates",
				    (unsigned long long)model->layout.count);
	}
	progress_take(model->job); /* shards change stats as well */
	if (!m->on != !on)         /* compression_error must not keep the loss of an earlier step */
		model->stats.compression_error = NAN;
	m->on = on != 0;
	progress_release(model->job);
	if (!on) {
		m->under_way = 0;
		free(m->before);
		m->before = NULL;
	}
	return 0;
}

double loss_squares(const float *x, uint64_t n)
{
	double sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	return sum;
}

double loss_spared(const float *x, const uint32_t *index, const float *decoded, uint32_t n)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		double a = (double)x[index ? index[i] : i], left = a - (double)decoded[i];

		sum += a * a - left * left;
	}
	return sum;
}
