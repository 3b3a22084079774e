/* SPDX-License-Identifier: BSD-3-Clause
 * Runs kernels on the CPU (cuda_runtime.h) and stands in for CUDA's runtime. A block is a system thread, its
 * threads are coroutines that change places only where CUDA's threads must meet: in warp functions and
 * barriers. Blocks of a cooperative launch really run beside each other; those of another take turns. The
 * order in which coroutines go on is shuffled from launch to launch, so what depends on it shows. */
#include "coroutine.h"
#include "cuda_runtime.h"
#include "graph.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { THREADS_MOST = 256, WARP = 32, STACK_BYTES = 128 << 10, BLOCKS_AT_ONCE = 2, PAGE = 4096 };

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ENTER(fake, stack, bytes) __sanitizer_start_switch_fiber(fake, stack, bytes)
#define ENTERED(fake, stack, bytes) __sanitizer_finish_switch_fiber(fake, stack, bytes)
#else
#define ENTER(fake, stack, bytes) (void)(fake)
#define ENTERED(fake, stack, bytes) (void)(fake)
#endif

/* Valgrind must be told that these are stacks, or it takes a change of them for a huge frame. */
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(begin, end) 0
#define VALGRIND_STACK_DEREGISTER(id) (void)(id)
#endif

struct warp {
	uint64_t given[2][WARP]; /* of this meeting and the one before, which may still be read */
	unsigned arrived, meeting;
};

struct coroutine {
	coroutine_state state;
	char *stack;
	unsigned stack_id; /* valgrind's */
	void *fake;
	int done;
	struct emulated_place place;
};

struct block {
	struct coroutine thread[THREADS_MOST];
	struct warp warp[THREADS_MOST / WARP];
	coroutine_state scheduler;
	void *scheduler_fake;
	const void *scheduler_stack;
	size_t scheduler_bytes;
	unsigned now, threads, arrived, barrier;
	void (*kernel)(const void *);
	const void *args;
	char *stacks;
};

static _Thread_local struct block *block;

/* ---- meeting points ---------------------------------------------------------------------------- */

const struct emulated_place *emulated_here(void)
{
	return &block->thread[block->now].place;
}

/* To the scheduler and back. */
static void give_way(void)
{
	struct coroutine *self = &block->thread[block->now];

	ENTER(self->done ? NULL : &self->fake, block->scheduler_stack, block->scheduler_bytes);
	coroutine_switch(&self->state, &block->scheduler);
	ENTERED(self->fake, &block->scheduler_stack, &block->scheduler_bytes);
}

const uint64_t *emulated_exchange(uint64_t mine)
{
	struct warp *w = &block->warp[block->now / WARP];
	const unsigned meeting = w->meeting;

	w->given[meeting % 2][block->now % WARP] = mine;
	if (++w->arrived == WARP) {
		w->arrived = 0;
		w->meeting++;
	}
	while (w->meeting == meeting)
		give_way();
	return w->given[meeting % 2];
}

void emulated_block_barrier(void)
{
	const unsigned barrier = block->barrier;

	if (++block->arrived == block->threads) {
		block->arrived = 0;
		block->barrier++;
	}
	while (block->barrier == barrier)
		give_way();
}

void emulated_pause(void)
{
	sched_yield();
}

/* ---- one block --------------------------------------------------------------------------------- */

static void begin(void)
{
	ENTERED(NULL, &block->scheduler_stack, &block->scheduler_bytes);
	block->kernel(block->args);
	block->thread[block->now].done = 1;
	give_way();
}

static void start(struct block *b, unsigned t, unsigned index, unsigned grid)
{
	struct coroutine *c = &b->thread[t];

	*c = (struct coroutine){ .stack = b->stacks + (size_t)t * STACK_BYTES,
				 .place = { .thread = { t, 0, 0 }, .block = { index, 0, 0 },
					    .grid = { grid, 1, 1 }, .threads = { b->threads, 1, 1 } } };
	c->stack_id = VALGRIND_STACK_REGISTER(c->stack, c->stack + STACK_BYTES);
	coroutine_make(&c->state, c->stack, STACK_BYTES, begin);
}

static void run_block(struct block *b, unsigned index, unsigned grid)
{
	unsigned left = b->threads, order = index * 7 + grid;

	memset(b->warp, 0, sizeof b->warp);
	b->arrived = b->barrier = 0;
	for (unsigned t = 0; t < b->threads; t++)
		start(b, t, index, grid);
	while (left) {
		unsigned warps = b->threads / WARP, odd = 2 * (order++ % 16) + 1;

		/* all threads once, warps and lanes in an order that changes */
		for (unsigned i = 0; i < b->threads; i++) {
			unsigned t = (i / WARP + order) % warps * WARP + (i * odd + order) % WARP;
			struct coroutine *c = &b->thread[t];

			if (c->done)
				continue;
			b->now = t;
			ENTER(&b->scheduler_fake, c->stack, STACK_BYTES);
			coroutine_switch(&b->scheduler, &c->state);
			ENTERED(b->scheduler_fake, NULL, NULL);
			if (c->done)
				VALGRIND_STACK_DEREGISTER(c->stack_id);
			left -= c->done;
		}
	}
}

/* ---- memory ------------------------------------------------------------------------------------ */

struct allocation {
	struct allocation *next;
	char *base;
	size_t bytes, mapped;
	enum cudaMemoryType type;
	int device;
};

static struct {
	pthread_mutex_t lock;
	struct allocation *all;
	unsigned fail_in;
	cudaError_t failure, last;
	int devices;
} runtime = { .lock = PTHREAD_MUTEX_INITIALIZER, .devices = 1 };
static _Thread_local int current_device;

/* Device memory can be touched by kernels and copies only: the host's own accesses are faults, as they would be. */
static void let(int access)
{
	for (struct allocation *a = runtime.all; a; a = a->next)
		if (a->type == cudaMemoryTypeDevice && mprotect(a->base, a->mapped, access))
			abort();
}

/* ---- a launch ---------------------------------------------------------------------------------- */

struct launch {
	void (*kernel)(const void *);
	const void *args;
	unsigned grid, threads, next;
};

static void *run_blocks(void *argument)
{
	struct launch *l = argument;
	struct block *b = calloc(1, sizeof *b);

	if (!b || !(b->stacks = malloc((size_t)l->threads * STACK_BYTES)))
		abort();
	b->kernel = l->kernel;
	b->args = l->args;
	b->threads = l->threads;
	block = b;
	for (unsigned index; (index = __atomic_fetch_add(&l->next, 1, __ATOMIC_SEQ_CST)) < l->grid;)
		run_block(b, index, l->grid);
	block = NULL;
	free(b->stacks);
	free(b);
	return NULL;
}

static void run(const void *kernel, unsigned grid, unsigned threads, const void *args, unsigned at_once)
{
	struct launch l = { .args = args, .grid = grid, .threads = threads };
	pthread_t workers[EMULATED_MULTIPROCESSORS];

	memcpy(&l.kernel, &kernel, sizeof kernel);
	if (threads > THREADS_MOST || threads % WARP || at_once > EMULATED_MULTIPROCESSORS)
		abort();
	let(PROT_READ | PROT_WRITE);
	for (unsigned i = 0; i < at_once; i++)
		if (pthread_create(&workers[i], NULL, run_blocks, &l))
			abort();
	for (unsigned i = 0; i < at_once; i++)
		pthread_join(workers[i], NULL);
	let(PROT_NONE);
}

/* ---- the runtime ------------------------------------------------------------------------------- */

void emulated_fail(unsigned after, cudaError_t error)
{
	runtime.fail_in = after + 1;
	runtime.failure = error;
}

void emulated_device(int present)
{
	runtime.devices = present;
}

void emulated_let(int touch)
{
	let(touch ? PROT_READ | PROT_WRITE : PROT_NONE);
}

cudaError_t emulated_answer(cudaError_t error)
{
	if (!runtime.devices)
		error = cudaErrorInsufficientDriver;
	else if (runtime.fail_in && !--runtime.fail_in)
		error = runtime.failure;
	if (error)
		runtime.last = error;
	return error;
}

static cudaError_t answer(cudaError_t error)
{
	return emulated_answer(error);
}

const char *cudaGetErrorName(cudaError_t error)
{
	switch (error) {
	case cudaSuccess: return "cudaSuccess";
	case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
	case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
	case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
	case cudaErrorNoDevice: return "cudaErrorNoDevice";
	case cudaErrorHostMemoryAlreadyRegistered: return "cudaErrorHostMemoryAlreadyRegistered";
	case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
	case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
	case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
	case cudaErrorStreamCaptureImplicit: return "cudaErrorStreamCaptureImplicit";
	}
	return "unknown";
}

const char *cudaGetErrorString(cudaError_t error)
{
	switch (error) {
	case cudaSuccess: return "no error";
	case cudaErrorInvalidValue: return "invalid argument";
	case cudaErrorMemoryAllocation: return "out of memory";
	case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
	case cudaErrorNoDevice: return "no CUDA-capable device is detected";
	case cudaErrorHostMemoryAlreadyRegistered: return "part or all of the requested memory range is already mapped";
	case cudaErrorLaunchFailure: return "unspecified launch failure";
	case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
	case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
	case cudaErrorStreamCaptureImplicit: return "operation would make the legacy stream depend on a capturing one";
	}
	return "unknown error";
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t last = runtime.last;

	runtime.last = cudaSuccess;
	return last;
}

cudaError_t cudaGetDeviceCount(int *n)
{
	*n = runtime.devices;
	return answer(cudaSuccess);
}

cudaError_t cudaGetDevice(int *device)
{
	*device = current_device;
	return answer(cudaSuccess);
}

cudaError_t cudaSetDevice(int device)
{
	cudaError_t error = answer(device < 0 || device >= runtime.devices ? cudaErrorInvalidValue : cudaSuccess);

	if (!error)
		current_device = device;
	return error;
}

/* Each below a bridge of its own. */
cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int device)
{
	snprintf(text, (size_t)bytes, "0000:%02x:00.0", (unsigned)(16 * device + 0x11));
	return answer(cudaSuccess);
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
	*out = NULL; /* the default one: everything happens at once */
	return answer(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
	(void)device;
	*properties = (struct cudaDeviceProp){ .name = "emulated on the CPU", .totalGlobalMem = 1u << 30,
					       .multiProcessorCount = EMULATED_MULTIPROCESSORS,
					       .major = 9 };
	return answer(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
	(void)device;
	*value = attribute == cudaDevAttrMultiProcessorCount ? EMULATED_MULTIPROCESSORS :
		 attribute == cudaDevAttrGPUDirectRDMAFlushWritesOptions;
	return answer(cudaSuccess);
}

cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
						enum cudaFlushGPUDirectRDMAWritesScope scope)
{
	(void)target, (void)scope;
	return answer(cudaSuccess);
}

static struct allocation *allocation_of(const void *p)
{
	struct allocation *a = runtime.all;

	while (a && !((const char *)p >= a->base && (const char *)p < a->base + a->bytes))
		a = a->next;
	return a;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *p)
{
	struct allocation *a;

	pthread_mutex_lock(&runtime.lock);
	a = allocation_of(p);
	*attributes = (struct cudaPointerAttributes){
		.type = a ? a->type : cudaMemoryTypeUnregistered, .device = a ? a->device : -1,
		.devicePointer = (void *)p };
	pthread_mutex_unlock(&runtime.lock);
	return answer(cudaSuccess);
}

static cudaError_t allocate(void **out, size_t bytes, enum cudaMemoryType type)
{
	struct allocation *a;
	cudaError_t error = answer(graph_unsafe());

	if (error)
		return error;
	a = calloc(1, sizeof *a);
	if (!a)
		return answer(cudaErrorMemoryAllocation);
	a->mapped = (bytes / PAGE + 1) * PAGE;
	a->base = mmap(NULL, a->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (a->base == MAP_FAILED) {
		free(a);
		return answer(cudaErrorMemoryAllocation);
	}
	memset(a->base, 0xa5, bytes); /* what nobody wrote must not be used */
	a->bytes = bytes ? bytes : 1;
	a->type = type;
	a->device = current_device;
	if (type == cudaMemoryTypeDevice && mprotect(a->base, a->mapped, PROT_NONE))
		abort();
	pthread_mutex_lock(&runtime.lock);
	a->next = runtime.all;
	runtime.all = a;
	pthread_mutex_unlock(&runtime.lock);
	*out = a->base;
	return cudaSuccess;
}

static cudaError_t release(void *p)
{
	struct allocation **at = &runtime.all, *a;
	cudaError_t error = graph_unsafe();

	if (error)
		return answer(error);
	if (!p)
		return cudaSuccess;
	pthread_mutex_lock(&runtime.lock);
	while (*at && (*at)->base != (char *)p)
		at = &(*at)->next;
	a = *at;
	if (a)
		*at = a->next;
	pthread_mutex_unlock(&runtime.lock);
	if (!a)
		return answer(cudaErrorInvalidValue);
	if (a->mapped) /* else it is somebody else's, registered */
		munmap(a->base, a->mapped);
	free(a);
	return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes) { return allocate(out, bytes, cudaMemoryTypeDevice); }
cudaError_t cudaFree(void *p) { return release(p); }
cudaError_t cudaFreeHost(void *p) { return release(p); }
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
	(void)flags;
	return allocate(out, bytes, cudaMemoryTypeHost);
}

/* Pages, of which none may be registered twice. */
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
	const uintptr_t from = (uintptr_t)p / PAGE * PAGE, to = ((uintptr_t)p + bytes + PAGE - 1) / PAGE * PAGE;
	cudaError_t error = answer(graph_unsafe());
	struct allocation *a;

	(void)flags;
	pthread_mutex_lock(&runtime.lock);
	for (a = runtime.all; a && !error; a = a->next)
		if (a->type == cudaMemoryTypeHost && (uintptr_t)a->base < to && (uintptr_t)a->base + a->bytes > from)
			error = answer(cudaErrorHostMemoryAlreadyRegistered);
	a = error ? NULL : calloc(1, sizeof *a);
	if (a) {
		*a = (struct allocation){ runtime.all, p, bytes, 0, cudaMemoryTypeHost, 0 };
		runtime.all = a;
	}
	pthread_mutex_unlock(&runtime.lock);
	return error ? error : a ? cudaSuccess : answer(cudaErrorMemoryAllocation);
}

cudaError_t cudaHostUnregister(void *p) { return release(p); }

cudaError_t cudaHostGetDevicePointer(void **there, void *p, unsigned flags)
{
	(void)flags;
	*there = p;
	return answer(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	cudaError_t error = answer(graph_enqueues(stream));

	(void)kind;
	if (!error && graph_records(stream))
		return graph_record(stream, (struct node){ .kind = NODE_COPY, .to = to, .from = from, .bytes = bytes });
	if (!error && bytes) {
		let(PROT_READ | PROT_WRITE);
		memmove(to, from, bytes);
		let(PROT_NONE);
	}
	return error;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
	cudaError_t error = answer(graph_enqueues(stream));

	if (!error && graph_records(stream))
		return graph_record(stream, (struct node){ .kind = NODE_SET, .to = to, .byte = byte, .bytes = bytes });
	if (!error && bytes) {
		let(PROT_READ | PROT_WRITE);
		memset(to, byte, bytes);
		let(PROT_NONE);
	}
	return error;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	return answer(graph_waits(stream));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads,
							   size_t shared)
{
	(void)kernel, (void)threads, (void)shared;
	*blocks = 1;
	return answer(cudaSuccess);
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 threads, void **args, size_t shared,
			     cudaStream_t stream)
{
	cudaError_t error = answer(graph_enqueues(stream));

	(void)shared;
	if (!error && graph_records(stream))
		return graph_record(stream, (struct node){ .kind = NODE_KERNEL, .kernel = kernel, .from = args[0],
							   .grid = grid, .threads = threads });
	if (!error)
		run(kernel, grid.x, threads.x, args[0], grid.x < BLOCKS_AT_ONCE ? grid.x : BLOCKS_AT_ONCE);
	return error;
}

/* More blocks than fit would wait for each other for ever: CUDA refuses them too. */
cudaError_t cudaLaunchCooperativeKernel(const void *kernel, dim3 grid, dim3 threads, void **args,
					size_t shared, cudaStream_t stream)
{
	cudaError_t error = answer(grid.x > EMULATED_MULTIPROCESSORS ? cudaErrorInvalidValue : graph_enqueues(stream));

	(void)shared;
	if (!error && graph_records(stream))
		return graph_record(stream, (struct node){ .kind = NODE_TOGETHER, .kernel = kernel, .from = args[0],
							   .grid = grid, .threads = threads });
	if (!error)
		run(kernel, grid.x, threads.x, args[0], grid.x);
	return error;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
					     unsigned long long flags,
					     enum cudaDriverEntryPointQueryResult *result)
{
	(void)symbol, (void)version, (void)flags;
	*function = NULL;
	*result = cudaDriverEntryPointSymbolNotFound;
	return answer(cudaSuccess);
}
