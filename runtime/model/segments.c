/* SPDX-License-Identifier: BSD-3-Clause
 * See segments.h. */
#include "model/segments.h"
#include "base/arguments.h"
#include "base/error.h"
#include "compress/few_bits.h"
#include "compress/sparse.h"
#include "compress/value_codes.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the list ---------------------------------------------------------------- */

int segments_check_type(int type, int gradient, const char *field, const char *function)
{
	const int eight = type == SLUICE_F8_E4M3FN || type == SLUICE_F8_E5M2;

	if (type == SLUICE_F32 || type == SLUICE_F16 || type == SLUICE_BF16 || (eight && gradient))
		return 0;
	if (eight)
		return fail(SLUICE_EINVAL,
			    "%s: %s=%d, a type of 8 bits, which gradients may have, but neither "
			    "parameters nor means: must be SLUICE_F32, SLUICE_F16 or SLUICE_BF16",
			    function, field, type);
	return fail(SLUICE_EINVAL, "%s: %s=%d, must be SLUICE_F32, SLUICE_F16 or SLUICE_BF16%s",
		    function, field, type, gradient ? ", SLUICE_F8_E4M3FN or SLUICE_F8_E5M2" : "");
}

static int check_segment(const sluice_segment *given, size_t i, int gradient, const char *function)
{
	const int type = given->type;
	char field[48];

	snprintf(field, sizeof(field), "segments[%zu].type", i);
	if (segments_check_type(type, gradient, field, function))
		return SLUICE_EINVAL;
	if (given->count && !given->data)
		return fail(SLUICE_EINVAL, "%s: segment %zu of %llu elements has no data", function,
			    i, (unsigned long long)given->count);
	snprintf(field, sizeof(field), "segments[%zu].data", i);
	if (argument_aligned(given->data, value_bytes((enum value_type)type), field, function))
		return SLUICE_EINVAL;
	if (value_eight((enum value_type)type) && !(given->scale >= 0 && isfinite(given->scale)))
		return fail(SLUICE_EINVAL,
			    "%s: segment %zu has scale=%g, must be finite, and above 0 or 0 for "
			    "that of sluice_set_grad_scale",
			    function, i, (double)given->scale);
	return 0;
}

static int make_room(struct segments *s, size_t n)
{
	struct segment *of;

	if (n <= s->room)
		return 0;
	of = realloc(s->of, n * sizeof(*of));
	if (!of)
		return fail(SLUICE_ENOMEM, "no memory for a list of %zu segments", n);
	s->of = of;
	s->room = n;
	return 0;
}

int segments_set(struct segments *s, const sluice_segment *given, size_t n, uint64_t count,
		 float scale, const char *function)
{
	uint64_t all = 0;
	int rc = given || !n ? make_room(s, n) :
			       fail(SLUICE_EINVAL, "%s: the list of segments is NULL", function);

	s->n = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		rc = check_segment(&given[i], i, scale > 0, function);
		if (rc || !given[i].count)
			continue;
		if (given[i].count > count - all)
			rc = fail(SLUICE_EINVAL,
				  "%s: segment %zu reaches beyond the model's %llu parameters",
				  function, i, (unsigned long long)count);
		else
			s->of[s->n++] = (struct segment){ .data = given[i].data,
							  .given = given[i].data,
							  .begin = all,
							  .end = all + given[i].count,
							  .type = (enum value_type)given[i].type,
							  .scale = scale };
		if (!rc && value_eight((enum value_type)given[i].type) && given[i].scale > 0)
			s->of[s->n - 1].scale = given[i].scale;
		all += given[i].count;
	}
	if (!rc && all != count)
		rc = fail(SLUICE_EINVAL,
			  "%s: the segments have %llu elements together, and the model has %llu "
			  "parameters",
			  function, (unsigned long long)all, (unsigned long long)count);
	if (rc)
		s->n = 0;
	return rc;
}

void segments_free(struct segments *s)
{
	free(s->of);
	*s = (struct segments){ 0 };
}

void segments_clear(struct segments *s)
{
	s->n = 0;
}

size_t segments_number(const struct segments *s)
{
	return s->n;
}

uint64_t segments_begin(const struct segments *s, size_t i)
{
	return s->of[i].begin;
}

void *segments_given(const struct segments *s, size_t i)
{
	return s->of[i].given;
}

uint64_t segments_count(const struct segments *s, size_t i)
{
	return s->of[i].end - s->of[i].begin;
}

enum value_type segments_type(const struct segments *s, size_t i)
{
	return s->of[i].type;
}

int segments_alike(const struct segments *s, enum value_type type, float scale)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->of[i].type != type || (value_eight(type) && s->of[i].scale != scale))
			return 0;
	return 1;
}

size_t segments_bytes(const struct segments *s, size_t i)
{
	return (s->of[i].end - s->of[i].begin) * value_bytes(s->of[i].type);
}

void segments_replace(struct segments *s, size_t i, void *copy)
{
	s->of[i].data = copy;
}

void *segments_copy(const struct segments *s, size_t i)
{
	return s->of[i].data == s->of[i].given ? NULL : s->of[i].data;
}

int segments_narrow(const struct segments *s)
{
	int narrow = 0;

	for (size_t i = 0; i < s->n; i++)
		narrow |= s->of[i].type != VALUE_F32;
	return narrow;
}

/* The piece that holds a coordinate of the vector. */
static const struct segment *find(const struct segments *s, uint64_t at)
{
	size_t low = 0, high = s->n - 1;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (s->of[middle].end > at)
			high = middle;
		else
			low = middle + 1;
	}
	return &s->of[low];
}

static size_t length_in(const struct segment *p, uint64_t at, size_t n)
{
	return n < p->end - at ? n : (size_t)(p->end - at);
}

static float *floats_at(const struct segment *p, uint64_t at)
{
	return (float *)(void *)p->data + (at - p->begin);
}

/* ---- blocks ------------------------------------------------------------------ */

const float *segments_read(const struct segments *s, uint64_t at, size_t n, float *room)
{
	const struct segment *p = find(s, at);

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

static void set_one(const struct segment *p, uint64_t at, float v)
{
	if (p->type == VALUE_F32)
		*floats_at(p, at) = v;
	else
		((uint16_t *)(void *)p->data)[at - p->begin] = p->type == VALUE_F16 ?
								       f16_round_inline(v) :
								       bf16_round_inline(v);
}

static void set_piece(const struct segment *p, uint64_t at, const float *value, size_t n)
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

void segments_write(const struct segments *s, uint64_t at, const float *value, size_t n)
{
	const struct segment *p = find(s, at);

	for (size_t done = 0, here; done < n; done += here, p++) {
		here = length_in(p, at + done, n - done);
		set_piece(p, at + done, value + done, here);
	}
}

void segments_gather(const struct segments *s, float *to)
{
	enum { CHUNK = 2048 };

	for (const struct segment *p = s->of; p < s->of + s->n; p++)
		for (uint64_t at = p->begin; at < p->end; at += CHUNK) {
			const size_t n = length_in(p, at, CHUNK);
			const float *from = segments_read(s, at, n, to + at);

			if (from != to + at)
				memcpy(to + at, from, n * sizeof(*to));
		}
}

void segments_zero(const struct segments *s)
{
	for (size_t i = 0; i < s->n; i++)
		memset(s->of[i].data, 0, segments_bytes(s, i));
}

/* ---- coordinates ------------------------------------------------------------- */

static int holds(const struct segment *p, uint64_t at)
{
	return p->begin <= at && at < p->end;
}

/* 0 + -0 is 0, as in a vector of zeros to which it is added. */
static void add_one(const struct segment *p, uint64_t at, float v)
{
	if (p->type == VALUE_F32)
		*floats_at(p, at) += v;
	else
		set_one(p, at, 0.0f + v);
}

static void add_piece(const struct segment *p, uint64_t at, const float *value, size_t n)
{
	if (p->type == VALUE_F32)
		sparse_add(floats_at(p, at), NULL, value, (uint32_t)n);
	else
		for (size_t i = 0; i < n; i++)
			add_one(p, at + i, value[i]);
}

void segments_change(const struct segments *s, uint64_t first, const uint32_t *index,
		     const float *value, uint32_t n, int set)
{
	const struct segment *p = n ? find(s, first) : NULL;

	for (size_t done = 0, here; !index && done < n; done += here, p++) {
		here = length_in(p, first + done, n - done);
		(set ? set_piece : add_piece)(p, first + done, value + done, here);
	}
	for (uint32_t i = 0; index && i < n; i++) {
		const uint64_t at = first + index[i];

		if (!holds(p, at))
			p = find(s, at);
		(set ? set_one : add_one)(p, at, value[i]);
	}
}

void segments_follow(const struct segments *s, uint64_t first, const uint32_t *index, uint32_t n,
		     const float *flat)
{
	const struct segment *p = n ? find(s, first) : NULL;

	if (!index && n)
		segments_write(s, first, flat + first, n);
	for (uint32_t i = 0; index && i < n; i++) {
		const uint64_t at = first + index[i];

		if (!holds(p, at))
			p = find(s, at);
		set_one(p, at, flat[at]);
	}
}
