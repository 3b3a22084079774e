/* SPDX-License-Identifier: BSD-3-Clause
 * Other programs' selections on a GPU, for comparison. They are a separate module
 * (tests/gpu/rivals.cu) that --rivals names, so neither the library nor sluice-bench contains
 * them. Also runs the command of --torch. Called by select_gpu.c. */
#ifndef BENCH_RIVALS_H
#define BENCH_RIVALS_H
#include <stddef.h>
#include <stdint.h>

struct rivals;

/* All functions return 0 or -1; after -1, error() returns the reason. x, residual and grad are
 * device memory. sort() and topk() enqueue residual += grad in the stream, and then the
 * selection among keys that were made before. */
struct rivals_ops {
	size_t size; /* sizeof(struct rivals_ops) */
	const char *(*error)(void);
	/* For vectors of n elements; k: of topk(). */
	int (*open)(size_t n, size_t k, struct rivals **out);
	void (*close)(struct rivals **rivals);
	/* The magnitudes of x become the keys. */
	int (*keys)(struct rivals *r, const float *x, void *stream);
	/* All keys with their positions in descending order, by CUB's radix sort. NULL: CUB is not
	 * among the headers that the module was built with. */
	int (*sort)(struct rivals *r, float *residual, const float *grad, void *stream);
	/* The k largest with their positions, by CUB's DeviceTopK. NULL, likewise. */
	int (*topk)(struct rivals *r, float *residual, const float *grad, void *stream);
};

/* The function by which a module returns its table, and that function's name. */
typedef const struct rivals_ops *rivals_module_fn(void);
#define RIVALS_MODULE_SYMBOL "sluice_bench_rivals"

/* The table of the module in this file. NULL after saying on stderr why there is none. */
const struct rivals_ops *rivals_load(const char *file);

/* The measurements of --torch. Its command is run with arguments "n:k:ands" (ands as in axes.h;
 * -1: Gaussian values) and prints "n k ands milliseconds" for each. */
struct torch_time {
	size_t n, k;
	int ands;
	double ms;
};
struct torch_times {
	struct torch_time *of;
	size_t n, room;
};
/* Adds a point to the request. Returns 0, or -1 without memory. */
int torch_ask(struct torch_times *t, size_t n, size_t k, int ands);
/* Runs the command. -1 after saying on stderr what is wrong. */
int torch_run(struct torch_times *t, const char *command);
/* NaN: it was not asked for. */
double torch_ms(const struct torch_times *t, size_t n, size_t k, int ands);
void torch_close(struct torch_times *t);
#endif
