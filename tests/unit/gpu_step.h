/* SPDX-License-Identifier: BSD-3-Clause
 * Two models of one recipe in a rank, one with vectors in GPU memory: for the tests that compare
 * them. If a check fails, these functions end the rank. */
#ifndef TESTS_GPU_STEP_H
#define TESTS_GPU_STEP_H
#include "worker/state.h"
#include "worker/lane.h"
#include "worker/device_push.h"
#include "model/model.h"
#include "job/state.h"
#include "base/error.h"
#include "gpu_rank.h"

enum { COUNT = 5000, STEPS = 6, RANKS = 3, SHARDS = 3, SHARDS_SKEWED = 10 };

struct shape {
	const char *recipe;
	int on_host;     /* 1: selection is expected on the host */
	int nan_at;      /* step whose gradient has a NaN; 0: none */
	int home_at;     /* from this step on the gradient is in host memory; 0: never */
	int ranges_at;   /* in this step the gradient comes in ranges; 0: never */
	int measured_at; /* from this step on SLUICE_MEASURE is on; 0: never */
	int narrow;      /* 16-bit or 8-bit type of the gradients; 0: 32 bits */
	int skewed;      /* 1: one shard has the heavy coordinates, which overflow its slot */
};

/* Returns COUNT zeros in device memory. */
float *device_vector(const struct device_ops *ops, struct memory *m);
void to_device(const struct device_ops *ops, float *there, const float *here);
/* Checks that COUNT floats are equal. */
void expect_on_device(const struct device_ops *ops, const float *there, const float *here);
void gradient(float *grad, int rank, int step, const struct shape *shape);
/* Compares messages except for the model's number and thus the header's checksum. A payload that is
 * not in the staging slot is compared by its length and checksum, and by its effect on the
 * shards. */
void expect_same_messages(const sluice_model *host, const sluice_model *gpu);
/* Checks whether more was selected than a slot holds. */
void expect_overflow(sluice_model *gpu, int overflows);
/* overflows: more was selected than a slot holds. */
void expect_same_stats(sluice_model *host, sluice_model *gpu, int overflows);
sluice_model_attr attr_of_shape(const struct shape *shape);
#endif
