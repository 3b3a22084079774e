/* SPDX-License-Identifier: BSD-3-Clause
 * A job of one rank in which only the 6th push or pull (argv[1]) is counted; see hot_path.sh. */
#include "sluice.h"
#include <stdio.h>
#include <string.h>

void __gcov_reset(void);
void __gcov_dump(void);

enum { COUNT = 10000, STEPS = 6 };

int main(int argc, char **argv)
{
	static float params[COUNT], grad[COUNT];
	const int pull = argc > 1 && !strcmp(argv[1], "pull");
	sluice_job *job;
	sluice_model *model;
	const sluice_model_attr attr = {
		.size = sizeof attr, .count = COUNT, .lr = 0.01f, .recipe = "up=topk(0.01)"
	};

	if (sluice_init(NULL, &job) || sluice_model_open(job, &attr, params, &model))
		return 1;
	for (int step = 1; step <= STEPS; step++) {
		for (int i = 0; i < COUNT; i++)
			grad[i] = (float)((i * 37 + step) % 101) - 50;
		if (step == STEPS && !pull)
			__gcov_reset();
		if (sluice_push(model, grad))
			return 1;
		if (step == STEPS && pull)
			__gcov_reset();
		else if (step == STEPS)
			__gcov_dump();
		if (sluice_pull(model, params))
			return 1;
	}
	if (pull)
		__gcov_dump(); /* counts no more: closing is not written */
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}
