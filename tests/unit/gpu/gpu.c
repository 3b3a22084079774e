/* SPDX-License-Identifier: BSD-3-Clause
 * See gpu.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "gpu.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static struct memory kept[256];

int gpu_slow(void)
{
	return getenv("GPU_TEST_SMALL") || !strcmp(device_module_path(), EMULATED_MODULE);
}

const struct device_ops *gpu(void)
{
	static const struct device_ops *ops;
	const char *why;
	char text[512];

	if (ops)
		return ops;
	setenv("SLUICE_GPU", EMULATED_MODULE, 0);
	ops = device_load(&why);
	if (!ops)
		fail_msg("%s", why);
	if (ops->describe(text, sizeof(text)))
		fail_msg("%s", ops->error());
	return ops;
}

const struct device_kernels *gpu_kernels(void)
{
	device_kernels_fn *kernels;
	void *symbol;

	gpu();
	symbol = device_symbol(DEVICE_KERNELS_SYMBOL);
	assert_non_null(symbol);
	memcpy(&kernels, &symbol, sizeof(symbol));
	assert_int_equal(kernels()->size, sizeof(struct device_kernels));
	return kernels();
}

int gpu_selector(size_t n, size_t k, const struct device_span *exempt, size_t n_exempt,
		 struct device_selector **out)
{
	const struct device_shape shape = {
		.n = n, .k = k, .exempt = exempt, .n_exempt = n_exempt
	};

	return gpu_kernels()->selector_open(&shape, out);
}

void *gpu_memory(const void *from, size_t bytes)
{
	struct memory *m = kept;

	while (m->address)
		m++;
	assert_true(m < kept + sizeof(kept) / sizeof(kept[0]));
	assert_int_equal(gpu()->alloc(MEMORY_DEVICE, bytes, m), 0);
	if (from) {
		assert_int_equal(gpu()->copy(m->address, from, bytes, NULL), 0);
	} else {
		void *poison = malloc(bytes + 1);

		assert_non_null(poison);
		memset(poison, POISON, bytes);
		assert_int_equal(gpu()->copy(m->address, poison, bytes, NULL), 0);
		assert_int_equal(gpu()->wait(NULL), 0);
		free(poison);
	}
	assert_int_equal(gpu()->wait(NULL), 0);
	return m->address;
}

void gpu_free(void *there)
{
	for (struct memory *m = kept; there && m < kept + sizeof(kept) / sizeof(kept[0]); m++)
		if (m->address == there) {
			gpu()->release(m);
			return;
		}
	assert_null(there);
}

void gpu_fetch(void *to, const void *there, size_t bytes)
{
	assert_int_equal(gpu()->copy(to, there, bytes, NULL), 0);
	assert_int_equal(gpu()->wait(NULL), 0);
}

int gpu_count(struct emulated_counts *out)
{
	void *symbol = dlsym(dlopen(device_module_path(), RTLD_NOW | RTLD_NOLOAD),
			     "emulated_count");
	void (*count)(struct emulated_counts *);

	*out = (struct emulated_counts){ 0 };
	if (!symbol)
		return 0;
	memcpy(&count, &symbol, sizeof(symbol));
	count(out);
	return 1;
}

int gpu_counts_vectors(void)
{
	struct emulated_counts unused;

	return gpu_count(&unused) && !getenv("EMULATED_PTX");
}

void *memory(size_t bytes)
{
	void *p = malloc(bytes + 1);

	assert_non_null(p);
	memset(p, POISON, bytes + 1);
	return p;
}

const struct value_coding gpu_codings[GPU_CODINGS] = {
	{ .type = VALUE_F32 },
	{ .type = VALUE_F16 },
	{ .type = VALUE_BF16 },
	{ .type = VALUE_UNIFORM, .bits = 1, .block = 64 },
	{ .type = VALUE_UNIFORM, .bits = 3, .block = 8 },
	{ .type = VALUE_UNIFORM, .bits = 8, .block = 512 },
	{ .type = VALUE_GRID, .bits = 1 },
	{ .type = VALUE_GRID, .bits = 5 },
	{ .type = VALUE_TWOMEANS, .bits = 2, .block = UNIFORM_BLOCK },
	{ .type = VALUE_E3M0, .bits = 4, .block = UNIFORM_BLOCK },
};

float gpu_value(int kind, struct random *r)
{
	uint32_t bits = random_bits(r);

	switch (kind % 4) {
	case 0: return random_normal(r);
	case 1: return bits_float(bits & 0x807fffff);                /* denormal */
	case 2: return bits_float((bits & 0x80ffffff) + 0x7e000000); /* nearly the largest value */
	default: return bits & 1 ? -0.0f : random_normal(r) * 1e-6f;
	}
}
