/* SPDX-License-Identifier: BSD-3-Clause
 * The command line of sluice-bench; the same on every rank, so every rank reads it alone. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H
#include <stddef.h>
#include <stdint.h>

enum { SIZES_MAX = 64, COMPLAINT_BYTES = 256 };

enum test { TEST_PUT, TEST_GET, TEST_NOTIFY, TEST_STEP, TEST_SELECT, TEST_CODEC, TEST_REDUCE };
/* The distribution of the vectors from which coordinates are selected. HINTWRONG is Gaussian, but
 * its scale changes at each call. */
enum distribution {
	DISTRIBUTION_GAUSSIAN,
	DISTRIBUTION_LAPLACE,
	DISTRIBUTION_STUDENT,
	DISTRIBUTION_ZEROS,
	DISTRIBUTION_SPARSE,
	DISTRIBUTION_CONSTANT,
	DISTRIBUTION_EQUAL,
	DISTRIBUTION_SORTED,
	DISTRIBUTION_HINTWRONG,
	DISTRIBUTIONS
};
enum action { ACTION_RUN, ACTION_HELP, ACTION_VERSION };

struct options {
	enum action action;
	enum test test;
	size_t sizes[SIZES_MAX];
	size_t n_sizes;
	int with;        /* the other rank of the pair; -1: the last rank */
	uint64_t warmup; /* rounds or steps before measuring */
	uint64_t repeat; /* measured rounds per size, or steps; 0: as many as fit into seconds */
	double seconds;  /* per measurement */
	int json, limit;
	int cuda;                   /* select, step: the vectors are in GPU memory */
	int axes;                   /* --axes: vary the size too, up to n or count */
	const char *rivals;         /* select on a GPU: the module to compare with, or NULL */
	const char *torch;          /* select on a GPU: the command to compare with, or NULL */
	uint64_t count;             /* step: parameters */
	const char *recipe;         /* step: NULL means SLUICE_RECIPE, or the library's default */
	enum distribution gradient; /* step: only the first few distributions */
	uint64_t shards;            /* step: 0 means the library's default */
	int accumulate;             /* step: the program adds gradients to sluice_accumulator()'s
				       vector */
	int timeline;               /* step: print the time line of one step */
	uint64_t seed;
	uint64_t n, k;  /* select, codec, reduce: elements; selected elements (k 0: by density) */
	double density; /* select: 0 means 0.001, 0.01 and 0.1 */
	enum distribution distribution;
	int threads;
	int messages; /* reduce: number of messages in a step */
};

/* Returns 0, or -1 with a sentence in complaint. */
int options_parse(int argc, char **argv, struct options *out, char complaint[COMPLAINT_BYTES]);
/* Parses "8,64,4K" and "8..1M" (doubling) into sizes[]. Returns 0 or -1. Each size is 1 byte to 1
 * GiB. */
int sizes_parse(const char *text, size_t sizes[SIZES_MAX], size_t *n_out);
void options_print_help(void);
const char *test_name(enum test test);
const char *distribution_name(enum distribution distribution);
#endif
