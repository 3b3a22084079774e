/* SPDX-License-Identifier: BSD-3-Clause
 * Other programs' selections on a GPU, for comparison. They are a separate module
 * (tests/gpu/rivals.cu) that --rivals names, so neither the library nor sluice-bench contains
 * them. Also runs the command of --torch. Called by select_gpu.c. */
#ifndef BENCH_RIVALS_H
#define BENCH_RIVALS_H
#include <stddef.h>
#include <stdint.h>

struct rivals;

/* All functions return 0 or -1. After -1, error() returns the reason. x, residual and grad are
 * device memory. sort() and topk() first enqueue residual += grad in the stream, and then a
 * selection among the keys of keys(). */
struct rivals_ops {
	size_t size; /* sizeof(struct rivals_ops) */
	const char *(*error)(void);
	/* Prepares for vectors of n elements; k is for topk(). */
	int (*open)(size_t n, size_t k, struct rivals **out);
	void (*close)(struct rivals **rivals);
	/* Makes keys of the magnitudes of x. */
	int (*keys)(struct rivals *r, const float *x, void *stream);
	/* Sorts all keys with their positions in descending order by CUB's radix sort. NULL: the
	 * module was built without CUB's headers. */
	int (*sort)(struct rivals *r, float *residual, const float *grad, void *stream);
	/* Finds the k largest keys with their positions by CUB's DeviceTopK. NULL: as for
	 * sort(). */
	int (*topk)(struct rivals *r, float *residual, const float *grad, void *stream);
};

/* The function by which a module returns its table, and that function's name. */
typedef const struct rivals_ops *rivals_module_fn(void);
#define RIVALS_MODULE_SYMBOL "sluice_bench_rivals"

/* Returns the table of the module in this file, or NULL after printing the reason on stderr. */
const struct rivals_ops *rivals_load(const char *file);

/* The measurements of --torch. Its command gets arguments "n:k:ands" (ands as in axes.h; -1:
 * Gaussian values) and prints "n k ands milliseconds" for each. */
struct torch_time {
	size_t n, k;
	int ands;
	double ms;
};
struct torch_times {
	struct torch_time *of;
	size_t n, room;
};
/* Adds a point to the request. Returns 0, or -1 if there is no memory. */
int torch_ask(struct torch_times *t, size_t n, size_t k, int ands);
/* Runs the command. Returns -1 after printing the error on stderr. */
int torch_run(struct torch_times *t, const char *command);
/* Returns NaN if the point was not requested. */
double torch_ms(const struct torch_times *t, size_t n, size_t k, int ands);
void torch_close(struct torch_times *t);
#endif
