/* SPDX-License-Identifier: BSD-3-Clause
 * Two models of one recipe in a rank, one with vectors in GPU memory, on an emulated device that
 * can lag behind the host (tests/gpu/emulation/lag.c). If a check fails, these functions end the
 * rank. */
#ifndef TESTS_GPU_LAG_H
#define TESTS_GPU_LAG_H
#include "gpu_step.h"

enum { AT_ONCE, LAGGING, BESIDE, ALL = 1 << 20, FAILURE = 719 };

/* Functions of the emulated device. */
struct emulated {
	void (*lag)(int how);
	unsigned (*run)(unsigned most);
	void (*fail_running)(unsigned after, int error);
	void (*fail_call)(unsigned after, int error);
	int (*stream)(void **, unsigned);
	int (*destroy)(void *);
	int (*begin)(void *, int);
	int (*end)(void *, void **);
	int (*free_graph)(void *);
};
extern struct emulated emulated;

/* Two models with the same recipe. One of them has its gradient in GPU memory. */
struct pair {
	const struct device_ops *ops;
	sluice_job *job;
	sluice_model *host, *gpu;
	struct memory params_memory, grad_memory;
	float *there, *grad_there;
	float params[COUNT], grad[COUNT];
	const struct shape *shape;
	int rank;
};

void begin_emulated(void);
/* job: from rank_join(), or a simulated rank's. */
void open_models(struct pair *p, sluice_job *job, const struct shape *shape, void *stream);
void close_models(struct pair *p);
/* Opens job and models. wait_ms: the limit of waits; 0: the default. */
void open_pair(struct pair *p, const struct shape *shape, void *stream, int wait_ms);
void close_pair(struct pair *p);

void new_gradient(struct pair *p, int step);
enum on_device_state late(const struct pair *p);
/* Returns the sequence number of the next message to shard 0, which grows with each message that is
 * posted. */
uint64_t next_seq(struct pair *p);
/* Waits until another thread has changed the state. */
void expect_becomes(const struct pair *p, enum on_device_state state);
/* Compares parameters, residual and momentum. */
void expect_same_pair(struct pair *p);
#endif
