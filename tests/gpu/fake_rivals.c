/* SPDX-License-Identifier: BSD-3-Clause
 * Replaces the module of tests/gpu/rivals.cu on machines without a GPU. It checks its arguments and
 * computes nothing. With FAKE_RIVALS=failing selections fail; with FAKE_RIVALS=old one is missing,
 * as with older headers. */
#include "tools/bench/rivals.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rivals {
	int keyed;
};

static int is(const char *what)
{
	const char *asked = getenv("FAKE_RIVALS");

	return asked && !strcmp(asked, what);
}

static const char *fake_error(void)
{
	return "as it was asked to fail";
}

static int fake_open(size_t n, size_t k, struct rivals **out)
{
	struct rivals *r = *out = calloc(1, sizeof(*r));

	return r && k <= n ? 0 : -1;
}

static void fake_close(struct rivals **rivals)
{
	free(*rivals);
	*rivals = NULL;
}

static int fake_keys(struct rivals *r, const float *x, void *stream)
{
	r->keyed = x && !stream;
	return r->keyed ? 0 : -1;
}

static int fake_selection(struct rivals *r, float *residual, const float *grad, void *stream)
{
	return stream || !r->keyed || !residual || !grad || is("failing") ? -1 : 0;
}

__attribute__((visibility("default"))) rivals_module_fn sluice_bench_rivals;

const struct rivals_ops *sluice_bench_rivals(void)
{
	static struct rivals_ops ops = { .size = sizeof(ops),
					 .error = fake_error,
					 .open = fake_open,
					 .close = fake_close,
					 .keys = fake_keys,
					 .sort = fake_selection,
					 .topk = fake_selection };

	if (is("old"))
		ops.topk = NULL;
	return &ops;
}
