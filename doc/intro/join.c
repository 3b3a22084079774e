/* SPDX-License-Identifier: BSD-3-Clause */
#include <sluice.h>
#include <stdio.h>

int main(void)
{
	sluice_job *job;

	if (sluice_init(NULL, &job))
		return 1; /* the reason is on stderr */
	double sum = sluice_rank(job);
	if (sluice_sum(job, &sum, 1))
		return 1;
	printf("rank %d of %d: the ranks add up to %g\n",
	       sluice_rank(job), sluice_size(job), sum);
	sluice_finalize(&job);
	return 0;
}
