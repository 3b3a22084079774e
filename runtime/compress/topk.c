/* SPDX-License-Identifier: BSD-3-Clause
 * Top-k as public functions: the selection without a push. */
#include "base/arguments.h"
#include "base/error.h"
#include "select.h"
#include "sluice_select.h"
#include <math.h>
#include <stdlib.h>

struct sluice_selector {
	struct selector *selector;
	struct select_hint hint, residual_hint;
	size_t n, k;
	int forget;
};

/* Fails with the index of the first NaN. x must have one. */
static int fail_nan(const char *name, const float *x, size_t n)
{
	size_t i = 0;

	while (i < n && !isnan(x[i]))
		i++;
	return fail(SLUICE_EINVAL,
		    "sluice_select: %s[%zu] is NaN, which has no magnitude; nothing was selected",
		    name, i);
}

SLUICE_API int sluice_selector_open(const sluice_selector_attr *attr,
				    sluice_selector **selector_out)
{
	sluice_selector *s;
	int rc;

	if (!attr || !selector_out)
		return fail(SLUICE_EINVAL, "sluice_selector_open: attr and selector_out must not "
					   "be NULL");
	rc = argument_size(attr->size, sizeof(*attr), _Alignof(sluice_selector_attr),
			   "sluice_selector_attr", "sluice_selector_open");
	if (rc)
		return rc;
	if (attr->n > UINT32_MAX)
		return fail(SLUICE_EINVAL, "sluice_selector_open: n is %zu, but the maximum is %u",
			    attr->n, UINT32_MAX);
	if (attr->threads < 0 || attr->threads > SELECT_THREADS_MAX)
		return fail(SLUICE_EINVAL, "sluice_selector_open: threads is %d, not 0 .. %d",
			    attr->threads, SELECT_THREADS_MAX);
	s = calloc(1, sizeof(*s));
	if (!s)
		return fail(SLUICE_ENOMEM, "no memory for a selector");
	s->n = attr->n;
	s->k = attr->k;
	s->forget = attr->forget;
	rc = selector_open_for(attr->n, attr->k, attr->threads ? (unsigned)attr->threads : 1,
			       &s->selector);
	if (rc) {
		free(s);
		return rc;
	}
	*selector_out = s;
	return 0;
}

SLUICE_API void sluice_selector_close(sluice_selector **selector)
{
	if (!selector || !*selector)
		return;
	selector_close(&(*selector)->selector);
	free(*selector);
	*selector = NULL;
}

static int check_select(const sluice_selector *s, const float *x, const float *residual, size_t k,
			const uint32_t *index, const float *value, const size_t *selected)
{
	static const char here[] = "sluice_select";
	int rc;

	if (!s)
		return fail(SLUICE_EINVAL, "%s: the selector is NULL", here);
	if (k > s->k)
		return fail(SLUICE_EINVAL, "%s: k is %zu, but the selector was opened for %zu",
			    here, k, s->k);
	if ((s->n && k && !index) || !selected)
		return fail(SLUICE_EINVAL, "%s: index and selected must not be NULL", here);
	if (s->n && !x)
		return fail(SLUICE_EINVAL, "%s: x must not be NULL", here);
	if (residual && k && !value)
		return fail(SLUICE_EINVAL, "%s: value must not be NULL with a residual", here);
	if ((rc = argument_aligned(index, sizeof(*index), "index", here)) ||
	    (rc = argument_aligned(value, sizeof(*value), "value", here)) ||
	    (rc = argument_aligned(x, sizeof(*x), "x", here)))
		return rc;
	return argument_aligned(residual, sizeof(*residual), "residual", here);
}

SLUICE_API int sluice_select(sluice_selector *selector, const float *x, float *residual, size_t k,
			     uint32_t *index, float *value, size_t *selected)
{
	int nan, rc = check_select(selector, x, residual, k, index, value, selected);

	if (rc)
		return rc;

	struct select_hint *hint = residual ? &selector->residual_hint : &selector->hint;
	const struct span whole = { .begin = 0, .end = selector->n };
	const struct select_call call = { .x = residual ? NULL : x,
					  .residual = residual,
					  .grad = residual ? x : NULL,
					  .scale = 1,
					  .clear = residual != NULL,
					  .spans = &whole,
					  .n_spans = 1,
					  .k = k,
					  .index = index,
					  .value = value,
					  .hint = selector->forget ? NULL : hint };
	size_t found = select_run(selector->selector, &call, &nan);

	if (nan && residual)
		return fail_nan("residual + x: residual", residual, selector->n);
	if (nan)
		return fail_nan("x", x, selector->n);
	*selected = found;
	return 0;
}
