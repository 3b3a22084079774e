/* SPDX-License-Identifier: BSD-3-Clause
 * See gpu_rank.h. */
#include "gpu_rank.h"
#include "ranks.h"
#include <dlfcn.h>
#include <string.h>

const struct device_ops *device(void)
{
	const char *why = "";
	setenv("SLUICE_GPU", EMULATED_MODULE, 0);
	const struct device_ops *ops = device_load(&why);
	if (!ops)
		fprintf(stderr, "%s\n", why);
	CHECK(ops != NULL);
	return ops;
}

float *device_floats(const struct device_ops *ops, struct memory *m, const float *from, size_t n)
{
	CHECK_OK(ops->alloc(MEMORY_DEVICE, n * sizeof *from, m));
	CHECK_OK(ops->copy(m->address, from, n * sizeof *from, NULL));
	CHECK_OK(ops->wait(NULL));
	return m->address;
}

void there_open(struct side *s)
{
	struct there *t = calloc(1, sizeof(*t));

	CHECK(t);
	s->own = t;
	device_floats(device(), &t->grad, s->params, s->attr.count);
	s->params = device_floats(device(), &t->params, s->params, s->attr.count);
	t->pulled = s->params;
	side_open(s);
}

void *there_grad(struct side *s, const void *grad, size_t bytes)
{
	struct there *t = s->own;

	CHECK_OK(device()->copy(t->grad.address, grad, bytes, NULL));
	CHECK_OK(device()->wait(NULL));
	return t->grad.address;
}

void there_push(struct side *s, const float *grad)
{
	side_push(s, there_grad(s, grad, s->attr.count * sizeof(*grad)));
}

void there_pull(struct side *s, float *target)
{
	struct there *t = s->own;
	void *to = target == s->params ? s->params : t->grad.address; /* the memory of a mean may
									 be anywhere */

	CHECK_OK(sluice_pull(s->model, to));
	t->pulled = to;
}

void there_compare(struct side *s, const float *want)
{
	const struct there *t = s->own;
	const size_t bytes = s->attr.count * sizeof(*want);
	float *got = malloc(bytes);

	CHECK(got);
	CHECK_OK(device()->copy(got, t->pulled, bytes, NULL));
	CHECK_OK(device()->wait(NULL));
	CHECK(!memcmp(got, want, bytes));
	free(got);
}

void there_close(struct side *s)
{
	struct there *t = s->own;

	device()->release(&t->params);
	device()->release(&t->grad);
	free(t);
}

void device_look_up(const char *name, void *function)
{
	device();
	void *module = dlopen(device_module_path(), RTLD_NOW | RTLD_NOLOAD), *symbol = NULL;
	if (module)
		symbol = dlsym(module, name);
	if (!symbol)
		fprintf(stderr, "no %s in %s\n", name, device_module_path());
	CHECK(symbol != NULL);
	memcpy(function, &symbol, sizeof symbol);
	dlclose(module); /* the module stays loaded, because the library uses it */
}

int device_is_real(void)
{
	const char *named = getenv("SLUICE_GPU");
	return named && strcmp(named, EMULATED_MODULE) != 0;
}
