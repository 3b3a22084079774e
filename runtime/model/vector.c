/* SPDX-License-Identifier: BSD-3-Clause
 * See vector.h. */
#include "model/vector.h"
#include "base/arguments.h"
#include "base/error.h"
#include "compress/few_bits.h"
#include "compress/sparse.h"
#include "compress/value_codes.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening -------------------------------------------------------------------- */

int vector_check_type(int type, int gradient, const char *field, const char *function)
{
	const int eight = type == SLUICE_F8_E4M3FN || type == SLUICE_F8_E5M2;

	if (type == SLUICE_F32 || type == SLUICE_F16 || type == SLUICE_BF16 || (eight && gradient))
		return 0;
	if (eight)
		return fail(SLUICE_EINVAL,
			    "%s: %s=%d, an 8-bit type, which only gradients may have: must be "
			    "SLUICE_F32, SLUICE_F16 or SLUICE_BF16",
			    function, field, type);
	return fail(SLUICE_EINVAL, "%s: %s=%d, must be SLUICE_F32, SLUICE_F16 or SLUICE_BF16%s",
		    function, field, type, gradient ? ", SLUICE_F8_E4M3FN or SLUICE_F8_E5M2" : "");
}

static int check_segment(const sluice_segment *given, size_t i, int gradient, const char *function)
{
	const int type = given->type;
	char field[48];

	snprintf(field, sizeof(field), "segments[%zu].type", i);
	if (vector_check_type(type, gradient, field, function))
		return SLUICE_EINVAL;
	if (given->count && !given->data)
		return fail(SLUICE_EINVAL, "%s: segment %zu of %llu elements has no data", function,
			    i, (unsigned long long)given->count);
	snprintf(field, sizeof(field), "segments[%zu].data", i);
	if (argument_aligned(given->data, value_bytes((enum value_type)type), field, function))
		return SLUICE_EINVAL;
	if (value_eight((enum value_type)type) && !(given->scale >= 0 && isfinite(given->scale)))
		return fail(SLUICE_EINVAL,
			    "%s: segment %zu has scale=%g, but it must be finite and above 0, "
			    "or 0 for the value of SLUICE_GRAD_SCALE",
			    function, i, (double)given->scale);
	return 0;
}

static struct vector_piece *pieces_of(const struct vector *v)
{
	return v->n > 1 ? v->list : (struct vector_piece *)&v->one;
}

static int make_room(struct vector *v, size_t n)
{
	struct vector_piece *list;

	if (n <= v->room)
		return 0;
	list = realloc(v->list, n * sizeof(*list));
	if (!list)
		return fail(SLUICE_ENOMEM, "no memory for a list of %zu segments", n);
	v->list = list;
	v->room = n;
	return 0;
}

void vector_run(struct vector *v, const void *data, uint64_t count, enum value_type type,
		float scale)
{
	v->one = (struct vector_piece){ .data = (uint8_t *)data,
					.given = (void *)data,
					.end = count,
					.type = type,
					.scale = scale };
	v->n = 1;
	v->ops = NULL;
}

struct vector vector_of(const void *data, uint64_t count, enum value_type type, float scale)
{
	struct vector v = { .n = 0 };

	vector_run(&v, data, count, type, scale);
	return v;
}

void vector_move(struct vector *v, const void *data)
{
	v->one.data = (uint8_t *)data;
}

static void add_piece(struct vector *v, const sluice_segment *given, uint64_t begin, float scale)
{
	const enum value_type type = (enum value_type)given->type;

	v->list[v->n++] = (struct vector_piece){ .data = given->data,
						 .given = given->data,
						 .begin = begin,
						 .end = begin + given->count,
						 .type = type,
						 .scale = value_eight(type) && given->scale > 0 ?
								  given->scale :
								  scale };
}

int vector_pieces(struct vector *v, const sluice_segment *given, size_t n, uint64_t count,
		  float scale, const char *function)
{
	uint64_t all = 0;
	int rc = given || !n ? make_room(v, n) :
			       fail(SLUICE_EINVAL, "%s: the list of segments is NULL", function);

	v->n = 0;
	v->ops = NULL;
	for (size_t i = 0; i < n && !rc; i++) {
		rc = check_segment(&given[i], i, scale > 0, function);
		if (rc || !given[i].count)
			continue;
		if (given[i].count > count - all)
			rc = fail(SLUICE_EINVAL,
				  "%s: segment %zu reaches beyond the model's %llu parameters",
				  function, i, (unsigned long long)count);
		else
			add_piece(v, &given[i], all, scale);
		all += given[i].count;
	}
	if (!rc && all != count)
		rc = fail(SLUICE_EINVAL,
			  "%s: the segments have %llu elements together, and the model has %llu "
			  "parameters",
			  function, (unsigned long long)all, (unsigned long long)count);
	if (rc)
		v->n = 0;
	else if (v->n)
		v->one = v->list[0];
	return rc;
}

/* Undoes the staging. Afterwards, loops access the program's memory again. */
static void unstage(struct vector *v)
{
	for (size_t i = 0; i < v->n; i++)
		pieces_of(v)[i].data = pieces_of(v)[i].given;
	v->ops = NULL;
}

void vector_release(struct vector *v)
{
	unstage(v);
	if (v->copy.address)
		v->owner->release(&v->copy);
}

void vector_free(struct vector *v)
{
	vector_release(v);
	free(v->list);
	*v = (struct vector){ 0 };
}

size_t vector_number(const struct vector *v)
{
	return v->n;
}

uint64_t vector_begin(const struct vector *v, size_t i)
{
	return i < v->n ? pieces_of(v)[i].begin : pieces_of(v)[v->n - 1].end;
}

void *vector_given(const struct vector *v, size_t i)
{
	return pieces_of(v)[i].given;
}

enum value_type vector_type(const struct vector *v, size_t i)
{
	return pieces_of(v)[i].type;
}

int vector_alike(const struct vector *v, enum value_type type, float scale)
{
	const struct vector_piece *p = pieces_of(v);

	for (size_t i = 0; i < v->n; i++)
		if (p[i].type != type || (value_eight(type) && p[i].scale != scale))
			return 0;
	return 1;
}

int vector_narrow(const struct vector *v)
{
	int narrow = 0;

	for (size_t i = 0; i < v->n; i++)
		narrow |= pieces_of(v)[i].type != VALUE_F32;
	return narrow;
}

static size_t bytes_of(const struct vector_piece *p)
{
	return (p->end - p->begin) * value_bytes(p->type);
}

/* Returns the piece that holds a coordinate of the vector. */
static const struct vector_piece *find(const struct vector *v, uint64_t at)
{
	const struct vector_piece *p = pieces_of(v);
	size_t low = 0, high = v->n - 1;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (p[middle].end > at)
			high = middle;
		else
			low = middle + 1;
	}
	return &p[low];
}

static size_t length_in(const struct vector_piece *p, uint64_t at, size_t n)
{
	return n < p->end - at ? n : (size_t)(p->end - at);
}

static float *floats_at(const struct vector_piece *p, uint64_t at)
{
	return (float *)(void *)p->data + (at - p->begin);
}

/* ---- blocks ------------------------------------------------------------------ */

const float *vector_read(const struct vector *v, uint64_t at, size_t n, float *room)
{
	const struct vector_piece *p = find(v, at);

	if (p->type == VALUE_F32 && n <= p->end - at)
		return floats_at(p, at);
	for (size_t done = 0, here; done < n; done += here, p++) {
		here = length_in(p, at + done, n - done);
		if (p->type == VALUE_F32)
			memcpy(room + done, floats_at(p, at + done), here * sizeof(*room));
		else
			values_widen(p->type, p->scale,
				     p->data + (at + done - p->begin) * value_bytes(p->type), here,
				     room + done);
	}
	return room;
}

static void set_one(const struct vector_piece *p, uint64_t at, float v)
{
	if (p->type == VALUE_F32)
		*floats_at(p, at) = v;
	else
		((uint16_t *)(void *)p->data)[at - p->begin] = p->type == VALUE_F16 ?
								       f16_round_inline(v) :
								       bf16_round_inline(v);
}

static void set_piece(const struct vector_piece *p, uint64_t at, const float *value, size_t n)
{
	const float limit = p->type == VALUE_F16 ? 65520.0f : 0x1.ffp127f;

	if (p->type == VALUE_F32)
		memcpy(floats_at(p, at), value, n * sizeof(*value));
	else if (largest_magnitude(value, n) < limit)
		values_encode(p->type, 1, value, n, p->data + (at - p->begin) * sizeof(uint16_t),
			      NULL);
	else
		for (size_t i = 0; i < n; i++)
			set_one(p, at + i, value[i]);
}

void vector_join(const struct vector *v, float *to)
{
	enum { CHUNK = 2048 };

	for (const struct vector_piece *p = pieces_of(v), *end = p + v->n; p < end; p++)
		for (uint64_t at = p->begin; at < p->end; at += CHUNK) {
			const size_t n = length_in(p, at, CHUNK);
			const float *from = vector_read(v, at, n, to + at);

			if (from != to + at)
				memcpy(to + at, from, n * sizeof(*to));
		}
}

void vector_zero(const struct vector *v)
{
	for (size_t i = 0; i < v->n; i++)
		memset(pieces_of(v)[i].data, 0, bytes_of(&pieces_of(v)[i]));
}

/* ---- runs and single coordinates --------------------------------------------- */

static int holds(const struct vector_piece *p, uint64_t at)
{
	return p->begin <= at && at < p->end;
}

/* An element narrower than a float is 0 before the addition, so it is set to 0 + v. This sum turns
 * -0 into 0, as an addition to a float does. */
static void add_one(const struct vector_piece *p, uint64_t at, float v)
{
	if (p->type == VALUE_F32)
		*floats_at(p, at) += v;
	else
		set_one(p, at, 0.0f + v);
}

static void add_run(const struct vector_piece *p, uint64_t at, const float *value, size_t n)
{
	if (p->type == VALUE_F32)
		sparse_add(floats_at(p, at), NULL, value, (uint32_t)n);
	else
		for (size_t i = 0; i < n; i++)
			add_one(p, at + i, value[i]);
}

/* Changes single elements of a piece. They are far from each other, so they are prefetched. */
static void change_some(const struct vector_piece *p, uint64_t first, const uint32_t *index,
			const float *value, size_t n, int set, int whole)
{
	enum { AHEAD = 32 };

	for (size_t i = 0; i < n; i++) {
		const uint64_t at = first + index[i],
			       soon = first + index[i + AHEAD < n ? i + AHEAD : i];

		__builtin_prefetch(p->data + (soon - p->begin) * value_bytes(p->type), 1);
		(set ? set_one : add_one)(p, at, value[whole ? index[i] : i]);
	}
}

/* Changes n elements. With `whole`, value is a whole vector, and only its elements at the changed
 * coordinates are read. */
static void change(const struct vector *v, uint64_t first, const uint32_t *index,
		   const float *value, size_t n, int set, int whole)
{
	const struct vector_piece *p = n ? find(v, first) : NULL;

	if (whole)
		value += first;
	for (size_t done = 0, here; !index && done < n; done += here, p++) {
		here = length_in(p, first + done, n - done);
		(set ? set_piece : add_run)(p, first + done, value + done, here);
	}
	for (size_t i = 0, end; index && i < n; i = end) {
		if (!holds(p, first + index[i]))
			p = find(v, first + index[i]);
		end = i + sparse_below(index + i, n - i, p->end - first);
		change_some(p, first, index + i, value + (whole ? 0 : i), end - i, set, whole);
	}
}

void vector_write(const struct vector *v, uint64_t at, const float *value, size_t n)
{
	change(v, at, NULL, value, n, 1, 0);
}

void vector_change(const struct vector *v, uint64_t first, const uint32_t *index,
		   const float *value, uint32_t n, int set)
{
	change(v, first, index, value, n, set, 0);
}

void vector_follow(const struct vector *v, uint64_t first, const uint32_t *index, uint32_t n,
		   const float *flat)
{
	change(v, first, index, flat, n, 1, 1);
}

/* ---- on a device ------------------------------------------------------------- */

static int all_there(const struct vector *v)
{
	const struct device_ops *ops = NULL;
	int rc = 0;

	for (size_t i = 0; i < v->n && !rc; i++) {
		rc = device_of(vector_given(v, i), &ops);
		if (!rc && !ops)
			return 0;
	}
	return rc ? rc : ops != NULL;
}

int vector_there(const struct vector *v, void *stream)
{
	struct device_scope scope;

	if (!v->n)
		return 0;
	device_scope_begin(v->one.given, stream, &scope);
	return device_scope_end(&scope, all_there(v));
}

/* Allocates the copy and assigns its parts to the pieces. */
static int make_copy(struct vector *v, const struct device_ops *ops)
{
	const struct vector_piece *last = &pieces_of(v)[v->n - 1];
	const size_t bytes = v->n == 1 ? bytes_of(last) : last->end * sizeof(float);

	if (v->copy.address && v->copy.bytes >= bytes)
		return 0;
	if (v->copy.address)
		v->owner->release(&v->copy);
	v->owner = ops;
	return ops->alloc(MEMORY_HOST, bytes, &v->copy);
}

static int stage_here(struct vector *v, struct vector_piece *p, const char *function)
{
	const struct device_ops *ops = NULL;
	int rc = device_of(p->given, &ops);

	if (rc || !ops)
		return rc;
	if (ops->ready(v->stream) || make_copy(v, ops))
		return device_fail(ops, function);
	v->ops = ops;
	p->data = (uint8_t *)v->copy.address + p->begin * sizeof(float);
	return 0;
}

int vector_stage(struct vector *v, void *stream, const char *function)
{
	struct device_scope scope;
	int rc = 0;

	v->ops = NULL;
	v->stream = stream;
	for (size_t i = 0; i < v->n && !rc; i++) {
		struct vector_piece *p = &pieces_of(v)[i];

		p->data = p->given;
		device_scope_begin(p->given, stream, &scope);
		rc = device_scope_end(&scope, stage_here(v, p, function));
	}
	return rc;
}

int vector_staged(const struct vector *v)
{
	return v->ops != NULL;
}

static int copy_piece(const struct vector *v, const struct vector_piece *p, int back)
{
	struct device_scope scope;

	device_scope_begin(p->given, v->stream, &scope);
	return device_scope_end(&scope,
				v->ops->copy(back ? p->given : p->data, back ? p->data : p->given,
					     bytes_of(p), v->stream));
}

static int copy_all(const struct vector *v, int back, const char *function)
{
	const void *last = NULL; /* the last piece on a device */
	struct device_scope scope;
	int rc = 0;

	for (size_t i = 0; i < v->n && !rc; i++) {
		const struct vector_piece *p = &pieces_of(v)[i];

		if (p->data == p->given)
			continue;
		rc = copy_piece(v, p, back);
		last = p->given;
	}
	device_scope_begin(last, v->stream, &scope);
	if (rc || (last && v->ops->wait(v->stream)))
		rc = device_fail(v->ops, function);
	return device_scope_end(&scope, rc);
}

int vector_fetch(const struct vector *v, const char *function)
{
	return copy_all(v, 0, function);
}

int vector_send(const struct vector *v, const char *function)
{
	return copy_all(v, 1, function);
}

int vector_join_there(const struct vector *v, const struct device_ops *ops, void *to, void *stream)
{
	int failed = 0;

	for (size_t i = 0; i < v->n && !failed; i++) {
		const struct vector_piece *p = &pieces_of(v)[i];

		failed = ops->copy((uint8_t *)to + p->begin * value_bytes(p->type), p->given,
				   bytes_of(p), stream);
	}
	return failed;
}

int vector_write_there(const struct vector *v, const struct device_ops *ops,
		       struct device_compressor *c, const float *from, void *stream)
{
	int failed = 0;

	for (size_t i = 0; i < v->n && !failed; i++) {
		const struct vector_piece *p = &pieces_of(v)[i];
		const struct device_apply call = { .narrow = p->given,
						   .narrow_type = (int)p->type,
						   .value = from + p->begin,
						   .count = (uint32_t)(p->end - p->begin),
						   .assign = 1 };

		failed = p->type == VALUE_F32 ?
				 ops->copy(p->given, call.value, bytes_of(p), stream) :
				 ops->apply(c, &call, stream);
	}
	return failed;
}

/* Returns the words that name what is copied, for the message about a failure. */
static const char *copying(const char *function, char text[64])
{
	snprintf(text, 64, "%s: copying the parameters", function);
	return text;
}

int vector_borrow(struct vector *v, void *stream, const char *function, float **host)
{
	const uint64_t count = v->n ? pieces_of(v)[v->n - 1].end : 0;
	char what[64];
	int rc = vector_stage(v, stream, copying(function, what));

	*host = NULL;
	if (!rc)
		rc = vector_fetch(v, what);
	if (rc || !v->n)
		return rc;
	*host = vector_floats(v);
	if (*host)
		return 0;
	*host = malloc(count * sizeof(**host));
	if (!*host)
		return fail(SLUICE_ENOMEM, "%s: no memory for a copy of %llu parameters", function,
			    (unsigned long long)count);
	vector_join(v, *host);
	return 0;
}

int vector_return(struct vector *v, float *host, int failed, const char *function)
{
	const int copied = host && host != vector_floats(v);
	char what[64];
	int rc = failed;

	if (!rc && copied)
		vector_write(v, 0, host, pieces_of(v)[v->n - 1].end);
	if (!rc && host)
		rc = vector_send(v, copying(function, what));
	if (copied)
		free(host);
	unstage(v);
	return rc;
}
