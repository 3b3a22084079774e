/* SPDX-License-Identifier: BSD-3-Clause
 * The vector operations that the layers of a model need, as one table: in host memory
 * (compute_cpu.c, with OpenBLAS) and in GPU memory (cuda_module.c, with cuBLAS, a module that
 * --device cuda loads). layers.c calls it for layers, and training.c for parameters and
 * gradients. Matrices are row-major. Operations return 0 or -1; after -1, error() returns the
 * sentence. On a GPU they are enqueued on the stream that open() made, and only get() waits. A
 * state is used by one thread at a time. */
#ifndef TRAIN_COMPUTE_H
#define TRAIN_COMPUTE_H
#include "tools/train/loss.h"

/* The product c = a b, or c += a b. c is rows x columns. After their transpositions, a is rows x
 * inner and b is inner x columns. */
struct product {
	const float *a, *b;
	float *c;
	size_t rows, columns, inner;
	int transpose_a, transpose_b, add;
};

/* z has rows x width outputs of the last layer, which become scale * d loss / d z. score has one
 * entry per row. */
struct loss_call {
	enum loss_kind kind;
	float *z;
	const float *label;
	size_t rows, width;
	float scale;
	struct row_score *score;
};

struct compute_ops {
	size_t size; /* sizeof(struct compute_ops); a module with another size is of another
			build and refused */
	int in_host; /* 1: vectors are in host memory */
	const char *(*error)(void); /* the last error of the calling thread */
	/* Chooses the device of this process. text receives the choice and the reason. */
	int (*open)(void **state, char *text, size_t cap);
	void (*close)(void *state);
	void *(*stream)(void *state); /* for sluice_model_attr.stream */

	int (*alloc)(void *state, size_t bytes, void **out);
	void (*release)(void *state, void *p); /* accepts NULL */
	int (*put)(void *state, void *to, const void *from_host,
		   size_t bytes); /* the caller may reuse from_host on return; it may equal `to` */
	int (*get)(void *state, void *to_host, const void *from, size_t bytes);
	int (*zero)(void *state, void *to, size_t bytes);

	int (*product)(void *state, const struct product *p);
	int (*bias)(void *state, float *z, const float *bias, size_t rows,
		    size_t width); /* each row = bias */
	int (*relu)(void *state, float *z, size_t n);
	/* slope becomes 0 at elements whose activation is not above 0 */
	int (*relu_slope)(void *state, float *slope, const float *activation, size_t n);
	/* grad[j] += slope[0][j], then slope[1][j], ... */
	int (*bias_slope)(void *state, float *grad, const float *slope, size_t rows, size_t width);
	int (*loss)(void *state, const struct loss_call *call);
	int (*descend)(void *state, float *params, const float *grad, float lr,
		       size_t n); /* params -= lr * grad */
};

/* A table and its state. */
struct compute {
	const struct compute_ops *ops;
	void *state;
};

extern const struct compute_ops compute_cpu; /* its state is NULL */

/* Implemented in compute.c. device is "cpu", "cuda" or "cuda:FILE" (the module). Returns 0 and
 * writes the device in use, or returns -1 and writes the reason, to text in one line. */
int compute_open(const char *device, struct compute *out, char *text, size_t cap);
void compute_close(struct compute *compute); /* has no effect on a zeroed struct */

/* The only symbol of a module. */
typedef const struct compute_ops *compute_module_fn(void);
#define COMPUTE_MODULE_SYMBOL "sluice_train_module"
#endif
