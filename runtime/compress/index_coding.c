/* SPDX-License-Identifier: BSD-3-Clause
 * Encodes and decodes the positions of the sent coordinates: raw, delta with bit-packed gaps,
 * bitmap, Rice. The decoders trust nothing, because their bytes come from another process. */
#include "index_coding.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/team.h"
#include "bit_pack.h"
#include "index_kernels.h"
#include "message_rules.h"
#include "rice.h"
#include "sluice.h"

enum { BITS_BYTES = INDEX_BLOCK * INDEX_WIDTH_MAX / 8, RAW_PIECE = 2048 };

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- raw ---- */

static void raw_encode(const uint32_t *index, uint32_t count, uint8_t *out)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	if (count)
		memcpy(out, index, 4 * (size_t)count);
#else
	for (size_t i = 0; i < count; i++)
		put_le32(out + 4 * i, index[i]);
#endif
}

static int raw_decode(const uint8_t *in, uint64_t bytes, uint32_t count, uint32_t span,
		      uint32_t *index, const char **why)
{
	const struct index_kernels *k = index_kernels();

	if (bytes != 4 * (uint64_t)count)
		return refuse_bytes(why,
				    "the payload's length does not fit the number of raw indices");
	/* Each piece of the indices is checked while it is in the cache. */
	for (size_t i = 0, n; i < count; i += n) {
		const size_t before = i > 0;

		n = count - i < RAW_PIECE ? count - i : RAW_PIECE;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		memcpy(index + i, in + 4 * i, 4 * n);
#else
		for (size_t j = i; j < i + n; j++)
			index[j] = get_le32(in + 4 * j);
#endif
		if (!k->ascends(index + i - before, n + before))
			return refuse_bytes(why, "raw indices are not strictly increasing");
	}
	if (count && index[count - 1] >= span)
		return refuse_bytes(why, "a raw index lies beyond the shard");
	return 0;
}

/* ---- delta ---- */

/* Computes the gaps of the last block, which is not full. Returns their bitwise or. `next` is the
 * smallest possible first index. */
static uint32_t last_gaps(const uint32_t *index, uint32_t n, uint32_t next,
			  uint32_t gap[INDEX_BLOCK])
{
	uint32_t all = gap[0] = index[0] - next;

	for (uint32_t i = 1; i < n; i++)
		all |= gap[i] = index[i] - index[i - 1] - 1;
	return all;
}

enum { CHUNKS = 4 * TEAM_PARTS };

/* Several threads share a list in chunks of whole blocks. The place of a chunk, and the index at
 * which it begins, depend on all chunks before it. */
struct delta_chunks {
	uint32_t count, chunk; /* chunk: the number of indices in each chunk but the last */
	/* The encoder's input, and where it writes the widths and the gaps of the blocks. */
	const uint32_t *index;
	uint8_t *widths, *out;
	/* The decoder's widths and gaps, the end of the section, and where it writes the
	 * indices. */
	const uint8_t *read, *in, *end;
	uint32_t *got, span;
	uint64_t at[CHUNKS + 1];   /* first the bytes of each chunk, then its offset */
	uint64_t next[CHUNKS + 1]; /* first what each chunk spans, then where it begins */
	int refused[TEAM_PARTS];
};

static struct delta_chunks delta_chunks(uint32_t count)
{
	const uint32_t blocks = delta_blocks(count);

	return (struct delta_chunks){ .count = count,
				      .chunk = (blocks / CHUNKS + 1) * INDEX_BLOCK };
}

/* Returns the end of the chunk that begins at `first`. */
static uint32_t end_of_chunk(const struct delta_chunks *c, uint64_t first)
{
	return c->count - first < c->chunk ? c->count : (uint32_t)first + c->chunk;
}

/* Returns the smallest possible index at position `first`. */
static uint32_t next_of(const uint32_t *index, uint32_t first)
{
	return first ? index[first - 1] + 1 : 0;
}

/* Returns the bytes of the blocks of indices first..end - 1, without their widths. */
static uint64_t blocks_bytes(const uint32_t *index, uint32_t first, uint32_t end)
{
	const struct index_kernels *k = index_kernels();
	uint32_t next = next_of(index, first), gap[INDEX_BLOCK];
	uint64_t bytes = 0;

	for (uint32_t i = first, n; i < end; i += n) {
		n = smaller(end - i, INDEX_BLOCK);
		bytes += delta_block_bytes(
			n, bit_length(n == INDEX_BLOCK ? k->largest(index + i, next) :
							 last_gaps(index + i, n, next, gap)));
		next = index[i + n - 1] + 1;
	}
	return bytes;
}

static void measure_chunks(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct delta_chunks *c = context;

	(void)part;
	for (uint64_t i = begin; i < end; i += c->chunk)
		c->at[i / c->chunk] = blocks_bytes(c->index, (uint32_t)i, end_of_chunk(c, i));
}

/* Turns the bytes of the chunks into offsets, and returns their sum. */
static uint64_t place_chunks(struct delta_chunks *c)
{
	uint64_t at = 0;

	for (size_t i = 0; i <= CHUNKS; i++) {
		const uint64_t bytes = c->at[i];

		c->at[i] = at;
		at += bytes;
	}
	return at;
}

static uint64_t delta_bytes(struct team *team, const uint32_t *index, uint32_t count)
{
	struct delta_chunks c = delta_chunks(count);

	c.index = index;
	team_split(team, count, c.chunk, measure_chunks, &c);
	return section_padded(section_padded(delta_blocks(count)) + place_chunks(&c));
}

/* Encodes indices first..last - 1 into out..end, and returns where they end. Writes nothing after
 * end, where another thread may be writing. */
static uint8_t *encode_blocks(const uint32_t *index, uint32_t first, uint32_t last, uint8_t *widths,
			      uint8_t *out, const uint8_t *end)
{
	const struct index_kernels *k = index_kernels();
	uint32_t next = next_of(index, first);

	for (uint32_t i = first, n; i < last; i += n) {
		uint32_t gap[INDEX_BLOCK];
		uint8_t bits[BITS_BYTES + INDEX_SLACK];
		unsigned width;

		n = smaller(last - i, INDEX_BLOCK);
		width = bit_length(n == INDEX_BLOCK ? k->gaps(index + i, next, gap) :
						      last_gaps(index + i, n, next, gap));
		widths[i / INDEX_BLOCK] = (uint8_t)width;
		/* k->pack() packs a whole block, so the missing gaps must not set bits in the last
		 * byte. */
		if (n < INDEX_BLOCK)
			memset(gap + n, 0, (INDEX_BLOCK - n) * sizeof(gap[0]));
		if (end - out >= delta_block_bytes(INDEX_BLOCK, width) + INDEX_SLACK) {
			k->pack(gap, width, out);
		} else {
			k->pack(gap, width, bits);
			memcpy(out, bits, delta_block_bytes(n, width));
		}
		out += delta_block_bytes(n, width);
		next = index[i + n - 1] + 1;
	}
	return out;
}

static void encode_chunks(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	const struct delta_chunks *c = context;
	const uint64_t first = begin / c->chunk, last = (end + c->chunk - 1) / c->chunk;

	(void)part;
	encode_blocks(c->index, (uint32_t)begin, (uint32_t)end, c->widths, c->out + c->at[first],
		      c->out + c->at[last]);
}

static void delta_encode(struct team *team, const uint32_t *index, uint32_t count, uint8_t *out,
			 uint64_t bytes)
{
	const uint64_t head = section_padded(delta_blocks(count));
	struct delta_chunks c = delta_chunks(count);
	uint64_t used = 0;

	for (uint64_t i = delta_blocks(count); i < head; i++)
		out[i] = 0;
	c.index = index;
	c.widths = out;
	c.out = out + head;
	if (team_parts(team) > 1 && count >= 2 * TEAM_LEAST) {
		team_split(team, count, c.chunk, measure_chunks, &c);
		used = place_chunks(&c);
		team_split(team, count, c.chunk, encode_chunks, &c);
	} else {
		used = (uint64_t)(encode_blocks(index, 0, count, out, c.out, out + bytes) - c.out);
	}
	memset(c.out + used, 0, (size_t)(bytes - head - used));
}

/* Decodes the n gaps of the last block. *next has the same meaning as in last_gaps(), but is wider
 * so that nothing wraps. Returns 1 if the width was the smallest possible and the spare bits are
 * zero. */
static int unpack_last(const uint8_t *in, uint32_t n, unsigned width, uint64_t *next,
		       uint32_t *index)
{
	const uint64_t mask = ((uint64_t)1 << width) - 1;
	const uint32_t bytes = delta_block_bytes(n, width);
	uint8_t bits[BITS_BYTES + 8]; /* extra bytes, so that each gap is one load of 8 bytes */
	uint64_t at = *next, all = 0;

	memcpy(bits, in, bytes);
	memset(bits + bytes, 0, 8);
	for (uint32_t i = 0, bit = 0; i < n; i++, bit += width) {
		uint64_t gap = get_le64(bits + bit / 8) >> bit % 8 & mask;

		all |= gap;
		at += gap;
		index[i] = (uint32_t)at++;
	}
	*next = at;
	if (!width)
		return 1;
	/* The last byte uses n * width % 8 of its bits. Its other bits must be zero. */
	if (n * width % 8 && bits[bytes - 1] >> n * width % 8)
		return 0;
	return (int)(all >> (width - 1) & 1);
}

/* Decodes a whole block. left: number of bytes from `in` to the end. Returns 1 if the width was the
 * smallest possible. */
static int decode_block(const struct index_kernels *k, const uint8_t *in, uint64_t left,
			unsigned width, uint64_t *next, uint32_t *index)
{
	const uint32_t bytes = delta_block_bytes(INDEX_BLOCK, width);
	uint8_t bits[BITS_BYTES + INDEX_SLACK];
	uint32_t all;

	if (left < bytes + INDEX_SLACK) {
		memcpy(bits, in, bytes);
		memset(bits + bytes, 0, INDEX_SLACK);
		in = bits;
	}
	all = k->unpack(in, width, next, index);
	return !width || all >> (width - 1) & 1;
}

/* Decodes indices first..last - 1 from `in` on. *next has the same meaning as in last_gaps(). */
static int decode_blocks(const struct delta_chunks *c, uint32_t first, uint32_t last,
			 const uint8_t *in, uint64_t *next, const char **why)
{
	const struct index_kernels *k = index_kernels();

	for (uint32_t i = first, n; i < last; i += n) {
		const unsigned width = c->read[i / INDEX_BLOCK];

		n = smaller(last - i, INDEX_BLOCK);
		if (!(n == INDEX_BLOCK ? decode_block(k, in, (uint64_t)(c->end - in), width, next,
						      c->got + i) :
					 unpack_last(in, n, width, next, c->got + i)))
			return refuse_bytes(why, "a delta block is not packed canonically");
		if (*next > c->span)
			return refuse_bytes(why, "a delta index lies beyond the shard");
		in += delta_block_bytes(n, width);
	}
	return 0;
}

/* Decodes each chunk as if it began at 0, because the chunks before it are not decoded yet. */
static void decode_chunks(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct delta_chunks *c = context;
	const char *why;

	c->refused[part] = 0;
	for (uint64_t i = begin; i < end && !c->refused[part]; i += c->chunk) {
		const uint64_t chunk = i / c->chunk;

		c->refused[part] = decode_blocks(c, (uint32_t)i, end_of_chunk(c, i),
						 c->in + c->at[chunk], &c->next[chunk], &why);
	}
}

static void move_chunks(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	const struct delta_chunks *c = context;

	(void)part;
	for (uint64_t i = begin; i < end; i += c->chunk) {
		const uint32_t start = (uint32_t)c->next[i / c->chunk], stop = end_of_chunk(c, i);

		for (uint32_t j = (uint32_t)i; j < stop; j++)
			c->got[j] += start;
	}
}

/* Returns 0 if all chunks are decoded. Otherwise, decode_blocks() finds out why they are not. */
static int decode_together(struct team *team, struct delta_chunks *c)
{
	const unsigned parts = team_split(team, c->count, c->chunk, decode_chunks, c);
	uint64_t next = 0;

	for (unsigned i = 0; i < parts; i++)
		if (c->refused[i])
			return -1;
	for (size_t i = 0; i <= CHUNKS; i++) {
		const uint64_t length = c->next[i];

		c->next[i] = next;
		next += length;
	}
	if (next > c->span)
		return -1;
	team_split(team, c->count, c->chunk, move_chunks, c);
	return 0;
}

static int delta_decode(struct team *team, const uint8_t *in, uint64_t bytes, uint32_t count,
			uint32_t span, uint32_t *index, const char **why)
{
	const uint32_t blocks = delta_blocks(count);
	const uint64_t head = section_padded(blocks);
	struct delta_chunks c = delta_chunks(count);
	uint64_t needed = head, next = 0;

	if (bytes < needed)
		return refuse_bytes(why, "the payload is too short for its delta widths");
	for (uint32_t block = 0; block < blocks; block++) {
		const uint32_t first = block * INDEX_BLOCK;
		uint32_t length;

		if (in[block] > INDEX_WIDTH_MAX)
			return refuse_bytes(why, "a delta width exceeds 32 bits");
		length = delta_block_bytes(smaller(count - first, INDEX_BLOCK), in[block]);
		c.at[first / c.chunk] += length;
		needed += length;
	}
	if (bytes != section_padded(needed))
		return refuse_bytes(why, "the payload's length does not fit its delta widths");
	for (uint64_t i = blocks; i < head; i++)
		if (in[i])
			return refuse_bytes(why, "padding after the delta widths is not zero");
	for (uint64_t i = needed; i < bytes; i++)
		if (in[i])
			return refuse_bytes(why, "padding after the delta gaps is not zero");
	c.read = in;
	c.in = in + head;
	c.end = in + bytes;
	c.got = index;
	c.span = span;
	place_chunks(&c);
	if (team_parts(team) > 1 && count >= 2 * TEAM_LEAST && !decode_together(team, &c))
		return 0;
	return decode_blocks(&c, 0, count, c.in, &next, why);
}

/* ---- bitmap ---- */

/* Stores the whole word after each position, which avoids a branch. */
static void bitmap_encode(const uint32_t *index, uint32_t count, uint32_t span, uint8_t *out)
{
	uint32_t word = 0, at = 0;

	memset(out, 0, section_of_bitmap(span));
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t same = -(uint32_t)(index[i] / 32 == at);

		at = index[i] / 32;
		word = (word & same) | 1u << index[i] % 32;
		put_le32(out + 4 * (size_t)at, word);
	}
}

static int bitmap_decode(const uint8_t *in, uint64_t bytes, uint32_t count, uint32_t span,
			 uint32_t *index, const char **why)
{
	uint32_t n = 0;

	if (bytes != section_of_bitmap(span))
		return refuse_bytes(why, "the payload's length does not fit the bitmap");
	if (span % 32 && get_le32(in + bytes - 4) >> span % 32)
		return refuse_bytes(why, "the bitmap has bits beyond the shard");
	for (uint64_t at = index_kernels()->ones(in, bytes, count, index, &n); at < bytes; at += 4)
		for (uint32_t word = get_le32(in + at); word; word &= word - 1) {
			if (n == count)
				return refuse_bytes(
					why,
					"the bitmap has more bits than the message has values");
			index[n++] = (uint32_t)(at * 8) + (uint32_t)__builtin_ctz(word);
		}
	if (n != count)
		return refuse_bytes(why, "the bitmap has fewer bits than the message has values");
	return 0;
}

/* ---- Rice ---- */

static uint64_t rice_padded(const uint32_t *index, uint32_t count, uint32_t span)
{
	return section_padded(rice_bytes(index, count, span));
}

static void rice_encode_padded(const uint32_t *index, uint32_t count, uint32_t span, uint8_t *out,
			       uint64_t bytes)
{
	memset(out, 0, (size_t)bytes);
	rice_encode(index, count, span, out);
}

static int rice_decode_padded(const uint8_t *in, uint64_t bytes, uint32_t count, uint32_t span,
			      uint32_t *index, const char **why)
{
	uint64_t used;
	int rc = rice_decode(in, bytes, count, span, index, &used, why);

	if (rc)
		return rc;
	if (bytes != section_padded(used))
		return refuse_bytes(why, "the payload's length does not fit its Rice codes");
	for (uint64_t i = used; i < bytes; i++)
		if (in[i])
			return refuse_bytes(why, "padding after the Rice codes is not zero");
	return 0;
}

/* ---- run ---- */

static uint64_t run_bytes(const uint32_t *index, uint32_t count)
{
	return count && index[count - 1] - index[0] == count - 1 ? 4 : UINT32_MAX;
}

static int run_decode(const uint8_t *in, uint64_t bytes, uint32_t count, uint32_t span,
		      uint32_t *index, const char **why)
{
	uint32_t first;

	if (bytes != 4 || !count)
		return refuse_bytes(why, "the payload's length does not fit a run");
	first = get_le32(in);
	if (first > span - count)
		return refuse_bytes(why, "a run ends beyond the shard");
	for (uint32_t i = 0; i < count; i++)
		index[i] = first + i;
	return 0;
}

/* ---- all ---- */

uint64_t index_bytes(struct team *team, enum index_coding coding, const uint32_t *index,
		     uint32_t count, uint32_t span)
{
	switch (coding) {
	case CODING_SEEDED:
	case CODING_AGREED: /* message.c handles these */
	case CODING_DENSE: return 0;
	case CODING_RAW: return 4 * (uint64_t)count;
	case CODING_DELTA: return delta_bytes(team, index, count);
	case CODING_BITMAP: return section_of_bitmap(span);
	case CODING_RUN: return run_bytes(index, count);
	case CODING_RICE: return rice_padded(index, count, span);
	}
	return UINT64_MAX;
}

void index_encode(struct team *team, enum index_coding coding, const uint32_t *index,
		  uint32_t count, uint32_t span, uint8_t *out, uint64_t bytes)
{
	switch (coding) {
	case CODING_SEEDED:
	case CODING_AGREED: /* message.c handles these */
	case CODING_DENSE: break;
	case CODING_RAW: raw_encode(index, count, out); break;
	case CODING_DELTA: delta_encode(team, index, count, out, bytes); break;
	case CODING_BITMAP: bitmap_encode(index, count, span, out); break;
	case CODING_RUN: put_le32(out, index[0]); break;
	case CODING_RICE: rice_encode_padded(index, count, span, out, bytes); break;
	}
}

int index_decode(struct team *team, enum index_coding coding, const uint8_t *in, uint64_t bytes,
		 uint32_t count, uint32_t span, uint32_t *index, const char **why)
{
	if (count > span)
		return refuse_bytes(why, "more values than the shard has elements");
	switch (coding) {
	case CODING_SEEDED:
	case CODING_AGREED: /* message.c handles these */
	case CODING_DENSE:
		if (bytes || count != span)
			return refuse_bytes(
				why, "a dense payload does not hold exactly one value per element");
		return 0;
	case CODING_RAW: return raw_decode(in, bytes, count, span, index, why);
	case CODING_DELTA: return delta_decode(team, in, bytes, count, span, index, why);
	case CODING_BITMAP: return bitmap_decode(in, bytes, count, span, index, why);
	case CODING_RUN: return run_decode(in, bytes, count, span, index, why);
	case CODING_RICE: return rice_decode_padded(in, bytes, count, span, index, why);
	}
	return refuse_bytes(why, "unknown index coding");
}
