/* SPDX-License-Identifier: BSD-3-Clause
 * Messages that a broken or hostile peer could write, and who must refuse them for what reason. */
#ifndef TESTS_UNIT_HOSTILE_H
#define TESTS_UNIT_HOSTILE_H
#include "compress/message.h"
#include <stddef.h>
#include <stdint.h>

/* The receiver these messages are addressed to: rank 3's push into its slot of SLOT_BYTES for shard 5
 * of model 6, phase 1, epoch 2, seq 40, step 41; it has room for COUNT_MAX coordinates. */
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
	const char *why;   /* part of the reason given */
	uint32_t span;     /* of the shard in the receiver's eyes */
};
extern const struct hostile hostile_messages[];
extern const size_t hostile_count;

/* Right lengths and checksums for the slot's payload_bytes. */
void slot_seal(struct slot *s);
static inline uint8_t *slot_payload(struct slot *s)
{
	return s->bytes + MESSAGE_HEADER_BYTES;
}
#endif
