/* SPDX-License-Identifier: BSD-3-Clause
 * Messages that a broken or hostile peer could write, and who must refuse them for what reason. */
#ifndef TESTS_UNIT_HOSTILE_H
#define TESTS_UNIT_HOSTILE_H
#include "compress/message.h"
#include <stddef.h>
#include <stdint.h>

/* The receiver these messages are addressed to: rank 3's push into its slot of SLOT_BYTES for shard
 * 5 of model 6, phase 1, epoch 2, seq 40, step 41; it has room for COUNT_MAX coordinates. */
enum { SLOT_BYTES = 512, SPAN = 200, COUNT_MAX = 20 };

struct slot {
	uint8_t bytes[SLOT_BYTES];
	uint32_t payload_bytes;
};

enum stage { ACCEPTED, COPY, CHECK, DECODE };

struct hostile {
	const char *name;
	void (*make)(struct slot *s);
	enum stage refused_by;
	const char *why; /* part of the reason given */
	uint32_t span;   /* of the shard in the receiver's eyes */
};
/* NULL behind the last one. */
const struct hostile *hostile_message(size_t i);
/* Parts of these, each up to one without a name. */
extern const struct hostile hostile_indices[], hostile_few_bits[];

/* Right lengths and checksums for the slot's payload_bytes. */
void slot_seal(struct slot *s);
static inline uint8_t *slot_payload(struct slot *s)
{
	return s->bytes + MESSAGE_HEADER_BYTES;
}

/* A good header of a push; the payload is the caller's to add and to seal. */
void slot_start(struct slot *s, enum index_coding coding, enum value_type type, uint32_t span,
		uint32_t count);
void slot_add8(struct slot *s, uint8_t v);
void slot_add16(struct slot *s, uint16_t v);
void slot_add32(struct slot *s, uint32_t v);
void slot_add_floats(struct slot *s, uint32_t n);
/* A good message, but for one byte of its payload: checksums agree. */
void slot_spoil(struct slot *s, void (*good)(struct slot *s), size_t at, uint8_t byte);
/* The header's checksum alone. */
void slot_seal_header(struct slot *s);
/* Another span and count in the header. */
void slot_count(struct slot *s, uint32_t span, uint32_t count);
#endif
