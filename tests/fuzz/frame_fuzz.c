/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzz target for what ranks send each other over RDMA, except messages: the private data of
 * connections, descriptors of regions, the table of a peer's keys, and the cards in a rank's
 * record. Input: one byte that chooses the decoder, one of options, then the bytes of another
 * machine. Accepted input is encoded again and must give the same bytes. */
#include "fuzz.h"
#include "base/bytes.h"
#include "rdma/frame.h"
#include "rdma/verbs_record.h"

enum { LEAVE_CRC = 1 };
enum { OWNER = 3, USER = 5 };

/* rdma_cm pads frames, so bytes after a frame must be ignored. */
static void run_frame(const uint8_t *bytes, size_t n)
{
	struct frame frame;
	uint8_t again[FRAME_MAX];
	const char *why = NULL;
	size_t length;

	if (frame_decode(bytes, n, &frame, &why) < 0) {
		require(why && *why, "a frame was refused without a reason");
		return;
	}
	length = frame_encode(&frame, again);
	require(length <= n && memcmp(again, bytes, length) == 0,
		"an accepted frame differs when it is encoded");
}

static void run_region(const uint8_t *data, size_t n, unsigned options)
{
	uint8_t bytes[REGION_DESCRIPTOR_BYTES] = { 0 }, again[REGION_DESCRIPTOR_BYTES];
	uint8_t *keys_crc = bytes + REGION_HEAD_BYTES - 8, *crc = bytes + REGION_HEAD_BYTES - 4;
	struct verbs_region region;
	int rc;

	memcpy(bytes, data, n < sizeof(bytes) ? n : sizeof(bytes));
	if (!(options & LEAVE_CRC)) {
		const uint32_t keys = get_le32(bytes + 52);

		if (keys && keys <= REGION_KEYS_MOST)
			put_le32(keys_crc, crc32c(0, bytes + REGION_HEAD_BYTES, (keys - 1) * 4));
		put_le32(crc, crc32c(0, bytes, REGION_HEAD_BYTES - 4));
	}
	begin();
	rc = verbs_region_decode(bytes, OWNER, USER, &region);
	if (rc) {
		expect_refusal(rc, SLUICE_EWIRE, SLUICE_EWIRE);
		return;
	}
	require(region.bytes && region.address + region.bytes >= region.address,
		"a region that wraps was accepted");
	require(region.keys == 1 ? !region.window :
				   region.keys <= REGION_KEYS_MOST &&
					   (region.keys - 1) * region.window < region.bytes,
		"keys that do not cover a region were accepted");
	verbs_region_encode(&region, again);
	require(memcmp(again, bytes, REGION_HEAD_BYTES + (region.keys - 1) * 4) == 0,
		"an accepted region differs when it is encoded");
}

static void run_keys(const uint8_t *data, size_t n)
{
	struct key_table *table = calloc(1, sizeof(*table));
	uint8_t *bytes = get_memory(KEY_TABLE_BYTES), again[KEY_TABLE_BYTES];
	char why[80] = "";
	uint32_t first;

	require(table != NULL, "no memory");
	memset(bytes, 0, KEY_TABLE_BYTES);
	memcpy(bytes, data, n < KEY_TABLE_BYTES ? n : KEY_TABLE_BYTES);
	if (key_table_decode(bytes, table, why)) {
		require(why[0] && !table->n && !table->link, "a refused table was taken over");
	} else {
		require(table->n <= KEYS_MAX, "a table is longer than possible");
		require(memcmp(again, bytes, key_table_encode(table, again)) == 0,
			"an accepted table differs when it is encoded");
		for (uint32_t i = 0; i < table->n; i++) {
			const uint32_t keys = key_table_find(table, table->key[i].id, &first);

			require(first <= i && i - first < keys && keys <= REGION_KEYS_MOST,
				"a key of the table is not found");
		}
	}
	free(bytes);
	free(table);
}

/* Unknown fields are skipped, so encoding the record again may give other bytes, but must give the
 * same record. */
static void run_record(const uint8_t *bytes, size_t n)
{
	static const struct network other = { .kind = 0x24, .prefix = 8, .address = { 10 } };
	struct verbs_record record, again;
	struct network networks[NETWORKS_MOST];
	uint8_t encoded[TRANSPORT_RECORD_BYTES];
	char text[VERBS_CARD_TEXT];
	int rc;

	begin();
	rc = verbs_record_decode(bytes, n, -1, &record);
	if (rc) {
		expect_refusal(rc, SLUICE_EWIRE, SLUICE_EWIRE);
		return;
	}
	require(record.n_cards >= 1 && record.n_cards <= NETWORKS_MOST, "a record without a card");
	n = verbs_record_encode(&record, encoded);
	require(n <= sizeof(encoded), "a record is longer than possible");
	require(!verbs_record_decode(encoded, n, record.rank, &again) &&
			!memcmp(&record, &again, sizeof(record)),
		"an accepted record differs when it is encoded");
	require(verbs_record_networks(&record, networks) == record.n_cards,
		"a card has no network");
	const struct pairing m = network_pairing(networks, record.n_cards, &other, 1);
	require(m.kind == PAIRING_NONE || (m.a >= 0 && m.a < record.n_cards && !m.b),
		"ranks meet by a card that is not there");
	for (int i = 0; i < record.n_cards; i++)
		require(*verbs_card_text(&record.cards[i], text) != 0, "a card without a name");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes;

	if (size < 2)
		return 0;
	bytes = get_memory(size - 2);
	memcpy(bytes, data + 2, size - 2);
	switch (data[0] % 4) {
	case 0: run_frame(bytes, size - 2); break;
	case 1: run_region(bytes, size - 2, data[1]); break;
	case 2: run_keys(bytes, size - 2); break;
	default: run_record(bytes, size - 2);
	}
	free(bytes);
	return 0;
}
