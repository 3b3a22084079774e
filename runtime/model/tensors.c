/* SPDX-License-Identifier: BSD-3-Clause
 * See tensors.h. */
#include "model/tensors.h"
#include "base/bytes.h"
#include "base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tensors {
	size_t n;
	char **names;
	uint64_t *ends;
	sluice_tensor_rule *rules; /* NULL: no tensor has its own settings */
};

int tensors_decay(const sluice_model_attr *attr)
{
	int decay = 0;

	for (size_t t = 0; t < attr->n_tensors && attr->rules; t++)
		decay |= attr->rules[t].decay > 0;
	return decay;
}

static int copy(struct tensors *t, const sluice_model_attr *attr)
{
	uint64_t end = 0;

	for (; t->n < attr->n_tensors; t->n++) {
		t->ends[t->n] = end += attr->tensors[t->n].count;
		t->names[t->n] = strdup(attr->tensors[t->n].name);
		if (!t->names[t->n])
			return fail(SLUICE_ENOMEM, "no memory for tensor names");
	}
	if (attr->rules)
		memcpy(t->rules, attr->rules, t->n * sizeof(*t->rules));
	return 0;
}

int tensors_open(const sluice_model_attr *attr, struct tensors **out)
{
	const size_t room = attr->n_tensors + 1;
	struct tensors *t = *out = calloc(1, sizeof(*t));

	if (t) {
		t->names = calloc(room, sizeof(*t->names));
		t->ends = calloc(room, sizeof(*t->ends));
		t->rules = attr->rules ? calloc(room, sizeof(*t->rules)) : NULL;
	}
	if (!t || !t->names || !t->ends || (attr->rules && !t->rules))
		return fail(SLUICE_ENOMEM, "no memory for %zu tensors", attr->n_tensors);
	return copy(t, attr);
}

void tensors_close(struct tensors **tensors)
{
	struct tensors *t = *tensors;

	if (!t)
		return;
	for (size_t i = 0; t->names && i < t->n; i++)
		free(t->names[i]);
	free(t->names);
	free(t->ends);
	free(t->rules);
	free(t);
	*tensors = NULL;
}

size_t tensors_number(const struct tensors *t)
{
	return t->n;
}

uint64_t tensors_digest(const struct tensors *t)
{
	uint64_t digest = digest64(t->ends, t->n * sizeof(*t->ends));

	for (size_t i = 0; i < t->n; i++)
		digest = digest * 31 + digest64(t->names[i], strlen(t->names[i]));
	return digest;
}

uint64_t tensors_rules_digest(const struct tensors *t)
{
	return t->rules ? digest64(t->rules, t->n * sizeof(*t->rules)) : 0;
}

/* Returns the tensor that holds a coordinate, or n if none does. */
static size_t find_tensor(const struct tensors *t, uint64_t at)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (t->ends[middle] > at)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

void tensors_place(const struct tensors *t, uint64_t i, char *text, size_t cap)
{
	const size_t at = find_tensor(t, i);

	if (at < t->n)
		snprintf(text, cap, "index %llu of tensor %s",
			 (unsigned long long)(i - (at ? t->ends[at - 1] : 0)), t->names[at]);
	else
		snprintf(text, cap, "index %llu", (unsigned long long)i);
}

int tensors_ruled(const struct tensors *t)
{
	return t->rules != NULL;
}

struct tensor_run tensors_run(const struct tensors *t, uint64_t at)
{
	const size_t i = find_tensor(t, at);

	return (struct tensor_run){ t->ends[i], t->rules[i].lr, t->rules[i].decay };
}
