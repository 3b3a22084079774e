/* SPDX-License-Identifier: BSD-3-Clause
 * See transform.h. */
#include "model/transform.h"
#include "base/bytes.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>

/* A tensor. high and wide are the sides of its blocks. */
struct part {
	uint64_t begin, end, columns;
	uint32_t high, wide;
	int exempt;
};

struct transform {
	size_t n_parts;
	struct part *parts;
	uint32_t *ends;
	uint64_t n_ends;
	struct dct_matrix *of_length[DCT_MOST + 1]; /* NULL: no block has this side */
	size_t n_matrices;
};

/* ---- opening ------------------------------------------------------------------ */

static uint32_t largest_divisor(uint64_t n, uint32_t most)
{
	uint32_t divisor = most;

	while (n % divisor)
		divisor--;
	return divisor;
}

static struct part new_part(uint64_t begin, uint64_t count, uint64_t columns, uint32_t most,
			    int exempt)
{
	struct part p = { .begin = begin,
			  .end = begin + count,
			  .columns = columns ? columns : count,
			  .exempt = exempt };

	p.high = exempt || !count ? 1 : largest_divisor(count / p.columns, most);
	p.wide = exempt || !count ? 1 : largest_divisor(p.columns, most);
	return p;
}

static void list_parts(struct transform *t, const sluice_model_attr *attr,
		       const struct recipe *recipe)
{
	uint64_t at = 0;

	for (size_t i = 0; i < attr->n_tensors; i++) {
		const sluice_tensor *tensor = &attr->tensors[i];

		if (tensor->count)
			t->parts[t->n_parts++] = new_part(
				at, tensor->count, attr->columns ? attr->columns[i] : 0,
				recipe->transform, recipe_sends_whole(recipe, tensor->name));
		at += tensor->count;
	}
	if (at < attr->count)
		t->parts[t->n_parts++] = new_part(at, attr->count - at, 0, recipe->transform, 0);
}

/* Returns the number of coordinates of the selection's block at `at`. */
static uint64_t length_at(const struct part *p, uint64_t at, uint64_t most)
{
	if (!p->exempt)
		return (uint64_t)p->high * p->wide;
	return p->end - at < most ? p->end - at : most;
}

static int list_ends(struct transform *t, uint64_t most)
{
	for (int write = 0; write < 2; write++) {
		t->n_ends = 0;
		for (const struct part *p = t->parts; p < t->parts + t->n_parts; p++)
			for (uint64_t at = p->begin; at < p->end; t->n_ends++) {
				at += length_at(p, at, most);
				if (write)
					t->ends[t->n_ends] = (uint32_t)at;
			}
		if (!write && !(t->ends = calloc(t->n_ends, sizeof(*t->ends))))
			return SLUICE_ENOMEM;
	}
	return 0;
}

static int make_matrices(struct transform *t)
{
	for (const struct part *p = t->parts; p < t->parts + t->n_parts; p++) {
		const uint32_t sides[] = { p->high, p->wide };

		for (int i = 0; i < 2; i++) {
			struct dct_matrix **m = &t->of_length[sides[i]];

			if (*m || sides[i] == 1)
				continue;
			if (!(*m = malloc(sizeof(**m))))
				return SLUICE_ENOMEM;
			dct_matrix_make(*m, sides[i]);
			t->n_matrices++;
		}
	}
	return 0;
}

int transform_open(const sluice_model_attr *attr, const struct recipe *recipe,
		   struct transform **out)
{
	struct transform *t;

	*out = NULL;
	if (!recipe->transform)
		return 0;
	t = *out = calloc(1, sizeof(*t));
	if (t)
		t->parts = calloc(attr->n_tensors + 1, sizeof(*t->parts));
	if (t && t->parts) {
		list_parts(t, attr, recipe);
		if (!list_ends(t, (uint64_t)recipe->transform * recipe->transform) &&
		    !make_matrices(t))
			return 0;
	}
	transform_close(out);
	return fail(SLUICE_ENOMEM, "no memory for the blocks of transform=dct(%u) of %zu tensors",
		    recipe->transform, attr->n_tensors);
}

void transform_close(struct transform **transform)
{
	struct transform *t = *transform;

	if (!t)
		return;
	for (int i = 0; i <= DCT_MOST; i++)
		free(t->of_length[i]);
	free(t->parts);
	free(t->ends);
	free(t);
	*transform = NULL;
}

uint64_t transform_bytes(const struct transform *t)
{
	return t ? t->n_parts * sizeof(*t->parts) + t->n_ends * sizeof(*t->ends) +
			       t->n_matrices * sizeof(struct dct_matrix) :
		   0;
}

uint64_t transform_digest(const struct transform *t)
{
	uint64_t digest = 0;

	for (size_t i = 0; t && i < t->n_parts; i++) {
		const struct part *p = &t->parts[i];
		const uint64_t shape[] = { p->begin, p->columns, p->high, p->wide };

		digest = digest * 31 + digest64(shape, sizeof(shape));
	}
	return digest;
}

/* ---- units and blocks --------------------------------------------------------- */

static const struct part *part_at(const struct transform *t, uint64_t coordinate)
{
	size_t low = 0, high = t->n_parts - 1;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (t->parts[middle].end > coordinate)
			high = middle;
		else
			low = middle + 1;
	}
	return &t->parts[low];
}

static uint64_t unit_length(const struct part *p)
{
	return p->high > 1 ? p->high * p->columns : p->wide;
}

struct transform_unit transform_unit_at(const struct transform *t, uint64_t coordinate)
{
	const struct part *p = part_at(t, coordinate);
	const uint64_t begin = coordinate - (coordinate - p->begin) % unit_length(p);

	return (struct transform_unit){ begin, begin + unit_length(p) };
}

uint64_t transform_longest_unit(const struct transform *t, uint64_t begin, uint64_t end)
{
	uint64_t most = 0;

	for (const struct part *p = part_at(t, begin); p < t->parts + t->n_parts && p->begin < end;
	     p++)
		most = unit_length(p) > most ? unit_length(p) : most;
	return most;
}

const uint32_t *transform_ends(const struct transform *t)
{
	return t->ends;
}

uint64_t transform_selected(const struct transform *t, uint64_t begin, uint64_t end, uint64_t k)
{
	uint64_t n = 0;

	for (const struct part *p = part_at(t, begin); p < t->parts + t->n_parts && p->begin < end;
	     p++) {
		const uint64_t from = p->begin > begin ? p->begin : begin;
		const uint64_t to = p->end < end ? p->end : end;
		const uint64_t block = (uint64_t)p->high * p->wide;

		n += p->exempt ? 0 : (to - from) / block * (k < block ? k : block);
	}
	return n;
}

uint64_t transform_single(const struct transform *t)
{
	uint64_t n = 0;

	for (const struct part *p = t->parts; p < t->parts + t->n_parts; p++)
		n += p->exempt || p->high * p->wide > 1 ? 0 : p->end - p->begin;
	return n;
}

/* ---- the transform ------------------------------------------------------------ */

struct transform_block transform_block_at(const struct transform *t, uint64_t begin)
{
	const struct part *p = part_at(t, begin);
	const uint64_t left = p->end - begin;

	if (p->high == 1 && p->wide == 1) /* nothing is transformed */
		return (struct transform_block){
			.begin = begin,
			.origin = begin,
			.rows = 1,
			.columns = (uint32_t)(left < DCT_MOST ? left : DCT_MOST)
		};

	const struct transform_unit unit = transform_unit_at(t, begin);
	const uint64_t before = (begin - unit.begin) / p->high; /* columns of this unit */

	return (struct transform_block){ .begin = begin,
					 .origin = unit.begin + before,
					 .stride = p->columns,
					 .rows = p->high,
					 .columns = p->wide };
}

static int is_single(const struct transform *t, uint64_t begin)
{
	const struct part *p = part_at(t, begin);

	return p->high == 1 && p->wide == 1;
}

void transform_forward(const struct transform *t, const struct transform_block *block,
		       float in[DCT_MOST * DCT_MOST], float *out)
{
	if (!is_single(t, block->begin))
		dct_forward(t->of_length[block->rows], block->rows, t->of_length[block->columns],
			    block->columns, in);
	for (uint32_t r = 0; r < block->rows; r++)
		memmove(out + r * block->columns, in + r * DCT_MOST, block->columns * sizeof(*out));
}

static int has_values(const float *v, uint64_t n)
{
	int any = 0;

	for (uint64_t i = 0; i < n && !any; i++)
		any = v[i] < 0 || v[i] > 0 || v[i] != v[i];
	return any;
}

/* Writes the parameters of a block to their places in the unit, which begins at `to`. */
static void invert_block(const struct transform *t, const struct transform_block *block,
			 const float *from, float *to)
{
	float values[DCT_MOST * DCT_MOST];
	const uint32_t n = block->rows * block->columns;
	const int any = has_values(from, n);

	for (uint32_t r = 0; r < block->rows; r++) {
		memcpy(values + r * DCT_MOST, from + r * block->columns,
		       block->columns * sizeof(*values));
		memset(values + r * DCT_MOST + block->columns, 0,
		       (DCT_MOST - block->columns) * sizeof(*values));
	}
	if (any)
		dct_inverse(t->of_length[block->rows], block->rows, t->of_length[block->columns],
			    block->columns, values);
	for (uint32_t r = 0; r < block->rows; r++)
		for (uint32_t c = 0; c < block->columns; c++)
			to[r * block->stride + c] = any ? values[r * DCT_MOST + c] : 0;
}

void transform_invert(const struct transform *t, uint64_t first, float *v, uint64_t n, float *room)
{
	for (uint64_t at = first, end; at < first + n; at = end) {
		const struct part *p = part_at(t, at);

		end = at + unit_length(p);
		if (p->high == 1 && p->wide == 1) {
			end = p->end < first + n ? p->end : first + n;
			continue;
		}
		memcpy(room, v + (at - first), (end - at) * sizeof(*room));
		for (uint64_t b = at; b < end; b += (uint64_t)p->high * p->wide) {
			const struct transform_block block = transform_block_at(t, b);

			invert_block(t, &block, room + (b - at), v + (block.origin - first));
		}
	}
}
