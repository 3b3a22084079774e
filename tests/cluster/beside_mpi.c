/* SPDX-License-Identifier: BSD-3-Clause
 * A program with Sluice and MPI, for test_mpi.sh: beside_mpi ORDER, where ORDER is "sluice" or
 * "mpi" for the library that is initialised first, or "over" for Sluice's bootstrap over MPI.
 * Prints both ranks and sizes, after a barrier of each library. */
#include "sluice.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

/* Every rank puts the same keys in the same order, so a put can be an MPI_Allgather. */
enum { PUTS = 2, VALUE_BYTES = 4096, MOST_RANKS = 16 };

struct value {
	char key[64];
	size_t bytes;
	char text[VALUE_BYTES];
};

static struct store {
	struct value values[PUTS * MOST_RANKS];
	int n;
} store;

static int put(void *context, const char *key, const void *value, size_t bytes)
{
	struct store *s = context;
	static struct value mine;
	int ranks;

	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (bytes > VALUE_BYTES || s->n + ranks > PUTS * MOST_RANKS)
		return SLUICE_ENOMEM;
	snprintf(mine.key, sizeof(mine.key), "%s", key);
	mine.bytes = bytes;
	memcpy(mine.text, value, bytes);
	MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, s->values + s->n, sizeof(mine), MPI_BYTE,
		      MPI_COMM_WORLD);
	s->n += ranks;
	return 0;
}

static int get(void *context, const char *key, void *value, size_t room, size_t *bytes_out,
	       int timeout_ms)
{
	const struct store *s = context;

	(void)timeout_ms;
	for (int i = 0; i < s->n; i++)
		if (!strcmp(s->values[i].key, key)) {
			*bytes_out = s->values[i].bytes;
			if (s->values[i].bytes <= room)
				memcpy(value, s->values[i].text, s->values[i].bytes);
			return 0;
		}
	return SLUICE_ETIMEDOUT;
}

int main(int argc, char **argv)
{
	const char *order = argc > 1 ? argv[1] : "";
	sluice_bootstrap over = { .size = sizeof(over), .context = &store, .put = put, .get = get };
	sluice_job_attr attr = { .size = sizeof(attr) };
	sluice_job *job = NULL;
	int rank, ranks;

	if (strcmp(order, "sluice"))
		MPI_Init(&argc, &argv);
	if (!strcmp(order, "over")) {
		MPI_Comm_rank(MPI_COMM_WORLD, &over.rank);
		MPI_Comm_size(MPI_COMM_WORLD, &over.ranks);
		attr.bootstrap = &over;
	}
	if (sluice_init(&attr, &job)) {
		fprintf(stderr, "%s\n", sluice_last_error());
		return 1;
	}
	if (!strcmp(order, "sluice"))
		MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (sluice_barrier(job) || MPI_Barrier(MPI_COMM_WORLD))
		return 1;
	printf("sluice %d/%d mpi %d/%d\n", sluice_rank(job), sluice_size(job), rank, ranks);
	sluice_finalize(&job);
	MPI_Finalize();
	return 0;
}
