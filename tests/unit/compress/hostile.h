/* SPDX-License-Identifier: BSD-3-Clause
 * Messages that a broken or hostile peer could write, each with the stage that must refuse it and
 * the reason. */
#ifndef TESTS_UNIT_HOSTILE_H
#define TESTS_UNIT_HOSTILE_H
#include "compress/message.h"
#include <stddef.h>
#include <stdint.h>

/* The receiver of these messages: rank 3's push into its slot of SLOT_BYTES for shard 5 of model 6,
 * phase 1, epoch 2, seq 40, step 41; it has room for COUNT_MAX coordinates. */
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
	const char *why; /* part of the expected explanation */
	uint32_t span;   /* the receiver's number of elements in the shard */
};
/* Returns message i, or NULL if i is beyond the last one. */
const struct hostile *hostile_message(size_t i);
/* Further messages of that list. Each array ends with an entry without a name. */
extern const struct hostile hostile_indices[], hostile_few_bits[];

/* Sets the lengths and checksums that match the slot's payload_bytes. */
void slot_seal(struct slot *s);
static inline uint8_t *slot_payload(struct slot *s)
{
	return s->bytes + MESSAGE_HEADER_BYTES;
}

/* Writes a valid header of a push. The caller then adds the payload and seals it. */
void slot_start(struct slot *s, enum index_coding coding, enum value_type type, uint32_t span,
		uint32_t count);
void slot_add8(struct slot *s, uint8_t v);
void slot_add16(struct slot *s, uint16_t v);
void slot_add32(struct slot *s, uint32_t v);
void slot_add_floats(struct slot *s, uint32_t n);
/* Writes a valid message with one changed payload byte and matching checksums. */
void slot_spoil(struct slot *s, void (*good)(struct slot *s), size_t at, uint8_t byte);
/* Sets only the header's checksum. */
void slot_seal_header(struct slot *s);
/* Sets another span and count in the header. */
void slot_count(struct slot *s, uint32_t span, uint32_t count);
#endif
