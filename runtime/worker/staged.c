/* SPDX-License-Identifier: BSD-3-Clause
 * See staged.h. */
#include "worker/staged.h"
#include "base/error.h"

int staged_any(const struct staged *st)
{
	return st->ops != NULL;
}

/* Memory for all coordinates, from which each piece takes its part. */
static int make_copy(struct staged *st, const struct device_ops *ops, uint64_t count)
{
	if (!st->copy.address && ops->alloc(MEMORY_HOST, count * sizeof(float), &st->copy))
		return -1;
	st->owner = ops;
	return 0;
}

static int take_here(struct staged *st, struct segments *s, size_t i, uint64_t count,
		     const char *function)
{
	const struct device_ops *ops = NULL;
	int rc = device_of(segments_given(s, i), &ops);

	if (rc || !ops)
		return rc;
	if (ops->ready(st->stream) || make_copy(st, ops, count))
		return device_fail(ops, function);
	st->ops = ops;
	segments_replace(s, i, (uint8_t *)st->copy.address + segments_begin(s, i) * sizeof(float));
	return 0;
}

/* On the device of the piece, wherever the calling thread is. */
static int take_piece(struct staged *st, struct segments *s, size_t i, uint64_t count,
		      const char *function)
{
	struct device_scope scope;

	device_scope_begin(segments_given(s, i), st->stream, &scope);
	return device_scope_end(&scope, take_here(st, s, i, count, function));
}

int staged_take(struct staged *st, struct segments *s, uint64_t count, void *stream,
		const char *function)
{
	int rc = 0;

	st->ops = NULL;
	st->stream = stream;
	for (size_t i = 0; i < segments_number(s) && !rc; i++)
		rc = take_piece(st, s, i, count, function);
	return rc;
}

static int copy_piece(const struct staged *st, const struct segments *s, size_t i, int back)
{
	void *here = segments_copy(s, i), *there = segments_given(s, i);
	struct device_scope scope;

	device_scope_begin(there, st->stream, &scope);
	return device_scope_end(&scope, st->ops->copy(back ? there : here, back ? here : there,
						      segments_bytes(s, i), st->stream));
}

static int copy_all(const struct staged *st, const struct segments *s, int back,
		    const char *function)
{
	const void *last = NULL; /* on a device */
	struct device_scope scope;
	int rc = 0;

	for (size_t i = 0; i < segments_number(s) && !rc; i++)
		if (segments_copy(s, i)) {
			rc = copy_piece(st, s, i, back);
			last = segments_given(s, i);
		}
	device_scope_begin(last, st->stream, &scope);
	if (rc || (last && st->ops->wait(st->stream)))
		rc = device_fail(st->ops, function);
	return device_scope_end(&scope, rc);
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
	*st = (struct staged){ 0 };
}
