/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzz target for what ranks tell each other over RDMA before and besides messages: the private
 * data of connections, descriptors of regions, and the table of a peer's keys. Input: one byte that
 * chooses the decoder, one of options, then the bytes as another machine sent them. What is
 * accepted is encoded again and must be the same. */
#include "fuzz.h"
#include "base/bytes.h"
#include "rdma/verbs_register.h"

enum { LEAVE_CRC = 1 };
enum { OWNER = 3, USER = 5, LINK = 7 };

/* rdma_cm pads what was sent: bytes behind a frame are not looked at. */
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
	struct wire_region region;
	int rc;

	memcpy(bytes, data, n < sizeof(bytes) ? n : sizeof(bytes));
	if (!(options & LEAVE_CRC))
		put_le32(bytes + sizeof(bytes) - 4, crc32c(0, bytes, sizeof(bytes) - 4));
	begin();
	rc = wire_region_decode(bytes, OWNER, USER, &region);
	if (rc) {
		expect_refusal(rc, SLUICE_EWIRE, SLUICE_EWIRE);
		return;
	}
	require(region.bytes && region.address + region.bytes >= region.address,
		"a region that wraps was accepted");
	wire_region_encode(&region, again);
	require(memcmp(again, bytes, 44) == 0, "an accepted region differs when it is encoded");
}

static void run_keys(const uint8_t *data, size_t n)
{
	struct verbs *v = calloc(1, sizeof(*v));
	struct verbs_endpoint *ep = calloc(1, sizeof(*ep));
	struct verbs_remote remote = { .id = 1, .rkey = 17 };
	struct wire_region wire = { .id = 2, .link = LINK, .rkey = 34 };
	uint32_t rkey;
	int rc;

	require(v && ep, "no memory");
	v->log_entries = 16;
	ep->endpoint.transport = &v->transport;
	ep->remotes = &remote;
	ep->slot = get_memory(SLOT_BYTES);
	memset(ep->slot, 0, SLOT_BYTES);
	memcpy(ep->slot + SLOT_KEYS, data, n < SLOT_BYTES - SLOT_KEYS ? n : SLOT_BYTES - SLOT_KEYS);
	if (keys_take(ep) < 0) {
		require(ep->why[0] && !ep->n_peer_keys && remote.rkey == 17,
			"a refused table was taken over");
	} else {
		require(ep->n_peer_keys <= KEYS_MAX, "a table is longer than possible");
		begin();
		rc = keys_of(ep, &wire, &rkey);
		if (rc)
			expect_refusal(rc, SLUICE_EWIRE, SLUICE_EWIRE);
	}
	free(ep->slot);
	free(ep);
	free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes;

	if (size < 2)
		return 0;
	bytes = get_memory(size - 2);
	memcpy(bytes, data + 2, size - 2);
	switch (data[0] % 3) {
	case 0: run_frame(bytes, size - 2); break;
	case 1: run_region(bytes, size - 2, data[1]); break;
	default: run_keys(bytes, size - 2);
	}
	free(bytes);
	return 0;
}
