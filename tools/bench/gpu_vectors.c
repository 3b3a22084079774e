/* SPDX-License-Identifier: BSD-3-Clause
 * See gpu_vectors.h. */
#include "tools/bench/gpu_vectors.h"
#include "base/clock.h"
#include "tools/bench/samples.h"
#include <string.h>

const struct device_ops *gpu_open(char *device, size_t cap)
{
	const char *why = "";
	const struct device_ops *ops = device_load(&why);

	if (ops && !ops->choose(device, cap))
		return ops;
	fprintf(stderr, "sluice-bench: --device cuda: %s\n", ops ? ops->error() : why);
	return NULL;
}

const struct device_kernels *gpu_kernels(void)
{
	const struct device_kernels *kernels;
	device_kernels_fn *get = NULL;
	void *symbol = device_symbol(DEVICE_KERNELS_SYMBOL);

	memcpy(&get, &symbol, sizeof(symbol));
	kernels = get ? get() : NULL;
	if (kernels && kernels->size == sizeof(*kernels))
		return kernels;
	fprintf(stderr, "sluice-bench: --device cuda: %s offers no single kernels\n",
		device_module_path());
	return NULL;
}

int gpu_failed(const struct device_ops *ops)
{
	fprintf(stderr, "sluice-bench: --device cuda: %s\n", ops->error());
	return -1;
}

int gpu_vector(const struct device_ops *ops, const float *from, size_t n, struct memory *out)
{
	if (ops->alloc(MEMORY_DEVICE, n * sizeof(float), out))
		return gpu_failed(ops);
	if ((from ? ops->copy(out->address, from, n * sizeof(float), NULL) :
		    ops->zero(out->address, n * sizeof(float), NULL)) ||
	    ops->wait(NULL))
		return gpu_failed(ops);
	return 0;
}

int gpu_copy_ms(const struct device_ops *ops, float *to, const float *from, size_t n, double *ms)
{
	enum { WARM = 1, TIMES = 7 };
	double values[TIMES];
	struct samples s = { .values = values, .capacity = TIMES };

	for (int i = 0; i < WARM + TIMES; i++) {
		const uint64_t began = now_ns();

		if (ops->copy(to, from, n * sizeof(float), NULL) || ops->wait(NULL))
			return gpu_failed(ops);
		if (i >= WARM)
			samples_add(&s, (double)(now_ns() - began) * 1e-6);
	}
	*ms = samples_summary(&s).p50;
	return 0;
}
