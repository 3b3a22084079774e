/* SPDX-License-Identifier: BSD-3-Clause */
#include <sluice.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "problem.h"
#include "report.h"

static volatile sig_atomic_t stop_asked;

static void ask_to_stop(int number)
{
	stop_asked = number;
}

/* Continues from the last checkpoint, if there is one. Only rank 0 looks for
 * it, because a network file system may show a file to some ranks later than
 * to others. */
static int resume(sluice_job *job, sluice_model *model, float *params,
		  uint64_t *step)
{
	char found = sluice_rank(job) == 0 &&
		     access("saved/LATEST", F_OK) == 0;

	if (sluice_broadcast(job, &found, 1, 0))
		return 1;
	return found && sluice_restore(model, "saved", params, step);
}

int main(int argc, char **argv)
{
	static float params[COUNT], grad[COUNT];
	uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : STEPS;
	sluice_model_step now = { .size = sizeof now };
	sluice_job *job;
	sluice_model *model;

	if (sluice_init(NULL, &job))
		return 1;
	sluice_model_attr attr = {
		.size = sizeof attr,
		.count = COUNT,
		.lr = 0.01f,
		.recipe = "up=topk(0.05) down=all memory=residual update=sgd"
	};
	if (sluice_model_open(job, &attr, params, &model) ||
	    resume(job, model, params, &now.steps))
		return 1;
	signal(SIGUSR1, ask_to_stop);
	while (now.steps < steps && !now.raised) {
		double loss = backward(sluice_rank(job), now.steps, params,
				       grad);

		if (stop_asked)
			sluice_raise(model, 1);
		if (sluice_push(model, grad) || sluice_pull(model, params) ||
		    sluice_step_info(model, &now))
			return 1;
		if (now.steps % 100 == 0 &&
		    report(job, model, now.steps, loss))
			return 1;
	}
	if (sluice_checkpoint(model, "saved"))
		return 1;
	if (sluice_rank(job) == 0)
		printf("saved after %d steps, digest %016llx\n",
		       (int)now.steps,
		       (unsigned long long)sluice_digest(params,
							 sizeof params));
	sluice_model_close(&model);
	sluice_finalize(&job);
	return 0;
}
