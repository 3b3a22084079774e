/* SPDX-License-Identifier: BSD-3-Clause
 * Tests that need a GPU, because the emulation takes turns or lacks the case: parallel streams and
 * processes, threads with their own default streams, addresses at odd offsets, the largest vector,
 * a kernel of another stream that does not end, and the driver's handling of contexts, managed and
 * pageable memory. Selections are compared with a sort on the host, bit by bit. One line for each;
 * built and run by tests/gpu/run: silicon MODULE. */
#include "base/device_kernels.h"
#include <algorithm>
#include <cmath>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <functional>
#include <random>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

enum { N = 1000003, K = 5000, STEPS = 5, SPIN_LIMIT_S = 20 };

static const struct device_ops *ops;
static const struct device_kernels *kernels;
static int wrong_ones;

static double seconds()
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A check returns "" if it passed, otherwise "skipped: ..." or the error. */
static void check(const char *name, const std::function<std::string()> &holds)
{
	const std::string said = holds();
	const bool skipped = said.rfind("skipped", 0) == 0;

	wrong_ones += !said.empty() && !skipped;
	printf("%-8s %s%s%s\n",
	       said.empty() ? "ok" :
	       skipped      ? "skipped" :
			      "wrong",
	       name, said.empty() ? "" : ": ", said.c_str());
	fflush(stdout);
}

#define TRY(call)                                                                                  \
	do {                                                                                       \
		if ((call) != 0)                                                                   \
			return std::string(#call ": ") + ops->error() + "; " +                     \
			       cudaGetErrorString(cudaGetLastError());                             \
	} while (0)

/* ---- a selection, there and here ---- */

struct trial {
	float *residual = NULL, *grad = NULL;
	size_t shift;
	struct device_selector *s = NULL;
	std::vector<float> sum, here;

	explicit trial(size_t at = 0) : shift(at), sum(N), here(N + at)
	{
	}
	~trial()
	{
		kernels->selector_close(&s);
		cudaFree(residual);
		cudaFree(grad);
	}
};

static std::string begin(trial &t)
{
	struct device_shape shape = {};

	shape.n = N;
	shape.k = K;
	TRY(cudaGetDevice(&shape.device));
	TRY(cudaMalloc((void **)&t.residual, N * sizeof(float)));
	TRY(cudaMalloc((void **)&t.grad, (N + t.shift) * sizeof(float)));
	TRY(cudaMemset(t.residual, 0, N * sizeof(float)));
	TRY(kernels->selector_open(&shape, &t.s));
	return "";
}

static std::string new_gradient(trial &t, int step)
{
	std::mt19937 random((unsigned)step + 1);
	std::normal_distribution<float> normal;

	for (float &v : t.here)
		v = normal(random);
	TRY(cudaMemcpy(t.grad, t.here.data(), (N + t.shift) * sizeof(float), cudaMemcpyDefault));
	return "";
}

static std::string enqueue(trial &t, cudaStream_t stream)
{
	struct device_selection call = {};

	call.call.residual = t.residual;
	call.call.grad = t.grad + t.shift;
	call.call.scale = 1;
	call.call.judge = DEVICE_JUDGE_LATE;
	call.call.k = K;
	call.clear = 1;
	TRY(kernels->select(t.s, &call, stream));
	return "";
}

/* The expected selection has the largest magnitudes, and among equal ones the first. */
static std::string compare(trial &t, cudaStream_t stream)
{
	std::vector<uint32_t> index(K), order(N);
	std::vector<float> value(K), left(N);
	struct device_selected got;

	TRY(kernels->selected(t.s, index.data(), value.data(), &got, stream));
	TRY(cudaMemcpy(left.data(), t.residual, N * sizeof(float), cudaMemcpyDefault));
	for (size_t i = 0; i < N; i++) {
		t.sum[i] += t.here[t.shift + i];
		order[i] = (uint32_t)i;
	}
	std::nth_element(order.begin(), order.begin() + K, order.end(),
			 [&](uint32_t a, uint32_t b) {
				 const float x = std::fabs(t.sum[a]), y = std::fabs(t.sum[b]);

				 return x != y ? x > y : a < b;
			 });
	std::sort(order.begin(), order.begin() + K);
	if (got.n != K)
		return std::to_string(got.n) + " were selected";
	for (size_t i = 0; i < K; i++) {
		if (index[i] != order[i] || memcmp(&value[i], &t.sum[order[i]], sizeof(float)))
			return "entry " + std::to_string(i) + " is coordinate " +
			       std::to_string(index[i]) + ", not " + std::to_string(order[i]);
		t.sum[order[i]] = 0;
	}
	return memcmp(left.data(), t.sum.data(), N * sizeof(float)) ? "another residual" : "";
}

static std::string steps(trial &t, cudaStream_t stream)
{
	std::string said = begin(t);

	for (int step = 0; step < STEPS && said.empty(); step++) {
		said = new_gradient(t, step);
		said = said.empty() ? enqueue(t, stream) : said;
		said = said.empty() ? compare(t, stream) : said;
	}
	return said;
}

/* ---- the checks ---- */

static std::string two_streams()
{
	trial t[2];
	cudaStream_t stream[2];
	std::string said;

	for (int i = 0; i < 2 && said.empty(); i++) {
		TRY(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
		said = begin(t[i]);
	}
	for (int step = 0; step < STEPS && said.empty(); step++) {
		for (int i = 0; i < 2 && said.empty(); i++)
			said = new_gradient(t[i], step + 100 * i);
		for (int i = 0; i < 2 && said.empty(); i++)
			said = enqueue(t[i], stream[i]);
		for (int i = 0; i < 2 && said.empty(); i++)
			said = compare(t[i], stream[i]);
	}
	for (int i = 0; i < 2; i++)
		cudaStreamDestroy(stream[i]);
	return said;
}

static std::string own_thread(cudaStream_t stream)
{
	std::string said;

	std::thread([&] {
		trial t;
		said = steps(t, stream);
	}).join();
	return said;
}

static std::string odd_offsets()
{
	std::string said;

	for (size_t shift = 1; shift < 4 && said.empty(); shift++) {
		trial t(shift);
		said = steps(t, NULL);
	}
	return said;
}

__global__ static void put_last(float *x, size_t n, unsigned k)
{
	const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < k)
		x[n - k + i] = 1.0f + (float)i / 4096;
}

static std::string largest_vector()
{
	const size_t n = UINT32_MAX;
	struct device_selection call = {};
	struct device_selected got;
	struct device_shape shape = {};
	struct device_selector *s = NULL;
	std::vector<uint32_t> index(K);
	size_t unused, there;
	float *x;

	TRY(cudaMemGetInfo(&unused, &there));
	if (unused < n * 4 + n / 2)
		return "skipped: the GPU has too little free memory";
	shape.n = n;
	shape.k = K;
	TRY(cudaGetDevice(&shape.device));
	TRY(cudaMalloc((void **)&x, n * sizeof(float)));
	TRY(cudaMemset(x, 0, n * sizeof(float)));
	put_last<<<(K + 255) / 256, 256>>>(x, n, K);
	TRY(kernels->selector_open(&shape, &s));
	call.x = x;
	call.call.k = K;
	TRY(kernels->select(s, &call, NULL));
	TRY(kernels->selected(s, index.data(), NULL, &got, NULL));
	kernels->selector_close(&s);
	cudaFree(x);
	for (uint32_t i = 0; i < K; i++)
		if (got.n != K || index[i] != n - K + i)
			return "entry " + std::to_string(i) + " of " + std::to_string(got.n) +
			       " is coordinate " + std::to_string(index[i]);
	return "";
}

__global__ static void spin(const volatile uint32_t *go)
{
	while (!*go)
		__nanosleep(1000);
}

/* The other kernel represents one that waits for a peer that waits for this push. */
static std::string spinning_kernel()
{
	const uint32_t n = 100000, room = 1 << 20;
	struct device_shape shape = {};
	struct device_part part = {};
	struct device_push push = {};
	struct device_compressor *c = NULL;
	struct device_selected got;
	struct device_sent sent;
	struct memory residual, grad, payload;
	cudaStream_t other, stream;
	uint32_t *go;
	std::string said;

	shape.n = n;
	shape.k = 100;
	shape.parts = 1;
	TRY(cudaGetDevice(&shape.device));
	TRY(cudaHostAlloc((void **)&go, sizeof(*go), cudaHostAllocDefault));
	*go = 0;
	TRY(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	TRY(ops->open(&shape, &c));
	TRY(ops->alloc(MEMORY_DEVICE, n * 4, &residual));
	TRY(ops->alloc(MEMORY_DEVICE, n * 4, &grad));
	TRY(ops->alloc(MEMORY_DEVICE, room, &payload));
	TRY(cudaMemset(residual.address, 0, n * 4));
	TRY(cudaMemset(grad.address, 1, n * 4));
	TRY(cudaDeviceSynchronize());
	part.span = n;
	part.capacity = 100;
	part.payload = (uint8_t *)payload.address;
	push.payload = DEVICE_PAIRS;
	push.select.residual = (float *)residual.address;
	push.select.grad = grad.address;
	push.select.scale = 1;
	push.select.judge = DEVICE_JUDGE_LATE;
	push.select.k = 100;
	push.settle = 1;
	push.parts = &part;
	spin<<<1, 1, 0, other>>>(go);
	/* If a call waits for the other kernel, another thread must end that kernel. */
	bool done = false;
	std::thread watch([&] {
		for (double until = seconds() + SPIN_LIMIT_S; !done && seconds() < until;)
			usleep(1000);
		__atomic_store_n(go, 1, __ATOMIC_RELEASE);
	});
	const double began = seconds();
	int rc = ops->push(c, &push, stream);

	while (!rc && seconds() < began + SPIN_LIMIT_S - 1 && (rc = ops->poll(c, 1, stream)) == 0)
		usleep(100);
	if (rc < 0)
		said = ops->error();
	else if (!rc || seconds() > began + SPIN_LIMIT_S - 1)
		said = "the push waited for it";
	done = true;
	watch.join();
	TRY(cudaDeviceSynchronize());
	TRY(ops->pushed(c, &got, &sent, stream));
	said = !said.empty() || (got.n == 100 && sent.packed) ? said : "not 100 entries";
	ops->close(&c);
	ops->release(&residual);
	ops->release(&grad);
	ops->release(&payload);
	cudaFreeHost(go);
	return said;
}

static std::string pageable_memory()
{
	const size_t bytes = 64 << 20;
	std::vector<char> here(bytes, 7), back(bytes);
	char *there;

	TRY(cudaMalloc((void **)&there, bytes));
	TRY(ops->copy(there, here.data(), bytes, NULL));
	memset(here.data(), 9, bytes);
	TRY(ops->wait(NULL));
	TRY(cudaMemcpy(back.data(), there, bytes, cudaMemcpyDefault));
	cudaFree(there);
	for (size_t i = 0; i < bytes; i++)
		if (back[i] != 7)
			return "byte " + std::to_string(i) + " was read after the call's return";
	return "";
}

static std::string managed_memory()
{
	float *there;
	int device = -1;

	TRY(cudaMallocManaged((void **)&there, 4096));
	const int found = ops->find(there, &device);
	cudaFree(there);
	return found == 1 ? "" : "find() returned " + std::to_string(found);
}

/* Runs in a separate process, before anything else uses CUDA. */
static std::string no_context()
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int here = 0, device, active = -1;
	unsigned flags;

	if (!driver)
		return "skipped: no libcuda.so.1";
	auto init = (int (*)(unsigned))dlsym(driver, "cuInit");
	auto state = (int (*)(int, unsigned *, int *))dlsym(driver, "cuDevicePrimaryCtxGetState");
	if (!init || !state || init(0))
		return "skipped: cuInit failed";
	if (ops->find(&here, &device) != 0)
		return "host memory was not recognised";
	if (state(0, &flags, &active) || active)
		return "asking about host memory made a context";
	return "";
}

int main(int argc, char **argv)
{
	void *module = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int status;

	if (!module) {
		fprintf(stderr, "usage: silicon MODULE (%s)\n", dlerror());
		return 2;
	}
	ops = ((device_module_fn *)dlsym(module, DEVICE_MODULE_SYMBOL))();
	kernels = ((device_kernels_fn *)dlsym(module, DEVICE_KERNELS_SYMBOL))();
	/* Forks children before this process uses CUDA. The first ends at once, the second runs
	 * next to the other checks. */
	pid_t child = fork();
	if (!child) {
		check("asking about host memory makes no context", no_context);
		_exit(wrong_ones != 0);
	}
	waitpid(child, &status, 0);
	wrong_ones += status != 0;
	child = fork();
	if (!child) {
		trial *t = new trial;
		const std::string said = steps(*t, NULL);
		fprintf(stderr, "%s", said.c_str());
		_exit(!said.empty());
	}
	int devices = 0;
	if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) {
		waitpid(child, &status, 0);
		printf("there is no GPU\n");
		return 77;
	}
	check("two streams beside each other", two_streams);
	check("another thread, which never chose a device", [] { return own_thread(NULL); });
	check("the thread's own default stream", [] { return own_thread(cudaStreamPerThread); });
	check("gradients at odd offsets", odd_offsets);
	check("a push beside a kernel that does not end", spinning_kernel);
	check("pageable memory is free when a copy returns", pageable_memory);
	check("managed memory is the GPU's", managed_memory);
	check("2^32 - 1 coordinates", largest_vector);
	check("two processes on one GPU", [&]() -> std::string {
		if (waitpid(child, &status, 0) == child && !status)
			return "";
		return "the other process failed";
	});
	return wrong_ones != 0;
}
