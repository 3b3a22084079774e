/* SPDX-License-Identifier: BSD-3-Clause
 * sluice_point(): where a signal that looks back wants its second gradient, or its only one. */
#include "worker/worker.h"
#include "base/error.h"
#include <string.h>

static void point_at(const sluice_model *model, const float *params, float *point)
{
	const struct worker *w = model->worker;
	const float *previous = model->recipe.signal == SIGNAL_SVRG ? w->anchor : w->previous;
	const uint64_t count = model->layout.count;
	if (model->recipe.signal == SIGNAL_IGT) {
		float alpha = update_alpha(&model->update, model->step + 1),
		      ahead = (1 - alpha) / alpha;
		for (uint64_t i = 0; i < count; i++)
			point[i] = params[i] + ahead * (params[i] - previous[i]);
	} else {
		memmove(point, previous ? previous : params, count * sizeof *point);
	}
}

int sluice_point(sluice_model *model, const float *params, float *point)
{
	if (!model || !params || !point)
		return fail(SLUICE_EINVAL, "sluice_point: an argument is NULL");
	int rc = step_check(model, params, "sluice_point", STEP_DONE);
	if (rc)
		return rc;
	struct borrowed from = { 0 }, to = { 0 };
	rc = on_device_borrow(model, (float *)params, model->layout.count, &from); /* only read */
	if (!rc)
		rc = on_device_borrow(model, point, model->layout.count, &to);
	if (!rc)
		point_at(model, from.host, to.host);
	on_device_return(&from, SLUICE_EINVAL); /* unchanged: nothing to bring back */
	return on_device_return(&to, rc);
}
