/* SPDX-License-Identifier: BSD-3-Clause
 * The wire format: one header and one payload, the same for a push (worker to shard), a delta and a
 * snapshot (shard to worker). Little-endian, fixed offsets, written and read field by field.
 *
 *   offset size field            offset size field
 *        0    4 magic "SLC1"         48    4 span      elements of the shard
 *        4    2 wire version         52    4 count     coordinates that follow
 *        6    1 kind                 56    4 divisor   messages reduced (delta), else 0
 *        7    1 coding               60    4 scale     f32 bits, finite, >= 0
 *        8    1 value type           64    4 lr        f32 bits
 *        9    1 raised flags         68    2 part      index of this part
 *       10    2 phase                70    2 parts     parts of the phase's message
 *       12    4 source rank          72    4 anchor
 *       16    4 membership epoch     76    4 payload bytes
 *       20    4 shard                80    4 CRC32C of the payload
 *       24    8 seq                  84    4 model id
 *       32    8 step                 88    1 chosen
 *       40    8 have_version         89    1 bits of a value: uniform, grid, round; else 0
 *                                    90    2 values of a block: uniform; else 0
 *                                    92    4 CRC32C of bytes 0..91
 *
 * The payload holds the index coding (padded to a multiple of 4 bytes with zeros), then the values
 * (padded likewise): canonical, so equal content gives equal bytes.
 * raw:    count x u32, strictly increasing, < span
 * delta:  blocks of 128 gaps (idx - previous - 1, first idx itself): one width byte 0..32 each,
 *         all width bytes first (padded to 4), then each block's gaps bit-packed LSB first, block
 *         starts on a byte boundary, the last block stores only the gaps it has
 * bitmap: ceil(span / 8) bytes, bit i of byte i/8; popcount = count, bits beyond span zero
 * dense:  no indices, count = span
 * rice:   gaps as above, m low bits each, m = floor(log2(floor(span * 45426 / 65536 / count))), 0
 *         if that is below 1: count * m bits packed LSB first, from the next byte on for each gap
 *         (gap >> m) zero bits and a one bit
 * run:    the first position, u32: count coordinates that follow each other
 * agreed: nothing: the support is the one that an earlier phase of the same step settled
 * seeded: nothing: the support is what seeded_support() (choose.h) gives for kind, step, shard,
 *         span, count
 * A support (kind 4) has positions only, no values.
 * Values: f32, f16 (of value * scale) and bf16 as they are; in few bits, codes packed LSB first
 *         (few_bits.h):
 * uniform: a float step for each block of values, then count codes of b bits; scale is 1
 * grid:    count codes of b bits; scale is the range R
 * round:   count codes of b bits, the fewest that hold the largest; scale is the width D
 * With these a sparse message never becomes dense: a zero between would not stay zero.
 * Padding is zero, widths are the smallest that hold their block's gaps, scale is a power of two
 * (f16) or 1 unless said otherwise, part < parts, lr is finite and not negative: anything else is
 * refused.
 */
#ifndef COMPRESS_MESSAGE_H
#define COMPRESS_MESSAGE_H
#include "base/wire_version.h"
#include "few_bits.h"
#include "quantize.h"
#include <stddef.h>
#include <stdint.h>

enum { MESSAGE_HEADER_BYTES = 96 };

enum message_kind {
	MESSAGE_PUSH = 1,
	MESSAGE_DELTA = 2,
	MESSAGE_SNAPSHOT = 3,
	MESSAGE_SUPPORT = 4,
	MESSAGE_ASK = 5,
	MESSAGE_PARK = 6 /* without coordinates: shard_async.h */
};
enum index_coding {
	CODING_DENSE = 0,
	CODING_RAW = 1,
	CODING_DELTA = 2,
	CODING_BITMAP = 3,
	CODING_RICE = 4,
	CODING_RUN = 5,
	CODING_SEEDED = 8,
	CODING_AGREED = 9
};

struct message {
	enum message_kind kind;
	enum index_coding coding;   /* set by message_encode */
	struct value_coding values; /* round: bits set by message_encode */
	int densest; /* for message_encode: Rice may be chosen too, which is read more slowly */
	/* For message_encode: uniform rounds by its numbers. A seeded support takes its seed, also
	 * in message_decode: the receiver sets it. */
	struct random_stream stream;
	uint64_t first; /* for message_encode: index 0 is this coordinate of the whole vector */
	float range;    /* for message_encode: grid covers at least this magnitude */
	int seeded;     /* for message_encode: index[] is the seeded support, and is not sent */
	int agreed;     /* for message_encode: index[] is known to the receiver, and is not sent */
	uint8_t raised;
	uint8_t chosen; /* recipe=auto: 1 + which of its choices the sender goes on with; else 0 */
	uint16_t phase, part, parts;
	uint32_t rank, epoch, model, shard;
	uint64_t seq;          /* push: ring sequence; delta and snapshot: version */
	uint64_t step;         /* push: the worker's step; delta: same as version */
	uint64_t have_version; /* push: version the worker holds; delta: version it applies to */
	uint32_t span, count, divisor;
	uint32_t anchor; /* svrg: how many anchors came before the one that this belongs to;
			  * innovation: what lazy.c counts; else 0 */
	float scale, lr;
	uint32_t payload_bytes; /* set by message_encode */
	uint32_t bad; /* set by message_encode if it returns 0: value[bad] is NaN or infinite */
};

/* Largest number of bytes (header included, multiple of 8) that message_encode can need for up to
 * `count` coordinates of a shard of `span` elements. Must stay below 4 GiB: open smaller shards. */
size_t message_bound(uint32_t span, uint32_t count, struct value_coding values);

/* Largest for a support of up to count coordinates. */
size_t message_support_bound(uint32_t span, uint32_t count);

/* Encodes m->count coordinates: index[] ascending and < m->span with value[] beside it, or
 * index == NULL for all m->span values. Chooses the cheapest coding (for sparse input also dense,
 * when cheaper and not in few bits, with zeros between; a support has no values: value and decoded
 * may be NULL), sets coding, scale, count, payload_bytes and both CRCs in out. decoded[i] receives
 * what the receiver will decode for value[i] (may alias value; required). Returns the message's
 * length, a multiple of 4 and <= message_bound(). cap smaller than the bound is a programming error
 * (assert). Allocates nothing. 0: a value is NaN or infinite, whatever the type (sums overflowed):
 * m->bad says which, and what was written is no message. */
size_t message_encode(struct message *m, const uint32_t *index, const float *value, float *decoded,
		      uint8_t *out, size_t cap);

/* For a payload that was made elsewhere, as message_encode() makes it: writes the header,
 * MESSAGE_HEADER_BYTES at out. m->coding, scale, payload_bytes and count (of a dense one: whatever)
 * are set. Returns the message's length. */
size_t message_head(struct message *m, uint32_t payload_crc, uint8_t *out);

/* Takes a message out of memory that a peer may be changing: reads each byte once. Copies the
 * header, checks magic, wire version, header CRC, and that header + payload fit in slot_bytes and
 * copy_cap, then copies the payload and checks its CRC. On success *m describes the private copy in
 * copy[] (header at 0, payload at MESSAGE_HEADER_BYTES). SLUICE_EWIRE on refusal, *why says what
 * (static text or a thread-local one); nothing but copy[] is written. copy may be slot itself where
 * the slot is private memory already (a READ's destination). */
int message_copy(const void *slot, size_t slot_bytes, uint8_t *copy, size_t copy_cap,
		 struct message *m, const char **why);

/* The first half of message_copy(): copies the header alone, and checks that it and the payload fit
 * in slot_bytes. On success *m is what it says, and the payload that *payload_crc is the checksum
 * of lies MESSAGE_HEADER_BYTES behind slot, unread. */
int message_peek(const void *slot, size_t slot_bytes, struct message *m, uint32_t *payload_crc,
		 const char **why);

/* Of a message that passed message_copy() or message_peek(), header included. */
static inline size_t message_bytes(const struct message *m)
{
	return MESSAGE_HEADER_BYTES + (size_t)m->payload_bytes;
}

/* What the receiver knows must hold. Fields set to MESSAGE_ANY are not compared. count_max bounds
 * what message_decode will write, so a dense message is held to it with its span: give MESSAGE_ANY
 * or the span, and room for span values, unless the sender selects so little that it never turns to
 * dense. */
#define MESSAGE_ANY UINT64_MAX
struct message_expect {
	enum message_kind kind;
	uint64_t rank, epoch, model, shard, seq, step, phase, span, count_max;
	int agreed; /* 1: CODING_AGREED with count_max coordinates exactly; 0: not CODING_AGREED */
};
int message_check(const struct message *m, const struct message_expect *want, const char **why);

/* Decodes the payload in copy[] as described by *m (which passed message_copy). For CODING_DENSE
 * writes value[0..span) and leaves index alone, for CODING_AGREED value[0..count) and leaves index
 * alone (the caller compares count with the support it knows); else index[0..count) and, but for a
 * support, value[0..count). Room for m->span (dense) or m->count elements. Everything is validated
 * (ascending, < span, exact consumption, padding zero, finite scale and values) before it returns
 * 0; on SLUICE_EWIRE the contents of index and value are unspecified and must not be used. */
int message_decode(const struct message *m, const uint8_t *copy, uint32_t *index, float *value,
		   const char **why);
/* Why a value that is NaN or infinite is refused. */
extern const char message_nonfinite[];
#endif
