/* SPDX-License-Identifier: BSD-3-Clause
 * Top-k as public functions: the selection without a push. */
#include "base/arguments.h"
#include "base/bytes.h"
#include "base/error.h"
#include "select.h"
#include "sluice.h"
#include <math.h>
#include <stdlib.h>

struct sluice_selector {
	struct selector *selector;
	struct select_hint hint, residual_hint;
	size_t n, k;
	int forget;
};

/* Names the first NaN. x must have one. */
static int fail_nan(const char *function, const char *name, const float *x, size_t n)
{
	size_t i = 0;

	while (i < n && !isnan(x[i]))
		i++;
	return fail(SLUICE_EINVAL,
		    "%s: %s[%zu] is NaN, which has no magnitude; nothing was selected", function,
		    name, i);
}

static int check_output(const char *function, size_t n, size_t k, const uint32_t *index,
			const float *value, const size_t *selected)
{
	if ((n && k && !index) || !selected)
		return fail(SLUICE_EINVAL, "%s: index and selected must not be NULL", function);
	int rc = argument_aligned(index, sizeof(*index), "index", function);
	return rc ? rc : argument_aligned(value, sizeof(*value), "value", function);
}

/* ---- with a selector ---- */

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
		return fail(SLUICE_EINVAL, "sluice_selector_open: n is %zu, the largest is %u",
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

static int check_k(const char *function, const sluice_selector *s, size_t k)
{
	if (!s)
		return fail(SLUICE_EINVAL, "%s: the selector is NULL", function);
	if (k > s->k)
		return fail(SLUICE_EINVAL, "%s: k is %zu, but the selector was opened for %zu",
			    function, k, s->k);
	return 0;
}

static int select_for(const char *function, sluice_selector *selector, const float *x, size_t k,
		      uint32_t *index, float *value, size_t *selected)
{
	int nan, rc = check_k(function, selector, k);

	if (rc || (rc = check_output(function, selector->n, k, index, value, selected)))
		return rc;
	if (selector->n && !x)
		return fail(SLUICE_EINVAL, "%s: x must not be NULL", function);
	if ((rc = argument_aligned(x, sizeof(*x), "x", function)))
		return rc;

	const struct span whole = { .begin = 0, .end = selector->n };
	const struct select_call call = { .x = x,
					  .spans = &whole,
					  .n_spans = 1,
					  .k = k,
					  .index = index,
					  .value = value,
					  .hint = selector->forget ? NULL : &selector->hint };
	size_t found = select_run(selector->selector, &call, &nan);

	if (nan)
		return fail_nan(function, "x", x, selector->n);
	*selected = found;
	return 0;
}

SLUICE_API int sluice_select(sluice_selector *selector, const float *x, size_t k, uint32_t *index,
			     float *value, size_t *selected)
{
	return select_for("sluice_select", selector, x, k, index, value, selected);
}

static int select_residual_for(const char *function, sluice_selector *selector, const float *grad,
			       float *residual, size_t k, uint32_t *index, float *value,
			       size_t *selected)
{
	int nan, rc = check_k(function, selector, k);

	if (rc || (rc = check_output(function, selector->n, k, index, value, selected)))
		return rc;
	if (selector->n && (!grad || !residual || (k && !value)))
		return fail(SLUICE_EINVAL, "%s: grad, residual and value must not be NULL",
			    function);
	if ((rc = argument_aligned(grad, sizeof(*grad), "grad", function)) ||
	    (rc = argument_aligned(residual, sizeof(*residual), "residual", function)))
		return rc;

	const struct span whole = { .begin = 0, .end = selector->n };
	const struct select_call call = { .residual = residual,
					  .grad = grad,
					  .scale = 1,
					  .clear = 1,
					  .spans = &whole,
					  .n_spans = 1,
					  .k = k,
					  .index = index,
					  .value = value,
					  .hint = selector->forget ? NULL :
								     &selector->residual_hint };
	size_t found = select_run(selector->selector, &call, &nan);

	if (nan)
		return fail_nan(function, "residual + grad: residual", residual, selector->n);
	*selected = found;
	return 0;
}

SLUICE_API int sluice_select_residual(sluice_selector *selector, const float *grad, float *residual,
				      size_t k, uint32_t *index, float *value, size_t *selected)
{
	return select_residual_for("sluice_select_residual", selector, grad, residual, k, index,
				   value, selected);
}

/* ---- once ---- */

static int open_once(const char *function, size_t n, size_t k, sluice_selector **out)
{
	const sluice_selector_attr attr = { .size = sizeof(attr), .n = n, .k = k };

	if (n > UINT32_MAX)
		return fail(SLUICE_EINVAL, "%s: n is %zu, the largest is %u", function, n,
			    UINT32_MAX);
	return sluice_selector_open(&attr, out);
}

SLUICE_API int sluice_topk(const float *x, size_t n, size_t k, uint32_t *index, float *value,
			   size_t *selected)
{
	sluice_selector *selector = NULL;
	int rc = open_once("sluice_topk", n, k, &selector);

	if (!rc)
		rc = select_for("sluice_topk", selector, x, k, index, value, selected);
	sluice_selector_close(&selector);
	return rc;
}

SLUICE_API int sluice_topk_residual(const float *grad, float *residual, size_t n, size_t k,
				    uint32_t *index, float *value, size_t *selected)
{
	sluice_selector *selector = NULL;
	int rc = open_once("sluice_topk_residual", n, k, &selector);

	if (!rc)
		rc = select_residual_for("sluice_topk_residual", selector, grad, residual, k, index,
					 value, selected);
	sluice_selector_close(&selector);
	return rc;
}
