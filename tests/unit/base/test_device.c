/* SPDX-License-Identifier: BSD-3-Clause
 * Finding the GPU module: with and without it, with and without a driver. Each case is a process,
 * because the module is looked for once. */
#include "base/error.h"
#include "base/device.h"
#include "sluice.h"
#include "tests/gpu/emulation/counts.h"
#include "cases.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { YES, NO };

/* Runs `holds` in a child with SLUICE_GPU set, or not set (NULL). */
static void expect(int (*holds)(void), const char *gpu)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		if (gpu)
			setenv("SLUICE_GPU", gpu, 1);
		else
			unsetenv("SLUICE_GPU");
		_exit(holds());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), YES);
}

static int host_memory_is_host_memory(void)
{
	const struct device_ops *ops = (const void *)1;
	int here = 0;

	return !device_of(&here, &ops) && !ops ? YES : NO;
}

TEST(device_of__host_memory_without_driver_or_module)
{
	expect(host_memory_is_host_memory, NULL);
	expect(host_memory_is_host_memory, "off");
	expect(host_memory_is_host_memory, "/nowhere/libsluice_cuda.so");
	expect(host_memory_is_host_memory, EMULATED_MODULE);
}

static int load_says(const char *first, const char *second)
{
	const char *why = "";

	if (device_load(&why) || !strstr(why, first) || !strstr(why, second)) {
		fprintf(stderr, "said: %s\n", why);
		return NO;
	}
	return device_load(&why) ? NO : YES;
}

static int absent(void)
{
	return load_says("there is no GPU module (/nowhere/libsluice_cuda.so: ", "--with-cuda=yes");
}

static int switched_off(void)
{
	return load_says("switched off", "SLUICE_GPU=off");
}

static int stranger(void)
{
	return load_says("libm.so.6 is not a GPU module of this build", "");
}

TEST(device_load__what_is_missing_is_said)
{
	expect(absent, "/nowhere/libsluice_cuda.so");
	expect(switched_off, "off");
	expect(stranger, "libm.so.6");
}

static int device_memory_is_found(void)
{
	const char *why = "";
	const struct device_ops *ops = device_load(&why), *found = NULL;
	struct memory memory;

	if (!ops || ops->alloc(MEMORY_DEVICE, 100, &memory) ||
	    device_of((char *)memory.address + 99, &found) || found != ops)
		return NO;
	ops->release(&memory);
	return memory.address ? NO : YES;
}

TEST(device_of__device_memory_gives_the_table)
{
	expect(device_memory_is_found, EMULATED_MODULE);
}

static int another_device_is_refused(void)
{
	void *module = dlopen(EMULATED_MODULE, RTLD_NOW),
	     *symbol = dlsym(module, "emulated_device");
	const char *why = "";
	const struct device_ops *ops = device_load(&why), *found = NULL;
	void (*present)(int);
	struct memory memory;
	char text[200];

	memcpy(&present, &symbol, sizeof(symbol));
	present(2);
	setenv("SLURM_LOCALID", "1", 1);
	if (!ops || ops->choose(text, sizeof(text)) || ops->alloc(MEMORY_DEVICE, 100, &memory) ||
	    device_of(memory.address, &found))
		return NO;
	setenv("SLURM_LOCALID", "0", 1);
	sluice_set_log(NULL, NULL);
	if (ops->choose(text, sizeof(text)) || device_of(memory.address, &found) != SLUICE_EGPU)
		return NO;
	ops->release(&memory);
	return strstr(sluice_last_error(), "it is on GPU 1, but the calling thread uses GPU 0") ?
		       YES :
		       NO;
}

TEST(device_of__memory_of_another_device_than_the_current_one__is_refused)
{
	expect(another_device_is_refused, EMULATED_MODULE);
}

/* ---- the calls of CUDA that the library makes ---------------------------------- */

static const struct device_ops *emulated(const char *name, void *function)
{
	const char *why = "";
	const struct device_ops *ops = device_load(&why);
	void *symbol = dlsym(dlopen(EMULATED_MODULE, RTLD_NOW), name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol ? ops : NULL;
}

static struct emulated_counts counts(void)
{
	struct emulated_counts c = { 0 };
	void (*count)(struct emulated_counts *);

	if (emulated("emulated_count", &count))
		count(&c);
	return c;
}

static int no_context_for_host_memory(void)
{
	const char *why = "";

	return device_load(&why) && host_memory_is_host_memory() == YES && !counts().contexts ?
		       YES :
		       NO;
}

TEST(device_of__host_memory_makes_no_context_on_a_gpu)
{
	expect(no_context_for_host_memory, EMULATED_MODULE);
}

/* Returns the errors of a process in which CUDA cannot be initialised, and of one whose GPU is
 * lost. */
static int failing_initialisation_is_no_device_memory(void)
{
	static const int host[] = { 1, 3, 4, 34, 46, 100, 201, 802, 803, 804 };
	static const int lost[] = { 214, 700, 710, 719, 999 };
	const struct device_ops *ops;
	void (*fail_call)(unsigned, int);
	int here = 0, wrong = 0;

	if (!emulated("emulated_fail", &fail_call))
		return NO;
	sluice_set_log(NULL, NULL);
	for (size_t i = 0; i < sizeof(host) / sizeof(*host); i++) {
		fail_call(0, host[i]);
		if (device_of(&here, &ops) || ops)
			wrong += fprintf(stderr, "error %d: not host memory\n", host[i]);
	}
	for (size_t i = 0; i < sizeof(lost) / sizeof(*lost); i++) {
		fail_call(0, lost[i]);
		if (device_of(&here, &ops) != SLUICE_EGPU)
			wrong += fprintf(stderr, "error %d: no failure\n", lost[i]);
	}
	return wrong ? NO : YES;
}

TEST(device_of__cuda_cannot_be_initialised__is_host_memory)
{
	expect(failing_initialisation_is_no_device_memory, EMULATED_MODULE);
}

static int managed_memory_is_the_devices(void)
{
	const struct device_ops *ops, *found = NULL;
	struct memory memory;
	void (*manage)(void *);

	ops = emulated("emulated_manage", &manage);
	if (!ops || ops->alloc(MEMORY_DEVICE, 100, &memory))
		return NO;
	manage(memory.address);
	return !device_of(memory.address, &found) && found == ops ? YES : NO;
}

/* The CPU could read this memory, but perhaps before the kernels of the stream have written it. */
TEST(device_of__managed_memory_is_used_in_the_order_of_the_stream)
{
	expect(managed_memory_is_the_devices, EMULATED_MODULE);
}

static int dma_bufs_are_made_when_asked_for(void)
{
	const struct device_ops *ops;
	struct memory plain, exported, without;
	void (*exports)(int);

	ops = emulated("emulated_export", &exports);
	if (!ops || ops->alloc(MEMORY_EXPORTED, 5000, &without) || without.fd != -1)
		return NO;
	exports(1);
	if (ops->alloc(MEMORY_DEVICE, 5000, &plain) || plain.fd != -1 || counts().dma_bufs)
		return NO;
	if (ops->alloc(MEMORY_EXPORTED, 5000, &exported) || exported.fd < 0 ||
	    exported.place != MEMORY_DEVICE || exported.bytes != 5000 || counts().dma_bufs != 1)
		return NO;
	ops->release(&plain);
	ops->release(&exported);
	ops->release(&without);
	return YES;
}

TEST(alloc__dma_buf_only_of_memory_that_a_card_is_to_read)
{
	expect(dma_bufs_are_made_when_asked_for, EMULATED_MODULE);
}

/* A push of a model of 100 coordinates on GPU 1. A thread that uses GPU 0 completes it, as the
 * progress thread does. */
struct pushed {
	const struct device_ops *ops;
	struct device_compressor *c;
	struct memory residual, grad, payload;
	struct device_part part;
	struct device_selected got;
	struct device_sent sent;
	int rc;
};

static int push_on_second_gpu(struct pushed *p)
{
	struct device_shape shape = { .device = 1, .n = 100, .k = 5, .parts = 1 };
	struct device_push push = { .payload = DEVICE_PAIRS, .settle = 1, .parts = &p->part };

	if (p->ops->open(&shape, &p->c) || p->ops->alloc(MEMORY_DEVICE, 400, &p->residual) ||
	    p->ops->alloc(MEMORY_DEVICE, 400, &p->grad) ||
	    p->ops->alloc(MEMORY_DEVICE, 1000, &p->payload) ||
	    p->ops->zero(p->residual.address, 400, NULL) ||
	    p->ops->zero(p->grad.address, 400, NULL))
		return -1;
	p->part = (struct device_part){ .span = 100,
					.capacity = 10,
					.payload = p->payload.address };
	push.select = (struct device_select){ .residual = p->residual.address,
					      .grad = p->grad.address,
					      .scale = 1,
					      .judge = DEVICE_JUDGE_LATE,
					      .k = 5 };
	return p->ops->push(p->c, &push, NULL);
}

static void *see_to_the_rest(void *argument)
{
	struct pushed *p = argument;
	unsigned (*run)(unsigned);

	p->rc = p->ops->poll(p->c, 1, NULL); /* the device has not done anything yet */
	if (!p->rc)
		p->rc = p->ops->pushed(p->c, &p->got, &p->sent, NULL);
	if (!p->rc && emulated("emulated_run", &run))
		run(100);
	return NULL;
}

static int all_calls_are_for_the_pushes_gpu(void)
{
	struct pushed p = { 0 };
	void (*present)(int), (*lag)(int);
	pthread_t thread;
	char text[200];

	p.ops = emulated("emulated_device", &present);
	emulated("emulated_lag", &lag);
	present(2);
	setenv("SLURM_LOCALID", "1", 1);
	counts();
	if (!p.ops || p.ops->choose(text, sizeof(text)))
		return NO;
	lag(1);
	if (push_on_second_gpu(&p) || pthread_create(&thread, NULL, see_to_the_rest, &p) ||
	    pthread_join(thread, NULL) || p.rc || !p.sent.packed)
		return NO;
	struct emulated_counts seen = counts();
	p.ops->close(&p.c);
	p.ops->release(&p.residual);
	p.ops->release(&p.grad);
	p.ops->release(&p.payload);
	if (seen.contexts == 1u << 1 && !seen.loaded_late)
		return YES;
	fprintf(stderr, "contexts %x, %u kernels loaded late\n", seen.contexts, seen.loaded_late);
	return NO;
}

TEST(push__seen_to_by_another_thread__uses_no_other_gpu_and_loads_no_kernel_late)
{
	expect(all_calls_are_for_the_pushes_gpu, EMULATED_MODULE);
}

/* ---- the driver --------------------------------------------------------------- */

static int no_driver_is_said(void)
{
	void *module = dlopen(EMULATED_MODULE, RTLD_NOW),
	     *symbol = dlsym(module, "emulated_device");
	const char *why = "";
	const struct device_ops *ops = device_load(&why);
	void (*present)(int);
	char text[200];

	memcpy(&present, &symbol, sizeof(symbol));
	present(0);
	if (!ops->describe(text, sizeof(text)) ||
	    !strstr(ops->error(), "this node has no CUDA driver (libcuda.so.1), or its driver is "
				  "older than CUDA 13.0"))
		return NO;
	return host_memory_is_host_memory();
}

TEST(describe__without_a_driver_says_so)
{
	expect(no_driver_is_said, EMULATED_MODULE);
}

/* The driver is in the process, and reports that everything is its memory. */
static int refused_without_module(void)
{
	const struct device_ops *ops;
	int here = 0;

	if (!dlopen(FAKE_DRIVER, RTLD_NOW))
		return NO;
	sluice_set_log(NULL, NULL);
	if (device_of(&here, &ops) != SLUICE_EGPU)
		return NO;
	return strstr(sluice_last_error(), "is GPU memory, but there is no GPU module (/nowhere/") ?
		       YES :
		       NO;
}

TEST(device_of__device_memory_without_module_is_refused)
{
	expect(refused_without_module, "/nowhere/libsluice_cuda.so");
}

/* The application loads the driver after it has pushed from host memory, and loads other libraries
 * first. */
static int driver_that_comes_late_is_noticed(void)
{
	const struct device_ops *ops;
	int here = 0;

	if (device_of(&here, &ops) || ops || device_of(&here, &ops) || ops)
		return NO;
	if (!dlopen(EMULATED_MODULE, RTLD_NOW) || device_of(&here, &ops) || ops)
		return NO;
	return refused_without_module();
}

TEST(device_of__driver_loaded_between_two_calls_is_noticed)
{
	expect(driver_that_comes_late_is_noticed, "/nowhere/libsluice_cuda.so");
}

#ifdef REAL_MODULE
/* The module that was built can be loaded anywhere. Without a driver it reports that. */
static int real_module_loads(void)
{
	const char *why = "";
	const struct device_ops *ops = device_load(&why);
	char text[512];

	if (!ops) {
		fprintf(stderr, "%s\n", why);
		return NO;
	}
	if (ops->describe(text, sizeof(text)) && !strstr(ops->error(), "CUDA driver"))
		return NO;
	return host_memory_is_host_memory();
}
#endif

TEST(device_load__the_module_that_was_built_loads_without_a_driver)
{
#ifdef REAL_MODULE
	expect(real_module_loads, REAL_MODULE);
#else
	skip();
#endif
}
