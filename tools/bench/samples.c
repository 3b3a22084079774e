/* SPDX-License-Identifier: BSD-3-Clause
 * See samples.h. */
#include "tools/bench/samples.h"
#include <math.h>
#include <stdlib.h>

int samples_open(struct samples *s, size_t capacity)
{
	s->values = malloc((capacity ? capacity : 1) * sizeof(*s->values));
	s->n = 0;
	s->capacity = s->values ? capacity : 0;
	return s->values ? 0 : -1;
}

void samples_close(struct samples *s)
{
	free(s->values);
	*s = (struct samples){ 0 };
}

void samples_add(struct samples *s, double value)
{
	if (s->n < s->capacity)
		s->values[s->n++] = value;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double percentile(const struct samples *s, unsigned percent)
{
	return s->values[(s->n * percent + 99) / 100 - 1];
}

struct summary samples_summary(struct samples *s)
{
	if (!s->n)
		return (struct summary){ NAN, NAN, NAN, 0 };
	qsort(s->values, s->n, sizeof(*s->values), ascending);
	return (struct summary){ percentile(s, 50), percentile(s, 99), s->values[s->n - 1], s->n };
}
