/* SPDX-License-Identifier: BSD-3-Clause
 * The wire format: one header and one payload, the same for a push (worker to shard), a delta and a
 * snapshot (shard to worker). Little-endian, fixed offsets, written and read field by field.
 *
 *   offset size field            offset size field
 *        0    4 magic "SLC1"         48    4 span      elements of the shard
 *        4    2 wire version         52    4 count     coordinates that follow
 *        6    1 kind                 56    4 divisor   messages reduced (delta), f32 bits of
 *                                                      the norm or weight (push), else 0
 *        7    1 coding               60    4 scale     f32 bits, finite, >= 0
 *        8    1 value type           64    4 lr        f32 bits
 *        9    1 raised flags         68    2 part      index of this part
 *       10    2 phase                70    2 parts     parts of the phase's message
 *       12    4 source rank          72    4 anchor
 *       16    4 membership epoch     76    4 payload bytes
 *       20    4 shard                80    4 CRC32C of the payload
 *       24    8 seq                  84    4 model id
 *       32    8 step                 88    1 chosen
 *       40    8 have_version         89    1 bits of a value in few bits; else 0
 *                                    90    2 values of a block, if there are; else 0
 *                                    92    4 CRC32C of bytes 0..91
 *
 * The payload holds the index coding, then the values, each padded with zeros to a multiple of 4
 * bytes. It is canonical: equal content gives equal bytes. The index codings:
 * raw:    count x u32, strictly increasing, < span
 * delta:  blocks of 128 gaps. A gap is index - previous index - 1, the first one is the index
 *         itself. First come the width bytes of all blocks (0..32, padded to 4 bytes), then the
 *         gaps of each block, bit-packed LSB first. A block starts on a byte boundary, and the last
 *         one has only the gaps that remain
 * bitmap: ceil(span / 8) bytes, bit i of byte i/8; popcount = count, bits beyond span zero
 * dense:  no indices, count = span
 * rice:   gaps as in delta, in two parts. The first has the m low bits of each gap, packed LSB
 *         first. m = floor(log2(q)) with q = floor(span * 45426 / 65536 / count), or 0 if q < 1.
 *         The second begins at the next byte: for each gap, (gap >> m) zero bits and a one bit
 * run:    u32, the first of count consecutive positions
 * agreed: nothing, because an earlier phase of the same step has determined the support
 * seeded: nothing, because seeded_support() (choose.h) computes the support from kind, step, shard,
 *         span and count
 * A support (kind 4) has positions and no values.
 *
 * In a snapshot that is written during a training with quorum=, divisor and anchor have a byte for
 * each flag, from the lowest on: 1 if the flag was raised in the newest publication, 2 if it was
 * raised in the one before, and so on; 0 if this was more than 254 publications ago, or never.
 *
 * Values in f32, f16 (of value * scale) and bf16 are stored as they are. Values in few bits are
 * codes, packed LSB first (few_bits.h):
 * uniform: a float step for each block of values, then count codes of b bits; scale is 1
 * grid:    count codes of b bits; scale is the range R
 * round:   count codes of b bits, the fewest that hold the largest; scale is the width D
 * twomeans, e3m0: a word of 4 bytes for each block of 512 values, then count codes of 2 or 4 bits;
 *         scale is 1
 * A sparse message of values in few bits never becomes dense, because the zeros in between would
 * not decode to zero.
 *
 * Receivers refuse a message unless padding is zero, widths are the smallest that hold their
 * block's gaps, scale is as listed (a power of two for f16, else 1), part < parts, and lr and the
 * norm are finite and not negative. */
#ifndef COMPRESS_MESSAGE_H
#define COMPRESS_MESSAGE_H
#include "base/wire_version.h"
#include "few_bits.h"
#include "quantize.h"
#include <stddef.h>
#include <stdint.h>

/* In the calls below, team: threads that may help, or NULL. */
struct team;
enum { MESSAGE_HEADER_BYTES = 96 };

enum message_kind {
	MESSAGE_PUSH = 1,
	MESSAGE_DELTA = 2,
	MESSAGE_SNAPSHOT = 3,
	MESSAGE_SUPPORT = 4,
	MESSAGE_ASK = 5,
	MESSAGE_PARK = 6 /* has no coordinates; see shard_async.h */
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
	int densest; /* for message_encode: 1 allows Rice codes, which are slower to read */
	/* For message_encode: the random numbers of uniform, and the seed of a seeded support. The
	 * receiver sets the seed before message_decode. */
	struct random_stream stream;
	/* For message_encode: the coordinate of the whole vector for which index 0 stands. */
	uint64_t first;
	float range; /* for message_encode: grid covers at least this magnitude */
	int seeded;  /* for message_encode: index[] is the seeded support, which is not sent */
	int agreed;  /* for message_encode: the receiver knows index[], so it is not sent */
	uint8_t raised;
	uint8_t chosen; /* rulebook_step(): the sender's choice for the next step */
	uint16_t phase, part, parts;
	uint32_t rank, epoch, model, shard;
	uint64_t seq;          /* push: ring sequence; delta and snapshot: version */
	uint64_t step;         /* push: the worker's step; delta: the same number as version */
	uint64_t have_version; /* push: the version that the worker has; delta: the version to
				  which it applies */
	uint32_t span, count, divisor;
	/* push with clip=median: the 2-norm of the values that the worker has selected for all
	 * shards, before they are encoded; push with quorum=: the weight of the worker, above 0;
	 * otherwise 0. */
	float norm;
	/* svrg: the number of anchors before the anchor to which this message belongs; innovation:
	 * the count of uploads (model.h); quorum: the number of collectives that the worker has
	 * completed, or the one that it joins; otherwise 0. */
	uint32_t anchor;
	float scale, lr;
	uint32_t payload_bytes; /* set by message_encode */
	uint32_t bad; /* set by message_encode if it returns 0: value[bad] is NaN or infinite */
};

/* Returns the most bytes (including the header, a multiple of 8) that message_encode() needs for up
 * to `count` coordinates of a shard of `span` elements. The shard must be so small that this is
 * below 4 GiB. */
size_t message_bound(uint32_t span, uint32_t count, struct value_coding values);

/* Returns the most bytes that a support of up to count coordinates takes. */
size_t message_support_bound(uint32_t span, uint32_t count);

/* Encodes m->count coordinates: index[], which is ascending and below m->span, and their value[].
 * If index is NULL, encodes all m->span values. Chooses the shortest coding, and sets coding,
 * scale, count, payload_bytes and both CRCs in out. Sparse input becomes dense if that is shorter
 * and the values are not in few bits. A support has no values, so value and decoded may be NULL.
 * Otherwise decoded[i] receives what the receiver will decode for value[i]; decoded may be the same
 * memory as value. Returns the message's length, a multiple of 4 and <= message_bound(). A cap
 * smaller than the bound is a programming error (assert). If a value is NaN or infinite, which can
 * happen with any type if a sum has overflowed, returns 0. m->bad is then the index of the value,
 * and out has no message. Allocates nothing. */
size_t message_encode(struct team *team, struct message *m, const uint32_t *index,
		      const float *value, float *decoded, uint8_t *out, size_t cap);

/* Writes the header, MESSAGE_HEADER_BYTES at out, for a payload that was encoded elsewhere in the
 * format of message_encode(). The caller has set m->coding, scale, payload_bytes, and count, which
 * is ignored for a dense message. Returns the message's length. */
size_t message_head(struct message *m, uint32_t payload_crc, uint8_t *out);

/* Copies a message out of memory that a peer may be changing, and reads each byte once. Copies the
 * header, and checks magic, wire version and header CRC, and that header and payload fit into
 * slot_bytes and copy_cap. Then copies the payload and checks its CRC. On success *m describes the
 * private copy in copy[], with the header at 0 and the payload at MESSAGE_HEADER_BYTES. If the
 * message is refused, returns SLUICE_EWIRE and sets *why to the reason, a static or thread-local
 * text; then nothing but copy[] was written. copy may be slot itself if the slot is private memory
 * already, such as the destination of a READ. */
int message_copy(struct team *team, const void *slot, size_t slot_bytes, uint8_t *copy,
		 size_t copy_cap, struct message *m, const char **why);

/* Does the first half of message_copy(): copies only the header, and checks that it and the payload
 * fit into slot_bytes. On success *m is the header's content and *payload_crc the checksum of the
 * payload. The payload is at slot + MESSAGE_HEADER_BYTES and was not read. */
int message_peek(const void *slot, size_t slot_bytes, struct message *m, uint32_t *payload_crc,
		 const char **why);

/* Returns the length, including the header, of a message that passed message_copy() or
 * message_peek(). */
static inline size_t message_bytes(const struct message *m)
{
	return MESSAGE_HEADER_BYTES + (size_t)m->payload_bytes;
}

/* The fields that the receiver expects of a message. A field that is MESSAGE_ANY is not compared.
 * count_max limits how many values message_decode() writes; for a dense message these are the span.
 * Use MESSAGE_ANY or the span, with room for span values, unless the sender selects too few
 * coordinates for a dense message. */
#define MESSAGE_ANY UINT64_MAX
struct message_expect {
	enum message_kind kind;
	uint64_t rank, epoch, model, shard, seq, step, phase, span, count_max;
	/* 1: the coding must be CODING_AGREED with exactly count_max coordinates; 0: any other
	 * coding. */
	int agreed;
};
int message_check(const struct message *m, const struct message_expect *want, const char **why);

/* Decodes the payload in copy[] that *m describes, after message_copy(). With CODING_DENSE, writes
 * value[0..span) and not index. With CODING_AGREED, writes value[0..count) and not index; the
 * caller compares count with the support that it knows. With other codings, writes index[0..count)
 * and, except for a support, value[0..count). There must be room for m->span (dense) or m->count
 * elements. Before it returns 0, everything is validated: indices ascend and are below span, the
 * length is exact, padding is zero, scale and values are finite. After SLUICE_EWIRE, the contents
 * of index and value are unspecified and must not be used. */
int message_decode(struct team *team, const struct message *m, const uint8_t *copy, uint32_t *index,
		   float *value, const char **why);
/* The reason with which a value that is NaN or infinite is refused. */
extern const char message_nonfinite[];
#endif
