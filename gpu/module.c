/* SPDX-License-Identifier: BSD-3-Clause
 * The tables of this module: the operations that the library calls, and single kernels. */
#include "gpu/context.h"
#include "gpu/choose.h"
#include "gpu/failure.h"
#include "gpu/memory.h"
#include "gpu/compressor.h"
#include "gpu/selector.h"
#include "gpu/sketch.h"
#include <stdio.h>

/* Writes one line that lists the devices, or the reason why there is none. */
static int describe_devices(char *text, size_t cap)
{
	size_t at = 0;
	int n = 0;

	if (choose_count(&n))
		return -1;
	text[0] = 0;
	for (int d = 0; d < n && at < cap; d++) {
		struct cudaDeviceProp p;

		if (cuda_check(cudaGetDeviceProperties(&p, d), "looking for GPUs"))
			return -1;
		at += (size_t)snprintf(text + at, cap - at,
				       "%s%d: %.64s, %.1f GiB, compute capability %d.%d",
				       d ? "; " : "", d, p.name, (double)p.totalGlobalMem / 0x1p30,
				       p.major, p.minor);
	}
	return 0;
}

static const struct device_ops ops = {
	.size = sizeof(ops),
	.error = cuda_failure,
	.describe = describe_devices,
	.bus_id = choose_bus_id,
	.choose = choose_and_use,
	.find = cuda_find,
	.enter = cuda_enter,
	.leave = cuda_leave,
	.alloc = cuda_alloc,
	.release = cuda_release,
	.pin = cuda_pin,
	.unpin = cuda_unpin,
	.copy = cuda_copy,
	.zero = cuda_zero,
	.wait = cuda_wait,
	.stream_open = cuda_stream_open,
	.stream_close = cuda_stream_close,
	.ready = cuda_ready,
	.open = cuda_open,
	.close = cuda_close,
	.push = cuda_push,
	.poll = cuda_poll,
	.stage = cuda_stage,
	.pushed = cuda_pushed,
	.fetch = cuda_fetch,
	.settle = cuda_settle,
	.land = cuda_land,
	.lands = cuda_lands,
	.apply = cuda_apply,
	.change = cuda_change,
};

static const struct device_kernels kernels = {
	.size = sizeof(kernels),
	.selector_open = cuda_selector_open,
	.selector_close = cuda_selector_close,
	.select = cuda_select,
	.selected = cuda_selected,
	.pack = cuda_pack,
	.packed = cuda_packed,
	.quantize = cuda_quantize,
	.quantized = cuda_quantized,
	.sketch_open = cuda_sketch_open,
	.sketch_close = cuda_sketch_close,
	.sketch_add = cuda_sketch_add,
};

/* These functions are looked up by name, but symbols are hidden by default. */
__attribute__((visibility("default"))) device_module_fn sluice_device_module;
__attribute__((visibility("default"))) device_kernels_fn sluice_device_kernels;

const struct device_ops *sluice_device_module(void)
{
	return &ops;
}

const struct device_kernels *sluice_device_kernels(void)
{
	return &kernels;
}
