/* SPDX-License-Identifier: BSD-3-Clause
 * What compression takes away of a delta (model/measure.h). Called by shard.c. */
#include "shard/shard.h"

void measure_published(sluice_model *model, struct shard *shard, const float *x,
		       const uint32_t *index, uint32_t n)
{
	/* An unbiased selector has scaled x already: nothing is known of what it was. */
	if (!model->measure.on || selection_kinds[model->recipe.down.select].unbiased)
		return;
	shard->loss.all = loss_squares(x, shard->at->span);
	shard->loss.lost = shard->loss.all - loss_spared(x, index, model->value, n);
}
