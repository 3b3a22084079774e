/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzz target for the receiver of messages. Input: one byte of options, then the slot as a peer
 * wrote it. An accepted message is encoded again and must give the same bits. Runs under libFuzzer
 * (run.sh) and, with replay.c, over the corpus in make check. */
#include "fuzz.h"
#include "base/bytes.h"
#include "compress/message.h"
#include <math.h>

/* Receivers know the most coordinates that can arrive, because some codings hold many in few
 * bytes. */
enum { SEEDED_SPAN_MAX = 1 << 16, COUNT_MAX = 1 << 16 };

/* Options. Checksums are corrected unless the fuzzer sets these, because it need not guess them. */
enum { LEAVE_HEADER_CRC = 1, LEAVE_PAYLOAD_CRC = 2, LEAVE_START = 4 };

static void fix(uint8_t *slot, size_t size, unsigned options)
{
	if (size < MESSAGE_HEADER_BYTES)
		return;
	if (!(options & LEAVE_START)) {
		memcpy(slot, "SLC1", 4);
		put_le16(slot + 4, SLUICE_WIRE_VERSION);
	}
	if (!(options & LEAVE_PAYLOAD_CRC)) {
		uint32_t n = get_le32(slot + 76);

		if (n > size - MESSAGE_HEADER_BYTES) {
			n = (uint32_t)(size - MESSAGE_HEADER_BYTES);
			put_le32(slot + 76, n);
		}
		put_le32(slot + 80, crc32c(0, slot + MESSAGE_HEADER_BYTES, n));
	}
	if (!(options & LEAVE_HEADER_CRC))
		put_le32(slot + 92, crc32c(0, slot, 92));
}

static int has_positions(const struct message *m)
{
	return m->coding != CODING_DENSE && m->coding != CODING_AGREED;
}

/* Copies, checks and decodes a message. The caller frees *index and *value. Returns 1 if the
 * message was accepted. */
static int receive(const uint8_t *slot, size_t size, struct message *m, uint32_t **index,
		   float **value)
{
	struct message_expect want = { MESSAGE_PUSH,
				       MESSAGE_ANY,
				       MESSAGE_ANY,
				       MESSAGE_ANY,
				       MESSAGE_ANY,
				       MESSAGE_ANY,
				       MESSAGE_ANY,
				       MESSAGE_ANY,
				       MESSAGE_ANY,
				       COUNT_MAX,
				       0 };
	uint8_t *copy = get_memory(size);
	const char *why = NULL;
	int accepted = 0;

	*index = NULL;
	*value = NULL;
	if (!message_copy(NULL, slot, size, copy, size, m, &why)) {
		want.kind = m->kind;
		/* The time to find a seeded support grows with the shard, whose size receivers
		 * know. */
		if (m->coding == CODING_SEEDED && m->span > SEEDED_SPAN_MAX)
			want.span = SEEDED_SPAN_MAX;
		if ((want.agreed = m->coding == CODING_AGREED))
			want.count_max = m->count <= COUNT_MAX ? m->count : 0;
		if (!message_check(m, &want, &why)) {
			*index = get_memory(has_positions(m) ? 4 * (size_t)m->count : 0);
			*value = get_memory(m->kind == MESSAGE_SUPPORT ? 0 : 4 * (size_t)m->count);
			accepted = !message_decode(NULL, m, copy, *index, *value, &why);
		}
	}
	require(accepted || (why && *why), "refused without a reason");
	free(copy);
	return accepted;
}

static void expect_ascending(const struct message *m, const uint32_t *index)
{
	for (uint32_t i = 0; i < m->count; i++)
		require(index[i] < m->span && (!i || index[i] > index[i - 1]),
			"bad index accepted");
}

static void expect_same_bits(const float *a, const float *b, size_t n, const char *what)
{
	require(!n || !memcmp(a, b, 4 * n), what);
}

/* A block whose codes are all those of zero loses their signs, and twomeans the smaller magnitudes
 * of a block whose sum overflows. */
static void expect_same_levels(const float *a, const float *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		require(a[i] == b[i] || fabsf(b[i]) < 0x1p-99f, "levels changed");
}

static void expect_round_trip(const struct message *first, const uint32_t *index,
			      const float *value)
{
	struct message m = *first, got;
	const uint32_t *sent = has_positions(&m) ? index : NULL;
	int bare = m.kind == MESSAGE_SUPPORT, comparable;
	size_t bound = bare ? message_support_bound(m.span, m.count) :
			      message_bound(m.span, m.count, m.values),
	       length;
	float *decoded = get_memory(bare ? 0 : 4 * (size_t)m.count), *got_value;
	uint8_t *out = get_memory(bound);
	uint32_t *got_index, n = m.count, *agreed = NULL;

	if (m.coding == CODING_AGREED) { /* both sides know the positions, by which the encoder
					    rounds */
		sent = agreed = get_memory(4 * (size_t)n);
		for (uint32_t i = 0; i < n; i++)
			agreed[i] = i;
	}
	m.agreed = m.coding == CODING_AGREED;
	m.seeded = m.coding == CODING_SEEDED;
	m.densest = m.coding == CODING_RICE;
	length = message_encode(NULL, &m, sent, value, decoded, out, bound);
	require(length <= bound && length == MESSAGE_HEADER_BYTES + m.payload_bytes, "length");
	require(m.payload_bytes <= first->payload_bytes, "a longer coding was chosen");
	require(receive(out, length, &got, &got_index, &got_value), "own message refused");
	/* uniform would be rounded by other random numbers */
	comparable = !bare && m.scale == first->scale && m.values.type != VALUE_UNIFORM;
	if (comparable && value_bits(m.values.type))
		expect_same_levels(decoded, value, n);
	else if (comparable)
		expect_same_bits(decoded, value, n, "values changed");
	if (bare) {
		require(got.count == n && (!sent || got.coding == CODING_DENSE ||
					   !memcmp(got_index, index, 4 * (size_t)n)),
			"positions changed");
	} else if (got.coding == CODING_AGREED) {
		require(got.count == n, "count changed");
		expect_same_bits(got_value, decoded, n, "agreed values differ from announced ones");
	} else if (got.coding != CODING_DENSE) {
		require(got.count == n && !memcmp(got_index, index, 4 * (size_t)n),
			"indices changed");
		expect_same_bits(got_value, decoded, n,
				 "decoded values differ from announced ones");
	} else if (!sent) {
		expect_same_bits(got_value, decoded, n, "dense values differ from announced ones");
	} else {
		for (uint32_t i = 0, place = 0; i < got.span; i++) {
			int here = place < n && index[place] == i;

			require(float_bits(got_value[i]) == (here ? float_bits(decoded[place]) : 0),
				"values among zeros changed");
			place += (uint32_t)here;
		}
	}
	free(agreed);
	free(decoded);
	free(out);
	free(got_index);
	free(got_value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct message m;
	uint32_t *index;
	uint8_t *slot;
	float *value;

	if (!size)
		return 0;
	slot = get_memory(size - 1);
	if (size > 1)
		memcpy(slot, data + 1, size - 1);
	fix(slot, size - 1, data[0]);
	if (receive(slot, size - 1, &m, &index, &value)) {
		if (has_positions(&m))
			expect_ascending(&m, index);
		expect_round_trip(&m, index, value);
	}
	free(slot);
	free(index);
	free(value);
	return 0;
}
