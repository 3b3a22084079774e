/* SPDX-License-Identifier: BSD-3-Clause
 * See counts.h. Called by the histogram and, as sluice_counts_*, by applications that sum counts
 * over ranks. */
#include "counts.h"
#include "base/error.h"
#include "sluice.h"
#include <string.h>

enum { UNARY_MAX = 7, LENGTH_BITS = 6, HEADER_BITS = 14, GAMMA_BITS_MAX = 2 * 16 + 1 };

/* Returns the length of c in bits, without leading zeros. */
static unsigned bit_length(uint64_t c)
{
	return c ? 64 - (unsigned)__builtin_clzll(c) : 0;
}

/* ---- rounding -------------------------------------------------------------- */

struct rounding {
	unsigned b, shift;
	const struct random_stream *stream;
};

static uint64_t rounded(const struct rounding *r, uint64_t c, size_t place)
{
	const uint64_t scale = (uint64_t)1 << r->shift;

	if (c >> r->b == 0 || !r->shift)
		return c;
	/* Compares the highest 32 bits of the part below the scale with 32 random bits. */
	uint64_t below = c & (scale - 1);
	uint64_t part = r->shift > 32 ? below >> (r->shift - 32) : below << (32 - r->shift);

	return (c & ~(scale - 1)) + (random_at(r->stream, place) < part ? scale : 0);
}

/* ---- bits, lowest first ---------------------------------------------------- */

struct bit_writer {
	uint8_t *out;
	size_t at;
};

static void put_bits(struct bit_writer *w, uint64_t bits, unsigned n)
{
	for (; n--; bits >>= 1, w->at++) {
		if (w->at % 8 == 0)
			w->out[w->at / 8] = 0;
		w->out[w->at / 8] |= (uint8_t)((bits & 1) << w->at % 8);
	}
}

static void put_gamma(struct bit_writer *w, uint64_t v) /* v >= 1 */
{
	unsigned n = bit_length(v);

	put_bits(w, 0, n - 1);
	put_bits(w, 1, 1);
	put_bits(w, v, n - 1);
}

struct bit_reader {
	const uint8_t *from;
	size_t at, end;
	int overrun;
};

static uint64_t get_bits(struct bit_reader *r, unsigned n)
{
	uint64_t v = 0;

	if (r->end - r->at < n) {
		r->overrun = 1;
		return 0;
	}
	for (unsigned i = 0; i < n; i++, r->at++)
		v |= (uint64_t)(r->from[r->at / 8] >> r->at % 8 & 1) << i;
	return v;
}

/* Counts the zeros before the next one bit, up to `most`. After `most` zeros there is no one
 * bit. */
static unsigned get_zeros(struct bit_reader *r, unsigned most)
{
	unsigned n = 0;

	while (n < most && !r->overrun && !get_bits(r, 1))
		n++;
	return n;
}

static uint64_t get_gamma(struct bit_reader *r)
{
	unsigned n = get_zeros(r, 17);

	if (n > 16)
		r->overrun = 1;
	return r->overrun ? 0 : (uint64_t)1 << n | get_bits(r, n);
}

/* ---- writing --------------------------------------------------------------- */

size_t counts_bound(size_t n, unsigned b)
{
	/* A large count takes one bit more than b if rounding up makes it longer. */
	return (HEADER_BITS + 2 * GAMMA_BITS_MAX + n * (UNARY_MAX + LENGTH_BITS + b) + 7) / 8;
}

static void put_length(struct bit_writer *w, unsigned length, unsigned before)
{
	unsigned z = length > before ? 2 * (length - before) - 1 : 2 * (before - length);

	if (z < UNARY_MAX) {
		put_bits(w, (uint64_t)1 << z, z + 1);
	} else {
		put_bits(w, 0, UNARY_MAX);
		put_bits(w, length, LENGTH_BITS);
	}
}

size_t counts_encode(const uint64_t *count, size_t n, unsigned b, unsigned tag,
		     const struct random_stream *stream, uint8_t *out)
{
	struct rounding r = { b, 0, stream };
	struct bit_writer w = { out, 0 };
	size_t first = 0, end = n;
	unsigned longest = 0, before = 0;

	for (size_t i = 0; i < n; i++)
		longest = bit_length(count[i]) > longest ? bit_length(count[i]) : longest;
	r.shift = longest > b ? longest - b : 0;
	while (first < n && !rounded(&r, count[first], first))
		first++;
	while (end > first && !rounded(&r, count[end - 1], end - 1))
		end--;
	put_bits(&w, tag, 4);
	put_bits(&w, b - 1, 4);
	put_bits(&w, r.shift, 6);
	put_gamma(&w, end - first + 1);
	if (end > first)
		put_gamma(&w, first + 1);
	for (size_t i = first; i < end; i++) {
		uint64_t c = rounded(&r, count[i], i);
		unsigned length = bit_length(c), shift = length > b ? r.shift : 0;

		put_length(&w, length, before);
		if (length)
			put_bits(&w, c >> shift, length - 1 - shift);
		before = length;
	}
	while (w.at % 8)
		put_bits(&w, 0, 1);
	return w.at / 8;
}

/* ---- reading --------------------------------------------------------------- */

/* Reads the next length. Returns 64 if no encoder would write this length in this way. */
static unsigned get_length(struct bit_reader *r, unsigned before)
{
	unsigned z = get_zeros(r, UNARY_MAX), length;

	if (z < UNARY_MAX)
		return z % 2 ? before + (z + 1) / 2 : before - z / 2; /* a negative length
									 becomes huge */
	length = (unsigned)get_bits(r, LENGTH_BITS);
	z = length > before ? 2 * (length - before) - 1 : 2 * (before - length);
	return z < UNARY_MAX ? 64 : length;
}

struct counts_header {
	unsigned b, shift;
	size_t first, n;
};

static int read_header(struct bit_reader *r, unsigned tag, size_t n, struct counts_header *h,
		       const char **why)
{
	unsigned tag_is = (unsigned)get_bits(r, 4);

	h->b = 1 + (unsigned)get_bits(r, 4);
	h->shift = (unsigned)get_bits(r, 6);
	h->n = (size_t)get_gamma(r) - 1;
	h->first = 0;
	if (!r->overrun && h->n)
		h->first = (size_t)get_gamma(r) - 1;
	if (r->overrun)
		return refuse_bytes(why, "the counts end within their header");
	if (tag_is != tag)
		return refuse_bytes(why, "the counts are of another kind, or of other bins");
	if (h->shift + h->b > COUNTS_LENGTH_MAX)
		return refuse_bytes(why, "the scale of the counts is too large");
	if (h->n > n || h->first > n - h->n)
		return refuse_bytes(why, "the counts go beyond the last bin");
	return 0;
}

/* Reads all counts, and adds them if `add` is set. */
static int walk_counts(struct bit_reader r, const struct counts_header *h, uint64_t *count, int add,
		       const char **why)
{
	unsigned before = 0;

	for (size_t i = 0; i < h->n; i++) {
		unsigned length = get_length(&r, before);

		if (r.overrun)
			return refuse_bytes(why, "the counts end early");
		if (length > COUNTS_LENGTH_MAX || (length > h->b && length <= h->shift))
			return refuse_bytes(why, "a count has an invalid length");
		if (!length && (i == 0 || i == h->n - 1))
			return refuse_bytes(why, "the first or last count is zero");

		unsigned shift = length > h->b ? h->shift : 0;
		uint64_t c = 0;

		if (length)
			c = ((uint64_t)1 << (length - 1 - shift) | get_bits(&r, length - 1 - shift))
			    << shift;
		if (r.overrun)
			return refuse_bytes(why, "the counts end early");
		if ((count[h->first + i] + c) >> COUNTS_LENGTH_MAX)
			return refuse_bytes(why, "a sum of counts has more than 48 bits");
		if (add)
			count[h->first + i] += c;
		before = length;
	}
	if (r.end - r.at >= 8)
		return refuse_bytes(why, "there are bytes after the counts");
	if (get_bits(&r, (unsigned)(r.end - r.at)))
		return refuse_bytes(why, "the padding after the counts is not zero");
	return 0;
}

int counts_merge(const uint8_t *bytes, size_t n_bytes, unsigned tag, uint64_t *count, size_t n,
		 const char **why)
{
	struct bit_reader r = { .from = bytes, .end = 8 * n_bytes };
	struct counts_header h;
	int rc;

	if (n_bytes > counts_bound(COUNTS_MOST, COUNTS_BITS_MAX))
		return refuse_bytes(why, "the counts are too long");
	rc = read_header(&r, tag, n, &h, why);
	if (!rc)
		rc = walk_counts(r, &h, count, 0, why);
	return rc ? rc : walk_counts(r, &h, count, 1, why);
}
