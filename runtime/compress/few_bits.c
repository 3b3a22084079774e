/* SPDX-License-Identifier: BSD-3-Clause
 * See few_bits.h. Values are processed in pieces that stay in the first-level cache: from values to
 * codes of one byte, and from codes to bits. value_kernels.h has the loops. few_bits_round.c
 * handles the type round, whose codes are wider. */
#include "few_bits.h"
#include "base/bytes.h"
#include "base/team.h"
#include "bit_pack.h"
#include "few_bits_round.h"
#include "few_bits_rules.h"
#include "random_mix.h"
#include "select.h"
#include "sluice.h"
#include "value_kernels.h"
#include <float.h>
#include <math.h>

enum {
	PIECE = VALUE_PIECE,
	SCALE_BYTES = 4,
	BLOCKS_AHEAD = VALUE_AHEAD / 8,
	BLOCKS_TOGETHER = VALUE_AHEAD / PIECE
};
_Static_assert((int)PIECE == (int)UNIFORM_BLOCK, "a block of twomeans or e3m0 is one piece");

/* ---- shapes ---- */

static uint64_t blocks_of(const struct value_coding *c, uint64_t n)
{
	return (n + c->block - 1) / c->block;
}

uint64_t few_bits_bytes(const struct value_coding *c, uint32_t n)
{
	return codes_bytes(c->bits, c->block, n);
}

float largest_magnitude(const float *v, size_t n)
{
	return bits_float(value_kernels()->largest(v, n));
}

float few_bits_fit(struct value_coding *c, const float *v, size_t n, float range)
{
	float most;

	switch (c->type) {
	case VALUE_GRID:
		if (!n) /* an empty message has range 0, even if the rest of the vector is not
			   zero */
			return 0;
		most = largest_magnitude(v, n);
		return grid_range(c->bits, most <= range ? range : most);
	case VALUE_ROUND: c->bits = round_bits(c->step, v, n); return c->step;
	default: return 1;
	}
}

static int refuse_coding(const char **why, const char *text)
{
	if (why)
		*why = text;
	return 0;
}

int few_bits_valid(const struct value_coding *c, float scale, const char **why)
{
	switch (c->type) {
	case VALUE_UNIFORM:
		if (c->bits < 1 || c->bits > VALUE_BITS_MAX || c->block < 8 || c->block % 8 ||
		    c->block > UNIFORM_BLOCK_MAX)
			return refuse_coding(
				why,
				"uniform values have 1 to 8 bits in blocks of a multiple of 8");
		return scale == 1 ? 1 :
				    refuse_coding(why, "uniform values have a scale per block, so "
						       "the scale here must be 1");
	case VALUE_GRID:
		if (c->bits < 1 || c->bits > VALUE_BITS_MAX || c->block)
			return refuse_coding(why,
					     "values on a grid have 1 to 8 bits and no blocks");
		if (!(scale >= 0 && scale <= FLT_MAX / 4) || signbit(scale) ||
		    (scale > 0 && !(grid_width(c->bits, scale) > 0)))
			return refuse_coding(why,
					     "the range of a grid must be finite and not negative");
		return 1;
	case VALUE_ROUND:
		if (c->bits > ROUND_BITS_MAX || c->block)
			return refuse_coding(why,
					     "rounded values have at most 22 bits and no blocks");
		return scale > 0 && scale <= FLT_MAX ?
			       1 :
			       refuse_coding(why, "the width of rounding must be above 0");
	case VALUE_TWOMEANS:
	case VALUE_E3M0:
		if (c->bits != value_bits(c->type) || c->block != UNIFORM_BLOCK || scale != 1)
			return refuse_coding(why, "values of twomeans and e3m0 have 2 and 4 bits, "
						  "blocks of 512 and the scale 1");
		return 1;
	default: return refuse_coding(why, "no such value type");
	}
}

/* ---- pieces ---- */

static size_t whole_value_groups(size_t n)
{
	return (n + VALUE_GROUP - 1) / VALUE_GROUP * VALUE_GROUP;
}

/* Returns how many of n values are processed at once. This is a whole number of groups, or less
 * than a group at the end. */
static size_t piece(size_t n)
{
	return n < VALUE_GROUP ? n : n < PIECE ? n - n % VALUE_GROUP : PIECE;
}

/* end: end of the memory that may be written. Returns the address of the next codes. */
static uint8_t *codes_put(const uint8_t *codes, size_t n, unsigned bits, uint8_t *out,
			  const uint8_t *end)
{
	const size_t bytes = bits_bytes(n, bits);

	if (n % VALUE_GROUP == 0 && (size_t)(end - out) >= bytes + PACK_SLACK)
		value_kernels()->pack(codes, bits, n, out);
	else
		bits_pack(codes, n, bits, out);
	return out + bytes;
}

/* Returns the address of the next codes, or NULL if bits after the last code are not zero. */
static const uint8_t *codes_get(const uint8_t *in, const uint8_t *end, size_t n, unsigned bits,
				uint8_t *codes)
{
	const size_t bytes = bits_bytes(n, bits);

	if (n % VALUE_GROUP == 0 && (size_t)(end - in) >= bytes + PACK_SLACK)
		value_kernels()->unpack(in, bits, n, codes);
	else if (!bits_unpack(in, n, bits, codes))
		return NULL;
	return in + bytes;
}

/* ---- uniform ---- */

/* For one bit: the scale of each block is its mean magnitude. */
static void mean_steps(const float *v, size_t n, size_t block, struct uniform_scale *scales)
{
	const float *row[VALUE_SUMS];
	double sum[VALUE_SUMS];

	for (size_t at = 0, rows, length; at < n; at += rows * length, scales += rows) {
		length = n - at < block ? n - at : block;
		rows = (n - at) / length < VALUE_SUMS ? (n - at) / length : VALUE_SUMS;
		for (size_t j = 0; j < VALUE_SUMS; j++)
			row[j] = v + at + (j < rows ? j * length : 0);
		value_kernels()->sums(row, length, sum);
		for (size_t j = 0; j < rows; j++)
			scales[j] = (struct uniform_scale){ .step = (float)(sum[j] /
									    (double)length) };
	}
}

/* With more bits, computes the steps of several blocks before their values are read again. A step
 * needs two divisions after the last value of its block has been read. The divisions of several
 * blocks can then overlap. */
static void largest_steps(const struct value_coding *c, const float *v, size_t n,
			  struct uniform_scale *scales)
{
	const struct value_kernels *k = value_kernels();
	float most[BLOCKS_AHEAD];
	size_t blocks = 0;

	for (size_t at = 0; at < n; at += c->block)
		most[blocks++] = bits_float(
			k->largest(v + at, n - at < c->block ? n - at : c->block));
	for (size_t b = 0; b < blocks; b++)
		scales[b] = uniform_scale(c->bits, uniform_step(c->bits, most[b]));
}

/* The random numbers that rounding uses, from the mixer of this message. */
struct numbers {
	struct random_mixer mixer;
	const struct rounding *rounding;
};

/* Encodes values at .. at + n - 1 of the message. n is a multiple of a group, or reaches the end of
 * a block, which is then padded. */
static void uniform_piece(const struct value_coding *c, const struct uniform_scale *scale,
			  const float *v, size_t at, size_t n, const struct numbers *numbers,
			  uint8_t *codes, float *decoded)
{
	const struct rounding *r = numbers->rounding;
	const uint64_t base = r->first + (r->index ? 0 : at);
	const uint32_t *index = r->index ? r->index + at : NULL;
	const uint64_t first = base + (index ? index[0] : 0),
		       last = base + (index ? index[n - 1] : n - 1);
	struct value_numbers drawn = { .low = (uint32_t)base, .index = index };
	uint32_t padded[VALUE_GROUP];

	if (first >> 32 != last >> 32) { /* this happens once in 2^32 coordinates */
		for (size_t i = 0; i < n; i++)
			codes[i] = uniform_code(
				v[i], random_mixed(&numbers->mixer, base + (index ? index[i] : i)),
				scale, c->bits);
		value_kernels()->uniform_values(codes, scale->step, uniform_levels(c->bits),
						whole_value_groups(n), decoded);
		return;
	}
	drawn.key = *random_mixer_key(&numbers->mixer, first);
	if (index && n < VALUE_GROUP) {
		memset(padded, 0, sizeof(padded));
		memcpy(padded, index, n * sizeof(*index));
		drawn.index = padded;
	}
	value_kernels()->uniform(v, &drawn, scale, c->bits, whole_value_groups(n), codes, decoded);
}

/* Encodes the values of one block. Returns the address of the next codes. */
static uint8_t *block_encode(const struct value_coding *c, const struct uniform_scale *scale,
			     const float *v, size_t at, size_t n, const struct numbers *numbers,
			     uint8_t *bits, const uint8_t *end, float *decoded)
{
	const struct value_kernels *k = value_kernels();
	const int levels = uniform_levels(c->bits);
	const float step = scale->step;
	uint8_t codes[PIECE];
	float last[VALUE_GROUP];

	for (size_t i = at, here; i < at + n; i += here) {
		const float *from = v + i;
		float *to = decoded + i;

		here = piece(at + n - i);
		if (here < VALUE_GROUP) {
			memset(last, 0, sizeof(last));
			memset(codes, 0, VALUE_GROUP);
			memcpy(last, from, here * sizeof(*v));
			from = to = last;
		}
		if (!(step > 0)) { /* division by such a step is impossible */
			memset(codes, levels, sizeof(codes));
			if (c->bits == 1)
				k->sign_values(codes, step, whole_value_groups(here), to);
			else
				k->uniform_values(codes, step, levels, whole_value_groups(here),
						  to);
		} else if (c->bits == 1) {
			k->signs(from, step, whole_value_groups(here), codes, to);
		} else {
			uniform_piece(c, scale, from, i, here, numbers, codes, to);
		}
		bits = codes_put(codes, here, c->bits, bits, end);
		if (to == last)
			memcpy(decoded + i, last, here * sizeof(*v));
	}
	return bits;
}

static size_t uniform_encode(const struct value_coding *c, const float *v, size_t n,
			     const struct rounding *rounding, uint8_t *steps, uint8_t *bits,
			     float *decoded)
{
	const uint8_t *end = bits + bits_bytes(n, c->bits);
	struct numbers numbers = { .rounding = rounding };
	struct uniform_scale scales[BLOCKS_AHEAD];
	const size_t blocks = c->bits == 1           ? VALUE_SUMS :
			      c->block < VALUE_AHEAD ? VALUE_AHEAD / c->block :
						       1;

	if (c->bits > 1)
		random_mixer_open(&rounding->stream, rounding->first, &numbers.mixer);
	for (size_t from = 0, together; from < n; from += together) {
		together = n - from < blocks * c->block ? n - from : blocks * c->block;
		if (c->bits == 1) /* must come before `decoded` overwrites the values */
			mean_steps(v + from, together, c->block, scales);
		else
			largest_steps(c, v + from, together, scales);
		for (size_t at = 0; at < together; at += c->block, steps += SCALE_BYTES) {
			const struct uniform_scale *scale = &scales[at / c->block];
			const size_t here = together - at < c->block ? together - at : c->block;

			put_le32(steps, float_bits(scale->step));
			if (!(scale->step <= FLT_MAX))
				return from + at + first_nonfinite(v + from + at, here);
			bits = block_encode(c, scale, v, from + at, here, &numbers, bits, end,
					    decoded);
		}
	}
	return n;
}

/* ---- twomeans and e3m0 ---- */

static struct levels levels_of(enum value_type type, uint32_t word)
{
	return type == VALUE_TWOMEANS ? twomeans_levels(word) :
	       word                   ? e3m0_levels(word) :
					(struct levels){ { 0 } };
}

/* Several blocks are encoded together, because each step waits for the last value of its block. */
struct blocks {
	const float *v[BLOCKS_TOGETHER];
	float copy[BLOCKS_TOGETHER][PIECE]; /* copies of blocks that are not whole, or too large */
	/* The value that determines the codes: the mean of the magnitudes, or the largest of
	 * them. */
	float measure[BLOCKS_TOGETHER];
	float up[BLOCKS_TOGETHER]; /* inverse of the factor by which the copy was multiplied */
	uint32_t word[BLOCKS_TOGETHER];
	uint8_t codes[BLOCKS_TOGETHER][PIECE];
};

/* Returns a number that is not finite if a value is not, or if the sum of all overflows. */
static float block_measure(enum value_type type, const float *v, size_t n)
{
	const size_t whole = whole_value_groups(n);

	return type == VALUE_TWOMEANS ? value_kernels()->total(v, whole) / (float)n :
					bits_float(value_kernels()->largest(v, whole));
}

/* Measures block b, which has n values at v. Returns n, or the index of the first value that is not
 * finite. */
static size_t block_open(enum value_type type, const float *v, size_t n, struct blocks *blocks,
			 size_t b)
{
	float *copy = blocks->copy[b];
	size_t finite;

	blocks->up[b] = 1;
	blocks->v[b] = v;
	if (n % VALUE_GROUP) {
		memset(copy, 0, sizeof(blocks->copy[b]));
		memcpy(copy, v, n * sizeof(*v));
		blocks->v[b] = copy;
	}
	blocks->measure[b] = block_measure(type, blocks->v[b], n);
	if (blocks->measure[b] <= FLT_MAX)
		return n;
	finite = first_nonfinite(v, n);
	if (finite < n)
		return finite;
	for (size_t i = 0; i < whole_value_groups(n); i++)
		copy[i] = blocks->v[b][i] * TWOMEANS_DOWN;
	blocks->up[b] = 1 / TWOMEANS_DOWN;
	blocks->v[b] = copy;
	blocks->measure[b] = block_measure(type, copy, n);
	return n;
}

/* Writes the codes and the word of block b. */
static void block_close(enum value_type type, size_t n, struct blocks *blocks, size_t b)
{
	const float measure = blocks->measure[b];
	uint32_t word = e3m0_word(float_bits(measure));
	struct twomeans_sums sums;

	if (type == VALUE_TWOMEANS) {
		value_kernels()->split(blocks->v[b], measure, whole_value_groups(n),
				       blocks->codes[b], &sums);
		word = twomeans_word(&sums, (uint32_t)n, blocks->up[b]);
	} else if (word) {
		value_kernels()->exponents(blocks->v[b], e3m0_least(word), whole_value_groups(n),
					   blocks->codes[b]);
	}
	if (!word)
		memset(blocks->codes[b], 0, sizeof(blocks->codes[b]));
	blocks->word[b] = word;
}

static size_t levels_encode(const struct value_coding *c, const float *v, size_t n, uint8_t *words,
			    uint8_t *bits, float *decoded)
{
	const uint8_t *end = bits + bits_bytes(n, c->bits);
	struct blocks blocks;

	for (size_t from = 0, left; from < n; from += left) {
		left = n - from < VALUE_AHEAD ? n - from : VALUE_AHEAD;
		for (size_t at = 0; at < left; at += PIECE) {
			const size_t here = left - at < PIECE ? left - at : PIECE;
			const size_t finite = block_open(c->type, v + from + at, here, &blocks,
							 at / PIECE);

			if (finite < here)
				return from + at + finite;
		}
		for (size_t at = 0; at < left; at += PIECE, words += SCALE_BYTES) {
			const size_t here = left - at < PIECE ? left - at : PIECE;

			block_close(c->type, here, &blocks, at / PIECE);
			put_le32(words, blocks.word[at / PIECE]);
			bits = codes_put(blocks.codes[at / PIECE], here, c->bits, bits, end);
		}
		for (size_t at = 0; at < left; at += PIECE) {
			const size_t b = at / PIECE, here = left - at < PIECE ? left - at : PIECE;
			float *to = here % VALUE_GROUP ? blocks.copy[b] : decoded + from + at;

			const struct levels levels = levels_of(c->type, blocks.word[b]);

			value_kernels()->level_values(blocks.codes[b], &levels,
						      whole_value_groups(here), to);
			if (to == blocks.copy[b])
				memcpy(decoded + from + at, to, here * sizeof(*v));
		}
	}
	return n;
}

/* ---- decoding of values in blocks ---- */

struct block {
	float step;
	struct levels levels;
	uint8_t zero, least, most; /* the code of zero, and the allowed codes */
};

/* Reads the word of a block. Returns 0 if no encoder writes such a word. */
static int block_read(const struct value_coding *c, uint32_t word, struct block *b)
{
	const int levels = c->type == VALUE_UNIFORM ? uniform_levels(c->bits) : 0;

	b->step = bits_float(word);
	b->zero = (uint8_t)levels;
	b->least = word ? 0 : b->zero;
	b->most = (uint8_t)(!word                    ? levels :
			    c->type != VALUE_UNIFORM ? (1 << c->bits) - 1 :
			    c->bits == 1             ? 1 :
						       2 * levels);
	if (c->type != VALUE_UNIFORM) {
		b->levels = levels_of(c->type, word);
		return c->type == VALUE_TWOMEANS ? twomeans_valid(word) : e3m0_valid(word);
	}
	return b->step >= 0 && b->step <= FLT_MAX && !isinf(b->step * (float)levels) &&
	       !signbit(b->step);
}

static int blocks_decode(const struct value_coding *c, const uint8_t *words, const uint8_t *bits,
			 size_t n, float *v, const char **why)
{
	const struct value_kernels *k = value_kernels();
	const uint8_t *end = bits + bits_bytes(n, c->bits);
	uint8_t codes[PIECE];
	float last[PIECE], *to;
	struct block b = { 0 };

	for (size_t at = 0, here; at < n; at += here) {
		size_t left = c->block - at % c->block;

		left = left < n - at ? left : n - at;
		here = left < PIECE ? left : PIECE;
		if (at % c->block == 0 &&
		    !block_read(c, get_le32(words + at / c->block * SCALE_BYTES), &b))
			return refuse_coding(why, c->type == VALUE_UNIFORM ?
							  "the step of a block is negative or not "
							  "finite" :
							  "a block has levels that no encoder "
							  "writes");
		if (here % VALUE_GROUP) /* pads with the codes of zero */
			memset(codes, b.zero, sizeof(codes));
		bits = codes_get(bits, end, here, c->bits, codes);
		if (!bits)
			return refuse_coding(why, "bits after the last code are not zero");
		if (!k->within(codes, b.least, b.most, whole_value_groups(here)))
			return refuse_coding(why, "a code is out of range");
		to = here % VALUE_GROUP ? last : v + at;
		if (c->type != VALUE_UNIFORM)
			k->level_values(codes, &b.levels, whole_value_groups(here), to);
		else if (c->bits == 1)
			k->sign_values(codes, b.step, whole_value_groups(here), to);
		else
			k->uniform_values(codes, b.step, b.zero, whole_value_groups(here), to);
		if (to == last)
			memcpy(v + at, last, here * sizeof(*v));
	}
	return 1;
}

/* ---- grid ---- */

static size_t grid_encode(unsigned width_bits, float range, const float *v, size_t n, uint8_t *out,
			  float *decoded)
{
	const struct value_kernels *k = value_kernels();
	const float width = grid_width(width_bits, range);
	const uint8_t *end = out + bits_bytes(n, width_bits);
	uint8_t codes[PIECE] = { 0 };
	float last[PIECE] = { 0 };

	if (!(range <= FLT_MAX))
		return first_nonfinite(v, n);
	for (size_t at = 0, here; at < n; at += here) {
		const float *from = v + at;
		float *to = decoded + at;

		here = n - at < PIECE ? n - at : PIECE;
		if (here % VALUE_GROUP) {
			memcpy(last, from, here * sizeof(*v));
			from = to = last;
		}
		if (range > 0)
			k->grid(from, range, width, (1 << width_bits) - 1, whole_value_groups(here),
				codes, to);
		else
			k->grid_values(codes, range, width, whole_value_groups(here), to);
		out = codes_put(codes, here, width_bits, out, end);
		if (to == last)
			memcpy(decoded + at, last, here * sizeof(*v));
	}
	return n;
}

static int grid_decode(unsigned width_bits, float range, const uint8_t *in, size_t n, float *v,
		       const char **why)
{
	const struct value_kernels *k = value_kernels();
	const float width = grid_width(width_bits, range);
	const uint8_t *end = in + bits_bytes(n, width_bits);
	uint8_t codes[PIECE] = { 0 };
	float last[PIECE], *to;

	for (size_t at = 0, here; at < n; at += here) {
		here = n - at < PIECE ? n - at : PIECE;
		if (here < PIECE) /* pads with zeros */
			memset(codes, 0, sizeof(codes));
		in = codes_get(in, end, here, width_bits, codes);
		if (!in)
			return refuse_coding(why, "bits after the last code are not zero");
		if (!(range > 0) && !k->within(codes, 0, 0, whole_value_groups(here)))
			return refuse_coding(why, "a code is out of range");
		to = here % VALUE_GROUP ? last : v + at;
		k->grid_values(codes, range, width, whole_value_groups(here), to);
		if (to == last)
			memcpy(v + at, last, here * sizeof(*v));
	}
	return 1;
}

/* ---- all ---- */

/* The offsets of the block words and codes of a value. */
struct offsets {
	uint64_t words, codes;
};

static struct offsets offsets_of(const struct value_coding *c, uint64_t n, uint64_t at)
{
	if (!c->block)
		return (struct offsets){ 0, bits_bytes(at, c->bits) };
	return (struct offsets){ at / c->block * SCALE_BYTES,
				 blocks_of(c, n) * SCALE_BYTES + bits_bytes(at, c->bits) };
}

/* Parts begin at multiples of this number: a block, or a piece if there are no blocks. The codes of
 * a unit fill whole bytes. */
static uint64_t unit_of(const struct value_coding *c)
{
	return c->block ? c->block : PIECE;
}

struct encoding {
	const struct value_coding *c;
	float scale;
	const float *v;
	size_t n;
	const struct rounding *rounding;
	uint8_t *out;
	float *decoded;
	size_t bad[TEAM_PARTS]; /* the part's first value that is not finite; n if there is none */
};

static size_t encode_values(const struct encoding *e, const struct rounding *rounding,
			    uint64_t begin, size_t n)
{
	const struct value_coding *c = e->c;
	const struct offsets at = offsets_of(c, e->n, begin);
	const float *v = e->v + begin;
	float *decoded = e->decoded + begin;
	uint8_t *words = e->out + at.words, *codes = e->out + at.codes;

	switch (c->type) {
	case VALUE_UNIFORM: return uniform_encode(c, v, n, rounding, words, codes, decoded);
	case VALUE_GRID: return grid_encode(c->bits, e->scale, v, n, codes, decoded);
	case VALUE_ROUND: return round_encode(c->bits, e->scale, v, n, codes, decoded);
	case VALUE_TWOMEANS:
	case VALUE_E3M0: return levels_encode(c, v, n, words, codes, decoded);
	default: return n;
	}
}

static void encode_part(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct encoding *e = context;
	const struct rounding *all = e->rounding;
	const uint32_t *index = all->index ? all->index + begin : NULL;
	const struct rounding own = { all->stream, all->first + (index ? 0 : begin), index };

	const size_t finite = encode_values(e, &own, begin, end - begin);

	e->bad[part] = finite < end - begin ? begin + finite : e->n;
}

size_t few_bits_encode(struct team *team, const struct value_coding *c, float scale, const float *v,
		       size_t n, const struct rounding *rounding, uint8_t *out, float *decoded)
{
	struct encoding e = { c, scale, v, n, rounding, out, decoded, { 0 } };
	const unsigned parts = team_split(team, n, unit_of(c), encode_part, &e);
	size_t bad = n;

	for (unsigned i = 0; i < parts && bad == n; i++)
		bad = e.bad[i];
	return bad;
}

struct decoding {
	const struct value_coding *c;
	float scale;
	const uint8_t *in;
	size_t n;
	float *v;
	const char *wrong[TEAM_PARTS]; /* the reason why the part is refused, or NULL */
};

static void decode_part(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct decoding *d = context;
	const struct value_coding *c = d->c;
	const struct offsets at = offsets_of(c, d->n, begin);
	const uint8_t *words = d->in + at.words, *codes = d->in + at.codes;
	const size_t n = end - begin;
	const char **why = &d->wrong[part];
	float *v = d->v + begin;

	*why = NULL;
	switch (c->type) {
	case VALUE_UNIFORM:
	case VALUE_TWOMEANS:
	case VALUE_E3M0: blocks_decode(c, words, codes, n, v, why); break;
	case VALUE_GRID: grid_decode(c->bits, d->scale, codes, n, v, why); break;
	case VALUE_ROUND: *why = round_decode(c->bits, d->scale, codes, n, v); break;
	default: *why = "no such value type"; break;
	}
}

int few_bits_decode(struct team *team, const struct value_coding *c, float scale, const uint8_t *in,
		    size_t n, float *v, const char **why)
{
	struct decoding d = { c, scale, in, n, v, { NULL } };
	struct team *helpers = c->type == VALUE_ROUND ?
				       NULL :
				       team; /* it needs the widest code of the message */
	const unsigned parts = team_split(helpers, n, unit_of(c), decode_part, &d);

	for (unsigned i = 0; i < parts; i++)
		if (d.wrong[i]) {
			*why = d.wrong[i];
			return SLUICE_EWIRE;
		}
	return 0;
}
