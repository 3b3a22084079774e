/* SPDX-License-Identifier: BSD-3-Clause
 * Encodes and decodes messages (layout in message.h). The sender calls message_encode() once per
 * shard. The receiver calls message_copy(), message_check() and message_decode() in this order, and
 * uses no byte of a message before all three have accepted it. Pure: no job, no network, no
 * allocation. */
#include "message.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/team.h"
#include "choose.h"
#include "index_coding.h"
#include "message_rules.h"
#include "select.h"
#include "sluice.h"
#include <assert.h>
#include <float.h>
#include <stdarg.h>
#include <stdio.h>

enum { MAGIC = 0x31434c53, PAYLOAD_CRC_OFFSET = 80, HEADER_CRC_OFFSET = 92, COPY_STEP = 16384 };
/* Number of values that are written together, and at whose multiples parts begin. */
enum { VALUES_STEP = COPY_STEP / sizeof(float) };

/* Returns the length of the values of `count` coordinates. A support has no values. */
static uint64_t section_of(const struct message *m, uint32_t count)
{
	return m->kind == MESSAGE_SUPPORT ? 0 : section_of_values(count, &m->values);
}

/* ---- header ---- */

static void header_put(const struct message *m, uint32_t payload_crc, uint8_t *h)
{
	put_le32(h, MAGIC);
	put_le16(h + 4, SLUICE_WIRE_VERSION);
	h[6] = (uint8_t)m->kind;
	h[7] = (uint8_t)m->coding;
	h[8] = (uint8_t)m->values.type;
	h[9] = m->raised;
	put_le16(h + 10, m->phase);
	put_le32(h + 12, m->rank);
	put_le32(h + 16, m->epoch);
	put_le32(h + 20, m->shard);
	put_le64(h + 24, m->seq);
	put_le64(h + 32, m->step);
	put_le64(h + 40, m->have_version);
	put_le32(h + 48, m->span);
	put_le32(h + 52, m->count);
	put_le32(h + 56, m->kind == MESSAGE_PUSH ? float_bits(m->norm) : m->divisor);
	put_le32(h + 60, float_bits(m->scale));
	put_le32(h + 64, float_bits(m->lr));
	put_le16(h + 68, m->part);
	put_le16(h + 70, m->parts);
	put_le32(h + 72, m->anchor);
	put_le32(h + 76, m->payload_bytes);
	put_le32(h + PAYLOAD_CRC_OFFSET, payload_crc);
	put_le32(h + 84, m->model);
	h[88] = m->chosen;
	h[89] = (uint8_t)m->values.bits;
	put_le16(h + 90, (uint16_t)m->values.block);
	put_le32(h + HEADER_CRC_OFFSET, crc32c(0, h, HEADER_CRC_OFFSET));
}

static void header_get(const uint8_t *h, struct message *m)
{
	m->kind = h[6];
	m->coding = h[7];
	m->values = (struct value_coding){ .type = h[8],
					   .bits = h[89],
					   .block = get_le16(h + 90),
					   .step = bits_float(get_le32(h + 60)) };
	m->raised = h[9];
	m->chosen = h[88];
	m->phase = get_le16(h + 10);
	m->rank = get_le32(h + 12);
	m->epoch = get_le32(h + 16);
	m->shard = get_le32(h + 20);
	m->seq = get_le64(h + 24);
	m->step = get_le64(h + 32);
	m->have_version = get_le64(h + 40);
	m->span = get_le32(h + 48);
	m->count = get_le32(h + 52);
	m->divisor = m->kind == MESSAGE_PUSH ? 0 : get_le32(h + 56);
	m->norm = m->kind == MESSAGE_PUSH ? bits_float(get_le32(h + 56)) : 0;
	m->scale = bits_float(get_le32(h + 60));
	m->lr = bits_float(get_le32(h + 64));
	m->part = get_le16(h + 68);
	m->parts = get_le16(h + 70);
	m->anchor = get_le32(h + 72);
	m->payload_bytes = get_le32(h + 76);
	m->model = get_le32(h + 84);
}

/* ---- sending ---- */

size_t message_bound(uint32_t span, uint32_t count, struct value_coding values)
{
	const int few_bits = value_few_bits(values.type);
	uint64_t dense, sparse, bitmap, best;
	uint32_t fewer = count < span ? count : span - (span > 0);

	if (values.type == VALUE_ROUND)
		values.bits = ROUND_BITS_MAX;
	dense = section_of_values(span, &values);
	sparse = section_of_values(fewer, &values) +
		 index_bytes(NULL, CODING_RAW, NULL, fewer, span);
	bitmap = section_of_values(fewer, &values) +
		 index_bytes(NULL, CODING_BITMAP, NULL, fewer, span);
	best = sparse < bitmap ? sparse : bitmap;
	if (few_bits && count >= span) /* such a message is dense only if all coordinates are
					  sent, because nearly all may take more bytes */
		best = dense > best ? dense : best;
	if (!few_bits)
		best = dense < best || count >= span ? dense : best;
	return (size_t)(MESSAGE_HEADER_BYTES + ((best + 7) & ~(uint64_t)7));
}

size_t message_support_bound(uint32_t span, uint32_t count)
{
	uint64_t raw = index_bytes(NULL, CODING_RAW, NULL, count, span);
	uint64_t bitmap = index_bytes(NULL, CODING_BITMAP, NULL, count, span);

	return (size_t)(MESSAGE_HEADER_BYTES +
			(((raw < bitmap ? raw : bitmap) + 7) & ~(uint64_t)7));
}

/* Returns the coding with the shortest payload. Among equally short ones, returns the one that is
 * fastest to read. *payload_bytes receives its length. */
static enum index_coding cheapest(struct team *team, const struct message *m, const uint32_t *index,
				  uint64_t *payload_bytes)
{
	static const enum index_coding sparse[] = { CODING_RAW, CODING_RUN, CODING_BITMAP,
						    CODING_DELTA, CODING_RICE };
	const size_t known = sizeof(sparse) / sizeof(sparse[0]), n = m->densest ? known : known - 1;
	enum index_coding best = CODING_DENSE;

	*payload_bytes = m->agreed || m->seeded ? section_of(m, m->count) : section_of(m, m->span);
	if (m->agreed)
		return CODING_AGREED;
	if (!index || m->count == m->span)
		return best;
	if (m->seeded)
		return CODING_SEEDED;
	if (m->kind == MESSAGE_SUPPORT || value_few_bits(m->values.type))
		*payload_bytes =
			UINT64_MAX; /* a dense message would not show which coordinates were sent */
	for (size_t i = 0; i < n; i++) {
		uint64_t bytes = index_bytes(team, sparse[i], index, m->count, m->span) +
				 section_of(m, m->count);

		if (coding_wins(bytes, best, *payload_bytes)) {
			best = sparse[i];
			*payload_bytes = bytes;
		}
	}
	return best;
}

/* Checks that the values are finite, while they are in the cache. */
static int all_finite(struct message *m, const float *value, size_t at, size_t n)
{
	const size_t finite = first_nonfinite(value + at, n);

	m->bad = (uint32_t)(at + finite);
	return finite == n;
}

/* Writes the values of a sparse message to their coordinates, among zeros. out[] must be zero. If a
 * value is not finite, returns 0 and sets m->bad to its index. */
static int scatter(struct message *m, const uint32_t *index, const float *value, float *decoded,
		   uint8_t *out)
{
	const size_t width = value_bytes(m->values.type);
	uint8_t codes[4 * 256];

	for (size_t i = 0, n; i < m->count; i += n) {
		n = m->count - i < 256 ? m->count - i : 256;
		if (!all_finite(m, value, i, n))
			return 0;
		values_encode(m->values.type, m->scale, value + i, n, codes, decoded + i);
		for (size_t j = 0; j < n; j++)
			memcpy(out + width * index[i + j], codes + width * j, width);
	}
	return 1;
}

/* Arguments and results of copy_part(). Parts begin at multiples of COPY_UNIT: shorter parts would
 * take less time than handing them out. */
enum { COPY_UNIT = 1 << 17 };
struct copying {
	uint8_t *to;
	const uint8_t *from;
	uint32_t before; /* the CRC of the bytes before them */
	struct crc_part crc[TEAM_PARTS];
};

/* Copies bytes that a peer may be changing. The barrier prevents the compiler from reading a byte
 * from its source a second time. Bytes in private memory are not copied. */
static void copy_from_peer(uint8_t *to, const uint8_t *from, size_t n)
{
	if (to != from)
		memcpy(to, from, n);
	__asm__ volatile("" : : "r"(to), "r"(from) : "memory");
}

static void copy_part(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct copying *c = context;
	uint32_t crc = part ? 0 : c->before;

	for (uint64_t at = begin, n; at < end; at += n) {
		n = end - at < COPY_STEP ? end - at : COPY_STEP;
		copy_from_peer(c->to + at, c->from + at, n);
		crc = crc32c(crc, c->to + at, n); /* the piece is still in the cache */
	}
	c->crc[part] = (struct crc_part){ crc, end - begin };
}

/* Copies n bytes and extends the CRC of those before them. to may be the same memory as from, which
 * is then not copied. */
static uint32_t copy_checked(struct team *team, uint32_t before, uint8_t *to, const uint8_t *from,
			     uint64_t n)
{
	struct copying c = { .to = to, .from = from, .before = before };
	const unsigned parts = team_split(team, n, COPY_UNIT, copy_part, &c);

	return crc32c_of_parts(c.crc, parts);
}

/* Arguments and results of put_part(), which writes each piece and its checksum while it is in the
 * cache. */
struct putting {
	const struct message *m;
	const float *value;
	float *decoded;
	uint8_t *out;
	uint32_t before;          /* the CRC of the payload before them */
	uint32_t bad[TEAM_PARTS]; /* the part's first value that is not finite, or m->count */
	struct crc_part crc[TEAM_PARTS];
};

static void put_part(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct putting *p = context;
	const struct value_coding *values = &p->m->values;
	const size_t width = value_bytes(values->type);
	uint32_t crc = part ? 0 : p->before;

	p->bad[part] = p->m->count;
	for (uint64_t i = begin, n; i < end; i += n) {
		n = end - i < VALUES_STEP ? end - i : VALUES_STEP;
		const size_t finite = first_nonfinite(p->value + i, n);

		if (finite < n) {
			p->bad[part] = (uint32_t)(i + finite);
			break;
		}
		values_encode(values->type, p->m->scale, p->value + i, n, p->out + width * i,
			      p->decoded + i);
		crc = crc32c(crc, p->out + width * i, width * n);
	}
	p->crc[part] = (struct crc_part){ crc, (end - begin) * width };
}

/* Writes the values. Continues crc over them and their padding, which is already zero, and returns
 * it. If a value is not finite, m->bad becomes its index, otherwise m->count. */
static uint32_t values_put(struct team *team, struct message *m, const float *value, float *decoded,
			   uint8_t *out, uint32_t crc)
{
	struct putting p = {
		.m = m, .value = value, .decoded = decoded, .out = out, .before = crc
	};
	const uint64_t bytes = value_bytes(m->values.type) * (uint64_t)m->count;
	const unsigned parts = team_split(team, m->count, VALUES_STEP, put_part, &p);

	m->bad = m->count;
	for (unsigned i = 0; i < parts && m->bad == m->count; i++)
		m->bad = p.bad[i];
	return crc32c(crc32c_of_parts(p.crc, parts), out + bytes,
		      section_of_values(m->count, &m->values) - bytes);
}

/* As values_put(), for values in few bits. */
static uint32_t few_bits_put(struct team *team, struct message *m, const uint32_t *index,
			     const float *value, float *decoded, uint8_t *out, uint32_t crc)
{
	const struct rounding rounding = { m->stream, m->first, index };

	m->bad = (uint32_t)few_bits_encode(team, &m->values, m->scale, value, m->count, &rounding,
					   out, decoded);
	return copy_checked(team, crc, out, out, section_of_values(m->count, &m->values));
}

size_t message_encode(struct team *team, struct message *m, const uint32_t *index,
		      const float *value, float *decoded, uint8_t *out, size_t cap)
{
	uint8_t *payload = out + MESSAGE_HEADER_BYTES, *values;
	const int few_bits = value_few_bits(m->values.type);
	uint64_t payload_bytes;
	uint32_t crc;
	int finite = 1;

	if (!index)
		m->count = m->span;
	assert(m->count <= m->span && m->part < m->parts);
	assert(cap >= (m->kind == MESSAGE_SUPPORT ? message_support_bound(m->span, m->count) :
						    message_bound(m->span, m->count, m->values)));
	(void)cap;
	m->scale = m->kind == MESSAGE_SUPPORT ? 1 :
		   few_bits ? few_bits_fit(&m->values, value, m->count, m->range) :
			      value_scale(m->values.type, value, m->count);
	m->coding = cheapest(team, m, index, &payload_bytes);
	assert(payload_bytes <= UINT32_MAX - MESSAGE_HEADER_BYTES);
	m->payload_bytes = (uint32_t)payload_bytes;
	if (payload_bytes)
		put_le32(payload + payload_bytes - 4, 0); /* the padding, if there is any */
	if (m->coding == CODING_DENSE && m->count < m->span) {
		memset(payload, 0, payload_bytes);
		finite = scatter(m, index, value, decoded, payload);
		m->count = m->span;
		crc = crc32c(0, payload, payload_bytes);
	} else {
		values = payload + payload_bytes - section_of(m, m->count);
		if (m->coding != CODING_SEEDED && m->coding != CODING_AGREED)
			index_encode(team, m->coding, index, m->count, m->span, payload,
				     (uint64_t)(values - payload));
		crc = copy_checked(team, 0, payload, payload, (uint64_t)(values - payload));
		if (m->kind != MESSAGE_SUPPORT) {
			crc = few_bits ? few_bits_put(team, m, index, value, decoded, values, crc) :
					 values_put(team, m, value, decoded, values, crc);
			finite = m->bad == m->count;
		}
	}
	if (!finite)
		return 0;
	header_put(m, crc, out);
	return MESSAGE_HEADER_BYTES + (size_t)payload_bytes;
}

size_t message_head(struct message *m, uint32_t payload_crc, uint8_t *out)
{
	if (m->coding == CODING_DENSE)
		m->count = m->span;
	header_put(m, payload_crc, out);
	return message_bytes(m);
}

/* ---- receiving ---- */

__attribute__((format(printf, 2, 3))) static int refuse_message(const char **why,
								const char *format, ...)
{
	static _Thread_local char text[192];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return refuse_bytes(why, text);
}

/* Checks the conditions that every message must meet, on either side. */
static int header_check(const uint8_t *h, const struct message *m, const char **why)
{
	const char *text;

	if (m->kind < MESSAGE_PUSH || m->kind > MESSAGE_PARK)
		return refuse_message(why, "unknown message kind %u", h[6]);
	if (m->coding > CODING_RUN && m->coding != CODING_SEEDED && m->coding != CODING_AGREED)
		return refuse_message(why, "unknown index coding %u", h[7]);
	if ((unsigned)m->values.type >= VALUE_TYPES || value_eight(m->values.type))
		return refuse_message(why, "unknown value type %u", h[8]);
	if (m->kind == MESSAGE_SUPPORT &&
	    (m->coding == CODING_AGREED || m->coding == CODING_SEEDED))
		return refuse_message(why, "a support without positions");
	if (m->count > m->span)
		return refuse_message(why, "%u coordinates for a shard of %u elements", m->count,
				      m->span);
	if (m->coding == CODING_DENSE && m->count != m->span)
		return refuse_message(
			why, "a dense message has %u values, but the shard has %u elements",
			m->count, m->span);
	if (value_few_bits(m->values.type)) {
		if (!few_bits_valid(&m->values, m->scale, &text))
			return refuse_message(why, "%s", text);
	} else if (!value_scale_valid(m->values.type, m->scale)) {
		return refuse_message(why, "scale %g is not allowed for its value type",
				      (double)m->scale);
	} else if (m->values.bits || m->values.block) {
		return refuse_message(why,
				      "%u bits in blocks of %u for values without bits and blocks",
				      m->values.bits, m->values.block);
	}
	if (!(m->lr >= 0 && m->lr <= FLT_MAX))
		return refuse_message(why, "learning rate %g is not a finite number >= 0",
				      (double)m->lr);
	if (!(m->norm >= 0 && m->norm <= FLT_MAX))
		return refuse_message(why, "norm %g is not a finite number >= 0", (double)m->norm);
	if (m->part >= m->parts)
		return refuse_message(why, "part %u of %u parts", m->part, m->parts);
	return 0;
}

/* Copies the header into h, which is private, and checks it. */
static int take_header(const void *slot, size_t slot_bytes, uint8_t h[MESSAGE_HEADER_BYTES],
		       struct message *m, const char **why)
{
	struct message got = { 0 }; /* the members that only the sender uses stay 0 */
	int rc;

	if (slot_bytes < MESSAGE_HEADER_BYTES)
		return refuse_message(why, "a slot of %zu bytes is too small for a header",
				      slot_bytes);
	copy_from_peer(h, slot, MESSAGE_HEADER_BYTES);
	if (get_le32(h) != MAGIC)
		return refuse_message(why, "not a message: the magic is 0x%08x", get_le32(h));
	if (get_le16(h + 4) != SLUICE_WIRE_VERSION)
		return refuse_message(why, "wire version %u, but this side uses %u",
				      get_le16(h + 4), SLUICE_WIRE_VERSION);
	if (get_le32(h + HEADER_CRC_OFFSET) != crc32c(0, h, HEADER_CRC_OFFSET))
		return refuse_message(why, "the header's checksum is wrong");
	header_get(h, &got);
	rc = header_check(h, &got, why);
	if (rc)
		return rc;
	if (got.payload_bytes > slot_bytes - MESSAGE_HEADER_BYTES)
		return refuse_message(why, "a payload of %u bytes exceeds the slot of %zu",
				      got.payload_bytes, slot_bytes);
	*m = got;
	return 0;
}

int message_peek(const void *slot, size_t slot_bytes, struct message *m, uint32_t *payload_crc,
		 const char **why)
{
	uint8_t h[MESSAGE_HEADER_BYTES];
	int rc = take_header(slot, slot_bytes, h, m, why);

	if (!rc)
		*payload_crc = get_le32(h + PAYLOAD_CRC_OFFSET);
	return rc;
}

int message_copy(struct team *team, const void *slot, size_t slot_bytes, uint8_t *copy,
		 size_t copy_cap, struct message *m, const char **why)
{
	const uint8_t *from = slot;
	uint8_t h[MESSAGE_HEADER_BYTES];
	struct message got;
	uint32_t crc;
	int rc;

	if (copy_cap < MESSAGE_HEADER_BYTES)
		return refuse_message(why, "a buffer of %zu bytes is too small for a header",
				      copy_cap);
	rc = take_header(slot, slot_bytes, h, &got, why);
	if (rc)
		return rc;
	if (got.payload_bytes > copy_cap - MESSAGE_HEADER_BYTES)
		return refuse_message(why, "a payload of %u bytes exceeds the buffer of %zu",
				      got.payload_bytes, copy_cap);
	memcpy(copy, h, sizeof(h));
	crc = copy_checked(team, 0, copy + MESSAGE_HEADER_BYTES, from + MESSAGE_HEADER_BYTES,
			   got.payload_bytes);
	if (crc != get_le32(h + PAYLOAD_CRC_OFFSET))
		return refuse_message(why, "the payload's checksum is wrong");
	*m = got;
	return 0;
}

int message_check(const struct message *m, const struct message_expect *want, const char **why)
{
	const struct {
		const char *name;
		uint64_t is, expected;
	} fields[] = {
		{ "kind", m->kind, want->kind },    { "rank", m->rank, want->rank },
		{ "epoch", m->epoch, want->epoch }, { "model", m->model, want->model },
		{ "shard", m->shard, want->shard }, { "seq", m->seq, want->seq },
		{ "step", m->step, want->step },    { "phase", m->phase, want->phase },
		{ "span", m->span, want->span },
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (fields[i].is != fields[i].expected && fields[i].expected != MESSAGE_ANY)
			return refuse_message(why, "%s %llu where %llu is expected", fields[i].name,
					      (unsigned long long)fields[i].is,
					      (unsigned long long)fields[i].expected);
	if ((m->coding == CODING_AGREED) != want->agreed)
		return refuse_message(why, "%s",
				      want->agreed ?
					      "it has positions although the support is agreed" :
					      "it has no positions although no support is agreed");
	if (want->agreed && m->count != want->count_max)
		return refuse_message(why, "%u coordinates instead of the %llu agreed ones",
				      m->count, (unsigned long long)want->count_max);
	if (m->count > want->count_max)
		return refuse_message(why, "%u coordinates where at most %llu are expected",
				      m->count, (unsigned long long)want->count_max);
	return 0;
}

const char message_nonfinite[] = "a value is NaN or infinite; if sums overflowed, lower the "
				 "learning rate or clip= the gradients";

/* Arguments and results of get_part(). */
struct getting {
	const struct message *m;
	const uint8_t *in;
	float *value;
	int refused[TEAM_PARTS];
};

static void get_part(void *context, unsigned part, uint64_t begin, uint64_t end)
{
	struct getting *g = context;
	const struct value_coding *values = &g->m->values;

	g->refused[part] = values_decode(values->type, g->m->scale,
					 g->in + value_bytes(values->type) * begin, end - begin,
					 g->value + begin);
}

static int values_get(struct team *team, const struct message *m, const uint8_t *in, float *value)
{
	struct getting g = { .m = m, .in = in, .value = value };
	const unsigned parts = team_split(team, m->count, VALUES_STEP, get_part, &g);
	int refused = 0;

	for (unsigned i = 0; i < parts; i++)
		refused |= g.refused[i];
	return refused;
}

int message_decode(struct team *team, const struct message *m, const uint8_t *copy, uint32_t *index,
		   float *value, const char **why)
{
	const uint8_t *payload = copy + MESSAGE_HEADER_BYTES, *values;
	const uint64_t section = section_of(m, m->count);
	const uint64_t used = m->kind == MESSAGE_SUPPORT ? 0 : values_length(m->count, &m->values);
	const char *text;

	if (m->payload_bytes < section)
		return refuse_message(why, "a payload of %u bytes cannot hold %u values",
				      m->payload_bytes, m->count);
	if (m->coding == CODING_SEEDED || m->coding == CODING_AGREED) {
		if (m->payload_bytes != section)
			return refuse_message(
				why,
				"%u bytes of positions, but a seeded or agreed support has none",
				m->payload_bytes - (uint32_t)section);
		if (m->coding == CODING_SEEDED)
			seeded_support(m->kind == MESSAGE_DELTA, m->stream.seed, m->step, m->shard,
				       m->span, m->count, index);
	} else if (index_decode(team, m->coding, payload, m->payload_bytes - section, m->count,
				m->span, index, &text))
		return refuse_message(why, "%s", text);
	values = payload + m->payload_bytes - section;
	for (uint64_t i = used; i < section; i++)
		if (values[i])
			return refuse_message(why, "padding after the values is not zero");
	if (m->kind == MESSAGE_SUPPORT)
		return 0;
	if (value_few_bits(m->values.type)) {
		if (few_bits_decode(team, &m->values, m->scale, values, m->count, value, &text))
			return refuse_message(why, "%s", text);
	} else if (values_get(team, m, values, value)) {
		return refuse_message(why, "%s", message_nonfinite);
	}
	return 0;
}
