/* SPDX-License-Identifier: BSD-3-Clause
 * See frame.h. */
#include "rdma/frame.h"
#include "base/bytes.h"
#include "base/error.h"
#include "sluice.h"
#include <stdio.h>
#include <string.h>

enum {
	REGION_MAGIC = 0x4e475256, /* "VRGN" */
	REGION_KEYS_CRC_AT = REGION_HEAD_BYTES - 8,
	REGION_CRC_AT = REGION_HEAD_BYTES - 4,
	QPN_LEAST = 2,
	NUMBER_MOST = 0xffffff, /* the largest number of a queue pair, and of a packet */
	READS_MOST = 255
};

static size_t body_bytes(unsigned kind)
{
	switch (kind) {
	case FRAME_HELLO: return AUTH_NONCE_BYTES;
	case FRAME_ALIVE: return AUTH_TAG_BYTES;
	case FRAME_PROOF: return AUTH_NONCE_BYTES + AUTH_TAG_BYTES + PROOF_SENT_BYTES;
	case FRAME_ACCEPT: return AUTH_TAG_BYTES + ACCEPT_SENT_BYTES;
	case FRAME_REFUSAL: return 4 + AUTH_TAG_BYTES;
	case FRAME_END: return AUTH_TAG_BYTES;
	default: return 0;
	}
}

void greeting_encode(const struct slot_address *slot, const uint8_t control[REGION_HEAD_BYTES],
		     uint8_t out[GREETING_BYTES])
{
	put_le64(out, slot->address);
	put_le32(out + 8, slot->rkey);
	put_le32(out + 12, slot->credits);
	memcpy(out + SLOT_ADDRESS_BYTES, control, REGION_HEAD_BYTES);
}

void greeting_decode(const uint8_t bytes[GREETING_BYTES], struct slot_address *slot_out,
		     uint8_t control_out[REGION_HEAD_BYTES])
{
	slot_out->address = get_le64(bytes);
	slot_out->rkey = get_le32(bytes + 8);
	slot_out->credits = get_le32(bytes + 12);
	memcpy(control_out, bytes + SLOT_ADDRESS_BYTES, REGION_HEAD_BYTES);
}

/* Writes the part of a PROOF or ACCEPT that follows its tag. Returns the length of that part. */
static size_t put_sent(const struct frame *frame, uint8_t *out)
{
	put_le64(out, frame->received);
	if (frame->kind == FRAME_PROOF) {
		put_le32(out + 8, frame->attempt);
		return PROOF_SENT_BYTES;
	}
	greeting_encode(&frame->slot, frame->control, out + 8);
	put_le32(out + 8 + GREETING_BYTES, frame->mtu);
	return ACCEPT_SENT_BYTES;
}

static void put_ends(const struct frame *frame, uint8_t *out)
{
	put_le32(out, frame->qpn);
	put_le32(out + 4, frame->psn);
	put_le32(out + 8, frame->reads);
}

static int get_ends(const uint8_t *bytes, struct frame *out)
{
	out->ends = 1;
	out->qpn = get_le32(bytes);
	out->psn = get_le32(bytes + 4);
	out->reads = get_le32(bytes + 8);
	return out->qpn < QPN_LEAST || out->qpn > NUMBER_MOST || out->psn > NUMBER_MOST ||
			       !out->reads || out->reads > READS_MOST ?
		       -1 :
		       0;
}

size_t frame_signed(const struct frame *frame, uint8_t out[FRAME_SIGNED_MAX])
{
	const size_t n = put_sent(frame, out);

	put_ends(frame, out + n);
	memcpy(out + n + FRAME_ENDS_BYTES, frame->gid, FRAME_GID_BYTES);
	return n + FRAME_ENDS_BYTES + FRAME_GID_BYTES;
}

size_t frame_encode(const struct frame *frame, uint8_t out[FRAME_MAX])
{
	size_t length = FRAME_HEADER_BYTES + body_bytes(frame->kind);
	uint8_t *body = out + FRAME_HEADER_BYTES;

	out[0] = 'S';
	out[1] = 'L';
	out[2] = (uint8_t)frame->kind;
	out[3] = (uint8_t)length;
	put_le32(out + 4, frame->rank);
	switch (frame->kind) {
	case FRAME_HELLO: memcpy(body, frame->nonce, AUTH_NONCE_BYTES); break;
	case FRAME_ALIVE: memcpy(body, frame->tag, AUTH_TAG_BYTES); break;
	case FRAME_PROOF:
		memcpy(body, frame->nonce, AUTH_NONCE_BYTES);
		memcpy(body + AUTH_NONCE_BYTES, frame->tag, AUTH_TAG_BYTES);
		put_sent(frame, body + AUTH_NONCE_BYTES + AUTH_TAG_BYTES);
		break;
	case FRAME_ACCEPT:
		memcpy(body, frame->tag, AUTH_TAG_BYTES);
		put_sent(frame, body + AUTH_TAG_BYTES);
		break;
	case FRAME_REFUSAL:
		put_le32(body, frame->reason);
		memcpy(body + 4, frame->tag, AUTH_TAG_BYTES);
		break;
	case FRAME_END: memcpy(body, frame->tag, AUTH_TAG_BYTES); break;
	}
	if (!frame->ends)
		return length;
	put_ends(frame, out + length);
	out[3] = (uint8_t)(length + FRAME_ENDS_BYTES);
	return length + FRAME_ENDS_BYTES;
}

/* Returns 1 if a frame of this kind may have that many bytes after its header. */
static int length_is_right(unsigned kind, size_t length)
{
	const size_t least = body_bytes(kind);

	return least && (length == least || ((kind == FRAME_PROOF || kind == FRAME_ACCEPT) &&
					     length == least + FRAME_ENDS_BYTES));
}

int frame_decode(const uint8_t *bytes, size_t n, struct frame *out, const char **why)
{
	const uint8_t *body = bytes + FRAME_HEADER_BYTES;
	struct frame frame;

	if (!bytes || n < FRAME_HEADER_BYTES) {
		*why = "it sent no Sluice handshake";
		return -1;
	}
	if (bytes[0] != 'S' || bytes[1] != 'L') {
		*why = "its first bytes are not a Sluice handshake";
		return -1;
	}
	if (bytes[3] < FRAME_HEADER_BYTES ||
	    !length_is_right(bytes[2], (size_t)bytes[3] - FRAME_HEADER_BYTES)) {
		*why = "its message has an unknown kind or length";
		return -1;
	}
	if (n < bytes[3]) {
		*why = "its message is truncated";
		return -1;
	}
	memset(&frame, 0, sizeof(frame));
	frame.kind = (enum frame_kind)bytes[2];
	frame.rank = get_le32(bytes + 4);
	switch (frame.kind) {
	case FRAME_HELLO: memcpy(frame.nonce, body, AUTH_NONCE_BYTES); break;
	case FRAME_ALIVE: memcpy(frame.tag, body, AUTH_TAG_BYTES); break;
	case FRAME_PROOF:
		memcpy(frame.nonce, body, AUTH_NONCE_BYTES);
		memcpy(frame.tag, body + AUTH_NONCE_BYTES, AUTH_TAG_BYTES);
		frame.received = get_le64(body + AUTH_NONCE_BYTES + AUTH_TAG_BYTES);
		frame.attempt = get_le32(body + AUTH_NONCE_BYTES + AUTH_TAG_BYTES + 8);
		break;
	case FRAME_ACCEPT:
		memcpy(frame.tag, body, AUTH_TAG_BYTES);
		frame.received = get_le64(body + AUTH_TAG_BYTES);
		greeting_decode(body + AUTH_TAG_BYTES + 8, &frame.slot, frame.control);
		frame.mtu = get_le32(body + AUTH_TAG_BYTES + 8 + GREETING_BYTES);
		break;
	case FRAME_REFUSAL:
		frame.reason = get_le32(body);
		memcpy(frame.tag, body + 4, AUTH_TAG_BYTES);
		break;
	case FRAME_END: memcpy(frame.tag, body, AUTH_TAG_BYTES); break;
	}
	if (bytes[3] > FRAME_HEADER_BYTES + body_bytes(frame.kind) &&
	    get_ends(body + body_bytes(frame.kind), &frame)) {
		*why = "its message names an impossible queue pair";
		return -1;
	}
	*out = frame;
	return 0;
}

/* ---- keys -------------------------------------------------------------------- */

enum { KEYS_HEADER_BYTES = 8, KEY_BYTES = 8 };

size_t key_table_encode(const struct key_table *table, uint8_t out[KEY_TABLE_BYTES])
{
	uint8_t *at = out + KEYS_HEADER_BYTES;

	put_le32(out, table->link);
	put_le32(out + 4, table->n);
	for (uint32_t i = 0; i < table->n; i++, at += KEY_BYTES) {
		put_le32(at, table->key[i].id);
		put_le32(at + 4, table->key[i].rkey);
	}
	return (size_t)(at - out);
}

/* Returns 1 if the keys of each region are adjacent, and no region has more than REGION_KEYS_MOST
 * keys. */
static int key_table_ordered(const struct key_table *table)
{
	uint32_t run = 0;

	for (uint32_t i = 0; i < table->n; i++) {
		const uint32_t id = table->key[i].id;

		run = i && table->key[i - 1].id == id ? run + 1 : 1;
		if (run > REGION_KEYS_MOST)
			return 0;
		for (uint32_t j = 0; j + run <= i; j++)
			if (table->key[j].id == id)
				return 0;
	}
	return 1;
}

int key_table_decode(const uint8_t bytes[KEY_TABLE_BYTES], struct key_table *out, char why[80])
{
	uint8_t copy[KEY_TABLE_BYTES];
	struct key_table table;

	memcpy(copy, bytes, sizeof(copy));
	table.link = get_le32(copy);
	table.n = get_le32(copy + 4);
	if (table.n > KEYS_MAX) {
		snprintf(why, 80, "its table of keys has %u entries, but at most %d are allowed",
			 table.n, KEYS_MAX);
		return -1;
	}
	for (uint32_t i = 0; i < table.n; i++) {
		table.key[i].id = get_le32(copy + KEYS_HEADER_BYTES + i * KEY_BYTES);
		table.key[i].rkey = get_le32(copy + KEYS_HEADER_BYTES + i * KEY_BYTES + 4);
	}
	if (!key_table_ordered(&table)) {
		snprintf(why, 80, "its table of keys is out of order");
		return -1;
	}
	out->link = table.link;
	out->n = table.n;
	memcpy(out->key, table.key, table.n * sizeof(table.key[0]));
	return 0;
}

uint32_t key_table_find(const struct key_table *table, uint32_t id, uint32_t *first_out)
{
	uint32_t first = 0, n = 0;

	while (first < table->n && table->key[first].id != id)
		first++;
	while (first + n < table->n && table->key[first + n].id == id)
		n++;
	*first_out = first;
	return n;
}

/* ---- regions ----------------------------------------------------------------- */

uint64_t verbs_region_windows(uint64_t bytes, uint64_t window)
{
	return bytes / window + (bytes % window != 0);
}

void verbs_region_encode(const struct verbs_region *region, uint8_t out[REGION_DESCRIPTOR_BYTES])
{
	uint8_t *more = out + REGION_HEAD_BYTES;

	memset(out, 0, REGION_DESCRIPTOR_BYTES);
	for (uint32_t i = 1; i < region->keys; i++)
		put_le32(more + (i - 1) * 4, region->rkey[i]);
	put_le32(out, REGION_MAGIC);
	put_le32(out + 4, region->access);
	put_le64(out + 8, region->bytes);
	put_le64(out + 16, region->address);
	put_le32(out + 24, region->rkey[0]);
	put_le32(out + 28, region->owner);
	put_le32(out + 32, region->user);
	put_le32(out + 36, region->id);
	put_le32(out + 40, region->link);
	put_le64(out + 44, region->window);
	put_le32(out + 52, region->keys);
	put_le32(out + REGION_KEYS_CRC_AT, crc32c(0, more, (region->keys - 1) * 4));
	put_le32(out + REGION_CRC_AT, crc32c(0, out, REGION_CRC_AT));
}

/* Returns 1 if the keys cover the region without a gap. A single key always does. */
static int keys_cover(const struct verbs_region *region)
{
	if (region->keys == 1)
		return !region->window;
	return region->keys && region->keys <= REGION_KEYS_MOST && region->window &&
	       verbs_region_windows(region->bytes, region->window) == region->keys;
}

int verbs_region_decode(const uint8_t bytes[REGION_DESCRIPTOR_BYTES], uint32_t owner, uint32_t user,
			struct verbs_region *out)
{
	uint8_t in[REGION_DESCRIPTOR_BYTES], *more = in + REGION_HEAD_BYTES;
	struct verbs_region region;

	memcpy(in, bytes, sizeof(in));
	region = (struct verbs_region){
		.access = get_le32(in + 4),
		.bytes = get_le64(in + 8),
		.address = get_le64(in + 16),
		.rkey = { get_le32(in + 24) },
		.owner = get_le32(in + 28),
		.user = get_le32(in + 32),
		.id = get_le32(in + 36),
		.link = get_le32(in + 40),
		.window = get_le64(in + 44),
		.keys = get_le32(in + 52),
	};
	if (get_le32(in) != REGION_MAGIC ||
	    get_le32(in + REGION_CRC_AT) != crc32c(0, in, REGION_CRC_AT))
		return fail(SLUICE_EWIRE, "rank %u described a region with a wrong checksum",
			    owner);
	if (region.access == 0 || region.access & ~(unsigned)(REGION_READ | REGION_WRITE) ||
	    region.bytes == 0 || region.address + region.bytes < region.address)
		return fail(SLUICE_EWIRE,
			    "rank %u described a region of invalid access, size or address", owner);
	if (region.owner != owner || region.user != user)
		return fail(SLUICE_EWIRE, "rank %u gave rank %u a region of rank %u for rank %u",
			    owner, user, region.owner, region.user);
	if (!keys_cover(&region))
		return fail(SLUICE_EWIRE,
			    "rank %u described a region of %llu bytes with %u keys of %llu bytes, "
			    "which do not cover it",
			    owner, (unsigned long long)region.bytes, region.keys,
			    (unsigned long long)region.window);
	if (get_le32(in + REGION_KEYS_CRC_AT) != crc32c(0, more, (region.keys - 1) * 4))
		return fail(SLUICE_EWIRE, "rank %u described a region whose keys are damaged",
			    owner);
	for (uint32_t i = 1; i < region.keys; i++)
		region.rkey[i] = get_le32(more + (i - 1) * 4);
	*out = region;
	return SLUICE_OK;
}
