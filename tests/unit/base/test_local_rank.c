/* SPDX-License-Identifier: BSD-3-Clause
 * The number of a process on its node, from what launchers put into the environment. */
#include "base/local_rank.h"
#include "cases.h"
#include <stdlib.h>

static const char *const all[] = {
	"LOCAL_RANK",      "LOCAL_WORLD_SIZE",  "OMPI_COMM_WORLD_LOCAL_RANK",
	"MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "SLURM_LOCALID"
};

struct set {
	const char *variable, *value;
};

static void check(struct set a, struct set b, struct set c, const char *variable, int rank)
{
	const struct set sets[] = { a, b, c };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		unsetenv(all[i]);
	for (size_t i = 0; i < 3; i++)
		if (sets[i].variable)
			setenv(sets[i].variable, sets[i].value, 1);
	if (variable)
		assert_string_equal(local_rank_find().variable, variable);
	else
		assert_null(local_rank_find().variable);
	assert_int_equal(local_rank_find().rank, rank);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		unsetenv(all[i]);
}

TEST(local_rank__inner_launcher__comes_before_slurm)
{
	const struct set none = { NULL, NULL }, task = { "SLURM_LOCALID", "0" };

	check(none, none, none, NULL, 0);
	check(task, none, none, "SLURM_LOCALID", 0);
	check((struct set){ "SLURM_LOCALID", "3" }, none, none, "SLURM_LOCALID", 3);
	/* torchrun and mpirun in one task of Slurm */
	check(task, (struct set){ "LOCAL_RANK", "5" }, (struct set){ "LOCAL_WORLD_SIZE", "8" },
	      "LOCAL_RANK", 5);
	check(task, (struct set){ "OMPI_COMM_WORLD_LOCAL_RANK", "2" }, none,
	      "OMPI_COMM_WORLD_LOCAL_RANK", 2);
	check(task, (struct set){ "MPI_LOCALRANKID", "2" }, none, "MPI_LOCALRANKID", 2);
	check(task, (struct set){ "PALS_LOCAL_RANKID", "1" }, none, "PALS_LOCAL_RANKID", 1);
	/* a variable that was exported for all tasks */
	check((struct set){ "SLURM_LOCALID", "3" }, (struct set){ "LOCAL_RANK", "0" }, none,
	      "SLURM_LOCALID", 3);
	check((struct set){ "LOCAL_RANK", "4" }, none, none, "LOCAL_RANK", 4);
}

TEST(local_rank__not_a_number__is_passed_over)
{
	static const char *const wrong[] = { "", "-1", "x", "1x", "99999999999" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		check((struct set){ "SLURM_LOCALID", wrong[i] }, (struct set){ "LOCAL_RANK", "1" },
		      (struct set){ NULL, NULL }, "LOCAL_RANK", 1);
	check((struct set){ "LOCAL_RANK", "8" }, (struct set){ "LOCAL_WORLD_SIZE", "8" },
	      (struct set){ "SLURM_LOCALID", "2" }, "SLURM_LOCALID", 2);
}
