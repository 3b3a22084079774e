/* SPDX-License-Identifier: BSD-3-Clause
 * See staged.h. */
#include "worker/staged.h"
#include "base/error.h"
#include <stdlib.h>

static int make_room(struct staged *st, size_t n)
{
	void **there;

	if (n <= st->room)
		return 0;
	there = realloc(st->there, n * sizeof(*there));
	if (!there)
		return fail(SLUICE_ENOMEM, "no memory for a list of %zu segments", n);
	st->there = there;
	st->room = n;
	return 0;
}

int staged_take(struct staged *st, struct segments *s, uint64_t count, void *stream,
		const char *function)
{
	int rc = make_room(st, s->n);

	st->ops = NULL;
	st->stream = stream;
	for (size_t i = 0; i < s->n && !rc; i++) {
		struct segment *piece = &s->of[i];
		const struct device_ops *ops = NULL;

		st->there[i] = NULL;
		rc = device_of(piece->data, &ops);
		if (rc || !ops)
			continue;
		if (!st->ops && ops->ready(stream))
			rc = device_fail(ops, function);
		else if (!st->copy.address &&
			 ops->alloc(MEMORY_HOST, count * sizeof(float), &st->copy))
			rc = device_fail(ops, function);
		if (rc)
			continue;
		st->ops = st->owner = ops;
		st->there[i] = piece->data;
		piece->data = (uint8_t *)st->copy.address + piece->begin * sizeof(float);
	}
	return rc;
}

static int copy_all(const struct staged *st, const struct segments *s, int back,
		    const char *function)
{
	for (size_t i = 0; i < s->n && st->ops; i++) {
		const size_t bytes = (s->of[i].end - s->of[i].begin) * value_bytes(s->of[i].type);
		void *here = s->of[i].data, *there = st->there[i];

		if (there &&
		    st->ops->copy(back ? there : here, back ? here : there, bytes, st->stream))
			return device_fail(st->ops, function);
	}
	return st->ops && st->ops->wait(st->stream) ? device_fail(st->ops, function) : 0;
}

int staged_read(const struct staged *st, const struct segments *s, const char *function)
{
	return copy_all(st, s, 0, function);
}

int staged_write(const struct staged *st, const struct segments *s, const char *function)
{
	return copy_all(st, s, 1, function);
}

void staged_close(struct staged *st)
{
	if (st->copy.address)
		st->owner->release(&st->copy);
	free(st->there);
	*st = (struct staged){ 0 };
}
