/* SPDX-License-Identifier: BSD-3-Clause
 * Rank 0 prints the mean loss of the workers, the bytes that they have sent
 * each other, and the mean norm of their residuals. */
#include <sluice.h>
#include <stdio.h>

static int report(sluice_job *job, sluice_model *model, uint64_t step,
		  double loss)
{
	sluice_model_stats stats = { .size = sizeof stats };
	const int workers = sluice_workers(job);

	if (sluice_stats(model, &stats))
		return 1;
	double sums[] = {
		loss, (double)(stats.pushed_bytes + stats.pulled_bytes),
		stats.residual_norm
	};
	if (sluice_sum(job, sums, 3))
		return 1;
	if (sluice_rank(job) == 0)
		printf("step %3d  loss %8.3f  %7.3f MB  residual %5.1f\n",
		       (int)step, sums[0] / workers, sums[1] / 1e6,
		       sums[2] / workers);
	fflush(stdout); /* srun then shows the line at once */
	return 0;
}
