/* SPDX-License-Identifier: BSD-3-Clause
 * Top-k as a public pure function: the selection of a push without the push. */
#include "base/bytes.h"
#include "base/error.h"
#include "select.h"
#include "sluice.h"
#include <math.h>

SLUICE_API int sluice_topk(const float *x, size_t n, size_t k, uint32_t *index, float *value,
			   size_t *selected)
{
	const struct span whole = {.begin = 0, .end = n};
	struct selector *selector = NULL;
	size_t found;
	int rc;

	if ((n && !x) || (n && k && !index) || !selected)
		return fail(SLUICE_EINVAL, "sluice_topk: x, index and selected must not be NULL");
	if (n > UINT32_MAX)
		return fail(SLUICE_EINVAL, "sluice_topk: n is %zu, the largest is %u", n,
			    UINT32_MAX);
	for (size_t i = first_nonfinite(x, n); i < n;
	     i += 1 + first_nonfinite(x + i + 1, n - i - 1))
		if (isnan(x[i]))
			return fail(SLUICE_EINVAL,
				    "sluice_topk: x[%zu] is NaN, which has no magnitude; nothing "
				    "was selected",
				    i);
	rc = selector_open(n, &selector);
	if (rc)
		return rc;
	found = select_topk(selector, x, &whole, 1, k, index);
	selector_close(&selector);
	for (size_t i = 0; value && i < found; i++)
		value[i] = x[index[i]];
	*selected = found;
	return 0;
}
