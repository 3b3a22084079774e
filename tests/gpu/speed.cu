/* SPDX-License-Identifier: BSD-3-Clause
 * Times the module's kernels, the device's own copy and the selections of rivals.cu in one run:
 * medians of repetitions, measured by events on one stream. Prints rows "what | n | density | ms |
 * GB/s | of copy". sluice-bench measures whole calls, for every size, number and entropy. Built,
 * with rivals.cu, and run by tests/gpu/run: speed MODULE [N]. */
#include "base/device_kernels.h"
#include "tools/bench/rivals.h"
#include <algorithm>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

enum { REPEAT = 15, WARM = 4, SHIFTS = 64, SHIFT = 16, BLOCK = 256, GRID = 1024 };
enum data { GAUSSIAN, EQUAL, SORTED };

static const struct device_ops *ops;
static const struct device_kernels *kernels;
static cudaStream_t stream;
static double copy_speed;

static void need(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "speed: %s: %s; %s\n", what, ops ? ops->error() : "",
		cudaGetErrorString(cudaGetLastError()));
	exit(1);
}

static bool open_selector(size_t n, size_t k, struct device_selector **out)
{
	struct device_shape shape = {};

	shape.n = n;
	shape.k = k;
	return !kernels->selector_open(&shape, out);
}

static void *device_memory(size_t bytes)
{
	void *p = NULL;

	need(cudaMalloc(&p, bytes) == cudaSuccess, "no memory");
	return p;
}

__device__ static double uniform(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	x ^= x >> 31;
	return ((double)(x >> 11) + 0.5) / 9007199254740992.0;
}

__global__ static void fill(float *x, size_t n, enum data data)
{
	for (size_t i = blockIdx.x * (size_t)BLOCK + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * BLOCK)
		x[i] = data == EQUAL  ? 0.25f :
		       data == SORTED ? (float)((double)(i + 1) / (double)n) :
					(float)(sqrt(-2 * log(uniform(2 * i))) *
						cospi(2 * uniform(2 * i + 1)));
}

template <class Work> static double median_ms(Work work)
{
	std::vector<float> times;
	cudaEvent_t begin, end;

	cudaEventCreate(&begin);
	cudaEventCreate(&end);
	for (int i = 0; i < WARM + REPEAT; i++) {
		float ms;

		cudaEventRecord(begin, stream);
		work(i);
		cudaEventRecord(end, stream);
		need(cudaEventSynchronize(end) == cudaSuccess, "a kernel");
		cudaEventElapsedTime(&ms, begin, end);
		if (i >= WARM)
			times.push_back(ms);
	}
	std::sort(times.begin(), times.end());
	cudaEventDestroy(begin);
	cudaEventDestroy(end);
	return times[times.size() / 2];
}

static void row(const char *what, size_t n, double density, double ms, double bytes)
{
	double speed = bytes / ms * 1e-6;

	printf("%-34s | %10zu | %6.3f | %9.4f | %7.1f | %5.2f\n", what, n, density, ms, speed,
	       speed / copy_speed);
	fflush(stdout);
}

static void measure_copy(float *to, const float *from, size_t n)
{
	double ms = median_ms(
		[&](int) { cudaMemcpyAsync(to, from, n * 4, cudaMemcpyDeviceToDevice, stream); });

	copy_speed = 8.0 * n / ms * 1e-6;
	row("copy", n, 1, ms, 8.0 * n);
}

/* Prints a row for residual += grad and top-k, with 12 bytes per coordinate. */
static double select(const char *what, struct device_selector *s, float *residual,
		     const float *pool, size_t n, size_t k, int forget)
{
	cudaMemsetAsync(residual, 0, n * 4, stream);
	const double ms = median_ms([&](int i) {
		struct device_selection call = {};

		call.call.residual = residual;
		call.call.grad = pool + i % SHIFTS * SHIFT;
		call.call.scale = 1;
		call.clear = 1;
		call.forget = forget;
		call.call.judge = DEVICE_JUDGE_LATE;
		call.call.k = k;
		need(!kernels->select(s, &call, stream), "select");
	});

	row(what, n, (double)k / n, ms, 12.0 * n);
	return ms;
}

/* Prints the same after momentum and clipping: the gradient is read twice, residual and momentum
 * are read and written, and the sum is read again. */
static void fold(struct device_selector *s, float *residual, const float *pool, size_t n, size_t k)
{
	float *velocity = (float *)device_memory(n * 4);

	cudaMemsetAsync(residual, 0, n * 4, stream);
	cudaMemsetAsync(velocity, 0, n * 4, stream);
	double ms = median_ms([&](int i) {
		struct device_selection call = {};

		call.call.residual = residual;
		call.call.grad = pool + i % SHIFTS * SHIFT;
		call.call.scale = 1;
		call.clear = 1;
		call.call.k = k;
		call.call.clip = 1;
		call.call.velocity = velocity;
		call.call.momentum = 0.9f;
		need(!kernels->select(s, &call, stream), "select");
	});

	row("momentum, clip, select", n, (double)k / n, ms, 28.0 * n);
	cudaFree(velocity);
}

/* Prints gaussiank and a draw of the same density, counting the bytes of one sweep. Further passes
 * only show in the time. */
static void approximate(struct device_selector *s, float *residual, const float *pool, size_t n,
			size_t k)
{
	for (int drawn = 0; drawn < 2; drawn++) {
		cudaMemsetAsync(residual, 0, n * 4, stream);
		double ms = median_ms([&](int i) {
			struct device_selection call = {};

			call.call.residual = residual;
			call.call.grad = pool + i % SHIFTS * SHIFT;
			call.call.scale = 1;
			call.clear = 1;
			call.call.k = k;
			call.call.gaussian = !drawn;
			call.call.quantile = k * 1000 == n ? 3.2905267 :
							     2.5758293; /* of 0.1 % and of 1 % */
			call.call.draw = drawn ? DEVICE_DRAW_DENSITY : DEVICE_DRAW_NONE;
			call.call.wanted = (double)k / n;
			call.call.purpose = 1;
			call.call.step = i;
			call.call.fresh = drawn;
			need(!kernels->select(s, &call, stream), "approximate select");
		});
		row(drawn ? "random, fresh residual" : "gaussiank + residual", n, (double)k / n, ms,
		    12.0 * n);
	}
}

/* Prints packing and applying the selected lists, counting bytes that must be read and written. */
static void messages(struct device_selector *s, float *vector, size_t n, size_t k)
{
	std::vector<uint32_t> index(k);
	std::vector<float> value(k);
	struct device_selected got;
	struct device_selection call = {};

	call.x = vector;
	call.call.k = k;
	need(!kernels->select(s, &call, stream) &&
		     !kernels->selected(s, index.data(), value.data(), &got, stream),
	     "select");
	uint32_t *there = (uint32_t *)device_memory(got.n * 4);
	float *values = (float *)device_memory(got.n * 4);
	uint8_t *payload = (uint8_t *)device_memory(got.n * 8 + n / 8 + 4096);
	struct device_pack pack = {};
	struct device_packed packed;

	cudaMemcpy(there, index.data(), got.n * 4, cudaMemcpyDefault);
	cudaMemcpy(values, value.data(), got.n * 4, cudaMemcpyDefault);
	pack.index = there;
	pack.value = pack.decoded = values;
	pack.payload = payload;
	pack.count = (uint32_t)got.n;
	pack.span = (uint32_t)n;
	double ms = median_ms([&](int) { need(!kernels->pack(s, &pack, stream), "pack"); });
	need(!kernels->packed(s, &packed, stream), "pack");
	row("pack, f32", n, (double)k / n, ms, 8.0 * got.n + packed.payload_bytes);
	struct device_quantize few = {};

	few.index = there;
	few.value = few.decoded = values;
	few.out = payload;
	few.count = (uint32_t)got.n;
	few.value_type = 3; /* uniform */
	few.bits = 4;
	few.block = 512;
	ms = median_ms([&](int) { need(!kernels->quantize(s, &few, stream), "quantize"); });
	row("quantize, uniform(4,512)", n, (double)k / n, ms, 16.5 * got.n);
	/* each entry reads and writes a sector of 32 bytes */
	struct device_shape shape = {};
	struct device_compressor *c;
	uint32_t *landed;
	float *landed_values;

	struct device_apply applied = {};

	shape.n = n;
	shape.k = k;
	shape.landed = got.n;
	applied.vector = vector;
	applied.index = there;
	applied.value = values;
	applied.count = (uint32_t)got.n;
	need(!ops->open(&shape, &c), "compressor");
	ms = median_ms([&](int) { need(!ops->apply(c, &applied, stream), "apply"); });
	row("apply, lists on the device", n, (double)k / n, ms, 72.0 * got.n);
	/* as in a pull */
	need(!ops->land(c, (uint32_t)got.n, &landed, &landed_values, stream), "land");
	std::copy(index.begin(), index.begin() + got.n, landed);
	std::copy(value.begin(), value.begin() + got.n, landed_values);
	applied.index = landed;
	applied.value = landed_values;
	ms = median_ms([&](int) { need(!ops->apply(c, &applied, stream), "apply"); });
	row("apply, pinned lists", n, (double)k / n, ms, 72.0 * got.n);
	ops->close(&c);
	cudaFree(there);
	cudaFree(values);
	cudaFree(payload);
}

/* Five rows of four times k columns, over one shard of a vector: x and the cells. */
static void sketches(const float *x, size_t n)
{
	const uint32_t rows = 5, columns = (uint32_t)(n / 250);
	struct device_sketch_call call = {
		x, (float *)device_memory(4ull * rows * columns), (uint32_t)n, rows, columns, 1
	};
	struct device_sketch *sketch;

	need(!kernels->sketch_open(0, call.n, columns, &sketch), "sketch");
	cudaMemsetAsync(call.cells, 0, 4ull * rows * columns, stream);
	double ms = median_ms(
		[&](int) { need(!kernels->sketch_add(sketch, &call, stream), "sketch"); });
	row("count sketch, 5 rows", n, 0.001, ms, 4.0 * n + 8.0 * rows * columns);
	kernels->sketch_close(&sketch);
	cudaFree(call.cells);
}

extern "C" const struct rivals_ops *sluice_bench_rivals(void);

/* Prints another program's selection with the addition. bytes: counted per coordinate. */
static void rival(const char *what, bool sorts, const float *x, float *residual, size_t n, size_t k,
		  double bytes, double ours)
{
	const struct rivals_ops *rivals = sluice_bench_rivals();
	const auto work = sorts ? rivals->sort : rivals->topk;
	struct rivals *r;

	if (!work) {
		printf("  %s is not among the headers, so it was not measured\n", what);
		return;
	}
	need(!rivals->open(n, k, &r) && !rivals->keys(r, x, stream), rivals->error());
	const double ms = median_ms(
		[&](int) { need(!work(r, residual, x, stream), rivals->error()); });
	row(what, n, (double)k / n, ms, bytes * n);
	printf("  %.2f times as long as select with a hint\n", ms / ours);
	rivals->close(&r);
}

/* Prints a whole push with settling and payloads in device memory, next to the selection alone. k
 * 0: a push of all coordinates, next to the copy. */
static void push(float *residual, const float *pool, size_t n, size_t k, double beside_ms)
{
	for (uint32_t parts = 1; parts <= 64; parts *= 8) {
		/* Allocates the most for positions and values of a part, and for its bitmap. */
		const size_t room = k ? (2 * k / parts + 1024) * 8 / 64 * 64 +
						    n / parts / 8 / 64 * 64 + 4096 :
					(n / parts + 64) * 4 / 64 * 64;
		std::vector<struct device_part> part(parts);
		uint8_t *payloads = (uint8_t *)device_memory(room * parts);
		struct device_shape shape = {};
		struct device_push call = {};
		struct device_compressor *c;
		std::vector<struct device_sent> sent(parts);
		struct device_selected got;
		size_t packed = 0;

		for (uint32_t p = 0; p < parts; p++) {
			const size_t begin = n * p / parts;

			part[p].begin = (uint32_t)begin;
			part[p].span = (uint32_t)(n * (p + 1) / parts - begin);
			part[p].capacity = (uint32_t)(2 * k / parts + 1024);
			part[p].payload = payloads + p * room;
		}
		shape.n = n;
		shape.k = k;
		shape.parts = parts;
		need(!ops->open(&shape, &c), "compressor");
		call.payload = k ? DEVICE_PAIRS : DEVICE_DENSE;
		call.select.residual = residual;
		call.select.scale = 1;
		call.select.judge = DEVICE_JUDGE_LATE;
		call.select.k = k;
		call.settle = 1;
		call.parts = part.data();
		cudaMemsetAsync(residual, 0, n * 4, stream);
		double ms = median_ms([&](int i) {
			call.select.grad = pool + i % SHIFTS * SHIFT;
			/* The event after the last push was waited for, so that push has ended. */
			need(!ops->push(c, &call, stream), "push");
		});
		need(!ops->pushed(c, &got, sent.data(), stream), "push");
		for (uint32_t p = 0; p < parts; p++)
			packed += sent[p].packed;
		char what[64];
		snprintf(what, sizeof(what), "push to %u shards, %zu packed", parts, packed);
		row(what, n, k ? (double)k / n : 1, ms, 12.0 * n);
		printf("  %.2f times as long as the %s alone\n", ms / beside_ms,
		       k ? "selection" : "copy");
		ops->close(&c);
		cudaFree(payloads);
	}
}

int main(int argc, char **argv)
{
	size_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 250000000, small = 1000000;
	void *module = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	char text[512];

	need(module != NULL, "usage: speed MODULE [N]");
	ops = ((device_module_fn *)dlsym(module, DEVICE_MODULE_SYMBOL))();
	kernels = ((device_kernels_fn *)dlsym(module, DEVICE_KERNELS_SYMBOL))();
	need(ops->size == sizeof(*ops) && kernels->size == sizeof(*kernels) &&
		     !ops->describe(text, sizeof(text)),
	     "no device");
	printf("%s\n", text);
	cudaStreamCreate(&stream);
	float *pool = (float *)device_memory((n + SHIFTS * SHIFT) * 4),
	      *residual = (float *)device_memory(n * 4);
	struct device_selector *s;
	double hinted = 0, at_percent = 0;

	printf("%-34s | %10s | %6s | %9s | %7s | %5s\n", "what", "n", "part", "ms", "GB/s",
	       "of copy");
	fill<<<GRID, BLOCK, 0, stream>>>(pool, n + SHIFTS * SHIFT, GAUSSIAN);
	measure_copy(residual, pool, n);
	for (int percent = 0; percent < 2; percent++) {
		size_t k = n / (percent ? 100 : 1000);

		need(open_selector(n, k, &s), "selector");
		double ms = select("select + residual, hint", s, residual, pool, n, k, 0);
		hinted = percent ? hinted : ms;
		at_percent = ms;
		double fresh = select("select + residual, no hint", s, residual, pool, n, k, 1);
		fill<<<GRID, BLOCK, 0, stream>>>(pool, n + SHIFTS * SHIFT, EQUAL);
		ms = select("the same, all equal", s, residual, pool, n, k, 1);
		printf("  %.2f times as long as Gaussian\n", ms / fresh);
		fill<<<GRID, BLOCK, 0, stream>>>(pool, n + SHIFTS * SHIFT, SORTED);
		ms = select("the same, sorted", s, residual, pool, n, k, 1);
		printf("  %.2f times as long as Gaussian\n", ms / fresh);
		fill<<<GRID, BLOCK, 0, stream>>>(pool, n + SHIFTS * SHIFT, GAUSSIAN);
		fold(s, residual, pool, n, k);
		approximate(s, residual, pool, n, k);
		messages(s, pool, n, k);
		kernels->selector_close(&s);
		push(residual, pool, n, k, percent ? at_percent : hinted);
		rival("CUB DeviceTopK and an addition", false, pool, residual, n, k, 12,
		      percent ? at_percent : hinted);
	}
	push(residual, pool, n, 0, 8e-6 * n / copy_speed);
	need(open_selector(small, small / 100, &s), "selector");
	select("select + residual, hint", s, residual, pool, small, small / 1000, 0);
	kernels->selector_close(&s);
	sketches(pool, n / 10);
	rival("CUB radix sort and an addition", true, pool, residual, n, n / 1000, 28, hinted);
	return 0;
}
