/* SPDX-License-Identifier: BSD-3-Clause
 * See snapshot.h. */
#include "model/snapshot.h"
#include "base/error.h"
#include "sluice.h"

static const struct value_coding as_it_is = { VALUE_F32, 0, 0, 0 };

uint32_t snapshot_parts(uint32_t span)
{
	return span / SNAPSHOT_PART + (span % SNAPSHOT_PART != 0);
}

struct snapshot_part snapshot_part(uint32_t span, uint32_t part)
{
	uint32_t begin = part * SNAPSHOT_PART, left = span - begin;
	uint32_t here = left < SNAPSHOT_PART ? left : SNAPSHOT_PART;

	return (struct snapshot_part){ begin, here,
				       part * message_bound(SNAPSHOT_PART, SNAPSHOT_PART, as_it_is),
				       message_bound(here, here, as_it_is) };
}

size_t snapshot_bytes(uint32_t span)
{
	const struct snapshot_part last = snapshot_part(span, snapshot_parts(span) - 1);

	return last.offset + last.bytes;
}

size_t snapshot_part_bytes(uint32_t span)
{
	return snapshot_part(span, 0).bytes;
}

int snapshot_write(const struct message *like, float *vector, uint32_t span, uint8_t *out)
{
	for (uint32_t i = 0; i < snapshot_parts(span); i++) {
		const struct snapshot_part at = snapshot_part(span, i);
		struct message m = *like;

		m.span = m.count = at.span;
		m.part = (uint16_t)i;
		m.parts = (uint16_t)snapshot_parts(span);
		/* Encoding writes the decoded values back to the vector. They equal the originals,
		 * so the vector does not change. */
		if (!message_encode(NULL, &m, NULL, vector + at.begin, vector + at.begin,
				    out + at.offset, at.bytes))
			return SLUICE_ENUMERIC;
	}
	return 0;
}

int snapshot_take(struct message_expect *want, uint8_t *bytes, uint32_t part, float *vector,
		  uint32_t span, const char **why)
{
	const struct snapshot_part at = snapshot_part(span, part);
	struct message_expect here = *want;
	struct message m;
	int rc;

	here.span = here.count_max = at.span;
	if ((rc = message_copy(NULL, bytes, at.bytes, bytes, at.bytes, &m, why)) ||
	    (rc = message_check(&m, &here, why)))
		return rc;
	if (m.part != part || m.parts != snapshot_parts(span) || m.coding != CODING_DENSE)
		return refuse_bytes(why, "it is another part of the snapshot than expected");
	want->seq = m.seq;
	return message_decode(NULL, &m, bytes, NULL, vector + at.begin, why);
}
