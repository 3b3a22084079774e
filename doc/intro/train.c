/* SPDX-License-Identifier: BSD-3-Clause */
#include <sluice.h>
#include "problem.h"
#include "report.h"

int main(void)
{
	static float params[COUNT], grad[COUNT];
	sluice_job *job;
	sluice_model *model;

	if (sluice_init(NULL, &job))
		return 1;
	sluice_model_attr attr = {
		.size = sizeof attr,
		.count = COUNT,
		.lr = 0.01f,
		.recipe = "up=all down=all update=sgd"
	};
	if (sluice_model_open(job, &attr, params, &model))
		return 1;
	for (uint64_t step = 0; step < STEPS; step++) {
		double loss = backward(sluice_rank(job), step, params,
				       grad);

		if (sluice_push(model, grad) || sluice_pull(model, params))
			return 1;
		if ((step + 1) % 100 == 0 &&
		    report(job, model, step + 1, loss))
			return 1;
	}
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}
