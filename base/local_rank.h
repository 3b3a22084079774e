/* SPDX-License-Identifier: BSD-3-Clause
 * The number of this process among the processes of its node, from the launcher's variables. Used
 * by the library and by the GPU module. */
#ifndef BASE_LOCAL_RANK_H
#define BASE_LOCAL_RANK_H
#include <stddef.h>
#include <stdlib.h>

struct local_rank {
	const char *variable; /* the variable that gave the rank; NULL: none did */
	int rank;             /* 0 if no variable gave one */
};

/* Returns the value of a variable that holds a number of processes, or -1. */
static inline int local_number(const char *variable)
{
	const char *text = getenv(variable);
	char *end;
	const long value = text ? strtol(text, &end, 10) : -1;

	return text && end != text && !*end && value >= 0 && value < 1 << 20 ? (int)value : -1;
}

/* The variables of launchers that run inside a Slurm task are tried before Slurm's: the processes
 * that torchrun or mpirun start in a task all inherit its SLURM_LOCALID. */
static inline struct local_rank local_rank_find(void)
{
	static const struct {
		const char *variable, *beside; /* beside: a variable whose value must be above the
						  rank; NULL: none is checked */
	} rows[] = { { "LOCAL_RANK", "LOCAL_WORLD_SIZE" }, /* torchrun */
		     { "OMPI_COMM_WORLD_LOCAL_RANK", NULL },
		     { "MPI_LOCALRANKID", NULL },   /* MPICH, Intel MPI */
		     { "PALS_LOCAL_RANKID", NULL }, /* HPE */
		     { "SLURM_LOCALID", NULL },
		     { "LOCAL_RANK", NULL } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const int rank = local_number(rows[i].variable);

		if (rank >= 0 && (!rows[i].beside || local_number(rows[i].beside) > rank))
			return (struct local_rank){ rows[i].variable, rank };
	}
	return (struct local_rank){ NULL, 0 };
}
#endif
